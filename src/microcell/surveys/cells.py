"""How the cells of a survey may fail, from who is expected to take part; for the designer and for whoever checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell.cells import Cells, load_cells
from microcell.errors import OptionError
from microcell.kernels.participation import failures_of_cells, figures, participant_failure
from microcell.model import Encoding, Floats, Integers

__all__ = [
    "Figures",
    "Roster",
    "SurveyCells",
    "as_roster",
    "find_figures",
    "read_cells",
    "read_roster",
]


@dataclass(frozen=True, eq=False)
class SurveyCells:
    """Cells with all that a survey needs: how records become points, what cells publish, and what is promised."""

    cells: Cells
    encoding: Encoding
    representatives: Mapping[str, tuple[Any, ...]]
    survey: Mapping[str, Any]


def read_cells(given: Cells | str | Path) -> SurveyCells:
    """The cells, or those of the file at that path; refused if they are of no survey."""
    cells = load_cells(given) if isinstance(given, (str, Path)) else given
    if not isinstance(cells, Cells):
        raise OptionError(
            f"cells must be Cells or the path of their file, not {type(given).__name__}."
        )
    if cells.survey is None or cells.encoding is None or cells.representatives is None:
        raise OptionError(
            "These cells were not designed for a survey. Give a file that 'survey design' wrote."
        )
    return SurveyCells(cells, cells.encoding, cells.representatives, cells.survey)


@dataclass(frozen=True, eq=False)
class Roster:
    """The probabilities to take part, cell after cell, in ascending order within a cell.

    The order fixes the order of sums: who makes the figures and who checks them get the same, to the last bit.
    """

    labels: Integers
    chances: Floats
    common: float | None
    """The probability of all, where they have the same."""

    @property
    def sizes(self) -> Integers:
        """How many candidates each cell has."""
        return np.bincount(self.labels)

    def as_part(self) -> dict[str, Any]:
        """What the file of the cells tells of participation."""
        if self.common is not None:
            return {"common": self.common}
        parts = np.split(self.chances, np.cumsum(self.sizes)[:-1])
        counted = [np.unique(part, return_counts=True) for part in parts]
        pairs = [
            list(map(list, zip(values.tolist(), counts.tolist(), strict=True)))
            for values, counts in counted
        ]
        return {"cells": pairs}


@dataclass(frozen=True, eq=False)
class Figures:
    """How cells fail, each and together."""

    failures: Floats
    """P{0 < K < k} of each cell."""
    table_failure: float
    """The probability that any cell fails."""
    unprotected: float
    """How many participants a cell has that fails, on average over failures; 0 if none can."""
    record_failure: float
    """The probability, averaged over candidates, that one takes part and the cell fails."""
    participant_failure: float
    """The probability, averaged over candidates, that the cell fails given that the candidate takes part."""

    def as_dict(self) -> dict[str, float]:
        """The figures of the table."""
        return {
            "table_failure": self.table_failure,
            "unprotected": self.unprotected,
            "record_failure": self.record_failure,
            "participant_failure": self.participant_failure,
        }


def as_roster(labels: Integers, chances: Floats) -> Roster:
    """The roster of a design: the cell of each candidate, and each one's probability."""
    order = np.lexsort((chances, labels))
    common = float(chances[0]) if (chances == chances[0]).all() else None
    return Roster(labels[order], chances[order], common)


def read_roster(survey: Mapping[str, Any], sizes: Integers) -> Roster:
    """The roster that the survey part of a file tells, the sizes being those of its cells."""
    labels, part = np.repeat(np.arange(len(sizes)), sizes), survey["participation"]
    if "common" in part:
        common = float(part["common"])
        return Roster(labels, np.full(len(labels), common), common)
    return Roster(labels, _spread([pair for pairs in part["cells"] for pair in pairs]), None)


def _spread(pairs: Sequence[Sequence[float]]) -> Floats:
    values = np.array([value for value, _ in pairs], dtype=np.float64)
    return np.repeat(values, np.array([count for _, count in pairs], dtype=np.int64))


def find_figures(roster: Roster, k: int) -> Figures:
    """The figures of these cells. Cells of one size are counted once where all have the same probability. O(n k)."""
    sizes = roster.sizes
    failures = failures_of_cells(roster.labels, roster.chances, k)
    if roster.common is None:
        parts = np.split(roster.chances, np.cumsum(sizes)[:-1])
        moments = np.array([figures(part, k)[1] for part in parts])
        given = np.array([participant_failure(part, k) for part in parts])
    else:
        kinds, place = np.unique(sizes, return_inverse=True)
        each = [np.full(size, roster.common) for size in kinds.tolist()]
        moments = np.array([figures(part, k)[1] for part in each])[place]
        given = np.array([participant_failure(part, k) for part in each])[place]
    total = float(failures.sum())
    return Figures(
        failures=failures,
        table_failure=_any_of(np.minimum(failures, 1.0)),
        unprotected=min(float(moments.sum()) / total, k - 1.0) if total > 0 else 0.0,
        record_failure=float(moments.sum()) / len(roster.labels),
        participant_failure=min(float(given @ sizes) / len(roster.labels), 1.0),
    )


def _any_of(failures: Floats) -> float:
    """1 - prod (1 - q), as ``participation.table_failure`` has it, which would load more than respondents need."""
    return 1.0 if (failures == 1).any() else float(-np.expm1(np.log1p(-failures).sum()))
