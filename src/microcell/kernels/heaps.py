"""A bounded heap of the nearest records, ordered by (distance, row number)."""

from microcell.kernels._arrays import Floats, Integers
from microcell.kernels._jit import inner_kernel

__all__ = ["offer"]


@inner_kernel
def offer(distances: Floats, rows: Integers, size: int, distance: float, row: int) -> int:
    """Offer one record to the heap (OUT: ``distances``, ``rows``, largest first); the new number of entries.

    A full heap drops its largest entry if the new one is smaller. O(log of the heap's length).
    """
    if size < len(distances):
        place = size
        size += 1
        while place > 0:  # sift up
            parent = (place - 1) // 2
            if distances[parent] > distance or (distances[parent] == distance and rows[parent] > row):
                break
            distances[place] = distances[parent]
            rows[place] = rows[parent]
            place = parent
    else:
        if size == 0 or distance > distances[0] or (distance == distances[0] and row > rows[0]):
            return size
        place = 0
        while True:  # sift down
            child = 2 * place + 1
            if child >= size:
                break
            right = child + 1
            if right < size and (
                distances[right] > distances[child]
                or (distances[right] == distances[child] and rows[right] > rows[child])
            ):
                child = right
            if distance > distances[child] or (distance == distances[child] and row > rows[child]):
                break
            distances[place] = distances[child]
            rows[place] = rows[child]
            place = child
    distances[place] = distance
    rows[place] = row
    return size
