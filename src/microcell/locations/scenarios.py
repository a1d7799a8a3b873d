"""What another k would cost: how far devices would be from the locations they use."""

import math
from typing import NamedTuple

import numpy as np

from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.bisect import bisect_rows
from microcell.locations.clustering import great_circle
from microcell.locations.records import WhatIf
from microcell.methods import pcl
from microcell.model import Floats, Integers

__all__ = ["what_if"]

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""The quantiles told."""

_ENOUGH = 15
"""Of a large population so many devices for each cell are drawn: with more the answer is the same within 2 %."""

_LARGE = 5_000
"""A population up to this is not sampled."""

_CELLS = 1_000
"""More are not made at once: some regions stand for all."""

_REGION, _REGIONS = 40, 100
"""Cells of a region at least, and how many regions are drawn."""

_FEW = 10
"""No figure and no bar is of fewer devices, even where k is smaller."""

_BARS = 20
"""About so many in a histogram."""


class _Thinned(NamedTuple):
    """A part of the population, and how many of it make a cell that k of all make."""

    points: Floats
    k: int
    times: float
    """How many devices each stands for."""


def what_if(points: Floats, k: int, *, seed: int = 0) -> WhatIf:
    """The distribution of the kilometres between devices and the places that cells of k would publish.

    By PCL; of many devices a sample is taken in which cells have proportionately fewer, and of many cells some regions,
    so that it takes seconds whatever the population: distances come out a few per cent too long, not too short. Each
    figure is a mean of at least k devices and each bar holds at least k (as many of a sample as stand for k); the last
    bar holds whatever lies beyond it too. The same seed gives the same answer.

    Parameters
    ----------
    points : (n, 3)
        Kilometres from the Earth's centre.
    k : int
        At least 2, at most n.

    Examples
    --------
    >>> points = 6371.0 * np.array([[1.0, 0.0, 0.0], [1.0, 0.001, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.001]])
    >>> found = what_if(points, 2)
    >>> found.cells, round(found.mean, 2)
    (2, 3.19)
    """
    given = _check(points, k)
    rng = np.random.default_rng(seed)
    thinned = _thin(given, k, rng)
    distances = np.sort(
        np.concatenate([_distances(thinned, rows, seed) for rows in _regions(thinned, rng)])
    )
    least = max(thinned.k, _FEW)
    edges, counts = _histogram(distances, least)
    scale = len(given) / len(distances)
    return WhatIf(
        k=k,
        cells=len(given) // k,
        mean=float(distances.mean()),
        root_mean_square=float(np.sqrt(np.mean(distances**2))),
        quantiles=tuple((share, _around(distances, share, least)) for share in SHARES),
        edges=tuple(edges.tolist()),
        counts=tuple(
            np.diff(np.round(np.cumsum(counts) * scale), prepend=0.0).astype(int).tolist()
        ),
    )


def _check(points: Floats, k: int) -> Floats:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 2:
        raise OptionError("k must be a whole number of at least 2.")
    given = np.ascontiguousarray(points, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != 3 or not np.isfinite(given).all():
        raise DataError("Points must be rows of three finite numbers.")
    if len(given) < k:
        raise TooFewRecordsError(
            f"{len(given)} devices cannot make a cell of k = {k}. Choose a lower k."
        )
    return given


def _thin(points: Floats, k: int, rng: np.random.Generator) -> _Thinned:
    few = min(k, max(_ENOUGH, k * _LARGE // len(points)))
    if few == k:
        return _Thinned(points, k, 1.0)
    count = max(few, round(len(points) * few / k))
    rows = np.sort(rng.choice(len(points), count, replace=False))
    return _Thinned(points[rows], few, len(points) / count)


def _regions(thinned: _Thinned, rng: np.random.Generator) -> list[Integers]:
    """The rows of regions that stand for all: every so manieth of those that follow each other on the Earth."""
    rows = np.arange(len(thinned.points))
    if len(rows) <= _CELLS * thinned.k:
        return [rows]
    starts = bisect_rows(thinned.points, rows, _REGION * thinned.k, 2 * _REGION * thinned.k - 1)
    count = len(starts) - 1
    wanted = min(count, _REGIONS)
    chosen = np.unique(
        ((np.arange(wanted) + rng.random()) * count / wanted).astype(np.int64) % count
    )
    return [rows[starts[i] : starts[i + 1]] for i in chosen]


def _distances(thinned: _Thinned, rows: Integers, seed: int) -> Floats:
    """Great-circle kilometres of devices to the means of their cells.

    The mean of few lies nearer to them than that of many would: squares are larger by (1 - 1/many) / (1 - 1/few).
    """
    points = np.ascontiguousarray(thinned.points[rows])
    labels = pcl(
        points,
        thinned.k,
        adjust="newton" if thinned.k > 2 * _ENOUGH else "exact",
        shakes=0,
        seed=seed,
    ).labels
    sizes = np.bincount(labels)
    means = np.stack([np.bincount(labels, weights=column) / sizes for column in points.T], axis=1)
    nowhere = np.linalg.norm(means, axis=1) < 1e-9
    means[nowhere] = points[0]  # devices all around the Earth: any place is as good
    factor = np.sqrt((1.0 - 1.0 / (sizes * thinned.times)) / (1.0 - 1.0 / np.maximum(sizes, 2)))
    out: Floats = great_circle(points, means[labels]) * factor[labels]
    return out


def _around(distances: Floats, share: float, k: int) -> float:
    """A quantile that tells of no single device: the mean of the k distances about it."""
    width = min(k, len(distances))
    first = int(np.clip(round(share * len(distances) - width / 2), 0, len(distances) - width))
    return float(distances[first : first + width].mean())


def _histogram(distances: Floats, k: int) -> tuple[Floats, Integers]:
    """Bars with round edges, each of at least k; those of fewer are joined to the next."""
    end = float(distances[-min(k, len(distances)) :].mean())
    if end < 1e-6:  # a millimetre: all at one spot, but for rounding
        return np.array([0.0, 0.001]), np.array([len(distances)])
    step = _round_step(_around(distances, 0.95, k) / _BARS or end / _BARS)
    step = max(step, _round_step(end / (10 * _BARS)))
    edges = step * np.arange(math.ceil(end / step) + 1)
    counts = np.bincount(
        np.minimum((distances / step).astype(np.int64), len(edges) - 2), minlength=len(edges) - 1
    )
    kept, joined, held = [0.0], [], 0
    for edge, count in zip(edges[1:].tolist(), counts.tolist(), strict=True):
        held += count
        if held >= k:
            kept.append(round(edge, 9))
            joined.append(held)
            held = 0
    if held > 0 or len(kept) == 1:
        if joined:
            joined[-1] += held
            kept[-1] = round(float(edges[-1]), 9)
        else:
            joined, kept = [held], [0.0, round(float(edges[-1]), 9)]
    return np.array(kept), np.array(joined)


def _round_step(least: float) -> float:
    """The least of 1, 2, 5, 10, ... (and tenths, hundredths ...) that is as large."""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-6)))
    return next(
        power * unit for unit in (1.0, 2.0, 5.0, 10.0) if power * unit >= least * (1 - 1e-9)
    )
