"""The figures of an audit that show relations: of columns with each other, of values before and after, of knowledge."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from microcell.model import Audit, Comparison, Correlations, Floats, Integers, Projection, Quantiles
from microcell.report.figures.base import (
    AFTER,
    BEFORE,
    CLASS_COLOURS,
    EDGE,
    INK,
    Picture,
    as_svg,
    legend,
    sheet,
    shortened,
    style,
    tick_some,
)
from microcell.report.wording import counted

__all__ = [
    "draw_classes",
    "draw_comparison",
    "draw_correlations",
    "draw_linkage",
    "draw_projection",
    "draw_quantiles",
    "edge_labels",
]

_HISTOGRAM_BARS = 30
_TRACED = 40


def draw_classes(audit: Audit) -> Picture:
    """Bars: how many classes there are of each size."""
    sizes = audit.class_sizes
    low, high = int(sizes.min()), int(sizes.max())
    width = -(-(high - low + 1) // _HISTOGRAM_BARS)
    starts = np.arange(low, high + 1, width)
    counts = np.bincount((sizes - low) // width, minlength=len(starts))
    labels = [
        f"{start}" if width == 1 else f"{start}-{start + width - 1}" for start in starts.tolist()
    ]
    with style():
        figure = sheet(5.0, 2.9)
        axes = figure.add_subplot()
        bars = axes.bar(np.arange(len(starts)), counts, color=AFTER, width=0.8)
        if len(starts) <= 12:
            axes.bar_label(
                bars,
                labels=[f"{count:,}" if count else "" for count in counts.tolist()],
                fontsize=9,
            )
        tick_some(axes, labels, most=10 if width == 1 else 5)
        # A few bars keep the width of bars.
        axes.set_xlim(
            -0.6 - max(0, 5 - len(starts)) / 2, len(starts) - 0.4 + max(0, 5 - len(starts)) / 2
        )
        axes.set_xlabel("Records in the class")
        axes.set_ylabel("Classes")
        svg = as_svg(figure, "classes")
    spread = (
        f"each of {counted(low, 'record')}" if low == high else f"of {low:,} to {high:,} records"
    )
    return Picture(
        svg, f"How many classes there are of each size: {len(sizes):,} in all, {spread}."
    )


def draw_comparison(comparison: Comparison, place: int) -> Picture:
    """A column before (light) and after (outlined and hatched), by interval or by category."""
    by_interval = comparison.edges is not None
    with style():
        figure = sheet(3.8, 2.7 if by_interval else 1.0 + 0.32 * len(comparison.labels))
        draw = _draw_intervals if by_interval else _draw_categories
        draw(figure.add_subplot(), comparison)
        svg = as_svg(figure, f"column{place}")
    groups = (
        f"lie in each of {counted(len(comparison.before), 'interval')}"
        if by_interval
        else "have each value"
    )
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
    which = (
        "each class" if traced == distinct else f"{traced} of the {distinct:,} classes seen here"
    )
    return (
        f"The quasi-identifiers of {some} {counted(projection.records, 'record')} in their first two principal "
        f"components. Each dot is a record of the original. For {which}, lines lead from its records to the square "
        "where they were published: records that meet in a square now look alike, and short lines mean little was lost."
    )


def _draw_categories(axes: Axes, comparison: Comparison) -> None:
    rows = np.arange(len(comparison.labels))
    axes.barh(rows - 0.2, comparison.before, height=0.38, color=BEFORE, label="original")
    axes.barh(
        rows + 0.2,
        comparison.after,
        height=0.38,
        color="white",
        edgecolor=AFTER,
        hatch="/////",
        label="published",
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
    axes.plot(
        after[:1, 0], after[:1, 1], "s", markersize=6, color=colour, mec="white", mew=0.8, zorder=4
    )


def edge_labels(edges: Floats, unit: str | None) -> list[str]:
    """The bounds in as few digits, or at as coarse a time, as tells them apart."""
    if unit in (None, "seconds"):
        attempts = ([f"{edge:.{digits}g}" for edge in edges.tolist()] for digits in range(3, 18))
    else:
        moments = np.rint(edges).astype(np.int64).astype(f"datetime64[{unit}]")
        attempts = (
            moments.astype(f"datetime64[{scale}]").astype(str).tolist()
            for scale in ("D", "m", "s", "ns")
        )
    for labels in attempts:
        if len(set(labels)) == len(labels):
            break
    return labels


_COLUMNS = 20
"""Columns drawn at most, of those that changed most."""
_NUMBERED = 8
"""Columns at most for a number to stand in each field."""
_LABEL = 12
_ORANGE = "#b35806"
_BARS = 12


def draw_correlations(found: Correlations) -> tuple[Picture, ...]:
    """Three heatmaps: the correlations before, after, and their difference; nothing of fewer than two columns.

    Fields hold their number where columns are few. Otherwise they hold a square, larger the stronger the correlation,
    full if it is positive and hollow if negative, so that colour is not needed.
    """
    if len(found.names) < 2:
        return ()
    chosen = _choose(found)
    names = [found.names[place] for place in chosen.tolist()]
    before, after = (
        np.nan_to_num(side[np.ix_(chosen, chosen)]) for side in (found.before, found.after)
    )
    some = ""
    if len(chosen) < len(found.names):
        some = (
            f" The {len(chosen)} of {len(found.names)} columns with the largest changes are shown."
        )
    change = after - before
    panels = (
        ("before", before, f"Correlations in the original.{_strongest(before, names)}{some}"),
        ("after", after, f"Correlations as published.{_strongest(after, names)}{some}"),
        (
            "change",
            change,
            f"What publishing changed: after less before.{_largest(change, names)}{some}",
        ),
    )
    reading = (
        ""
        if len(names) <= _NUMBERED
        else " Squares are larger the stronger it is: full above 0, hollow below."
    )
    return tuple(
        Picture(_draw_matrix(name, matrix, names), f"{caption}{reading}")
        for name, matrix, caption in panels
    )


def draw_quantiles(item: Quantiles, place: int) -> Picture | None:
    """A column's quantiles, before against after, with the diagonal; None if there is none to draw."""
    known = np.isfinite(item.before) & np.isfinite(item.after)
    if not known.any():
        return None
    before, after = item.before[known], item.after[known]
    low, high = min(before.min(), after.min()), max(before.max(), after.max())
    with style():
        figure = sheet(2.9, 2.9)
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], "--", color=EDGE, linewidth=1, zorder=1)
        x, y = _placed(before, low, high), _placed(after, low, high)
        axes.plot(x, y, "o", color=AFTER, markersize=3, zorder=2)
        _frame_quantiles(
            axes, edge_labels(np.array([low, high]), item.unit) if low < high else [f"{low:.3g}"]
        )
        if item.unit == "seconds":
            axes.set_xlabel("Original (seconds)", fontsize=9)
        svg = as_svg(figure, f"quantiles{place}")
    return Picture(svg, f"{item.name}: {_spread(x, y)}")


def draw_linkage(shares: Floats, k: int) -> Picture:
    """Bars: the share of records found again by who knows 1, 2, ... columns, with the line of 1 / k."""
    shares = np.nan_to_num(shares)
    with style():
        figure = sheet(5.0, 2.9)
        axes = figure.add_subplot()
        bars = axes.bar(np.arange(len(shares)), 100 * shares, color=AFTER, width=0.7)
        if len(shares) <= _BARS:
            axes.bar_label(
                bars,
                labels=[f"{100 * share:.2g} %" for share in shares.tolist()],
                fontsize=9,
                padding=1,
            )
        if k:
            axes.axhline(100 / k, color=INK, linestyle="--", linewidth=1)
            axes.annotate(
                f"1 / k = {100 / k:.3g} %",
                (0, 100 / k),
                (2, 3),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                fontsize=9,
            )
        tick_some(axes, [str(place + 1) for place in range(len(shares))], most=15)
        axes.set_xlim(
            -0.6 - max(0, 5 - len(shares)) / 2, len(shares) - 0.4 + max(0, 5 - len(shares)) / 2
        )
        axes.set_ylim(0, 1.18 * max(100 * float(shares.max()), 100 / k if k else 0, 1e-6))
        axes.set_xlabel("Columns known")
        axes.set_ylabel("Records found again (%)")
        svg = as_svg(figure, "linkage")
    line = (
        f", beside the 1 / k = {100 / k:.3g} % that a class of {k:,} allows (dashed)" if k else ""
    )
    most = int(np.argmax(shares))
    return Picture(
        svg,
        f"The share of records that an outsider is expected to find again, by how many of the original's "
        f"quasi-identifiers and strata are known{line}. It is largest for {counted(most + 1, 'column')}: "
        f"{100 * float(shares[most]):.2g} %.",
    )


def _frame_quantiles(axes: Axes, labels: Sequence[str]) -> None:
    """Both ends of the range on both axes, inside the corners: however long, they take the same room."""
    axes.set_xlabel("Original", fontsize=9)
    axes.set_ylabel("Published", fontsize=9)
    places = [0.0, 1.0] if len(labels) == 2 else [0.5]
    axes.set_xticks(places, labels)
    axes.set_yticks(places, labels, rotation=90)
    if len(labels) == 2:
        for across, left in zip(axes.get_xticklabels(), ("left", "right"), strict=True):
            across.set(ha=left)
        for up, bottom in zip(axes.get_yticklabels(), ("bottom", "top"), strict=True):
            up.set(va=bottom)
    axes.tick_params(labelsize=8)
    axes.set_xlim(-0.05, 1.05)
    axes.set_ylim(-0.05, 1.05)
    axes.set_aspect("equal")


def _choose(found: Correlations) -> Integers:
    """The columns to draw: all, or those with the largest change, in their order."""
    changes = np.abs(np.nan_to_num(found.after) - np.nan_to_num(found.before)).max(axis=1)
    return np.sort(np.argsort(-changes, kind="stable")[:_COLUMNS])


def _pair(matrix: Floats) -> tuple[int, int]:
    """The two different columns of the largest number, whatever its sign."""
    sizes = np.abs(np.tril(matrix, -1))
    row, column = np.unravel_index(int(np.argmax(sizes)), sizes.shape)
    return int(row), int(column)


def _strongest(matrix: Floats, names: Sequence[str]) -> str:
    row, column = _pair(matrix)
    if not row:
        return ""
    return f" The strongest: {names[column]} and {names[row]}, {matrix[row, column]:+.2f}."


def _largest(matrix: Floats, names: Sequence[str]) -> str:
    row, column = _pair(matrix)
    if not row:
        return " Nothing."
    mark = "strongest tone" if len(names) <= _NUMBERED else "largest square"
    return f" The most: {names[column]} and {names[row]}, by {matrix[row, column]:+.2f}, which has the {mark}."


def _draw_matrix(name: str, matrix: Floats, names: Sequence[str]) -> str:
    """The matrix; of changes, which may be small, the largest gets the strongest tone."""
    full = max(float(np.abs(matrix).max()), 1e-9) if name == "change" else 1.0
    with style():
        side = 3.9 if len(names) <= _NUMBERED else 4.6
        figure = sheet(side, side)
        axes = figure.add_subplot()
        places = np.arange(len(names))
        if len(names) <= _NUMBERED:
            _draw_fields(axes, matrix, full)
        else:
            _draw_squares(axes, matrix, full)
        size = 9 if len(names) <= _NUMBERED else 7
        short = [shortened(label, _LABEL) for label in names]
        axes.set_xticks(places, short, rotation=90, fontsize=size)
        axes.set_yticks(places, short, fontsize=size)
        axes.set_xlim(-0.5, len(names) - 0.5)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_aspect("equal")
        axes.tick_params(length=0)
        axes.spines[:].set(visible=True, color=EDGE, linewidth=0.8)
        return as_svg(figure, f"correlations-{name}")


def _draw_fields(axes: Axes, matrix: Floats, full: float) -> None:
    """Fields in a diverging scale with their numbers; light enough for dark ink, or dark enough for white."""
    colours = mpl.colormaps["PuOr_r"]
    for row, column in np.ndindex(*matrix.shape):
        value = float(matrix[row, column])
        red, green, blue, _ = colours((float(np.clip(value / full, -1, 1)) + 1) / 2)
        light = 0.299 * red + 0.587 * green + 0.114 * blue > 0.55
        axes.add_patch(
            Rectangle(
                (column - 0.5, row - 0.5), 1, 1, facecolor=(red, green, blue), edgecolor="white"
            )
        )
        text = f"{value:.2f}".replace("-0.00", "0.00")
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=9 if len(matrix) <= 5 else 7.5,
            color=INK if light else "white",
        )


def _draw_squares(axes: Axes, matrix: Floats, full: float) -> None:
    """Squares whose areas grow with the number: full above 0, hollow below."""
    for row, column in np.ndindex(*matrix.shape):
        value = float(np.clip(matrix[row, column] / full, -1, 1))
        side = 0.9 * abs(value) ** 0.5
        if side < 0.05:
            continue
        face, edge = (AFTER, AFTER) if value > 0 else ("white", _ORANGE)
        axes.add_patch(
            Rectangle(
                (column - side / 2, row - side / 2),
                side,
                side,
                facecolor=face,
                edgecolor=edge,
                linewidth=0.9,
            )
        )


def _placed(values: Floats, low: float, high: float) -> Floats:
    """Where values lie between the ends, from 0 to 1; halved first, so that the widest floats do not overflow."""
    extent = high / 2 - low / 2
    return np.full(len(values), 0.5) if extent == 0 else (values / 2 - low / 2) / extent


def _spread(before: Floats, after: Floats) -> str:
    gaps = np.abs(after - before)
    worst = int(np.argmax(gaps))
    if gaps[worst] < 0.005:
        return "the quantiles as published are those of the original: all dots lie on the diagonal."
    side = "below" if after[worst] < before[worst] else "above"
    return (
        "quantiles in the original against those as published; on the diagonal nothing changed. The farthest dot lies "
        f"{side} it by {100 * gaps[worst]:.0f} % of the range."
    )
