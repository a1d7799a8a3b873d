"""Whether the cells of a survey keep what they promise: for respondents, before they trust them."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib import import_module
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from microcell import encoding
from microcell.cells import Cells
from microcell.errors import DataError, GuaranteeError, OptionError, SchemaError, TableError
from microcell.model import EncodedColumn, Encoding, Floats, Table, Values
from microcell.surveys.cells import Roster, SurveyCells, find_figures, read_cells, read_roster

__all__ = ["Answer", "Finding", "SurveyCheck", "answer_survey", "as_table", "check_survey"]

_KNOWN = np.zeros(1, dtype=np.bool_)
_MOST = 2**63


def as_table(record: Any, encoding: Encoding) -> Table:
    """The record as a table of one row, with the columns of the encoding; what else it holds is not looked at.

    Raises :class:`SchemaError` for a column that is not there, :class:`DataError` for a value that is missing or of
    another type than the candidates had. Neither tells the value.
    """
    if not isinstance(record, Mapping):
        raise DataError("A record must be an object of values by name of a column.")
    parts = [(part, column) for column in encoding.columns for part in column.parts]
    lacking = [part for part, _ in parts if part not in record]
    if lacking:
        raise SchemaError(
            f"The record lacks {', '.join(map(repr, lacking))}. Give all quasi-identifiers by name."
        )
    missing = [part for part, _ in parts if _is_missing(record[part])]
    if missing:
        raise DataError(
            f"The record has no value for {', '.join(map(repr, missing))}. The cell depends on it: give one."
        )
    return Table(
        {part: _as_values(part, column, record[part]) for part, column in parts},
        rows=1,
        native=None,
    )


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


def _as_values(part: str, column: EncodedColumn, value: Any) -> Values:
    storage = "float" if column.kind in ("numeric", "location") else column.storage
    read, expected = _READERS[storage]
    try:
        values = read(value)
    except (TypeError, ValueError, OverflowError):
        values = None
    if values is None:
        raise DataError(f"The record's {part!r} must be {expected}, as it was for the candidates.")
    return values


def _read_number(value: Any) -> Values | None:
    """A whole number as such, for large ones are not floats; another as a float."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and -_MOST <= value < _MOST:
        return Values("integer", np.array([value], dtype=np.int64), _KNOWN)
    number = float(value)
    return None if np.isinf(number) else Values("float", np.array([number]), _KNOWN)


def _read_text(value: Any) -> Values | None:
    return _named("text", (str(value),), 0) if isinstance(value, str) else None


def _read_truth(value: Any) -> Values | None:
    return (
        _named("boolean", ("false", "true"), int(value))
        if isinstance(value, (bool, np.bool_))
        else None
    )


def _named(storage: Any, names: tuple[str, ...], code: int) -> Values:
    return Values(storage, np.array([code], dtype=np.int64), _KNOWN, categories=names)


def _read_moment(value: Any) -> Values | None:
    """A date, or a date and a time, in microseconds since 1970; of one with a time zone, in universal time."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        return _counted(
            "datetime", (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        )
    if isinstance(value, date):
        return Values(
            "date", np.array([value.toordinal() - date(1970, 1, 1).toordinal()]), _KNOWN, unit="D"
        )
    return None


def _read_clock(value: Any) -> Values | None:
    if isinstance(value, str):
        value = time.fromisoformat(value.strip())
    if not isinstance(value, time):
        return None
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _counted("time", seconds * 10**6 + value.microsecond)


def _read_duration(value: Any) -> Values | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, timedelta)):
        return None
    length = value if isinstance(value, timedelta) else timedelta(seconds=value)
    return _counted("duration", length // timedelta(microseconds=1))


def _counted(storage: Any, microseconds: int) -> Values:
    return Values(storage, np.array([microseconds], dtype=np.int64), _KNOWN, unit="us")


_READERS: dict[str, tuple[Callable[[Any], Values | None], str]] = {
    "integer": (_read_number, "a number"),
    "float": (_read_number, "a number"),
    "text": (_read_text, "text, in quotes"),
    "boolean": (_read_truth, "true or false"),
    "date": (_read_moment, "a date such as 2024-05-01"),
    "datetime": (_read_moment, "a date and time such as 2024-05-01T09:30:00"),
    "time": (_read_clock, "a time such as 09:30:00"),
    "duration": (_read_duration, "a number of seconds"),
    "empty": (lambda value: Values("empty", np.zeros(1, dtype=np.int64), ~_KNOWN), "anything"),  # noqa: ARG005
}
"""How a value of each storage is read, and how to say what is expected."""


_ROOM = 0.5
"""A number this part of the range of all cells' means beyond it is told to be far out."""


@dataclass(frozen=True)
class Answer:
    """What a respondent submits in place of the record, and of which columns the value was strange.

    ``strange`` is for the respondent: it names columns whose category the cells do not know, or whose number lies far
    from all cells. The nearest cell was taken.
    """

    cell: int
    representative: Mapping[str, Any]
    strange: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """What is submitted: the cell and its representative, and nothing else."""
        return {"cell": self.cell, "representative": dict(self.representative)}


def answer_survey(cells: Cells | str | Path, record: Mapping[str, Any] | str | Path) -> Answer:
    """The cell of one record and what it publishes; the record itself goes nowhere.

    Parameters
    ----------
    cells
        Cells of a survey, or the path of their file.
    record
        The quasi-identifiers by name, or the path of a JSON file with them: numbers, text, true or false; dates and
        times as ISO text, durations in seconds. Entries that the cells do not ask for are not looked at.

    Examples
    --------
    >>> from microcell import Schema
    >>> from microcell.surveys import design_survey
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> design = design_survey(people, Schema(quasi=["age"]), 5, participation=0.5, failure=1e-3, method="mdav")
    >>> sorted(answer_survey(design.cells, {"age": 44}).as_dict())
    ['cell', 'representative']
    """
    found = read_cells(cells)
    table = as_table(_read(record) if isinstance(record, (str, Path)) else record, found.encoding)
    placed = encoding.place(table, found.encoding)
    cell = int(found.cells.assign(placed.matrix)[0])
    told = {name: values[cell] for name, values in found.representatives.items()}
    return Answer(
        cell,
        told,
        (*placed.unknown, *_far_out(found.encoding, placed.matrix[0], found.cells.centroids)),
    )


def _far_out(encoding: Encoding, point: Floats, centroids: Floats) -> tuple[str, ...]:
    """The numbers and dates that lie well beyond the means of all cells. More is not known: files tell no extremes."""
    low, high = centroids.min(axis=0), centroids.max(axis=0)
    beyond = (high > low) & (np.maximum(low - point, point - high) > _ROOM * (high - low))
    return tuple(
        column.name
        for column in encoding.columns
        if column.kind in ("numeric", "datetime") and beyond[column.first : column.last].any()
    )


def _read(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_bytes(), object_pairs_hook=_without_repeats)
    except OSError as error:
        raise TableError(
            f"{path} cannot be read: {error.strerror or 'unknown reason'}. Check its name."
        ) from None
    except (ValueError, RecursionError):
        raise TableError(
            f'{path} is not JSON, or has a name twice. Write the record as {{"age": 44, "sex": "female"}}.'
        ) from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):  # which of the two values is meant cannot be told
        raise ValueError
    return out


_SAME = 1e-9
"""Figures are the same if they differ by no more than this share; sums in another order may."""

_HANDLING = ("error", "drop", "impute")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what it is, whether it holds, and a sentence."""

    name: str
    holds: bool
    words: str


@dataclass(frozen=True)
class SurveyCheck:
    """What was found of the cells of a survey; ``holds`` if all of it is as promised."""

    kind: str
    cells: int
    candidates: int
    k: int
    failure: float
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """True if every finding is good."""
        return all(item.holds for item in self.findings)

    def require(self) -> "SurveyCheck":
        """This check, if all holds; :class:`GuaranteeError` with what does not otherwise."""
        if not self.holds:
            raise GuaranteeError(" ".join(item.words for item in self.findings if not item.holds))
        return self

    def as_dict(self) -> dict[str, Any]:
        """The check as plain data, ready for JSON."""
        findings = {item.name: {"holds": item.holds, "words": item.words} for item in self.findings}
        facts = {
            name: getattr(self, name)
            for name in ("kind", "cells", "candidates", "k", "failure", "holds")
        }
        return {**facts, "findings": findings}


def check_survey(
    cells: Cells | str | Path,
    frame: Any = None,
    *,
    participation: str | None = None,
    missing: str = "error",
) -> SurveyCheck:
    """What the cells of a survey promise, computed anew, and compared with the candidates where they are at hand.

    Parameters
    ----------
    cells
        Cells of a survey, or the path of their file, which must be whole: an altered one is a :class:`TableError`.
    frame
        The candidates, as a table; then also the sizes of cells are counted again.
    participation
        The frame's column of probabilities, where these differ.
    missing
        How the design treated candidates without a quasi-identifier.

    Examples
    --------
    >>> from microcell import Schema
    >>> from microcell.surveys import design_survey
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> design = design_survey(people, Schema(quasi=["age"]), 5, participation=0.5, failure=1e-3, method="mdav")
    >>> check_survey(design.cells, people).holds
    True
    """
    found = read_cells(cells)
    if missing not in _HANDLING:
        raise OptionError(f"missing must be one of {', '.join(_HANDLING)}.")
    if participation is not None and frame is None:
        raise OptionError("participation names a column of the frame: give the frame too.")
    roster = read_roster(found.survey, found.cells.sizes)
    findings = list(_check_figures(found, roster))
    if frame is not None:
        findings += _check_frame(found, roster, frame, participation, missing)
    survey = found.survey
    return SurveyCheck(
        found.cells.kind,
        len(found.cells),
        int(found.cells.sizes.sum()),
        survey["k"],
        survey["failure"],
        tuple(findings),
    )


def _check_figures(found: SurveyCells, roster: Roster) -> Iterator[Finding]:
    survey, sizes = found.survey, found.cells.sizes
    k, limit, stated = survey["k"], survey["failure"], np.array(survey["cell_failures"])
    figures = find_figures(roster, k)
    held = (
        "hold the candidates' records, which must be public"
        if found.cells.holds_records
        else "hold no record"
    )
    yield Finding("records", True, f"These are cells of kind {found.cells.kind!r}: they {held}.")
    yield _finding(
        "sizes",
        int((sizes < k).sum()),
        f"Every cell has {k} candidates or more; the smallest has {sizes.min()}.",
        f"cells have fewer than k = {k} candidates.",
    )
    wrong = ~_is_same(stated, figures.failures)
    yield _finding(
        "cell failures",
        int(wrong.sum()),
        "Every cell's stated failure follows from its candidates' participation.",
        "cells state a failure that does not follow from their candidates' participation.",
    )
    over = (figures.failures > limit * (1 + _SAME)) | (stated > limit)
    yield _finding(
        "limit",
        int(over.sum()),
        f"Every cell fails with probability {limit:.4g} or less; the worst with {figures.failures.max():.4g}.",
        f"cells fail with a probability over the accepted {limit:.4g}.",
    )
    for name, value in figures.as_dict().items():
        same = bool(_is_same(np.array(survey[name]), np.array(value)))
        words = name.replace("_", " ")
        good, bad = (
            f"The stated {words} of {value:.4g} follows from the cells.",
            f"The stated {words} does not follow.",
        )
        yield Finding(words, same, good if same else bad)


def _finding(name: str, wrong: int, good: str, bad: str) -> Finding:
    return Finding(name, wrong == 0, good if wrong == 0 else f"{wrong} {bad}")


def _is_same(one: Any, other: Any) -> Any:
    return np.abs(one - other) <= _SAME * np.maximum(np.abs(one), np.abs(other))


def _check_frame(
    found: SurveyCells, roster: Roster, frame: Any, participation: str | None, missing: str
) -> Iterator[Finding]:
    # Named and not imported: respondents without a frame need nothing that reads tables.
    table: Table = import_module("microcell.tables").read(frame)
    points = encoding.place(table, found.encoding).matrix
    rows = _complete(found, table, missing)
    labels = found.cells.assign(points[rows]) if len(rows) else np.zeros(0, dtype=np.int64)
    sizes = np.bincount(labels, minlength=len(found.cells))
    yield _finding(
        "frame",
        int((sizes != found.cells.sizes).sum()),
        f"The {len(rows):,} candidates of the frame are in the cells as stated.",
        "cells have another number of candidates in the frame than they state.",
    )
    if roster.common is None and participation is None:
        yield Finding(
            "participation", True, "Participation was not compared: name its column to have it so."
        )
    elif participation is not None:
        chances = _read_chances(table, participation)[rows]
        order = np.lexsort((chances, labels))
        same = np.array_equal(labels[order], roster.labels) and np.array_equal(
            chances[order], roster.chances
        )
        good, bad = (
            "has the probabilities that the cells state",
            "does not have the probabilities that the cells state",
        )
        yield Finding("participation", same, f"Column {participation!r} {good if same else bad}.")


def _complete(found: SurveyCells, table: Table, missing: str) -> Any:
    """The rows that were designed for."""
    parts = [part for column in found.encoding.columns for part in column.parts]
    lacking = np.zeros(table.rows, dtype=np.bool_)
    for part in parts:
        lacking |= table.columns[part].missing
    if missing == "error" and lacking.any():
        raise OptionError(
            f"{lacking.sum()} candidates lack a quasi-identifier, the first in row {lacking.argmax() + 1}. Say how the "
            "design treated them: missing='drop' or 'impute'."
        )
    return np.flatnonzero(~lacking) if missing == "drop" else np.arange(table.rows)


def _read_chances(table: Table, name: str) -> Floats:
    if name not in table.columns or not table.columns[name].is_number:
        raise SchemaError(
            f"The frame has no column {name!r} of numbers to take participation from. Check its name."
        )
    return table.columns[name].reals()
