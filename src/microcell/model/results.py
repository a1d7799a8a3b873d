"""What comes out: a release with its manifest, and an audit with its measures."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from pathlib import Path
from typing import Any

from microcell.errors import OptionError, RequirementError
from microcell.kernels.arrays import Floats, Integers
from microcell.model.partition import Partition
from microcell.model.schema import Schema
from microcell.model.table import Table

__all__ = [
    "Audit",
    "Comparison",
    "Correlations",
    "Judgement",
    "Manifest",
    "Measure",
    "Projection",
    "Quantiles",
    "Release",
]


@dataclass(frozen=True)
class Manifest:
    """How a release was made; holds no value of the table.

    ``distortion`` is that of the published table, as the audit finds it; ``cells["distortion"]``, that of the points
    that the cells were made of (SSE / SST). ``output`` describes the file that was written, if one was. ``dependence``
    tells the weight of confidential columns in the design, if they had one. Where cells were made of ``blocks`` of
    columns, ``k`` is that of all columns together.
    """

    microcell: str
    created: str
    k: int
    method: Mapping[str, Any]
    seed: int
    missing: str
    columns: Mapping[str, Mapping[str, Any]]
    input: Mapping[str, Any]
    records: Mapping[str, int]
    cells: Mapping[str, Any]
    distortion: float
    seconds: float
    dependence: Mapping[str, Any] | None = None
    blocks: Mapping[str, Any] | None = None
    row_order: str = "kept"
    output: Mapping[str, Any] | None = None
    manifest_version: int = 1

    def __getitem__(self, name: str) -> Any:
        """The entry of that name."""
        return self.as_dict()[name]

    def as_dict(self) -> dict[str, Any]:
        """The manifest as plain data, ready for JSON."""
        version = {"manifest_version": self.manifest_version}
        return version | {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, eq=False)
class Release:
    """A k-anonymous table, ready to publish, with the partition behind it and the account of its making.

    ``table`` is in the frame type that came in, rows in their order; ``published`` is the same as a :class:`Table`.
    ``row_order`` is the order in which rows go to a file, known only to who has the original; ``source`` the file read.
    ``cells`` are the cells as a function (:class:`microcell.Cells`), if they were asked for.
    """

    table: Any
    partition: Partition
    manifest: Manifest
    schema: Schema
    published: Table
    row_order: Integers
    source: Path | None = None
    cells: Any = None


ALWAYS_ZERO = (
    "identifiers_left",
    "records_unaccounted",
    "columns_missing",
    "columns_unexpected",
    "values_changed",
    "manifest_contradictions",
)
"""The measures that must be 0 for any release."""


@dataclass(frozen=True)
class Measure:
    """A number with its name, unit, direction and meaning, and its interval where it was sampled."""

    name: str
    value: float
    unit: str
    lower_is_better: bool
    meaning: str
    interval: tuple[float, float] | None = None

    def meets(self, limit: float) -> bool:
        """True if the value is at least as good as ``limit``."""
        return self.value <= limit if self.lower_is_better else self.value >= limit


@dataclass(frozen=True, eq=False)
class Comparison:
    """How often each value, or interval of values, of a column occurs before and after.

    ``labels`` names the categories; for numbers and dates it is empty and ``edges`` bounds the intervals.
    """

    name: str
    kind: str
    before: Integers
    after: Integers
    labels: tuple[str, ...] = ()
    edges: Floats | None = None
    unit: str | None = None


@dataclass(frozen=True, eq=False)
class Projection:
    """Some records in the first two principal components, before and after, and the class of each."""

    before: Floats
    after: Floats
    classes: Integers
    explained: tuple[float, float]
    records: int


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A column's values at the same ``shares`` of its records, before and after; ``unit`` as in a comparison."""

    name: str
    shares: Floats
    before: Floats
    after: Floats
    unit: str | None = None


@dataclass(frozen=True, eq=False)
class Correlations:
    """The correlations of the columns that have an order, before and after: a row and a column for each name."""

    names: tuple[str, ...]
    before: Floats
    after: Floats


@dataclass(frozen=True)
class Judgement:
    """A measure beside the limit that it is to meet."""

    measure: Measure
    limit: float

    @property
    def met(self) -> bool:
        """True if the measure meets the limit."""
        return self.measure.meets(self.limit)

    @property
    def bound(self) -> str:
        """The side of the limit: "at most" or "at least"."""
        return "at most" if self.measure.lower_is_better else "at least"

    def __str__(self) -> str:
        return f"{self.measure.name} is {self.measure.value:.6g}, required {self.bound} {self.limit:.6g}."


@dataclass(frozen=True, eq=False)
class Audit:
    """What an outsider finds who compares two tables under a schema.

    ``measures`` by name; ``class_sizes``, one entry an equivalence class of the published table; ``notes``, what
    could not be measured and why. For the eye: ``comparisons``, ``quantiles`` and ``correlations`` of columns before
    and after, a ``projection`` of the records, ``linkage_by_known``, the share of records found again by who knows
    1, 2, ... columns, and ``homogeneous``, the sizes of the classes that share one value of each confidential column.
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

    def __getitem__(self, name: str) -> float:
        """The value of the measure of that name."""
        return self.measures[name].value

    def require(self, **limits: float) -> "Audit":
        """This audit, if it meets every limit; :class:`RequirementError` naming each one missed otherwise.

        A limit is a least value where more is better (``k=5``), else a greatest one (``distortion=0.1``). In any case
        no identifier may be left, no record invented, no column missing or unexpected, no value that was to stay
        changed, and nothing that a manifest says untrue.

        Examples
        --------
        >>> k = Measure("k", 3, "records", False, "records in the smallest class")
        >>> import numpy as np
        >>> audit = Audit(keys=("age",), rows_original=9, rows_released=9, measures={"k": k},
        ...               class_sizes=np.array([3, 3, 3]))
        >>> audit.require(k=3) is audit
        True
        >>> audit.require(k=5)
        Traceback (most recent call last):
        microcell.errors.RequirementError: k is 3, required at least 5.
        """
        missed = [str(item) for item in self.judge(limits) if not item.met]
        if missed:
            raise RequirementError(" ".join(missed))
        return self

    def judge(self, limits: Mapping[str, float]) -> tuple[Judgement, ...]:
        """Each limit beside what was found, after what must be 0 in any case; :class:`OptionError` if not measured."""
        for name, limit in limits.items():
            if not _is_number(limit):
                raise OptionError(f"The limit of {name} must be a number, not {limit!r}.")
        standing = {name: 0.0 for name in ALWAYS_ZERO if name in self.measures}
        return tuple(
            Judgement(self._measure(name), limit) for name, limit in {**standing, **limits}.items()
        )

    def _measure(self, name: str) -> Measure:
        if name not in self.measures:
            raise OptionError(
                f"No measure {name!r} in this audit; it has {', '.join(self.measures)}."
                + ("" if not self.notes else " " + " ".join(self.notes))
            )
        return self.measures[name]


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
