"""The figures of the page, as SVG, of a comparison, of cells, of an allocation. The only module to load matplotlib."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, StringIO
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from microcell.model import Audit, Comparison, Floats, Projection
from microcell.reporting.allocations import Allotment, find_dearest
from microcell.reporting.cellmaps import CellMap, choose_colours, find_limits, outlines, sample_rows
from microcell.reporting.sentences import counted
from microcell.reporting.trials import Mark

__all__ = [
    "Picture",
    "draw_allotment",
    "draw_cellmaps",
    "draw_classes",
    "draw_comparison",
    "draw_marks",
    "draw_projection",
]

_BEFORE = "#c9ced6"
_AFTER = "#1f4e79"
_INK = "#333333"
_EDGE = "#8b95a3"
_CLASS_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a6559d", "#8a6d00", "#5b5b5b", "#56a0d3", "#b2182b")
_FILLS = ("#bedffa", "#efcab2", "#def5e3", "#d8c0dd", "#f9f1bf", "#d5d6d8")
_DOTS = ("#00528e", "#8c3b12", "#3f8a63", "#74507a", "#7f8a22", "#38383c")
"""For the cells of a map and, darker, their records: told apart by the colour-blind, and in grey by the outlines."""
_BARS = 30
_TRACED = 40
_LABEL = 18
_MARKERS = "os^DvPX*<>"
_QUICKEST = 1e-4
"""Seconds; less is drawn as this, since the axis of a logarithm has no 0."""

_STYLE: Any = {
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "sans-serif",
    "font.size": 10,
    "hatch.linewidth": 0.6,
    # The same audit gives the same page, byte for byte.
    "svg.hashsalt": "microcell",
    # Text stays text: it can be read out, searched and printed sharply.
    "svg.fonttype": "none",
    # A dollar sign in a column's name is a dollar sign.
    "text.parse_math": False,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_TAG = re.compile(r"<[^<>]+>")
_NAMED = re.compile(r'\bid="|url\(#|href="#')
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_METADATA: Any = {
    "svg": _NO_METADATA,
    "png": {"Software": None},
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}
"""What each form must leave out for the same figure to be the same file."""


@dataclass(frozen=True)
class Picture:
    """A figure as SVG, and the caption that says what is seen."""

    svg: str
    caption: str


def draw_classes(audit: Audit) -> Picture:
    """Bars: how many classes there are of each size."""
    sizes = audit.class_sizes
    low, high = int(sizes.min()), int(sizes.max())
    width = -(-(high - low + 1) // _BARS)
    starts = np.arange(low, high + 1, width)
    counts = np.bincount((sizes - low) // width, minlength=len(starts))
    labels = [f"{start}" if width == 1 else f"{start}-{start + width - 1}" for start in starts.tolist()]
    with _style():
        figure = _sheet(5.0, 2.9)
        axes = figure.add_subplot()
        bars = axes.bar(np.arange(len(starts)), counts, color=_AFTER, width=0.8)
        if len(starts) <= 12:
            axes.bar_label(bars, labels=[f"{count:,}" if count else "" for count in counts.tolist()], fontsize=9)
        _tick_some(axes, labels, most=10 if width == 1 else 5)
        # A few bars keep the width of bars.
        axes.set_xlim(-0.6 - max(0, 5 - len(starts)) / 2, len(starts) - 0.4 + max(0, 5 - len(starts)) / 2)
        axes.set_xlabel("Records in the class")
        axes.set_ylabel("Classes")
        svg = _as_svg(figure, "classes")
    spread = f"each of {counted(low, 'record')}" if low == high else f"of {low:,} to {high:,} records"
    return Picture(svg, f"How many classes there are of each size: {len(sizes):,} in all, {spread}.")


def draw_comparison(comparison: Comparison, place: int) -> Picture:
    """A column before (light) and after (outlined and hatched), by interval or by category."""
    by_interval = comparison.edges is not None
    with _style():
        figure = _sheet(3.8, 2.7 if by_interval else 1.0 + 0.32 * len(comparison.labels))
        draw = _draw_intervals if by_interval else _draw_categories
        draw(figure.add_subplot(), comparison)
        svg = _as_svg(figure, f"column{place}")
    groups = f"lie in each of {counted(len(comparison.before), 'interval')}" if by_interval else "have each value"
    caption = f"{comparison.name}: how many records {groups}, in the original (light) and as published (dark, hatched)."
    return Picture(svg, caption)


def draw_projection(projection: Projection) -> Picture:
    """The records in two principal components: dots before, squares after, and lines between for some classes."""
    before, after, classes = projection.before, projection.after, projection.classes
    distinct = np.unique(classes)
    traced = distinct[np.unique(np.linspace(0, len(distinct) - 1, _TRACED).astype(int))]
    with _style():
        figure = _sheet(5.0, 4.6)
        axes = figure.add_subplot()
        axes.plot(before[:, 0], before[:, 1], ".", color=_BEFORE, markersize=3, zorder=1)
        for place, label in enumerate(traced.tolist()):
            colour = _CLASS_COLOURS[place % len(_CLASS_COLOURS)]
            _draw_moves(axes, before[classes == label], after[classes == label], colour)
        axes.set_xlabel(f"First component ({100 * projection.explained[0]:.0f} % of the variance)")
        axes.set_ylabel(f"Second component ({100 * projection.explained[1]:.0f} % of the variance)")
        axes.tick_params(labelbottom=False, labelleft=False, length=0)
        svg = _as_svg(figure, "projection")
    return Picture(svg, _projection_caption(projection, len(traced), len(distinct)))


def draw_marks(marks: Sequence[Mark], form: str) -> bytes:
    """Distortion against seconds: a marker for each method, a line for each k."""
    methods = list(dict.fromkeys(mark.method for mark in marks))
    buffer = BytesIO()
    with _style():
        figure = _sheet(6.4, 4.0)
        axes = figure.add_subplot()
        for k in sorted({mark.k for mark in marks}):
            _draw_line(axes, [mark for mark in marks if mark.k == k])
        for place, method in enumerate(methods):
            _draw_method(axes, [mark for mark in marks if mark.method == method], place)
        _scale_seconds(axes, [_seconds(mark) for mark in marks])
        axes.set_ylabel("Distortion (SSE / SST)")
        figure.legend(loc="outside right upper", frameon=False)
        figure.savefig(buffer, format=form, dpi=200, metadata=_METADATA[form])
    return buffer.getvalue()


def draw_cellmaps(maps: Sequence[CellMap], form: str, names: tuple[str, str], aspect: float) -> bytes:
    """Cells in two dimensions, a panel for each map, all on the same scale."""
    limits, width = find_limits(maps), {1: 4.8, 2: 3.8}.get(len(maps), 3.2)
    spans = limits[1] - limits[0]
    height = width * float(np.clip(aspect * spans[1] / spans[0], 0.35, 1.8))
    lift = 20 if any(item.subtitle for item in maps) else 6
    buffer = BytesIO()
    with _style():
        figure = _sheet(width * len(maps), height + 0.8)
        panels = figure.subplots(1, len(maps), squeeze=False)[0]
        for place, (axes, item) in enumerate(zip(panels, maps, strict=True)):
            _draw_cells(axes, item)
            _frame_cells(axes, limits, (names[0], "" if place else names[1]), aspect)
            axes.set_title(item.title, loc="left", fontsize=11, fontweight="bold", pad=lift)
            axes.annotate(item.subtitle, (0, 1), (0, 7), "axes fraction", "offset points", fontsize=9)
        # Panels of equal scale leave room on the sheet, here or there: cut it off.
        figure.savefig(buffer, format=form, dpi=200, metadata=_METADATA[form], bbox_inches="tight", pad_inches=0.08)
    return buffer.getvalue()


def draw_allotment(given: Allotment, form: str) -> bytes:
    """How far points go, as allocated and to the nearest centre; and the loads of centres beside their places."""
    shown = find_dearest(given)
    buffer = BytesIO()
    with _style():
        figure = _sheet(8.6, float(np.clip(0.9 + 0.24 * len(shown), 3.4, 8.4)))
        far, full = figure.subplots(1, 2)
        _draw_distances(far, given)
        _draw_loads(full, given, shown.tolist())
        figure.suptitle(given.title, x=0.02, ha="left", fontsize=11, fontweight="bold")
        figure.savefig(buffer, format=form, dpi=200, metadata=_METADATA[form])
    return buffer.getvalue()


def _draw_distances(axes: Axes, given: Allotment) -> None:
    """The share of points within each distance."""
    shares = np.linspace(0, 100, 201)
    for distances, colour, style, label in (
        (given.nearest, _EDGE, "--", "nearest centre, whatever its places"),
        (given.distances, _AFTER, "-", "allocated"),
    ):
        axes.plot(np.quantile(distances, shares / 100), shares, style, color=colour, label=label)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 101)
    axes.set_xlabel(f"Distance ({given.unit})" if given.unit else "Distance")
    axes.set_ylabel("Points within it (%)")
    axes.legend(loc="lower right", frameon=False, fontsize=9)


def _draw_loads(axes: Axes, given: Allotment, shown: Sequence[int]) -> None:
    rows = np.arange(len(shown))
    axes.barh(rows, given.places[shown], height=0.8, color="white", edgecolor=_EDGE, label="places")
    axes.barh(rows, given.loads[shown], height=0.8, color=_AFTER, alpha=0.75, label="points")
    axes.set_yticks(rows, [_shortened(given.names[place]) for place in shown], fontsize=9)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=5, integer=True)
    few = len(shown) < len(given.names)
    axes.set_xlabel(f"The {len(shown)} centres of the highest price" if few else "Points and places of each centre")
    _legend(axes)


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
    axes.barh(rows - 0.2, comparison.before, height=0.38, color=_BEFORE, label="original")
    axes.barh(
        rows + 0.2, comparison.after, height=0.38, color="white", edgecolor=_AFTER, hatch="/////", label="published"
    )
    axes.set_yticks(rows, [_shortened(label) for label in comparison.labels])
    axes.invert_yaxis()
    axes.locator_params(axis="x", nbins=5, integer=True)
    axes.set_xlabel("Records")
    _legend(axes)


def _draw_intervals(axes: Axes, comparison: Comparison) -> None:
    """Bars are placed by number of the interval, so that dates and values of 1e300 need no scale of their own."""
    bins = np.arange(len(comparison.before))
    axes.bar(bins + 0.5, comparison.before, width=0.94, color=_BEFORE, label="original")
    axes.bar(
        bins + 0.5,
        comparison.after,
        width=0.5,
        color="white",
        edgecolor=_AFTER,
        hatch="/////",
        label="published",
    )
    most = 5 if comparison.unit in (None, "seconds") else 3
    ticks = np.unique(np.linspace(0, len(bins), min(most, len(bins) + 1)).astype(int))
    axes.set_xticks(ticks, _edge_labels(np.asarray(comparison.edges)[ticks], comparison.unit))
    axes.set_ylabel("Records")
    axes.locator_params(axis="y", nbins=5, integer=True)
    if comparison.unit == "seconds":
        axes.set_xlabel("Seconds")
    _legend(axes)


def _draw_moves(axes: Axes, before: Floats, after: Floats, colour: str) -> None:
    steps = np.full((len(before), 3, 2), np.nan)
    steps[:, 0], steps[:, 1] = before, after
    lines = steps.reshape(-1, 2)
    axes.plot(lines[:, 0], lines[:, 1], color=colour, linewidth=0.8, zorder=2)
    axes.plot(before[:, 0], before[:, 1], ".", color=colour, markersize=4, zorder=3)
    axes.plot(after[:1, 0], after[:1, 1], "s", markersize=6, color=colour, mec="white", mew=0.8, zorder=4)


def _draw_cells(axes: Axes, item: CellMap) -> None:
    """Outlines, records in a darker tone of their cell's colour, and centroids as crosses."""
    colours, rows = choose_colours(item, len(_FILLS)), sample_rows(len(item.points))
    if item.polygons is not None:
        fills = [_FILLS[colour] for colour in colours.tolist()]
        axes.add_collection(PolyCollection(outlines(item.polygons), facecolors=fills, edgecolors=_EDGE, lw=0.5))
    size = float(np.clip(55 / max(len(rows), 1) ** 0.5, 1.0, 3.5))
    for place, colour in enumerate(_DOTS):
        own = item.points[rows[colours[item.labels[rows]] == place]]
        # Thousands of dots are a picture: as shapes they would make a file of megabytes.
        axes.plot(own[:, 0], own[:, 1], "o", color=colour, ms=size, mew=0, alpha=0.7, rasterized=len(rows) > 500)
    if item.tied:
        _tie_cells(axes, item)
    arm = float(np.clip(40 / max(len(colours), 1) ** 0.5, 2.2, 7.0))
    axes.plot(item.centroids[:, 0], item.centroids[:, 1], "+", color="white", ms=arm + 1, mew=arm / 3, zorder=3)
    axes.plot(item.centroids[:, 0], item.centroids[:, 1], "+", color=_INK, ms=arm, mew=max(arm / 7, 0.5), zorder=4)


def _tie_cells(axes: Axes, item: CellMap) -> None:
    """A line from the mean of each cell's records to its centroid."""
    sizes = np.bincount(item.labels, minlength=len(item.centroids))
    sums = np.stack([np.bincount(item.labels, column, minlength=len(sizes)) for column in item.points.T], axis=1)
    means, ends = sums[sizes > 0] / sizes[sizes > 0, None], item.centroids[sizes > 0]
    axes.plot(*np.stack([means, ends], axis=1).T, color=_INK, linewidth=0.8, zorder=2)


def _frame_cells(axes: Axes, limits: Floats, names: tuple[str, str], aspect: float) -> None:
    """A fine frame of one scale; an axis without a name has no numbers either."""
    axes.set_aspect(aspect)
    axes.set_xlim(*limits[:, 0].tolist())
    axes.set_ylim(*limits[:, 1].tolist())
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])
    axes.spines[:].set(visible=True, color=_EDGE, linewidth=0.8)
    axes.tick_params(labelbottom=bool(names[0]), labelleft=bool(names[1]), length=0, labelsize=9)
    axes.locator_params(nbins=5)


def _draw_line(axes: Axes, marks: Sequence[Mark]) -> None:
    """A line from the quickest to the slowest, with its k at the end."""
    ordered = sorted(marks, key=_seconds)
    last = ordered[-1]
    axes.plot([_seconds(mark) for mark in ordered], [mark.distortion for mark in ordered], color=_BEFORE, zorder=1)
    place = (_seconds(last), last.distortion)
    axes.annotate(f"k = {last.k}", place, xytext=(8, 0), textcoords="offset points", va="center", fontsize=9)


def _draw_method(axes: Axes, marks: Sequence[Mark], place: int) -> None:
    axes.plot(
        [_seconds(mark) for mark in marks],
        [mark.distortion for mark in marks],
        _MARKERS[place % len(_MARKERS)],
        color=_CLASS_COLOURS[place % len(_CLASS_COLOURS)],
        label=marks[0].method,
        zorder=2,
    )


def _scale_seconds(axes: Axes, seconds: Sequence[float]) -> None:
    """A logarithmic axis with numbers at 1, 2, 5, 10, ..., wide enough to hold one, and the name of a line."""
    axes.set_xscale("log")
    axes.set_xlim(min(seconds) / 2, max(seconds) * 4)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(seconds) < 50 * min(seconds) else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Seconds")


def _seconds(mark: Mark) -> float:
    return max(mark.seconds, _QUICKEST)


def _legend(axes: Axes) -> None:
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=9)


def _tick_some(axes: Axes, labels: list[str], *, most: int) -> None:
    step = -(-len(labels) // most)
    axes.set_xticks(np.arange(len(labels))[::step], labels[::step])


def _edge_labels(edges: Floats, unit: str | None) -> list[str]:
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


def _shortened(label: str) -> str:
    return label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"


@contextmanager
def _style() -> Iterator[None]:
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # Browsers have fonts for scripts that matplotlib's own font lacks, so its measuring may miss a glyph.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def _sheet(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _as_svg(figure: Figure, name: str) -> str:
    """The figure as an SVG element, its names made its own: several stand in one page."""
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    text = buffer.getvalue()
    element = text[text.index("<svg") :]
    return _TAG.sub(lambda tag: _NAMED.sub(rf"\g<0>{name}-", tag[0]), element)
