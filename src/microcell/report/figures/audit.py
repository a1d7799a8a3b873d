"""Figures of an audit: class sizes, linkage, columns, quantiles, correlations, projection.

:func:`draw_audit` draws them all in the common style; call the other functions within ``style()``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullFormatter

from microcell.model import Audit, Comparison, Correlations, Floats, Integers, Projection, Quantiles
from microcell.report.figures.base import (
    AFTER,
    BEFORE,
    CLASS_COLOURS,
    EDGE,
    INK,
    Picture,
    add_legend,
    new_figure,
    set_sparse_ticks,
    style,
    to_svg,
    truncate,
)
from microcell.report.wording import counted

__all__ = [
    "draw_audit",
    "draw_classes",
    "draw_column",
    "draw_correlations",
    "draw_linkage",
    "draw_moves",
    "draw_projection",
    "draw_quantiles",
    "format_edges",
]

# ------------------------------------------------------------------------------ bars

_HISTOGRAM_BARS = 30
_MAX_LABELLED_BARS = 12
_DWARFS = 20
"""If a category exceeds the median by this factor, the scale is logarithmic."""
_MIN_BARS = 5
"""With fewer bars, the axis is padded, so that bars keep their usual width."""


def draw_audit(audit: Audit) -> Mapping[str, Any]:
    """Draw all figures for which the audit has data, by their name in the report."""
    with style():
        sizes, shares = audit.class_sizes, audit.linkage_by_known
        quantiles = [draw_quantiles(item, i) for i, item in enumerate(audit.quantiles)]
        return {
            "classes": draw_classes(audit) if len(sizes) else None,
            "linkage": None
            if shares is None or not len(shares)
            else draw_linkage(shares, int(sizes.min()) if len(sizes) else 0),
            "columns": [
                *(draw_column(item, i) for i, item in enumerate(audit.comparisons)),
                *(draw_moves(*item, i) for i, item in enumerate(audit.moves.items())),
            ],
            "quantiles": [picture for picture in quantiles if picture is not None],
            "correlations": ()
            if audit.correlations is None
            else draw_correlations(audit.correlations),
            "projection": None if audit.projection is None else draw_projection(audit.projection),
        }


def draw_classes(audit: Audit) -> Picture:
    """Draw a histogram of the class sizes."""
    sizes = audit.class_sizes
    low, high = int(sizes.min()), int(sizes.max())
    width = -(-(high - low + 1) // _HISTOGRAM_BARS)
    starts = np.arange(low, high + 1, width)
    counts = np.bincount((sizes - low) // width, minlength=len(starts))
    labels = [
        f"{start}" if width == 1 else f"{start}-{start + width - 1}" for start in starts.tolist()
    ]
    figure = new_figure(5.0, 2.9)
    axes = figure.add_subplot()
    bars = axes.bar(np.arange(len(starts)), counts, color=AFTER, width=0.8)
    if len(starts) <= _MAX_LABELLED_BARS:
        bar_labels = [f"{count:,}" if count else "" for count in counts.tolist()]
        axes.bar_label(bars, labels=bar_labels, fontsize=9)
    set_sparse_ticks(axes, labels, most=10 if width == 1 else 5)
    _pad_bars(axes, len(starts))
    axes.set_xlabel(f"{audit.unit.capitalize()}s per class")
    axes.set_ylabel("Classes")
    svg = to_svg(figure, "classes")
    count = f"{len(sizes):,} class{'' if len(sizes) == 1 else 'es'}"
    spread = counted(low, audit.unit) if low == high else f"{low:,} to {counted(high, audit.unit)}"
    return Picture(svg, f"Distribution of class sizes: {count} of {spread}.")


def draw_linkage(shares: Floats, k: int) -> Picture:
    """Draw the share of records re-identified with 1, 2, ... known columns, and the line 1 / k."""
    shares = np.nan_to_num(shares)
    figure = new_figure(5.0, 2.9)
    axes = figure.add_subplot()
    bars = axes.bar(np.arange(len(shares)), 100 * shares, color=AFTER, width=0.7)
    if len(shares) <= _MAX_LABELLED_BARS:
        bar_labels = [f"{100 * share:.2g} %" for share in shares.tolist()]
        axes.bar_label(bars, labels=bar_labels, fontsize=9, padding=1)
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
    set_sparse_ticks(axes, [str(index + 1) for index in range(len(shares))], most=15)
    _pad_bars(axes, len(shares))
    axes.set_ylim(0, 1.18 * max(100 * float(shares.max()), 100 / k if k else 0, 1e-6))
    axes.set_xlabel("Known columns")
    axes.set_ylabel("Re-identified records (%)")
    svg = to_svg(figure, "linkage")
    return Picture(svg, _linkage_caption(shares, k))


def _linkage_caption(shares: Floats, k: int) -> str:
    worst = int(np.argmax(shares))
    caption = (
        "Share of records that an outsider is expected to re-identify, by the number of original "
        "quasi-identifiers and strata the outsider knows. It is largest for "
        f"{counted(worst + 1, 'column')}: {100 * float(shares[worst]):.2g} %."
    )
    if not k:
        return caption
    return f"{caption} The dashed line is 1 / k = {100 / k:.3g} %."


def _pad_bars(axes: Axes, count: int) -> None:
    padding = max(0, _MIN_BARS - count) / 2
    axes.set_xlim(-0.6 - padding, count - 0.4 + padding)


# ------------------------------------------------------------------------------ columns


def draw_column(comparison: Comparison, index: int) -> Picture:
    """Draw a column's distribution in the original (light) and as published (hatched)."""
    by_interval = comparison.edges is not None
    figure = new_figure(3.8, 2.7 if by_interval else 1.0 + 0.32 * len(comparison.labels))
    draw = _draw_intervals if by_interval else _draw_categories
    draw(figure.add_subplot(), comparison)
    svg = to_svg(figure, f"column{index}")
    unit = "interval" if by_interval else "value"
    return Picture(
        svg,
        f"{comparison.name}: number of records per {unit}, in the original (light) and as "
        "published (dark, hatched).",
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
    axes.set_yticks(rows, [truncate(label) for label in comparison.labels])
    axes.invert_yaxis()
    largest = np.sort(comparison.before)[::-1]
    dwarfed = len(largest) > 2 and largest[0] > _DWARFS * max(int(np.median(largest)), 1)
    if dwarfed:
        axes.set_xscale("log")
        axes.set_xlim(left=0.8)
        # The usual labels are formulas, which the style does not read.
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.locator_params(axis="x", nbins=5, integer=True)
    axes.set_xlabel("Records (logarithmic scale)" if dwarfed else "Records")
    add_legend(axes)


def _draw_intervals(axes: Axes, comparison: Comparison) -> None:
    """Draw bars by interval number, so that dates and values such as 1e300 need no numeric axis."""
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
    axes.set_xticks(ticks, format_edges(np.asarray(comparison.edges)[ticks], comparison.unit))
    axes.set_ylabel("Records")
    axes.locator_params(axis="y", nbins=5, integer=True)
    if comparison.unit == "seconds":
        axes.set_xlabel("Seconds")
    elif comparison.kind == "location":
        axes.set_xlabel("Degrees")
    add_legend(axes)


def draw_moves(name: str, percentiles: Floats, index: int) -> Picture:
    """Draw the cumulative distribution of the distances that locations moved."""
    figure = new_figure(3.8, 2.7)
    axes = figure.add_subplot()
    axes.plot(percentiles, np.arange(101), color=AFTER)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 102)
    axes.set_xlabel("Distance moved (km)")
    axes.set_ylabel("Records (%)")
    svg = to_svg(figure, f"moves{index}")
    median, high = percentiles[50], percentiles[95]
    return Picture(
        svg,
        f"{name}: share of the records published within a distance of where they were. Half moved "
        f"at most {median:,.3g} km, 95 % at most {high:,.3g} km.",
    )


def format_edges(edges: Floats, unit: str | None) -> list[str]:
    """Format values with as few digits, or as coarse a time, as still distinguishes them."""
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


# ------------------------------------------------------------------------------ quantiles


def draw_quantiles(quantiles: Quantiles, index: int) -> Picture | None:
    """Draw published against original quantiles of a column; None if there is nothing to draw."""
    finite = np.isfinite(quantiles.before) & np.isfinite(quantiles.after)
    if not finite.any():
        return None
    before, after = quantiles.before[finite], quantiles.after[finite]
    low, high = min(before.min(), after.min()), max(before.max(), after.max())
    x, y = _rescale(before, low, high), _rescale(after, low, high)
    ends = format_edges(np.array([low, high]), quantiles.unit) if low < high else [f"{low:.3g}"]
    figure = new_figure(2.9, 2.9)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], "--", color=EDGE, linewidth=1, zorder=1)
    axes.plot(x, y, "o", color=AFTER, markersize=3, zorder=2)
    _label_range(axes, ends)
    if quantiles.unit == "seconds":
        axes.set_xlabel("Original (seconds)", fontsize=9)
    svg = to_svg(figure, f"quantiles{index}")
    return Picture(svg, f"{quantiles.name}: {_describe_shift(x, y)}")


def _rescale(values: Floats, low: float, high: float) -> Floats:
    """Map [low, high] to [0, 1]; values are halved first, so that no float overflows."""
    extent = high / 2 - low / 2
    return np.full(len(values), 0.5) if extent == 0 else (values / 2 - low / 2) / extent


def _label_range(axes: Axes, labels: Sequence[str]) -> None:
    """Label both ends of the range inside the corners, so that long labels need no extra room."""
    axes.set_xlabel("Original", fontsize=9)
    axes.set_ylabel("Published", fontsize=9)
    positions = [0.0, 1.0] if len(labels) == 2 else [0.5]
    axes.set_xticks(positions, labels)
    axes.set_yticks(positions, labels, rotation=90)
    if len(labels) == 2:
        for tick, side in zip(axes.get_xticklabels(), ("left", "right"), strict=True):
            tick.set(ha=side)
        for tick, side in zip(axes.get_yticklabels(), ("bottom", "top"), strict=True):
            tick.set(va=side)
    axes.tick_params(labelsize=8)
    axes.set_xlim(-0.05, 1.05)
    axes.set_ylim(-0.05, 1.05)
    axes.set_aspect("equal")


def _describe_shift(before: Floats, after: Floats) -> str:
    gaps = np.abs(after - before)
    worst = int(np.argmax(gaps))
    if gaps[worst] < 0.005:
        return "published quantiles equal the original ones; all dots lie on the diagonal."
    side = "below" if after[worst] < before[worst] else "above"
    return (
        "published against original quantiles; dots on the diagonal are unchanged. The largest "
        f"shift is {100 * gaps[worst]:.0f} % of the range, {side} the diagonal."
    )


# ------------------------------------------------------------------------------ correlations

_MAX_COLUMNS = 20
"""With more columns, only those that changed most are drawn."""
_MAX_NUMBERED = 8
"""With more columns, squares are drawn instead of numbers."""
_NAME_LENGTH = 12
_ORANGE = "#b35806"


def draw_correlations(correlations: Correlations) -> tuple[Picture, ...]:
    """Draw the correlations before and after, and their difference; empty below 2 columns.

    With few columns, each field shows its number. With more, it shows a square that is larger the
    stronger the correlation is, filled if positive and hollow if negative, so that the figure does
    not depend on colour.
    """
    n_columns = len(correlations.names)
    if n_columns < 2:
        return ()
    chosen = _most_changed(correlations)
    names = [correlations.names[index] for index in chosen.tolist()]
    before, after = (
        np.nan_to_num(matrix[np.ix_(chosen, chosen)])
        for matrix in (correlations.before, correlations.after)
    )
    change = after - before
    suffix = ""
    if len(chosen) < n_columns:
        suffix = f" Shown: the {len(chosen)} of {n_columns} columns with the largest changes."
    if len(names) > _MAX_NUMBERED:
        suffix += " Larger squares are stronger; filled is positive, hollow is negative."
    panels = (
        ("before", before, f"Correlations in the original.{_describe_strongest(before, names)}"),
        ("after", after, f"Correlations as published.{_describe_strongest(after, names)}"),
        ("change", change, _describe_change(change, names)),
    )
    return tuple(
        Picture(_draw_matrix(name, matrix, names), f"{caption}{suffix}")
        for name, matrix, caption in panels
    )


def _most_changed(correlations: Correlations) -> Integers:
    difference = np.nan_to_num(correlations.after) - np.nan_to_num(correlations.before)
    changes = np.abs(difference).max(axis=1)
    return np.sort(np.argsort(-changes, kind="stable")[:_MAX_COLUMNS])


def _strongest_pair(matrix: Floats) -> tuple[int, int] | None:
    """Return row and column of the largest absolute value off the diagonal, if it is not 0."""
    sizes = np.abs(np.tril(matrix, -1))
    row, column = np.unravel_index(int(np.argmax(sizes)), sizes.shape)
    return (int(row), int(column)) if row else None


def _describe_strongest(matrix: Floats, names: Sequence[str]) -> str:
    pair = _strongest_pair(matrix)
    if pair is None:
        return ""
    row, column = pair
    return f" Strongest: {names[column]} and {names[row]}, {matrix[row, column]:+.2f}."


def _describe_change(matrix: Floats, names: Sequence[str]) -> str:
    pair = _strongest_pair(matrix)
    if pair is None:
        return "Change of the correlations: none."
    row, column = pair
    return (
        "Change of the correlations (published minus original). "
        f"Largest: {names[column]} and {names[row]}, {matrix[row, column]:+.2f}."
    )


def _draw_matrix(name: str, matrix: Floats, names: Sequence[str]) -> str:
    """Draw one matrix; changes may be small, so they are scaled to the largest one."""
    full = max(float(np.abs(matrix).max()), 1e-9) if name == "change" else 1.0
    few = len(names) <= _MAX_NUMBERED
    side = 3.9 if few else 4.6
    font_size = 9 if few else 7
    figure = new_figure(side, side)
    axes = figure.add_subplot()
    draw = _draw_numbers if few else _draw_squares
    draw(axes, matrix, full)
    ticks = np.arange(len(names))
    labels = [truncate(label, _NAME_LENGTH) for label in names]
    axes.set_xticks(ticks, labels, rotation=90, fontsize=font_size)
    axes.set_yticks(ticks, labels, fontsize=font_size)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.tick_params(length=0)
    axes.spines[:].set(visible=True, color=EDGE, linewidth=0.8)
    return to_svg(figure, f"correlations-{name}")


def _draw_numbers(axes: Axes, matrix: Floats, full: float) -> None:
    """Draw coloured fields with their numbers, in dark or white ink depending on the field."""
    colours = mpl.colormaps["PuOr_r"]
    for row, column in np.ndindex(*matrix.shape):
        value = float(matrix[row, column])
        red, green, blue, _ = colours((float(np.clip(value / full, -1, 1)) + 1) / 2)
        light = 0.299 * red + 0.587 * green + 0.114 * blue > 0.55
        corner = (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, facecolor=(red, green, blue), edgecolor="white"))
        axes.text(
            column,
            row,
            f"{value:.2f}".replace("-0.00", "0.00"),
            ha="center",
            va="center",
            fontsize=9 if len(matrix) <= 5 else 7.5,
            color=INK if light else "white",
        )


def _draw_squares(axes: Axes, matrix: Floats, full: float) -> None:
    """Draw squares whose area grows with the value: filled if positive, hollow if negative."""
    for row, column in np.ndindex(*matrix.shape):
        value = float(np.clip(matrix[row, column] / full, -1, 1))
        side = 0.9 * abs(value) ** 0.5
        if side < 0.05:
            continue
        face, edge = (AFTER, AFTER) if value > 0 else ("white", _ORANGE)
        corner = (column - side / 2, row - side / 2)
        axes.add_patch(Rectangle(corner, side, side, facecolor=face, edgecolor=edge, linewidth=0.9))


# ------------------------------------------------------------------------------ projection

_MAX_TRACED = 40


def draw_projection(projection: Projection) -> Picture:
    """Draw the records on two principal components: dots before, squares after, lines between."""
    before, after, classes = projection.before, projection.after, projection.classes
    distinct = np.unique(classes)
    traced = distinct[np.unique(np.linspace(0, len(distinct) - 1, _MAX_TRACED).astype(int))]
    first, second = (100 * share for share in projection.explained)
    figure = new_figure(5.0, 4.6)
    axes = figure.add_subplot()
    axes.plot(before[:, 0], before[:, 1], ".", color=BEFORE, markersize=3, zorder=1)
    for index, label in enumerate(traced.tolist()):
        colour = CLASS_COLOURS[index % len(CLASS_COLOURS)]
        _draw_moves(axes, before[classes == label], after[classes == label], colour)
    axes.set_xlabel(f"First component ({first:.0f} % of the variance)")
    axes.set_ylabel(f"Second component ({second:.0f} % of the variance)")
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
    svg = to_svg(figure, "projection")
    return Picture(svg, _projection_caption(projection, len(traced), len(distinct)))


def _draw_moves(axes: Axes, before: Floats, after: Floats, colour: str) -> None:
    # NaN between two segments interrupts the line, so that one call draws them all.
    segments = np.full((len(before), 3, 2), np.nan)
    segments[:, 0] = before
    segments[:, 1] = after
    x, y = segments.reshape(-1, 2).T
    axes.plot(x, y, color=colour, linewidth=0.8, zorder=2)
    axes.plot(before[:, 0], before[:, 1], ".", color=colour, markersize=4, zorder=3)
    axes.plot(
        after[:1, 0], after[:1, 1], "s", markersize=6, color=colour, mec="white", mew=0.8, zorder=4
    )


def _projection_caption(projection: Projection, traced: int, distinct: int) -> str:
    shown = len(projection.before)
    records = counted(projection.records, "record")
    subject = records if shown == projection.records else f"{shown:,} of the {records}"
    which = "each class" if traced == distinct else f"{traced} of the {distinct:,} classes shown"
    return (
        f"Quasi-identifiers of {subject} on their first two principal components. Each dot is an "
        f"original record. For {which}, lines connect its records to the square where they are "
        "published. Records that share a square are indistinguishable; short lines mean little "
        "information loss."
    )
