"""Differences between publications: which devices can be separated by subtracting published places.

A published place is the mean of the devices that were in its cell when the cell was built, its
*build*. Someone who subtracts the places of one publication from those of another, weighted by
size, learns the sum over the devices in which the two sets of builds differ. Let the builds of both
publications be nodes of a graph and each device an edge between the build that holds it in the
earlier one and the build that holds it in the later one (or a node for those outside). Then every
such difference is a cut of the graph, and no difference concerns fewer than a minimum of devices if
and only if no cut is smaller, apart from empty ones.
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
    """A cell as it was built: never its devices, only how many it shares with earlier builds.

    ``born`` and ``died`` are the generations from which and until which its place was published.
    ``moved`` counts devices that had moved since they were last part of a build.
    """

    id: int
    born: int
    size: int
    moved: int = 0
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
        """Return True if every difference to an earlier publication has ``minimum`` devices.

        Generations between two changes of the published builds need not be compared: their builds
        are those of the change before.
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
            moved = sum(
                build.moved for build in now if build.id in component and build.id not in then
            )
            if 0 < moved < minimum and OUTSIDE not in component:
                return False
            part = {
                node: {other: w for other, w in graph[node].items() if other in component}
                for node in component
            }
            if has_small_cut(part, minimum):
                return False
        return True


def _overlap_graph(then: Mapping[int, Build], now: Iterable[Build]) -> Graph:
    """Return the graph of an earlier and the next publication; a standing build is one node."""
    graph: Graph = defaultdict(dict)
    lost = {number: build.size for number, build in then.items()}
    for build in now:
        if build.id in then:
            lost[build.id] = 0
            graph[build.id] = graph[build.id]
            continue
        left = build.size
        for number, count in build.overlaps.items():
            if number in then and count > 0:
                _add_edge(graph, build.id, number, count)
                lost[number] -= count
                left -= count
        _add_edge(graph, build.id, OUTSIDE, left)
    for number, count in lost.items():
        _add_edge(graph, number, OUTSIDE, count)
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

    Contracts edges that no small cut can separate, found by maximum adjacency orderings (Nagamochi
    and Ibaraki, 1992); the last node of an ordering is a cut by itself.

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
    """Return the nodes, each the one most adjacent to those before it, and that adjacency."""
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
