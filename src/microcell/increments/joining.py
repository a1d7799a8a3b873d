"""Cells of a session: partition the first records and let later ones join."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from microcell import methods
from microcell._display import record_repr
from microcell.measures import people
from microcell.methods.increments import add_batch, order_by_coordinates
from microcell.model import Floats, Integers, Schema, Table
from microcell.release.partition import Request

__all__ = ["WAITING", "Labelled", "Points", "join", "partition_base"]

WAITING = -1
"""Label of a record without a cell, because its stratum has fewer than k people so far."""

_REQUESTED = "requested"


@dataclass(frozen=True, eq=False)
class Points:
    """Encoded records with their sampling weights and persons, if any."""

    matrix: Floats
    weights: Floats | None
    persons: Integers | None = None
    """Person of each record; None if every record counts as a person."""
    together: bool = False
    """Whether the records of a person must share a cell."""

    __repr__ = record_repr

    def take(self, rows: Integers) -> "Points":
        """Return the points of these rows."""
        return replace(
            self,
            matrix=np.ascontiguousarray(self.matrix[rows]),
            weights=None if self.weights is None else self.weights[rows],
            persons=None if self.persons is None else self.persons[rows],
        )

    def of_people(self, table: Table, schema: Schema) -> "Points":
        """Return the points with the persons that the rows of the table are about."""
        together = schema.person_cells == "together"
        return replace(self, persons=people.person_codes(table, schema), together=together)

    def count_people(self, rows: Integers) -> int:
        """Return the number of people that these rows are about."""
        return len(rows) if self.persons is None else len(np.unique(self.persons[rows]))

    @classmethod
    def stack(cls, parts: Sequence["Points"]) -> "Points":
        """Concatenate parts, without their persons."""
        weights = [part.weights for part in parts if part.weights is not None]
        matrix = np.concatenate([part.matrix for part in parts])
        return cls(matrix, np.concatenate(weights) if weights else None)


@dataclass(frozen=True, eq=False)
class Labelled:
    """The cell of each record, and the method that partitioned the base."""

    labels: Integers
    method: str
    reason: str


def partition_base(points: Points, strata: Integers, request: Request) -> Labelled:
    """Partition all strata with at least k people; the records of other strata wait."""
    labels = np.full(len(strata), WAITING, dtype=np.int64)
    rows = np.flatnonzero(people.count_people(strata, points.persons)[strata] >= request.k)
    if len(rows) == 0:
        return Labelled(labels, request.method, _REQUESTED)
    ready = points.take(rows)
    partition = methods.partition_within(
        _compact(strata[rows]),
        ready.matrix,
        request.k,
        method=request.method,
        weights=ready.weights,
        persons=ready.persons,
        together=points.together,
        seed=request.seed,
        **request.options,
    )
    labels[rows] = partition.labels
    return Labelled(labels, partition.method, partition.reason)


def join(
    points: Points,
    strata: Integers,
    labels: Integers,
    request: Request,
    *,
    strategy: str,
    inertial: bool,
) -> Labelled:
    """Add the last records, which have no label yet, to the cells of the others.

    A stratum that has cells adds its new records by the strategy; one without cells is partitioned
    as soon as it has k people. The result does not depend on the order of the new records.
    """
    joined = np.full(len(strata), WAITING, dtype=np.int64)
    n_cells = 0
    method, reason = request.method, _REQUESTED
    for rows in np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1]):
        old = rows[rows < len(labels)]
        old = old[labels[old] != WAITING]
        new = rows if len(old) == 0 else rows[rows >= len(labels)]
        if len(old) == 0 and points.count_people(new) < request.k:
            continue
        if len(old) == 0:
            new = new[_canonical_order(points.take(new))]
            stratum = np.zeros(len(new), dtype=np.int64)
            first = partition_base(points.take(new), stratum, request)
            cells, method, reason = first.labels, first.method, first.reason
        elif len(new) == 0:
            cells = _compact(labels[old])
        else:
            share = len(new) / (len(strata) - len(labels))
            options = _method_options(request, share) if strategy == "separate" else {}
            cells = _add(
                points,
                old,
                new,
                _compact(labels[old]),
                request,
                strategy=strategy,
                inertial=inertial,
                **options,
            )
        joined[np.concatenate([old, new])] = n_cells + cells
        n_cells += int(cells.max()) + 1
    return Labelled(joined, method, reason)


def _add(
    points: Points, old: Integers, new: Integers, labels: Integers, request: Request, **options: Any
) -> Integers:
    both = np.concatenate([old, new])
    return add_batch(
        points.matrix[old],
        labels,
        points.matrix[new],
        request.k,
        weights=None if points.weights is None else points.weights[both],
        persons=None if points.persons is None else points.persons[both],
        together=points.together,
        seed=request.seed,
        **options,
    ).labels


def _method_options(request: Request, share: float) -> dict[str, Any]:
    """Return the options for a separate partition; a stratum gets its share of a time limit."""
    options = dict(request.options)
    effort = options.get("effort")
    if isinstance(effort, (int, float)) and not isinstance(effort, bool):
        options["effort"] = effort * share
    return {"method": request.method, **options}


def _compact(labels: Integers) -> Integers:
    return np.unique(labels, return_inverse=True)[1]


def _canonical_order(points: Points) -> Integers:
    """Sort by coordinates and weights, so that the order of arrival does not matter."""
    weights = np.zeros(len(points.matrix)) if points.weights is None else points.weights
    return order_by_coordinates(points.matrix, weights)
