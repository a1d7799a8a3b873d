"""Optimal cells in one dimension."""

import numpy as np

from microcell.kernels._jit import kernel
from microcell.kernels.arrays import Floats, Integers

__all__ = ["best_cuts", "best_cuts_left_out", "best_cuts_of_persons"]


@kernel
def best_cuts(x: Floats, weights: Floats, k: int) -> Integers:
    """Return the start of the last cell of the best partition of the first j sorted values.

    One entry for each j from 0 to n. Dynamic programming over last cells of k to 2k-1 values. A
    cell's SSE is accumulated value by value from the right (Welford), so no difference of large
    sums is ever taken. O(n k) time, O(n) memory.
    """
    n = len(x)
    cost = np.full(n + 1, np.inf)
    begin = np.zeros(n + 1, dtype=np.int64)
    cost[0] = 0.0
    for j in range(k, n + 1):
        mean, total, sse = 0.0, 0.0, 0.0
        for size in range(1, min(2 * k - 1, j) + 1):
            i = j - size
            total += weights[i]
            difference = x[i] - mean
            mean += difference * weights[i] / total
            sse += weights[i] * difference * (x[i] - mean)
            if size >= k and cost[i] + sse < cost[j]:
                cost[j] = cost[i] + sse
                begin[j] = i
    return begin


@kernel
def best_cuts_of_persons(x: Floats, weights: Floats, persons: Integers, k: int) -> Integers:
    """Return the cuts as :func:`best_cuts` does, for cells of at least k distinct persons.

    A last cell that can be divided into two cells of k persons is never better than the two, so it
    is extended to the left only until it can.
    """
    n = len(x)
    cost = np.full(n + 1, np.inf)
    begin = np.zeros(n + 1, dtype=np.int64)
    cost[0] = 0.0
    seen = np.zeros((2, persons.max() + 1), dtype=np.int64)
    for j in range(k, n + 1):
        mean, total, sse = 0.0, 0.0, 0.0
        first, second = 0, 0  # persons in the shortest cell that ends here, and to its left
        for i in range(j - 1, -1, -1):
            total += weights[i]
            difference = x[i] - mean
            mean += difference * weights[i] / total
            sse += weights[i] * difference * (x[i] - mean)
            if first < k:
                first += seen[0, persons[i]] != j
                seen[0, persons[i]] = j
            else:
                second += seen[1, persons[i]] != j
                seen[1, persons[i]] = j
            if first == k and cost[i] + sse < cost[j]:
                cost[j] = cost[i] + sse
                begin[j] = i
            if second == k:
                break
    return begin


@kernel
def best_cuts_left_out(x: Floats, weights: Floats, k: int, most: int) -> tuple[Floats, Integers]:
    """Return the least SSE with 0 to ``most`` values left out, and how each optimum ends.

    The second result has, for each number j of sorted values and s of values left out, the size of
    the last cell of the best partition, or 0 if the last value is left out. In an optimum no value
    between two members of a cell is left out: exchanging it with one of the outermost members
    would lower the SSE. O(n k most) time, O(n most) memory.
    """
    n, width = len(x), 2 * k
    cost = np.full((width, most + 1), np.inf)  # of the last 2k numbers of values
    size_of_last = np.zeros((n + 1, most + 1), dtype=np.int64)
    cost[0, 0] = 0.0
    for j in range(1, n + 1):
        row = j % width
        cost[row, 0] = np.inf
        for s in range(most):
            cost[row, s + 1] = cost[(j - 1) % width, s]
            size_of_last[j, s + 1] = 0
        mean, total, sse = 0.0, 0.0, 0.0
        for size in range(1, min(2 * k - 1, j) + 1):
            i = j - size
            total += weights[i]
            difference = x[i] - mean
            mean += difference * weights[i] / total
            sse += weights[i] * difference * (x[i] - mean)
            if size < k:
                continue
            for s in range(most + 1):
                if cost[i % width, s] + sse < cost[row, s]:
                    cost[row, s] = cost[i % width, s] + sse
                    size_of_last[j, s] = size
    return cost[n % width].copy(), size_of_last
