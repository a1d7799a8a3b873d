"""Allocate points to centres of limited capacity: patients to hospitals, papers to reviewers."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell import progress, tables
from microcell._display import count, html_card, short_repr
from microcell.errors import DataError, OptionError
from microcell.kernels.arrays import EARTH_RADIUS, unit_vectors
from microcell.kernels.transport import choose_cells
from microcell.methods.fixed_centroids import allocate_points
from microcell.model import Floats, Integers, Table, Values

__all__ = ["Allocation", "CentreSummary", "Spread", "Summary", "allocate"]

_ADDED = ("centre", "distance")
_PLACES = "places"
_DEGREES = (90.0, 180.0)
_GEOGRAPHIC = {"latitude", "longitude"}


@dataclass(frozen=True)
class Spread:
    """Mean, median, 90th percentile and maximum of some distances."""

    mean: float
    median: float
    p90: float
    max: float

    @classmethod
    def of(cls, distances: Floats) -> "Spread":
        """Summarize the distances."""
        median, p90 = np.quantile(distances, [0.5, 0.9]).tolist()
        return cls(float(distances.mean()), median, p90, float(distances.max()))


@dataclass(frozen=True)
class CentreSummary:
    """A centre: how many of its places are taken, how far its points come, and its price.

    ``mean_distance`` is None for a centre without points.
    """

    name: str | int
    load: int
    places: int
    mean_distance: float | None
    price: float


@dataclass(frozen=True)
class Summary:
    """An allocation in numbers.

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

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False, repr=False)
class Allocation:
    """The centre of each point, and its distance.

    ``table`` is the table of points, in the type that was passed in, with two more columns,
    ``centre`` and ``distance``; ``allocated`` is the same as a :class:`Table`. ``prices`` are in
    squared distance: one more place at a centre lowers the sum of squared distances by at most its
    price, one place fewer raises it by at least its price. A centre with places left has price 0.
    """

    table: Any
    allocated: Table
    labels: Integers
    """(n,): row of each point's centre, from 0."""
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

    @property
    def summary(self) -> Summary:
        """The allocation in numbers."""
        sums = np.bincount(self.labels, weights=self.distances, minlength=len(self.loads))
        columns = (self.loads, self.places, sums, self.prices)
        centres = tuple(
            CentreSummary(name, load, places, total / load if load else None, price)
            for name, load, places, total, price in zip(
                self.centres, *(column.tolist() for column in columns), strict=True
            )
        )
        distances, nearest = Spread.of(self.distances), Spread.of(self.nearest)
        total = sum(self.places.tolist())
        n = len(self.labels)
        return Summary(n, total, self.columns, self.unit, distances, nearest, centres)

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
    standardize: bool = False,
) -> Allocation:
    """Allocate points to centres of limited capacity, minimizing the sum of squared distances.

    The optimum is exact: no other allocation within the capacities has a smaller sum.

    Parameters
    ----------
    points, centres
        Tables: anything that :func:`read` accepts. At most 1,500 centres.
    columns
        Numeric columns to measure distances in. Default: those that both tables have, except for
        places and names.
    location
        Columns of latitude and longitude in degrees, instead of ``columns``. Distances are
        great-circle kilometres; the minimized squares are those of the chords.
    places
        Column of ``centres`` with the capacity of each. Default: "places" if there is such a
        column; otherwise the points are divided equally among the centres.
    name
        Column of ``centres`` with their names. Default: row numbers from 1.
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
    capacities = _read_places(people, sites, places)
    names = _read_names(sites, name)
    space = _find_space(
        people, sites, columns, location, exclude=(places or _PLACES, name), standardize=standardize
    )
    progress.report(f"allocating {people.rows:,} points to {sites.rows:,} centres")
    result = allocate_points(space.points, space.sites, capacities)
    distances = space.measure(result.labels)
    added = dict(zip(_ADDED, (names[result.labels], distances), strict=True))
    allocated = tables.add_columns(people, added)
    on_earth = space.unit == "km"
    return Allocation(
        allocated.native,
        allocated,
        labels=result.labels,
        distances=distances,
        nearest=space.measure(choose_cells(space.points, space.sites, np.zeros(sites.rows))),
        prices=result.costs,
        loads=np.bincount(result.labels, minlength=sites.rows),
        places=capacities.astype(np.int64),
        centres=tuple(names.tolist()),
        points=_read_columns(people, "points", space.columns) if on_earth else space.points,
        sites=_read_columns(sites, "centres", space.columns) if on_earth else space.sites,
        columns=space.columns,
        unit=space.unit,
    )


# ------------------------------------------------------------------------------- coordinate space


@dataclass(frozen=True, eq=False)
class _Space:
    """Coordinates of points and centres, in which distances are measured."""

    columns: tuple[str, ...]
    points: Floats
    sites: Floats
    unit: str = ""

    def measure(self, labels: Integers) -> Floats:
        """Return the distance of each point to the centre with this label."""
        straight = np.sqrt(((self.points - self.sites[labels]) ** 2).sum(axis=1))
        if self.unit == "km":
            diameter = 2 * EARTH_RADIUS
            straight = diameter * np.arcsin(np.minimum(straight / diameter, 1.0))
        return np.asarray(straight, dtype=np.float64)


def _find_space(
    people: Table,
    sites: Table,
    columns: str | Iterable[str] | None,
    location: Iterable[str] | None,
    *,
    exclude: Sequence[str | None],
    standardize: bool,
) -> _Space:
    if location is not None:
        if columns is not None or standardize:
            raise OptionError(
                "location measures kilometres and cannot be combined with columns or standardize.",
                code="option.conflict",
                option="location",
            )
        return _on_earth(people, sites, _check_names(location, "location"))
    if columns is None:
        chosen = _shared_columns(people, sites, exclude)
    else:
        chosen = _check_names(columns, "columns")
    X, Y = _read_columns(people, "points", chosen), _read_columns(sites, "centres", chosen)
    if not standardize:
        return _Space(chosen, X, Y)
    for column, low, high in zip(chosen, X.min(axis=0), X.max(axis=0), strict=True):
        if low == high:
            raise DataError(
                f"Column {column!r} is the same for all points and cannot be standardized. "
                "Leave it out of columns.",
                code="data.invalid",
                column=column,
            )
    deviations = X.std(axis=0)
    return _Space(chosen, X / deviations, Y / deviations, "standard deviations")


def _on_earth(people: Table, sites: Table, names: tuple[str, ...]) -> _Space:
    if len(names) != 2:
        raise OptionError(
            f"location must name two columns, latitude and longitude, not {len(names)}.",
            code="option.invalid",
            option="location",
        )
    vectors = []
    for table, noun in ((people, "points"), (sites, "centres")):
        degrees = _read_columns(table, noun, names)
        for name, values, limit in zip(names, degrees.T, _DEGREES, strict=True):
            outside = np.flatnonzero(np.abs(values) > limit)
            if len(outside):
                raise DataError(
                    f"Column {name!r} of the {noun} must be in degrees within ±{limit:g}: row "
                    f"{outside[0] + 1} is not (first of {len(outside)}). Name latitude first, then "
                    "longitude.",
                    code="data.invalid",
                    column=name,
                    row=int(outside[0]) + 1,
                )
        vectors.append(EARTH_RADIUS * unit_vectors(degrees[:, 0], degrees[:, 1]))
    return _Space(names, vectors[0], vectors[1], "km")


def _shared_columns(people: Table, sites: Table, exclude: Sequence[str | None]) -> tuple[str, ...]:
    """Return the numeric columns that both tables have, except for the excluded ones."""
    common = [name for name in people.names if name in sites.columns and name not in exclude]
    shared = tuple(
        name for name in common if people.columns[name].is_number and sites.columns[name].is_number
    )
    if not shared:
        raise OptionError(
            "Points and centres have no numeric column in common. Give both the same columns, or "
            "name a location.",
            code="option.invalid",
            option="columns",
        )
    if {name.lower() for name in shared} >= _GEOGRAPHIC:
        raise OptionError(
            "Both tables have latitude and longitude. Pass location to measure in kilometres, or "
            "name the columns to use.",
            code="option.conflict",
            option="columns",
        )
    return shared


def _check_names(value: str | Iterable[str], option: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names or len(set(names)) < len(names):
        raise OptionError(
            f"{option} must name at least one column, without repetition.",
            code="option.invalid",
            option=option,
        )
    return names


# ---------------------------------------------------------------------------------------- tables


def _check_tables(people: Table, sites: Table) -> None:
    for table, noun in ((people, "points"), (sites, "centres")):
        if table.rows == 0:
            raise DataError(f"The table of {noun} has no rows.", code="data.invalid", table=noun)
    for name in _ADDED:
        if name in people.columns:
            raise OptionError(
                f"The points already have a column {name!r}, which the result adds. Rename it.",
                code="option.conflict",
                column=name,
            )


def _read_places(people: Table, sites: Table, name: str | None) -> Floats:
    """Read the capacity of each centre, or divide the points equally."""
    if name is None and _PLACES not in sites.columns:
        share, rest = divmod(people.rows, sites.rows)
        extra: Floats = (np.arange(sites.rows) < rest).astype(np.float64)
        return np.maximum(share + extra, 1.0)
    return _read_columns(sites, "centres", (name or _PLACES,))[:, 0]


def _read_names(sites: Table, name: str | None) -> NDArray[Any]:
    """Return the name of each centre, as integers or text."""
    if name is None:
        return np.arange(1, sites.rows + 1)
    values = _find_column(sites, "centres", name)
    codes, texts = values.factorize()
    first = np.unique(codes, return_index=True)[1]
    if len(first) < len(codes):
        row = int(np.setdiff1d(np.arange(len(codes)), first)[0]) + 1
        raise DataError(
            f"Column {name!r} of the centres repeats a name in row {row}. Names must be unique.",
            code="data.bad_key",
            column=name,
            row=row,
        )
    return values.data if values.storage == "integer" else np.array(texts)[codes]


def _read_columns(table: Table, noun: str, names: Iterable[str]) -> Floats:
    """Read columns that must have a number in every row."""
    columns = []
    for name in names:
        values = _find_column(table, noun, name)
        if not values.is_number:
            raise DataError(
                f"Column {name!r} of the {noun} has {values.storage} values, not numbers.",
                code="data.not_a_number",
                column=name,
            )
        reals = values.reals()
        infinite = np.flatnonzero(np.isinf(reals))
        if len(infinite):
            row = int(infinite[0]) + 1
            raise DataError(
                f"Column {name!r} of the {noun} is infinite in row {row}. Correct or remove it.",
                code="data.not_finite",
                column=name,
                row=row,
            )
        columns.append(reals)
    return np.stack(columns, axis=1)


def _find_column(table: Table, noun: str, name: str) -> Values:
    """Return a column without missing values."""
    if name not in table.columns:
        raise OptionError(
            f"The table of {noun} has no column {name!r}.", code="option.unknown", column=name
        )
    values = table.columns[name]
    missing = np.flatnonzero(values.missing)
    if len(missing):
        row = int(missing[0]) + 1
        raise DataError(
            f"Column {name!r} of the {noun} has missing values: {len(missing)}, the first in row "
            f"{row}. Fill them in or remove these rows.",
            code="data.missing_values",
            column=name,
            row=row,
        )
    return values
