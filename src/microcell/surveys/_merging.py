"""Cells with too few answers joined with the nearest, until each has enough."""

import numpy as np

from microcell.kernels.cells import squared_distances
from microcell.model import Floats, Integers

__all__ = ["merge_cells"]


def merge_cells(centroids: Floats, attained: Integers, k: int) -> Integers:
    """For each cell the one whose representative it publishes; -1 for one without answers.

    The group of fewest answers, ties to the lowest, joins the one with the nearest mean, until all have k or more. The
    mean of a group is that of its cells' centroids, weighed by answers. A group publishes the representative of
    its cell that is nearest to its mean. There must be k answers in all. Time O(G^2 m) for G cells with answers.

    Examples
    --------
    >>> merge_cells(np.array([[0.0], [1.0], [5.0], [9.0]]), np.array([1, 4, 0, 3]), 3)
    array([ 1,  1, -1,  3])
    """
    used = np.flatnonzero(attained)
    group = np.arange(len(used))
    means, counts = centroids[used].copy(), attained[used].astype(np.float64)
    while len(np.flatnonzero(counts)) > 1:
        alive = np.flatnonzero(counts)
        fewest = int(alive[np.argmin(counts[alive])])
        if counts[fewest] >= k:
            break
        others = alive[alive != fewest]
        into = int(others[squared_distances(means[others], means[fewest]).argmin()])
        both = counts[fewest] + counts[into]
        means[into] = (means[fewest] * counts[fewest] + means[into] * counts[into]) / both
        counts[into], counts[fewest] = both, 0.0
        group[group == fewest] = into
    out = np.full(len(attained), -1)
    for number in np.unique(group):
        own = used[group == number]
        out[own] = own[squared_distances(centroids[own], means[number]).argmin()]
    return out
