"""What all tasks of a release need to know, kept in a file of the job's own folder that every worker reads once."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.dask.first_pass import Design, Key
from microcell.model import Floats, Integers, Schema

__all__ = [
    "Job",
    "Macrocell",
    "Routing",
    "Run",
    "Tree",
    "grow",
    "load_job",
    "make_macrocells",
    "make_routing",
    "save_job",
]

_LEAST_SAMPLE = 20
"""Records of the sample that a leaf must have to be worth a hyperplane."""

_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of hyperplanes. At a node, records before the ``cut`` along its ``axis`` go left, those after it right.

    Records that lie on the cut go left by chance, as often as ``ties`` says, so that equal records can be shared out
    too. ``children`` are nodes, or -1 - leaf.
    """

    axes: Floats
    cuts: Floats
    ties: Floats
    children: Integers

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return len(self.cuts) + 1

    def route(self, points: Floats, chance: Floats) -> Integers:
        """The leaf of each point, given a number in [0, 1) for each. O(n m) time for each level of the tree."""
        out, chance = np.zeros(len(points), dtype=np.int64), chance.copy()
        waiting: list[tuple[int, Integers]] = (
            [(0, np.arange(len(points)))] if len(self.cuts) else []
        )
        while waiting:
            node, rows = waiting.pop()
            places = along(points[rows], self.axes[node])
            cut, share = self.cuts[node], self.ties[node]
            on_cut, low = places == cut, chance[rows] < share
            left = (places < cut) | (on_cut & low)
            # What is left of a chance that was used is a chance again, for the next node.
            for part, start, width in (
                (on_cut & low, 0.0, share),
                (on_cut & ~low, share, 1 - share),
            ):
                chance[rows[part]] = (chance[rows[part]] - start) / width
            for child, own in zip(
                self.children[node].tolist(), (rows[left], rows[~left]), strict=True
            ):
                if child < 0:
                    out[own] = -1 - child
                elif len(own):
                    waiting.append((child, own))
        return out


@dataclass(frozen=True, eq=False)
class Routing:
    """The trees of all strata; their leaves are numbered through."""

    trees: tuple[Tree, ...]

    @property
    def first(self) -> tuple[int, ...]:
        """The number of the first leaf of each tree, and then the number of leaves."""
        return tuple(accumulate((tree.leaves for tree in self.trees), initial=0))

    def route(self, points: Floats, strata: Integers, chance: NDArray[np.float64]) -> Integers:
        """The leaf of each point of those strata."""
        first, out = self.first, np.empty(len(points), dtype=np.int64)
        for stratum, rows in _by_stratum(strata):
            out[rows] = first[stratum] + self.trees[stratum].route(points[rows], chance[rows])
        return out


def _by_stratum(strata: Integers) -> list[tuple[int, Integers]]:
    """The strata that have rows, and the rows of each; one sort, however many strata there are."""
    order = np.argsort(strata, kind="stable")
    found, starts = np.unique(strata[order], return_index=True)
    return list(zip(found.tolist(), np.split(order, starts[1:]), strict=True)) if len(found) else []


def along(points: Floats, axis: Floats) -> Floats:
    """The places of points along an axis, summed in order: a matrix product would depend on the machine."""
    out = np.zeros(len(points))
    for j, factor in enumerate(axis.tolist()):
        out += points[:, j] * factor
    return out


def grow(sample: Floats, leaves: int, chance: np.random.Generator | None = None) -> Tree:
    """A tree of so many leaves, of about equal shares of the sample: across principal axes, or random directions.

    Examples
    --------
    >>> tree = grow(np.arange(8.0)[:, np.newaxis], 4)
    >>> np.sort(tree.route(np.array([[0.0], [2.5], [5.0], [100.0]]), np.zeros(4)))
    array([0, 1, 2, 3])
    """
    m, nodes = sample.shape[1], leaves - 1
    axes, cuts, ties = np.zeros((nodes, m)), np.zeros(nodes), np.zeros(nodes)
    children = np.zeros((nodes, 2), dtype=np.int64)
    given, named = 0, 0
    waiting = [(np.arange(len(sample)), leaves, -1, 0)]
    while waiting:
        rows, wanted, parent, side = waiting.pop()
        if parent >= 0:
            children[parent, side] = given if wanted > 1 else -1 - named
        if wanted == 1:
            named += 1
            continue
        node, given = given, given + 1
        axes[node] = _principal_axis(sample[rows]) if chance is None else chance.normal(size=m)
        places = along(sample[rows], axes[node])
        order = np.argsort(places, kind="stable")
        half = wanted // 2
        before = len(rows) * half // wanted
        cuts[node] = places[order[min(before, len(rows) - 1)]] if len(rows) else 0.0
        on_cut = np.count_nonzero(places == cuts[node])
        ties[node] = (
            (before - np.count_nonzero(places < cuts[node])) / on_cut if on_cut else half / wanted
        )
        waiting.append((rows[order[before:]], wanted - half, node, 1))
        waiting.append(
            (rows[order[:before]], half, node, 0)
        )  # taken first: leaves are numbered from left to right
    return Tree(axes, cuts, ties, children)


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
    chance: np.random.Generator | None = None,
) -> Routing:
    """Trees for strata of those sizes, from a sample of their records, with leaves of about so many rows."""
    trees, rows_of = [], dict(_by_stratum(strata))
    for number, size in enumerate(sizes):
        own = points[rows_of.get(number, _NONE)]
        trees.append(grow(own, max(1, min(round(size / rows), len(own) // _LEAST_SAMPLE)), chance))
    return Routing(tuple(trees))


def make_macrocells(
    counts: Sequence[int], first: Sequence[int], least: int, rows: int
) -> tuple[tuple[int, ...], ...]:
    """The leaves of each macrocell, given the number of records in each leaf and the first leaf of each stratum.

    A leaf of fewer than ``least`` records joins the one before it in its stratum, or the one after it; small strata
    are taken together to macrocells of up to so many ``rows``. Leaves without a record are left out.

    Examples
    --------
    >>> make_macrocells([50, 3, 60, 9, 8], [0, 3, 4, 5], least=10, rows=50)
    ((0, 1), (2,), (3, 4))
    """
    groups: list[list[int]] = []
    for start, end in pairwise(first):
        groups += _merge_small([leaf for leaf in range(start, end) if counts[leaf]], counts, least)
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


@dataclass(frozen=True, eq=False)
class Job:
    """How a data set is made k-anonymous.

    ``columns`` is the Arrow schema of what is read: columns that are not published are not. ``dependence`` is the
    weight of confidential columns that was asked for. The ``design`` makes records points; ``strata`` are numbered;
    ``routings`` lead to the macrocells of the first round and of each further one; ``label`` is the name of the column
    in which cells travel between rounds. ``work`` is the folder for what is under way, ``target`` that of the release
    to be.
    """

    schema: Schema
    columns: Any
    k: int
    seed: int
    missing: str
    dependence: float
    method: str
    options: Mapping[str, Any]
    work: Path
    target: Path
    suffix: str
    label: str
    design: Design = Design()  # noqa: RUF009
    strata: Mapping[Key, int] | None = None
    routings: tuple[Routing, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """Rows on their way: a batch of a file."""

    path: Path
    number: int


@dataclass(frozen=True)
class Macrocell:
    """The rows that one task divides into cells, by the runs that they come in."""

    number: int
    round: int
    runs: tuple[Run, ...]


def save_job(job: Job, name: str) -> Path:
    """The file that the job was written to, under a name that was not used before."""
    path = job.work / f"{name}.job"
    path.write_bytes(pickle.dumps(job))
    return path


@lru_cache(maxsize=2)
def load_job(path: Path) -> Job:
    """The job that :func:`save_job` wrote."""
    job: Job = pickle.loads(path.read_bytes())
    return job
