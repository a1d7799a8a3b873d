"""The first pass over a data set: what each part tells, and the encoding and the sample that come of all of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import frexp, fsum, ldexp, sqrt
from typing import Any

import numpy as np

from microcell import auditing, encoding, tables
from microcell.dask.arrow import arrow, concatenate
from microcell.encoding import fit_confidential, sampling_weights
from microcell.errors import OptionError
from microcell.kernels.arrays import sum_of_squares, unit_vectors
from microcell.kinds import kind_of
from microcell.kinds.nominal import indicator_height
from microcell.kinds.numeric import scale_exponent
from microcell.model import Column, EncodedColumn, Encoding, Floats, Integers, Schema, Table, Values

__all__ = [
    "Dependence",
    "Design",
    "Placed",
    "Sums",
    "Survey",
    "add_up",
    "check_confidential",
    "encode_survey",
    "find_factor",
    "stratum_keys",
    "survey_table",
    "unite",
    "unite_distortion",
]


@dataclass(frozen=True, eq=False)
class Dependence:
    """How confidential columns take part: their encoding, and the factor of their points; None if they stand alone."""

    encoding: Encoding
    factor: float | None = None


@dataclass(frozen=True, eq=False)
class Placed:
    """Records as points: of the quasi-identifiers, of the confidential columns if they count, and of the design."""

    quasi: Floats
    confidential: Floats | None
    design: Floats


@dataclass(frozen=True, eq=False)
class Design:
    """How records become points, the same for all parts of a data set."""

    encoding: Encoding = Encoding(())  # noqa: RUF009
    dependence: Dependence | None = None

    def place(self, table: Table) -> Placed:
        """The records as points; see :func:`microcell.methods.extend` for those that preserve dependence."""
        quasi = encoding.place(table, self.encoding).matrix
        if self.dependence is None:
            return Placed(quasi, None, quasi)
        confidential = encoding.place(table, self.dependence.encoding).matrix
        if self.dependence.factor is None:
            return Placed(quasi, confidential, confidential)
        extended = np.hstack([quasi, self.dependence.factor * confidential])
        return Placed(quasi, confidential, np.ascontiguousarray(extended))


@dataclass(frozen=True, eq=False)
class Sums:
    """What the distortion of all records is added up from: SSE within cells, and weighted sums of the points."""

    sse: float
    weight: float
    sums: Floats
    squares: float


def add_up(points: Floats, weights: Floats | None, labels: Integers | None = None) -> Sums:
    """The sums of some records; without cells there is no SSE."""
    each = np.ones(len(points)) if weights is None else weights
    return Sums(
        0.0 if labels is None else sum_of_squares(points, labels, each),
        float(each.sum()),
        (points * each[:, np.newaxis]).sum(axis=0),
        float((np.square(points).sum(axis=1) * each).sum()),
    )


def unite_distortion(parts: Sequence[Sums]) -> float:
    """SSE / SST of the points of all records."""
    total = _spread(parts)
    return 0.0 if total <= 0 else fsum(part.sse for part in parts) / total


def find_factor(
    dependence: float, quasi: Sequence[Sums], confidential: Sequence[Sums]
) -> float | None:
    """The beta of :func:`microcell.methods.extend` for all records; None if confidential points stand alone."""
    # To 12 digits, as in memory: the variance of standardized columns is then their number, whatever was rounded.
    x, y = (
        float(f"{_spread(parts) / fsum(part.weight for part in parts):.12g}")
        for parts in (quasi, confidential)
    )
    return (
        None if dependence == 1 or x <= 0 else float(np.sqrt(dependence / (1 - dependence) * x / y))
    )


def _spread(parts: Sequence[Sums]) -> float:
    """SST of all records."""
    sums = np.array([fsum(axis) for axis in zip(*(part.sums for part in parts), strict=True)])
    weight = fsum(part.weight for part in parts)
    return fsum(part.squares for part in parts) - float(np.square(sums).sum()) / weight


def check_confidential(schema: Schema, fitted: Encoding | None = None) -> None:
    """Refuse to preserve dependence where there is nothing to depend on; known once columns were looked at."""
    if not schema.confidential:
        raise OptionError(
            "dependence is for confidential columns, and the schema names none. Name some, or use 0."
        )
    if fitted is not None and fitted.dimensions == 0:
        raise OptionError(
            "No confidential column has differences, so that nothing depends on them. Use 0."
        )


Key = tuple[str | None, ...]
"""The values of a stratum, by their names; None where missing."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over values, one for each axis, that add up exactly: how many, their sum and their sum of squares.

    Exact fractions lose nothing however far apart values lie, so that the order of the parts does not matter.
    """

    count: int
    sums: tuple[Fraction, ...]
    squares: Fraction
    low: tuple[Any, ...]
    high: tuple[Any, ...]

    def __add__(self, other: "Moments") -> "Moments":
        if not self.count or not other.count:
            return self if self.count else other
        return Moments(
            self.count + other.count,
            tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)),
            self.squares + other.squares,
            tuple(map(min, self.low, other.low)),
            tuple(map(max, self.high, other.high)),
        )

    @property
    def means(self) -> tuple[Fraction, ...]:
        """The mean along each axis."""
        return tuple(total / self.count for total in self.sums)

    @property
    def variance(self) -> Fraction:
        """The population variance, summed over the axes."""
        return self.squares / self.count - sum((mean**2 for mean in self.means), Fraction(0))


NOTHING = Moments(0, (), Fraction(0), (), ())


@dataclass(frozen=True, eq=False)
class Survey:
    """What some records tell: how many there are, moments and categories of quasi-identifiers, strata and a sample.

    ``categories`` are Arrow tables of a column's different values and how many records have each.
    """

    read: int
    rows: int
    moments: Mapping[str, Moments]
    categories: Mapping[str, Any]
    storages: Mapping[str, tuple[str, str | None]]
    strata: Counter[Key]
    sample: Any


def survey_table(
    table: Table,
    schema: Schema,
    read: int,
    chance: np.random.Generator,
    share: float,
    *,
    confidential: bool = False,
) -> Survey:
    """What the records of a part tell, of so many that were read; a share of them goes into the sample.

    With ``confidential``, also what they tell of the confidential columns.
    """
    columns = (*schema.quasi, *(schema.confidential if confidential else ()))
    checked = tuple(c for c in columns if _has_moments(c) or c.order is not None)
    fitted = encoding.fit(table, Schema(quasi=checked)) if table.rows else Encoding(())
    sampling_weights(table, schema)
    by_name = {column.name: column for column in fitted.columns}
    names = list(
        dict.fromkeys((*schema.keys, *(part for column in columns for part in column.parts)))
    )
    rows = np.flatnonzero(chance.random(table.rows) < share)
    keys, labels = stratum_keys(table, schema.strata)
    return Survey(
        read,
        table.rows,
        {c.name: _moments(table, c, by_name.get(c.name)) for c in columns if _has_moments(c)},
        {c.name: _count_values(table, c.name) for c in columns if not _has_moments(c)},
        {c.name: _storage(table.columns[c.parts[0]]) for c in columns},
        Counter(dict(zip(keys, np.bincount(labels, minlength=len(keys)).tolist(), strict=True))),
        table.native.select(names).take(arrow().array(rows)),
    )


def unite(surveys: Sequence[Survey]) -> Survey:
    """What all parts together tell."""
    first = surveys[0]
    return Survey(
        sum(part.read for part in surveys),
        sum(part.rows for part in surveys),
        {name: sum((part.moments[name] for part in surveys), NOTHING) for name in first.moments},
        {
            name: _add_counts([part.categories[name] for part in surveys])
            for name in first.categories
        },
        {name: _first_known([part.storages[name] for part in surveys]) for name in first.storages},
        sum((part.strata for part in surveys), Counter()),
        concatenate([part.sample for part in surveys]),
    )


def stratum_keys(table: Table, strata: Sequence[str]) -> tuple[list[Key], Integers]:
    """The values of each stratum that the table has records of, and the number of each record's among them."""
    labels = auditing.class_labels(table, strata)
    _, rows = np.unique(labels, return_index=True)
    columns = [_names_at(table.columns[name], rows) for name in strata]
    return [tuple(column[at] for column in columns) for at in range(len(rows))], labels


def _names_at(values: Values, rows: Integers) -> list[str | None]:
    codes, names = values.factorize()
    return [None if code < 0 else names[code] for code in codes[rows].tolist()]


# ---------------------------------------------------------------------------------------------- parts


def _has_moments(column: Column) -> bool:
    """Return whether the column is fitted from its mean and variance, not from its names."""
    return kind_of(column).layout in ("line", "sphere")


def _moments(table: Table, column: Column, fitted: EncodedColumn | None) -> Moments:
    """The moments of a part, from its own fit, which keeps the digits of values however large."""
    if kind_of(column).layout == "sphere":
        return _moments_of_places(table, column)
    values = table.columns[column.name]
    data = values.data[~values.missing]
    if len(data) == 0 or fitted is None:
        return NOTHING
    low, high = data.min().item(), data.max().item()
    if fitted.constant:
        mean, variance = Fraction(low), Fraction(0)
    else:
        unit = Fraction(2) ** fitted.exponent
        mean = (Fraction(fitted.origin) + Fraction(float(fitted.centre[0]))) / unit
        variance = (Fraction(float(fitted.scale[0])) / unit) ** 2
    return _of_mean(len(data), (mean,), variance, (low,), (high,))


def _moments_of_places(table: Table, column: Column) -> Moments:
    values = [table.columns[part] for part in column.parts]
    known = ~(values[0].missing | values[1].missing)
    if not known.any():
        return NOTHING
    vectors = unit_vectors(*(part.reals()[known] for part in values))
    centre = vectors.mean(axis=0)
    rest = vectors - centre
    centre += rest.mean(axis=0)
    variance = Fraction(float(np.square(vectors - centre).sum() / len(vectors)))
    low, high = (tuple(side.tolist()) for side in (vectors.min(axis=0), vectors.max(axis=0)))
    return _of_mean(len(vectors), tuple(Fraction(float(x)) for x in centre), variance, low, high)


def _of_mean(
    count: int,
    means: tuple[Fraction, ...],
    variance: Fraction,
    low: tuple[Any, ...],
    high: tuple[Any, ...],
) -> Moments:
    squares = count * (variance + sum((mean**2 for mean in means), Fraction(0)))
    return Moments(count, tuple(count * mean for mean in means), squares, low, high)


def _count_values(table: Table, name: str) -> Any:
    """The different values of a column, each from the first record that has it, and the number of those."""
    codes, names = table.columns[name].factorize()
    known = np.flatnonzero(codes >= 0)
    found, first = np.unique(codes[known], return_index=True)
    counts = np.bincount(codes[known], minlength=len(names))[found]
    pa = arrow()
    return pa.table(
        {"value": table.native.column(name).take(pa.array(known[first])), "count": pa.array(counts)}
    )


def _add_counts(parts: Sequence[Any]) -> Any:
    pa, together = arrow(), concatenate(parts)
    codes, names = tables.read(together.select(["value"])).columns["value"].factorize()
    found, first = np.unique(codes, return_index=True)
    counts = np.zeros(len(names), dtype=np.int64)
    np.add.at(counts, codes, together.column("count").to_numpy())
    return pa.table(
        {"value": together.column("value").take(pa.array(first)), "count": pa.array(counts[found])}
    )


def _storage(values: Values) -> tuple[str, str | None]:
    return values.storage, values.unit if values.is_time else None


def _first_known(found: Sequence[tuple[str, str | None]]) -> tuple[str, str | None]:
    return next((item for item in found if item[0] != "empty"), ("empty", None))


# ---------------------------------------------------------------------------------------------- the encoding of all


def encode_survey(survey: Survey, schema: Schema, *, confidential: bool = False) -> Encoding:
    """The encoding that all records together have: what fitting them in memory gives, but for rounding.

    Of the quasi-identifiers, or of the ``confidential`` columns.
    """
    columns: list[EncodedColumn] = []
    for column in schema.confidential if confidential else schema.quasi:
        if column.name in survey.moments:
            fitted = _fit_moments(column, survey)
        else:
            fitted = _fit_counts(column, survey, confidential=confidential)
        columns.append(replace(fitted, first=columns[-1].last if columns else 0))
    return Encoding(tuple(columns))


def _fit_moments(column: Column, survey: Survey) -> EncodedColumn:
    moments, (storage, unit) = survey.moments[column.name], survey.storages[column.name]
    weight = float(column.weight)
    blank = EncodedColumn(column.name, str(column.kind), column.parts, storage, unit, weight)  # type: ignore[arg-type]
    if moments.count == 0 or moments.low == moments.high:
        return blank
    if kind_of(column).layout == "sphere":
        scale = sqrt(moments.variance / 2)
        return replace(
            blank, centre=np.array([float(mean) for mean in moments.means]), scale=np.full(3, scale)
        )
    (low,), (high,), (mean,) = moments.low, moments.high, moments.means
    # As in memory: an origin that is a round number near the mean, and the rest of the mean as a float.
    half = float(Fraction(high) / 2 - Fraction(low) / 2)
    exponent = 0 if isinstance(low, int) else scale_exponent(half)
    unit_of = Fraction(2) ** exponent
    deviation = _root(moments.variance * unit_of**2)
    grid = (
        Fraction(1) if half * float(unit_of) >= 0.5 else Fraction(ldexp(0.5, frexp(deviation)[1]))
    )
    origin = round(mean * unit_of / grid) * grid
    return replace(
        blank,
        origin=int(origin) if isinstance(low, int) else float(origin),
        exponent=exponent,
        centre=np.array([float(mean * unit_of - origin)]),
        scale=np.array([deviation]),
    )


def _root(square: Fraction) -> float:
    """The square root of a fraction that may be too large or too small for a float."""
    shift = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    return ldexp(sqrt(square / Fraction(4) ** shift), shift)


def _fit_counts(column: Column, survey: Survey, *, confidential: bool) -> EncodedColumn:
    """A column of categories: fitted to each of them once, then moved to where the records' mean and spread are."""
    found = survey.categories[column.name]
    values, numbers = found.column("value"), found.column("count").to_numpy()
    # As many rows as make the categories as frequent, compared with the rows, as they are at most in the data set.
    rows = (
        np.resize(np.arange(len(values)), min(survey.rows, 2 * len(values)))
        if len(values)
        else np.zeros(0, int)
    )
    table = tables.read(arrow().table({column.name: values.take(arrow().array(rows))}))
    if confidential:
        (fitted,) = fit_confidential(table, Schema(confidential=(column,))).columns
    else:
        (fitted,) = encoding.fit(table, Schema(quasi=(column,))).columns
    storage, unit = survey.storages[column.name]
    fitted = replace(fitted, storage=storage, unit=unit)  # type: ignore[arg-type]
    names = tables.read(found.select(["value"])).columns["value"].factorize()
    known = dict(zip((names[1][code] for code in names[0].tolist()), numbers.tolist(), strict=True))
    counts = np.array([known.get(str(name), 0) for name in fitted.names], dtype=np.int64)
    own = fitted if fitted.counts is None else replace(fitted, counts=counts)
    if fitted.constant:
        return own
    if kind_of(column).layout == "indicators":
        marked = counts[len(counts) - fitted.dimensions :]
        height = indicator_height(fitted.dimensions)
        return replace(own, centre=marked * height / counts.sum())
    return _moved(own, counts / counts.sum())


def _moved(column: EncodedColumn, shares: Floats) -> EncodedColumn:
    mean = float(shares @ column.places)
    places = column.places - mean
    deviation = sqrt(float(shares @ np.square(places)))
    return replace(
        column,
        centre=column.centre + mean * column.scale,
        scale=column.scale * deviation,
        places=places / deviation,
    )
