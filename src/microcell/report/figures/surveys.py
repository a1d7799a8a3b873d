"""The figures of a survey: how large cells must be, and how those of a design may fail."""

import numpy as np

from microcell.report.figures.base import (
    AFTER,
    CLASS_COLOURS,
    EDGE,
    Picture,
    as_file,
    as_svg,
    sheet,
    style,
)
from microcell.report.plots import DesignFacts, SizeCurve

__all__ = ["draw_cell_sizes", "draw_failures", "draw_sizes"]


def draw_sizes(curve: SizeCurve, form: str) -> bytes:
    """The size of a cell against the failure rate, falling from left to right, with what was asked for."""
    rate, size = curve.asked
    with style():
        figure = sheet(6.4, 4.0)
        axes = figure.add_subplot()
        axes.step(curve.rates, curve.sizes, where="post", color=AFTER, linewidth=1.6)
        axes.axhline(curve.k, color=EDGE, linestyle=":", linewidth=1)
        axes.text(curve.rates[0], curve.k, f"k = {curve.k}", verticalalignment="bottom", fontsize=9)
        axes.plot([rate], [size], "o", color=CLASS_COLOURS[1], zorder=3)
        axes.annotate(
            f"{size} candidates at {rate:.3g}",
            (rate, size),
            xytext=(7, 7),
            textcoords="offset points",
            fontsize=9,
        )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(
            lambda value, _: f"1e{np.log10(value):.0f}"
        )  # its own needs formulas, which are off
        axes.xaxis.set_minor_formatter(lambda *_: "")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Accepted probability that a cell fails")
        axes.set_ylabel(f"Candidates in a cell, of whom {100 * curve.participation:g} % take part")
        return as_file(figure, form)


def draw_failures(facts: DesignFacts) -> Picture:
    """How many cells fail with which probability, against the one that was accepted."""
    limit = facts.manifest["failure"]
    shown = np.log10(np.maximum(facts.failures, 1e-320))
    high = float(np.log10(limit))
    low = float(np.clip(shown.min(), high - 12.0, high - 1.0))
    with style():
        figure = sheet(6.4, 3.2)
        axes = figure.add_subplot()
        axes.hist(np.clip(shown, low, high), bins=np.linspace(low, high, 41).tolist(), color=AFTER)
        axes.axvline(high, color=CLASS_COLOURS[1], linestyle="--", linewidth=1.2)
        axes.set_xlabel("Probability that a cell fails, as a power of ten")
        axes.set_ylabel("Cells")
        svg = as_svg(figure, "failures")
    caption = (
        f"How many of {len(facts.failures):,} cells fail with which probability. The dashed line is the accepted "
        f"{limit:.4g}; the worst cell has {facts.failures.max():.4g}."
    )
    return Picture(svg, caption)


def draw_cell_sizes(facts: DesignFacts) -> Picture:
    """How many cells have how many candidates."""
    sizes, counts = np.unique(facts.sizes, return_counts=True)
    with style():
        figure = sheet(6.4, 3.2)
        axes = figure.add_subplot()
        if len(sizes) > 60:
            axes.hist(facts.sizes, bins=40, color=AFTER)
        else:
            axes.bar(sizes, counts, color=AFTER)
        axes.set_xlabel("Candidates in a cell")
        axes.set_ylabel("Cells")
        svg = as_svg(figure, "sizes")
    caption = f"How many candidates the cells have: {facts.sizes.min():,} to {facts.sizes.max():,}."
    return Picture(svg, caption)
