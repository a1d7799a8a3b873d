"""Points to centres of limited places (patients to hospitals, documents to reviewers), as near as can be."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell import progress, tables
from microcell._display import record_repr
from microcell.errors import DataError, OptionError
from microcell.kernels.arrays import unit_vectors
from microcell.kernels.transport import choose_cells
from microcell.methods.fixed_centroids import allocate_points
from microcell.model import Floats, Integers, Table, Values

__all__ = ["EARTH", "Allocation", "CentreFacts", "Spread", "Summary", "allocate"]

EARTH = 6371.0088
"""The mean radius of the earth, in kilometres."""

_ADDED = ("centre", "distance")
_PLACES = "places"
_DEGREES = (90.0, 180.0)
_GEOGRAPHIC = ("latitude", "longitude")


@dataclass(frozen=True)
class Spread:
    """Distances in four numbers."""

    mean: float
    median: float
    p90: float
    max: float


@dataclass(frozen=True)
class CentreFacts:
    """A centre: its load of its places, the mean distance of its points (None if it has none), and its price."""

    name: str | int
    load: int
    places: int
    mean_distance: float | None
    price: float


@dataclass(frozen=True)
class Summary:
    """An allocation in numbers.

    ``nearest`` are the distances if every point went to its nearest centre, whatever its places: no allocation is
    below that. ``unit`` is "km", "deviations", or empty for the units of the columns.
    """

    points: int
    places: int
    columns: tuple[str, ...]
    unit: str
    distances: Spread
    nearest: Spread
    centres: tuple[CentreFacts, ...]

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain data, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Allocation:
    """Which centre each point goes to, and how far.

    ``table`` is the points' table in the frame type that came in, with the columns ``centre`` and ``distance``;
    ``allocated`` is the same as a :class:`Table`. ``prices`` are in squared distance: one more place at a centre would
    lower the sum of squared distances by its price at most, one place fewer would raise it by its price at least. A
    centre with places left has the price 0.
    """

    table: Any
    allocated: Table
    labels: Integers
    """(n,): the row of each point's centre, from 0."""
    distances: Floats
    nearest: Floats
    """(n,): to the nearest centre, whatever its places."""
    prices: Floats
    loads: Integers
    places: Integers
    centres: tuple[str | int, ...]
    """The name of each centre."""
    points: Floats
    """(n, m): what distances were measured between; latitude and longitude in degrees if ``unit`` is "km"."""
    sites: Floats
    columns: tuple[str, ...]
    unit: str

    __repr__ = record_repr

    @property
    def summary(self) -> Summary:
        """The allocation in numbers."""
        sums = np.bincount(self.labels, weights=self.distances, minlength=len(self.loads))
        facts = tuple(
            CentreFacts(name, load, places, total / load if load else None, price)
            for name, load, places, total, price in zip(
                self.centres,
                self.loads.tolist(),
                self.places.tolist(),
                sums.tolist(),
                self.prices.tolist(),
                strict=True,
            )
        )
        far, least, room = _spread(self.distances), _spread(self.nearest), sum(self.places.tolist())
        return Summary(len(self.labels), room, self.columns, self.unit, far, least, facts)


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
    """The allocation of points to centres of the least sum of squared distances, with no centre over its places.

    The optimum is exact: no other allocation within the places has a smaller sum.

    Parameters
    ----------
    points, centres
        Tables: whatever :func:`read` takes. 1,500 centres at most.
    columns
        The numeric columns that distances are measured in; those that both tables have, if left out, apart from places
        and names.
    location
        In place of columns: those of latitude and longitude, in degrees. Distances are great circles in kilometres, and
        the squares that are made least those of the chords (straight through the earth).
    places
        The column of ``centres`` that says how many each takes. Left out, it is "places" if there is such a column;
        else the points are shared out equally, the first centres taking one more where that does not come out even.
    name
        The column of ``centres`` that names each; left out, they are named by their row, from 1.
    standardize
        Divide each column by its standard deviation among the points.

    Examples
    --------
    >>> patients = {"x": [0.0, 1.0, 2.0, 9.0]}
    >>> hospitals = {"hospital": ["west", "east"], "x": [1.0, 8.0], "places": [2, 3]}
    >>> found = allocate(patients, hospitals, name="hospital")
    >>> found.table["centre"].tolist(), found.table["distance"].tolist()
    (['west', 'west', 'east', 'east'], [1.0, 0.0, 6.0, 1.0])
    >>> found.prices
    array([35.,  0.])
    """
    people, sites = tables.read(points), tables.read(centres)
    _check_tables(people, sites)
    limits = _find_places(people, sites, places)
    names = _find_names(sites, name)
    space = _find_space(
        people, sites, columns, location, apart=(places or _PLACES, name), standardize=standardize
    )
    progress.report(f"allocating {people.rows:,} points to {sites.rows:,} centres")
    found = allocate_points(space.points, space.sites, limits)
    distances = space.measure(found.labels)
    allocated = tables.add_columns(
        people, dict(zip(_ADDED, (names[found.labels], distances), strict=True))
    )
    return Allocation(
        allocated.native,
        allocated,
        labels=found.labels,
        distances=distances,
        nearest=space.measure(choose_cells(space.points, space.sites, np.zeros(sites.rows))),
        prices=found.costs,
        loads=np.bincount(found.labels, minlength=sites.rows),
        places=limits,
        centres=tuple(names.tolist()),
        points=space.points
        if space.unit != "km"
        else _read_columns(people, "points", space.columns),
        sites=space.sites if space.unit != "km" else _read_columns(sites, "centres", space.columns),
        columns=space.columns,
        unit=space.unit,
    )


# ------------------------------------------------------------------------------------------------ what is measured


@dataclass(frozen=True, eq=False)
class _Space:
    """Points and centres as they are measured."""

    columns: tuple[str, ...]
    points: Floats
    sites: Floats
    unit: str = ""

    def measure(self, labels: Integers) -> Floats:
        """The distance of each point to the centre of that number."""
        straight = np.sqrt(((self.points - self.sites[labels]) ** 2).sum(axis=1))
        if self.unit == "km":
            straight = 2 * EARTH * np.arcsin(np.minimum(straight / (2 * EARTH), 1.0))
        return np.asarray(straight, dtype=np.float64)


def _find_space(
    people: Table,
    sites: Table,
    columns: str | Iterable[str] | None,
    location: Iterable[str] | None,
    *,
    apart: Sequence[str | None],
    standardize: bool,
) -> _Space:
    if location is not None:
        if columns is not None or standardize:
            raise OptionError(
                "location measures kilometres: leave out columns and standardize, or location."
            )
        return _on_earth(people, sites, _as_names(location, "location"))
    chosen = (
        _shared_columns(people, sites, apart) if columns is None else _as_names(columns, "columns")
    )
    X, Y = _read_columns(people, "points", chosen), _read_columns(sites, "centres", chosen)
    if not standardize:
        return _Space(chosen, X, Y)
    deviations = X.std(axis=0)
    constant = [
        column
        for column, low, high in zip(chosen, X.min(axis=0), X.max(axis=0), strict=True)
        if low == high
    ]
    if constant:
        raise DataError(
            f"All points have the same {_listing(constant)}, so it cannot be standardized. Leave it out."
        )
    return _Space(chosen, X / deviations, Y / deviations, "deviations")


def _on_earth(people: Table, sites: Table, names: tuple[str, ...]) -> _Space:
    if len(names) != 2:
        raise OptionError(
            f"location takes two columns, of latitude and of longitude, not {len(names)}."
        )
    vectors = []
    for table, what in ((people, "points"), (sites, "centres")):
        degrees = _read_columns(table, what, names)
        for name, values, limit in zip(names, degrees.T, _DEGREES, strict=True):
            outside = np.flatnonzero(np.abs(values) > limit)
            if len(outside):
                raise DataError(
                    f"Column {name!r} of the {what}: {len(outside)} rows are not in degrees within ±{limit:g}, the "
                    f"first is row {outside[0] + 1}. Latitude comes first, then longitude."
                )
        vectors.append(EARTH * unit_vectors(degrees[:, 0], degrees[:, 1]))
    return _Space(names, vectors[0], vectors[1], "km")


def _shared_columns(people: Table, sites: Table, apart: Sequence[str | None]) -> tuple[str, ...]:
    """The numeric columns of both tables, apart from some."""
    both = [name for name in people.names if name in sites.columns and name not in apart]
    shared = tuple(
        name for name in both if people.columns[name].is_number and sites.columns[name].is_number
    )
    if not shared:
        raise OptionError(
            "Points and centres have no numeric column in common. Give both the same, or name a location."
        )
    if set(_GEOGRAPHIC) <= {name.lower() for name in shared}:
        raise OptionError(
            "Both tables have latitude and longitude. Give location to measure in kilometres, or name the columns to "
            "measure in."
        )
    return shared


def _as_names(given: str | Iterable[str], option: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or len(set(names)) < len(names):
        raise OptionError(f"{option} must name columns, each once.")
    return names


# ---------------------------------------------------------------------------------------------- reading the tables


def _check_tables(people: Table, sites: Table) -> None:
    for table, what in ((people, "points"), (sites, "centres")):
        if table.rows == 0:
            raise DataError(f"The table of {what} has no rows. Give one with a row for each.")
    taken = [name for name in _ADDED if name in people.columns]
    if taken:
        raise OptionError(
            f"The points have a column {_listing(taken)} already, which would be added. Rename it first."
        )


def _find_places(people: Table, sites: Table, name: str | None) -> Integers:
    """The places of each centre, as the table says or shared out equally."""
    if name is None and _PLACES not in sites.columns:
        share, rest = divmod(people.rows, sites.rows)
        return np.maximum(share + (np.arange(sites.rows) < rest).astype(np.int64), 1)
    (given,) = _read_columns(sites, "centres", (name or _PLACES,)).T
    wrong = np.flatnonzero((given < 1) | (given != np.floor(given)) | (given > 2**53))
    if len(wrong):
        raise DataError(
            f"Column {name or _PLACES!r} of the centres must hold whole numbers of 1 or more: row {wrong[0] + 1} does "
            f"not, the first of {len(wrong)}. Leave out centres that take nobody."
        )
    return np.asarray(given, dtype=np.int64)


def _find_names(sites: Table, name: str | None) -> NDArray[Any]:
    """The name of each centre: integers, or texts."""
    if name is None:
        return np.arange(1, sites.rows + 1)
    values = _column(sites, "centres", name)
    _check_present(values, "centres", name)
    codes, texts = values.factorize()
    first = np.unique(codes, return_index=True)[1]
    if len(first) < len(codes):
        again = np.setdiff1d(np.arange(len(codes)), first)
        raise DataError(
            f"Column {name!r} of the centres names row {again[0] + 1} as one before it. Give each its own name."
        )
    return values.data if values.storage == "integer" else np.array(texts)[codes]


def _read_columns(table: Table, what: str, names: Iterable[str]) -> Floats:
    """The columns as a matrix, each a number in every row."""
    read = []
    for name in names:
        values = _column(table, what, name)
        if not values.is_number and not values.missing.all():
            raise DataError(
                f"Column {name!r} of the {what} holds {values.storage} values, not numbers. Name another."
            )
        _check_present(values, what, name)
        reals = values.reals()
        infinite = np.flatnonzero(np.isinf(reals))
        if len(infinite):
            raise DataError(
                f"Column {name!r} of the {what} is infinite in row {infinite[0] + 1}. Correct or remove it."
            )
        read.append(reals)
    return np.stack(read, axis=1)


def _column(table: Table, what: str, name: str) -> Values:
    if name not in table.columns:
        raise OptionError(
            f"The table of {what} has no column {name!r} among its {len(table.names)}. Name one it has."
        )
    return table.columns[name]


def _check_present(values: Values, what: str, name: str) -> None:
    missing = np.flatnonzero(values.missing)
    if len(missing):
        raise DataError(
            f"Column {name!r} of the {what} lacks {len(missing)} values, the first in row {missing[0] + 1}. Fill them "
            "in, or remove those rows."
        )


def _spread(distances: Floats) -> Spread:
    median, p90 = np.quantile(distances, [0.5, 0.9]).tolist()
    return Spread(float(distances.mean()), median, p90, float(distances.max()))


def _listing(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))
