"""Test whether the answers of a survey fit the participation that its design assumed."""

import numpy as np

from microcell.kernels.participation import chi_squared_tail, normal_tail
from microcell.model import Floats, Integers
from microcell.model.manifest import ParticipationTest
from microcell.surveys.survey_cells import SurveyCells, read_roster

__all__ = ["REFUTED", "compare_participation"]

REFUTED = 1e-3
"""Assumptions that make the answers less likely than this are refuted."""


def compare_participation(survey: SurveyCells, attained: Integers) -> ParticipationTest:
    """Compare the number of participants per cell with the expected participation.

    The total is compared by a normal approximation (two-sided, with continuity correction), and the
    cells by the sum of their squared standardized differences, which is about chi-squared; only
    larger differences than expected count. Candidates certain to take part add nothing. If the
    design assumed an interval, only fewer participants than its lower end, and more than its upper
    end in total, count as differences.
    """
    roster = read_roster(survey.survey, survey.cells.sizes)
    q = roster.probabilities
    n_cells = len(attained)
    means: Floats = np.bincount(roster.labels, q, minlength=n_cells).astype(np.float64)
    variances: Floats = np.bincount(roster.labels, q * (1 - q), minlength=n_cells).astype(float)
    most = survey.survey.get("most_participants")
    difference = float(attained.sum() - means.sum())
    by_cell = attained - means
    if most is not None:
        difference = max(float(attained.sum()) - most, 0.0) if difference > 0 else difference
        by_cell = np.minimum(by_cell, 0.0)
    spread = float(np.sqrt(variances.sum()))
    p_total = 1.0 if abs(difference) <= 0.5 else 0.0
    if spread > 0:
        p_total = min(1.0, 2 * normal_tail(max(0.0, abs(difference) - 0.5) / spread))
    p_cells = _compare_cells(by_cell, variances)
    return ParticipationTest(
        participants=int(attained.sum()),
        expected=float(means.sum()),
        p_total=p_total,
        p_cells=p_cells,
        refuted=min(p_total, p_cells) < REFUTED,
    )


def _compare_cells(differences: Floats, variances: Floats) -> float:
    # The approximation needs a few expected participants and absentees per cell.
    varied = variances >= 1
    if not varied.any():
        return 1.0
    statistic = float((differences[varied] ** 2 / variances[varied]).sum())
    return chi_squared_tail(int(varied.sum()), statistic)
