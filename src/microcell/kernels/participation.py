"""How many of a cell's candidates take part: the distribution of a count, truncated to fewer than k.

With p(j) the probability that j of the candidates so far take part, one more, who does with probability q, turns p(j)
into (1 - q) p(j) + q p(j - 1). All terms are positive, so nothing cancels. An entry that underflows does not matter: no
later sum owes it more than its own size, so that all that is lost is under n k 5e-324, far below 1e-300.
"""

import numpy as np

from microcell.kernels._arrays import Floats, Integers
from microcell.kernels._jit import inner_kernel, kernel

__all__ = ["failures_of_cells", "figures", "join", "least_enough", "participant_failure"]

_BLOCK = 1024
"""Records between two distributions that are kept: memory stays small beside the table."""


@inner_kernel
def join(p: Floats, chance: float) -> None:
    """Count one more candidate (OUT: ``p``). O(k)."""
    rest = 1.0 - chance
    for j in range(len(p) - 1, 0, -1):
        p[j] = rest * p[j] + chance * p[j - 1]
    p[0] *= rest


@inner_kernel
def _nobody(k: int) -> Floats:
    """The distribution where there are no candidates yet."""
    p = np.zeros(k)
    p[0] = 1.0
    return p


@kernel
def least_enough(participation: Floats, k: int, limit: float) -> int:
    """The least n >= k for which the first n candidates fail with probability ``limit`` or less; -1 if there is none.

    O(n k) time, O(k) memory.
    """
    p = _nobody(k)
    for i in range(len(participation)):
        join(p, participation[i])
        if i + 1 >= k and p[1:].sum() <= limit:
            return i + 1
    return -1


@kernel
def figures(participation: Floats, k: int) -> tuple[float, float, bool]:
    """P{0 < K < k}; E[K; 0 < K < k]; and whether P{K = k-1} >= P{K = 0}.

    If the last holds, a further candidate cannot raise the first: it changes by q (P{K = 0} - P{K = k-1}), and the
    ratio of the two never falls.
    """
    p, total, moment = _nobody(k), 0.0, 0.0
    for i in range(len(participation)):
        join(p, participation[i])
    for j in range(1, k):
        total += p[j]
        moment += j * p[j]
    return total, moment, p[k - 1] >= p[0]


@kernel
def failures_of_cells(labels: Integers, participation: Floats, k: int) -> Floats:
    """P{0 < K < k} of every cell up to the greatest label; 0 for one that has no candidates. O(n k)."""
    count = labels.max() + 1 if len(labels) > 0 else 0
    ends = np.zeros(count + 1, dtype=np.int64)
    for label in labels:
        ends[label + 1] += 1
    ends = np.cumsum(ends)
    own, place = np.empty(len(labels)), ends[:-1].copy()
    for i in range(len(labels)):
        own[place[labels[i]]] = participation[i]
        place[labels[i]] += 1
    out, p = np.empty(count), np.empty(k)
    for cell in range(count):
        p[:] = 0.0
        p[0] = 1.0
        for i in range(ends[cell], ends[cell + 1]):
            join(p, own[i])
        out[cell] = p[1:].sum()
    return out


@kernel
def participant_failure(participation: Floats, k: int) -> float:
    """The mean over candidates of P{at most k-2 of the others take part}.

    From the distributions of those before and those after, never by dividing one out. O(n k) time; distributions of
    those after are kept once a block, and computed again within it.
    """
    n, entries = len(participation), k - 1
    blocks = -(-n // _BLOCK)
    kept, below = np.zeros((blocks, k)), np.zeros((min(n, _BLOCK), entries))
    after, before, total = _nobody(k), _nobody(k), 0.0
    for b in range(blocks - 1, -1, -1):
        kept[b] = after
        for i in range(min(n, (b + 1) * _BLOCK) - 1, b * _BLOCK - 1, -1):
            join(after, participation[i])
    for b in range(blocks):
        first, last = b * _BLOCK, min(n, (b + 1) * _BLOCK)
        after[:] = kept[b]
        for i in range(last - 1, first - 1, -1):
            so_far = 0.0
            for j in range(entries):  # back to front, so that it lies as those before do
                so_far += after[j]
                below[i - first, entries - 1 - j] = so_far
            join(after, participation[i])
        for i in range(first, last):
            for j in range(entries):
                total += before[j] * below[i - first, j]
            join(before, participation[i])
    return total / n
