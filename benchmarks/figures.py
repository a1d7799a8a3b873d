"""Figures: time against n, distortion against k, distortion against time."""

from io import BytesIO

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.apart import Row
from benchmarks.contenders import CONTENDERS, PEERS

__all__ = ["FIGURES", "draw"]

COLOURS = ("#0b4f8a", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#4b4b4b", "#1b9e9e")
MARKERS = "osD^vP*X"


def _style(name: str) -> Row:
    """Return the style of a contender: solid lines for ours, dashed and hollow for others."""
    at = list(CONTENDERS).index(name)
    hollow = (
        {"linestyle": "--", "markerfacecolor": "white"} if name in PEERS else {"linestyle": "-"}
    )
    return {
        "color": COLOURS[at % len(COLOURS)],
        "marker": MARKERS[at % len(MARKERS)],
        "markersize": 5,
        **hollow,
    }


def _panel(across: str, up: str, height: float = 4.6) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.2, height), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=across, ylabel=up)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _series(
    rows: list[Row], questions: tuple[str, ...], across: str, up: str
) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each contender, sorted by the x value."""
    actual: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["status"] == "measured" and row["question"] in questions:
            actual.setdefault(row["contender"], []).append((row[across], row[up]))
    return {name: sorted(points) for name, points in actual.items()}


def _curves(axes: Axes, series: dict[str, list[tuple[float, float]]]) -> None:
    for name, points in series.items():
        axes.plot(*zip(*points, strict=True), label=name, **_style(name))
    if series:
        axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def time_against_n(rows: list[Row]) -> Figure:
    """Plot seconds by number of records, both logarithmic."""
    figure, axes = _panel("records n (k = 10)", "seconds, best of a few runs")
    axes.set(xscale="log", yscale="log")
    _curves(axes, _series(rows, ("over n", "over n, one column"), "n", "seconds"))
    return figure


def distortion_against_k(rows: list[Row]) -> Figure:
    """Plot D by k."""
    figure, axes = _panel("k", "distortion D = SSE / SST")
    axes.set(xscale="log")
    series = _series(rows, ("over k",), "k", "D")
    _curves(axes, series)
    ticks = sorted({k for points in series.values() for k, _ in points})
    axes.set_xticks(ticks, [str(k) for k in ticks])
    axes.minorticks_off()
    return figure


def distortion_against_time(rows: list[Row]) -> Figure:
    """Plot one point per contender: time and distortion."""
    figure, axes = _panel("seconds", "distortion D = SSE / SST")
    axes.set(xscale="log")
    _curves(axes, _series(rows, ("distortion and time",), "seconds", "D"))
    return figure


FIGURES = {
    "time-against-n": time_against_n,
    "distortion-against-k": distortion_against_k,
    "distortion-against-time": distortion_against_time,
}
"""Figures by file name."""


def draw(name: str, rows: list[Row]) -> bytes:
    """Return a figure as SVG; the same measurements give the same bytes."""
    figure, out = FIGURES[name](rows), BytesIO()
    with mpl.rc_context({"svg.hashsalt": "microcell", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "microcell"})
    return out.getvalue()
