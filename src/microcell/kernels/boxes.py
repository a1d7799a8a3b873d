"""Where to cut a box: what every cut along a sorted column gains, and how both sides of it may fail."""

import numpy as np

from microcell.kernels._arrays import Floats, Integers
from microcell.kernels._jit import kernel
from microcell.kernels.participation import join

__all__ = ["failures_along", "gains_along"]


@kernel
def gains_along(X: Floats, weights: Floats, order: Integers) -> Floats:
    """By how much the sum of squares falls if the first i of the rows in ``order`` are cut from the others, for each i.

    (W + W') / (W W') |s|^2, with the weights W and W' of both sides and the weighted sum s of the first from the mean
    of all, so that no large terms are subtracted. The entry of i = 0 is 0. O(n m).
    """
    n, m = len(order), X.shape[1]
    out, mean, first = np.zeros(n), np.zeros(m), np.zeros(m)
    total = 0.0
    for i in range(n):
        total += weights[order[i]]
        for j in range(m):
            mean[j] += weights[order[i]] * X[order[i], j]
    for j in range(m):
        mean[j] /= total
    before = 0.0
    for i in range(n - 1):
        row = order[i]
        before += weights[row]
        after = max(total - before, 0.0)
        gain = 0.0
        for j in range(m):  # from the mean of all, where the sums of both sides are each other's negative
            first[j] += weights[row] * (X[row, j] - mean[j])
            gain += first[j] * first[j]
        out[i + 1] = gain * total / (before * after) if after > 0 else 0.0
    return out


@kernel
def failures_along(chances: Floats, k: int) -> Floats:
    """P{0 < K < k} of the first i candidates, for each i from 0 to all; K is how many of them take part. O(n k)."""
    out, p = np.zeros(len(chances) + 1), np.zeros(k)
    p[0] = 1.0
    for i in range(len(chances)):
        join(p, chances[i])
        out[i + 1] = p[1:].sum()
        if p.sum() == 0.0:  # nothing comes of nothing
            break
    return out
