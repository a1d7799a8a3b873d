"""Linkage from the release to the original: which original lies nearest to a published record."""

from collections.abc import Sequence

import numpy as np

from microcell.kernels.linkage import count_links, distinct_rows
from microcell.model import Floats, Integers

__all__ = ["find_originals"]


def find_originals(before: Floats, after: Floats, blocks: Sequence[slice], rows: Integers | None = None) -> Floats:
    """For each published record the probability that an original nearest to it is its own; their mean is the DLD.

    Both sides are standardized first, each column on a line by its own mean and deviation: an outsider knows both
    tables, and publishing centroids draws records together. Of originals equally near, one is picked by chance.
    The records of a class together find their own once at most, so that the mean is at most classes / n.

    Parameters
    ----------
    before, after
        The published records as points, before and after, row by row.
    blocks
        The dimensions of each column to standardize. Those with several (indicators, locations) keep their scale.
    rows
        The published records to link; all if left out.

    Examples
    --------
    >>> before, after = np.array([[0.0], [2.0], [4.0], [9.0]]), np.array([[1.0], [1.0], [6.5], [6.5]])
    >>> find_originals(before, after, [slice(0, 1)])
    array([1., 0., 0., 1.])
    """
    lines = [block.start for block in blocks if block.stop - block.start == 1]
    chosen = slice(None) if rows is None else rows
    originals, published = _standardized(before, lines), _standardized(after, lines)[chosen]
    distinct = distinct_rows(originals)
    sizes = np.bincount(distinct.place, minlength=len(distinct.first)).astype(np.int64)
    return count_links(published, originals[distinct.first], sizes, distinct.place[chosen]).expected


def _standardized(points: Floats, lines: Sequence[int]) -> Floats:
    """The points about their mean, the ``lines`` at a deviation of 1, or at 0 if they are constant."""
    out: Floats = points - points.mean(axis=0)
    for line in lines:
        # Equal points less their mean may leave a last digit, which must not be taken for a deviation.
        constant = np.ptp(points[:, line]) == 0
        out[:, line] = 0.0 if constant else out[:, line] / np.sqrt(np.square(out[:, line]).mean())
    return out
