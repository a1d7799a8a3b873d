"""The data behind the measures of one audit; each part is computed once, on first use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from microcell.kernels.arrays import count_distinct
from microcell.measures.attacks import Links, link_records, read_linkage_points
from microcell.measures.checks import RoleProblems, check_roles
from microcell.measures.classes import (
    class_labels,
    class_sizes,
    fewest_people,
)
from microcell.measures.confidential import ConfidentialColumn, confidential_columns
from microcell.measures.learning import LearningScores, learn_task
from microcell.measures.pairs import ColumnPairs
from microcell.measures.utility import (
    ColumnLoss,
    QuasiColumn,
    column_losses,
    compare_correlations,
    compare_quantiles,
    quasi_columns,
)
from microcell.model import Correlations, Integers, Quantiles, Schema, Table
from microcell.progress import report

__all__ = ["ClassSizes", "Evidence"]


@dataclass(frozen=True, eq=False)
class ClassSizes:
    """Class sizes only, for a release about which nothing else is known.

    ``class_people`` are the numbers of people in the classes, if they differ from the numbers of
    records.
    """

    class_sizes: Integers
    rows_original: int
    population: int | None = None
    people: Integers | None = None

    @property
    def class_people(self) -> Integers:
        """Number of people in each class."""
        return self.class_sizes if self.people is None else self.people


@dataclass(frozen=True, eq=False)
class Evidence:
    """The two tables of an audit, and the data derived from them.

    Attributes
    ----------
    schema
        A resolved schema: each column has its kind.
    pairs
        The original row (from 0) of each published row; None if records are not compared.
    values_changed
        Number of values that should have been published unchanged but differ.
    population
        Size of the population that the released records were sampled from.
    target
        Column to be predicted from the others.
    contradictions
        False statements of the manifest; None without a manifest.
    persons
        Person of each published row; None if every row is a person, or if the rows are not matched.
    """

    original: Table
    released: Table
    schema: Schema
    pairs: Integers | None = None
    values_changed: int = 0
    population: int | None = None
    target: str | None = None
    contradictions: Sequence[str] | None = None
    persons: Integers | None = None

    @property
    def rows_original(self) -> int:
        """Number of records in the original."""
        return self.original.rows

    @cached_property
    def role_problems(self) -> RoleProblems:
        """Columns of the release that contradict the schema."""
        return check_roles(self.released, self.schema)

    @cached_property
    def classes(self) -> Integers:
        """The equivalence class of each published row."""
        return class_labels(self.released, self.schema.keys)

    @cached_property
    def class_sizes(self) -> Integers:
        """Number of records in each class."""
        return np.bincount(self.classes).astype(np.int64)

    @cached_property
    def class_people(self) -> Integers:
        """Number of people in each class; the fewest possible if rows are not matched."""
        if not self.schema.person:
            return self.class_sizes
        if self.persons is not None:
            return count_distinct(self.classes, self.persons)
        return fewest_people(self.class_sizes, class_sizes(self.original, self.schema.person))

    @cached_property
    def confidential(self) -> tuple[ConfidentialColumn, ...]:
        """The published confidential columns; none for a release without records."""
        return confidential_columns(self.released, self.schema, self.classes, self.persons)

    @cached_property
    def columns(self) -> ColumnPairs:
        """The columns before and after; without ``pairs``, only unmatched values can be used."""
        if self.pairs is None:
            return ColumnPairs(self.original, self.released, self.schema)
        return ColumnPairs(self.original, self.released, self.schema, self.pairs)

    @property
    def homogeneous(self) -> Mapping[str, Integers]:
        """Sizes of the classes with a single value, by confidential column."""
        return {column.name: column.homogeneous_sizes for column in self.confidential}

    @cached_property
    def losses(self) -> tuple[ColumnLoss, ...]:
        """Information loss of each quasi-identifier."""
        return column_losses(self.columns)

    @cached_property
    def quasi(self) -> tuple[QuasiColumn, ...]:
        """The quasi-identifiers before and after."""
        return quasi_columns(self.losses, self.columns.quantities)

    @cached_property
    def correlations(self) -> Correlations | None:
        """Correlations of the ordered columns, before and after."""
        report("measuring utility")
        return compare_correlations(self.columns.quantities)

    @cached_property
    def quantiles(self) -> tuple[Quantiles, ...]:
        """Quantiles of the ordered quasi-identifiers, before and after."""
        return compare_quantiles(self.columns.quantities)

    @cached_property
    def links(self) -> Links:
        """Results of the record linkage attacks."""
        return link_records(read_linkage_points(self.columns), self.classes, persons=self.persons)

    @cached_property
    def learning(self) -> LearningScores:
        """How well the target is predicted from the release and from the original."""
        report("training prediction models")
        return learn_task(self)
