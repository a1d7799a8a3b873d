"""The figure of an allocation: a map in two dimensions, otherwise distances and loads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from microcell.kernels.diagram import Polygons, clip_diagram
from microcell.kernels.transport import choose_cells
from microcell.model import Floats, Integers
from microcell.report.figures.base import (
    AFTER,
    EDGE,
    add_legend,
    new_figure,
    style,
    to_bytes,
    truncate,
)
from microcell.report.figures.cells import Panel, draw_panels

if TYPE_CHECKING:
    from microcell.allocation import Allocation

__all__ = ["draw_allocation", "find_dearest", "make_map"]

_MAX_BARS = 30
_MARGIN = 0.02
_MIN_ASPECT = 0.1
"""A map is not legible if one side is shorter than this share of the other."""
_MIN_AGREEMENT = 0.95
"""A flat map is used if at least this share of the points lies in the polygon of its centre."""


@dataclass(frozen=True, eq=False)
class _Map:
    panel: Panel
    axis_labels: tuple[str, str]
    aspect: float = 1.0


def draw_allocation(allocation: "Allocation", format: str, *, radius: float) -> bytes:
    """Draw a map of the centres' polygons if there are two coordinates, otherwise two charts.

    On the earth (unit "km", ``radius`` in kilometres), polygons are computed in a plane around the
    middle of the points; if the area is too wide for that, the charts are drawn instead.
    """
    sheet = make_map(allocation, radius)
    if sheet is None:
        return _draw_charts(allocation, format)
    return draw_panels([sheet.panel], format, axis_labels=sheet.axis_labels, aspect=sheet.aspect)


def make_map(allocation: "Allocation", radius: float) -> _Map | None:
    """Lay out the map, or return None if a map would not show the allocation well."""
    points, sites, prices = allocation.points, allocation.sites, allocation.prices
    if points.shape[1] != 2:
        return None
    if allocation.unit == "km":
        return _make_earth_map(allocation, radius)
    polygons = _clip_polygons(points, sites, prices, np.ones(2))
    if polygons is None:
        return None
    panel = _make_panel(allocation, points, sites, polygons)
    return _Map(panel, (allocation.columns[0], allocation.columns[1]))


def _make_earth_map(allocation: "Allocation", radius: float) -> _Map | None:
    plane = _Plane.around(allocation.points, radius)
    points = plane.project(allocation.points)
    sites = plane.project(allocation.sites)
    agrees = choose_cells(points, sites, allocation.prices) == allocation.labels
    polygons = _clip_polygons(points, sites, allocation.prices, plane.kilometres)
    if polygons is None or np.mean(agrees) < _MIN_AGREEMENT:
        return None
    in_degrees = Polygons(plane.to_degrees(polygons.vertices), polygons.starts)
    panel = _make_panel(allocation, plane.to_degrees(points), plane.to_degrees(sites), in_degrees)
    return _Map(panel, (allocation.columns[1], allocation.columns[0]), plane.aspect)


def _make_panel(
    allocation: "Allocation", points: Floats, sites: Floats, polygons: Polygons
) -> Panel:
    summary = allocation.summary
    unit = f" {allocation.unit}" if allocation.unit else ""
    subtitle = (
        f"mean distance {summary.distances.mean:.3g}{unit} "
        f"(to the nearest centre: {summary.nearest.mean:.3g}{unit}), "
        f"maximum {summary.distances.max:.3g}{unit}"
    )
    return Panel(
        _title(allocation),
        points,
        allocation.labels,
        sites,
        polygons,
        subtitle,
        connect_means=True,
    )


def _title(allocation: "Allocation") -> str:
    n_points = len(allocation.labels)
    n_centres = len(allocation.loads)
    return (
        f"{n_points:,} point{'s' * (n_points != 1)} to {n_centres:,} centre{'s' * (n_centres != 1)}"
    )


@dataclass(frozen=True)
class _Plane:
    """Kilometres east and north of a reference position (equirectangular projection)."""

    latitude: float
    longitude: float
    radius: float

    @classmethod
    def around(cls, positions: Floats, radius: float) -> "_Plane":
        """Centre the plane on the mean latitude and the circular mean of the longitudes."""
        angles = np.radians(positions[:, 1])
        longitude = np.degrees(np.arctan2(np.sin(angles).mean(), np.cos(angles).mean()))
        return cls(float(positions[:, 0].mean()), float(longitude), radius)

    @property
    def aspect(self) -> float:
        """Length of a degree of latitude, in degrees of longitude."""
        return 1.0 / max(float(np.cos(np.radians(self.latitude))), 1e-3)

    @property
    def kilometres(self) -> Floats:
        """Length of a degree of longitude and of a degree of latitude."""
        degree = float(np.radians(self.radius))
        return np.array([degree / self.aspect, degree])

    def project(self, positions: Floats) -> Floats:
        """Convert latitude and longitude to kilometres east and north, the shorter way round."""
        east = (positions[:, 1] - self.longitude + 180) % 360 - 180
        return self.kilometres * np.stack([east, positions[:, 0] - self.latitude], axis=1)

    def to_degrees(self, points: Floats) -> Floats:
        """Convert points of the plane to longitude and latitude, in this order."""
        return np.array([self.longitude, self.latitude]) + points / self.kilometres


def _clip_polygons(points: Floats, sites: Floats, prices: Floats, units: Floats) -> Polygons | None:
    """Clip the power diagram to a box around everything; None if the box is too thin for a map."""
    everything = np.concatenate([points, sites])
    low, high = everything.min(axis=0), everything.max(axis=0)
    extent = high - low
    if extent.min() < _MIN_ASPECT * extent.max() or extent.max() == 0:
        return None
    margin = _MARGIN * np.max(extent / units) * units
    return clip_diagram(sites, prices, np.concatenate([low - margin, high + margin]))


def find_dearest(prices: Floats, loads: Integers, places: Integers) -> Integers:
    """Return the centres to show, in order: all, or the 30 with the highest prices.

    Ties go to the fullest centres.
    """
    order = np.lexsort((-loads / places, -prices))
    return np.sort(order[:_MAX_BARS])


def _draw_charts(allocation: "Allocation", format: str) -> bytes:
    shown = find_dearest(allocation.prices, allocation.loads, allocation.places)
    with style():
        figure = new_figure(8.6, float(np.clip(0.9 + 0.24 * len(shown), 3.4, 8.4)))
        left, right = figure.subplots(1, 2)
        _draw_distances(left, allocation)
        _draw_loads(right, allocation, shown.tolist())
        figure.suptitle(_title(allocation), x=0.02, ha="left", fontsize=11, fontweight="bold")
        return to_bytes(figure, format)


def _draw_distances(axes: Axes, allocation: "Allocation") -> None:
    """Draw the share of points within each distance."""
    shares = np.linspace(0, 100, 201)
    for distances, colour, line, label in (
        (allocation.nearest, EDGE, "--", "to the nearest centre, ignoring capacity"),
        (allocation.distances, AFTER, "-", "as allocated"),
    ):
        axes.plot(np.quantile(distances, shares / 100), shares, line, color=colour, label=label)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 101)
    axes.set_xlabel(f"Distance ({allocation.unit})" if allocation.unit else "Distance")
    axes.set_ylabel("Points within this distance (%)")
    axes.legend(loc="lower right", frameon=False, fontsize=9)


def _draw_loads(axes: Axes, allocation: "Allocation", shown: Sequence[int]) -> None:
    rows = np.arange(len(shown))
    places, loads = allocation.places[shown], allocation.loads[shown]
    axes.barh(rows, places, height=0.8, color="white", edgecolor=EDGE, label="places")
    axes.barh(rows, loads, height=0.8, color=AFTER, alpha=0.75, label="points")
    names = [truncate(str(allocation.centres[index])) for index in shown]
    axes.set_yticks(rows, names, fontsize=9)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=5, integer=True)
    axes.set_xlabel(
        f"The {len(shown)} centres with the highest prices"
        if len(shown) < len(allocation.centres)
        else "Points and places per centre"
    )
    add_legend(axes)
