"""Compute registered measures from the evidence of an audit."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from microcell.measures.confidential import tidy
from microcell.measures.evidence import ClassSizes, Evidence
from microcell.measures.registry import Definition, Value, measures
from microcell.model import Integers, Measure

__all__ = ["Result", "as_measures", "evaluate", "evaluate_sizes", "summarize"]


class Result(NamedTuple):
    """A computed value; ``column`` is empty for the whole table, ``detail`` may be empty."""

    definition: Definition
    value: float | Value
    column: str = ""
    detail: str = ""


def evaluate(
    evidence: Evidence, definitions: Iterable[Definition], *, persons: bool = False
) -> dict[str, Measure]:
    """Compute measures by name: overall values first, then per-column values.

    ``persons`` says whether people are counted as distinct persons, not as records.
    """
    possible = [
        definition
        for definition in definitions
        if definition.needs is None or getattr(evidence, definition.needs) is not None
    ]
    overall = _table_results([item for item in possible if item.scope == "table"], evidence)
    by_column: dict[str, list[Result]] = {}
    for scope in ("confidential", "quasi"):
        in_scope = [item for item in possible if item.scope == scope]
        if in_scope:
            columns = getattr(evidence, scope)
            names = [column.name for column in columns]
            for definition in in_scope:
                results = _column_results(definition, columns, names)
                if results:
                    by_column[definition.name] = results
                    overall[definition.name] = _overall_result(definition, results, columns)
    ordered = [item.name for item in possible]
    return as_measures(
        [
            *(overall[name] for name in ordered if name in overall),
            *(result for name in ordered for result in by_column.get(name, ())),
        ],
        persons=persons,
    )


def evaluate_sizes(
    sizes: Integers, rows_original: int, people: Integers | None = None
) -> dict[str, Measure]:
    """Compute the measures that need class sizes only.

    ``people`` are the numbers of distinct persons in the classes; None if every record is a person.

    Examples
    --------
    >>> import numpy as np
    >>> result = evaluate_sizes(np.array([2, 2, 4]), rows_original=9)
    >>> result["k"].value, result["prosecutor_average"].value, result["records_dropped"].value
    (2, 0.375, 1)
    """
    definitions = [definition for definition in measures().values() if definition.sizes_only]
    results = _table_results(definitions, ClassSizes(sizes, rows_original, people=people))
    return as_measures([*results.values()], persons=people is not None)


def as_measures(results: Sequence[Result], *, persons: bool = False) -> dict[str, Measure]:
    """Build a :class:`Measure` from each value, by name; ``persons`` if k counts persons."""
    built = [_as_measure(result, persons) for result in results]
    return {item.name: item for item in built}


def _as_measure(result: Result, persons: bool) -> Measure:
    definition, value, column, detail = result
    unit = "persons" if persons and definition.counts_people else definition.unit
    if not isinstance(value, Value):
        value = Value(value, detail)
    sentences = (definition.meaning, column and f"For {column} only.", value.detail)
    return Measure(
        name=f"{definition.name}.{column}" if column else definition.name,
        value=value.value,
        unit=value.unit or unit,
        lower_is_better=definition.lower_is_better,
        meaning=" ".join(filter(None, sentences)),
        interval=value.interval,
        must_be_zero=definition.must_be_zero,
    )


def summarize(definition: Definition, values: NDArray[Any]) -> float:
    """Combine per-class values into the measure of the whole table."""
    if definition.per_class == "sum":
        return int(values.sum())
    worst = values.max() if definition.lower_is_better else values.min()
    if values.dtype.kind in "iu":
        return int(worst)
    return float(worst) if definition.scope == "table" else tidy(worst)


def _table_results(
    definitions: Sequence[Definition], evidence: ClassSizes | Evidence
) -> dict[str, Result]:
    """Compute the measures of the whole table, omitting those that do not apply."""
    results = {}
    for definition in definitions:
        value = _table_value(definition, evidence)
        if value is not None:
            results[definition.name] = Result(definition, value)
    return results


def _table_value(definition: Definition, evidence: ClassSizes | Evidence) -> float | Value | None:
    value: float | Value | None
    if definition.per_class is None:
        value = definition.compute(evidence)
    elif len(evidence.class_people):
        value = summarize(definition, definition.compute(evidence.class_people))
    else:
        value = definition.if_empty
    return value


def _column_results(
    definition: Definition, columns: Sequence[Any], names: Sequence[str]
) -> list[Result]:
    """Compute a measure for each column, omitting columns to which it does not apply."""
    details: Sequence[str] = [""] * len(columns)
    if definition.per_class is None:
        values = [definition.compute(column) for column in columns]
    else:
        counts = [column.counts for column in columns]
        by_class = [definition.compute(item) for item in counts]
        if definition.detail is not None:
            details = [definition.detail(item) for item in counts]
        values = [summarize(definition, item) for item in by_class]
        if definition.total is not None:
            values = [definition.total(column) for column in columns]
    return [
        Result(definition, value, name, detail)
        for name, value, detail in zip(names, values, details, strict=True)
        if value is not None
    ]


def _overall_result(
    definition: Definition, measured: Sequence[Result], columns: Sequence[Any]
) -> Result:
    values = [
        item.value.value if isinstance(item.value, Value) else item.value for item in measured
    ]
    if definition.overall == "worst":
        sign = -1 if definition.lower_is_better else 1
        worst = min(range(len(values)), key=lambda i: sign * values[i])
        return Result(definition, values[worst], detail=f"Worst column: {measured[worst].column}.")
    if definition.overall == "mean":
        return Result(definition, sum(values) / len(values))
    by_name = {column.name: column.weight for column in columns}
    weights = [by_name[item.column] for item in measured]
    total = sum(weights)
    weighted = sum(weight * value for weight, value in zip(weights, values, strict=True))
    return Result(definition, weighted / total if total else 0.0)
