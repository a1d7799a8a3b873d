"""Limits on the cells of a session, met as far as possible while records arrive."""

from collections.abc import Mapping

import numpy as np

from microcell import auditing
from microcell.errors import OptionError
from microcell.increments.joining import WAITING, Points
from microcell.model import Floats, Integers, Schema, Table
from microcell.release import enforce, prepare, requirements
from microcell.release.partition import Request

__all__ = ["check_limited", "joining_strategy", "keep_limits", "searching_release"]


def check_limited(limits: Mapping[str, float], strategy: str) -> None:
    """Raise OptionError for strategies that split cells regardless of the limits on them."""
    if strategy.startswith("split") and any(requirements.is_enforced(name) for name in limits):
        raise OptionError(
            f"Strategy {strategy!r} splits cells and cannot be combined with limits on them "
            "(require). Use 'refined', which splits them within the limits.",
            code="option.conflict",
            option="strategy",
            other="require",
        )


def joining_strategy(limits: Mapping[str, float], strategy: str, points: Points) -> str:
    """Return the strategy that joins records; the search within limits comes afterwards."""
    searched = _is_searched(limits, points)
    return "nearest" if searched and strategy == "refined" else strategy


def keep_limits(
    limits: Mapping[str, float],
    table: Table,
    schema: Schema,
    points: Points,
    labels: Integers,
    request: Request,
    *,
    added: int | None = None,
) -> Integers:
    """Return the cells of a session after repairing those that exceed limits, if possible.

    Limits refer to the distribution of all records so far. With ``added``, the cells of the records
    from this position on are improved as well. Records that wait keep waiting.
    """
    rows = np.flatnonzero(labels != WAITING)
    if not _is_searched(limits, points) or not len(rows):
        return labels
    present = prepare.take_rows(table, rows)
    some = points.take(rows)
    limited = requirements.resolve_limits(
        limits,
        present,
        schema,
        auditing.class_labels(present, schema.strata),
        persons=some.persons,
        check=False,
    )
    changed = None if added is None else rows >= added
    effort = "fast" if added else request.options.get("effort", "balanced")
    searching = _searching(some.matrix, request, effort)
    repaired = labels.copy()
    repaired[rows] = enforce.repair_cells(
        limited, labels[rows], request.k, some.weights, searching, changed
    )
    return repaired


def searching_release(prepared: prepare.Prepared, request: Request) -> enforce.Searching | None:
    """Return how to search for the cells of a release, where those of the session exceed limits.

    A time limit is not used: the release of a stored session must be reproducible.
    """
    if prepared.schema.person_cells == "together":
        return None
    effort = request.options.get("effort", "balanced")
    return _searching(
        prepared.encoded.matrix, request, effort if isinstance(effort, str) else "balanced"
    )


def _searching(points: Floats, request: Request, effort: str | float) -> enforce.Searching:
    return enforce.Searching(points, request.seed, effort)


def _is_searched(limits: Mapping[str, float], points: Points) -> bool:
    """Return whether cells are searched within limits; not if the rows of a person stay together.

    The search exchanges single rows. The limits are then met by merging, in the release.
    """
    return any(requirements.is_enforced(name) for name in limits) and not points.together
