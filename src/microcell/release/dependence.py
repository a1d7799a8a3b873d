"""Choose the weight of dependence (lambda) that meets a limit on the dependence loss."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Generic, TypeVar

import numpy as np

from microcell.errors import RequirementError
from microcell.measures.evaluate import evaluate
from microcell.measures.evidence import Evidence
from microcell.measures.registry import measures
from microcell.model import Table
from microcell.release.prepare import Prepared

__all__ = ["DEPENDENCE_LOSS", "SMALLEST_WEIGHT", "Attempt", "find_weight", "limits_dependence"]

DEPENDENCE_LOSS = "dependence_loss"

SMALLEST_WEIGHT = 1e-6
"""Smallest positive weight that is tried."""

_BISECTIONS = 7
"""Number of bisections of the logarithm of the weight, after trying 0 and 1."""

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Attempt(Generic[Result]):
    """An attempt with one weight: its D_X, the table to publish, and the result to return."""

    loss: float
    published: Table
    result: Result


def limits_dependence(name: str) -> bool:
    """Return whether a measure is the dependence loss, of all confidential columns or of one."""
    return name.partition(".")[0] == DEPENDENCE_LOSS


def find_weight(
    prepared: Prepared,
    limits: Mapping[str, float],
    attempt: Callable[[float], Attempt[Result]],
) -> Result:
    """Return the result with the smallest D_X that meets the limits on the dependence loss.

    The dependence loss decreases with the weight, apart from the randomness of the method, so the
    logarithm of the weight is bisected. There are at most nine attempts.

    Raises
    ------
    RequirementError
        The limits are missed even if only the confidential columns count.
    """
    best = attempt(0.0)
    if not _missed(prepared, best.published, limits):
        return best.result
    best = attempt(1.0)
    missed = _missed(prepared, best.published, limits)
    if missed:
        raise _unreachable(missed, limits, best.loss)
    low, high = SMALLEST_WEIGHT, 1.0
    for _ in range(_BISECTIONS):
        middle = sqrt(low * high)
        tried = attempt(middle)
        if _missed(prepared, tried.published, limits):
            low = middle
            continue
        high = middle
        best = min(best, tried, key=lambda item: item.loss)
    return best.result


def _missed(prepared: Prepared, published: Table, limits: Mapping[str, float]) -> dict[str, float]:
    """Return the limits that a published table misses, with the values reached, as audited."""
    table = prepared.table
    evidence = Evidence(
        table, published, prepared.schema, pairs=np.arange(table.rows), persons=prepared.persons
    )
    results = evaluate(evidence, [measures()[DEPENDENCE_LOSS]])
    reached = {name: float(results[name].value) for name in limits if name in results}
    return {name: value for name, value in reached.items() if value > limits[name]}


def _unreachable(
    missed: Mapping[str, float], limits: Mapping[str, float], loss: float
) -> RequirementError:
    problems = " ".join(
        f"{name} cannot be at most {limits[name]:g}: it is {value:.4g} even if only confidential "
        "columns determine the cells."
        for name, value in missed.items()
    )
    return RequirementError(
        f"{problems} Raise the limit or lower k. Nothing was released.",
        code="guarantee.requirement_not_met",
        measures=list(missed),
        nearest=dict(missed),
        information_loss=loss,
    )
