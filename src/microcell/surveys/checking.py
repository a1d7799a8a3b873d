"""Whether the cells of a survey keep what they promise: for respondents, before they trust them."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from microcell import encoding
from microcell.cells import Cells
from microcell.errors import GuaranteeError, OptionError, SchemaError
from microcell.model import Floats, Table
from microcell.surveys._figures import Roster, find_figures, read_roster
from microcell.surveys._survey_cells import SurveyCells, read_cells

__all__ = ["Finding", "SurveyCheck", "check_survey"]

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
        facts = {name: getattr(self, name) for name in ("kind", "cells", "candidates", "k", "failure", "holds")}
        return {**facts, "findings": findings}


def check_survey(
    cells: Cells | str | Path, frame: Any = None, *, participation: str | None = None, missing: str = "error"
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
    >>> from microcell import Schema, design_survey
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
    held = "hold the candidates' records, which must be public" if found.cells.holds_records else "hold no record"
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
        good, bad = f"The stated {words} of {value:.4g} follows from the cells.", f"The stated {words} does not follow."
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
        yield Finding("participation", True, "Participation was not compared: name its column to have it so.")
    elif participation is not None:
        chances = _read_chances(table, participation)[rows]
        order = np.lexsort((chances, labels))
        same = np.array_equal(labels[order], roster.labels) and np.array_equal(chances[order], roster.chances)
        good, bad = "has the probabilities that the cells state", "does not have the probabilities that the cells state"
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
        raise SchemaError(f"The frame has no column {name!r} of numbers to take participation from. Check its name.")
    return table.columns[name].reals()
