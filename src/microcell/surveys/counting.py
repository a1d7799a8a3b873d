"""Participants of each cell, and what cells with fewer than k of them publish."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from microcell._display import count, record_repr
from microcell.errors import TooFewRecordsError
from microcell.kernels.arrays import squared_distances
from microcell.measures import people
from microcell.measures.classes import number_values
from microcell.model import Floats, Integers, Mask, Table
from microcell.surveys.survey_cells import SurveyCells

__all__ = ["Counts", "count_answers", "merge_cells"]


@dataclass(frozen=True, eq=False)
class Counts:
    """Answers by cell, and the cell that each cell publishes (-1: suppressed or empty)."""

    labels: Integers
    persons: Integers | None
    answered: Integers
    """Number of answers of each cell."""
    attained: Integers
    """Number of people who answered in each cell."""
    groups: Integers
    withheld: Mask | None = None
    """Answers that are suppressed because of an earlier wave."""

    __repr__ = record_repr

    @property
    def rows(self) -> Integers:
        """Rows to be published."""
        published = self.groups[self.labels] >= 0
        return np.flatnonzero(published if self.withheld is None else published & ~self.withheld)


def count_answers(
    survey: SurveyCells, table: Table, labels: Integers, person: str | None, below: str
) -> Counts:
    k = survey.k
    persons = None if person is None else number_values(table.columns[person])
    n_people = table.rows if persons is None else len(np.unique(persons))
    _check_enough(n_people, k, "answer" if persons is None else "respondent")
    answered = np.bincount(labels, minlength=len(survey.cells))
    attained = answered.copy()
    attained[: int(labels.max()) + 1] = people.count_people(labels, persons)
    groups = np.where(attained >= k, np.arange(len(attained)), -1)
    if below == "merge":
        respondents = None if persons is None else _persons_by_cell(labels, persons)
        groups = merge_cells(survey.cells.centroids, answered, k, respondents)
    counts = Counts(labels, persons, answered, attained, groups)
    if len(counts.rows) == 0:
        raise TooFewRecordsError(
            f"No cell has k = {k} answers, so nothing would be left to publish. Merge cells "
            "(below='merge'), or wait for more answers.",
            code="guarantee.too_few_records",
            k=k,
        )
    return counts


def _check_enough(n: int, k: int, noun: str) -> None:
    if n < k:
        raise TooFewRecordsError(
            f"The table has {count(n, noun)}, fewer than k = {k}. Wait for more {noun}s.",
            code="guarantee.too_few_records",
            k=k,
            records=n,
            unit=f"{noun}s",
        )


def merge_cells(
    centroids: Floats,
    attained: Integers,
    k: int,
    respondents: Mapping[int, set[int]] | None = None,
) -> Integers:
    """Return, for each cell, the cell whose representative it publishes; -1 without answers.

    The group with the fewest answers (in a tie, the first) joins the group with the nearest mean,
    until every group has at least k answers. With ``respondents`` (the respondents of each cell),
    distinct respondents are counted instead of answers. The mean of a group is the mean of its
    cells' centroids weighted by answers. A group publishes the representative of its cell nearest
    to that mean. There must be at least k answers or respondents in total. Time O(G^2 m) for G
    cells with answers.

    Examples
    --------
    >>> merge_cells(np.array([[0.0], [1.0], [5.0], [9.0]]), np.array([1, 4, 0, 3]), 3)
    array([ 1,  1, -1,  3])
    """
    used = np.flatnonzero(attained)
    group = np.arange(len(used))
    means = centroids[used].copy()
    counts = attained[used].astype(np.float64)
    persons = None if respondents is None else [set(respondents[cell]) for cell in used.tolist()]
    n_people = counts if persons is None else np.array([float(len(each)) for each in persons])
    while len(np.flatnonzero(counts)) > 1:
        alive = np.flatnonzero(counts)
        fewest = int(alive[np.argmin(n_people[alive])])
        if n_people[fewest] >= k:
            break
        others = alive[alive != fewest]
        target = int(others[squared_distances(means[others], means[fewest]).argmin()])
        total = counts[fewest] + counts[target]
        weighted = means[fewest] * counts[fewest] + means[target] * counts[target]
        means[target] = weighted / total
        counts[target] = total
        counts[fewest] = 0.0
        if persons is not None:
            persons[target] |= persons[fewest]
            n_people[target] = len(persons[target])
        group[group == fewest] = target
    published = np.full(len(attained), -1)
    for number in np.unique(group):
        members = used[group == number]
        nearest = squared_distances(centroids[members], means[number]).argmin()
        published[members] = members[nearest]
    return published


def _persons_by_cell(labels: Integers, persons: Integers) -> dict[int, set[int]]:
    cells: dict[int, set[int]] = {}
    for cell, person in zip(labels.tolist(), persons.tolist(), strict=True):
        cells.setdefault(cell, set()).add(person)
    return cells
