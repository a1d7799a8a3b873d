"""Aggregate cells: compute the values that each cell publishes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.kinds import Groups, kind_of
from microcell.kinds.groups import precision
from microcell.kinds.values import NANOSECONDS
from microcell.measures.classes import combine
from microcell.model import (
    Column,
    Floats,
    Integers,
    Mask,
    Representatives,
    Schema,
    Table,
    Values,
)

__all__ = ["capped_weights", "count_dominated", "represent"]

_SLACK = 1e-9
"""Tolerance for rounding errors in a share of the weight."""


def represent(
    table: Table,
    schema: Schema,
    labels: Integers,
    weights: Floats | None = None,
    persons: Integers | None = None,
) -> Mapping[str, Representatives]:
    """Return the values that each cell publishes for the quasi-identifiers and strata.

    Members without a value are ignored; a cell without any value publishes a missing one.
    ``weights`` apply to means, medians and modes. Ties go to the lowest value. Time O(n log n) per
    column. The schema's dominance rule caps sampling weights, and the total of a person's records
    if ``persons`` holds the person of each record, among the members that have a value.
    """
    weights = np.ones(table.rows) if weights is None else weights
    groups = Groups(labels, int(labels.max()) + 1, weights)
    everyone = _cap(groups, np.ones(table.rows, dtype=np.bool_), schema, persons)
    out: dict[str, Representatives] = {}
    kinds = [kind_of(column) for column in schema.quasi]
    for kind, column, values in zip(kinds, schema.quasi, table.read(schema.quasi), strict=True):
        present = ~np.logical_or.reduce([part.missing for part in values])
        used = everyone if present.all() else _cap(groups, present, schema, persons)
        representatives = kind.represent(column, values, used)
        out.update(zip(column.parts, representatives, strict=True))
    _keep_relations(table, schema, groups, persons, out)
    for name in schema.strata:
        out[name] = _shared_value(table.columns[name], groups)
    return out


def count_dominated(
    labels: Integers, weights: Floats | None, schema: Schema, persons: Integers | None = None
) -> int:
    """Return the number of cells in which the dominance rule caps a weight or a person."""
    if weights is None and persons is None:
        return 0
    weights = np.ones(len(labels)) if weights is None else weights
    return len(_dominated_cells(_find_members(labels, weights, persons), schema.dominance))


def capped_weights(labels: Integers, schema: Schema, persons: Integers) -> Floats:
    """Return the weight of each record, 1 unless the dominance rule caps its person."""
    groups = Groups(labels, int(labels.max()) + 1, np.ones(len(labels)))
    return _cap(groups, np.ones(len(labels), dtype=np.bool_), schema, persons).weights


@dataclass(frozen=True, eq=False)
class _Members:
    """The members of cells: records, or all records of a person in a cell taken together.

    ``units`` holds the member that each record belongs to; ``labels`` and ``weights`` are those of
    the members.
    """

    units: Integers
    labels: Integers
    weights: Floats


def _find_members(labels: Integers, weights: Floats, persons: Integers | None) -> _Members:
    if persons is None:
        return _Members(np.arange(len(labels)), labels, weights)
    units = combine(labels, persons)
    cells = np.zeros(int(units.max(initial=-1)) + 1, dtype=np.int64)
    cells[units] = labels
    totals = np.bincount(units, weights=weights, minlength=len(cells)).astype(np.float64)
    return _Members(units, cells, totals)


def _cap(groups: Groups, present: Mask, schema: Schema, persons: Integers | None) -> Groups:
    """Return the groups with weights capped by the dominance rule, ignoring missing values."""
    if schema.weight is None and persons is None:
        return groups
    rows = np.flatnonzero(present)
    weights = groups.weights.copy()
    members = _find_members(
        groups.labels[rows], weights[rows], None if persons is None else persons[rows]
    )
    capped = members.weights.copy()
    for cell in _dominated_cells(members, schema.dominance):
        capped[cell] = np.minimum(capped[cell], _cap_of_cell(capped[cell], *schema.dominance))
    # A member's records keep their shares of its weight.
    over = (capped < members.weights)[members.units]
    units = members.units[over]
    weights[rows[over]] = capped[units] * (weights[rows[over]] / members.weights[units])
    return replace(groups, weights=weights)


def _dominated_cells(members: _Members, rule: tuple[int, float]) -> list[Integers]:
    """Return the members of each cell whose n largest weights exceed a share p of the total."""
    n, p = rule
    if p == 1 or not len(members.labels):
        return []
    order = np.lexsort((-members.weights, members.labels))
    labels, weights = members.labels[order], members.weights[order]
    starts = np.flatnonzero(np.r_[True, np.diff(labels) != 0])
    ends = np.r_[starts[1:], len(order)]
    rank = np.arange(len(order)) - np.repeat(starts, ends - starts)
    totals = np.add.reduceat(weights, starts)
    largest = np.add.reduceat(np.where(rank < n, weights, 0.0), starts)
    # With at most n / p members even equal weights exceed the share; they need no further cap.
    equal = weights[starts] == weights[ends - 1]
    over = (largest > p * totals * (1 + _SLACK)) & ~equal
    return [order[start:end] for start, end in zip(starts[over], ends[over], strict=True)]


def _cap_of_cell(weights: Floats, n: int, p: float) -> float:
    """Return the largest cap that keeps the n largest weights within the share p of the total.

    If the j largest weights are capped at c, the n largest add up to min(j, n) c plus those that
    are not capped, and all of them to j c plus the rest. If no cap is low enough, the weights
    become equal.
    """
    descending = np.sort(weights)[::-1]
    for j in range(1, len(descending)):
        slope = min(j, n) - p * j
        if slope <= 0:
            break
        limit = float((p * descending[j:].sum() - descending[j:n].sum()) / slope)
        if limit >= descending[j]:
            return limit
    return float(descending[-1])


def _shared_value(values: Values, groups: Groups) -> Representatives:
    """Publish the value of one member for all, so that 0 and -0 are written in the same way."""
    rows = np.zeros(groups.count, dtype=np.int64)
    rows[groups.labels] = np.arange(len(values))
    return Representatives("row", rows, values.missing[rows])


# ------------------------------------------------------------------------------ relations


def _keep_relations(
    table: Table,
    schema: Schema,
    groups: Groups,
    persons: Integers | None,
    out: dict[str, Representatives],
) -> None:
    """Make the representatives consistent: order (``after``), differences and sums.

    Each becomes a function of other representatives of the same cell, so classes stay as they are.
    """
    by_name = {column.name: column for column in schema.quasi}
    for column in _in_order(schema.quasi):
        if column.after is not None:
            gaps = _mean_gaps(table, schema, groups, persons, column)
            _keep_order(table, gaps, out, column.name, column.after)
    for column in by_name.values():
        if column.difference_of:
            last, first = column.difference_of
            terms = {last: 1.0, first: -1.0}
        elif column.sum_of:
            terms = dict.fromkeys(column.sum_of, 1.0)
        else:
            continue
        values = table.columns[column.name]
        total = np.zeros(groups.count)
        missing = np.zeros(groups.count, dtype=np.bool_)
        for name, sign in terms.items():
            total += sign * _in_days(table.columns[name], out[name].values)
            missing |= out[name].missing
        if values.unit:
            total = total * (NANOSECONDS["D"] / NANOSECONDS[values.unit])
        if values.storage not in ("float", "empty"):  # a column without values has no type
            total = np.floor(np.where(missing, 0, total) + 0.5).astype(np.int64)
        else:
            total = np.round(total, 9) + 0.0
        out[column.name] = Representatives("number", total, missing)


def _in_order(columns: Sequence[Column]) -> list[Column]:
    """Return the columns with ``after``, each one behind the column that it refers to."""
    by_name = {column.name: column for column in columns}

    def depth(column: Column) -> int:
        return 0 if column.after is None else 1 + depth(by_name[column.after])

    return sorted((column for column in columns if column.after), key=depth)


def _mean_gaps(
    table: Table, schema: Schema, groups: Groups, persons: Integers | None, column: Column
) -> Floats:
    """Return, for each cell, the mean gap of a column after the one it refers to, in days.

    Only members with both values count. The gap of a single member would be that person's own, so
    it counts as 0.
    """
    assert column.after is not None
    last, first = table.columns[column.name], table.columns[column.after]
    both = ~last.missing & ~first.missing
    members = _find_members(
        groups.labels[both], groups.weights[both], None if persons is None else persons[both]
    )
    several = np.bincount(members.labels, minlength=groups.count) > 1
    used = _cap(groups, both, schema, persons)
    gaps = np.where(both, _in_days(last, last.data) - _in_days(first, first.data), 0.0)
    totals, none = used.totals(~both)
    means = np.maximum(used.sum(gaps) / np.where(none, 1.0, totals), 0.0)
    return np.where(several, means, 0.0)


def _keep_order(
    table: Table, gaps: Floats, out: dict[str, Representatives], last: str, first: str
) -> None:
    """Where ``last`` would lie before ``first``, publish ``first`` plus the members' mean gap.

    The order can only break where different members have the two values, or where one column
    publishes the mean and the other the median.
    """
    before, after = out[first], out[last]
    values, others = table.columns[last], table.columns[first]
    start = _in_days(others, before.values)
    broken = (_in_days(values, after.values) < start) & ~before.missing & ~after.missing
    if not broken.any():
        return
    moved = start + gaps
    if values.unit:
        moved = moved * (NANOSECONDS["D"] / NANOSECONDS[values.unit])
    # Rounding up keeps the order in the column's own precision.
    step = max(precision(values), 0.0)
    moved = np.ceil(moved / step - _SLACK) * step if step else moved
    if values.storage != "float":
        moved = np.rint(moved).astype(np.int64)
    numbers = np.where(broken, moved, after.values)
    out[last] = Representatives("number", numbers, after.missing)


def _in_days(values: Values, data: NDArray[Any]) -> Floats:
    """Return dates and times in days, and numbers as they are."""
    factor = NANOSECONDS[values.unit] / NANOSECONDS["D"] if values.unit else 1.0
    numbers: Floats = data.astype(np.float64) * factor
    return numbers
