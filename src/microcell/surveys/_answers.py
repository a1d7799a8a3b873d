"""The table of answers: whose they are, of which design, and in which cells; refused by row where that is not clear."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from microcell import tables
from microcell.errors import DataError, OptionError, SchemaError
from microcell.model import Integers, Mask, Table, Values
from microcell.surveys._survey_cells import SurveyCells

__all__ = ["CELL", "DESIGN", "check_answers", "find_cells"]

CELL, DESIGN = "cell", "design"
"""The columns with the number of the cell, and with the digest of its design."""

_SHOWN = 10


def check_answers(found: SurveyCells, table: Table, *, id: str | None, drop: Sequence[str]) -> list[str]:
    """The columns that are not for the release, if no respondent answered twice and all answers are of this design."""
    if isinstance(drop, str) or not isinstance(drop, Sequence):
        raise OptionError("drop must be a list of column names.")
    unknown = [name for name in (*drop, *([] if id is None else [id])) if name not in table.columns]
    if unknown:
        raise SchemaError(f"The answers have no columns {', '.join(map(repr, unknown))}. Check their names.")
    kept = [name for name in drop if name in found.representatives]
    if kept:
        raise OptionError(f"Every cell publishes {', '.join(map(repr, kept))}, so that drop cannot leave it out.")
    if id is not None:
        _check_once(id, table.columns[id])
    if DESIGN in table.columns:
        _check_design(found, table.columns[DESIGN])
    own = {*(name for name in (CELL, DESIGN) if name in table.columns), *([] if id is None else [id]), *drop}
    return sorted(own - set(found.representatives))


def find_cells(found: SurveyCells, table: Table) -> Integers:
    """The cell of each answer: by its number or, where there is none, by the representative."""
    if CELL in table.columns:
        return _by_number(table.columns[CELL], len(found.cells))
    lacking = [name for name in found.representatives if name not in table.columns]
    if lacking:
        raise SchemaError(
            f"The answers have neither a column {CELL!r} nor the columns {', '.join(map(repr, lacking))} of the "
            "representatives. Give one or the other."
        )
    return _by_representative(found, table)


def _check_once(name: str, values: Values) -> None:
    _refuse(values.missing, f"Column {name!r} tells respondents apart, but is missing in")
    codes, _ = values.factorize()
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    again = np.isin(codes, codes[first[counts > 1]])
    again[first] = False
    _refuse(again, f"Respondents by column {name!r} answered before in")


def _check_design(found: SurveyCells, values: Values) -> None:
    if values.storage != "text":
        raise DataError(f"Column {DESIGN!r} must hold the digest of the design, as text. Rename it if it is another.")
    codes, names = values.factorize()
    right = np.array([*(name == found.cells.digest for name in names), False])
    _refuse(~right[codes], f"By column {DESIGN!r}, these cells are not of this design in")


def _by_number(values: Values, count: int) -> Integers:
    if not values.is_number:
        raise DataError(
            f"Column {CELL!r} must hold the numbers of cells, 0 to {count - 1}, not {values.storage} values."
        )
    numbers = values.reals()
    with np.errstate(invalid="ignore"):
        known = (numbers >= 0) & (numbers < count) & (numbers == np.floor(numbers))
    _refuse(~known, f"There is no such cell among 0 to {count - 1} in")
    return numbers.astype(np.int64)


def _by_representative(found: SurveyCells, table: Table) -> Integers:
    """The first cell that publishes what the answer says."""
    names = list(found.representatives)
    readers = {name: _reader_of(found.representatives[name]) for name in names}
    cells: dict[tuple[Any, ...], int] = {}
    for cell in reversed(range(len(found.cells))):
        cells[tuple(_as_key(found.representatives[name][cell], readers[name]) for name in names)] = cell
    given = tables.values_of_cells(table, np.arange(table.rows), names) if table.rows else {}
    rows = zip(*(given[name] for name in names), strict=True) if given else ()
    keyed = (tuple(_as_key(v, readers[n]) for v, n in zip(row, names, strict=True)) for row in rows)
    out = np.array([cells.get(key, -1) for key in keyed], dtype=np.int64)
    _refuse(out < 0, "No cell of this design publishes what is in")
    return out


def _reader_of(values: Sequence[Any]) -> Callable[[Any], Any]:
    """What makes the values of a column the same however a file wrote them: 3 and 3.0, true and True, a day."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return lambda value: str(value).lower()
    return float if kinds <= {int, float} else _read_text


def _read_text(value: Any) -> str:
    """The text, a date for a date at midnight: which of them it is depends on what else is in the column."""
    return str(value).removesuffix("T00:00:00")


def _as_key(value: Any, read: Callable[[Any], Any]) -> Any:
    if value is None or (isinstance(value, str) and not value):
        return None
    try:
        return read(value)
    except (TypeError, ValueError):
        return str(value)


def _refuse(wrong: Mask, what: str) -> None:
    """Refuse answers, naming their rows."""
    rows = np.flatnonzero(wrong) + 1
    if len(rows):
        more = "" if len(rows) <= _SHOWN else f" and {len(rows) - _SHOWN} more"
        listed = ", ".join(map(str, rows[:_SHOWN].tolist()))
        raise DataError(f"{what} {'row' if len(rows) == 1 else 'rows'} {listed}{more}. Nothing was released.")
