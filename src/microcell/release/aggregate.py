"""From cells to what they publish: one representative a cell for each column, by its kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.kernels.arrays import unit_vectors
from microcell.model import Column, Floats, Integers, Mask, Representatives, Schema, Table, Values

__all__ = ["represent"]

_SLACK = 1e-9
"""What rounding may take from a sum of shares."""

_STEPS_IN_SECONDS = (86400, 3600, 60, 1)
_UNITS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells to sum over: the cell of each record, how many there are, and each record's weight."""

    labels: Integers
    count: int
    weights: Floats


def represent(
    table: Table, schema: Schema, labels: Integers, weights: Floats | None = None
) -> Mapping[str, Representatives]:
    """What each cell publishes, for each column of the table that is part of a quasi-identifier, and for strata.

    Members without a value have no say in it; a cell without any value publishes a missing one. ``weights`` weigh
    means, medians and modes. Ties go to the lowest value. Time O(n log n) a column.
    """
    each = np.ones(table.rows) if weights is None else weights
    cells = _Cells(labels, int(labels.max()) + 1, each)
    out: dict[str, Representatives] = {}
    for column in schema.quasi:
        parts = [table.columns[part] for part in column.parts]
        published = REPRESENTATIVES[str(column.kind), str(column.publish)](column, parts, cells)
        out.update(zip(column.parts, published, strict=True))
    for name in schema.strata:
        out[name] = _shared(table.columns[name], cells)
    return out


# ---------------------------------------------------------------------------------------------- numbers and dates


def _mean(_column: Column, parts: list[Values], cells: _Cells) -> list[Representatives]:
    values = parts[0]
    totals, missing = _totals(values, cells)
    origins = _origins(values, cells)
    shares = 1.0 / np.where(missing, 1.0, totals)[cells.labels]
    means = _sum_over(cells, np.where(values.missing, 0.0, _less(values, origins, cells)) * shares)
    return [_in_column_type(values, origins, means, missing)]


def _median(_column: Column, parts: list[Values], cells: _Cells) -> list[Representatives]:
    values = parts[0]
    _, missing = _totals(values, cells)
    origins = _origins(values, cells)
    differences = _less(values, origins, cells)
    lower, upper = (
        _weighted_median(differences, values.missing, cells, side) for side in ("lower", "upper")
    )
    return [_in_column_type(values, origins, lower / 2 + upper / 2, missing)]


def _range(_column: Column, parts: list[Values], cells: _Cells) -> list[Representatives]:
    values = parts[0]
    _, missing = _totals(values, cells)
    low, high = _extremes(values.data + 0, values.missing, cells)  # no negative zero
    places = decimals(values)
    texts = [_range_text(a, b, places) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    return [Representatives("text", np.array(texts, dtype=object), missing)]


def _range_text(low: float, high: float, places: int | None) -> str:
    texts = [repr(value) if places is None else f"{value:.{places}f}" for value in (low, high)]
    return texts[0] if texts[0] == texts[1] else (" to " if low < 0 else "-").join(texts)


def _location(_column: Column, parts: list[Values], cells: _Cells) -> list[Representatives]:
    """The mean direction of the members' unit vectors, in degrees."""
    absent = parts[0].missing | parts[1].missing
    vectors = unit_vectors(*(np.where(absent, 0.0, part.reals()) for part in parts))
    x, y, z = (_sum_over(cells, np.where(absent, 0.0, axis)) for axis in vectors.T)
    missing = _sum_over(cells, (~absent).astype(np.float64)) == 0
    degrees = np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))
    zero = np.zeros(cells.count, dtype=np.int64)
    return [
        _in_column_type(part, zero, mean / 2, missing)
        for part, mean in zip(parts, degrees, strict=True)
    ]


def _shared(values: Values, cells: _Cells) -> Representatives:
    """The value that the members share, written in one way: 0 and -0, or two sorts of missing, are one value."""
    rows = np.zeros(cells.count, dtype=np.int64)
    rows[cells.labels] = np.arange(len(values))
    return Representatives("row", rows, values.missing[rows])


def _in_column_type(
    values: Values, origins: NDArray[Any], halves: Floats, missing: Mask
) -> Representatives:
    """The origins plus twice the halves, rounded to the column's own precision; halves of whole numbers upwards."""
    if values.storage == "float":
        places, numbers = (
            decimals(values),
            origins + halves + halves,
        )  # in this order it cannot overflow
        numbers = numbers if places is None else np.round(numbers, places) + 0.0  # no negative zero
        return Representatives("number", numbers, missing)
    step = _resolution(values)
    steps = np.floor(2 * halves / step + 0.5).astype(np.int64)
    return Representatives("number", origins + steps * step, missing)


def decimals(values: Values) -> int | None:
    """The number of decimals that the column is given in; None if it uses all that floats have.

    Single-precision columns are judged as such: 0.1 has one decimal there too.

    Examples
    --------
    >>> decimals(Values("float", np.array([1.5, 2.25]), np.array([False, False])))
    2
    """
    if values.storage != "float":
        return 0
    x = values.data[~values.missing]
    with np.errstate(over="ignore"):  # too large for single precision: then it is not
        single = bool((x.astype(np.float32) == x).all())
    for places in range(13):
        if _is_rounded(x[:1000], places, single) and _is_rounded(x, places, single):
            return places
    return None


def _is_rounded(x: Floats, places: int, single: bool) -> bool:
    with np.errstate(over="ignore"):  # numbers near the end of the range are not rounded, then
        rounded = np.round(x, places)
    same = rounded.astype(np.float32) == x.astype(np.float32) if single else rounded == x
    return bool(same.all())


def _resolution(values: Values) -> int:
    """The step of a column of whole numbers: 1, or the coarsest of day, hour, minute, ... that its dates lie apart."""
    if not values.is_time or values.unit not in _UNITS_A_SECOND:
        return 1
    a_second = _UNITS_A_SECOND[values.unit]
    steps = [seconds * a_second for seconds in _STEPS_IN_SECONDS]
    steps += [a_second // 10**power for power in (3, 6) if a_second >= 10**power]
    data = values.data[~values.missing]
    return next((step for step in steps if ((data - data[:1]) % step == 0).all()), 1)


# ---------------------------------------------------------------------------------------------- categories and codes


def _mode(_column: Column, parts: list[Values], cells: _Cells) -> list[Representatives]:
    codes, names = parts[0].factorize()
    present = np.flatnonzero(codes >= 0)
    pairs = cells.labels[present] * np.int64(max(len(names), 1)) + codes[present]
    distinct, first, where = np.unique(pairs, return_index=True, return_inverse=True)
    totals = np.bincount(where, weights=cells.weights[present], minlength=len(distinct))
    cell_of = distinct // max(len(names), 1)
    best = np.lexsort((distinct, -totals, cell_of))  # in each cell: most weight, then lowest value
    winners = best[np.r_[True, cell_of[best][1:] != cell_of[best][:-1]]] if len(best) else best
    return [_of_rows(present[first[winners]], cell_of[winners], cells)]


def _ordinal_median(column: Column, parts: list[Values], cells: _Cells) -> list[Representatives]:
    ranks = parts[0].ranks(column.order)
    median = _weighted_median(ranks.astype(np.float64), ranks < 0, cells, "lower").astype(np.int64)
    rows = np.flatnonzero(ranks == np.where(ranks < 0, -2, median[cells.labels]))
    filled, first = np.unique(cells.labels[rows], return_index=True)
    return [_of_rows(rows[first], filled, cells)]


def _prefix(_column: Column, parts: list[Values], cells: _Cells) -> list[Representatives]:
    """The longest common prefix, the rest masked: that of the first and the last name in alphabetical order."""
    codes, names = parts[0].factorize()
    _, missing = _totals(parts[0], cells)
    by_name = sorted(range(len(names)), key=names.__getitem__)
    rank, length = (
        np.zeros(len(names) + 1, dtype=np.int64),
        np.zeros(len(names) + 1, dtype=np.int64),
    )
    rank[by_name] = np.arange(len(names))
    length[: len(names)] = [len(name) for name in names]
    first, last = _extremes(rank[codes], codes < 0, cells)
    _, longest = _extremes(length[codes], codes < 0, cells)
    ordered = [names[place] for place in by_name] or [""]
    texts = [
        _masked(ordered[a], ordered[b], n) for a, b, n in zip(first, last, longest, strict=True)
    ]
    return [Representatives("text", np.array(texts, dtype=object), missing)]


def _masked(a: str, b: str, length: int) -> str:
    shared = commonprefix([a, b])
    return shared + "*" * (int(length) - len(shared))


def _of_rows(rows: Integers, filled: Integers, cells: _Cells) -> Representatives:
    """The values of these rows for the cells ``filled``; missing for the others."""
    values, missing = np.zeros(cells.count, dtype=np.int64), np.ones(cells.count, dtype=np.bool_)
    values[filled], missing[filled] = rows, False
    return Representatives("row", values, missing)


REPRESENTATIVES: dict[
    tuple[str, str], Callable[[Column, list[Values], _Cells], list[Representatives]]
] = {
    ("numeric", "mean"): _mean,
    ("numeric", "median"): _median,
    ("numeric", "range"): _range,
    ("datetime", "mean"): _mean,
    ("ordinal", "median"): _ordinal_median,
    ("nominal", "mode"): _mode,
    ("code", "prefix"): _prefix,
    ("location", "mean"): _location,
}


# ---------------------------------------------------------------------------------------------- sums over cells


def _sum_over(cells: _Cells, terms: Floats) -> Floats:
    return np.bincount(cells.labels, weights=cells.weights * terms, minlength=cells.count).astype(
        np.float64
    )


def _totals(values: Values, cells: _Cells) -> tuple[Floats, Mask]:
    """The weight of the members that have a value, and True for cells where none has."""
    totals = _sum_over(cells, (~values.missing).astype(np.float64))
    return totals, totals == 0


def _origins(values: Values, cells: _Cells) -> NDArray[Any]:
    """One of each cell's members: differences from it lose nothing, however far other cells lie."""
    present = np.flatnonzero(~values.missing)
    out = np.zeros(cells.count, dtype=values.data.dtype)
    out[cells.labels[present]] = values.data[present]
    return out


def _less(values: Values, origins: NDArray[Any], cells: _Cells) -> Floats:
    """Half of the data less its cell's origin; halves, so that it cannot overflow."""
    if values.data.dtype.kind == "i" and int(values.data.max()) - int(values.data.min()) < 2**62:
        return np.asarray((values.data - origins[cells.labels]) / 2)
    return np.asarray(values.data / 2 - origins[cells.labels] / 2)


def _extremes(
    data: NDArray[np.generic], missing: Mask, cells: _Cells
) -> tuple[NDArray[np.generic], ...]:
    """The least and the greatest value of each cell; 0 where it has none."""
    present = np.flatnonzero(~missing)
    order = present[np.lexsort((data[present], cells.labels[present]))]
    first = np.flatnonzero(np.r_[True, np.diff(cells.labels[order]) != 0]) if len(order) else order
    low, high = np.zeros(cells.count, dtype=data.dtype), np.zeros(cells.count, dtype=data.dtype)
    filled = cells.labels[order[first]]
    low[filled], high[filled] = data[order[first]], data[order[np.r_[first[1:], len(order)] - 1]]
    return low, high


def _weighted_median(x: Floats, missing: Mask, cells: _Cells, side: str) -> Floats:
    """The lower or upper median of each cell: where the weights, summed in order, reach or pass one half."""
    present = np.flatnonzero(~missing)
    order = present[np.lexsort((x[present], cells.labels[present]))]
    labels = cells.labels[order]
    totals = np.bincount(labels, weights=cells.weights[order], minlength=cells.count)
    running = np.cumsum(cells.weights[order] / totals[labels])  # each cell adds 1
    reached = running - (np.cumsum(totals > 0) - 1)[labels]
    at_goal = np.flatnonzero(reached >= 0.5 - _SLACK if side == "lower" else reached > 0.5 + _SLACK)
    filled, first = np.unique(labels[at_goal], return_index=True)
    out = np.zeros(cells.count)
    out[filled] = x[order[at_goal[first]]]
    return out
