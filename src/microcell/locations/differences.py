"""Differences between publications: which devices can be separated by subtracting published places.

A published place is the mean of the devices that were in its cell when the cell was built, its
*build*. At any time a device is part of at most one published build. Someone who subtracts the
places of one publication from those of another, weighted by size, learns a sum over devices. Let
the builds of both publications be nodes of a graph, with one more node for "outside", and each
device an edge between its build in the one and its build in the other. A difference then involves
at least the devices of a cut of the graph. A device that has moved in between is involved if any of
its builds is chosen, so it counts half for each side of the triangle of its two builds and
"outside". All differences involve at least a minimum number of devices if and only if no non-empty
cut is smaller than that.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from microcell._display import record_html, record_repr

__all__ = ["OUTSIDE", "Build", "Ledger", "has_small_cut"]

OUTSIDE = 0
"""Node of the devices that are in no build; ids of builds start at 1."""

Graph = dict[int, dict[int, int]]
"""Weights of edges by node and neighbour, in both directions."""


@dataclass(frozen=True)
class Build:
    """A cell at the time it was built; records how many devices it shares with earlier builds.

    Its place was published from generation ``born`` until before ``died``. ``overlaps`` counts the
    devices shared with each earlier build by its id, and under the negative id those that have
    moved since they were part of it.
    """

    id: int
    born: int
    size: int
    overlaps: Mapping[int, int] = field(default_factory=dict)
    died: int | None = None

    __repr__ = record_repr
    _repr_html_ = record_html

    def was_published(self, generation: int) -> bool:
        """Return True if the place was published in this generation."""
        return self.born <= generation and (self.died is None or generation < self.died)


@dataclass(frozen=True)
class Ledger:
    """All builds so far, from which differences between publications are computed."""

    builds: Mapping[int, Build] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Ledger({len(self.builds)} builds)"

    @property
    def standing(self) -> list[Build]:
        """Builds whose places are published now."""
        return [build for build in self.builds.values() if build.died is None]

    def changed(self, added: Iterable[Build], closed: Iterable[int], generation: int) -> "Ledger":
        """Return the ledger after a publication that adds and closes builds."""
        builds = dict(self.builds)
        for number in closed:
            builds[number] = replace(builds[number], died=generation)
        builds.update((build.id, build) for build in added)
        return Ledger(builds)

    def allows(self, added: Iterable[Build], closed: Iterable[int], minimum: int) -> bool:
        """Return True if all differences from earlier publications involve ``minimum`` devices.

        Only generations in which the published builds changed are compared; in between they are
        the same.
        """
        new, gone = list(added), set(closed)
        if any(build.size < minimum for build in new):
            return False
        now = [build for build in self.standing if build.id not in gone] + new
        ids = {build.id for build in new}
        return all(
            self._differs_enough(generation, now, ids, minimum)
            for generation in {build.born for build in self.builds.values()}
        )

    def _differs_enough(
        self, generation: int, now: list[Build], new: set[int], minimum: int
    ) -> bool:
        then = {
            build.id: build for build in self.builds.values() if build.was_published(generation)
        }
        graph = _overlap_graph(then, now)
        for component in _components(graph, new):
            part = {
                node: {other: w for other, w in graph[node].items() if other in component}
                for node in component
            }
            if has_small_cut(part, 2 * minimum):
                return False
        return True


def _overlap_graph(then: Mapping[int, Build], now: Iterable[Build]) -> Graph:
    """Return the graph of an earlier and the next publication, with twice the weights.

    A build in both is one node: a cut between its two halves would contain all its devices.
    """
    graph: Graph = defaultdict(dict)
    lost = {number: build.size for number, build in then.items()}
    for build in now:
        if build.id in then:
            lost[build.id] = 0
            continue
        left = build.size
        for number, count in build.overlaps.items():
            before = abs(number)
            if before not in then:
                continue
            lost[before] -= count
            left -= count
            if number > 0:
                _add_edge(graph, build.id, before, 2 * count)
            else:
                for one, other in ((build.id, before), (build.id, OUTSIDE), (before, OUTSIDE)):
                    _add_edge(graph, one, other, count)
        _add_edge(graph, build.id, OUTSIDE, 2 * left)
    for number, count in lost.items():
        _add_edge(graph, number, OUTSIDE, 2 * count)
    return graph


def _add_edge(graph: Graph, one: int, other: int, count: int) -> None:
    if count > 0:
        graph[one][other] = graph[one].get(other, 0) + count
        graph[other][one] = graph[other].get(one, 0) + count


def _components(graph: Graph, nodes: set[int]) -> list[set[int]]:
    """Return the connected components that contain any of the nodes."""
    components: list[set[int]] = []
    left = set(nodes)
    while left:
        reached = {left.pop()}
        queue = list(reached)
        while queue:
            for other in graph[queue.pop()]:
                if other not in reached:
                    reached.add(other)
                    queue.append(other)
        left -= reached
        components.append(reached)
    return components


def has_small_cut(graph: Mapping[int, Mapping[int, int]], minimum: int) -> bool:
    """Return True if a connected graph has a cut of less than ``minimum``.

    Contract edges that no small cut can separate, which are found by maximum adjacency orderings
    (Nagamochi and Ibaraki, 1992). The last node of an ordering is a cut by itself.

    Examples
    --------
    >>> has_small_cut({1: {2: 5, 3: 1}, 2: {1: 5}, 3: {1: 1}}, 2)
    True
    >>> has_small_cut({1: {2: 5, 3: 2}, 2: {1: 5}, 3: {1: 2}}, 2)
    False
    """
    nodes: Graph = {node: dict(edges) for node, edges in graph.items()}
    while len(nodes) > 1:
        order, adjacency = _adjacency_order(nodes)
        if adjacency[order[-1]] < minimum:
            return True
        parent = {node: node for node in nodes}
        seen: dict[int, int] = dict.fromkeys(nodes, 0)
        for node in order:
            for other, weight in nodes[node].items():
                if seen[other] < 0:
                    continue
                seen[other] += weight
                if seen[other] >= minimum:
                    parent[_find(parent, other)] = _find(parent, node)
            seen[node] = -1
        nodes = _contract(nodes, parent)
    return False


def _adjacency_order(nodes: Graph) -> tuple[list[int], dict[int, int]]:
    """Return the nodes in maximum adjacency order, and the adjacency of each to those before."""
    adjacency = dict.fromkeys(nodes, 0)
    heap = [(0, node) for node in nodes]
    heapq.heapify(heap)
    order: list[int] = []
    done: set[int] = set()
    while heap:
        _, node = heapq.heappop(heap)
        if node in done:
            continue
        done.add(node)
        order.append(node)
        for other, weight in nodes[node].items():
            if other not in done:
                adjacency[other] += weight
                heapq.heappush(heap, (-adjacency[other], other))
    return order, adjacency


def _find(parent: dict[int, int], node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


def _contract(nodes: Graph, parent: dict[int, int]) -> Graph:
    result: Graph = {_find(parent, node): {} for node in nodes}
    for node, edges in nodes.items():
        root = _find(parent, node)
        for other, weight in edges.items():
            end = _find(parent, other)
            if end != root:
                result[root][end] = result[root].get(end, 0) + weight
    return result
