"""The exact optimum for data on a line."""

import numpy as np

from microcell.errors import OptionError
from microcell.kernels.univariate import best_cuts
from microcell.methods.registry import partitioner
from microcell.model import Floats, Integers

__all__ = ["univariate"]


@partitioner(
    "univariate",
    summary="the least distortion there is, for a single dimension",
    sizes="k to 2k-1",
    cost="n k steps",
    source="Hansen and Mukherjee 2003",
    dimensions="1",
)
def univariate(X: Floats, k: int, *, weights: Floats | None, seed: int) -> Integers:
    """Labels of least distortion for one dimension (Hansen and Mukherjee 2003), cells numbered from the left.

    The best cells are runs of k to 2k-1 consecutive sorted values; dynamic programming finds them. With ``weights``
    the result is the best of all partitions into runs. Time O(n log n + n k), memory O(n).
    """
    if X.shape[1] > 1:
        raise OptionError(
            f"Method 'univariate' is for one dimension; there are {X.shape[1]}. Use 'mdav' or 'auto'."
        )
    n = len(X)
    x = X[:, 0] if X.shape[1] else np.zeros(n)
    order = np.argsort(x, kind="stable")
    begin = best_cuts(x[order], np.ones(n) if weights is None else weights[order], k)
    labels = np.empty(n, dtype=np.int64)
    labels[order] = np.cumsum(_first_of_cells(begin, n)) - 1
    return labels


def _first_of_cells(begin: Integers, n: int) -> Integers:
    """1 where a sorted value is the first of its cell, found backwards from the end."""
    first = np.zeros(n, dtype=np.int64)
    end = n
    while end > 0:
        end = int(begin[end])
        first[end] = 1
    return first
