"""The figure of an allocation."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from microcell.reporting.allocations import Allotment, find_dearest
from microcell.reporting.figures._sheets import AFTER, EDGE, as_file, legend, sheet, shortened, style

__all__ = ["draw_allotment"]


def draw_allotment(given: Allotment, form: str) -> bytes:
    """How far points go, as allocated and to the nearest centre; and the loads of centres beside their places."""
    shown = find_dearest(given)
    with style():
        figure = sheet(8.6, float(np.clip(0.9 + 0.24 * len(shown), 3.4, 8.4)))
        far, full = figure.subplots(1, 2)
        _draw_distances(far, given)
        _draw_loads(full, given, shown.tolist())
        figure.suptitle(given.title, x=0.02, ha="left", fontsize=11, fontweight="bold")
        return as_file(figure, form)


def _draw_distances(axes: Axes, given: Allotment) -> None:
    """The share of points within each distance."""
    shares = np.linspace(0, 100, 201)
    for distances, colour, line, label in (
        (given.nearest, EDGE, "--", "nearest centre, whatever its places"),
        (given.distances, AFTER, "-", "allocated"),
    ):
        axes.plot(np.quantile(distances, shares / 100), shares, line, color=colour, label=label)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 101)
    axes.set_xlabel(f"Distance ({given.unit})" if given.unit else "Distance")
    axes.set_ylabel("Points within it (%)")
    axes.legend(loc="lower right", frameon=False, fontsize=9)


def _draw_loads(axes: Axes, given: Allotment, shown: Sequence[int]) -> None:
    rows = np.arange(len(shown))
    axes.barh(rows, given.places[shown], height=0.8, color="white", edgecolor=EDGE, label="places")
    axes.barh(rows, given.loads[shown], height=0.8, color=AFTER, alpha=0.75, label="points")
    axes.set_yticks(rows, [shortened(given.names[place]) for place in shown], fontsize=9)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=5, integer=True)
    few = len(shown) < len(given.names)
    axes.set_xlabel(f"The {len(shown)} centres of the highest price" if few else "Points and places of each centre")
    legend(axes)
