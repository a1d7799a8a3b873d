"""Macrocells: how records are routed to them, and the job description that all tasks share."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.dask.arrow import Batch
from microcell.dask.first_pass import Embedding, Key
from microcell.dask.limits import Distribution
from microcell.dask.people import some_persons
from microcell.model import Floats, Integers, Schema

__all__ = [
    "Job",
    "Macrocell",
    "Routing",
    "Tree",
    "grow_tree",
    "load_job",
    "make_macrocells",
    "make_routing",
    "save_job",
]

_MIN_SAMPLE = 20
"""Minimum number of sampled records per leaf."""

_MIN_GROUP = 8
"""Minimum number of sampled records at a node for a group to have its own cut."""

_NO_ROWS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of hyperplanes.

    At a node, records whose projection on the node's axis is below its cut go left, others right.
    Records exactly on the cut go left with the probability in ``ties``, so that equal records can
    be divided too. ``children`` are node numbers, or -1 - leaf. Cuts and ties have a column per
    group of records, so that every leaf can have the same share of each group.
    """

    axes: Floats
    cuts: Floats
    ties: Floats
    children: Integers

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return len(self.cuts) + 1

    def route(self, points: Floats, uniforms: Floats, groups: Integers | None = None) -> Integers:
        """Return the leaf of each point, in O(n m) time per level of the tree.

        ``uniforms`` are random numbers in [0, 1), one per point, that decide ties.
        """
        groups = np.zeros(len(points), dtype=np.int64) if groups is None else groups
        leaves, uniforms = np.zeros(len(points), dtype=np.int64), uniforms.copy()
        pending: list[tuple[int, Integers]] = (
            [(0, np.arange(len(points)))] if len(self.cuts) else []
        )
        while pending:
            node, rows = pending.pop()
            positions = project(points[rows], self.axes[node])
            cut, share = self.cuts[node, groups[rows]], self.ties[node, groups[rows]]
            on_cut, low = positions == cut, uniforms[rows] < share
            left = (positions < cut) | (on_cut & low)
            # Rescaling a used random number makes it uniform again for the next node.
            for part, start, width in (
                (on_cut & low, 0.0 * share, share),
                (on_cut & ~low, share, 1 - share),
            ):
                uniforms[rows[part]] = (uniforms[rows[part]] - start[part]) / width[part]
            for child, child_rows in zip(
                self.children[node].tolist(), (rows[left], rows[~left]), strict=True
            ):
                if child < 0:
                    leaves[child_rows] = -1 - child
                elif len(child_rows):
                    pending.append((child, child_rows))
        return leaves


@dataclass(frozen=True, eq=False)
class Routing:
    """Trees of all strata, with leaves numbered consecutively."""

    trees: tuple[Tree, ...]

    @property
    def first(self) -> tuple[int, ...]:
        """Number of the first leaf of each tree, followed by the total number of leaves."""
        return tuple(accumulate((tree.leaves for tree in self.trees), initial=0))

    def route(
        self,
        points: Floats,
        strata: Integers,
        uniforms: NDArray[np.float64],
        groups: Integers | None = None,
    ) -> Integers:
        """Return the leaf of each point, given its stratum and group."""
        first, leaves = self.first, np.empty(len(points), dtype=np.int64)
        for stratum, rows in _rows_by_stratum(strata):
            some = None if groups is None else groups[rows]
            tree = self.trees[stratum]
            leaves[rows] = first[stratum] + tree.route(points[rows], uniforms[rows], some)
        return leaves


def _rows_by_stratum(strata: Integers) -> list[tuple[int, Integers]]:
    """Return the strata that have rows, with the rows of each."""
    order = np.argsort(strata, kind="stable")
    present, starts = np.unique(strata[order], return_index=True)
    if len(present) == 0:
        return []
    return list(zip(present.tolist(), np.split(order, starts[1:]), strict=True))


def project(points: Floats, axis: Floats) -> Floats:
    """Return the positions of points along an axis.

    Sums in a fixed order, because a matrix product may differ between machines.
    """
    positions = np.zeros(len(points))
    for j, factor in enumerate(axis.tolist()):
        positions += points[:, j] * factor
    return positions


def grow_tree(
    sample: Floats,
    leaves: int,
    rng: np.random.Generator | None = None,
    groups: Integers | None = None,
    n_groups: int = 1,
) -> Tree:
    """Return a tree whose leaves have about equal shares of the sample and of each of its groups.

    Splits along principal axes, or along random directions if ``rng`` is given.

    Examples
    --------
    >>> tree = grow_tree(np.arange(8.0)[:, np.newaxis], 4)
    >>> np.sort(tree.route(np.array([[0.0], [2.5], [5.0], [100.0]]), np.zeros(4)))
    array([0, 1, 2, 3])
    """
    m, nodes = sample.shape[1], leaves - 1
    axes, cuts, ties = (
        np.zeros((nodes, m)),
        np.zeros((nodes, n_groups)),
        np.zeros((nodes, n_groups)),
    )
    children = np.zeros((nodes, 2), dtype=np.int64)
    next_node = next_leaf = 0
    pending = [(np.arange(len(sample)), leaves, -1, 0)]
    while pending:
        rows, count, parent, side = pending.pop()
        if parent >= 0:
            children[parent, side] = next_node if count > 1 else -1 - next_leaf
        if count == 1:
            next_leaf += 1
            continue
        node = next_node
        next_node += 1
        axes[node] = _principal_axis(sample[rows]) if rng is None else rng.normal(size=m)
        positions = project(sample[rows], axes[node])
        half = count // 2
        left, right, cuts[node], ties[node] = _cut(positions, half, count)
        if groups is not None:
            left, right = _cut_groups(positions, half, count, groups[rows], cuts[node], ties[node])
        pending.append((rows[right], count - half, node, 1))
        # Pushed last, so taken first: leaves are numbered from left to right.
        pending.append((rows[left], half, node, 0))
    return Tree(axes, cuts, ties, children)


def _cut(positions: Floats, half: int, count: int) -> tuple[Integers, Integers, float, float]:
    """Cut at the quantile ``half / count``: return the points of both sides, the cut, its tie."""
    order = np.argsort(positions, kind="stable")
    before = len(positions) * half // count
    cut = positions[order[min(before, len(positions) - 1)]] if len(positions) else 0.0
    on_cut = np.count_nonzero(positions == cut)
    below = np.count_nonzero(positions < cut)
    tie = (before - below) / on_cut if on_cut else half / count
    return order[:before], order[before:], float(cut), tie


def _cut_groups(
    positions: Floats, half: int, count: int, groups: Integers, cuts: Floats, ties: Floats
) -> tuple[Integers, Integers]:
    """Cut each group at its own place (OUT: ``cuts``, ``ties``); rare groups keep the common cut.

    Returns the places on the left and on the right.
    """
    is_left = positions < cuts[groups]
    for group, places in _rows_by_stratum(groups):
        if len(places) >= _MIN_GROUP:
            left, _, cuts[group], ties[group] = _cut(positions[places], half, count)
            is_left[places] = False
            is_left[places[left]] = True
    return np.flatnonzero(is_left), np.flatnonzero(~is_left)


def _principal_axis(points: Floats) -> Floats:
    if points.shape[1] == 0 or len(points) == 0:
        return np.zeros(points.shape[1])
    centred = points - points.mean(axis=0)
    axis: Floats = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    return axis


def make_routing(
    points: Floats,
    strata: Integers,
    sizes: Sequence[int],
    rows: int,
    rng: np.random.Generator | None = None,
    groups: Integers | None = None,
    n_groups: int = 1,
) -> Routing:
    """Grow trees with leaves of about ``rows`` records from a sample of all strata.

    With ``groups``, every leaf has about the same share of each group of its stratum.
    """
    trees, rows_of = [], dict(_rows_by_stratum(strata))
    for number, size in enumerate(sizes):
        chosen = rows_of.get(number, _NO_ROWS)
        sample, some = points[chosen], None if groups is None else groups[chosen]
        leaves = max(1, min(round(size / rows), len(sample) // _MIN_SAMPLE))
        trees.append(grow_tree(sample, leaves, rng, some, n_groups))
    return Routing(tuple(trees))


def make_macrocells(
    counts: Sequence[int],
    first: Sequence[int],
    least: int,
    rows: int,
    *,
    people: Mapping[int, Integers] | None = None,
    k: int = 0,
) -> tuple[tuple[int, ...], ...]:
    """Group leaves into macrocells, given the records per leaf and the first leaf per stratum.

    A leaf of fewer than ``least`` records joins its neighbour in the same stratum. With ``people``
    (some persons of each leaf), so does a leaf of fewer than k persons. Small strata share
    macrocells of up to ``rows`` records. Empty leaves are left out.

    Examples
    --------
    >>> make_macrocells([50, 3, 60, 9, 8], [0, 3, 4, 5], least=10, rows=50)
    ((0, 1), (2,), (3, 4))
    """
    groups: list[list[int]] = []
    for start, end in pairwise(first):
        leaves = [leaf for leaf in range(start, end) if counts[leaf]]
        merged = _merge_small(leaves, counts, least)
        groups += merged if people is None else _merge_short(merged, people, k)
    packed: list[list[int]] = []
    room = 0
    for group in groups:
        size = sum(counts[leaf] for leaf in group)
        if packed and size <= room:
            packed[-1] += group
            room -= size
        else:
            packed.append(list(group))
            room = rows - size
    return tuple(map(tuple, packed))


def _merge_small(leaves: Sequence[int], counts: Sequence[int], least: int) -> list[list[int]]:
    merged: list[list[int]] = []
    for leaf in leaves:
        if merged and min(counts[leaf], sum(counts[other] for other in merged[-1])) < least:
            merged[-1].append(leaf)
        else:
            merged.append([leaf])
    return merged


def _merge_short(
    groups: Sequence[list[int]], people: Mapping[int, Integers], k: int
) -> list[list[int]]:
    """Join a group of leaves to the one before if either has fewer than k persons."""
    merged: list[list[int]] = []
    persons: list[Integers] = []
    for group in groups:
        some = some_persons(np.concatenate([people[leaf] for leaf in group]), k)
        if merged and min(len(some), len(persons[-1])) < k:
            merged[-1] += group
            persons[-1] = some_persons(np.concatenate([persons[-1], some]), k)
        else:
            merged.append(list(group))
            persons.append(some)
    return merged


@dataclass(frozen=True, eq=False)
class Job:
    """Everything that the tasks of a release need to know.

    Stored in a file that every worker reads once. ``columns`` is the Arrow schema of the columns
    that are read: those to be published, and those that identify persons. ``dependence`` is
    the weight of confidential columns.
    ``embedding`` maps records to points, and ``strata`` numbers the strata. ``routings`` lead to
    the macrocells of each round. ``label`` and ``person`` are the names of the columns that carry
    cell labels and digests of persons between rounds. ``order_key`` is the secret key of the row
    order, ``person_key`` that of the digests. ``rows`` is the number of records to release,
    ``work`` the temporary directory, ``target`` that of the release. ``limits`` are the limits on
    cells, and ``distribution`` is that of the columns that they concern.
    """

    schema: Schema
    columns: Any
    k: int
    seed: int
    order_key: str
    missing: str
    dependence: float
    method: str
    options: Mapping[str, Any]
    work: Path
    target: Path
    suffix: str
    label: str
    person: str
    person_key: bytes
    embedding: Embedding = Embedding()  # noqa: RUF009
    strata: Mapping[Key, int] | None = None
    routings: tuple[Routing, ...] = ()
    rows: int = 0
    limits: Mapping[str, float] = field(default_factory=dict)
    distribution: Distribution | None = None


@dataclass(frozen=True)
class Macrocell:
    """Rows that one task partitions into cells, as batches of intermediate files."""

    number: int
    round: int
    batches: tuple[Batch, ...]


def save_job(job: Job, name: str) -> Path:
    """Write the job to a file; the name must be new, because workers cache files."""
    path = job.work / f"{name}.job"
    path.write_bytes(pickle.dumps(job))
    return path


@lru_cache(maxsize=2)
def load_job(path: Path) -> Job:
    """Read a job written by :func:`save_job`."""
    job: Job = pickle.loads(path.read_bytes())
    return job
