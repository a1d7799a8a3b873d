"""Every kernel module has direct tests; exact covers match brute force."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import microcell.kernels
from microcell.kernels.covering import cover_once

TESTS = Path(__file__).parents[1]


def test_every_kernel_module_is_imported_by_a_test():
    folder = Path(microcell.kernels.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    text = "\n".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py"))
    imported = set(re.findall(r"from microcell\.kernels\.(\w+) import", text))
    for names in re.findall(r"from microcell\.kernels import ([\w, ]+)", text):
        imported |= {name.strip() for name in names.split(",")}
    assert modules - imported == set()


def cheapest_cover(sets, costs, n):
    """Return the least cost of sets that contain each of n elements exactly once."""
    best = np.inf
    for count in range(1, n + 1):
        for chosen in combinations(range(len(sets)), count):
            members = [element for at in chosen for element in sets[at]]
            if sorted(members) == list(range(n)):
                best = min(best, costs[list(chosen)].sum())
    return best


@pytest.mark.parametrize("seed", range(5))
def test_exact_covers_match_brute_force(seed):
    rng = np.random.default_rng(seed)
    pairs = [np.array(pair) for pair in combinations(range(6), 2)]
    costs = rng.uniform(0.1, 1, len(pairs))
    incumbent = np.array(
        [at for at, pair in enumerate(pairs) if tuple(pair) in {(0, 1), (2, 3), (4, 5)}]
    )
    chosen = cover_once(pairs, costs / costs.sum(), incumbent, 10.0)
    assert sorted(np.concatenate([pairs[at] for at in chosen])) == list(range(6))
    assert costs[chosen].sum() == pytest.approx(cheapest_cover(pairs, costs, 6))
