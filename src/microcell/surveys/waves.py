"""Waves of a survey: several releases about the same people, k-anonymous together.

Anyone who knows in which cells a person is, and in which waves, looks in all releases for values
that fit. So the people of each *combination* of cells, counting "not in this wave" as a cell, must
be nobody or at least k.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from microcell._display import count, html_card, percent, short_repr
from microcell._validation import check_probability
from microcell.cells import Cells
from microcell.errors import GuaranteeError
from microcell.kernels.participation import exposures_of_cells
from microcell.model import Floats, Integers, Mask, Table
from microcell.surveys.survey_cells import (
    build_roster,
    load_survey_cells,
    read_roster,
    summarize_failures,
)

__all__ = ["NextWave", "combine_waves", "least_participation", "next_wave", "read_answers"]


@dataclass(frozen=True, eq=False, repr=False)
class NextWave:
    """Cells of a further wave: those of the first one, with their own participation and digest."""

    cells: Cells
    joint_failure: float
    """Largest conditional failure of a combination of cells of both waves."""
    suppressed: float
    """Expected share of the participants who are in such a combination with fewer than k."""

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(len(self.cells), f"{self.cells.kind} cell"),
            joint_failure=f"{self.joint_failure:.3g}",
            suppressed=percent(self.suppressed),
        )

    def _repr_html_(self) -> str:
        return html_card(
            "Cells of a further wave",
            {
                "Cells": f"{len(self.cells):,}",
                "Failure over both waves": f"{self.joint_failure:.3g} at most",
                "Expected to be suppressed": percent(self.suppressed),
            },
            next_steps={'wave.cells.save("wave2.json")': "write the cells for the respondents"},
        )


def least_participation(first: Floats, second: float) -> Floats:
    """Return the least probability of taking part in both waves, or in one of them only.

    A cell that protects participants with this probability protects each of the three groups,
    because more participants are always safer. Groups that cannot occur do not count: participation
    must be certain for everybody or for nobody, or a cell would count those who cannot be in the
    group.

    Examples
    --------
    >>> least_participation(np.array([0.75, 0.5]), 0.8).round(3)
    array([0.15, 0.1 ])
    """
    groups = np.stack([first * second, first * (1 - second), (1 - first) * second])
    least: Floats = np.where(groups > 0, groups, 1.0).min(axis=0)
    return least


def next_wave(
    cells: Cells | str | Path, participation: float, *, suppress: bool = False
) -> NextWave:
    """Return cells for a further wave that keep the guarantee over both releases together.

    They have the same shape, so that nobody changes cells. Design the first wave with
    ``next_wave``, which makes its cells large enough.

    Parameters
    ----------
    cells
        Cells of the first wave, or the path of their file.
    participation
        Probability that a candidate takes part in the further wave, whether or not in the first.
    suppress
        Accept cells that may fail over both waves, because ``collect(earlier=...)`` suppresses
        what would expose anybody. The result states how much that is.

    Raises
    ------
    GuaranteeError
        The cells miss the limit, in the further wave alone or over both waves.

    Examples
    --------
    >>> from microcell import Schema, surveys
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> design = surveys.design(
    ...     people, Schema(quasi=["age"]), 3, 0.5, 1e-2, next_wave=0.5, method="mdav"
    ... )
    >>> next_wave(design.cells, 0.5).joint_failure <= 1e-2
    True
    """
    survey = load_survey_cells(cells)
    second = check_probability(participation, "participation")
    k, limit = survey.k, float(survey.survey["failure"])
    roster = read_roster(survey.survey, survey.cells.sizes)
    first = roster.probabilities
    joint, suppressed = 0.0, 0.0
    for group in (first * second, first * (1 - second), (1 - first) * second):
        members = group > 0  # the others are certain not to belong to the group
        if members.any():
            labels = np.unique(roster.labels[members], return_inverse=True)[1].reshape(-1)
            joint = max(joint, float(exposures_of_cells(labels, group[members], k).max()))
            moments, _ = build_roster(labels, group[members]).moments(k)
            suppressed += float(moments.sum())
    later = build_roster(roster.labels, np.full(len(first), second))
    failures = summarize_failures(later, k)
    worst = max(joint, float(failures.limited(survey.failure_of).max()))
    if worst > limit and not suppress:
        raise GuaranteeError(
            f"With a participation of {percent(second)} in the further wave, a combination of "
            f"cells of both waves fails with probability {worst:.3g}, above the limit of "
            f"{limit:.3g}. Design the first wave for it (next_wave, --next-wave), or accept that "
            "answers are suppressed (suppress=True, --suppress).",
            code="guarantee.failed",
        )
    section = {
        **survey.survey,
        "wave": {"after": survey.cells.digest, "suppress": bool(worst > limit)},
        "failure": max(limit, float(failures.limited(survey.failure_of).max())),
        "participation": later.as_section(),
        "cell_failures": np.minimum(failures.by_cell, 1.0).tolist(),
        "failure_of": survey.failure_of,
        "conditional_failures": failures.conditional.tolist(),
        **failures.as_dict(),
    }
    section.pop("most_participants", None)
    expected = float(first.sum() + second * len(first))
    return NextWave(replace(survey.cells, survey=section), joint, suppressed / expected)


# ------------------------------------------------------------------------------------ collection


def read_answers(table: Table, id: str) -> list[str]:
    """Return the respondent of each row as text, so that files of any type agree."""
    codes, names = table.columns[id].factorize()
    return [str(names[code]) if code >= 0 else "" for code in codes.tolist()]


def combine_waves(
    respondents: Sequence[str],
    labels: Integers,
    published: Mask,
    earlier: Sequence[Mapping[str, int]],
    k: int,
) -> Mask:
    """Return which answers can be published such that all waves together are k-anonymous.

    Everybody in a release has a combination: the cell in each wave, or none. Answers of this wave
    are withheld until each combination is that of at least k people. What earlier waves published
    cannot be changed, so people who are in an earlier wave only may become too few by answers of
    this wave: then all answers of people with the same earlier cells are withheld.

    Examples
    --------
    >>> first = {"a": 0, "b": 0, "c": 0, "d": 0}
    >>> combine_waves(list("abcx"), np.zeros(4, int), np.ones(4, bool), [first], 2).tolist()
    [False, False, False, False]
    >>> combine_waves(list("abxy"), np.zeros(4, int), np.ones(4, bool), [first], 2).tolist()
    [True, True, True, True]
    """
    before = {name: tuple(wave.get(name, -1) for wave in earlier) for name in respondents}
    everybody = {name for wave in earlier for name in wave}
    past = {name: tuple(wave.get(name, -1) for wave in earlier) for name in everybody}
    keep = published.copy()
    while True:
        now = {
            name: cell
            for name, cell, kept in zip(respondents, labels.tolist(), keep.tolist(), strict=True)
            if kept
        }
        combined = Counter((past.get(name, before.get(name)), cell) for name, cell in now.items())
        absent = Counter(cells for name, cells in past.items() if name not in now)
        per_cell = Counter(now.values())
        exposed = {
            name
            for name, cell in now.items()
            if combined[before[name], cell] < k
            or 0 < absent[before[name]] < k
            or per_cell[cell] < k
        }
        if not exposed:
            return keep
        keep &= np.array([name not in exposed for name in respondents], dtype=np.bool_)
