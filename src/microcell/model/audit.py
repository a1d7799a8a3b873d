"""The result of an audit: measures, the checks made on them, and the data behind its figures."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import nan
from numbers import Real
from typing import Any

from microcell._display import (
    count,
    format_quantity,
    html_card,
    listing,
    make_frame,
    percent,
    record_html,
    short_repr,
)
from microcell.errors import OptionError, RequirementError
from microcell.kernels.arrays import Floats, Integers
from microcell.model.findings import Finding

__all__ = [
    "Analysis",
    "Audit",
    "CategoryShare",
    "Check",
    "Coefficient",
    "Comparison",
    "Correlations",
    "GroupMean",
    "LeftOutGroup",
    "MaskEffect",
    "Measure",
    "Projection",
    "Quantiles",
    "find_measure",
]


@dataclass(frozen=True)
class Measure:
    """A number with its name, unit, direction and meaning.

    ``interval`` is a 95 % confidence interval where the value was estimated from a sample.
    ``must_be_zero`` marks the basic checks, which every release has to pass.

    Examples
    --------
    >>> k = Measure("k", 5, "records", lower_is_better=False, meaning="Smallest class.")
    >>> k, k.meets(5), k.meets(6)
    (<Measure k, 5 records>, True, False)
    """

    name: str
    value: float
    unit: str
    lower_is_better: bool
    meaning: str
    interval: tuple[float, float] | None = None
    must_be_zero: bool = False

    def __repr__(self) -> str:
        value = f"{self.value:,}" if isinstance(self.value, int) else f"{self.value:.4g}"
        return short_repr(self, self.name, f"{value} {self.unit}")

    _repr_html_ = record_html

    def meets(self, limit: float) -> bool:
        """Return True if the value is at least as good as ``limit``."""
        return self.value <= limit if self.lower_is_better else self.value >= limit

    def format(self, value: float | None = None) -> str:
        """Format ``value`` (default: the measured value) for display, shares as percentages."""
        return format_quantity(self.value if value is None else value, self.unit)


@dataclass(frozen=True)
class Check:
    """A measure together with the limit that it must meet."""

    measure: Measure
    limit: float

    @property
    def met(self) -> bool:
        """True if the measure meets the limit."""
        return self.measure.meets(self.limit)

    @property
    def bound(self) -> str:
        """Direction of the limit: "at most" or "at least"."""
        return "at most" if self.measure.lower_is_better else "at least"

    def __repr__(self) -> str:
        return short_repr(self, str(self))

    def __str__(self) -> str:
        name, value = self.measure.name, self.measure.value
        return f"{name} is {value:.6g}, required {self.bound} {self.limit:.6g}."


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Frequencies of a column's values, or intervals of values, before and after.

    ``labels`` names the categories. For numbers and dates it is empty and ``edges`` bounds the
    intervals.
    """

    name: str
    kind: str
    before: Integers
    after: Integers
    labels: tuple[str, ...] = ()
    edges: Floats | None = None
    unit: str | None = None

    def __repr__(self) -> str:
        return short_repr(self, self.name, kind=self.kind)


@dataclass(frozen=True, eq=False, repr=False)
class Projection:
    """A sample of records on the first two principal components, before and after.

    ``classes`` holds the equivalence class of each record, ``records`` the number of records that
    the sample was drawn from.
    """

    before: Floats
    after: Floats
    classes: Integers
    explained: tuple[float, float]
    records: int

    def __repr__(self) -> str:
        return short_repr(self, f"{len(self.before):,} of {count(self.records, 'record')}")


@dataclass(frozen=True, eq=False, repr=False)
class Quantiles:
    """Quantiles of a column before and after, at the same ``shares`` of its records."""

    name: str
    shares: Floats
    before: Floats
    after: Floats
    unit: str | None = None

    def __repr__(self) -> str:
        return short_repr(self, self.name)


@dataclass(frozen=True, eq=False, repr=False)
class Correlations:
    """Correlation matrices of the columns that have an order, before and after."""

    names: tuple[str, ...]
    before: Floats
    after: Floats

    def __repr__(self) -> str:
        return short_repr(self, *self.names)


@dataclass(frozen=True, repr=False)
class CategoryShare:
    """A category of a quasi-identifier: how many people have it, and how they were published.

    ``kept`` of the ``people`` are published with their true category; ``published`` is the number
    of people published with this category, rightly or wrongly. ``coarse`` people are published with
    a group or set that contains it, and ``withheld`` people with a missing value.
    """

    column: str
    name: str
    people: int
    kept: int
    published: int
    coarse: int = 0
    withheld: int = 0

    @property
    def false(self) -> int:
        """Number of the people who are published with another category, group or set."""
        return self.people - self.kept - self.coarse - self.withheld

    @property
    def true_share(self) -> float:
        """Share of the people whose published value, group or set is true."""
        return (self.kept + self.coarse) / self.people if self.people else 0.0

    @property
    def share(self) -> float:
        """Share of the people who are published with their true category."""
        return self.kept / self.people if self.people else 0.0

    def __repr__(self) -> str:
        return short_repr(self, self.column, people=self.people, kept=self.kept)


@dataclass(frozen=True, repr=False)
class LeftOutGroup:
    """A group of people of whom records were left out.

    ``people`` were in the original, and records of ``left_out`` of them were left out. ``more`` is
    true if that is clearly more often than elsewhere. ``quasi`` is false for groups by a
    confidential column.
    """

    column: str
    name: str
    people: int
    left_out: int
    more: bool
    quasi: bool = True

    @property
    def share(self) -> float:
        """Share of the people of whom records were left out."""
        return self.left_out / self.people

    def __repr__(self) -> str:
        return short_repr(self, self.column, people=self.people, left_out=self.left_out)


@dataclass(frozen=True, repr=False)
class MaskEffect:
    """What masking does to a confidential column.

    ``masks`` are the fields of the schema. ``changed`` is the share of values that differ from the
    original. ``mean`` and ``absolute`` are the change of the mean and the mean absolute change of
    a value, in standard deviations; ``deviation`` is the relative change of the standard deviation,
    and ``correlation`` the largest change of a correlation with another number.
    """

    column: str
    masks: tuple[str, ...]
    changed: float
    mean: float
    deviation: float
    absolute: float
    correlation: float

    def __repr__(self) -> str:
        return short_repr(self, self.column, *self.masks)


@dataclass(frozen=True, repr=False)
class Coefficient:
    """A coefficient of a regression: estimate, lower and upper bound, before and after.

    ``overlap`` is the mean share of each 95 % interval that the other covers.
    """

    term: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    overlap: float

    def __repr__(self) -> str:
        return short_repr(self, overlap=round(self.overlap, 3))


@dataclass(frozen=True, repr=False)
class Analysis:
    """A regression on the original and on the release; ``kind`` is "linear" or "logistic".

    A logistic regression models the probability of ``event``, such as "sex = male".
    """

    formula: str
    kind: str
    coefficients: tuple[Coefficient, ...]
    event: str = ""

    @property
    def title(self) -> str:
        """The formula, the kind of regression and the event, for headings."""
        return f"{self.formula} ({self.kind} regression{f' of {self.event}' * bool(self.event)})"

    def __repr__(self) -> str:
        return short_repr(self, self.kind, f"{len(self.coefficients)} coefficients")


@dataclass(frozen=True, repr=False)
class GroupMean:
    """Mean of a numeric column, or rate of a two-valued one, in a group before and after.

    ``change`` is the difference in standard deviations of the original column. For the public it
    is one of a few steps, and the original values are withheld: ``n_before`` is 0
    and ``before`` NaN.
    """

    by: str
    group: str
    response: str
    n_before: int
    n_after: int
    before: float
    after: float
    change: float = nan

    def __repr__(self) -> str:
        return short_repr(self, self.by)


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The result of comparing the original and the published table.

    Attributes
    ----------
    keys
        Names of the quasi-identifiers and strata.
    rows_original, rows_released
        Number of records in each table.
    measures
        Measures by name.
    class_sizes
        Number of people in each equivalence class of the published table: of distinct persons if
        the schema names a person column, otherwise of records.
    findings
        What is wrong with the release and what to do about it, the most severe first.
    notes
        What could not be measured, and why.
    warning
        What to know before reading the results; empty if there is nothing.
    comparisons, quantiles, correlations
        Distributions of single columns and correlations between columns, before and after.
    projection
        A sample of records on two principal components.
    linkage_by_known
        Share of records re-identified by an outsider who knows 1, 2, ... columns.
    homogeneous
        For each confidential column, the sizes of the classes in which everyone shares one value.
    person
        The columns that identify people; none if every record counts as a person.
    categories
        What became of each category of the nominal quasi-identifiers.
    left_out
        From which groups the complete records are that the release leaves out.
    masks
        What masking does to each masked confidential column.
    distances
        Median and 95th percentile, in kilometres, by which each location moved.
    moves
        Percentiles (0 to 100) of these distances, for the figure.
    analyses, groups
        Requested regressions, and means and rates by group, before and after.
    small_groups
        Means and rates of the smallest groups that still have k people, before and after.

    Examples
    --------
    >>> import microcell as mc
    >>> people, schema = mc.sample_survey(100), mc.sample_schema()
    >>> release = mc.anonymize(people, schema, k=5, method="mdav")
    >>> audit = mc.audit(people, release.table, schema)
    >>> audit["k"], audit["identifiers_left"], audit.measures["k"].unit
    (5, 0, 'records')
    """

    keys: tuple[str, ...]
    rows_original: int
    rows_released: int
    measures: Mapping[str, Measure]
    class_sizes: Integers
    notes: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    projection: Projection | None = None
    quantiles: tuple[Quantiles, ...] = ()
    correlations: Correlations | None = None
    linkage_by_known: Floats | None = None
    homogeneous: Mapping[str, Integers] = field(default_factory=dict)
    warning: str = ""
    person: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    categories: tuple[CategoryShare, ...] = ()
    left_out: tuple[LeftOutGroup, ...] = ()
    masks: tuple[MaskEffect, ...] = ()
    distances: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    moves: Mapping[str, Floats] = field(default_factory=dict)
    analyses: tuple[Analysis, ...] = ()
    groups: tuple[GroupMean, ...] = ()
    small_groups: tuple[GroupMean, ...] = ()
    public_notes: tuple[str, ...] = ()
    """Those of the notes that a public report contains too."""

    @property
    def dangers(self) -> tuple[Finding, ...]:
        """Findings that forbid publishing the table as it is."""
        return tuple(item for item in self.findings if item.severity == "danger")

    @property
    def unit(self) -> str:
        """What class sizes count: "person" or "record"."""
        return "person" if self.person else "record"

    def __getitem__(self, name: str) -> float:
        """Return the value of a measure; raise OptionError if the audit does not have it."""
        return find_measure(self.measures, name, self.notes).value

    def require(self, **limits: float) -> "Audit":
        """Return this audit if it meets every limit.

        A limit is a minimum where higher is better (``k=5``) and a maximum otherwise
        (``information_loss=0.1``). The basic checks are always included: no identifiers left, no
        records unaccounted for, no missing or unexpected columns, no changed values where they must
        stay the same, and no false statement in the manifest.

        Raises
        ------
        RequirementError
            A limit or a basic check is not met. The message lists all of them.
        OptionError
            The audit has no measure of this name, or a limit is not a number.

        Examples
        --------
        >>> k = Measure("k", 3, "records", False, "Number of records in the smallest class.")
        >>> import numpy as np
        >>> audit = Audit(keys=("age",), rows_original=9, rows_released=9, measures={"k": k},
        ...               class_sizes=np.array([3, 3, 3]))
        >>> audit.require(k=3) is audit
        True
        >>> audit.require(k=5)
        Traceback (most recent call last):
        microcell.errors.RequirementError: k is 3, required at least 5.
        """
        missed = [check for check in self.check(limits) if not check.met]
        if missed:
            raise RequirementError(
                " ".join(map(str, missed)),
                code="guarantee.requirement_not_met",
                measures=[check.measure.name for check in missed],
            )
        return self

    def check(self, limits: Mapping[str, float]) -> tuple[Check, ...]:
        """Compare measures with limits; the basic checks come first."""
        for name, limit in limits.items():
            if not _is_number(limit):
                raise OptionError(
                    f"The limit for {name} must be a number, not {limit!r}.",
                    code="option.wrong_type",
                    option=name,
                )
        basic = {name: 0.0 for name, item in self.measures.items() if item.must_be_zero}
        return tuple(
            Check(find_measure(self.measures, name, self.notes), limit)
            for name, limit in {**basic, **limits}.items()
        )

    def to_frame(self) -> Any:
        """Return the measures as a data frame (pandas if installed, otherwise polars).

        Columns: ``name``, ``value``, ``unit``, ``direction`` and ``meaning``.
        """
        items = list(self.measures.values())
        return make_frame(
            {
                "name": [item.name for item in items],
                "value": [float(item.value) for item in items],
                "unit": [item.unit for item in items],
                "direction": [
                    "lower is better" if item.lower_is_better else "higher is better"
                    for item in items
                ],
                "meaning": [item.meaning for item in items],
            }
        )

    def __repr__(self) -> str:
        facts = [f"k={self['k']:,}"] if "k" in self.measures else []
        records = f"{self.rows_released:,} of {count(self.rows_original, 'record')}"
        return short_repr(self, *facts, records, count(len(self.measures), "measure"))

    def _repr_html_(self) -> str:
        failed = [check.measure for check in self.check({}) if not check.met]
        k = int(self.measures["k"].value) if "k" in self.measures else 0
        title = f"{k}-anonymous" if k > 1 and not failed else "Not fit to publish"
        rows = {
            "k": f"{k:,}",
            "Records": f"{self.rows_released:,} published of {self.rows_original:,}",
            "Classes": f"{len(self.class_sizes):,}",
        }
        if "information_loss" in self.measures:
            rows["Information loss"] = percent(self["information_loss"])
        if "linkage" in self.measures:
            rows["Records re-identified"] = f"{100 * self['linkage']:.3g} %"
        rows["Basic checks"] = (
            "passed" if not failed else "failed: " + ", ".join(item.name for item in failed)
        )
        return html_card(
            title,
            rows,
            notes=(*map(str, self.findings), *self.notes),
            next_steps={
                "audit.require(k=5)": "raise an error if a limit is not met",
                "audit.to_frame()": "all measures and their meaning",
                'mc.render(audit, "html")': "a report for people",
            },
        )


def find_measure(measures: Mapping[str, Measure], name: str, notes: Iterable[str] = ()) -> Measure:
    """Return the measure with this name.

    Raises
    ------
    OptionError
        There is none; the error suggests similar names and repeats the notes.
    """
    if name in measures:
        return measures[name]
    near = get_close_matches(str(name), measures)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Choose from {listing(measures)}."
    raise OptionError(
        " ".join((f"There is no measure {name!r}. {hint}", *notes)),
        code="option.unknown",
        measure=name,
        near=near,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
