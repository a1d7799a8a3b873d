"""Aggregate cells: compute the values that each cell publishes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.kinds import Groups, kind_of
from microcell.kinds.groups import precision
from microcell.kinds.values import NANOSECONDS
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

__all__ = ["count_dominated", "represent"]

_SLACK = 1e-9
"""Tolerance for rounding errors in a share of the weight."""


def represent(
    table: Table, schema: Schema, labels: Integers, weights: Floats | None = None
) -> Mapping[str, Representatives]:
    """Return the values that each cell publishes for the quasi-identifiers and strata.

    Members without a value are ignored; a cell without any value publishes a missing one.
    ``weights`` apply to means, medians and modes. Ties go to the lowest value. Time O(n log n) per
    column. Sampling weights are capped by the schema's dominance rule, among the members that have
    a value.
    """
    weights = np.ones(table.rows) if weights is None else weights
    groups = Groups(labels, int(labels.max()) + 1, weights)
    capped = _cap(groups, np.ones(table.rows, dtype=np.bool_), schema)
    out: dict[str, Representatives] = {}
    kinds = [kind_of(column) for column in schema.quasi]
    for kind, column, values in zip(kinds, schema.quasi, table.read(schema.quasi), strict=True):
        present = ~np.logical_or.reduce([part.missing for part in values])
        used = capped if present.all() else _cap(groups, present, schema)
        representatives = kind.represent(column, values, used)
        out.update(zip(column.parts, representatives, strict=True))
    _keep_relations(table, schema, groups, out)
    for name in schema.strata:
        out[name] = _shared_value(table.columns[name], groups)
    return out


def count_dominated(labels: Integers, weights: Floats | None, schema: Schema) -> int:
    """Return the number of cells whose weights the dominance rule caps."""
    if weights is None:
        return 0
    return len(_dominated_cells(labels, weights, schema.dominance))


def _cap(groups: Groups, present: Mask, schema: Schema) -> Groups:
    """Return the groups with weights capped by the dominance rule, ignoring missing values."""
    if schema.weight is None:
        return groups
    rows = np.flatnonzero(present)
    weights = groups.weights.copy()
    for cell in _dominated_cells(groups.labels[rows], weights[rows], schema.dominance):
        members = rows[groups.labels[rows] == cell]
        limit = _cap_of_cell(weights[members], *schema.dominance)
        weights[members] = np.minimum(weights[members], limit)
    return replace(groups, weights=weights)


def _dominated_cells(labels: Integers, weights: Floats, rule: tuple[int, float]) -> list[int]:
    """Return the cells whose n largest weights exceed a share p of their total weight."""
    n, p = rule
    if p == 1 or not len(labels):
        return []
    order = np.lexsort((-weights, labels))
    sorted_labels = labels[order]
    starts = np.flatnonzero(np.r_[True, np.diff(sorted_labels) != 0])
    cells = sorted_labels[starts]
    sizes = np.diff(np.r_[starts, len(order)])
    rank = np.arange(len(order)) - np.repeat(starts, sizes)
    sorted_weights = weights[order]
    totals = np.add.reduceat(sorted_weights, starts)
    largest = np.add.reduceat(np.where(rank < n, sorted_weights, 0.0), starts)
    # With at most n / p members even equal weights exceed the share; they need no further cap.
    equal = sorted_weights[starts] == sorted_weights[starts + sizes - 1]
    over = (largest > p * totals * (1 + _SLACK)) & ~equal
    return [int(cell) for cell in cells[over]]


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
    """Publish one member's value for all, so that equal values (0 and -0) are written alike."""
    rows = np.zeros(groups.count, dtype=np.int64)
    rows[groups.labels] = np.arange(len(values))
    return Representatives("row", rows, values.missing[rows])


# ------------------------------------------------------------------------------ relations


def _keep_relations(
    table: Table, schema: Schema, groups: Groups, out: dict[str, Representatives]
) -> None:
    """Make the representatives consistent: order (``after``), differences and sums.

    Each becomes a function of other representatives of the same cell, so classes stay as they are.
    """
    by_name = {column.name: column for column in schema.quasi}
    for column in _in_order(schema.quasi):
        if column.after is not None:
            _keep_order(table, groups, out, column.name, column.after)
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
        if values.storage != "float":
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


def _keep_order(
    table: Table, groups: Groups, out: dict[str, Representatives], last: str, first: str
) -> None:
    """Where ``last`` would lie before ``first``, publish ``first`` plus the members' mean gap.

    The order can only break where different members have the two values, or where one column
    publishes the mean and the other the median. Only members that have both values count.
    """
    before, after = out[first], out[last]
    gap = _in_days(table.columns[last], after.values) - _in_days(
        table.columns[first], before.values
    )
    broken = (gap < 0) & ~before.missing & ~after.missing
    if not broken.any():
        return
    values, others = table.columns[last], table.columns[first]
    both = ~values.missing & ~others.missing
    gaps = np.where(both, _in_days(values, values.data) - _in_days(others, others.data), 0.0)
    totals, none = groups.totals(~both)
    mean = np.maximum(groups.sum(gaps) / np.where(none, 1.0, totals), 0.0)
    moved = _in_days(others, before.values) + np.where(none, 0.0, mean)
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
