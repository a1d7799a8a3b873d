"""Limits on confidential columns in a data set: the distribution of all records, and the proof."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import Any

import numpy as np

from microcell import tables
from microcell.dask.arrow import Spill, arrow, concatenate, write_batches
from microcell.errors import GuaranteeError, RequirementError
from microcell.kinds.values import NANOSECONDS
from microcell.measures.classes import class_labels, combine
from microcell.measures.confidential import ClassCounts, is_ordered, sort_by_order
from microcell.measures.evaluate import summarize
from microcell.model import Column, Integers, Schema, Table, Values
from microcell.release.requirements import (
    Confidential,
    Limit,
    Requirements,
    columns_of,
    is_sum,
    limits_on,
    measure_limits,
    require_of,
)

__all__ = [
    "Distribution",
    "Keeping",
    "LimitedColumn",
    "Reached",
    "add_counts",
    "check_possible",
    "check_reached",
    "count_by_stratum",
    "limited_columns",
    "main_way",
    "make_limited_column",
    "measure_classes",
    "spill_persons",
]

_GROUPS, _GROUPS_OF_COLUMN = 64, 16
"""Maximum number of groups of confidential values, in total and per column, whose shares are the
same in every macrocell.
"""

_NONE = np.zeros(0, dtype=np.int64)

Reached = Mapping[tuple[str, str], float]
"""Value of each limit on a column, by measure and column."""


@dataclass(frozen=True, eq=False)
class LimitedColumn:
    """A confidential column with limits: its distinct values and how often they occur.

    ``values`` are numbers in ascending order, or texts. If ``has_missing``, a missing value has
    code 0 and the others follow. ``totals`` counts people, each person once per value. ``groups``
    numbers similar values.
    """

    column: Column
    values: Any
    has_missing: bool
    totals: Integers
    groups: Integers
    unit: str | None = None

    def encode(self, table: Table) -> Integers:
        """Return the code of each record's value."""
        values = sort_by_order(self.column, table.columns[self.column.name])
        codes = self.number(_as_arrow(values, np.arange(table.rows), self.unit))
        if (codes < 0).any():
            raise GuaranteeError(
                f"Column {self.column.name!r} has values that were not counted in the first pass. "
                "Do not change the files while they are read. Nothing was released.",
                code="guarantee.failed",
                column=self.column.name,
            )
        return codes

    def number(self, values: Any) -> Integers:
        """Return the code of each value of an Arrow array; -1 for an unknown one."""
        missing = values.is_null().to_numpy(zero_copy_only=False)
        if not len(self.values):
            codes = np.full(len(values), -1)
        elif isinstance(self.values, tuple):
            place = {text: code for code, text in enumerate(self.values)}
            codes = np.array([place.get(text, -1) for text in values.to_pylist()], dtype=np.int64)
        else:
            data = values.fill_null(0).to_numpy(zero_copy_only=False)
            codes = np.minimum(np.searchsorted(self.values, data), len(self.values) - 1)
            codes = np.where(self.values[codes] == data, codes, -1)
        codes = np.where(codes < 0, -1, codes + int(self.has_missing))
        return np.where(missing, 0 if self.has_missing else -1, codes).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Distribution:
    """Limits on a data set, and the distribution of the columns that they apply to."""

    limits: Mapping[str, float]
    columns: tuple[LimitedColumn, ...]
    rows: int

    @property
    def count(self) -> int:
        """Number of groups of confidential values."""
        return int(np.prod([int(item.groups.max()) + 1 for item in self.columns], dtype=np.int64))

    def group(self, table: Table) -> Integers:
        """Return the group of each record's confidential values, from 0."""
        out = np.zeros(table.rows, dtype=np.int64)
        for item in self.columns:
            out = out * (int(item.groups.max()) + 1) + item.groups[item.encode(table)]
        return out

    def require(self, table: Table, strata: Integers, persons: Integers | None) -> Requirements:
        """Return the limits for a subset of the records; limits on counts shrink in proportion."""
        limits = {
            name: float(floor(limit * table.rows / self.rows)) if is_sum(name) else limit
            for name, limit in self.limits.items()
        }
        codes = {item.column.name: item.encode(table) for item in self.columns}
        return self.limit_codes(limits, codes, strata, persons)

    def limit_codes(
        self,
        limits: Mapping[str, float],
        codes: Mapping[str, Integers],
        strata: Integers,
        persons: Integers | None,
    ) -> Requirements:
        """Return limits on records whose values have these codes, by column."""
        columns = {
            name: Confidential(name, codes[name], is_ordered(item.column), item.totals)
            for item in self.columns
            if (name := item.column.name)
        }
        return require_of(limits, columns, strata, persons)

    def limits_by_column(self) -> list[tuple[LimitedColumn, Limit]]:
        """Return (column, limit) pairs for all limits on single columns."""
        return [
            (item, limit)
            for item in self.columns
            for limit in limits_on(self.limits, item.column.name)
        ]


def limited_columns(limits: Mapping[str, float], schema: Schema) -> tuple[Column, ...]:
    """Return the confidential columns that limits on cells apply to."""
    names = {name for limit in limits for name in columns_of(limit, schema)}
    return tuple(column for column in schema.confidential if column.name in names)


# ------------------------------------------------------------------------------ distribution


def count_by_stratum(
    table: Table, column: Column | None, strata: Integers, persons: Integers | None
) -> Any:
    """Return how many records have each value of a column in each stratum.

    Without a column all records have one value. With ``persons`` each combination of a stratum, a
    value and a person is one row instead.
    """
    pa, n = arrow(), table.rows
    if column is None:
        values = Values("integer", np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_))
    else:
        values = sort_by_order(column, table.columns[column.name])
    labels = combine(combine(np.zeros(n, dtype=np.int64), strata), values.factorize()[0] + 1)
    if persons is not None:
        labels = combine(labels, np.unique(persons, return_inverse=True)[1].reshape(-1))
    _, rows, counts = np.unique(labels, return_index=True, return_counts=True)
    found = {"stratum": pa.array(strata[rows]), "value": _as_arrow(values, rows, values.unit)}
    found |= {"count": pa.array(counts)} if persons is None else {"person": pa.array(persons[rows])}
    return pa.table(found)


def _as_arrow(values: Values, rows: Integers, unit: str | None) -> Any:
    """Return values as numbers, times in the given unit, or else as texts."""
    pa = arrow()
    if values.missing.all():
        return pa.nulls(len(rows))
    if values.is_number or values.is_time:
        data = values.data[rows] + 0  # no negative zero
        if values.is_time and unit is not None and values.unit not in (None, unit):
            data = data * NANOSECONDS[str(values.unit)] // NANOSECONDS[unit]
        return pa.array(data, mask=values.missing[rows])
    codes, names = values.factorize()
    chosen = [None if code < 0 else names[code] for code in codes[rows].tolist()]
    return pa.array(chosen, pa.large_string())


def spill_persons(counts: Any, buckets: int, target: Path) -> Spill:
    """Write the persons with each value, sorted by bucket; a person is always in one bucket."""
    digests = counts.column("person").to_numpy()
    numbers = (digests.view(np.uint64) % np.uint64(buckets)).astype(np.int64)
    return write_batches(counts, numbers, target)


def add_counts(parts: Sequence[Any]) -> Any:
    """Add up the counts of parts by stratum and value; persons are counted once per value."""
    together = concatenate(parts)
    is_counted = "count" in together.column_names
    counted = ("count", "sum") if is_counted else ("person", "count_distinct")
    totals = together.group_by(["stratum", "value"], use_threads=False).aggregate([counted])
    numbers = totals.column("_".join(counted))
    return totals.select(["stratum", "value"]).append_column("count", numbers)


def make_limited_column(
    column: Column, counts: Any, columns: int, unit: str | None
) -> LimitedColumn:
    """Return a column's values and how often they occur, from the counts of all strata."""
    values = counts.column("value").combine_chunks()
    present = values.drop_null()
    distinct: Any = ()
    if arrow().types.is_large_string(values.type):
        distinct = tuple(sorted(set(present.to_pylist())))
    elif len(present):
        distinct = np.unique(present.to_numpy(zero_copy_only=False))
    blank = LimitedColumn(column, distinct, len(present) < len(values), _NONE, _NONE, unit)
    weights = counts.column("count").to_numpy()
    totals = np.bincount(blank.number(values), weights=weights).astype(np.int64)
    most = max(1, min(_GROUPS_OF_COLUMN, int(_GROUPS ** (1 / columns) + 1e-9)))
    groups = _group_values(totals, most, ordered=is_ordered(column))
    return LimitedColumn(column, distinct, blank.has_missing, totals, groups, unit)


def _group_values(totals: Integers, most: int, *, ordered: bool) -> Integers:
    """Number similar values: quantiles of an ordered column, otherwise the most frequent values."""
    if len(totals) <= most:
        return np.arange(len(totals))
    if ordered:
        middle = np.cumsum(totals) - totals / 2
        return np.asarray(middle * most / totals.sum(), dtype=np.int64)
    rank = np.empty(len(totals), dtype=np.int64)
    rank[np.argsort(-totals, kind="stable")] = np.arange(len(totals))
    return np.minimum(rank, most - 1)


def check_possible(
    distribution: Distribution, counts: Sequence[Any], everyone: Any, strata: int
) -> None:
    """Raise RequirementError for a limit that is missed even if every stratum is one cell.

    ``counts`` are those of each column, ``everyone`` the people of each stratum.
    """
    sizes = np.zeros(strata, dtype=np.int64)
    np.add.at(sizes, everyone.column("stratum").to_numpy(), everyone.column("count").to_numpy())
    by_name = {
        item.column.name: part for item, part in zip(distribution.columns, counts, strict=True)
    }
    for item, limit in distribution.limits_by_column():
        part = by_name[item.column.name]
        codes = item.number(part.column("value").combine_chunks())
        stratum, number = (part.column(name).to_numpy() for name in ("stratum", "count"))
        order = np.lexsort((codes, stratum))
        whole = ClassCounts(
            stratum[order], codes[order], number[order], sizes, item.totals, is_ordered(item.column)
        )
        # Merging can make delta_disclosure worse, so whole strata prove nothing about it.
        if limit.definition.name != "delta_disclosure":
            reached = summarize(limit.definition, limit.definition.compute(whole))
            _check(limit, reached, item.column.name, "even if every stratum is one cell")


def _check(limit: Limit, reached: float, column: str, where: str) -> None:
    if not limit.missed(np.array([reached]))[0]:
        return
    raise RequirementError(
        f"{limit.name} cannot be met: it is {reached:.6g} for {column} {where}, required "
        f"{limit.bound}. Relax the limit, or use fewer strata. Nothing was released.",
        code="guarantee.requirement_not_met",
        measures=[limit.name],
        nearest={limit.name: reached},
    )


# ------------------------------------------------------------------------------ macrocells


@dataclass(frozen=True)
class Keeping:
    """How the cells of a macrocell meet the limits."""

    rows: int
    cells_before: int
    sse_before: float
    way: str
    rounds: int

    def save(self, path: Path) -> None:
        """Write to a file; repeating a task writes the same content."""
        path.write_text(json.dumps(vars(self)), encoding="utf-8")

    @classmethod
    def load_all(cls, paths: Sequence[Path]) -> "list[Keeping]":
        """Load the files of all macrocells."""
        return [cls(**json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def main_way(parts: Sequence[Keeping]) -> str:
    """Return how the cells of most records were found."""
    rows: Counter[str] = Counter()
    for part in parts:
        rows[part.way] += part.rows
    return rows.most_common(1)[0][0]


# ------------------------------------------------------------------------------ proof


def measure_classes(distribution: Distribution, classes: Any) -> Reached:
    """Return the limits that complete classes reach, counted in the files that were read back.

    ``classes`` has the values of each class (value0, ...), the codes of the confidential columns
    (code0, ...), and the person of each row or the number of records.
    """
    names = [name for name in classes.column_names if name.startswith("value")]
    labels = class_labels(tables.read(classes.select(names)), names)
    codes = [classes.column(f"code{i}").to_numpy() for i in range(len(distribution.columns))]
    persons = None
    if "person" in classes.column_names:
        digests = classes.column("person").to_numpy()
        persons = np.unique(digests, return_inverse=True)[1].reshape(-1).astype(np.int64)
    else:
        rows = np.repeat(np.arange(len(labels)), classes.column("count").to_numpy())
        labels, codes = labels[rows], [each[rows] for each in codes]
    by_name = {
        item.column.name: each for item, each in zip(distribution.columns, codes, strict=True)
    }
    requirements = distribution.limit_codes(
        distribution.limits, by_name, np.zeros_like(labels), persons
    )
    return measure_limits(requirements, labels)


def check_reached(distribution: Distribution, parts: Sequence[Reached]) -> None:
    """Raise RequirementError if the classes of the finished files miss a limit."""
    for item, limit in distribution.limits_by_column():
        reached = limit.combine([part[limit.name, item.column.name] for part in parts])
        _check(limit, reached, item.column.name, "in the finished files")
