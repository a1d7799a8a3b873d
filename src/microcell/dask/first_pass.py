"""First pass over a data set: summaries of its parts, the common encoding, and a sample."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import frexp, fsum, ldexp, sqrt
from typing import Any

import numpy as np

from microcell import auditing, encoding, tables
from microcell._display import count as plural
from microcell.dask.arrow import arrow, concatenate
from microcell.dask.people import some_persons, some_persons_by_group
from microcell.encoding import fit_confidential, sampling_weights
from microcell.errors import SchemaError
from microcell.kernels.arrays import sum_of_squares, unit_vectors
from microcell.kinds import kind_of
from microcell.kinds.hierarchical import fit_tree
from microcell.kinds.nominal import indicator_height
from microcell.kinds.numeric import scale_exponent
from microcell.model import Column, EncodedColumn, Encoding, Floats, Integers, Schema, Table, Values
from microcell.schema.resolve import resolve_columns

__all__ = [
    "Dependence",
    "EmbeddedRecords",
    "Embedding",
    "Summary",
    "Sums",
    "combine",
    "combined_distortion",
    "dependence_factor",
    "fit_encoding",
    "resolve_hierarchies",
    "stratum_keys",
    "sum_points",
    "summarize_table",
]


@dataclass(frozen=True, eq=False)
class Dependence:
    """Encoding and scale of confidential columns; ``factor`` is None if dependence is 1."""

    encoding: Encoding
    factor: float | None = None


@dataclass(frozen=True, eq=False)
class EmbeddedRecords:
    """Records as points: quasi-identifiers, confidential columns if used, and both combined."""

    quasi: Floats
    confidential: Floats | None
    combined: Floats


@dataclass(frozen=True, eq=False)
class Embedding:
    """The map from records to points, which is the same for all parts of a data set."""

    encoding: Encoding = Encoding(())  # noqa: RUF009
    dependence: Dependence | None = None

    def place(self, table: Table) -> EmbeddedRecords:
        """Return records as points, extended as in :func:`microcell.methods.extend`."""
        quasi = encoding.place(table, self.encoding).matrix
        if self.dependence is None:
            return EmbeddedRecords(quasi, None, quasi)
        confidential = encoding.place(table, self.dependence.encoding).matrix
        if self.dependence.factor is None:
            return EmbeddedRecords(quasi, confidential, confidential)
        extended = np.hstack([quasi, self.dependence.factor * confidential])
        return EmbeddedRecords(quasi, confidential, np.ascontiguousarray(extended))


@dataclass(frozen=True, eq=False)
class Sums:
    """Terms of the distortion that add up over parts: SSE within cells, and sums of the points."""

    sse: float
    weight: float
    sums: Floats
    squares: float


def sum_points(points: Floats, weights: Floats | None, labels: Integers | None = None) -> Sums:
    """Return the sums over some records; without labels the SSE is 0."""
    each = np.ones(len(points)) if weights is None else weights
    return Sums(
        0.0 if labels is None else sum_of_squares(points, labels, each),
        float(each.sum()),
        (points * each[:, np.newaxis]).sum(axis=0),
        float((np.square(points).sum(axis=1) * each).sum()),
    )


def combined_distortion(parts: Sequence[Sums], sse: Sequence[float] | None = None) -> float:
    """Return SSE / SST of the points of all records; ``sse`` is that of other cells."""
    total = _total_sum_of_squares(parts)
    squares = [part.sse for part in parts] if sse is None else sse
    return 0.0 if total <= 0 else fsum(squares) / total


def dependence_factor(
    dependence: float, quasi: Sequence[Sums], confidential: Sequence[Sums]
) -> float | None:
    """Return the factor beta of :func:`microcell.methods.extend`; None if dependence is 1."""
    # Rounded to 12 digits, as in memory, so that standardized columns have variance exactly 1.
    x, y = (
        float(f"{_total_sum_of_squares(parts) / fsum(part.weight for part in parts):.12g}")
        for parts in (quasi, confidential)
    )
    return (
        None if dependence == 1 or x <= 0 else float(np.sqrt(dependence / (1 - dependence) * x / y))
    )


def _total_sum_of_squares(parts: Sequence[Sums]) -> float:
    sums = np.array([fsum(axis) for axis in zip(*(part.sums for part in parts), strict=True)])
    weight = fsum(part.weight for part in parts)
    return fsum(part.squares for part in parts) - float(np.square(sums).sum()) / weight


Key = tuple[str | None, ...]
"""Values of a stratum as text; None if missing."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, sum and sum of squares of values per axis, as exact fractions.

    They add up without rounding, so that the order of the parts does not matter.
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
        """Mean along each axis."""
        return tuple(total / self.count for total in self.sums)

    @property
    def variance(self) -> Fraction:
        """Population variance, summed over the axes."""
        return self.squares / self.count - sum((mean**2 for mean in self.means), Fraction(0))


NO_MOMENTS = Moments(0, (), Fraction(0), (), ())


@dataclass(frozen=True, eq=False)
class Summary:
    """Summary of some records: counts, moments and categories of columns, strata and a sample.

    ``read`` counts the records read, ``rows`` those released. ``categories`` are Arrow tables of
    the distinct values of a column with their counts. ``persons`` are some persons of each stratum
    (:func:`microcell.dask.people.some_persons`), if they are counted.
    """

    read: int
    rows: int
    moments: Mapping[str, Moments]
    categories: Mapping[str, Any]
    storages: Mapping[str, tuple[str, str | None]]
    strata: Counter[Key]
    sample: Any
    persons: Mapping[Key, Integers] = field(default_factory=dict)


def summarize_table(
    table: Table,
    schema: Schema,
    read: int,
    rng: np.random.Generator,
    share: float,
    *,
    confidential: bool = False,
    persons: Integers | None = None,
    k: int = 0,
    sampled: Sequence[str] = (),
) -> Summary:
    """Summarize the quasi-identifiers of a part and sample a share of its records.

    With ``confidential``, the confidential columns are summarized as well. With ``persons``, the
    digest of each record's person, up to k persons of each stratum are kept. The sample contains
    the columns in ``sampled`` too.
    """
    columns = (*schema.quasi, *(schema.confidential if confidential else ()))
    checked = tuple(c for c in columns if _has_moments(c) or c.order is not None)
    fitted = encoding.fit(table, Schema(quasi=checked)) if table.rows else Encoding(())
    sampling_weights(table, schema)
    by_name = {column.name: column for column in fitted.columns}
    names = list(
        dict.fromkeys(
            (*schema.keys, *(part for column in columns for part in column.parts), *sampled)
        )
    )
    rows = np.flatnonzero(rng.random(table.rows) < share)
    keys, labels = stratum_keys(table, schema.strata)
    return Summary(
        read,
        table.rows,
        {c.name: _moments(table, c, by_name.get(c.name)) for c in columns if _has_moments(c)},
        {c.name: _count_values(table, c.name) for c in columns if not _has_moments(c)},
        {c.name: _storage(table.columns[c.parts[0]]) for c in columns},
        Counter(dict(zip(keys, np.bincount(labels, minlength=len(keys)).tolist(), strict=True))),
        table.native.select(names).take(arrow().array(rows)),
        {}
        if persons is None
        else dict(zip(keys, some_persons_by_group(persons, labels, k), strict=True)),
    )


def combine(parts: Sequence[Summary], k: int = 0) -> Summary:
    """Combine the summaries of all parts, with up to k persons of each stratum."""
    first = parts[0]
    persons: dict[Key, list[Integers]] = {}
    for part in parts:
        for key, some in part.persons.items():
            persons.setdefault(key, []).append(some)
    return Summary(
        sum(part.read for part in parts),
        sum(part.rows for part in parts),
        {name: sum((part.moments[name] for part in parts), NO_MOMENTS) for name in first.moments},
        {name: _add_counts([part.categories[name] for part in parts]) for name in first.categories},
        {name: _first_storage([part.storages[name] for part in parts]) for name in first.storages},
        sum((part.strata for part in parts), Counter()),
        concatenate([part.sample for part in parts]),
        {key: some_persons(np.concatenate(some), k) for key, some in persons.items()},
    )


def stratum_keys(table: Table, strata: Sequence[str]) -> tuple[list[Key], Integers]:
    """Return the keys of the strata in a table, and the position of each record's key."""
    labels = auditing.class_labels(table, strata)
    _, rows = np.unique(labels, return_index=True)
    columns = [_names_at(table.columns[name], rows) for name in strata]
    return [tuple(column[i] for column in columns) for i in range(len(rows))], labels


def _names_at(values: Values, rows: Integers) -> list[str | None]:
    codes, names = values.factorize()
    return [None if code < 0 else names[code] for code in codes[rows].tolist()]


# -------------------------------------------------------------------------------- parts


def _has_moments(column: Column) -> bool:
    """Return True if the column is fitted from its mean and variance, not from its names."""
    return kind_of(column).layout in ("line", "sphere")


def _moments(table: Table, column: Column, fitted: EncodedColumn | None) -> Moments:
    """Return the moments of a part, derived from its own fit so that no precision is lost."""
    if kind_of(column).layout == "sphere":
        return _moments_of_places(table, column)
    values = table.columns[column.name]
    data = values.data[~values.missing]
    if len(data) == 0 or fitted is None:
        return NO_MOMENTS
    low, high = data.min().item(), data.max().item()
    if fitted.constant:
        mean, variance = Fraction(low), Fraction(0)
    else:
        unit = Fraction(2) ** fitted.exponent
        mean = (Fraction(fitted.origin) + Fraction(float(fitted.centre[0]))) / unit
        variance = (Fraction(float(fitted.scale[0])) / unit) ** 2
    return _moments_from_mean(len(data), (mean,), variance, (low,), (high,))


def _moments_of_places(table: Table, column: Column) -> Moments:
    values = [table.columns[part] for part in column.parts]
    present = ~(values[0].missing | values[1].missing)
    if not present.any():
        return NO_MOMENTS
    vectors = unit_vectors(*(part.reals()[present] for part in values))
    centre = vectors.mean(axis=0)
    residuals = vectors - centre
    centre += residuals.mean(axis=0)
    variance = Fraction(float(np.square(vectors - centre).sum() / len(vectors)))
    low, high = (tuple(side.tolist()) for side in (vectors.min(axis=0), vectors.max(axis=0)))
    return _moments_from_mean(
        len(vectors), tuple(Fraction(float(x)) for x in centre), variance, low, high
    )


def _moments_from_mean(
    count: int,
    means: tuple[Fraction, ...],
    variance: Fraction,
    low: tuple[Any, ...],
    high: tuple[Any, ...],
) -> Moments:
    squares = count * (variance + sum((mean**2 for mean in means), Fraction(0)))
    return Moments(count, tuple(count * mean for mean in means), squares, low, high)


def _count_values(table: Table, name: str) -> Any:
    """Return the distinct values of a column, each as it first occurs, with their counts."""
    codes, names = table.columns[name].factorize()
    present = np.flatnonzero(codes >= 0)
    distinct, first = np.unique(codes[present], return_index=True)
    counts = np.bincount(codes[present], minlength=len(names))[distinct]
    pa = arrow()
    return pa.table(
        {
            "value": table.native.column(name).take(pa.array(present[first])),
            "count": pa.array(counts),
        }
    )


def _add_counts(parts: Sequence[Any]) -> Any:
    pa, together = arrow(), concatenate(parts)
    codes, names = tables.read(together.select(["value"])).columns["value"].factorize()
    distinct, first = np.unique(codes, return_index=True)
    counts = np.zeros(len(names), dtype=np.int64)
    np.add.at(counts, codes, together.column("count").to_numpy())
    return pa.table(
        {
            "value": together.column("value").take(pa.array(first)),
            "count": pa.array(counts[distinct]),
        }
    )


def _storage(values: Values) -> tuple[str, str | None]:
    return values.storage, values.unit if values.is_time else None


def _first_storage(storages: Sequence[tuple[str, str | None]]) -> tuple[str, str | None]:
    return next((item for item in storages if item[0] != "empty"), ("empty", None))


# -------------------------------------------------------------------------------- common encoding


def resolve_hierarchies(schema: Schema, summary: Summary) -> Schema:
    """Fit bands to the values of all files, and check that hierarchies have all of them."""

    def resolved(column: Column) -> Column:
        if column.hierarchy is None and column.bands is None:
            return column
        values = summary.categories[column.name].column("value")
        try:
            (fitted,) = resolve_columns([column], tables.read(arrow().table({column.name: values})))
        except SchemaError as error:
            if error.code != "schema.unknown_category":
                raise
            count = error.details["count"]
            raise SchemaError(  # rows of distinct values are not rows of the files
                f"Column {column.name!r} contains {plural(count, 'value')} that are "
                "missing from its hierarchy. Add them to the hierarchy, or correct the files.",
                code=error.code,
                column=column.name,
                count=count,
            ) from None
        return fitted

    return replace(schema, quasi=[resolved(column) for column in schema.quasi])


def fit_encoding(summary: Summary, schema: Schema, *, confidential: bool = False) -> Encoding:
    """Return the encoding of all records, equal to an in-memory fit up to rounding.

    Encodes the quasi-identifiers, or the ``confidential`` columns.
    """
    columns: list[EncodedColumn] = []
    for column in schema.confidential if confidential else schema.quasi:
        if column.name in summary.moments:
            fitted = _fit_moments(column, summary)
        else:
            fitted = _fit_counts(column, summary, confidential=confidential)
        columns.append(replace(fitted, first=columns[-1].last if columns else 0))
    return Encoding(tuple(columns))


def _fit_moments(column: Column, summary: Summary) -> EncodedColumn:
    moments, (storage, unit) = summary.moments[column.name], summary.storages[column.name]
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
    # As in memory: the origin is a round number near the mean, the remainder is a float.
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
    """Return the square root of a fraction that may exceed the range of floats."""
    shift = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    return ldexp(sqrt(square / Fraction(4) ** shift), shift)


def _fit_counts(column: Column, summary: Summary, *, confidential: bool) -> EncodedColumn:
    """Fit a categorical column on its distinct values, then adjust mean and scale to the counts."""
    categories = summary.categories[column.name]
    values, numbers = categories.column("value"), categories.column("count").to_numpy()
    # Enough rows for the ratio of categories to rows to be the same as in the data set.
    rows = (
        np.resize(np.arange(len(values)), min(summary.rows, 2 * len(values)))
        if len(values)
        else np.zeros(0, int)
    )
    table = tables.read(arrow().table({column.name: values.take(arrow().array(rows))}))
    if confidential:
        (fitted,) = fit_confidential(table, Schema(confidential=(column,))).columns
    else:
        (fitted,) = encoding.fit(table, Schema(quasi=(column,))).columns
    storage, unit = summary.storages[column.name]
    fitted = replace(fitted, storage=storage, unit=unit)  # type: ignore[arg-type]
    codes, names = tables.read(categories.select(["value"])).columns["value"].factorize()
    count_of = dict(zip((names[code] for code in codes.tolist()), numbers.tolist(), strict=True))
    if kind_of(column).layout == "tree":
        return replace(fit_tree(replace(fitted, names=()), count_of), storage=storage, unit=unit)  # type: ignore[arg-type]
    counts = np.array([count_of.get(str(name), 0) for name in fitted.names], dtype=np.int64)
    counted = fitted if fitted.counts is None else replace(fitted, counts=counts)
    if fitted.constant:
        return counted
    if kind_of(column).layout == "indicators":
        marked = counts[len(counts) - fitted.dimensions :]
        height = indicator_height(fitted.dimensions)
        return replace(counted, centre=marked * height / counts.sum())
    return _recentre(counted, counts / counts.sum())


def _recentre(column: EncodedColumn, shares: Floats) -> EncodedColumn:
    mean = float(shares @ column.places)
    places = column.places - mean
    deviation = sqrt(float(shares @ np.square(places)))
    return replace(
        column,
        centre=column.centre + mean * column.scale,
        scale=column.scale * deviation,
        places=places / deviation,
    )
