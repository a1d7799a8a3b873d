"""Enforce requirements on a release: by a search within the limits, and by merging cells.

Cells that already meet the limits are left unchanged. Otherwise the search of
:mod:`microcell.methods.constrained` competes with merging, in which a cell that violates a
requirement joins the neighbour with the lowest cost. Violations that the search leaves are merged,
too.

Except for ``delta_disclosure``, merging two cells never gives a worse value than the worse of the
two. So the requirements can be met if they are met when each stratum is a single cell, which is
checked before any cells are formed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, floor

import numpy as np

from microcell import methods, progress
from microcell._display import count as counted
from microcell.errors import RequirementError
from microcell.kernels import rules
from microcell.measures.classes import class_labels
from microcell.methods.merging import CellSums
from microcell.model import Encoded, Floats, Integers, Mask, Partition, Schema, Table
from microcell.release.requirements import (
    Points,
    Requirements,
    check_met,
    count_by_cell,
    failing_cells,
    least_size_of,
    missed_limits,
)

__all__ = [
    "AS_THEY_WERE",
    "MERGED",
    "Enforced",
    "Merged",
    "Searching",
    "as_rule",
    "enforce",
    "meet",
    "merge_cells",
    "repair_cells",
]

AS_THEY_WERE = "the cells already met the limits"
MERGED = "merged cells"
STRICTER = "the cells of a stricter limit"
"""Ways to meet the limits, for the manifest."""


@dataclass(frozen=True, eq=False)
class Merged:
    """Cells that meet the enforceable requirements.

    ``rounds`` is the number of rounds of merging, ``way`` how the cells were found.
    """

    partition: Partition
    rounds: int = 0
    way: str = AS_THEY_WERE


@dataclass(frozen=True, eq=False)
class Enforced:
    """Cells as in :class:`Merged`, with the table to publish, which also meets the limits."""

    partition: Partition
    rounds: int
    published: Table
    way: str = AS_THEY_WERE


def enforce(
    requirements: Requirements,
    partition: Partition,
    encoded: Encoded | Points,
    schema: Schema,
    publish: Callable[[Partition], Table],
    searching: "Searching | None" = None,
) -> Enforced:
    """Change cells until the table that ``publish`` builds from them meets the requirements.

    Without ``searching`` cells are only merged. Cells that publish the same values form one class
    of the table. If such a class misses a limit that its cells meet, which ``delta_disclosure``
    allows, the cells are merged and merging continues.

    Raises
    ------
    RequirementError
        Merging cannot meet the requirements.
    """
    merged = meet(requirements, partition, encoded, searching)
    rounds, way = 0, merged.way
    # Every turn that does not return merges at least two cells.
    for _ in range(len(partition)):
        rounds += merged.rounds
        published = publish(merged.partition)
        missed = missed_limits(published, schema, requirements.limits, requirements.persons)
        if not missed:
            return Enforced(merged.partition, rounds, published, way)
        classes = class_labels(published, schema.keys)
        if len(np.unique(classes)) >= len(merged.partition):
            break
        merged = merge_cells(requirements, merged.partition, encoded, together=classes)
    raise RequirementError(
        f"{' '.join(map(str, missed))} Nothing was released. This is a bug in microcell; please "
        "report it.",
        code="guarantee.requirement_not_met",
        measures=[check.measure.name for check in missed],
    )


_KINDS = {
    "l_diversity": rules.DISTINCT,
    "p_sensitivity": rules.DISTINCT,
    "l_entropy": rules.ENTROPY,
    "l_recursive": rules.RECURSIVE,
    "t_closeness": rules.CLOSENESS,
    "t_kullback": rules.DIVERGENCE,
    "delta_disclosure": rules.DISCLOSURE,
}
"""Measures of confidential columns that the search can limit in each cell."""


_UNITS = 1e12
"""The audit rounds measures to units of 1 / 1e12."""


@dataclass(frozen=True, eq=False)
class Searching:
    """How to search within limits: the points whose SSE counts, the random seed and the effort.

    ``again`` partitions the records for a larger k, if a limit requires that.
    """

    points: Floats
    seed: int
    effort: str | float = "balanced"
    again: Callable[[int], Partition] | None = None


def meet(
    requirements: Requirements,
    partition: Partition,
    encoded: Encoded | Points,
    searching: Searching | None = None,
    previous: Partition | None = None,
) -> Merged:
    """Return cells that meet the enforceable requirements, by searching or merging.

    ``previous`` are initial cells that meet them, such as those of stricter limits.

    Raises
    ------
    RequirementError
        Neither meets them.
    """
    failure = None
    ways = [] if previous is None else [Merged(previous, way=STRICTER)]
    try:
        merged = merge_cells(requirements, partition, encoded)
    except RequirementError as error:
        failure = error
    else:
        ways.append(merged)
    if searching is not None and not (ways and ways[-1].way == AS_THEY_WERE):
        starts = {item.way: item.partition for item in ways}
        searched = _search_cells(requirements, partition, starts, encoded.weights, searching)
        try:
            rest = merge_cells(requirements, searched.partition, encoded)
        except RequirementError as error:
            failure = failure or error
        else:
            merged_too = "" if rest.way == AS_THEY_WERE else ", then cells merged"
            ways.append(Merged(rest.partition, rest.rounds, searched.way + merged_too))
    if not ways:
        assert failure is not None
        raise failure
    points = encoded.matrix if searching is None else searching.points
    return min(
        ways,
        key=lambda item: methods.distortion(points, item.partition.labels, weights=encoded.weights),
    )


def _search_cells(
    requirements: Requirements,
    partition: Partition,
    others: Mapping[str, Partition],
    weights: Floats | None,
    searching: Searching,
) -> Merged:
    """Search within the limits, in each stratum whose cells exceed them."""
    n, k = len(partition.labels), partition.k
    persons, least = requirements.persons, max(k, least_size_of(requirements, n))
    rule = as_rule(requirements, n, least)
    if least > k and searching.again is not None:
        partition = searching.again(least)
    kept = _exempt_records(requirements, partition.labels)
    labels, used, most = partition.labels.copy(), "", 0
    for stratum in np.unique(requirements.strata):
        rows = np.flatnonzero((requirements.strata == stratum) & ~kept)
        if len(rows) < least:
            continue
        part = rules.take_rows(rule, rows)
        cells = methods.compact(labels[rows])
        starts = {}
        if np.bincount(cells).min() >= least:
            if not len(methods.broken_cells(cells, part)):
                continue
            starts["cells without limits"] = cells
        if not kept.any():
            starts |= {name: methods.compact(item.labels[rows]) for name, item in others.items()}
        effort = searching.effort
        share = effort if isinstance(effort, str) else float(effort) * len(rows) / n
        result = methods.search_within_limits(
            np.ascontiguousarray(searching.points[rows]),
            least,
            part,
            starts,
            methods.default_effort(len(rows), least, share),
            weights=None if weights is None else weights[rows],
            seed=searching.seed,
        )
        labels_found = result.labels
        if persons is not None:
            labels_found = methods.merge_short_cells(
                searching.points[rows], labels_found, least, _renumber(persons[rows]), None
            )
        labels[rows] = int(labels.max()) + 1 + labels_found
        if len(rows) > most:
            used, most = result.way, len(rows)
    used = used or f"cells of at least {counted(least, 'record')}"
    way = f"search within the limits, from {used}"
    reason = f"{partition.reason}, then a {way}"
    return Merged(replace(partition, labels=methods.compact(labels), k=k, reason=reason), way=way)


_NEIGHBOURS = (8, 40)
"""Number of cells around each one that exceeds limits that are searched with it; then all."""


def repair_cells(
    requirements: Requirements,
    labels: Integers,
    k: int,
    weights: Floats | None,
    searching: Searching,
    changed: Mask | None = None,
) -> Integers:
    """Search within the limits among the cells that exceed them, and the cells near these.

    ``changed`` marks records whose cells are searched as well. Cells that still exceed limits
    remain. Returns the labels; the other cells keep their records.
    """
    rule = as_rule(requirements, len(labels), k)
    out = labels.copy()
    for stratum in np.unique(requirements.strata):
        inside = np.flatnonzero(requirements.strata == stratum)
        touched = np.zeros(len(inside), dtype=np.bool_) if changed is None else changed[inside]
        for count in (*_NEIGHBOURS, len(inside)):
            cells = methods.compact(out[inside])
            broken = methods.broken_cells(cells, rules.take_rows(rule, inside))
            chosen = np.union1d(broken, cells[touched])
            if not len(chosen):
                break
            masses = np.ones(len(inside)) if weights is None else weights[inside]
            near = methods.neighbourhood(searching.points[inside], cells, masses, chosen, count)
            rows = inside[np.isin(cells, near)]
            found = _search_rows(requirements, rule, rows, out[rows], k, weights, searching)
            out[rows] = int(out.max()) + 1 + found
            touched = np.zeros(len(inside), dtype=np.bool_)
    return methods.compact(out)


def _search_rows(
    requirements: Requirements,
    rule: rules.Rule,
    rows: Integers,
    labels: Integers,
    k: int,
    weights: Floats | None,
    searching: Searching,
) -> Integers:
    """Return cells of some rows after a search within the limits that begins with their cells."""
    result = methods.search_within_limits(
        np.ascontiguousarray(searching.points[rows]),
        k,
        rules.take_rows(rule, rows),
        {"the cells so far": methods.compact(labels)},
        methods.default_effort(len(rows), k, searching.effort),
        weights=None if weights is None else weights[rows],
        seed=searching.seed,
    )
    if requirements.persons is None:
        return result.labels
    persons = _renumber(requirements.persons[rows])
    return methods.merge_short_cells(searching.points[rows], result.labels, k, persons, None)


def _renumber(codes: Integers) -> Integers:
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


def as_rule(requirements: Requirements, n: int, least: int) -> rules.Rule:
    """Return the limits on cells and on the persons in them as a rule for the search."""
    columns: dict[str, rules.Values] = {}
    for item in requirements.enforced:
        if item.column is None:
            continue
        column = item.column
        limits = columns.setdefault(
            column.name,
            rules.Values(
                column.codes,
                column.ordered,
                np.array([0.0] * 3 + [np.inf] * 3),
                None if column.totals is None else column.totals.astype(np.float64),
            ),
        ).limits
        kind = _KINDS.get(item.definition.name)
        if item.definition.per_class == "sum":
            limits[rules.DISTINCT] = max(limits[rules.DISTINCT], 2.0)
        elif kind is not None and item.definition.lower_is_better:
            # The largest value that the audit rounds to the limit or below.
            limits[kind] = min(limits[kind], (floor(item.limit * _UNITS) + 0.4) / _UNITS)
        elif kind is not None:
            limits[kind] = max(limits[kind], (ceil(item.limit * _UNITS) - 0.4) / _UNITS)
    return rules.make_rule(n, list(columns.values()), persons=requirements.persons, least=least)


def _exempt_records(requirements: Requirements, labels: Integers) -> Mask:
    """Return the records of homogeneous cells that the limits on their number permit.

    They keep their cells, the smallest first; all other cells must have two values.
    """
    out = np.zeros(len(labels), dtype=np.bool_)
    sums = [item for item in requirements.enforced if item.definition.per_class == "sum"]
    if not sums or all(item.limit < 1 for item in sums):
        return out
    single = [item for item in requirements.enforced if item.definition.per_class != "sum"]
    sizes, counts = count_by_cell(requirements.enforced, labels, requirements.persons)
    sound = np.ones(len(sizes), dtype=np.bool_)
    for item in single:
        sound &= ~item.missed(item.by_cell(sizes, counts))
    values = np.array([item.by_cell(sizes, counts) for item in sums])
    left = np.array([item.limit for item in sums])
    kept = np.zeros(len(sizes), dtype=np.bool_)
    for cell in np.argsort(sizes, kind="stable"):
        amount = values[:, cell]
        if sound[cell] and amount.any() and (amount <= left).all():
            left -= amount
            kept[cell] = True
    out |= kept[labels]
    return out


# ------------------------------------------------------------------------------ merging


def merge_cells(
    requirements: Requirements,
    partition: Partition,
    encoded: Encoded | Points,
    together: Integers | None = None,
) -> Merged:
    """Merge cells until every enforceable requirement is met.

    In each round, every cell that misses a limit proposes to merge with the neighbour in its
    stratum that has the lowest Ward cost v w / (v + w) d^2 (v and w the numbers of records or the
    weights of the two cells, d the distance of their centroids); ties go to the next cell by
    number. Merges are applied in order of cost, ties by the lower cell, each cell at most once per
    round. Limits on homogeneous classes and their records are met by merging the smallest of these
    classes. Time O(n log n + b G m) per round at worst, with b of G cells missing a limit.

    Parameters
    ----------
    together
        A number for each record; cells that share one are merged first.

    Raises
    ------
    RequirementError
        A cell misses a limit and has no neighbour left.
    """
    if not requirements.enforced:
        return Merged(partition)
    cells = CellSums.of(
        encoded.matrix,
        partition.labels,
        cell_of=_merge_equal(partition, together),
        weights=encoded.weights,
        strata=requirements.strata,
    )
    rounds = most = 0
    for _ in range(len(partition)):  # every round merges at least two cells
        labels = cells.cell_of[partition.labels]
        failing = np.flatnonzero(failing_cells(requirements, labels, cells.alone) & ~cells.alone)
        most = max(most, len(failing))
        if most:
            progress.report("merging cells", most - len(failing), most)
        if not len(failing):
            break
        cells = cells.merge(failing)
        rounds += 1
    check_met(requirements, labels, encoded)
    if len(cells) == len(partition):
        return Merged(partition)
    suffix = ", then merged to meet requirements"
    reason = partition.reason.removesuffix(suffix) + suffix
    joined = replace(partition, labels=labels, reason=reason)
    return Merged(joined, rounds, MERGED)


def _merge_equal(partition: Partition, together: Integers | None) -> Integers:
    """Return the initial group of each cell: its own, or one shared through ``together``."""
    count = len(partition)
    if together is None:
        return np.arange(count)
    lowest = np.full(int(together.max()) + 1, count)
    np.minimum.at(lowest, together, partition.labels)
    first = np.empty(count, dtype=np.int64)
    first[partition.labels] = lowest[together]
    return np.unique(first, return_inverse=True)[1].astype(np.int64)
