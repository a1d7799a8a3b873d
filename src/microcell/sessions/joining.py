"""Cells within strata, made once k records of a stratum are there; records of smaller strata wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from microcell import partitioning
from microcell.groundwork import Request
from microcell.model import Floats, Integers
from microcell.partitioning.increments import add_batch, order_by_coordinates

__all__ = ["WAITING", "First", "Points", "join", "make_first"]

WAITING = -1
"""The label of a record that has no cell yet."""

_ASKED = "asked for"


@dataclass(frozen=True, eq=False)
class Points:
    """Records as points, and their sampling weights if they have some."""

    matrix: Floats
    weights: Floats | None

    def take(self, rows: Integers) -> "Points":
        """Those in these rows."""
        matrix = np.ascontiguousarray(self.matrix[rows])
        return Points(matrix, None if self.weights is None else self.weights[rows])

    @classmethod
    def stack(cls, parts: Sequence["Points"]) -> "Points":
        """Those of all parts, in the order given."""
        weights = [part.weights for part in parts if part.weights is not None]
        matrix = np.concatenate([part.matrix for part in parts])
        return cls(matrix, np.concatenate(weights) if weights else None)


@dataclass(frozen=True, eq=False)
class First:
    """The cells of records, by which method the first ones were made, and why by that one."""

    labels: Integers
    method: str
    why: str


def make_first(points: Points, strata: Integers, request: Request) -> First:
    """The cells of all strata with k records or more, numbered through; the others wait."""
    labels = np.full(len(strata), WAITING, dtype=np.int64)
    rows = np.flatnonzero(np.bincount(strata)[strata] >= request.k)
    if len(rows) == 0:
        return First(labels, request.method, _ASKED)
    ready = points.take(rows)
    found = partitioning.partition_within(
        _compact(strata[rows]),
        ready.matrix,
        request.k,
        method=request.method,
        weights=ready.weights,
        seed=request.seed,
        **request.options,
    )
    labels[rows] = found.labels
    return First(labels, found.method, found.why)


def join(
    points: Points, strata: Integers, labels: Integers, request: Request, *, strategy: str, inertial: bool
) -> First:
    """The cells of all records, of which the first ones have had ``labels``; those after them are new.

    With them the method that made the first cells of a stratum, and why; as make_first says it where none did.

    A stratum that has cells takes its new records by the strategy. One that has none yet gets cells by the method as
    soon as it has k records. Neither depends on the order of the new records.
    """
    out = np.full(len(strata), WAITING, dtype=np.int64)
    done, method, why = 0, request.method, _ASKED
    for rows in np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1]):
        old = rows[rows < len(labels)]
        old = old[labels[old] != WAITING]
        new = rows if len(old) == 0 else rows[rows >= len(labels)]
        if len(old) == 0 and len(new) < request.k:
            continue
        if len(old) == 0:
            new = new[_canonical(points.take(new))]
            first = make_first(points.take(new), np.zeros(len(new), dtype=np.int64), request)
            found, method, why = first.labels, first.method, first.why
        elif len(new) == 0:
            found = _compact(labels[old])
        else:
            share = len(new) / (len(strata) - len(labels))
            own = _options(request, share) if strategy == "separate" else {}
            found = _add(points, old, new, _compact(labels[old]), request, strategy=strategy, inertial=inertial, **own)
        out[np.concatenate([old, new])] = done + found
        done += int(found.max()) + 1
    return First(out, method, why)


def _add(points: Points, old: Integers, new: Integers, labels: Integers, request: Request, **how: Any) -> Integers:
    base, both = points.matrix[old], np.concatenate([old, new])
    weights = None if points.weights is None else points.weights[both]
    return add_batch(base, labels, points.matrix[new], request.k, weights=weights, seed=request.seed, **how).labels


def _options(request: Request, share: float) -> dict[str, Any]:
    """How a batch makes cells of its own: as the base did; of a limit of seconds each stratum has its share."""
    options = dict(request.options)
    effort = options.get("effort")
    if isinstance(effort, (int, float)) and not isinstance(effort, bool):
        options["effort"] = effort * share
    return {"method": request.method, **options}


def _compact(labels: Integers) -> Integers:
    return np.unique(labels, return_inverse=True)[1]


def _canonical(points: Points) -> Integers:
    """The rows by their coordinates and weights, so that the order in which they came does not count."""
    weights = np.zeros(len(points.matrix)) if points.weights is None else points.weights
    return order_by_coordinates(points.matrix, weights)
