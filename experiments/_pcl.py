"""Shared by the PCL studies: points, timed runs, formatting and verdicts."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.spatial import cKDTree

import microcell as mc
from microcell.model import Floats, Integers

__all__ = [
    "AS_PUBLISHED",
    "PASTELS",
    "Run",
    "agree",
    "change",
    "clock",
    "draw_stars",
    "exponent",
    "gaussian",
    "judge_change",
    "map_cells",
    "map_diagram",
    "mean_square",
    "minutes",
    "percent",
    "run_method",
    "run_pcl",
    "same_digits",
    "standardize",
    "starts",
    "warm_up",
]

AS_PUBLISHED: dict[str, Any] = {"speed": 0.5, "shakes": 0}
"""The papers' settings: half steps towards the centroids, and no initial perturbation."""

RESOLUTION = 160
"""Pixels along each side of a map of cells."""

PASTELS = (
    "#8dd3c7",
    "#ffffb3",
    "#bebada",
    "#fb8072",
    "#80b1d3",
    "#fdb462",
    "#b3de69",
    "#fccde5",
    "#d9d9d9",
    "#bc80bd",
    "#ccebc5",
    "#ffed6f",
    "#a6cee3",
    "#cab2d6",
    "#fdbf6f",
    "#b2df8a",
)
"""Colors of cells in maps."""


@dataclass(frozen=True, eq=False)
class Run:
    """One partition: its labels, mean squared error per dimension, smallest cell and seconds."""

    labels: Integers
    loss: float
    smallest: int
    seconds: float
    quantization: mc.methods.Quantization | None = None

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.labels.max()) + 1


def clock(work: Callable[[], Any]) -> tuple[Any, float]:
    """Call a function; return its result and the elapsed seconds."""
    begun = time.perf_counter()
    done = work()
    return done, time.perf_counter() - begun


def mean_square(X: Floats, labels: Integers) -> float:
    """Return the papers' D, SSE / (m n); with unit variances this is SSE / SST."""
    return mc.distortion(X, labels) * float(X.var(axis=0).mean())


def run_method(X: Floats, k: int, method: str, **options: Any) -> Run:
    """Run a registered method."""
    cells, seconds = clock(lambda: mc.partition(X, k, method=method, **options))
    return Run(cells.labels, mean_square(X, cells.labels), int(cells.sizes.min()), seconds)


def run_pcl(X: Floats, k: int, **options: Any) -> Run:
    """Run PCL, keeping sites, costs and history."""
    actual, seconds = clock(lambda: mc.pcl(X, k, **options))
    return Run(
        actual.labels,
        mean_square(X, actual.labels),
        int(actual.partition.sizes.min()),
        seconds,
        actual,
    )


def starts(X: Floats, k: int, count: int = 5, **options: Any) -> list[Run]:
    """Run PCL several times: once from MDAV, then from random points, as in the papers."""
    first = run_pcl(X, k, start="mdav", **options)
    return [
        first,
        *(run_pcl(X, k, start="random", seed=seed, **options) for seed in range(1, count)),
    ]


def warm_up() -> None:
    """Load the compiled kernels so that they are not timed."""
    points = gaussian(300, 2, seed=9)
    for method in ("mdav", "vmdav", "auto"):
        mc.partition(points, 20, method=method)
    mc.partition(points, 20, method="anneal", steps=10)
    for adjust in ("exact", "noisy"):
        mc.pcl(points, 100, adjust=adjust, iterations=2, shakes=1)


def gaussian(n: int, m: int, correlation: float = 0.0, seed: int = 0) -> Floats:
    """Standard normal points with the same correlation between any two dimensions."""
    covariance = np.full((m, m), correlation) + (1 - correlation) * np.eye(m)
    return np.ascontiguousarray(
        np.random.default_rng(seed).normal(size=(n, m)) @ np.linalg.cholesky(covariance).T
    )


def standardize(X: Floats) -> Floats:
    """Columns of mean 0 and variance 1."""
    return np.ascontiguousarray((X - X.mean(axis=0)) / X.std(axis=0))


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Growth exponent of the times in n: the slope in log-log scale."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


# --- words and verdicts ---


def change(new: float, old: float) -> float:
    """Relative change; negative if the new value is smaller."""
    return (new - old) / old


def percent(share: float, digits: int = 1) -> str:
    """Format a relative change.

    Examples
    --------
    >>> percent(-0.1575), percent(0.02, 0)
    ('-15.8 %', '+2 %')
    """
    return f"{100 * share:+.{digits}f} %"


def minutes(seconds: float) -> str:
    """Format a duration.

    Examples
    --------
    >>> minutes(975), minutes(37), minutes(3.21)
    ('16 min 15 s', '37 s', '3.2 s')
    """
    return (
        f"{round(seconds) // 60} min {round(seconds) % 60} s"
        if seconds >= 59.5
        else f"{seconds:.2g} s"
    )


def agree(*claims: bool | np.bool_) -> str:
    """Return the verdict on claims that must all hold; arguments must be booleans.

    Examples
    --------
    >>> agree(True, np.bool_(True)), agree(True, False)
    ('reproduced', 'differs')
    """
    if not claims or not all(isinstance(claim, (bool, np.bool_)) for claim in claims):
        raise TypeError("claims must be truth values, one or more")
    return "reproduced" if all(claims) else "differs"


def judge_change(ours: float, theirs: float, margin: float = 0.02) -> str:
    """Return the verdict on a relative change, with a tolerance of ``margin``."""
    if ours < theirs - margin:
        return "better"
    return "reproduced" if ours <= theirs + margin else "differs"


def same_digits(printed: str, value: float) -> bool:
    """Return whether the value rounds to the published number.

    Examples
    --------
    >>> same_digits("4.31e-05", 4.3149e-5), same_digits("0.027", 0.0276), same_digits("8.80", 8.796)
    (True, False, True)
    """
    digits, _, power = printed.partition("e")
    places = len(digits.partition(".")[2])
    unit = 10.0 ** (int(power or 0) - places)
    if not re.fullmatch(r"-?\d+(\.\d+)?", digits):
        raise ValueError(f"{printed!r} is not a number as printed in papers")
    return abs(value - float(printed)) <= 0.5 * unit * (1 + 1e-9)


# --- pictures of cells ---


def map_cells(
    axes: Axes, X: Floats, labels: Integers, colours: Sequence[str], *, sides: tuple[float, float]
) -> None:
    """Color a square by the cell of the nearest point; centroids are white dots."""
    cells = labels[cKDTree(X).query(_grid(sides))[1]]
    _colour(axes, cells, colours, sides)
    _mark_means(axes, X, labels, sides)


def map_diagram(
    axes: Axes,
    X: Floats,
    actual: mc.methods.Quantization,
    colours: Sequence[str],
    sides: tuple[float, float],
) -> None:
    """Color a square by power cells, with the points and their centroids."""
    _colour(axes, actual.cells.assign(_grid(sides)), colours, sides)
    axes.plot(X[:, 0], X[:, 1], ".", color="black", markersize=2)
    _mark_means(axes, X, actual.labels, sides)


def draw_stars(axes: Axes, X: Floats, labels: Integers, sides: tuple[float, float]) -> None:
    """Draw points with lines to the centroids of their cells."""
    means = _means(X, labels)[labels]
    gap = np.full(len(X), np.nan)
    across, up = (np.column_stack([X[:, axis], means[:, axis], gap]).ravel() for axis in (0, 1))
    axes.plot(across, up, "-", color="#888888", linewidth=0.7)
    axes.plot(X[:, 0], X[:, 1], ".", color="black", markersize=2)
    _mark_means(axes, X, labels, sides)


def _grid(sides: tuple[float, float]) -> Floats:
    line = np.linspace(*sides, RESOLUTION)
    return np.column_stack([axis.ravel() for axis in np.meshgrid(line, line)])


def _colour(
    axes: Axes, cells: Integers, colours: Sequence[str], sides: tuple[float, float]
) -> None:
    palette = np.array(
        [[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in colours],
        np.uint8,
    )
    pixels = palette[cells.reshape(RESOLUTION, RESOLUTION) % len(palette)]
    axes.imshow(pixels, origin="lower", extent=(*sides, *sides), interpolation="nearest")


def _means(X: Floats, labels: Integers) -> Floats:
    return np.array([X[labels == cell].mean(axis=0) for cell in range(int(labels.max()) + 1)])


def _mark_means(axes: Axes, X: Floats, labels: Integers, sides: tuple[float, float]) -> None:
    means = _means(X, labels)
    axes.plot(
        means[:, 0],
        means[:, 1],
        "o",
        color="white",
        markersize=3,
        markeredgecolor="black",
        markeredgewidth=0.5,
    )
    axes.set(xlim=sides, ylim=sides, aspect="equal")
