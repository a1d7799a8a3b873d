"""Requirements on a release, enforced: cells that break one are merged with the neighbour that costs least.

Merging mends every measure of a class alone (its size, the diversity of its confidential values, their distance from
the table's): of none but ``delta_disclosure`` is a union worse than the worse of its parts. So the requirements can be
met if the strata, each as one cell, meet them, and that is known before any cell is made.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell import auditing, progress
from microcell.errors import OptionError, RequirementError
from microcell.kernels._jit import thread_count
from microcell.kernels.merging import Layout, find_cheapest, lay_out_cells
from microcell.measures.disclosure import (
    Pairs,
    class_values,
    in_order,
    make_pairs,
    measure_disclosure,
    number_values,
    tidy,
    worst_of,
)
from microcell.measures.requirements import ENFORCED, LOWER_IS_BETTER, OF_CONFIDENTIAL, base_of
from microcell.measures.risk import measure_risk
from microcell.model import (
    Check,
    Encoded,
    Floats,
    Integers,
    Mask,
    Measure,
    Partition,
    Schema,
    Table,
)

__all__ = [
    "Demands",
    "Enforced",
    "Merged",
    "check_function",
    "check_limits",
    "check_met",
    "enforce",
    "find_broken",
    "find_missed",
    "find_unkept",
    "merge_cells",
    "read_demands",
]

_NEAR = 1e-9
"""What lies so near a limit is compared with it as the audit tells it, that is rounded."""

_SUMMED = ("homogeneous_classes", "homogeneous_records")
"""The measures that add up over classes; the others are as bad as the worst class."""


@dataclass(frozen=True, eq=False)
class _Confidential:
    """A confidential column: the number of each row's value, and whether their order counts."""

    name: str
    codes: Integers
    ordered: bool


@dataclass(frozen=True, eq=False)
class _Demand:
    """A limit for a measure of one confidential column, or of sizes; ``name`` is as it was asked for."""

    name: str
    base: str
    limit: float
    column: _Confidential | None = None

    @property
    def lower(self) -> bool:
        """True if less is better."""
        return LOWER_IS_BETTER[self.base]

    @property
    def bound(self) -> str:
        """The limit in words."""
        return f"{'at most' if self.lower else 'at least'} {self.limit:.6g}"

    @property
    def where(self) -> str:
        """The column in words."""
        return "" if self.column is None else f" of {self.column.name}"

    def of_cells(self, sizes: Integers, pairs: Mapping[str, Pairs]) -> NDArray[Any]:
        """What each cell has of the measure."""
        if self.column is None:
            return sizes if self.base == "k" else 1 / sizes
        return class_values(self.base, pairs[self.column.name], ordered=self.column.ordered)

    def reached(self, values: NDArray[Any]) -> float:
        """The measure of a table whose cells have these values."""
        if self.base in _SUMMED:
            return float(values.sum())
        worst = float(values.max() if self.lower else values.min())
        return worst if self.column is None else tidy(worst)


@dataclass(frozen=True, eq=False)
class Demands:
    """What is required, read for a table: ``limits`` by measure, of which ``enforced`` can be mended by merging."""

    limits: Mapping[str, float]
    enforced: tuple[_Demand, ...]
    strata: Integers

    @property
    def checked(self) -> dict[str, float]:
        """The limits that only the audit of the finished release can judge."""
        return {name: limit for name, limit in self.limits.items() if base_of(name) not in ENFORCED}


def check_limits(require: Any) -> dict[str, float]:
    """The limits by measure, refused if there is no such measure, or a limit is no finite number.

    Examples
    --------
    >>> check_limits({"l_diversity": 3, "t_closeness.income": 0.3})
    {'l_diversity': 3.0, 't_closeness.income': 0.3}
    """
    if require is not None and not isinstance(require, Mapping):
        raise OptionError(
            f"require must be limits by measure, such as {{'k': 5}}, not {type(require).__name__}."
        )
    out: dict[str, float] = {}
    for name, limit in (require or {}).items():
        if not isinstance(name, str) or base_of(name) is None:
            near = get_close_matches(str(name).partition(".")[0], LOWER_IS_BETTER, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise OptionError(
                f"No measure {name!r} to require.{hint} There are {', '.join(LOWER_IS_BETTER)}."
            )
        out[name] = _as_limit(name, limit)
    return out


def _as_limit(name: str, limit: Any) -> float:
    try:
        number = (
            float("nan") if isinstance(limit, bool) or not isinstance(limit, Real) else float(limit)
        )
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        raise OptionError(f"The limit for {name} must be a finite number, not {limit!r}.")
    return number


def check_function(limits: Mapping[str, float], function: str | None) -> None:
    """Refuse limits that may have cells merged, where the cells are to be a function: it would yield other ones."""
    enforced = [name for name in limits if base_of(name) in ENFORCED]
    if enforced and function is not None:
        raise OptionError(
            f"Cells as a function do not go with a limit for {enforced[0]}: merged cells are no such function. Leave "
            "out one of them."
        )


def read_demands(
    limits: Mapping[str, float], table: Table, schema: Schema, strata: Integers
) -> Demands:
    """The limits for this table, refused if they name what it has not, or if no cells within its strata meet them.

    Raises
    ------
    OptionError
        A limit for a confidential column, or the distortion of a quasi-identifier, that the schema does not have.
    RequirementError
        The strata miss a limit even as one cell each.
    """
    for name in limits:
        _check_column(name, schema)
    enforced = {name: limit for name, limit in limits.items() if base_of(name) in ENFORCED}
    needed = {column for name in enforced for column in _columns_of(name, schema)}
    columns = {
        column.name: _Confidential(
            column.name,
            number_values(in_order(column, table.columns[column.name])),
            column.kind != "nominal",
        )
        for column in schema.confidential
        if column.name in needed
    }
    found: list[_Demand] = []
    for name, limit in enforced.items():
        base = name.partition(".")[0]
        of_columns = [
            _Demand(name, base, limit, columns[column]) for column in _columns_of(name, schema)
        ]
        found += of_columns or [_Demand(name, base, limit)]
    demands = Demands(limits, tuple(found), strata)
    _check_possible(demands, [demand for demand in found if demand.base != "delta_disclosure"])
    return demands


def _check_column(name: str, schema: Schema) -> None:
    base, dot, column = name.partition(".")
    if base in OF_CONFIDENTIAL and not schema.confidential:
        raise OptionError(
            f"{name} is of confidential columns, and the schema names none. Name them in the schema."
        )
    known = schema.confidential if base in OF_CONFIDENTIAL else schema.quasi
    if dot and column not in [item.name for item in known]:
        kind = "confidential column" if base in OF_CONFIDENTIAL else "quasi-identifier"
        raise OptionError(f"{name}: the schema has no {kind} {column!r}.")


def _columns_of(name: str, schema: Schema) -> list[str]:
    """The confidential columns that a measure is of."""
    base, _, column = name.partition(".")
    names = [item.name for item in schema.confidential] if base in OF_CONFIDENTIAL else []
    return [item for item in names if column in ("", item)]


def _check_possible(demands: Demands, asked: list[_Demand]) -> None:
    """Refuse what the strata miss as one cell each, the fewest cells that there can be."""
    strata = int(demands.strata.max(initial=0)) + 1
    whole = (
        "the whole table is one cell" if strata == 1 else f"each of the {strata} strata is one cell"
    )
    told = [
        f"{demand.name} cannot be met: it is {reached:.6g}{demand.where} even if {whole}, required {demand.bound}."
        for demand, reached in _find_unmet(asked, demands.strata)
    ]
    if told:
        more = "Relax it." if strata == 1 else "Relax it, or have fewer strata."
        raise RequirementError(f"{' '.join(told)} {more} Nothing was released.")


def check_met(demands: Demands, labels: Integers) -> None:
    """Refuse cells that break what is required, after all that merging can do."""
    told = [
        f"{demand.name} is {reached:.6g}{demand.where} after all that merging can do, required {demand.bound}."
        for demand, reached in _find_unmet(demands.enforced, labels)
    ]
    if told:
        raise RequirementError(
            f"{' '.join(told)} Relax it, or have fewer strata. Nothing was released."
        )


def _find_unmet(asked: Collection[_Demand], labels: Integers) -> Iterator[tuple[_Demand, float]]:
    """The demands that cells miss, and what they reach."""
    sizes, pairs = _count(asked, labels)
    for demand in asked:
        reached = demand.reached(demand.of_cells(sizes, pairs))
        if _misses(demand, np.array([reached]))[0]:
            yield demand, reached


def find_broken(demands: Demands, labels: Integers, alone: Mask) -> Mask:
    """The cells to be merged; of the homogeneous ones so many of the smallest as are too many."""
    sizes, pairs = _count(demands.enforced, labels)
    out = np.zeros(len(sizes), dtype=np.bool_)
    for demand in demands.enforced:
        values = demand.of_cells(sizes, pairs)
        if demand.base not in _SUMMED:
            out |= _misses(demand, values)
        elif demand.reached(values) > demand.limit:
            cells = np.flatnonzero((values > 0) & ~alone)
            cells = cells[np.argsort(sizes[cells], kind="stable")]
            enough = (
                np.searchsorted(np.cumsum(values[cells]), demand.reached(values) - demand.limit) + 1
            )
            out[cells[:enough]] = True
    return out


def _count(asked: Collection[_Demand], labels: Integers) -> tuple[Integers, dict[str, Pairs]]:
    """The size of each cell, and its pairs with the values of each column asked for."""
    columns = {column.name: column for demand in asked if (column := demand.column) is not None}
    sizes = np.bincount(labels).astype(np.int64)
    return sizes, {name: make_pairs(labels, column.codes) for name, column in columns.items()}


def _misses(demand: _Demand, values: NDArray[Any]) -> Mask:
    """Where the values miss the limit, as the audit would find it."""
    out: Mask = values > demand.limit if demand.lower else values < demand.limit
    for place in np.flatnonzero(np.abs(values - demand.limit) < _NEAR):
        told = float(values[place]) if demand.column is None else tidy(values[place])
        out[place] = told > demand.limit if demand.lower else told < demand.limit
    return out


def find_missed(published: Table, schema: Schema, limits: Mapping[str, float]) -> tuple[Check, ...]:
    """The enforced limits that a published table misses, measured as an outsider would, on its own classes."""
    asked = {name: limit for name, limit in limits.items() if base_of(name) in ENFORCED}
    if not asked:
        return ()
    labels = auditing.class_labels(published, schema.keys)
    sizes = np.bincount(labels).astype(np.int64)
    needed = {column for name in asked for column in _columns_of(name, schema)}
    columns = [
        measure_disclosure(
            labels,
            in_order(column, published.columns[column.name]),
            column.name,
            ordered=column.kind != "nominal",
        )
        for column in schema.confidential
        if column.name in needed
    ]
    k = Measure("k", int(sizes.min()), "records", False, "Records in the smallest class.")
    each = (measure for column in columns for measure in column)
    measures = {
        measure.name: measure for measure in (k, *measure_risk(sizes), *worst_of(columns), *each)
    }
    judged = (Check(measures[name], limit) for name, limit in asked.items())
    return tuple(item for item in judged if not item.met)


def find_unkept(published: Table, schema: Schema, limits: Mapping[str, Any]) -> tuple[Check, ...]:
    """The enforced limits of a manifest that a published table misses; what cannot be read of them is left out."""
    own = tuple(column for column in schema.confidential if column.name in published.columns)
    present = replace(schema, confidential=own)
    readable = {
        name: float(limit)
        for name, limit in limits.items()
        if type(limit) in (int, float)
        and (_columns_of(name, present) or base_of(name) not in OF_CONFIDENTIAL)
    }
    return find_missed(published, present, readable) if published.rows else ()


_CELLS_AT_A_TIME = 2048


@dataclass(frozen=True, eq=False)
class Merged:
    """Cells that meet what merging can mend, and in how many rounds they were merged."""

    partition: Partition
    rounds: int = 0


@dataclass(frozen=True, eq=False)
class Enforced:
    """Merged cells, in how many rounds they were, and the table that they publish, which meets the same."""

    partition: Partition
    rounds: int
    published: Table


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells that there are now: the cell of each first one, and the sum, mass and stratum of each."""

    home: Integers
    sums: Floats
    masses: Floats
    strata: Integers

    def __len__(self) -> int:
        return len(self.masses)

    @cached_property
    def alone(self) -> Mask:
        """The cells that have their stratum to themselves, and nobody to be merged with."""
        out: Mask = np.bincount(self.strata)[self.strata] == 1
        return out


def enforce(
    demands: Demands,
    partition: Partition,
    encoded: Encoded,
    schema: Schema,
    publish: Callable[[Partition], Table],
) -> Enforced:
    """The partition merged as far as the requirements want it, and the table that ``publish`` makes of it.

    Cells that publish the same are one class of that table. Where such a class breaks a requirement that its cells
    meet, as ``delta_disclosure`` allows, they are merged and the work goes on.

    Raises
    ------
    RequirementError
        What is required cannot be met by merging.
    """
    merged, rounds = merge_cells(demands, partition, encoded), 0
    while True:
        rounds += merged.rounds
        published = publish(merged.partition)
        missed = find_missed(published, schema, demands.limits)
        if not missed:
            return Enforced(merged.partition, rounds, published)
        classes = auditing.class_labels(published, schema.keys)
        if len(np.unique(classes)) >= len(merged.partition):
            raise RequirementError(
                f"{' '.join(map(str, missed))} Nothing was released; please report this as a defect."
            )
        merged = merge_cells(demands, merged.partition, encoded, alike=classes)


def merge_cells(
    demands: Demands, partition: Partition, encoded: Encoded, alike: Integers | None = None
) -> Merged:
    """The partition with cells merged until each requirement that can be enforced is met; itself if it meets them.

    In rounds: each cell that breaks a requirement asks for the neighbour in its stratum with the least Ward cost
    v w / (v + w) d^2 (v and w their records, or weights; d between their centroids); of equals, for the next by number.
    Mergers are made from the cheapest to the dearest, of equals the lower cell's first, each cell once a round.
    Limits on homogeneous classes and their records are met by merging the smallest of these. Time O(n log n + b G m) a
    round at worst, b of G cells breaking a requirement.

    Parameters
    ----------
    alike
        A number for each record; cells that share one are merged first.

    Raises
    ------
    RequirementError
        A cell breaks a requirement and has no neighbour left.
    """
    if not demands.enforced:
        return Merged(partition)
    cells = _start(partition, encoded, demands.strata, alike)
    rounds = most = 0
    while True:
        labels = cells.home[partition.labels]
        asking = np.flatnonzero(find_broken(demands, labels, cells.alone) & ~cells.alone)
        most = max(most, len(asking))
        progress.report("merging cells", most - len(asking), most)
        if not len(asking):
            break
        cells, rounds = _join(cells, np.array(list(_choose(cells, asking)))), rounds + 1
    check_met(demands, labels)
    if len(cells) == len(partition):
        return Merged(partition)
    told = ", then merged to meet requirements"
    reason = partition.reason.removesuffix(told) + told
    return Merged(Partition(labels, partition.k, method=partition.method, reason=reason), rounds)


def _start(
    partition: Partition, encoded: Encoded, strata: Integers, alike: Integers | None
) -> _Cells:
    home = _shared(partition, alike)
    labels = home[partition.labels]
    weights = np.ones(len(labels)) if encoded.weights is None else _scaled(encoded.weights)
    points = _scaled(encoded.matrix)
    sums = np.empty((int(home.max()) + 1, points.shape[1]))
    for j in range(points.shape[1]):
        sums[:, j] = np.bincount(labels, weights=weights * points[:, j])
    where = np.empty(len(sums), dtype=np.int64)
    where[labels] = strata
    return _Cells(home, sums, np.bincount(labels, weights=weights).astype(np.float64), where)


def _scaled(numbers: Floats) -> Floats:
    """The numbers up to 1, as costs need their squares; by a power of two, which changes no digit."""
    return np.ldexp(numbers, -int(np.frexp(np.abs(numbers).max(initial=0.0))[1]))


def _shared(partition: Partition, alike: Integers | None) -> Integers:
    """The cell that each cell begins in: its own, or the one it shares with those that are alike."""
    count = len(partition)
    if alike is None:
        return np.arange(count)
    lowest = np.full(int(alike.max()) + 1, count)
    np.minimum.at(lowest, alike, partition.labels)
    first = np.empty(count, dtype=np.int64)
    first[partition.labels] = lowest[alike]
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


def _choose(cells: _Cells, asking: Integers) -> Iterator[tuple[int, int]]:
    """The mergers of a round, the lower cell of each first."""
    layout = lay_out_cells(cells.sums / cells.masses[:, np.newaxis], cells.masses, cells.strata)
    partners, costs = np.empty(len(asking), dtype=np.int64), np.empty(len(asking))
    _search(layout, asking, partners, costs)
    taken = np.zeros(len(cells), dtype=np.bool_)
    for place in np.lexsort((asking, costs)).tolist():
        one, other = int(asking[place]), int(partners[place])
        if not (taken[one] or taken[other]):
            taken[one] = taken[other] = True
            yield min(one, other), max(one, other)


def _search(layout: Layout, asking: Integers, partners: Integers, costs: Floats) -> None:
    """Find the cheapest neighbours, on several threads (OUT: ``partners``, ``costs``); each answer is its own."""

    def find(first: int) -> None:
        part = slice(first, first + _CELLS_AT_A_TIME)
        find_cheapest(layout, asking[part], partners[part], costs[part])

    find(0)  # in this thread, so that who listens hears of the compiling
    with ThreadPoolExecutor(thread_count()) as pool:
        list(pool.map(find, range(_CELLS_AT_A_TIME, len(asking), _CELLS_AT_A_TIME)))


def _join(cells: _Cells, mergers: Integers) -> _Cells:
    """The cells after the mergers, numbered anew in their order, a merged one at the place of its lower."""
    low, high = mergers.T
    root = np.arange(len(cells))
    root[high] = low
    kept, numbers = np.unique(root, return_inverse=True)
    sums, masses = cells.sums.copy(), cells.masses.copy()
    sums[low] += sums[high]
    masses[low] += masses[high]
    return _Cells(numbers[cells.home], sums[kept], masses[kept], cells.strata[kept])
