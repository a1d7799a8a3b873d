"""Rules: conditions on cells, beyond their size, that no exchange may break."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from microcell.kernels._arrays import Floats
from microcell.kernels._jit import inner_kernel, predicate
from microcell.kernels.grouping import Grouping

__all__ = ["Rule", "keeps", "no_rule"]


class Rule(NamedTuple):
    """What a cell's members must satisfy together: ``allowed`` of their rows of ``traits``, in any order."""

    traits: Floats
    """(n, t): what the rule knows of each record; no columns if there is no rule."""
    allowed: Any
    """Made by :func:`microcell.kernels._jit.predicate`."""


def no_rule(rows: int) -> Rule:
    """The rule that all cells keep."""
    return Rule(np.empty((rows, 0)), _anything())


@cache
def _anything() -> Any:
    return predicate(lambda traits: True)  # noqa: ARG005


@inner_kernel
def keeps(cells: Grouping, cell: int, rule: Rule) -> bool:
    """Whether the cell is empty or keeps the rule."""
    size, columns = cells.sizes[cell], rule.traits.shape[1]
    if columns == 0 or size == 0:
        return True
    values = np.empty((size, columns))
    for i in range(size):
        values[i] = rule.traits[cells.members[cell, i]]
    return rule.allowed(values.ctypes, size, columns)  # type: ignore[no-any-return]
