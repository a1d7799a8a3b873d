"""Try larger weights for the columns whose categories a release loses. Nothing is released."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from microcell._display import short_repr
from microcell.errors import OptionError
from microcell.findings.quality import all_categories
from microcell.measures.evidence import Evidence
from microcell.measures.utility import information_loss
from microcell.model import Schema
from microcell.model.audit import CategoryShare
from microcell.release import partition as partitioning
from microcell.release.prepare import as_schema, prepare

__all__ = ["WeightTrial", "try_weights"]

_FACTORS = (2.0, 4.0, 8.0, 16.0)
_HALF = 0.5


@dataclass(frozen=True, repr=False)
class WeightTrial:
    """The effect of a weight on the categories that the release would otherwise lose.

    ``kept`` is the share of the people in these categories who are published with their true
    category, ``loss`` the information loss of the other quasi-identifiers. Both are also stated for
    the weight of the schema.
    """

    column: str
    weight: float
    people: int
    kept_before: float
    kept: float
    loss_before: float
    loss: float

    def __repr__(self) -> str:
        return short_repr(self, self.column, weight=self.weight, kept=f"{self.kept:.3g}")


def try_weights(
    source: Any,
    schema: Schema | str,
    *,
    k: int,
    method: str = "auto",
    seed: int = 0,
    missing: str = "error",
    options: Mapping[str, Any] | None = None,
    factors: Sequence[float] = _FACTORS,
) -> tuple[WeightTrial, ...]:
    """Return the effect of larger weights on each column that loses categories.

    A category counts as lost if it has at least k people and most of them are published with
    another one. No weight can preserve categories of fewer than k people.
    """
    if not all(factor > 0 for factor in factors):
        raise OptionError(
            "Factors of weights must be positive.", code="option.out_of_range", option="weights"
        )
    request = partitioning.Request(k, method, seed, options or {})
    resolved = as_schema(schema)

    def run(trial: Schema) -> Evidence:
        prepared = prepare(source, trial, k=k, missing=missing)
        grouping = partitioning.make_grouping(prepared, request, None, None)
        published = partitioning.aggregate_table(prepared, grouping)
        rows = np.arange(published.rows)
        return Evidence(
            prepared.table, published, prepared.schema, pairs=rows, persons=prepared.persons
        )

    base = run(resolved)
    lost: dict[str, dict[str, CategoryShare]] = {}
    for item in all_categories(base):
        if item.people >= k and item.share < _HALF:
            lost.setdefault(item.column, {})[item.name] = item
    trials = []
    for column, categories in lost.items():
        weight = next(item.weight for item in base.schema.quasi if item.name == column)
        for factor in factors:
            tried = run(_with_weight(base.schema, column, factor * weight))
            shares = [item for item in all_categories(tried) if item.column == column]
            people = sum(item.people for item in categories.values())
            trials.append(
                WeightTrial(
                    column,
                    factor * weight,
                    people,
                    sum(item.kept for item in categories.values()) / people,
                    sum(item.kept for item in shares if item.name in categories) / people,
                    _loss_elsewhere(base, column),
                    _loss_elsewhere(tried, column),
                )
            )
    return tuple(trials)


def _with_weight(schema: Schema, name: str, weight: float) -> Schema:
    return replace(
        schema,
        quasi=[
            replace(column, weight=weight) if column.name == name else column
            for column in schema.quasi
        ],
    )


def _loss_elsewhere(evidence: Evidence, name: str) -> float:
    """Return the information loss of all quasi-identifiers but one."""
    return information_loss([item for item in evidence.losses if item.column.name != name])
