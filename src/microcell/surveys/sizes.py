"""How large the cells of a survey must be, in numbers, in words and in a figure."""

from dataclasses import asdict, dataclass
from typing import Any

from microcell.surveys.participation import (
    EffectiveAnonymity,
    common_table_failure,
    effective_anonymity,
)

__all__ = ["SurveySize", "survey_size"]


@dataclass(frozen=True)
class SurveySize:
    """The size of a cell for a common participation, what it attains, and what a table of such cells does."""

    participation: float
    anonymity: EffectiveAnonymity
    records: int | None = None
    """The number of candidates, if it was given."""
    cells: int | None = None
    """How many cells that makes."""
    table_failure: float | None = None
    """The probability that any of them fails."""

    def as_dict(self) -> dict[str, Any]:
        """The numbers as plain data, ready for JSON."""
        found = asdict(self.anonymity)
        table = {"records": self.records, "cells": self.cells, "table_failure": self.table_failure}
        return {
            "participation": self.participation,
            **found,
            **({} if self.records is None else table),
        }


def survey_size(
    k: int, participation: float, failure: float, records: int | None = None
) -> SurveySize:
    """The size of cells in which each of the candidates takes part with the same probability.

    ``records`` is how many candidates there are in all; fewer than one cell needs are refused.

    Examples
    --------
    >>> found = survey_size(10, 0.75, 1e-5, 100_000)
    >>> found.anonymity.size, found.cells, round(found.table_failure, 4)
    (27, 3703, 0.0221)
    """
    found = effective_anonymity(k, participation, failure)
    if records is None:
        return SurveySize(float(participation), found)
    table = common_table_failure(k, participation, failure, records)
    return SurveySize(float(participation), found, int(records), int(records) // found.size, table)
