"""Power cells of uneven participation: sizes given and taken until as many cells as can be hold."""

from dataclasses import dataclass

import numpy as np

from microcell.kernels.participation import failures_of_cells
from microcell.model import Floats, Integers
from microcell.partitioning import Quantization, pcl

__all__ = ["balance"]

_STEPS = 4
"""Steps of Lloyd's descent a round."""

_LEAST = 1e-320


def balance(points: Floats, start: Quantization, k: int, chances: Floats, limit: float, rounds: int) -> Quantization:
    """The power cells of fewest failures over the limit that some rounds of exchanging sizes come by.

    A cell that misses the limit asks for as many more candidates as its failure, falling by the same factor with each,
    would need; one that has more than it needs gives them up. Where all ask for more than there is, cells are given
    up. Costs that give the sizes are found as ever. Who is in a cell changes with its size, so that this goes on for
    so many ``rounds`` in which sites move with their cells, and as many in which they rest and only costs change; the
    best is kept. What still misses the limit is for the caller to mend.
    """
    best, fewest = start, len(start.partition) + 1
    found = start
    for turn in range(2 * rounds):
        state = _look(found.labels, k, chances, limit)
        if state.misses < fewest or (state.misses == fewest and turn < rounds):
            best, fewest = found, state.misses
        if fewest == 0 or len(found.partition) == 1:
            break
        kept, sizes = _share_out(state, k, resting=turn >= rounds)
        sites = np.ascontiguousarray(found.cells.centroids[kept])
        if turn < rounds:
            found = pcl(points, sizes=sizes, start=sites, shakes=0, iterations=_STEPS, weights=chances)
        else:
            found = pcl(points, sizes=sizes, start=sites, fixed=True, weights=chances)
    return best


@dataclass(frozen=True, eq=False)
class _State:
    """How cells stand: their sizes, and how many more candidates each would need; fewer, where that is negative."""

    sizes: Integers
    lacks: Floats
    misses: int
    """How many miss the limit."""


def _look(labels: Integers, k: int, chances: Floats, limit: float) -> _State:
    cells = labels.copy()  # kernels are compiled once more for arrays that are read-only
    sizes = np.bincount(cells)
    failures = failures_of_cells(cells, chances, k)
    means = np.bincount(cells, weights=chances) / sizes
    with_one_more = failures_of_cells(
        np.concatenate([cells, np.arange(len(sizes))]), np.concatenate([chances, means]), k
    )
    slopes = np.log(np.maximum(with_one_more, _LEAST)) - np.log(np.maximum(failures, _LEAST))
    lacks = (np.log(limit) - np.log(np.maximum(failures, _LEAST))) / np.minimum(slopes, -1e-3)
    return _State(sizes, np.clip(lacks, k - sizes, sizes), int((failures > limit).sum()))


def _share_out(state: _State, k: int, *, resting: bool) -> tuple[Integers, Integers]:
    """The cells that stay, and their sizes, which add up to all candidates."""
    wanted = np.ceil(state.lacks)
    if resting:  # little is changed: who lacks nothing gives up only what it surely can
        spare = np.where(state.lacks < -1.5, np.minimum(np.ceil(state.lacks + 0.3), 0), 0)
        wanted = np.where(state.lacks > 0, np.maximum(wanted, 1), spare)
    sizes = np.maximum(k, state.sizes + wanted).astype(np.int64)
    total, kept = int(state.sizes.sum()), np.arange(len(sizes))
    if sizes.sum() > total:
        surplus = min(int(np.ceil((sizes.sum() - total) / sizes.mean())), len(sizes) - 1)
        kept = np.sort(np.argsort(state.lacks, kind="stable")[: len(sizes) - surplus])
        while sizes[kept].sum() > total and len(kept) > 1:
            kept = np.delete(kept, state.lacks[kept].argmax())
    own = sizes[kept]
    if own.sum() > total:
        return kept, np.array([total])
    rest = total - int(own.sum())
    own += rest // len(own)
    nearest_to_short = np.argsort((np.ceil(state.lacks) - state.lacks)[kept], kind="stable")
    own[nearest_to_short[: rest % len(own)]] += 1
    return kept, own
