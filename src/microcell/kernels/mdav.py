"""The rounds of MDAV, with cells of fixed size or cells that grow to a failure limit."""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers
from microcell.kernels.participation import least_enough
from microcell.kernels.scans import Points, Scratch, put_back, read_point, scan, take_out

__all__ = [
    "EXHAUSTED",
    "FIRST",
    "SHORT",
    "People",
    "Running",
    "assign",
    "grow_cells",
    "grow_cells_of_persons",
    "make_people",
    "make_running",
    "mdav_rounds",
    "weight_scale",
]


_FADED = 2.0**-24
"""The sums are computed again when less than this share of their weight remains: after subtracting
much larger weights, mostly rounding errors would be left.
"""


class Running(NamedTuple):
    """Weighted sums over the remaining records; ``errors`` are the rounding errors of ``sums``."""

    weights: Floats
    sums: Floats
    errors: Floats
    total: Floats
    base: Floats
    """(2,): the total when the sums were computed, and the power of two that scales the weights."""


def make_running(X: Floats, weights: Floats) -> Running:
    """Return the sums over all records."""
    scale = weight_scale(float(weights.max(initial=1.0)))
    total = float((weights * scale).sum())
    running = Running(
        weights,
        np.zeros(X.shape[1]),
        np.zeros(X.shape[1]),
        np.array([total]),
        np.array([total, scale]),
    )
    _weigh_all(running, X)
    return running


@kernel
def weight_scale(largest: float) -> float:
    """Return the power of two that scales the largest weight to about 1, which is exact."""
    return 2.0 ** min(max(-np.floor(np.log2(largest)), -1000.0), 1000.0)  # type: ignore[no-any-return]


@inner_kernel
def _weigh(sums: Floats, errors: Floats, values: Floats, weight: float) -> None:
    """Add ``weight`` times a record to the sums, with compensated rounding (OUT: both arrays)."""
    for j in range(len(sums)):
        term = weight * values[j]
        total = sums[j] + term
        if abs(sums[j]) >= abs(term):
            errors[j] += (sums[j] - total) + term
        else:
            errors[j] += (term - total) + sums[j]
        sums[j] = total


@kernel
def _weigh_all(running: Running, X: Floats) -> None:
    for i in range(len(X)):
        _weigh(running.sums, running.errors, X[i], running.weights[i] * running.base[1])


@inner_kernel
def _sum_again(points: Points, running: Running) -> None:
    """Compute the sums of the remaining records from scratch (OUT: ``running``)."""
    largest = 0.0
    for i in range(points.left[0]):
        largest = max(largest, running.weights[points.rows[i]])
    scale = weight_scale(largest)
    running.sums[:] = 0.0
    running.errors[:] = 0.0
    running.total[0] = 0.0
    values = np.empty(points.blocks.shape[1])
    for i in range(points.left[0]):
        row = points.rows[i]
        read_point(points, row, values)
        _weigh(running.sums, running.errors, values, running.weights[row] * scale)
        running.total[0] += running.weights[row] * scale
    running.base[0], running.base[1] = running.total[0], scale


@inner_kernel
def _read_mean(points: Points, running: Running, mean: Floats) -> None:
    """Compute the mean of the remaining records (OUT: ``mean``, ``running``)."""
    if not running.total[0] > _FADED * running.base[0]:
        _sum_again(points, running)
    for j in range(len(mean)):
        mean[j] = (running.sums[j] + running.errors[j]) / running.total[0]


@inner_kernel
def assign(points: Points, row: int, label: int, labels: Integers, running: Running) -> None:
    """Assign a remaining record to a cell and update the mean of the rest (OUT: all arrays)."""
    values = np.empty(points.blocks.shape[1])
    read_point(points, row, values)
    weight = running.weights[row] * running.base[1]
    _weigh(running.sums, running.errors, values, -weight)
    running.total[0] -= weight
    labels[row] = label
    take_out(points, row)


@inner_kernel
def _cell_around(
    points: Points,
    row: int,
    target: Floats,
    k: int,
    label: int,
    labels: Integers,
    running: Running,
    scratch: Scratch,
) -> int:
    """Form a cell of the record and its ``k - 1`` nearest; return the record farthest from it."""
    assign(points, row, label, labels, running)
    farthest = scan(points, target, scratch, k - 1)
    for i in range(k - 1):
        assign(points, scratch.rows[0, i], label, labels, running)
    return farthest


@kernel
def mdav_rounds(
    points: Points,
    k: int,
    rounds: int,
    label: int,
    labels: Integers,
    running: Running,
    scratch: Scratch,
) -> int:
    """Run up to ``rounds`` rounds while at least 3k records remain (OUT: all arrays).

    Returns the next free label. A round takes three scans: farthest from the mean, then the two
    cells. O(n m) time per round.
    """
    m = points.blocks.shape[1]
    mean, target, second = np.empty(m), np.empty(m), np.empty(m)
    for _ in range(rounds):
        if points.left[0] < 3 * k:
            break
        _read_mean(points, running, mean)
        r = scan(points, mean, scratch, ZERO)
        read_point(points, r, target)
        s = _cell_around(points, r, target, k, label, labels, running, scratch)
        if points.places[s] < 0:  # already in the first cell, as few distinct records remain
            s = scan(points, target, scratch, ZERO)
        read_point(points, s, second)
        _cell_around(points, s, second, k, label + 1, labels, running, scratch)
        label += 2
    return label


FIRST = -1
"""Placeholder for a reference record that is the one farthest from the mean."""

SHORT, EXHAUSTED = -2, -3
"""Reasons for stopping: the scratch is too small for the next cell, or too few records remain for
it.
"""


@kernel
def grow_cells(
    points: Points,
    k: int,
    limit: float,
    rounds: int,
    progress: Integers,
    labels: Integers,
    running: Running,
    scratch: Scratch,
) -> int:
    """Make up to ``rounds`` cells that meet the failure limit (OUT: all arrays).

    Returns 0, or the reason for stopping early: ``SHORT`` or ``EXHAUSTED``. ``progress`` holds the
    next free label and the next reference record, which is by turns r, the record farthest from the
    mean of the remaining ones, and the one farthest from r. A cell takes the records nearest to its
    reference, in order, until it has k and fails with probability at most ``limit``; participation
    is the weights of ``running``. O(n m) per cell.
    """
    m = points.blocks.shape[1]
    mean, target = np.empty(m), np.empty(m)
    for _ in range(rounds):
        if points.left[0] == 0:
            return EXHAUSTED
        row = progress[1]
        if row == FIRST:
            _read_mean(points, running, mean)
            row = scan(points, mean, scratch, ZERO)
        read_point(points, row, target)
        farthest = _grow(points, k, limit, row, target, progress[0], labels, running, scratch)
        if farthest < FIRST:
            return farthest
        progress[0] += 1
        if progress[1] != FIRST or points.left[0] == 0:
            progress[1] = FIRST
        elif points.places[farthest] < 0:  # already in the cell, as few distinct records remain
            progress[1] = scan(points, target, scratch, ZERO)
        else:
            progress[1] = farthest
    return 0


@inner_kernel
def _grow(
    points: Points,
    k: int,
    limit: float,
    row: int,
    target: Floats,
    label: int,
    labels: Integers,
    running: Running,
    scratch: Scratch,
) -> int:
    """Form a cell of the record and its nearest; return the farthest, or why there is no cell."""
    nearest, farthest = _nearest_in_order(points, row, target, scratch)
    probabilities = np.empty(len(nearest) + 1)
    probabilities[0] = running.weights[row]
    for i in range(len(nearest)):
        probabilities[i + 1] = running.weights[nearest[i]]
    size = least_enough(probabilities, k, limit)
    if size < 0:
        return SHORT if points.left[0] > len(nearest) + 1 else EXHAUSTED
    assign(points, row, label, labels, running)
    for i in range(size - 1):
        assign(points, nearest[i], label, labels, running)
    return farthest if farthest >= 0 else row


@inner_kernel
def _nearest_in_order(
    points: Points, row: int, target: Floats, scratch: Scratch
) -> tuple[Integers, int]:
    """Return as many of the records nearest to a record as the scratch holds, and the farthest."""
    count = min(scratch.rows.shape[1], points.left[0] - 1)
    take_out(points, row)
    farthest = scan(points, target, scratch, count)
    put_back(points, row, target)
    nearest, distances = scratch.rows[0, :count], scratch.distances[0, :count]
    by_row = np.argsort(nearest)
    return nearest[by_row[np.argsort(distances[by_row], kind="mergesort")]], farthest


class People(NamedTuple):
    """The person of each record, and how many of each person's records remain."""

    persons: Integers
    left: Integers
    """(P,): remaining records of each person."""
    remaining: Integers
    """(1,): number of persons with a remaining record."""
    seen: Integers
    """(P,): scratch. The last count in which the person was seen."""
    turn: Integers
    """(1,): scratch. Number of counts so far."""


def make_people(persons: Integers) -> People:
    """Return the persons of the records, all of which remain."""
    left = np.bincount(persons).astype(np.int64)
    remaining = np.array([int((left > 0).sum())])
    return People(persons, left, remaining, np.zeros_like(left), np.zeros(1, dtype=np.int64))


@kernel
def grow_cells_of_persons(
    points: Points,
    people: People,
    k: int,
    rounds: int,
    progress: Integers,
    labels: Integers,
    running: Running,
    scratch: Scratch,
) -> int:
    """Make up to ``rounds`` cells of k distinct persons each (OUT: all arrays).

    Like :func:`grow_cells`: a cell takes the records nearest to its reference, in order, until it
    has k distinct persons. The last cell takes all remaining records, as soon as another cell would
    leave fewer than k persons. With one record per person these are the cells of MDAV.
    """
    m = points.blocks.shape[1]
    mean, target = np.empty(m), np.empty(m)
    for _ in range(rounds):
        if points.left[0] == 0:
            return EXHAUSTED
        row = progress[1]
        if row == FIRST:
            _read_mean(points, running, mean)
            row = scan(points, mean, scratch, ZERO)
        read_point(points, row, target)
        nearest, farthest = _nearest_in_order(points, row, target, scratch)
        size, persons_left = _count_until(people, row, nearest, k)
        if size < 0 and points.left[0] > len(nearest) + 1:
            return SHORT
        label = progress[0]
        progress[0] += 1
        if size < 0 or persons_left < k:
            while points.left[0] > 0:
                _assign_person(points, people, points.rows[0], label, labels, running)
            return EXHAUSTED
        _assign_person(points, people, row, label, labels, running)
        for i in range(size - 1):
            _assign_person(points, people, nearest[i], label, labels, running)
        if progress[1] != FIRST:
            progress[1] = FIRST
        elif farthest < 0 or points.places[farthest] < 0:
            progress[1] = scan(points, target, scratch, ZERO)
        else:
            progress[1] = farthest
    return 0


@inner_kernel
def _count_until(people: People, row: int, nearest: Integers, k: int) -> tuple[int, int]:
    """Return how many of the nearest records have k persons, and the number of persons left then.

    The size is -1 if the nearest records have fewer than k persons.
    """
    people.turn[0] += 1
    distinct, size, position = 0, -1, 0
    while size < 0 and position <= len(nearest):
        person = people.persons[row if position == 0 else nearest[position - 1]]
        if people.seen[person] != people.turn[0]:
            people.seen[person] = people.turn[0]
            distinct += 1
        position += 1
        if distinct == k:
            size = position
    gone = 0
    for i in range(size):
        person = people.persons[row if i == 0 else nearest[i - 1]]
        people.left[person] -= 1
        gone += people.left[person] == 0
    for i in range(size):
        people.left[people.persons[row if i == 0 else nearest[i - 1]]] += 1
    return size, people.remaining[0] - gone


@inner_kernel
def _assign_person(
    points: Points, people: People, row: int, label: int, labels: Integers, running: Running
) -> None:
    person = people.persons[row]
    people.left[person] -= 1
    if people.left[person] == 0:
        people.remaining[0] -= 1
    assign(points, row, label, labels, running)
