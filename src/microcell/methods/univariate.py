"""The exact optimum in one dimension."""

import numpy as np

from microcell.errors import OptionError
from microcell.kernels.univariate import best_cuts, best_cuts_of_persons
from microcell.methods.registry import partitioner
from microcell.model import Floats, Integers

__all__ = ["univariate"]


@partitioner(
    "univariate",
    summary="the exact optimum for a single dimension",
    sizes="k to 2k-1",
    cost="n k steps",
    source="Hansen and Mukherjee 2003",
    dimensions="1",
)
def univariate(
    X: Floats,
    k: int,
    *,
    weights: Floats | None,
    seed: int,
    persons: Integers | None = None,
) -> Integers:
    """Return the labels with the least distortion in one dimension (Hansen and Mukherjee 2003).

    Cells are numbered from the left. The best cells are runs of k to 2k-1 consecutive sorted
    values, found by dynamic programming. With ``weights`` or ``persons`` the result is the best of
    all partitions into runs. Time O(n log n + n k), memory O(n).
    """
    if X.shape[1] > 1:
        raise OptionError(
            f"Method 'univariate' supports one dimension, not {X.shape[1]}. Use 'auto' or 'mdav'.",
            code="option.unsupported",
            option="method",
            method="univariate",
        )
    n = len(X)
    x = X[:, 0] if X.shape[1] else np.zeros(n)
    order = np.argsort(x, kind="stable")
    each = np.ones(n) if weights is None else weights[order]
    if persons is None:
        begin = best_cuts(x[order], each, k)
    else:
        begin = best_cuts_of_persons(x[order], each, persons[order], k)
    labels = np.empty(n, dtype=np.int64)
    labels[order] = np.cumsum(_first_of_cells(begin, n)) - 1
    return labels


def _first_of_cells(begin: Integers, n: int) -> Integers:
    """Mark the first sorted value of each cell with 1, tracing back from the end."""
    first = np.zeros(n, dtype=np.int64)
    end = n
    while end > 0:
        end = int(begin[end])
        first[end] = 1
    return first
