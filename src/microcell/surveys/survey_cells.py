"""The cells file of a survey: expected participation, and the resulting failure probabilities.

Designers and respondents compute these numbers with the same code in the same order, so that both
get the same result to the last bit. Nothing here loads tables or partitioning methods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell._display import count, record_html, short_repr
from microcell.cells import Cells, load_cells
from microcell.errors import OptionError
from microcell.kernels.participation import (
    exposures_of_cells,
    failures_of_cells,
    figures,
    participant_failure,
)
from microcell.model import Encoding, Floats, Integers
from microcell.surveys.participation import table_failure

__all__ = [
    "FailureSummary",
    "Roster",
    "SurveyCells",
    "build_roster",
    "load_survey_cells",
    "read_roster",
    "summarize_failures",
]


@dataclass(frozen=True, eq=False)
class SurveyCells:
    """Cells of a survey, with the parts of :class:`Cells` that a survey requires."""

    cells: Cells
    encoding: Encoding
    representatives: Mapping[str, tuple[Any, ...]]
    survey: Mapping[str, Any]
    """The survey section of the cells file: k, limit, participation and failure probabilities."""

    @property
    def failure_of(self) -> str:
        """What the failure limit applies to: "cell" or "participant"."""
        return str(self.survey.get("failure_of", "cell"))

    @property
    def k(self) -> int:
        """Minimum number of participants in a cell where anyone takes part."""
        return int(self.survey["k"])


def load_survey_cells(cells: Cells | str | Path) -> SurveyCells:
    """Return survey cells from ``Cells`` or from the path of their file."""
    loaded = load_cells(cells) if isinstance(cells, (str, Path)) else cells
    if not isinstance(loaded, Cells):
        raise OptionError(
            f"cells must be Cells or the path of a cells file, not {type(cells).__name__}.",
            code="option.wrong_type",
            option="cells",
        )
    if loaded.survey is None or loaded.encoding is None or loaded.representatives is None:
        raise OptionError(
            "These cells were not designed for a survey. Use a cells file written by "
            "'microcell survey design'.",
            code="option.unsupported",
            option="cells",
        )
    return SurveyCells(loaded, loaded.encoding, loaded.representatives, loaded.survey)


@dataclass(frozen=True, eq=False)
class Roster:
    """Participation probabilities sorted by cell and then by value.

    The sort order fixes the order of summation, so that everyone gets identical results.
    """

    labels: Integers
    probabilities: Floats
    common: float | None
    """The probability of every candidate, if it is the same for all."""

    @property
    def sizes(self) -> Integers:
        """Number of candidates of each cell."""
        return np.bincount(self.labels)

    def as_section(self) -> dict[str, Any]:
        """Return the ``participation`` section of a cells file: (value, count) pairs per cell."""
        if self.common is not None:
            return {"common": self.common}
        cells = []
        for part in self._by_cell():
            values, counts = np.unique(part, return_counts=True)
            pairs = zip(values.tolist(), counts.tolist(), strict=True)
            cells.append([list(pair) for pair in pairs])
        return {"cells": cells}

    def _by_cell(self) -> list[Floats]:
        return np.split(self.probabilities, np.cumsum(self.sizes)[:-1])

    def moments(self, k: int) -> tuple[Floats, Floats]:
        """Return, per cell, E[K; 0 < K < k] and the failure probability for a participant."""
        if self.common is None:
            parts = self._by_cell()
            place: Integers | slice = slice(None)
        else:  # Cells of the same size are identical: compute each size once.
            sizes, place = np.unique(self.sizes, return_inverse=True)
            parts = [np.full(size, self.common) for size in sizes.tolist()]
        moments = np.array([figures(part, k)[1] for part in parts])
        participants = np.array([participant_failure(part, k) for part in parts])
        return moments[place], participants[place]


def build_roster(labels: Integers, probabilities: Floats) -> Roster:
    """Return the roster of candidates, given the cell and the probability of each."""
    order = np.lexsort((probabilities, labels))
    is_common = (probabilities == probabilities[0]).all()
    common = float(probabilities[0]) if is_common else None
    return Roster(labels[order], probabilities[order], common)


def read_roster(survey: Mapping[str, Any], sizes: Integers) -> Roster:
    """Return the roster stated in the survey section of a file with cells of these ``sizes``."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    section = survey["participation"]
    if "common" in section:
        common = float(section["common"])
        return Roster(labels, np.full(len(labels), common), common)
    return Roster(labels, _expand([pair for pairs in section["cells"] for pair in pairs]), None)


def _expand(pairs: Sequence[Sequence[float]]) -> Floats:
    values = np.array([value for value, _ in pairs], dtype=np.float64)
    return np.repeat(values, np.array([count for _, count in pairs], dtype=np.int64))


@dataclass(frozen=True, eq=False, repr=False)
class FailureSummary:
    """Failure probabilities of the cells, individually and combined."""

    by_cell: Floats
    """P{0 < K < k} of each cell."""
    conditional: Floats
    """Failure probability of each cell given that somebody takes part: the larger of
    P{0 < K < k | K > 0} and that for the most exposed participant."""
    table_failure: float
    """Probability that at least one cell fails."""
    unprotected: float
    """Expected number of participants in a cell that fails; 0 if none can fail."""
    record_failure: float
    """Probability that a candidate takes part and the cell fails, averaged over candidates."""
    participant_failure: float
    """Probability that the cell of a candidate who takes part fails, averaged over candidates."""

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(len(self.by_cell), "cell"),
            worst=f"{self.worst:.3g}",
            worst_conditional=f"{self.worst_conditional:.3g}",
            table_failure=f"{self.table_failure:.3g}",
        )

    _repr_html_ = record_html

    @property
    def worst(self) -> float:
        """Largest failure probability of a cell."""
        return float(self.by_cell.max())

    @property
    def worst_conditional(self) -> float:
        """Largest failure probability of a cell given that somebody takes part."""
        return float(self.conditional.max())

    def limited(self, failure_of: str) -> Floats:
        """Return the probabilities that the design limits."""
        return self.conditional if failure_of == "participant" else self.by_cell

    def as_dict(self) -> dict[str, float]:
        """Return the combined probabilities, without those of single cells."""
        return {
            "table_failure": self.table_failure,
            "unprotected": self.unprotected,
            "record_failure": self.record_failure,
            "participant_failure": self.participant_failure,
        }


def summarize_failures(roster: Roster, k: int) -> FailureSummary:
    """Return the failure probabilities of the cells of a roster. Time O(n k)."""
    n_candidates = len(roster.labels)
    failures = failures_of_cells(roster.labels, roster.probabilities, k)
    moments, participants = roster.moments(k)
    total = float(failures.sum())
    moment = float(moments.sum())
    return FailureSummary(
        by_cell=failures,
        conditional=exposures_of_cells(roster.labels, roster.probabilities, k),
        table_failure=table_failure(np.minimum(failures, 1.0)),
        unprotected=min(moment / total, k - 1.0) if total > 0 else 0.0,
        record_failure=moment / n_candidates,
        participant_failure=min(float(participants @ roster.sizes) / n_candidates, 1.0),
    )
