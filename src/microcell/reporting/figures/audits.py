"""The figures of an audit's page."""

import numpy as np
from matplotlib.axes import Axes

from microcell.model import Audit, Comparison, Floats, Projection
from microcell.reporting.figures._sheets import (
    AFTER,
    BEFORE,
    CLASS_COLOURS,
    Picture,
    as_svg,
    legend,
    sheet,
    shortened,
    style,
    tick_some,
)
from microcell.reporting.sentences import counted

__all__ = ["draw_classes", "draw_comparison", "draw_projection", "edge_labels"]

_BARS = 30
_TRACED = 40


def draw_classes(audit: Audit) -> Picture:
    """Bars: how many classes there are of each size."""
    sizes = audit.class_sizes
    low, high = int(sizes.min()), int(sizes.max())
    width = -(-(high - low + 1) // _BARS)
    starts = np.arange(low, high + 1, width)
    counts = np.bincount((sizes - low) // width, minlength=len(starts))
    labels = [f"{start}" if width == 1 else f"{start}-{start + width - 1}" for start in starts.tolist()]
    with style():
        figure = sheet(5.0, 2.9)
        axes = figure.add_subplot()
        bars = axes.bar(np.arange(len(starts)), counts, color=AFTER, width=0.8)
        if len(starts) <= 12:
            axes.bar_label(bars, labels=[f"{count:,}" if count else "" for count in counts.tolist()], fontsize=9)
        tick_some(axes, labels, most=10 if width == 1 else 5)
        # A few bars keep the width of bars.
        axes.set_xlim(-0.6 - max(0, 5 - len(starts)) / 2, len(starts) - 0.4 + max(0, 5 - len(starts)) / 2)
        axes.set_xlabel("Records in the class")
        axes.set_ylabel("Classes")
        svg = as_svg(figure, "classes")
    spread = f"each of {counted(low, 'record')}" if low == high else f"of {low:,} to {high:,} records"
    return Picture(svg, f"How many classes there are of each size: {len(sizes):,} in all, {spread}.")


def draw_comparison(comparison: Comparison, place: int) -> Picture:
    """A column before (light) and after (outlined and hatched), by interval or by category."""
    by_interval = comparison.edges is not None
    with style():
        figure = sheet(3.8, 2.7 if by_interval else 1.0 + 0.32 * len(comparison.labels))
        draw = _draw_intervals if by_interval else _draw_categories
        draw(figure.add_subplot(), comparison)
        svg = as_svg(figure, f"column{place}")
    groups = f"lie in each of {counted(len(comparison.before), 'interval')}" if by_interval else "have each value"
    caption = f"{comparison.name}: how many records {groups}, in the original (light) and as published (dark, hatched)."
    return Picture(svg, caption)


def draw_projection(projection: Projection) -> Picture:
    """The records in two principal components: dots before, squares after, and lines between for some classes."""
    before, after, classes = projection.before, projection.after, projection.classes
    distinct = np.unique(classes)
    traced = distinct[np.unique(np.linspace(0, len(distinct) - 1, _TRACED).astype(int))]
    with style():
        figure = sheet(5.0, 4.6)
        axes = figure.add_subplot()
        axes.plot(before[:, 0], before[:, 1], ".", color=BEFORE, markersize=3, zorder=1)
        for place, label in enumerate(traced.tolist()):
            colour = CLASS_COLOURS[place % len(CLASS_COLOURS)]
            _draw_moves(axes, before[classes == label], after[classes == label], colour)
        axes.set_xlabel(f"First component ({100 * projection.explained[0]:.0f} % of the variance)")
        axes.set_ylabel(f"Second component ({100 * projection.explained[1]:.0f} % of the variance)")
        axes.tick_params(labelbottom=False, labelleft=False, length=0)
        svg = as_svg(figure, "projection")
    return Picture(svg, _projection_caption(projection, len(traced), len(distinct)))


def _projection_caption(projection: Projection, traced: int, distinct: int) -> str:
    shown = len(projection.before)
    some = "all" if shown == projection.records else f"{shown:,} of the"
    which = "each class" if traced == distinct else f"{traced} of the {distinct:,} classes seen here"
    return (
        f"The quasi-identifiers of {some} {counted(projection.records, 'record')} in their first two principal "
        f"components. Each dot is a record of the original. For {which}, lines lead from its records to the square "
        "where they were published: records that meet in a square now look alike, and short lines mean little was lost."
    )


def _draw_categories(axes: Axes, comparison: Comparison) -> None:
    rows = np.arange(len(comparison.labels))
    axes.barh(rows - 0.2, comparison.before, height=0.38, color=BEFORE, label="original")
    axes.barh(
        rows + 0.2, comparison.after, height=0.38, color="white", edgecolor=AFTER, hatch="/////", label="published"
    )
    axes.set_yticks(rows, [shortened(label) for label in comparison.labels])
    axes.invert_yaxis()
    axes.locator_params(axis="x", nbins=5, integer=True)
    axes.set_xlabel("Records")
    legend(axes)


def _draw_intervals(axes: Axes, comparison: Comparison) -> None:
    """Bars are placed by number of the interval, so that dates and values of 1e300 need no scale of their own."""
    bins = np.arange(len(comparison.before))
    axes.bar(bins + 0.5, comparison.before, width=0.94, color=BEFORE, label="original")
    axes.bar(
        bins + 0.5,
        comparison.after,
        width=0.5,
        color="white",
        edgecolor=AFTER,
        hatch="/////",
        label="published",
    )
    most = 5 if comparison.unit in (None, "seconds") else 3
    ticks = np.unique(np.linspace(0, len(bins), min(most, len(bins) + 1)).astype(int))
    axes.set_xticks(ticks, edge_labels(np.asarray(comparison.edges)[ticks], comparison.unit))
    axes.set_ylabel("Records")
    axes.locator_params(axis="y", nbins=5, integer=True)
    if comparison.unit == "seconds":
        axes.set_xlabel("Seconds")
    legend(axes)


def _draw_moves(axes: Axes, before: Floats, after: Floats, colour: str) -> None:
    steps = np.full((len(before), 3, 2), np.nan)
    steps[:, 0], steps[:, 1] = before, after
    lines = steps.reshape(-1, 2)
    axes.plot(lines[:, 0], lines[:, 1], color=colour, linewidth=0.8, zorder=2)
    axes.plot(before[:, 0], before[:, 1], ".", color=colour, markersize=4, zorder=3)
    axes.plot(after[:1, 0], after[:1, 1], "s", markersize=6, color=colour, mec="white", mew=0.8, zorder=4)


def edge_labels(edges: Floats, unit: str | None) -> list[str]:
    """The bounds in as few digits, or at as coarse a time, as tells them apart."""
    if unit in (None, "seconds"):
        attempts = ([f"{edge:.{digits}g}" for edge in edges.tolist()] for digits in range(3, 18))
    else:
        moments = np.rint(edges).astype(np.int64).astype(f"datetime64[{unit}]")
        attempts = (moments.astype(f"datetime64[{scale}]").astype(str).tolist() for scale in ("D", "m", "s", "ns"))
    for labels in attempts:
        if len(set(labels)) == len(labels):
            break
    return labels
