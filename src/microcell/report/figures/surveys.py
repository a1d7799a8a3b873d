"""Figures of a survey: required cell sizes, and the failure probabilities of a design."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from microcell.model import Floats, Integers
from microcell.report.figures.base import (
    AFTER,
    CLASS_COLOURS,
    EDGE,
    MARKERS,
    Picture,
    new_figure,
    style,
    to_bytes,
    to_svg,
)

if TYPE_CHECKING:
    from microcell.surveys.outlook import Outlook
    from microcell.surveys.sizes import SurveySize
    from microcell.surveys.sweeping import SurveySweep

__all__ = [
    "draw_cell_sizes",
    "draw_failures",
    "draw_outlook",
    "draw_survey_size",
    "draw_survey_sweep",
]

_DASHES = ("-", "--", "-.", ":")

_LEAST = 1e-12
"""Smaller probabilities are drawn at the left edge."""


def draw_survey_size(
    size: "SurveySize", probabilities: Sequence[float], sizes: Sequence[int], format: str
) -> bytes:
    """Draw the required cell size against the accepted failure probability.

    ``sizes`` are the cell sizes required for ``probabilities``; the requested pair is marked.
    """
    k = size.anonymity.k
    failure = size.anonymity.failure
    candidates = size.anonymity.size
    with style():
        figure = new_figure(6.4, 4.0)
        axes = figure.add_subplot()
        axes.step(probabilities, sizes, where="post", color=AFTER, linewidth=1.6)
        axes.axhline(k, color=EDGE, linestyle=":", linewidth=1)
        axes.text(probabilities[0], k, f"k = {k}", verticalalignment="bottom", fontsize=9)
        axes.plot([failure], [candidates], "o", color=CLASS_COLOURS[1], zorder=3)
        axes.annotate(
            f"{candidates} candidates at {failure:.3g}",
            (failure, candidates),
            xytext=(7, 7),
            textcoords="offset points",
            fontsize=9,
        )
        axes.set_xscale("log")
        # matplotlib's own formatter needs math text, which is switched off.
        axes.xaxis.set_major_formatter(lambda value, _: f"1e{np.log10(value):.0f}")
        axes.xaxis.set_minor_formatter(lambda *_: "")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Accepted failure probability per cell")
        axes.set_ylabel(f"Candidates per cell (participation {100 * size.participation:g} %)")
        return to_bytes(figure, format)


def draw_outlook(outlook: "Outlook", format: str) -> bytes:
    """Draw failure probabilities and the share of suppressed answers under each assumption."""
    prospects = outlook.prospects
    rows = np.arange(len(prospects))
    with style():
        figure = new_figure(8.0, 1.5 + 0.42 * len(prospects))
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        for place, (name, label) in enumerate(
            (
                ("table_failure", "some cell"),
                ("cell_failure", "a cell, on average"),
                ("participant_failure", "a participant's cell"),
            )
        ):
            estimates = [getattr(item, name) for item in prospects]
            values = np.clip([each.value for each in estimates], _LEAST, 1.0)
            lows = np.clip([each.value - 1.96 * each.error for each in estimates], _LEAST, 1.0)
            highs = np.clip([each.value + 1.96 * each.error for each in estimates], _LEAST, 1.0)
            colour = CLASS_COLOURS[place]
            left.hlines(rows, lows, highs, color=colour, linewidth=1.2)
            left.plot(values, rows, MARKERS[place], color=colour, label=label, markersize=5)
        left.axvline(
            outlook.failure, color=EDGE, linestyle="--", linewidth=1, label="accepted for a cell"
        )
        left.set_xscale("log")
        left.xaxis.set_major_formatter(lambda value, _: f"1e{np.log10(value):.0f}")
        left.xaxis.set_minor_formatter(lambda *_: "")
        left.set_xlabel("Failure probability")
        left.set_yticks(rows, [item.name for item in prospects])
        left.set_ylim(len(rows) - 0.5, -0.5)
        right.barh(rows, [100 * item.suppressed for item in prospects], color=AFTER, height=0.5)
        right.set_xlabel("Answers suppressed (%)")
        figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
        return to_bytes(figure, format)


def draw_survey_sweep(sweep: "SurveySweep", format: str) -> bytes:
    """Draw the information loss against k: a colour per participation, dashes per failure."""
    rates = sorted({each.participation for each in sweep.points})
    limits = sorted({each.failure for each in sweep.points}, reverse=True)
    with style():
        figure = new_figure(7.2, 4.4)
        axes = figure.add_subplot()
        axes.plot(
            [each.k for each in sweep.certain if each.information_loss is not None],
            [
                100 * each.information_loss
                for each in sweep.certain
                if each.information_loss is not None
            ],
            "o-",
            color=EDGE,
            label="certain participation",
        )
        for colour, rate in enumerate(rates):
            for dash, limit in enumerate(limits):
                chosen = [
                    (each.k, 100 * each.information_loss)
                    for each in sweep.points
                    if (each.participation, each.failure) == (rate, limit)
                    and each.information_loss is not None
                ]
                if chosen:
                    axes.plot(
                        *zip(*sorted(chosen), strict=True),
                        MARKERS[dash % len(MARKERS)],
                        color=CLASS_COLOURS[colour % len(CLASS_COLOURS)],
                        linestyle=_DASHES[dash % len(_DASHES)],
                        label=f"{100 * rate:g} % take part, failure {limit:g}",
                    )
        axes.set_xlabel("k")
        axes.set_ylabel("Expected information loss (%)")
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside right upper", frameon=False, fontsize=9)
        return to_bytes(figure, format)


def draw_failures(failures: Floats, limit: float) -> Picture:
    """Draw a histogram of the cells' failure probabilities and the accepted limit."""
    exponents = np.log10(np.maximum(failures, 1e-320))
    high = float(np.log10(limit))
    low = float(np.clip(exponents.min(), high - 12.0, high - 1.0))
    bins = np.linspace(low, high, 41).tolist()
    with style():
        figure = new_figure(6.4, 3.2)
        axes = figure.add_subplot()
        axes.hist(np.clip(exponents, low, high), bins=bins, color=AFTER)
        axes.axvline(high, color=CLASS_COLOURS[1], linestyle="--", linewidth=1.2)
        axes.set_xlabel("Failure probability of a cell (power of ten)")
        axes.set_ylabel("Cells")
        svg = to_svg(figure, "failures")
    return Picture(
        svg,
        f"Failure probabilities of the {len(failures):,} cells. The dashed line is the accepted "
        f"{limit:.4g}; the worst cell has {failures.max():.4g}.",
    )


def draw_cell_sizes(sizes: Integers) -> Picture:
    """Draw how many cells have how many candidates."""
    distinct, counts = np.unique(sizes, return_counts=True)
    with style():
        figure = new_figure(6.4, 3.2)
        axes = figure.add_subplot()
        if len(distinct) > 60:
            axes.hist(sizes, bins=40, color=AFTER)
        else:
            axes.bar(distinct, counts, color=AFTER)
        axes.set_xlabel("Candidates per cell")
        axes.set_ylabel("Cells")
        svg = to_svg(figure, "sizes")
    low, high = int(sizes.min()), int(sizes.max())
    spread = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return Picture(svg, f"Number of candidates per cell: {spread}.")
