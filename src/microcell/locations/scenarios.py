"""What-if scenarios: the distances that another k would cause."""

import math
from typing import NamedTuple

import numpy as np

from microcell._display import count as counted
from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.kernels.bisect import bisect_rows
from microcell.locations.clustering import great_circle
from microcell.locations.records import WhatIf
from microcell.methods import pcl
from microcell.model import Floats, Integers

__all__ = ["what_if"]

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""Shares of devices whose quantiles are reported."""

_SAMPLED_K = 15
"""Devices per cell in a sample of a large population; more change the result by less than 2 %."""

_UNSAMPLED = 5_000
"""Largest population that is not sampled."""

_MAX_CELLS = 1_000
"""Beyond this number of cells, a sample of regions stands for all."""

_REGION_CELLS = 40
"""Minimum number of cells in a region."""

_MAX_REGIONS = 100

_MIN_DEVICES = 10
"""No figure and no bar describes fewer devices, even if k is smaller."""

_BARS = 20
"""Approximate number of bars in a histogram."""


class _Sample(NamedTuple):
    """A sample of the population, with k scaled down to match."""

    points: Floats
    k: int
    ratio: float
    """Number of devices that each sampled device stands for."""


def what_if(points: Floats, k: int, *, seed: int = 0) -> WhatIf:
    """Return the distribution of distances between devices and the places that k would publish.

    Uses PCL. Large populations are sampled, with proportionally smaller cells, and so are regions
    if there are many cells: the computation takes seconds for any population, and distances come
    out a few percent too long rather than too short. Each figure is a mean over at least k devices
    and each bar holds at least k devices (in a sample, as many as stand for k). The last bar also
    holds everything beyond it. The same seed gives the same result.

    Parameters
    ----------
    points : (n, 3)
        Kilometres from the Earth's centre.
    k : int
        At least 2, at most n.

    Examples
    --------
    >>> points = 6371.0 * np.array([[1.0, 0, 0], [1.0, 0.001, 0], [0, 1.0, 0], [0, 1.0, 0.001]])
    >>> result = what_if(points, 2)
    >>> result.cells, round(result.mean, 2)
    (2, 3.19)
    """
    points = _check(points, k)
    rng = np.random.default_rng(seed)
    sample = _draw_sample(points, k, rng)
    distances = np.sort(
        np.concatenate([_distances(sample, rows, seed) for rows in _draw_regions(sample, rng)])
    )
    least = max(sample.k, _MIN_DEVICES)
    edges, counts = _histogram(distances, least)
    scale = len(points) / len(distances)
    return WhatIf(
        k=k,
        cells=len(points) // k,
        mean=float(distances.mean()),
        root_mean_square=float(np.sqrt(np.mean(distances**2))),
        quantiles=tuple((share, _smooth_quantile(distances, share, least)) for share in SHARES),
        edges=tuple(edges.tolist()),
        counts=tuple(
            np.diff(np.round(np.cumsum(counts) * scale), prepend=0.0).astype(int).tolist()
        ),
    )


def _check(points: Floats, k: int) -> Floats:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise OptionError("k must be an integer.", code="option.wrong_type", option="k")
    if k < 2:
        raise OptionError("k must be at least 2.", code="option.out_of_range", option="k")
    points = np.ascontiguousarray(points, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise DataError("Points must be rows of three finite numbers.", code="data.not_finite")
    if len(points) < k:
        raise TooFewRecordsError(
            f"{counted(len(points), 'device')} cannot form a cell of k = {k}. Choose a lower k.",
            code="guarantee.too_few_records",
            records=len(points),
            k=k,
        )
    return points


def _draw_sample(points: Floats, k: int, rng: np.random.Generator) -> _Sample:
    sampled_k = min(k, max(_SAMPLED_K, k * _UNSAMPLED // len(points)))
    if sampled_k == k:
        return _Sample(points, k, 1.0)
    count = max(sampled_k, round(len(points) * sampled_k / k))
    rows = np.sort(rng.choice(len(points), count, replace=False))
    return _Sample(points[rows], sampled_k, len(points) / count)


def _draw_regions(sample: _Sample, rng: np.random.Generator) -> list[Integers]:
    """Return the rows of regions that represent all: every n-th region in spatial order."""
    rows = np.arange(len(sample.points))
    if len(rows) <= _MAX_CELLS * sample.k:
        return [rows]
    size = _REGION_CELLS * sample.k
    starts = bisect_rows(sample.points, rows, size, 2 * size - 1)
    available = len(starts) - 1
    count = min(available, _MAX_REGIONS)
    positions = (np.arange(count) + rng.random()) * available / count
    chosen = np.unique(positions.astype(np.int64) % available)
    return [rows[starts[i] : starts[i + 1]] for i in chosen]


def _distances(sample: _Sample, rows: Integers, seed: int) -> Floats:
    """Return the great-circle distances between devices and the means of their cells.

    The mean of a small cell lies closer to its members than that of a large one. Squared distances
    are therefore scaled by (1 - 1/n) / (1 - 1/m) for a cell of m sampled devices out of n.
    """
    points = np.ascontiguousarray(sample.points[rows])
    labels = pcl(
        points,
        sample.k,
        adjust="newton" if sample.k > 2 * _SAMPLED_K else "exact",
        shakes=0,
        seed=seed,
    ).labels
    sizes = np.bincount(labels)
    means = np.stack([np.bincount(labels, weights=column) / sizes for column in points.T], axis=1)
    # Devices spread evenly around the globe have no mean direction; any place will do.
    means[np.linalg.norm(means, axis=1) < 1e-9] = points[0]
    factor = np.sqrt((1.0 - 1.0 / (sizes * sample.ratio)) / (1.0 - 1.0 / np.maximum(sizes, 2)))
    distances: Floats = great_circle(points, means[labels]) * factor[labels]
    return distances


def _smooth_quantile(distances: Floats, share: float, k: int) -> float:
    """Return the mean of the k distances around a quantile, which describes no single device."""
    width = min(k, len(distances))
    first = int(np.clip(round(share * len(distances) - width / 2), 0, len(distances) - width))
    return float(distances[first : first + width].mean())


def _histogram(distances: Floats, k: int) -> tuple[Floats, Integers]:
    """Return round edges and counts of at least k; sparse bars are merged with the next one."""
    end = float(distances[-min(k, len(distances)) :].mean())
    if end < 1e-6:  # a millimetre: all devices are at one spot, up to rounding
        return np.array([0.0, 0.001]), np.array([len(distances)])
    step = _round_up(_smooth_quantile(distances, 0.95, k) / _BARS or end / _BARS)
    step = max(step, _round_up(end / (10 * _BARS)))
    edges = step * np.arange(math.ceil(end / step) + 1)
    bars = np.minimum((distances / step).astype(np.int64), len(edges) - 2)
    counts = np.bincount(bars, minlength=len(edges) - 1)
    merged_edges = [0.0]
    merged_counts: list[int] = []
    pending = 0
    for edge, count in zip(edges[1:].tolist(), counts.tolist(), strict=True):
        pending += count
        if pending >= k:
            merged_edges.append(round(edge, 9))
            merged_counts.append(pending)
            pending = 0
    last = round(float(edges[-1]), 9)
    if not merged_counts:
        return np.array([0.0, last]), np.array([pending])
    if pending > 0:
        merged_counts[-1] += pending
        merged_edges[-1] = last
    return np.array(merged_edges), np.array(merged_counts)


def _round_up(value: float) -> float:
    """Return the smallest of ..., 0.1, 0.2, 0.5, 1, 2, 5, 10, ... that is at least ``value``."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-6)))
    return next(
        power * unit for unit in (1.0, 2.0, 5.0, 10.0) if power * unit >= value * (1 - 1e-9)
    )
