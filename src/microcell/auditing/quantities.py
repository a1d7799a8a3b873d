"""The columns that have an order, of matched records before and after, read once for all measures of utility."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from microcell.auditing.losses import centre
from microcell.auditing.readings import NANOSECONDS, Numbers, read_categories, read_numbers, read_ranks
from microcell.errors import DataError
from microcell.model import Column, Floats, Integers, Mask, Schema, Table, Values

__all__ = [
    "Quantities",
    "Quantity",
    "as_quantity",
    "read_further_quantities",
    "read_quantities",
    "record_weights",
    "standardize",
]

ORDERED = ("numeric", "datetime", "ordinal")
"""The kinds of columns that have an order."""


@dataclass(frozen=True, eq=False)
class Quantity:
    """A column of the matched records on one number line, NaN where missing.

    A value of the column is (``origin`` + number) * ``step``, in ``unit`` as a comparison counts it. For a
    confidential column, ``quasi`` is false and ``after`` is ``before``.
    """

    name: str
    quasi: bool
    before: Floats
    after: Floats
    origin: int = 0
    step: float = 1.0
    unit: str | None = None


@dataclass(frozen=True, eq=False)
class Quantities:
    """The ordered columns of the matched records, and the weight of each record."""

    columns: tuple[Quantity, ...]
    weights: Floats


def read_quantities(original: Table, released: Table, schema: Schema, *, pairs: Integers) -> Quantities:
    """The numeric, datetime and ordinal columns, quasi-identifiers first, then confidential ones that are released.

    Ordinal columns are ranks from 0; a published range is its middle. Confidential columns are published unchanged,
    so that the original is read for both sides; an infinite value of theirs counts as missing. Columns are read one
    by one: time and memory O(rows) each.

    Parameters
    ----------
    schema
        Resolved: each column has its kind.
    pairs
        The row of the original (from 0) that each published row comes from.

    Examples
    --------
    >>> known = np.zeros(2, dtype=bool)
    >>> before = Table({"age": Values("integer", np.array([20, 24]), known)}, rows=2, native=None)
    >>> after = Table({"age": Values("text", np.array([0, 0]), known, categories=("20-24",))}, rows=2, native=None)
    >>> read = read_quantities(before, after, Schema(quasi=[Column("age", kind="numeric")]), pairs=np.arange(2))
    >>> age = read.columns[0]
    >>> age.origin + age.before, age.origin + age.after
    (array([20., 24.]), array([22., 22.]))
    """
    columns = [
        _of_quasi(column, original.columns[column.name], released.columns[column.name], pairs)
        for column in schema.quasi
        if column.kind in ORDERED
    ]
    for column in schema.confidential:
        if column.kind in ORDERED and column.name in original.columns and column.name in released.columns:
            numbers = as_quantity(column, original.columns[column.name])[pairs]
            columns.append(Quantity(column.name, False, numbers, numbers))
    return Quantities(tuple(columns), record_weights(original, schema)[pairs])


def read_further_quantities(
    original: Table, released: Table, schema: Schema, *, pairs: Integers
) -> tuple[Quantity, ...]:
    """The quasi-identifiers that are not ordered but can be put on lines: codes, and the two parts of a location.

    A code is its rank among the original's sorted codes, a prefix the middle of the codes that begin so.
    """
    found: list[Quantity] = []
    for column in schema.quasi:
        if column.kind == "code":
            found.append(_of_codes(column, original, released, pairs))
        elif column.kind == "location":
            found.extend(_of_parts(column, original, released, pairs))
    return tuple(found)


def as_quantity(column: Column, values: Values) -> Floats:
    """A confidential column as numbers or ranks, NaN where missing or infinite.

    Examples
    --------
    >>> pain = Values("text", np.array([1, 0, 1]), np.zeros(3, dtype=bool), categories=("mild", "none"))
    >>> as_quantity(Column("pain", kind="ordinal", order=("none", "mild")), pain)
    array([0., 1., 0.])
    """
    if values.storage == "float":
        infinite = np.isinf(values.data)
        if infinite.any():
            values = Values("float", np.where(infinite, 0.0, values.data), values.missing | infinite)
    # Nothing is compared, so the column stands for the other side too, without its rows.
    nobody = Values(values.storage, values.data[:0], values.missing[:0], values.categories, unit=values.unit)
    if column.kind == "ordinal":
        return read_ranks(column, values, nobody).before
    return read_numbers(column.name, values, nobody).before


def record_weights(original: Table, schema: Schema) -> Floats:
    """The weight of each record of the original, at most 1; all 1 if the schema names no weight.

    Raises :class:`DataError` for one that is missing, negative or infinite.
    """
    if schema.weight is None:
        return np.ones(original.rows)
    weights = original.columns[schema.weight].reals()
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise DataError(
            f"The weight column {schema.weight!r} of the original must hold numbers of at least 0; row "
            f"{int(np.argmax(wrong)) + 1} does not. Correct the weight or leave the record out."
        )
    return weights / max(float(weights.max(initial=0.0)), np.finfo(np.float64).tiny)


def standardize(before: Floats, after: Floats, weights: Floats) -> tuple[Floats, Floats] | None:
    """Both sides less the original's weighted mean, over its deviation; NaN stays; None if there is no deviation.

    The deviation is that of the population, sqrt(sum w (x - mean)^2 / sum w).

    Examples
    --------
    >>> standardize(np.array([1e300, 3e300]), np.array([2e300, np.nan]), np.ones(2))
    (array([-1.,  1.]), array([ 0., nan]))
    """
    known: Mask = ~np.isnan(before) & (weights > 0)
    own, weights = before[known], weights[known]
    both = centre(own, before if after is before else np.concatenate((before, after)), weights)
    if both.constant:
        return None
    deviation = float(np.sqrt(np.average(np.square(both.before), weights=weights)))
    if deviation == 0:
        return None
    numbers = both.after / deviation
    return numbers[: len(before)], numbers[-len(after) :]


def _of_quasi(column: Column, original: Values, released: Values, pairs: Integers) -> Quantity:
    if column.kind == "ordinal":
        reading = read_ranks(column, original, released)
        return Quantity(column.name, True, reading.before[pairs], reading.after)
    reading = read_numbers(column.name, original, released)
    step, unit = _axis(original)
    return _quantity(column.name, reading, pairs, step=step, unit=unit)


def _quantity(name: str, reading: Numbers, pairs: Integers, *, step: float = 1.0, unit: str | None = None) -> Quantity:
    return Quantity(name, True, reading.before[pairs], reading.after, reading.origin, step, unit)


def _axis(values: Values) -> tuple[float, str | None]:
    """What a count is worth, and in which unit: durations and times of day in seconds, dates in their own."""
    if values.storage in ("duration", "time"):
        return NANOSECONDS[str(values.unit)] / 1e9, "seconds"
    return 1.0, values.unit if values.is_time else None


def _of_parts(column: Column, original: Table, released: Table, pairs: Integers) -> Iterator[Quantity]:
    for part in column.parts:
        yield _quantity(part, read_numbers(part, original.columns[part], released.columns[part]), pairs)


def _of_codes(column: Column, original: Table, released: Table, pairs: Integers) -> Quantity:
    reading = read_categories(column.name, original.columns[column.name], released.columns[column.name])
    known = sorted(reading.names[code] for code in np.unique(reading.before[reading.before >= 0]).tolist())
    ranks = np.array([*(_middle_rank(name, known) for name in reading.names), np.nan])
    return Quantity(column.name, True, ranks[reading.before[pairs]], ranks[reading.after])


def _middle_rank(name: str, known: Sequence[str]) -> float:
    """The rank of a code, or the middle rank of those that begin as it does; NaN if none does."""
    at = bisect_left(known, name)
    if known[at : at + 1] == [name]:
        return float(at)
    prefix = name.rstrip("*")
    first, last = bisect_left(known, prefix), bisect_left(known, prefix + "\U0010ffff")
    return (first + last - 1) / 2 if first < last else np.nan
