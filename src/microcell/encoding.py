"""From quasi-identifiers to points: each kind of column becomes one or more standardized dimensions."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from os.path import commonprefix

import numpy as np

from microcell.errors import DataError, SchemaError
from microcell.kernels.sphere import unit_vectors
from microcell.model import Column, Encoded, EncodedColumn, Floats, Mask, Schema, Table, Values

__all__ = ["check_missing", "encode", "missing_rows"]

MOST_CATEGORIES = 1000
"""A nominal column becomes a dimension a category; beyond this it is a name or a code rather than a category."""

FEW_CATEGORIES = 50
"""So many categories are never too many; more must be at most half as many as the records."""

CODE_BASE = 10.0
"""How much farther apart two codes lie for each further character, from the right, in which they differ."""


@dataclass(frozen=True, eq=False)
class _Block:
    """The dimensions of one column: coordinates, and how to read them back."""

    coordinates: Floats
    centre: Floats
    scale: Floats


def encode(table: Table, schema: Schema) -> Encoded:
    """The records as points: one block of dimensions for each quasi-identifier of the (resolved) schema.

    Numbers, dates and ranks: standardized to mean 0 and population variance 1. Nominal values: indicators scaled by
    1/sqrt(2), so that a mismatch has distance 1. Codes: a place on a line, the farther apart the earlier two codes
    differ. Locations: unit vectors, scaled to variance 2, as two columns have. A column's weight multiplies its
    squared distances. A missing value stands at the column's mean, where it pulls to no side. Constant columns have
    no dimension. Time and memory O(n m).
    """
    blocks = [_encode_column(column, table) for column in schema.quasi]
    columns, first = [], 0
    for column, block in zip(schema.quasi, blocks, strict=True):
        last = first + block.coordinates.shape[1]
        columns.append(EncodedColumn(column.name, str(column.kind), first, last, block.centre, block.scale))
        first = last
    matrix = np.ascontiguousarray(np.concatenate([block.coordinates for block in blocks], axis=1))
    return Encoded(matrix, tuple(columns), _sampling_weights(table, schema))


def missing_rows(table: Table, schema: Schema) -> Mask:
    """True for each record that lacks a quasi-identifier."""
    out = np.zeros(table.rows, dtype=np.bool_)
    for column in schema.quasi:
        for part in column.parts:
            out |= table.columns[part].missing
    return out


def check_missing(table: Table, schema: Schema) -> None:
    """Refuse a table whose quasi-identifiers have missing values, naming the columns and counts."""
    parts = [part for column in schema.quasi for part in column.parts]
    counts = {part: int(table.columns[part].missing.sum()) for part in parts}
    if any(counts.values()):
        listing = ", ".join(f"{name!r} ({count})" for name, count in counts.items() if count)
        raise DataError(
            f"Missing values in {listing}. Say what to do about them (missing): 'drop' leaves those records out and "
            "reports them, 'impute' places them at the mean and publishes their cell's representative."
        )


def _encode_column(column: Column, table: Table) -> _Block:
    parts = [table.columns[part] for part in column.parts]
    block = ENCODERS[str(column.kind)](column, parts)
    missing = np.logical_or.reduce([part.missing for part in parts])
    coordinates = np.where(missing[:, np.newaxis], 0.0, block.coordinates) * np.sqrt(column.weight)
    return _Block(coordinates, block.centre, block.scale / np.sqrt(column.weight))


def _sampling_weights(table: Table, schema: Schema) -> Floats | None:
    if schema.weight is None:
        return None
    values = table.columns[schema.weight]
    weights = values.reals() if values.is_number else np.full(table.rows, np.nan)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if len(wrong):
        raise DataError(
            f"Weight column {schema.weight!r} must hold positive numbers; {len(wrong)} rows do not, the first is row "
            f"{wrong[0] + 1}."
        )
    return weights


# ---------------------------------------------------------------------------------------------- one function a kind


def _encode_numeric(column: Column, parts: list[Values]) -> _Block:
    values = parts[0]
    _check_finite(column.name, values)
    whole = values.data.dtype.kind == "i" and not values.missing.all()
    origin = values.data[~values.missing].min() if whole else 0
    return _standardize(_offset(values, origin), values.missing, float(origin))


def _encode_ordinal(column: Column, parts: list[Values]) -> _Block:
    values = parts[0]
    ranks = values.ranks(column.order)
    strange = np.flatnonzero((ranks < 0) & ~values.missing)
    if len(strange):
        raise SchemaError(
            f"Column {column.name!r}: {len(strange)} rows hold a category that is not in its order, the first is row "
            f"{strange[0] + 1}. Complete the order."
        )
    return _standardize(ranks.astype(np.float64), values.missing, 0.0)


def _encode_nominal(column: Column, parts: list[Values]) -> _Block:
    codes, _ = parts[0].factorize()
    used = np.unique(codes[codes >= 0])
    if len(used) > MOST_CATEGORIES:
        raise SchemaError(
            f"Column {column.name!r} has {len(used)} categories, more than {MOST_CATEGORIES}. If it is a code, declare "
            "it so (kind='code'); if it names people, it is an identifier; otherwise group its categories."
        )
    if len(used) > max(FEW_CATEGORIES, len(codes) / 2):
        raise SchemaError(
            f"Column {column.name!r} has {len(used)} categories in {len(codes)} records: the value that a cell would "
            "publish is one person's own. Declare it code, datetime or ordinal if it is that, or an identifier; or "
            "group its categories."
        )
    if len(used) < 2:
        return _constant(len(codes))
    if len(used) == 2:  # one dimension keeps two categories at distance 1
        indicators = (codes == used[1]).astype(np.float64)[:, np.newaxis]
    else:
        indicators = (codes[:, np.newaxis] == used) / np.sqrt(2.0)
    present = codes >= 0
    centre = indicators[present].mean(axis=0)
    return _Block(indicators - centre, centre, np.ones(len(centre)))


def _encode_code(_: Column, parts: list[Values]) -> _Block:
    values = parts[0]
    codes, names = values.factorize()
    by_name = sorted(range(len(names)), key=names.__getitem__)
    longest = max((len(name) for name in names), default=0)
    places, place = np.zeros(len(names) + 1), 0.0
    for before, after in pairwise(by_name):
        place += CODE_BASE ** min(longest - len(commonprefix([names[before], names[after]])), 100)
        places[after] = place
    return _standardize(places[codes], values.missing, 0.0)


def _encode_location(column: Column, parts: list[Values]) -> _Block:
    for part, limit, what in zip(parts, (90.0, 180.0), ("latitude", "longitude"), strict=True):
        _check_finite(getattr(column, what), part)
        _check_degrees(getattr(column, what), part, limit, what)
    missing = parts[0].missing | parts[1].missing
    vectors = unit_vectors(*(np.where(missing, 0.0, part.reals()) for part in parts))
    present = vectors[~missing]
    if len(present) == 0 or (present == present[0]).all():
        return _constant(len(missing))
    centre = present.mean(axis=0)
    scale = np.sqrt(((present - centre) ** 2).sum() / len(present) / 2.0)
    return _Block((vectors - centre) / scale, centre, np.full(3, scale))


ENCODERS: dict[str, Callable[[Column, list[Values]], _Block]] = {
    "numeric": _encode_numeric,
    "datetime": _encode_numeric,
    "ordinal": _encode_ordinal,
    "nominal": _encode_nominal,
    "code": _encode_code,
    "location": _encode_location,
}


# ---------------------------------------------------------------------------------------------- shared steps


def _standardize(x: Floats, missing: Mask, origin: float) -> _Block:
    """The column at mean 0 and population variance 1, in two passes on centred values, whatever its scale."""
    present = x[~missing]
    low, high = (present.min(), present.max()) if len(present) else (0.0, 0.0)
    if low == high:
        return _constant(len(x))
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    centred = (x - middle) / half  # within [-1, 1], so that no square overflows or vanishes
    mean = centred[~missing].mean()
    centred -= mean
    deviation = np.sqrt((centred[~missing] ** 2).mean())
    centre = np.array([origin + middle + mean * half])
    return _Block((centred / deviation)[:, np.newaxis], centre, np.array([deviation * half]))


def _constant(rows: int) -> _Block:
    return _Block(np.empty((rows, 0)), np.empty(0), np.empty(0))


def _offset(values: Values, origin: int | float) -> Floats:
    """The data less ``origin``, taken in integers where they are, so that large ones lose nothing."""
    if values.data.dtype.kind == "i" and int(values.data.max()) - int(values.data.min()) < 2**62:
        return (values.data - origin).astype(np.float64)
    return values.data.astype(np.float64) - float(origin)


def _check_finite(name: str, values: Values) -> None:
    if values.data.dtype.kind != "f":
        return
    infinite = np.flatnonzero(np.isinf(values.data) & ~values.missing)
    if len(infinite):
        raise DataError(
            f"Column {name!r} holds {len(infinite)} infinite values, the first in row {infinite[0] + 1}. Replace them "
            "by numbers, or by missing values."
        )


def _check_degrees(name: str, values: Values, limit: float, what: str) -> None:
    outside = np.flatnonzero((np.abs(values.reals()) > limit) & ~values.missing)
    if len(outside):
        raise DataError(
            f"Column {name!r}: {len(outside)} rows are no {what} in degrees (within ±{limit:g}), the first is row "
            f"{outside[0] + 1}."
        )
