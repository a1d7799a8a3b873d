"""The figure of an allocation: a map where two coordinates make one, else how far points go, how full centres are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

import numpy as np

from microcell.errors import OptionError
from microcell.kernels.diagram import Polygons, clip_diagram
from microcell.kernels.transport import choose_cells
from microcell.model import Floats, Integers
from microcell.reporting.cellmaps import CellMap, draw_cellmaps
from microcell.reporting.trials import FIGURE_FORMS

__all__ = ["Allotment", "draw_allocation", "find_dearest"]

_BARS = 30
_ROOM = 0.02
_THINNEST = 0.1
"""A map of less height to its width, or width to its height, shows nothing."""
_AGREEMENT = 0.95
"""The earth is flat enough for a map if at least this share of the points lies in the polygon of its own centre."""


@dataclass(frozen=True, eq=False)
class Allotment:
    """What there is to draw of an allocation."""

    title: str
    subtitle: str
    points: Floats
    """(n, m): as distances were measured between them; latitude and longitude in degrees if ``radius`` is given."""
    sites: Floats
    """(Q, m)."""
    costs: Floats
    labels: Integers
    distances: Floats
    nearest: Floats
    """(n,): the distance to the nearest centre, whatever its places."""
    names: Sequence[str]
    loads: Integers
    places: Integers
    axes: Sequence[str]
    """The name of each coordinate."""
    unit: str
    radius: float | None = None
    """Of the earth, if points are on it."""


@dataclass(frozen=True, eq=False)
class _Sheet:
    """A map, the names of its axes, and how long a unit of y is drawn."""

    map: CellMap
    axes: tuple[str, str]
    aspect: float = 1.0


def draw_allocation(given: Allotment, form: str) -> bytes:
    """The contents of a file of that form ("svg", "png" or "pdf").

    In two dimensions, the polygon of each centre, where its squared distance plus cost is the least, and the points.
    On the earth, longitude and latitude, the polygons made in a plane of kilometres around the middle of the points;
    where that plane is too wide for it, and in other dimensions, the distances and the loads.
    """
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    sheet = _lay_out(given)
    if sheet is not None:
        return draw_cellmaps([sheet.map], form, axes=sheet.axes, aspect=sheet.aspect)
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.reporting.figures")
    return cast("Callable[[Allotment, str], bytes]", figures.draw_allotment)(given, form)


def find_dearest(given: Allotment) -> Integers:
    """The centres to show, in their order: all, or those of the highest costs, of several the fullest."""
    order = np.lexsort((-given.loads / given.places, -given.costs))
    return np.sort(order[:_BARS])


def _lay_out(given: Allotment) -> _Sheet | None:
    """The map, if there is one."""
    if given.points.shape[1] != 2:
        return None
    if given.radius is not None:
        return _lay_out_earth(given, given.radius)
    polygons = _find_polygons(given.points, given.sites, given.costs, np.ones(2))
    if polygons is None:
        return None
    return _Sheet(_as_map(given, given.points, given.sites, polygons), (given.axes[0], given.axes[1]))


def _lay_out_earth(given: Allotment, radius: float) -> _Sheet | None:
    plane = _Plane.around(given.points, radius)
    points, sites = plane.project(given.points), plane.project(given.sites)
    agree = choose_cells(points, sites, given.costs) == given.labels
    polygons = _find_polygons(points, sites, given.costs, plane.kilometres)
    if polygons is None or np.mean(agree) < _AGREEMENT:
        return None
    degrees = Polygons(plane.degrees(polygons.vertices), polygons.starts)
    shown = _as_map(given, plane.degrees(points), plane.degrees(sites), degrees)
    return _Sheet(shown, (given.axes[1], given.axes[0]), plane.aspect)


@dataclass(frozen=True)
class _Plane:
    """Kilometres east and north of a place (equirectangular)."""

    latitude: float
    longitude: float
    radius: float

    @classmethod
    def around(cls, places: Floats, radius: float) -> "_Plane":
        """The plane around the mean latitude, and the mean longitude as a direction."""
        turns = np.radians(places[:, 1])
        east = np.degrees(np.arctan2(np.sin(turns).mean(), np.cos(turns).mean()))
        return cls(float(places[:, 0].mean()), float(east), radius)

    @property
    def aspect(self) -> float:
        """How long a degree of latitude is, in degrees of longitude."""
        return 1.0 / max(float(np.cos(np.radians(self.latitude))), 1e-3)

    @property
    def kilometres(self) -> Floats:
        """How long a degree of longitude is, and one of latitude."""
        degree = float(np.radians(self.radius))
        return np.array([degree / self.aspect, degree])

    def project(self, places: Floats) -> Floats:
        """Latitude and longitude in kilometres east and north, the shorter way round."""
        east = (places[:, 1] - self.longitude + 180) % 360 - 180
        return self.kilometres * np.stack([east, places[:, 0] - self.latitude], axis=1)

    def degrees(self, points: Floats) -> Floats:
        """Longitude and latitude, in this order, of points of the plane."""
        return np.array([self.longitude, self.latitude]) + points / self.kilometres


def _find_polygons(points: Floats, sites: Floats, costs: Floats, units: Floats) -> Polygons | None:
    """The polygons in a box around all, or None if it is too thin for a map; ``units`` are those of the axes."""
    everything = np.concatenate([points, sites])
    low, high = everything.min(axis=0), everything.max(axis=0)
    extent = high - low
    if extent.min() < _THINNEST * extent.max() or extent.max() == 0:
        return None
    room = _ROOM * np.max(extent / units) * units
    return clip_diagram(sites, costs, np.concatenate([low - room, high + room]))


def _as_map(given: Allotment, points: Floats, sites: Floats, polygons: Polygons) -> CellMap:
    return CellMap(given.title, points, given.labels, sites, polygons, given.subtitle, tied=True)
