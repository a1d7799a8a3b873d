"""The risk of a single table, without an original."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from microcell._display import count, frame_of_rows, html_card, record_html, record_repr, short_repr
from microcell.kernels.arrays import Floats, Integers
from microcell.model.audit import Measure
from microcell.model.findings import Finding

__all__ = ["ColumnRisk", "Combination", "Population", "RecordRisk", "TableRisk"]


DRAFTED = (
    "The roles of the columns were guessed. Check them (microcell inspect -o draft.toml) and pass "
    "the schema (-s)."
)


@dataclass(frozen=True)
class ColumnRisk:
    """What a quasi-identifier or stratum contributes to the risk of a table.

    Attributes
    ----------
    name
        The column.
    distinct, missing
        Numbers of distinct values and of rows without a value.
    unique_alone
        People whose value nobody else has.
    unique_without, k_without
        People who would be unique, and k, without the column.
    suda
        Share of the SUDA scores from combinations that contain the column.
    """

    name: str
    distinct: int
    missing: int
    unique_alone: int
    unique_without: int
    k_without: int
    suda: float

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class Combination:
    """A minimal unique combination of columns, and the number of rows that it singles out."""

    columns: tuple[str, ...]
    rows: int

    def __repr__(self) -> str:
        return short_repr(self, *self.columns, rows=self.rows)

    _repr_html_ = record_html


@dataclass(frozen=True)
class RecordRisk:
    """A record at risk.

    Attributes
    ----------
    row
        Number of the row, from 1, without the header.
    people
        Number of people in its class.
    score
        Its SUDA score.
    columns
        The fewest columns that single it out; empty if it is not unique.
    risk
        Estimated probability of re-identification in the population, if that is known.
    """

    row: int
    people: int
    score: float
    columns: tuple[str, ...] = ()
    risk: float | None = None

    def __repr__(self) -> str:
        return short_repr(self, f"row {self.row:,}", people=self.people, score=self.score)

    _repr_html_ = record_html


@dataclass(frozen=True)
class Population:
    """What is estimated of the population that the table is a sample of.

    Attributes
    ----------
    size
        Number of people in the population.
    source
        "given", or "weights" if it is the sum of the sampling weights.
    fraction
        Share of the population in the table.
    measures
        Estimates by name; each has a 95 % interval.
    model
        The model behind ``population_uniques``, which suits the sampling fraction.
    """

    size: int
    source: str
    fraction: float
    measures: Mapping[str, Measure]
    model: str

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True, eq=False)
class TableRisk:
    """The re-identification risk of a table as it stands: numbers, column names and row numbers.

    Attributes
    ----------
    keys
        Columns that an outsider may know: quasi-identifiers and strata.
    person
        Columns that identify a person; empty if every row is a person.
    drafted
        Whether the roles of the columns were guessed.
    rows
        Number of rows.
    threshold
        The k below which classes are at risk.
    class_sizes
        Number of people in each class.
    people_of_row, scores, smallest
        For each row: the people in its class, its SUDA score, and the columns of its smallest
        minimal unique combination as a bit mask over ``keys``.
    risks
        For each row: the probability of re-identification in the population; None if unknown.
    measures
        Measures of risk by name.
    columns, combinations
        Contribution of each column; minimal unique combinations, the smallest first.
    largest
        Number of columns of the largest combinations that were examined.
    population
        Estimates for the population; None if neither its size nor weights are known.
    findings, notes
        What to do something about.

    Examples
    --------
    >>> import microcell as mc
    >>> result = mc.risk(mc.sample_survey(200), mc.sample_schema())
    >>> result["k"], result.at_risk(1)[0].people
    (1, 1)
    """

    keys: tuple[str, ...]
    person: tuple[str, ...]
    drafted: bool
    rows: int
    threshold: int
    class_sizes: Integers
    people_of_row: Integers
    scores: Floats
    smallest: Integers
    risks: Floats | None
    measures: Mapping[str, Measure]
    columns: tuple[ColumnRisk, ...]
    combinations: tuple[Combination, ...]
    largest: int
    population: Population | None = None
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        return short_repr(self, count(self.rows, "row"), k=self["k"], unique=self["unique_people"])

    def _repr_html_(self) -> str:
        return html_card(
            f"Risk of {count(self.rows, 'row')}",
            {item.name: item.format() for item in self.measures.values()},
            notes=[str(item) for item in self.findings],
            next_steps={
                "result.at_risk(20)": "the records at risk, by row number",
                "result.to_frame()": "what each column contributes",
                "mc.anonymize(table, schema, k=5)": "make the table k-anonymous",
            },
        )

    def __getitem__(self, name: str) -> float:
        """Return the value of a measure."""
        known = {**self.measures, **(self.population.measures if self.population else {})}
        return known[name].value

    @property
    def unit(self) -> str:
        """What is counted: "person" or "record"."""
        return "person" if self.person else "record"

    @property
    def n_at_risk(self) -> int:
        """Number of rows in classes below the threshold."""
        return int((self.people_of_row < self.threshold).sum())

    def at_risk(self, most: int | None = None) -> list[RecordRisk]:
        """Return the records in classes below the threshold, those most at risk first."""
        rows = np.flatnonzero(self.people_of_row < self.threshold)
        risks = np.zeros(len(rows)) if self.risks is None else self.risks[rows]
        order = np.lexsort((rows, -risks, -self.scores[rows], self.people_of_row[rows]))
        return [self._record(int(row)) for row in rows[order[:most]]]

    def _record(self, row: int) -> RecordRisk:
        mask = int(self.smallest[row])
        return RecordRisk(
            row=row + 1,
            people=int(self.people_of_row[row]),
            score=float(self.scores[row]),
            columns=tuple(name for i, name in enumerate(self.keys) if mask >> i & 1),
            risk=None if self.risks is None else float(self.risks[row]),
        )

    def with_drafted_roles(self) -> "TableRisk":
        """Return the result with a note that the roles of the columns were guessed."""
        return replace(self, drafted=True, notes=(DRAFTED, *self.notes))

    def to_frame(self) -> Any:
        """Return a data frame with what each column contributes."""
        names: Sequence[str] = tuple(ColumnRisk.__dataclass_fields__)
        return frame_of_rows([{name: getattr(c, name) for name in names} for c in self.columns])
