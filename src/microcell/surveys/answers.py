"""Answers of a survey: check them, and find the cell of each."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from microcell import tables
from microcell.errors import DataError, OptionError, SchemaError
from microcell.model import Integers, Table, Values
from microcell.surveys.rejects import Rejects
from microcell.surveys.survey_cells import SurveyCells

__all__ = ["CELL", "DESIGN", "check_answers", "find_cells"]

CELL = "cell"
"""Column of the answers with the cell number."""

DESIGN = "design"
"""Column of the answers with the digest of the design."""


def check_answers(
    survey: SurveyCells,
    table: Table,
    *,
    id: str | None,
    drop: Sequence[str],
    person: str | None = None,
    rejects: Rejects | None = None,
) -> list[str]:
    """Check respondents and design of the answers; return the columns not to publish.

    Invalid rows are an error, or are listed in ``rejects``.
    """
    rejects = rejects or Rejects(table.rows)
    if isinstance(drop, str) or not isinstance(drop, Sequence):
        raise OptionError(
            "drop must be a list of column names.", code="option.wrong_type", option="drop"
        )
    if id is not None and person is not None:
        raise OptionError(
            "id states that every respondent answers once, and person that some answer several "
            "times. Pass one of them.",
            code="option.conflict",
            option="person",
        )
    own_columns = [name for name in (id, person) if name is not None]
    unknown = [name for name in (*drop, *own_columns) if name not in table.columns]
    if unknown:
        raise SchemaError(
            f"The answers have no column{'s' * (len(unknown) > 1)} "
            f"{', '.join(map(repr, unknown))}. Check the spelling in drop.",
            code="schema.unknown_column",
            columns=tuple(unknown),
            option="drop",
        )
    published = [name for name in drop if name in survey.representatives]
    if published:
        raise OptionError(
            f"{', '.join(map(repr, published))} cannot be dropped, because every cell publishes "
            f"{'it' if len(published) == 1 else 'them'}. Remove "
            f"{'it' if len(published) == 1 else 'them'} from drop.",
            code="option.conflict",
            option="drop",
            columns=tuple(published),
        )
    if id is not None:
        _check_unique(id, table.columns[id], rejects)
    if person is not None:
        rejects.add(
            table.columns[person].missing,
            "data.bad_key",
            f"Column {person!r} has no value",
            column=person,
        )
    if DESIGN in table.columns:
        _check_design(survey, table.columns[DESIGN], rejects)
    technical = {name for name in (CELL, DESIGN) if name in table.columns}
    return sorted({*technical, *own_columns, *drop} - set(survey.representatives))


def _check_unique(name: str, values: Values, rejects: Rejects) -> None:
    rejects.add(values.missing, "data.bad_key", f"Column {name!r} has no value", column=name)
    codes, _ = values.factorize()
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    repeated = np.isin(codes, codes[first[counts > 1]])
    repeated[first] = False
    rejects.add(
        repeated, "data.bad_key", f"Column {name!r} repeats an earlier respondent", column=name
    )


def _check_design(survey: SurveyCells, values: Values, rejects: Rejects) -> None:
    if values.storage != "text":
        raise DataError(
            f"Column {DESIGN!r} must contain the digest of the design as text. Rename the column "
            "if it means something else.",
            code="data.invalid",
            column=DESIGN,
        )
    codes, names = values.factorize()
    matches = np.array([*(name == survey.cells.digest for name in names), False])
    rejects.add(
        ~matches[codes],
        "table.mismatch",
        f"Column {DESIGN!r} names another design",
        column=DESIGN,
    )


def find_cells(survey: SurveyCells, table: Table, rejects: Rejects | None = None) -> Integers:
    """Return the cell of each answer, by its number or else by the representative.

    Answers without a cell are an error, or are listed in ``rejects`` (their cell is then 0).
    """
    rejects = rejects or Rejects(table.rows)
    if CELL in table.columns:
        labels = _find_by_number(table.columns[CELL], len(survey.cells), rejects)
        _check_agreement(survey, table, labels, rejects)
        return labels
    absent = [name for name in survey.representatives if name not in table.columns]
    if absent:
        raise SchemaError(
            f"The answers need either a column {CELL!r} or all columns of the representatives, "
            f"but {', '.join(map(repr, absent))} {'is' if len(absent) == 1 else 'are'} missing.",
            code="schema.unknown_column",
            columns=tuple(absent),
        )
    return _find_by_representative(survey, table, rejects)


def _check_agreement(survey: SurveyCells, table: Table, labels: Integers, rejects: Rejects) -> None:
    """Reject answers with other values than their cell publishes, which may be originals."""
    names = [name for name in survey.representatives if name in table.columns]
    answers = tables.values_of_cells(table, np.arange(table.rows), names) if names else {}
    for name in names:
        normalizer = _normalizer(survey.representatives[name])
        published = [_normalize(value, normalizer) for value in survey.representatives[name]]
        given = [_normalize(value, normalizer) for value in answers[name]]
        differs = [
            value is not None and value != published[cell]
            for value, cell in zip(given, labels.tolist(), strict=True)
        ]
        rejects.add(
            np.array(differs),
            "table.mismatch",
            f"Column {name!r} differs from what the cell publishes, so it may hold original values "
            "that nobody should have sent,",
            column=name,
        )


def _find_by_number(values: Values, n_cells: int, rejects: Rejects) -> Integers:
    if not values.is_number:
        raise DataError(
            f"Column {CELL!r} must contain cell numbers from 0 to {n_cells - 1}, not "
            f"{values.storage} values.",
            code="data.not_a_number",
            column=CELL,
        )
    numbers = values.reals()
    with np.errstate(invalid="ignore"):
        valid = (numbers >= 0) & (numbers < n_cells) & (numbers == np.floor(numbers))
    rejects.add(
        ~valid,
        "data.unknown_category",
        f"Column {CELL!r} is not a cell number from 0 to {n_cells - 1}",
        column=CELL,
    )
    return np.where(valid, numbers, 0).astype(np.int64)


def _find_by_representative(survey: SurveyCells, table: Table, rejects: Rejects) -> Integers:
    """Return, for each answer, the first cell that publishes its values."""
    names = list(survey.representatives)
    normalizers = [_normalizer(survey.representatives[name]) for name in names]

    def key(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            _normalize(value, normalizer)
            for value, normalizer in zip(values, normalizers, strict=True)
        )

    published = zip(*(survey.representatives[name] for name in names), strict=True)
    cells: dict[tuple[Any, ...], int] = {}
    for cell, values in enumerate(published):
        cells.setdefault(key(values), cell)
    answers = tables.values_of_cells(table, np.arange(table.rows), names) if table.rows else {}
    rows = zip(*(answers[name] for name in names), strict=True) if answers else ()
    labels = np.array([cells.get(key(row), -1) for row in rows], dtype=np.int64)
    rejects.add(labels < 0, "data.unknown_category", "No cell publishes the values")
    return np.maximum(labels, 0)


def _normalizer(values: Sequence[Any]) -> Callable[[Any], Any]:
    """Return a function that unifies spellings of a value, such as 3 and 3.0, or true and True.

    Whether a date is written with a time depends on the other values of its column.
    """
    types = {type(value) for value in values if value is not None}
    if types == {bool}:
        return lambda value: str(value).lower()
    if types <= {int, float}:
        return float
    return lambda value: str(value).removesuffix("T00:00:00")


def _normalize(value: Any, normalizer: Callable[[Any], Any]) -> Any:
    if value is None or (isinstance(value, str) and not value):
        return None
    try:
        return normalizer(value)
    except (TypeError, ValueError):
        return str(value)
