"""Group columns into blocks: by their association, or to lower a measure of all columns."""

from collections.abc import Callable
from itertools import combinations

import numpy as np

from microcell.model import Floats

__all__ = ["Blocks", "exchange_columns", "group_columns"]

Blocks = tuple[tuple[int, ...], ...]


def group_columns(association: Floats, size: int) -> Blocks:
    """Return blocks of at most ``size`` columns that are as strongly associated as possible.

    The number of blocks is the minimum. Starting from single columns, the two blocks with the
    largest mean association are joined, as long as the others still fit into that number.

    Examples
    --------
    >>> group_columns(np.array([[1, 0.1, 0.9], [0.1, 1, 0.2], [0.9, 0.2, 1]]), 2)
    ((0, 2), (1,))
    """
    count = len(association)
    blocks: list[tuple[int, ...]] = [(place,) for place in range(count)]
    while len(blocks) > -(-count // size):
        pairs = [
            pair
            for pair in combinations(blocks, 2)
            if len(pair[0]) + len(pair[1]) <= size and _fits(_joined(blocks, pair), size, count)
        ]
        if not pairs:
            break
        best = max(pairs, key=lambda pair: float(association[np.ix_(*pair)].mean()))
        blocks = _joined(blocks, best)
    return tuple(sorted(tuple(sorted(block)) for block in blocks))


def exchange_columns(blocks: Blocks, measure: Callable[[Blocks], float]) -> Blocks:
    """Exchange columns of different blocks while that lowers the measure of the blocks.

    Examples
    --------
    >>> exchange_columns(((0, 1), (2, 3)), lambda blocks: abs(sum(blocks[0]) - 3))
    ((0, 3), (1, 2))
    """
    best, value = blocks, measure(blocks)
    while True:
        trials = {_exchanged(best, i, j) for a, b in combinations(best, 2) for i in a for j in b}
        candidate = min(
            ((measure(trial), trial) for trial in sorted(trials)), default=(value, best)
        )
        if not candidate[0] < value:
            return best
        value, best = candidate


def _joined(
    blocks: list[tuple[int, ...]], pair: tuple[tuple[int, ...], ...]
) -> list[tuple[int, ...]]:
    return [block for block in blocks if block not in pair] + [pair[0] + pair[1]]


def _fits(blocks: list[tuple[int, ...]], size: int, count: int) -> bool:
    """Return whether the blocks can still be joined to as few as possible (first fit)."""
    rooms: list[int] = []
    for length in sorted(map(len, blocks), reverse=True):
        place = next((i for i, room in enumerate(rooms) if room >= length), None)
        if place is None:
            rooms.append(size - length)
        else:
            rooms[place] -= length
    return len(rooms) <= -(-count // size)


def _exchanged(blocks: Blocks, i: int, j: int) -> Blocks:
    swap = {i: j, j: i}
    moved = (tuple(sorted(swap.get(place, place) for place in block)) for block in blocks)
    return tuple(sorted(moved))
