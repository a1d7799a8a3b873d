"""Row order: does the position of a published row reveal whose it is?"""

from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import Any

import numpy as np

import microcell as mc
from benchmarks.adversary.recovery import Attack, Trials
from benchmarks.adversary.settings import Columns, Setting
from microcell import tables
from microcell.model import Integers, Table
from microcell.release import order

__all__ = ["ORACLE", "POSITIONS", "attack_oracle", "attack_positions", "confirmed"]

POSITIONS = Attack(
    "row positions",
    "everyone's class and position in the original",
    "table file",
    "a person's record",
    "1 / class size",
)

ORACLE = Attack(
    "row order as an oracle",
    "all other columns in their original order, and the settings",
    "table file",
    "everyone's confidential value",
    "1 / number of assignments",
)

Order = Callable[[Table, mc.Manifest], Integers]

AGES = np.array([31, 33, 35, 60, 62, 64])
CELLS = ((0, 1, 2), (3, 4, 5))
SCHEMA = mc.Schema(quasi=["age"], confidential=["income"])


def attack_positions(setting: Setting) -> Trials:
    """Take the i-th record of a class for that of the i-th person of the class."""
    hits, chances = [], []
    for person, members, records in setting.targets():
        guess = records[int(np.searchsorted(members, person))]
        hits.append(bool(setting.published["secret"][guess] == setting.people["secret"][person]))
        chances.append(1 / len(members))
    return Trials(tuple(hits), tuple(chances))


def attack_oracle(n_tables: int, seed: int = 0, order_of: Order | None = None) -> Trials:
    """Try all assignments of the confidential values until the order of the rows fits.

    The attacker computes the order with a key of zeros. ``order_of`` is the order to publish in, if
    not that of releases; the attacker then knows it.
    """
    rng = np.random.default_rng([seed, 5])
    hits = []
    for _ in range(n_tables):
        people = {"age": AGES, "income": rng.permutation(np.arange(10, 70, 10))}
        release = mc.anonymize(people, SCHEMA, k=3, method="mdav")
        rows = order_of(tables.read(people), release.manifest) if order_of else release.row_order
        published = {name: np.asarray(column)[rows] for name, column in release.table.items()}
        guess = _guess(published, release.manifest, order_of or _zero_key, rng)
        hits.append(guess == people["income"].tolist())
    return Trials(tuple(hits), (1 / 36,) * n_tables)


def _zero_key(table: Table, manifest: mc.Manifest) -> Integers:
    return order.row_order(table, manifest.updated(order_key="0" * 32))


def _guess(
    published: Columns, manifest: mc.Manifest, order_of: Order, rng: np.random.Generator
) -> list[int]:
    fitting = confirmed(published, lambda table: order_of(table, manifest))
    options = fitting or [item["income"].tolist() for item in candidates(published)]
    return options[int(rng.integers(len(options)))]


def candidates(published: Columns) -> Iterator[Columns]:
    """Yield every table that agrees with what the attacker knows."""
    values = [published["income"][published["age"] == age] for age in (33, 62)]
    for assigned in product(*(permutations(cell.tolist()) for cell in values)):
        incomes = np.empty(6, dtype=np.int64)
        for rows, cell in zip(CELLS, assigned, strict=True):
            incomes[list(rows)] = cell
        yield {"age": AGES, "income": incomes}


def confirmed(published: Columns, order_of: Callable[[Table], Integers]) -> list[Any]:
    """Return the candidates whose rows, put in the order computed from them, fit the file."""
    ages = np.where(AGES < 50, 33, 62)
    fitting = []
    for candidate in candidates(published):
        rows = order_of(tables.read(candidate))
        if np.array_equal(ages[rows], published["age"]) and np.array_equal(
            candidate["income"][rows], published["income"]
        ):
            fitting.append(candidate["income"].tolist())
    return fitting
