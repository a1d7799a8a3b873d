"""The status of a running survey: participants per cell, without anybody's answer."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from microcell import tables
from microcell._display import count, frame_of_rows, html_card, percent, record_html, short_repr
from microcell._validation import check_probability
from microcell.cells import Cells
from microcell.kernels.participation import chi_squared_tail, normal_tail
from microcell.kernels.participation import count as count_participants
from microcell.measures import people
from microcell.measures.classes import number_values
from microcell.model import Floats, Integers
from microcell.model.manifest import ParticipationTest
from microcell.surveys.answers import check_answers, find_cells
from microcell.surveys.evidence import REFUTED, compare_participation
from microcell.surveys.forms import render_page
from microcell.surveys.ledger import Ledger
from microcell.surveys.rejects import Rejected, Rejects
from microcell.surveys.survey_cells import SurveyCells, load_survey_cells, read_roster

__all__ = ["CellStatus", "SurveyStatus", "status"]

_REMIND = 0.05
"""Cells that are more likely than this to end up short are worth a reminder."""


@dataclass(frozen=True)
class CellStatus:
    """Status of one cell."""

    cell: int
    candidates: int
    expected: float
    """Expected number of participants at the end."""
    attained: int | None
    """Number of participants so far, rounded down to a multiple of k; None for fewer than k,
    including nobody. So the total does not reveal the number of a single cell."""
    risk: float
    """Probability that the cell ends with 1 to k - 1 participants, rounded if they are fewer than k
    so far: whoever sees the status cannot tell how many they are."""
    remind: bool
    """Whether it is worth reminding the candidates of this cell."""

    _repr_html_ = record_html

    def __repr__(self) -> str:
        return short_repr(self, cell=self.cell, candidates=self.candidates, remind=self.remind)


@dataclass(frozen=True, repr=False)
class SurveyStatus:
    """Status of a running survey. Contains no answer, and no number of participants below k."""

    k: int
    answers: int
    """Answers so far that can be used."""
    expected: float
    """Expected number of participants at the end."""
    elapsed: float
    """Share of the collection that has passed; estimated from the answers unless it was given."""
    cells: tuple[CellStatus, ...]
    test: ParticipationTest
    """Whether the answers so far fit the assumed participation."""
    closed: bool
    released: bool
    """Whether the design has been released."""
    rejected: tuple[Rejected, ...] = ()
    """Answers that cannot be used."""

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(self.answers, "answer"),
            k=self.k,
            cells=len(self.cells),
            remind=len(self.to_remind),
            refuted=self.test.refuted,
        )

    def _repr_html_(self) -> str:
        return html_card(
            self.alarm or "The answers so far fit the assumed participation",
            {
                "Answers": f"{self.answers:,} of {self.expected:,.0f} expected",
                "Cells to remind": f"{len(self.to_remind):,} of {len(self.cells):,}",
                "Rejected": f"{len(self.rejected):,}",
            },
            next_steps={"status.to_frame()": "all cells", "status.render()": "a page"},
        )

    @property
    def to_remind(self) -> tuple[int, ...]:
        """Cells whose candidates should be reminded, the most urgent first."""
        urgent = sorted((-each.risk, each.cell) for each in self.cells if each.remind)
        return tuple(cell for _, cell in urgent)

    @property
    def alarm(self) -> str | None:
        """What is wrong if the assumed participation is refuted, otherwise None."""
        if not self.test.refuted:
            return None
        return (
            "The assumed participation is refuted, so the promised failure probabilities do not "
            "hold. Extend the collection or send reminders; otherwise more cells than expected "
            "will be suppressed."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the status as a dictionary ready for JSON."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "cells": [asdict(each) for each in self.cells],
            "rejected": [asdict(each) for each in self.rejected],
            "test": self.test.model_dump(mode="json"),
            "to_remind": list(self.to_remind),
        }

    def to_frame(self) -> Any:
        """Return the cells as a data frame, a row per cell."""
        return frame_of_rows([asdict(each) for each in self.cells])

    def render(self, *, title: str = "Survey status") -> str:
        """Return the status as a self-contained HTML page."""
        return render_page(
            "survey_status.html", title=title, status=self, percent=percent, digits=_format_risk
        )


def _format_risk(risk: float) -> str:
    return "below 0.1 %" if risk < 1e-3 else percent(risk)


def status(
    cells: Cells | str | Path,
    answers: Any,
    *,
    id: str | None = None,
    person: str | None = None,
    elapsed: float | None = None,
    closed: bool = False,
) -> SurveyStatus:
    """Compare the participants of each cell so far with the design.

    Invalid answers are listed instead of being an error. Numbers of participants by cell are
    rounded down to multiples of k: two exact statuses in a row would show whose answer has just
    arrived.

    Parameters
    ----------
    cells, answers, id, person
        As for :func:`collect`. Other columns of the answers are not used.
    elapsed
        Share of the collection that has passed, from 0 to 1. By default it is estimated as the
        share of the expected participants who have answered.
    closed
        State that no more answers will come: the assumed participation is then tested in full.
        Before that, only more participants than expected and uneven progress of the cells count
        against it.

    Examples
    --------
    >>> from microcell import Schema, surveys
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> design = surveys.design(people, Schema(quasi=["age"]), 5, 0.5, 1e-3, method="mdav")
    >>> result = status(design.cells, {"cell": design.labels[:200]})
    >>> result.answers, result.test.refuted
    (200, False)
    """
    survey = load_survey_cells(cells)
    table = tables.read(answers)
    rejects = Rejects(table.rows, listed=True)
    check_answers(survey, table, id=id, drop=(), person=person, rejects=rejects)
    labels = find_cells(survey, table, rejects)
    rows = rejects.valid_rows()
    persons = None if person is None else number_values(table.columns[person])[rows]
    attained = _count_by_cell(labels[rows], persons, len(survey.cells))
    roster = read_roster(survey.survey, survey.cells.sizes)
    means = np.bincount(roster.labels, roster.probabilities).astype(np.float64)
    if elapsed is None:
        elapsed = 1.0 if closed else min(1.0, float(attained.sum() / means.sum()))
    elif elapsed != 0:
        elapsed = check_probability(elapsed, "elapsed")
    elapsed = 1.0 if closed else float(elapsed)
    return SurveyStatus(
        k=survey.k,
        answers=len(rows),
        expected=float(means.sum()),
        elapsed=elapsed,
        cells=_describe_cells(survey, attained, means, elapsed),
        test=_rounded(
            compare_participation(survey, attained) if closed else _test_so_far(survey, attained)
        ),
        closed=closed,
        released=_is_released(cells, survey),
        rejected=rejects.as_tuple(),
    )


def _rounded(test: ParticipationTest) -> ParticipationTest:
    """Return the test with rounded probabilities: all digits would reveal the numbers of cells."""
    return test.model_copy(
        update={"p_total": float(f"{test.p_total:.2g}"), "p_cells": float(f"{test.p_cells:.2g}")}
    )


def _count_by_cell(labels: Integers, persons: Integers | None, n_cells: int) -> Integers:
    attained = np.zeros(n_cells, dtype=np.int64)
    if len(labels):
        attained[: int(labels.max()) + 1] = people.count_people(labels, persons)
    return attained


def _is_released(cells: Cells | str | Path, survey: SurveyCells) -> bool:
    if isinstance(cells, Cells):
        return False
    return bool(Ledger.beside(cells, survey.cells.digest).releases)


def _describe_cells(
    survey: SurveyCells, attained: Integers, means: Floats, elapsed: float
) -> tuple[CellStatus, ...]:
    k, sizes = survey.k, survey.cells.sizes
    described = []
    for cell, (size, n, mean) in enumerate(
        zip(sizes.tolist(), attained.tolist(), means.tolist(), strict=True)
    ):
        q = min(mean / size, 1.0)
        # Those who have not answered yet do so with this probability.
        later = q * (1 - elapsed) / (1 - q * elapsed) if q * elapsed < 1 else 0.0
        short = n < k
        risk = _risk_of_few(size, k, later) if short else 0.0
        shown = None if short else n // k * k
        described.append(CellStatus(cell, size, mean, shown, risk, short and risk > _REMIND))
    return tuple(described)


def _risk_of_few(size: int, k: int, later: float) -> float:
    """Return the risk of a cell with fewer than k participants, regardless of their number.

    It is that of a cell with k/2 of them, so that it does not reveal the number.
    """
    n = min(k // 2, size)
    if later <= 0:
        return 1.0
    missing = k - n
    others = size - n
    if others <= 0:
        return 1.0
    nobody = (1 - later) ** others
    return min(1.0, nobody + (count_participants(others, missing, later).failure))


def _test_so_far(survey: SurveyCells, attained: Integers) -> ParticipationTest:
    """Test the assumed participation while answers still arrive.

    More participants than expected refute it, and so do cells that differ more from each other than
    by chance, given the total so far.
    """
    roster = read_roster(survey.survey, survey.cells.sizes)
    means = np.bincount(roster.labels, roster.probabilities).astype(np.float64)
    spread = float(np.sqrt((roster.probabilities * (1 - roster.probabilities)).sum()))
    total = float(attained.sum())
    most = float(survey.survey.get("most_participants", means.sum()))
    above = total - most - 0.5
    p_total = 1.0 if above <= 0 else normal_tail(above / spread) if spread > 0 else 0.0
    share = min(total / means.sum(), 1.0)
    q = roster.probabilities * share
    variances = np.bincount(roster.labels, q * (1 - q)).astype(np.float64)
    varied = variances >= 1
    differences = (attained - total * means / means.sum())[varied]
    degrees = int(varied.sum()) - 1
    p_cells = 1.0
    if degrees > 0 and "most_participants" not in survey.survey:
        p_cells = chi_squared_tail(degrees, float((differences**2 / variances[varied]).sum()))
    return ParticipationTest(
        participants=int(total),
        expected=float(means.sum()),
        p_total=p_total,
        p_cells=p_cells,
        refuted=min(p_total, p_cells) < REFUTED,
    )
