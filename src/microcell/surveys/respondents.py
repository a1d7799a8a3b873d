"""The respondent's side of a survey: check the cells, then answer without revealing the record.

Respondents run this on their own devices. It must not load tables or partitioning methods.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from importlib import import_module
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from microcell import encoding
from microcell._display import count, html_card, record_html, record_repr, short_repr
from microcell._files import parse_json, unreadable
from microcell.cells import Cells
from microcell.errors import DataError, GuaranteeError, OptionError, SchemaError, TableError
from microcell.kinds import kind_of
from microcell.model import EncodedColumn, Encoding, Floats, Integers, Table, Values
from microcell.surveys.survey_cells import (
    Roster,
    SurveyCells,
    load_survey_cells,
    read_roster,
    summarize_failures,
)

__all__ = ["Answer", "CheckFinding", "SurveyCheck", "answer", "as_table", "check"]


# --------------------------------------------------------------------------------------- answer

_FAR_OUT = 0.5
"""A number is far out if it exceeds the range of all cell means by this share of the range."""


@dataclass(frozen=True)
class Answer:
    """What a respondent submits instead of the record."""

    cell: int
    representative: Mapping[str, Any] = field(repr=False)
    unfamiliar: tuple[str, ...] = ()
    """Columns with an unknown category or a number far from all cells, for which the nearest cell
    was chosen. Only shown to the respondent, not submitted."""

    __repr__ = record_repr
    _repr_html_ = record_html

    def as_dict(self) -> dict[str, Any]:
        """Return what is submitted: the cell and its representative, nothing else."""
        return {"cell": self.cell, "representative": dict(self.representative)}


def answer(cells: Cells | str | Path, record: Mapping[str, Any] | str | Path) -> Answer:
    """Return the cell of a record and what the cell publishes. The record stays on the device.

    Parameters
    ----------
    cells
        Cells of a survey, or the path of their file.
    record
        Quasi-identifiers by name, or the path of a JSON file with them: numbers, text, true or
        false; dates and times as ISO text, durations in seconds. Other entries are ignored.

    Raises
    ------
    SchemaError, DataError
        A quasi-identifier is missing or has the wrong type.

    Examples
    --------
    >>> from microcell import Schema, surveys
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> schema = Schema(quasi=["age"])
    >>> design = surveys.design(people, schema, 5, 0.5, 1e-3, method="mdav")
    >>> sorted(answer(design.cells, {"age": 44}).as_dict())
    ['cell', 'representative']
    """
    survey = load_survey_cells(cells)
    values = _read_json(record) if isinstance(record, (str, Path)) else record
    placed = encoding.place(as_table(values, survey.encoding), survey.encoding)
    cell = int(survey.cells.assign(placed.matrix)[0])
    representative = {name: column[cell] for name, column in survey.representatives.items()}
    far_out = _far_out(survey.encoding, placed.matrix[0], survey.cells.centroids)
    return Answer(cell, representative, (*placed.unknown, *far_out))


def _far_out(fitted: Encoding, point: Floats, centroids: Floats) -> tuple[str, ...]:
    """Return the numeric and datetime columns in which the record is far beyond all cell means.

    The file does not state the extremes of the candidates, so the means are used instead.
    """
    low = centroids.min(axis=0)
    high = centroids.max(axis=0)
    beyond = (high > low) & (np.maximum(low - point, point - high) > _FAR_OUT * (high - low))
    return tuple(
        column.name
        for column in fitted.columns
        if column.layout == "line" and beyond[column.first : column.last].any()
    )


def _read_json(path: str | Path) -> Any:
    try:
        return parse_json(Path(path).read_bytes())
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError):
        raise TableError(
            f"{path} is not valid JSON or repeats a name. Write the record as "
            '{"age": 44, "sex": "female"}.',
            code="table.malformed",
            path=str(path),
        ) from None


# --------------------------------------------------------------------------- records as tables

_PRESENT = np.zeros(1, dtype=np.bool_)
"""Mask of one value that is not missing."""


def as_table(record: Any, fitted: Encoding) -> Table:
    """Return a record as a table of one row with the columns of the encoding.

    Other entries of the record are ignored. Raises :class:`SchemaError` if a column is missing and
    :class:`DataError` if a value is missing or of another type than the candidates had. The
    messages do not contain the value.
    """
    if not isinstance(record, Mapping):
        raise DataError(
            "A record must map column names to values.",
            code="data.invalid",
            option="record",
        )
    parts = [(part, column) for column in fitted.columns for part in column.parts]
    absent = [part for part, _ in parts if part not in record]
    if absent:
        raise SchemaError(
            f"The record lacks {', '.join(map(repr, absent))}. Provide all quasi-identifiers.",
            code="schema.unknown_column",
            columns=tuple(absent),
        )
    empty = [part for part, _ in parts if _is_missing(record[part])]
    if empty:
        raise DataError(
            f"The record has no value for {', '.join(map(repr, empty))}. The cell depends on "
            "it, so provide one.",
            code="data.missing_values",
            columns=tuple(empty),
        )
    columns = {part: _as_values(part, column, record[part]) for part, column in parts}
    return Table(columns, rows=1, native=None)


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


def _as_values(part: str, column: EncodedColumn, value: Any) -> Values:
    storage = "float" if kind_of(column).only_numbers else column.storage
    read, expected = _READERS[storage]
    try:
        values = read(value)
    except (TypeError, ValueError, OverflowError):
        values = None
    if values is None:
        raise DataError(
            f"{part!r} must be {expected}.",
            code="data.invalid",
            column=part,
        )
    return values


def _read_number(value: Any) -> Values | None:
    """Read a number; integers stay integers, because floats cannot represent large ones."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return Values("integer", np.array([value], dtype=np.int64), _PRESENT)
    number = float(value)
    return None if np.isinf(number) else Values("float", np.array([number]), _PRESENT)


def _read_text(value: Any) -> Values | None:
    return _categorical("text", (str(value),), 0) if isinstance(value, str) else None


def _read_boolean(value: Any) -> Values | None:
    if not isinstance(value, (bool, np.bool_)):
        return None
    return _categorical("boolean", ("false", "true"), int(value))


def _categorical(storage: Any, names: tuple[str, ...], code: int) -> Values:
    return Values(storage, np.array([code], dtype=np.int64), _PRESENT, categories=names)


def _read_datetime(value: Any) -> Values | None:
    """Read a date, or a date and time; times with a zone are converted to UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return _counted("datetime", elapsed // timedelta(microseconds=1))
    if isinstance(value, date):
        days = value.toordinal() - date(1970, 1, 1).toordinal()
        return Values("date", np.array([days]), _PRESENT, unit="D")
    return None


def _read_time(value: Any) -> Values | None:
    if isinstance(value, str):
        value = time.fromisoformat(value.strip())
    if not isinstance(value, time):
        return None
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _counted("time", seconds * 10**6 + value.microsecond)


def _read_duration(value: Any) -> Values | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, timedelta)):
        return None
    duration = value if isinstance(value, timedelta) else timedelta(seconds=value)
    return _counted("duration", duration // timedelta(microseconds=1))


def _read_empty(_value: Any) -> Values:
    return Values("empty", np.zeros(1, dtype=np.int64), ~_PRESENT)


def _counted(storage: Any, microseconds: int) -> Values:
    return Values(storage, np.array([microseconds], dtype=np.int64), _PRESENT, unit="us")


_READERS: dict[str, tuple[Callable[[Any], Values | None], str]] = {
    "integer": (_read_number, "a number"),
    "float": (_read_number, "a number"),
    "text": (_read_text, "text in quotes"),
    "boolean": (_read_boolean, "true or false"),
    "date": (_read_datetime, "a date such as 2024-05-01"),
    "datetime": (_read_datetime, "a date and time such as 2024-05-01T09:30:00"),
    "time": (_read_time, "a time such as 09:30:00"),
    "duration": (_read_duration, "a number of seconds"),
    "empty": (_read_empty, "anything"),
}
"""Reader for each storage type, and the message for a value that does not fit."""


# ---------------------------------------------------------------------------------------- check

_TOLERANCE = 1e-9
"""Relative difference up to which numbers count as equal; another order of summation may differ."""

_MISSING = ("error", "drop", "impute")


@dataclass(frozen=True)
class CheckFinding:
    """Result of one check of the cells."""

    name: str
    holds: bool
    message: str

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True, repr=False)
class SurveyCheck:
    """Result of checking the cells of a survey."""

    kind: str
    cells: int
    candidates: int
    k: int
    failure: float
    findings: tuple[CheckFinding, ...]

    def __repr__(self) -> str:
        n_failed = sum(not finding.holds for finding in self.findings)
        return short_repr(
            self,
            count(self.cells, f"{self.kind} cell"),
            f"{n_failed} of {count(len(self.findings), 'check')} failed",
            k=self.k,
            holds=self.holds,
        )

    def _repr_html_(self) -> str:
        return html_card(
            "All checks passed" if self.holds else "Some checks failed",
            {
                "k": f"{self.k:,}",
                "Cells": f"{self.cells:,} ({self.kind})",
                "Candidates": f"{self.candidates:,}",
                "Accepted failure probability": f"{self.failure:.3g}",
            },
            notes=[finding.message for finding in self.findings if not finding.holds],
        )

    @property
    def holds(self) -> bool:
        """True if every check passed."""
        return all(finding.holds for finding in self.findings)

    def require(self) -> "SurveyCheck":
        """Return this check, or raise :class:`GuaranteeError` if a check failed."""
        failed = [finding for finding in self.findings if not finding.holds]
        if failed:
            raise GuaranteeError(
                " ".join(finding.message for finding in failed),
                code="guarantee.failed",
                checks=tuple(finding.name for finding in failed),
            )
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary ready for JSON."""
        return {
            "kind": self.kind,
            "cells": self.cells,
            "candidates": self.candidates,
            "k": self.k,
            "failure": self.failure,
            "holds": self.holds,
            "findings": {
                finding.name: {"holds": finding.holds, "message": finding.message}
                for finding in self.findings
            },
        }


def check(
    cells: Cells | str | Path,
    frame: Any = None,
    *,
    participation: str | None = None,
    missing: str = "error",
) -> SurveyCheck:
    """Verify the promises of a survey's cells by recomputing them.

    Parameters
    ----------
    cells
        Cells of a survey, or the path of their file. An altered file is a :class:`TableError`.
    frame
        The candidates, as a table. If given, the sizes of the cells are checked too.
    participation
        Column of the frame with the candidates' probabilities, to be compared with the file.
    missing
        How the design handled candidates without a quasi-identifier.

    Examples
    --------
    >>> from microcell import Schema, surveys
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> schema = Schema(quasi=["age"])
    >>> design = surveys.design(people, schema, 5, 0.5, 1e-3, method="mdav")
    >>> check(design.cells, people).holds
    True
    """
    loaded = load_survey_cells(cells)
    if missing not in _MISSING:
        raise OptionError(
            f"missing must be one of {', '.join(_MISSING)}.",
            code="option.unknown",
            option="missing",
        )
    if participation is not None and frame is None:
        raise OptionError(
            "participation names a column of the frame, so it requires a frame.",
            code="option.conflict",
            option="participation",
        )
    roster = read_roster(loaded.survey, loaded.cells.sizes)
    findings = list(_check_promise(loaded, roster))
    if frame is not None:
        findings += _check_frame(loaded, roster, frame, participation, missing)
    return SurveyCheck(
        kind=loaded.cells.kind,
        cells=len(loaded.cells),
        candidates=int(loaded.cells.sizes.sum()),
        k=loaded.survey["k"],
        failure=loaded.survey["failure"],
        findings=tuple(findings),
    )


def _check_promise(loaded: SurveyCells, roster: Roster) -> Iterator[CheckFinding]:
    """Check that the statements in the file agree with its cells."""
    survey, sizes = loaded.survey, loaded.cells.sizes
    k, limit = survey["k"], survey["failure"]
    stated = np.array(survey["cell_failures"])
    summary = summarize_failures(roster, k)
    content = "no records"
    if loaded.cells.holds_records:
        content = "the candidates' records, which must be public"
    yield CheckFinding(
        "records", True, f"These are cells of kind {loaded.cells.kind!r}. They contain {content}."
    )
    yield _count_finding(
        "sizes",
        int((sizes < k).sum()),
        f"Every cell has at least {k} candidates; the smallest has {sizes.min()}.",
        f"fewer than k = {k} candidates",
    )
    yield _count_finding(
        "cell failures",
        int((~_is_close(stated, summary.by_cell)).sum()),
        "The stated failure probability of every cell follows from its expected participation.",
        "a stated failure probability that does not follow from the expected participation",
    )
    if "failure_of" in survey:
        given = np.array(survey["conditional_failures"])
        yield _count_finding(
            "conditional failures",
            int((~_is_close(given, summary.conditional)).sum()),
            "The stated failure probability of every cell, given that somebody takes part, follows "
            "from its expected participation.",
            "a stated failure probability, given that somebody takes part, that does not follow "
            "from the expected participation",
        )
        stated = given if loaded.failure_of == "participant" else stated
    limited = summary.limited(loaded.failure_of)
    above = (limited > limit * (1 + _TOLERANCE)) | (stated > limit)
    given_somebody = " given that somebody takes part" if loaded.failure_of == "participant" else ""
    yield _count_finding(
        "limit",
        int(above.sum()),
        f"Every cell meets the failure limit of {limit:.4g}{given_somebody}. The worst cell fails "
        f"with probability {summary.worst:.4g}, and with {summary.worst_conditional:.4g} given "
        "that somebody takes part.",
        f"a failure probability above the limit of {limit:.4g}{given_somebody}",
    )
    for key, value in summary.as_dict().items():
        name = key.replace("_", " ")
        holds = bool(_is_close(np.array(survey[key]), np.array(value)))
        verdict = "follows" if holds else "does not follow"
        stated_value = f" ({value:.4g})" if holds else ""
        quantity = "number of unprotected participants" if key == "unprotected" else name
        message = f"The stated {quantity}{stated_value} {verdict} from the cells."
        yield CheckFinding(name, holds, message)


def _count_finding(name: str, n_wrong: int, passed: str, problem: str) -> CheckFinding:
    if n_wrong == 0:
        return CheckFinding(name, True, passed)
    subject = "1 cell has" if n_wrong == 1 else f"{n_wrong} cells have"
    return CheckFinding(name, False, f"{subject} {problem}.")


def _is_close(a: Any, b: Any) -> Any:
    return np.abs(a - b) <= _TOLERANCE * np.maximum(np.abs(a), np.abs(b))


def _check_frame(
    loaded: SurveyCells, roster: Roster, frame: Any, participation: str | None, missing: str
) -> Iterator[CheckFinding]:
    """Check that the file agrees with the candidates of the frame."""
    # Imported by name: respondents without a frame need nothing that reads tables.
    table: Table = import_module("microcell.tables").read(frame)
    points = encoding.place(table, loaded.encoding).matrix
    rows = _designed_rows(loaded, table, missing)
    labels = loaded.cells.assign(points[rows]) if len(rows) else np.zeros(0, dtype=np.int64)
    sizes = np.bincount(labels, minlength=len(loaded.cells))
    yield _count_finding(
        "frame",
        int((sizes != loaded.cells.sizes).sum()),
        f"The {len(rows):,} candidates of the frame are in the cells as stated.",
        "another number of candidates in the frame than stated",
    )
    if participation is not None:
        probabilities = _read_probabilities(table, participation)[rows]
        order = np.lexsort((probabilities, labels))
        holds = np.array_equal(labels[order], roster.labels) and np.array_equal(
            probabilities[order], roster.probabilities
        )
        verdict = "has" if holds else "does not have"
        yield CheckFinding(
            "participation",
            holds,
            f"Column {participation!r} {verdict} the probabilities stated in the file.",
        )
    elif roster.common is None:
        yield CheckFinding(
            "participation",
            True,
            "Participation was not compared: name its column to compare it.",
        )


def _designed_rows(loaded: SurveyCells, table: Table, missing: str) -> Integers:
    incomplete = np.zeros(table.rows, dtype=np.bool_)
    for column in loaded.encoding.columns:
        for part in column.parts:
            incomplete |= table.columns[part].missing
    if missing == "error" and incomplete.any():
        row = int(incomplete.argmax()) + 1
        raise OptionError(
            f"{count(int(incomplete.sum()), 'candidate')} of the frame "
            f"{'lacks' if incomplete.sum() == 1 else 'lack'} a quasi-identifier, first in row "
            f"{row}. Set missing to what the design used: 'drop' or 'impute'.",
            code="option.invalid",
            option="missing",
            row=row,
            count=int(incomplete.sum()),
        )
    return np.flatnonzero(~incomplete) if missing == "drop" else np.arange(table.rows)


def _read_probabilities(table: Table, name: str) -> Floats:
    if name not in table.columns or not table.columns[name].is_number:
        raise SchemaError(
            f"The frame has no numeric participation column {name!r}. Check the name.",
            code="schema.unknown_column",
            column=name,
        )
    return table.columns[name].reals()
