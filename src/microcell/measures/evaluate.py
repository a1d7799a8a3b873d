"""Compute declared measures from the evidence of an audit."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from microcell.measures.disclosure import tidy
from microcell.measures.evidence import ClassSizes, Evidence
from microcell.measures.registry import Definition, Value, measures
from microcell.model import Integers, Measure

__all__ = ["as_measure", "evaluate", "evaluate_sizes", "summarize"]


def evaluate(evidence: Evidence, definitions: Iterable[Definition]) -> dict[str, Measure]:
    """Compute measures by name: overall values first, then per-column values."""
    overall: list[Measure] = []
    by_column: list[Measure] = []
    for definition in definitions:
        if definition.needs is not None and getattr(evidence, definition.needs) is None:
            continue
        if definition.scope == "table":
            overall += _table_measure(definition, evidence)
            continue
        columns = list(_column_values(definition, getattr(evidence, definition.scope)))
        if columns:
            overall.append(_overall_measure(definition, columns))
            by_column += [
                as_measure(definition, value, column=column.name) for column, value in columns
            ]
    return {item.name: item for item in (*overall, *by_column)}


def evaluate_sizes(sizes: Integers, rows_original: int) -> dict[str, Measure]:
    """Compute the measures that need class sizes only.

    Examples
    --------
    >>> import numpy as np
    >>> result = evaluate_sizes(np.array([2, 2, 4]), rows_original=9)
    >>> result["k"].value, result["prosecutor_average"].value, result["records_dropped"].value
    (2, 0.375, 1)
    """
    evidence = ClassSizes(sizes, rows_original)
    return {
        item.name: item
        for definition in measures().values()
        if definition.section == "anonymity" and definition.needs is None
        for item in _table_measure(definition, evidence)
    }


def as_measure(definition: Definition, value: float | Value, *, column: str = "") -> Measure:
    """Build a :class:`Measure`, overall or for one column."""
    result = value if isinstance(value, Value) else Value(value)
    meaning = [definition.meaning, f"For {column} only." if column else "", result.detail]
    return Measure(
        name=f"{definition.name}.{column}" if column else definition.name,
        value=result.value,
        unit=result.unit or definition.unit,
        lower_is_better=definition.lower_is_better,
        meaning=" ".join(filter(None, meaning)),
        interval=result.interval,
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


def _table_measure(definition: Definition, evidence: ClassSizes | Evidence) -> Iterator[Measure]:
    value: float | Value | None
    if definition.per_class is None:
        value = definition.compute(evidence)
    elif len(evidence.class_sizes):
        value = summarize(definition, definition.compute(evidence.class_sizes))
    else:
        value = definition.if_empty
    if value is not None:
        yield as_measure(definition, value)


def _column_values(definition: Definition, columns: Sequence[Any]) -> Iterator[tuple[Any, Value]]:
    for column in columns:
        if definition.per_class is not None:
            detail = "" if definition.detail is None else definition.detail(column.counts)
            value = Value(summarize(definition, definition.compute(column.counts)), detail)
        else:
            value = definition.compute(column)
        if value is not None:
            yield column, value if isinstance(value, Value) else Value(value)


def _overall_measure(definition: Definition, columns: Sequence[tuple[Any, Value]]) -> Measure:
    values = [value.value for _, value in columns]
    if definition.overall == "worst":
        sign = -1 if definition.lower_is_better else 1
        worst = min(range(len(values)), key=lambda place: sign * values[place])
        detail = f"Worst column: {columns[worst][0].name}."
        return as_measure(definition, Value(values[worst], detail))
    if definition.overall == "mean":
        return as_measure(definition, sum(values) / len(values))
    total = sum(column.weight for column, _ in columns)
    weighted = sum(column.weight * value.value for column, value in columns)
    return as_measure(definition, weighted / total if total else 0.0)
