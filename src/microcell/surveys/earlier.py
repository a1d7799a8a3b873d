"""Earlier waves of a survey, as far as they decide what a collection may publish."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from microcell import tables
from microcell.errors import DataError, GuaranteeError, OptionError, TooFewRecordsError
from microcell.model import Table
from microcell.surveys.answers import check_answers, find_cells
from microcell.surveys.counting import Counts
from microcell.surveys.ledger import Ledger
from microcell.surveys.rejects import Rejects
from microcell.surveys.survey_cells import SurveyCells, load_survey_cells
from microcell.surveys.waves import combine_waves, read_answers

__all__ = ["check_waves", "describe_wave", "keep_waves_apart"]


def keep_waves_apart(
    survey: SurveyCells,
    block: Table,
    counts: Counts,
    earlier: Sequence[tuple[str | Path, Any]],
    id: str | None,
    below: str,
) -> Counts:
    """Withhold answers until all waves together have k people in each combination of cells."""
    if id is None or below != "suppress":
        raise OptionError(
            "With earlier waves, id must name the column that identifies respondents in all waves, "
            "and below must be 'suppress'.",
            code="option.conflict",
            option="earlier",
        )
    published = counts.groups[counts.labels] >= 0
    waves = [_read_wave(source, answers, id) for source, answers in earlier]
    keep = combine_waves(read_answers(block, id), counts.labels, published, waves, survey.k)
    left = np.bincount(counts.labels[keep], minlength=len(counts.groups))
    groups = np.where(left > 0, counts.groups, -1)
    counts = replace(counts, groups=groups, withheld=~keep)
    if len(counts.rows) == 0:
        raise TooFewRecordsError(
            "Together with the earlier waves, no answer can be published: in each combination of "
            "cells, fewer than k people would stand out. Design the first wave for later ones "
            "(next_wave, --next-wave).",
            code="guarantee.too_few_records",
            k=survey.k,
        )
    return counts


def check_waves(survey: SurveyCells, earlier: Sequence[tuple[str | Path, Any]]) -> None:
    """Check that the wave which this one follows is among the earlier ones, if it must be."""
    wave = survey.survey.get("wave")
    if wave is None:
        return
    designs = [load_survey_cells(cells).cells.digest for cells, _ in earlier]
    if (earlier or wave["suppress"]) and wave["after"] not in designs:
        raise GuaranteeError(
            "These cells are those of a further wave and protect its participants only together "
            "with the answers of the wave before. Pass its cells file and answers (earlier, "
            "--earlier).",
            code="guarantee.failed",
        )


def describe_wave(cells: str | Path, answers: Any) -> list[str]:
    """Return digests of an earlier wave, for the ledger."""
    design = load_survey_cells(cells).cells.digest
    return [design, tables.digest(tables.read(answers), key=design.encode()[:32])]


def _read_wave(cells: str | Path, answers: Any, id: str) -> "dict[str, int]":
    """Return the cell of each person that an earlier wave published."""
    survey = load_survey_cells(cells)
    table = tables.read(answers)
    rejects = Rejects(table.rows, listed=True)
    check_answers(survey, table, id=id, drop=(), rejects=rejects)
    labels = find_cells(survey, table, rejects)
    ledger = Ledger.beside(cells, survey.cells.digest)
    if not ledger.releases:
        raise OptionError(
            "An earlier wave has not been released: its ledger is missing or empty. Collect it "
            "first, or leave it out.",
            code="option.invalid",
            option="earlier",
        )
    published = ledger.knows(ledger.respondents(table, [id])) & rejects.valid
    known = {digest for entry in ledger.releases for digest in entry.known}
    if published.sum() < len(known):
        raise DataError(
            "Answers of an earlier wave are missing: its ledger lists more people than they have. "
            "Pass the answers that were collected, with the same id.",
            code="data.invalid",
            option="earlier",
        )
    rows = np.flatnonzero(published)
    names = np.array(read_answers(table, id))
    return dict(zip(names[rows].tolist(), labels[rows].tolist(), strict=True))
