"""Allocate points to centres of limited capacity, such as patients to hospitals."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import frexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell import progress, tables
from microcell._display import count, html_card, record_html, record_repr, short_repr
from microcell.errors import DataError, OptionError
from microcell.kernels.arrays import EARTH_RADIUS, unit_vectors
from microcell.kernels.transport import choose_cells
from microcell.methods.lloyd import MANY_CELLS, adjust_exactly
from microcell.methods.pcl_options import as_demand, equal_sizes, split_demand
from microcell.model import Floats, Integers, Mask, Table, Values

__all__ = ["Allocation", "CentreSummary", "Spread", "Summary", "allocate"]

_LARGEST = 1e150
"""Squares of larger coordinates overflow."""


@dataclass(frozen=True)
class Spread:
    """Mean, median, 90th percentile and maximum of a set of distances."""

    mean: float
    median: float
    p90: float
    max: float

    __repr__ = record_repr
    _repr_html_ = record_html

    @classmethod
    def of(cls, distances: Floats) -> "Spread":
        """Summarize the distances."""
        median, p90 = np.quantile(distances, [0.5, 0.9]).tolist()
        return cls(float(distances.mean()), median, p90, float(distances.max()))


@dataclass(frozen=True)
class CentreSummary:
    """Load, capacity, mean distance and price of a centre.

    ``mean_distance`` is None if the centre has no points.
    """

    name: str | int
    load: int
    places: int
    mean_distance: float | None
    price: float

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class Summary:
    """Summary statistics of an allocation.

    ``nearest`` describes the distances if every point went to its nearest centre regardless of
    capacity, a lower bound for any allocation. ``unit`` is "km", "standard deviations", or empty
    for the units of the columns.
    """

    points: int
    places: int
    columns: tuple[str, ...]
    unit: str
    distances: Spread
    nearest: Spread
    centres: tuple[CentreSummary, ...]

    __repr__ = record_repr
    _repr_html_ = record_html

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False, repr=False)
class Allocation:
    """The centre of each point, and its distance.

    ``table`` is the table of points, in the type that was passed in, with two more columns,
    ``centre`` and ``distance``; ``allocated`` is the same table as a :class:`Table`. ``prices`` are
    in squared distance: adding a place to a centre lowers the sum of squared distances by at most
    its price, and removing one raises it by at least its price. A centre with places left has price
    0.
    """

    table: Any
    allocated: Table
    labels: Integers
    """(n,): row of each point's centre, from 0; with a demand, of each row of the table."""
    distances: Floats
    nearest: Floats
    """(n,): distance to the nearest centre, regardless of capacity."""
    prices: Floats
    loads: Integers
    places: Integers
    centres: tuple[str | int, ...]
    """Name of each centre."""
    points: Floats
    """(n, m): coordinates; latitude and longitude in degrees if ``unit`` is "km"."""
    sites: Floats
    columns: tuple[str, ...]
    unit: str
    amounts: Integers
    """Places that each row of the table takes at its centre: 1, or its part of the demand."""

    @property
    def summary(self) -> Summary:
        """Summary statistics of the allocation."""
        each = self.distances * self.amounts
        sums = np.bincount(self.labels, weights=each, minlength=len(self.loads))
        facts = (column.tolist() for column in (self.loads, self.places, sums, self.prices))
        return Summary(
            points=len(self.labels),
            places=sum(self.places.tolist()),
            columns=self.columns,
            unit=self.unit,
            distances=Spread.of(self.distances),
            nearest=Spread.of(self.nearest),
            centres=tuple(
                CentreSummary(name, load, places, total / load if load else None, price)
                for name, load, places, total, price in zip(self.centres, *facts, strict=True)
            ),
        )

    def __repr__(self) -> str:
        centres = count(len(self.loads), "centre")
        return short_repr(self, f"{count(len(self.labels), 'point')} to {centres}")

    def _repr_html_(self) -> str:
        summary, unit = self.summary, self.unit and f" {self.unit}"
        rows = {
            "Mean distance": f"{summary.distances.mean:.4g}{unit}",
            "Largest distance": f"{summary.distances.max:.4g}{unit}",
            "Mean distance to the nearest centre": f"{summary.nearest.mean:.4g}{unit}",
            "Places": f"{summary.places:,}",
        }
        steps = {"mc.plot.allocation(result)": "draw a map", ".summary": "get all numbers"}
        return html_card(repr(self)[1:-1], rows, next_steps=steps)


def allocate(
    points: Any,
    centres: Any,
    *,
    columns: str | Iterable[str] | None = None,
    location: Iterable[str] | None = None,
    places: str | None = None,
    name: str | None = None,
    demand: str | None = None,
    weight: str | None = None,
    standardize: bool = False,
) -> Allocation:
    """Allocate points to centres of limited capacity, minimizing the sum of squared distances.

    The optimum is exact: no other allocation within the capacities has a smaller sum. A centre
    without places is closed: nothing is allocated to it.

    Parameters
    ----------
    points, centres
        Tables: anything that :func:`read` accepts. At most 1,500 centres.
    columns
        Numeric columns to measure distances in. Default: those that both tables have, except for
        places and names.
    location
        Latitude and longitude columns in degrees, instead of ``columns``. Distances are
        great-circle kilometres; the minimized squares are those of the chords.
    places
        Column of ``centres`` with the capacity of each. Default: "places" if there is such a
        column; otherwise the points are divided equally among the centres.
    name
        Column of ``centres`` with their names. Default: row numbers from 1.
    demand
        Column of ``points`` with the number of places that each needs, at least 1. A point may be
        divided: it then has a row for each of its centres, and the column ``amount`` holds the
        number of places it takes there. The number of divided points is smaller than the number of
        centres.
    weight
        Column of ``points`` with the weight of each in the sum of squared distances, such as the
        number of visits. Default: the demand.
    standardize
        Divide each column by its standard deviation among the points.

    Examples
    --------
    >>> patients = {"x": [0.0, 1.0, 2.0, 9.0]}
    >>> hospitals = {"hospital": ["west", "east"], "x": [1.0, 8.0], "places": [2, 3]}
    >>> result = allocate(patients, hospitals, name="hospital")
    >>> result.table["centre"].tolist(), result.table["distance"].tolist()
    (['west', 'west', 'east', 'east'], [1.0, 0.0, 6.0, 1.0])
    >>> result.prices
    array([35.,  0.])
    """
    people, sites = tables.read(points), tables.read(centres)
    _check_tables(people, sites)
    needs, weights = _read_needs(people, demand, weight)
    capacities = _read_places(sites, places, int(needs.sum()))
    names = _read_names(sites, name)
    if location is None:
        chosen = _choose_columns(people, sites, columns, {places or "places", name, demand, weight})
    else:
        chosen = _check_location(location, other=columns is not None or standardize)
    X, Y = _read_numbers(people, "points", chosen), _read_numbers(sites, "centres", chosen)
    shown, unit = (X, Y), ""
    if location is not None:
        X, Y, unit = _on_sphere(X, "points", chosen), _on_sphere(Y, "centres", chosen), "km"
    elif standardize:
        shown, unit = _standardize(X, Y, chosen), "standard deviations"
        X, Y = shown
    progress.report(f"allocating {people.rows:,} points to {sites.rows:,} centres")
    unit_labels, prices = _solve(X, Y, capacities, needs, weights)
    rows, labels, amounts = np.arange(people.rows), unit_labels, np.ones(people.rows, np.int64)
    if demand is not None:
        rows, labels, amounts = split_demand(np.repeat(rows, needs), unit_labels)
        people, X, shown = tables.take(people, rows), X[rows], (shown[0][rows], shown[1])
    nearest = choose_cells(X, Y, np.zeros(sites.rows))
    distances = _measure(X, Y[labels], unit)
    added = {"centre": names[labels], "distance": distances}
    allocated = tables.add_columns(
        people, added if demand is None else {**added, "amount": amounts}
    )
    return Allocation(
        allocated.native,
        allocated,
        labels=labels,
        distances=distances,
        nearest=_measure(X, Y[nearest], unit),
        prices=prices,
        loads=np.bincount(labels, weights=amounts, minlength=sites.rows).astype(np.int64),
        places=capacities,
        centres=tuple(names.tolist()),
        points=shown[0],
        sites=shown[1],
        columns=chosen,
        unit=unit,
        amounts=amounts,
    )


def _read_needs(
    people: Table, demand: str | None, weight: str | None
) -> tuple[Integers, Floats | None]:
    """Return the places that each point needs, and its weight per place."""
    needs = np.ones(people.rows, dtype=np.int64)
    if demand is not None:
        values = _read_numbers(people, "points", (demand,))[:, 0]
        wrong = (values < 1) | (values != np.floor(values))
        _check_rows(wrong, demand, "points", "values other than integers of at least 1")
        checked = as_demand(values, people.rows, f"column {demand!r}")
        assert checked is not None
        needs = checked
    if weight is None:
        return needs, None
    values = _read_numbers(people, "points", (weight,))[:, 0]
    _check_rows(~(values > 0), weight, "points", "weights that are not positive", "data.bad_weight")
    return needs, values / needs


def _solve(
    points: Floats,
    sites: Floats,
    places: Integers,
    needs: Integers,
    weights: Floats | None,
) -> tuple[Integers, Floats]:
    """Return the label of each unit of demand and the price of each centre.

    This is PCL with fixed centroids, a transportation problem, and the prices are its dual
    variables. Ties between points are broken by their order. Time O(n Q m), plus a shortest path
    among the Q centres for each point that cannot go to its nearest one.
    """
    opened = np.flatnonzero(places > 0)
    if len(opened) < len(places):
        labels, costs = _solve(points, sites[opened], places[opened], needs, weights)
        prices = np.zeros(len(places))
        prices[opened] = costs
        return opened[labels], prices
    points = np.repeat(points, needs, axis=0)
    scales = None if weights is None else np.repeat(weights, needs)
    # A power of two rounds nothing and keeps squares from overflowing or vanishing.
    largest = max(float(np.abs(points).max()), float(np.abs(sites).max()))
    scale = 2.0 ** -max(frexp(largest)[1], -1000)
    labels, costs = np.arange(len(points)) % len(sites), np.zeros(len(sites))
    limits = np.minimum(places, len(points))
    adjust_exactly(
        points * scale, sites * scale, costs, limits, labels,
        lows=np.zeros_like(limits), scales=scales,
    )  # fmt: skip
    if (np.bincount(labels, minlength=len(limits)) == limits).all():
        costs -= costs.min()  # all places are taken, so only differences of prices matter
    return labels, costs / scale / scale


def _on_sphere(degrees: Floats, noun: str, names: Sequence[str]) -> Floats:
    for name, values, limit in zip(names, degrees.T, (90, 180), strict=True):
        problem = f"degrees outside ±{limit} (latitude comes first)"
        _check_rows(np.abs(values) > limit, name, noun, problem, "data.out_of_range")
    return EARTH_RADIUS * unit_vectors(degrees[:, 0], degrees[:, 1])


def _measure(points: Floats, sites: Floats, unit: str) -> Floats:
    """Return the distance between each point and the site in the same row."""
    straight: Floats = np.sqrt(((points - sites) ** 2).sum(axis=1))
    if unit != "km":
        return straight
    diameter = 2 * EARTH_RADIUS
    return np.asarray(diameter * np.arcsin(np.minimum(straight / diameter, 1.0)))


def _standardize(X: Floats, Y: Floats, names: Sequence[str]) -> tuple[Floats, Floats]:
    constant = np.flatnonzero(X.min(axis=0) == X.max(axis=0))
    if len(constant):
        column = names[constant[0]]
        message = f"Column {column!r} is constant among the points. Leave it out of columns."
        raise DataError(message, code="data.invalid", column=column)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        X, Y = X / X.std(axis=0), Y / X.std(axis=0)
    return _check_finite(X, "points", names), _check_finite(Y, "centres", names)


def _check_location(location: Iterable[str], *, other: bool) -> tuple[str, ...]:
    names = tuple(location)
    if other:
        message = "location cannot be combined with columns or standardize. Leave them out."
        raise OptionError(message, code="option.conflict", option="location")
    if len(names) != 2 or names[0] == names[1]:
        message = "location must name exactly two columns, latitude and longitude."
        raise OptionError(message, code="option.invalid", option="location")
    return names


def _choose_columns(
    people: Table,
    sites: Table,
    columns: str | Iterable[str] | None,
    exclude: Collection[str | None],
) -> tuple[str, ...]:
    """Return the columns to measure distances in; by default the numeric ones in both tables."""
    if columns is not None:
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        if not names or len(set(names)) < len(names):
            message = "columns must name at least one column, without repetition."
            raise OptionError(message, code="option.invalid", option="columns")
        return names
    numeric, others = ([n for n in t.names if t.columns[n].is_number] for t in (people, sites))
    shared = tuple(name for name in numeric if name in others and name not in exclude)
    if not shared:
        message = "Points and centres have no numeric column in common. Name columns or a location."
        raise OptionError(message, code="option.invalid", option="columns")
    if {name.lower() for name in shared} >= {"latitude", "longitude"}:
        message = "Both tables have latitude and longitude. Pass them as location, or name columns."
        raise OptionError(message, code="option.conflict", option="columns")
    return shared


def _check_tables(people: Table, sites: Table) -> None:
    for table, noun in ((people, "points"), (sites, "centres")):
        if table.rows == 0:
            message = f"The table of {noun} has no rows. Pass at least one row."
            raise DataError(message, code="data.empty", table=noun)
    if sites.rows > MANY_CELLS:
        message = f"At most {MANY_CELLS:,} centres are supported. Allocate each region separately."
        raise OptionError(message, code="option.out_of_range", option="centres")
    for name in ("centre", "distance", "amount"):
        if name in people.columns:
            message = (
                f"The points already have a column {name!r}, which the result adds. Rename it."
            )
            raise OptionError(message, code="option.conflict", column=name)


def _read_places(sites: Table, name: str | None, n: int) -> Integers:
    """Read the capacity of each centre, or divide the n points equally."""
    if name is None and "places" not in sites.columns:
        return np.maximum(equal_sizes(n, sites.rows), 1)
    column = name or "places"
    values = _read_numbers(sites, "centres", (column,))[:, 0]
    wrong = (values < 0) | (values != np.floor(values)) | (values > 2**53)
    _check_rows(wrong, column, "centres", "values other than integers of at least 0")
    missing = n - int(np.minimum(values, n).sum())
    if missing > 0:
        message = (
            f"A demand of {count(n, 'place')} cannot fit into {count(n - missing, 'place')}. "
            f"Add at least {count(missing, 'place')}."
        )
        raise DataError(message, code="data.invalid", missing=missing)
    return values.astype(np.int64)


def _read_names(sites: Table, name: str | None) -> NDArray[Any]:
    """Return the name of each centre, as integers or text."""
    if name is None:
        return np.arange(1, sites.rows + 1)
    values = _read_column(sites, "centres", name)
    codes, texts = values.factorize()
    repeated = np.ones(len(codes), dtype=np.bool_)
    repeated[np.unique(codes, return_index=True)[1]] = False
    _check_rows(repeated, name, "centres", "repeated names", "data.bad_key")
    return values.data if values.storage == "integer" else np.array(texts)[codes]


def _read_numbers(table: Table, noun: str, names: Sequence[str]) -> Floats:
    """Read columns that must have a finite number in every row."""
    columns = [_read_column(table, noun, name) for name in names]
    for name, values in zip(names, columns, strict=True):
        if not values.is_number:
            message = f"Column {name!r} of the {noun} has {values.storage} values, not numbers."
            raise DataError(f"{message} Convert it.", code="data.not_a_number", column=name)
    matrix = np.stack([values.reals() for values in columns], axis=1)
    return _check_finite(matrix, noun, names)


def _check_finite(matrix: Floats, noun: str, names: Sequence[str]) -> Floats:
    for name, values in zip(names, matrix.T, strict=True):
        too_large = ~(np.abs(values) <= _LARGEST)
        _check_rows(too_large, name, noun, "infinite or too large numbers", "data.not_finite")
    return matrix


def _read_column(table: Table, noun: str, name: str) -> Values:
    """Return a column without missing values."""
    if name not in table.columns:
        message = f"The table of {noun} has no column {name!r}. Check the name."
        raise OptionError(message, code="option.unknown", column=name, table=noun)
    values = table.columns[name]
    _check_rows(values.missing, name, noun, "missing values", "data.missing_values")
    return values


def _check_rows(
    wrong: Mask, column: str, noun: str, problem: str, code: str = "data.invalid"
) -> None:
    rows = np.flatnonzero(wrong)
    if len(rows):
        row = int(rows[0]) + 1
        message = (
            f"Column {column!r} of the {noun} has {problem} in {count(len(rows), 'row')}, the "
            f"first in row {row}. Correct or remove them."
        )
        raise DataError(message, code=code, column=column, row=row, count=len(rows))
