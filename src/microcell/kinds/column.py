"""A column of the quasi-identifiers or confidential columns: as declared, and as encoded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from microcell._display import record_html, record_repr
from microcell.errors import SchemaError
from microcell.hierarchies import Bands, Hierarchy, as_hierarchy, check_widths
from microcell.kernels.arrays import Floats, Integers
from microcell.kinds.values import Storage

if TYPE_CHECKING:
    from microcell.kinds.base import Kind

__all__ = ["CALENDAR_STEPS", "KINDS", "Column", "EncodedColumn", "Layout", "kind_of"]

KINDS: dict[str, "Kind"] = {}
"""Every kind of column by its name, filled when :mod:`microcell.kinds` is imported."""


CALENDAR_STEPS = ("day", "month", "quarter", "year", "decade")
"""Resolutions of published ranges of dates."""

_STEPS = "day, month, quarter, year or decade"


@dataclass(frozen=True)
class Column:
    """A quasi-identifier or confidential column of a schema.

    Confidential columns are published unchanged; their kind, weight and order are used when cells
    preserve their association with the quasi-identifiers, and by the audit.

    Parameters
    ----------
    name
        Name of the column; for a location, a name for the pair of columns ``latitude`` and
        ``longitude``.
    kind
        numeric, ordinal, nominal, code (such as postal codes), hierarchy, datetime or location.
        Detected from the column's type if omitted.
    publish
        What each cell publishes. numeric: mean, median or range; ordinal: median; nominal: mode
        or set;
        code: prefix; hierarchy: ancestor (the smallest group that contains all members) or set (up
        to three values, such as "asthma or diabetes"); datetime: mean or range; location:
        mean.
    weight
        Factor applied to the column's squared distances.
    most_false
        For a nominal column that publishes the mode: a cell in which that is false for more than
        this share of its members publishes the set of its values instead, if these are at most
        three, and otherwise a missing value.
    step
        With publish = "range": the resolution of the bounds, which are rounded outward: a number,
        or day, month, quarter, year or decade for dates.
    order
        Categories of an ordinal column, lowest first.
    latitude, longitude
        Names of the two columns of a location, in degrees.
    hierarchy
        The groups of the values: a file with one row per value (value; group; larger group; ...),
        the name of a bundled hierarchy (``microcell hierarchy list``), such rows, or a mapping from
        groups to their values.
    bands
        Groups of numbers, as widths such as (5, 10, 20), or of dates: month, quarter, year, decade.
    after
        Another quasi-identifier that must not be published with a later date or larger number
        than this one, such as the admission for a discharge.
    difference_of
        Two other quasi-identifiers, later and earlier: the column is published as the difference of
        their published values. The difference of dates is in days.
    sum_of
        Other quasi-identifiers: the column is published as the sum of their published values.
    round
        For a confidential number: publish multiples of this step, so that exact values identify
        nobody.
    top, bottom
        For a confidential number: publish larger values as ``top``, smaller ones as ``bottom``.
    noise
        For a confidential number: add random noise whose variance is this share of the column's.
        Means, variances and the covariances of columns with the same share are kept.
    swap
        For a confidential number: exchange values whose ranks differ by at most this share of the
        records.

    Examples
    --------
    >>> Column("age", kind="numeric", publish="range").publish
    'range'
    """

    name: str
    kind: str | None = None
    publish: str | None = None
    weight: float = 1.0
    order: tuple[str, ...] | None = None
    latitude: str | None = None
    longitude: str | None = None
    hierarchy: Hierarchy | None = None
    bands: tuple[float | str, ...] | None = None
    after: str | None = None
    difference_of: tuple[str, ...] | None = None
    sum_of: tuple[str, ...] | None = None
    round: float | None = None
    top: float | None = None
    bottom: float | None = None
    noise: float | None = None
    swap: float | None = None
    most_false: float | None = None
    step: float | str | None = None

    __repr__ = record_repr
    _repr_html_ = record_html

    def __post_init__(self) -> None:
        if self.order is not None:
            object.__setattr__(self, "order", tuple(_category_name(item) for item in self.order))
        for key in ("difference_of", "sum_of", "bands"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, tuple(getattr(self, key)))
        if self.hierarchy is not None:
            object.__setattr__(self, "hierarchy", as_hierarchy(self.hierarchy))
        self._check_kind()
        self._check_hierarchy()
        self._check_publish()
        self._check_relations()
        self._check_masks()
        self._check_truth()
        if not (
            isinstance(self.weight, (int, float)) and isfinite(self.weight) and self.weight > 0
        ):
            raise SchemaError(
                f"Column {self.name!r}: weight must be a positive number, not {self.weight!r}.",
                code="schema.invalid",
                column=self.name,
                field="weight",
            )
        self._check_order()
        self._check_location()

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Names of the table's columns that make up this one: two for a location."""
        if self.latitude is not None and self.longitude is not None:
            return (self.latitude, self.longitude)
        return (self.name,)

    def _check_kind(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError(
                f"A column name must be non-empty text, not {self.name!r}.",
                code="schema.invalid",
                field="name",
            )
        if self.kind is not None and self.kind not in KINDS:
            raise SchemaError(
                f"Column {self.name!r}: unknown kind {self.kind!r}. "
                f"Choose one of {', '.join(KINDS)}.",
                code="schema.invalid",
                column=self.name,
                field="kind",
            )

    def _check_hierarchy(self) -> None:
        takes_one = self.kind is not None and KINDS[self.kind].takes_hierarchy
        keys = [key for key in ("hierarchy", "bands") if getattr(self, key) is not None]
        problem, field = "", keys[0] if keys else "hierarchy"
        if len(keys) > 1 and not isinstance(self.hierarchy, Bands):
            problem = "hierarchy and bands cannot be combined. Keep one of them"
        elif takes_one and not keys:
            problem = (
                "a hierarchy needs the groups of its values. Set hierarchy (a file, or the name of "
                "a bundled one) or bands"
            )
        elif keys and not takes_one and self.kind is not None:
            problem = f"{field} is only valid for kind 'hierarchy', not for {self.kind} columns"
        elif self.bands is not None:
            problem = check_widths(self.bands)
        if problem:
            raise SchemaError(
                f"Column {self.name!r}: {problem}.",
                code="schema.invalid",
                column=self.name,
                field=field,
            )

    def _check_publish(self) -> None:
        if self.kind is None:
            allowed = tuple(chain.from_iterable(kind.representatives for kind in KINDS.values()))
        else:
            allowed = KINDS[self.kind].representatives
        if self.publish is not None and self.publish not in allowed:
            subject = f"a {self.kind} column" if self.kind else "a column"
            raise SchemaError(
                f"Column {self.name!r}: {subject} cannot publish {self.publish!r}. "
                f"Choose {' or '.join(dict.fromkeys(allowed))}.",
                code="schema.invalid",
                column=self.name,
                field="publish",
            )

    @property
    def related(self) -> tuple[str, ...]:
        """Columns that the published value depends on, besides this one."""
        return (
            *((self.after,) if self.after else ()),
            *(self.difference_of or ()),
            *(self.sum_of or ()),
        )

    def _check_relations(self) -> None:
        keys = [key for key in ("after", "difference_of", "sum_of") if getattr(self, key)]
        problem, field = "", keys[0] if keys else "after"
        if len(keys) > 1:
            problem = f"{keys[0]} and {keys[1]} cannot be combined. Keep one of them"
        elif self.name in self.related:
            problem = f"{field} names the column itself. Name another quasi-identifier"
        elif self.difference_of is not None and len(self.difference_of) != 2:
            problem, field = "difference_of needs two names, later and earlier", "difference_of"
        elif self.sum_of is not None and len(self.sum_of) < 2:
            problem, field = "sum_of needs the names of at least two columns", "sum_of"
        elif keys and self.kind not in (None, "numeric", "datetime"):
            problem = f"{field} is only valid for numbers and dates, not for {self.kind} columns"
        elif keys and self.publish == "range":
            problem = f"{field} cannot be combined with publish = 'range'"
        if problem:
            raise SchemaError(
                f"Column {self.name!r}: {problem}.",
                code="schema.invalid",
                column=self.name,
                field=field,
            )

    @property
    def masks(self) -> dict[str, float]:
        """How a confidential number is changed before it is published, by name of the field."""
        names = ("noise", "swap", "bottom", "top", "round")
        fields = {name: getattr(self, name) for name in names}
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def is_randomized(self) -> bool:
        """True if the column is masked by noise or by swapping."""
        return self.noise is not None or self.swap is not None

    def _check_masks(self) -> None:
        problem, field = "", "round"
        for name, value in self.masks.items():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not isfinite(value):
                problem, field = f"{name} must be a number", name
        if not problem and self.round is not None and self.round <= 0:
            problem = "round must be a positive number"
        for name in ("noise", "swap"):
            share = self.masks.get(name)
            if not problem and share is not None and not 0 < share <= 1:
                problem, field = f"{name} must be a share above 0 and at most 1", name
        if not problem and self.noise is not None and self.swap is not None:
            problem, field = "noise and swap cannot be combined. Keep one of them", "swap"
        if not problem and self.top is not None and self.bottom is not None:
            field = "top"
            problem = "top must be larger than bottom" if self.top <= self.bottom else ""
        if problem:
            raise SchemaError(
                f"Column {self.name!r}: {problem}.",
                code="schema.invalid",
                column=self.name,
                field=field,
            )

    def _check_truth(self) -> None:
        problem, field = "", "most_false"
        if self.most_false is not None:
            is_number = isinstance(self.most_false, (int, float))
            if not is_number or isinstance(self.most_false, bool) or not 0 <= self.most_false < 1:
                problem = "most_false must be a share of at least 0 and below 1"
            elif self.kind not in (None, "nominal") or self.publish not in (None, "mode"):
                problem = "most_false is only valid for nominal columns that publish the mode"
        if self.step is not None and not problem:
            field = "step"
            if self.publish != "range":
                problem = "step is only valid with publish = 'range'"
            elif isinstance(self.step, str):
                dates = self.kind in (None, "datetime") and self.step in CALENDAR_STEPS
                problem = "" if dates else f"step must be a number, or for dates {_STEPS}"
            elif isinstance(self.step, bool) or not isfinite(self.step) or self.step <= 0:
                problem = f"step must be a positive number, or for dates {_STEPS}"
            elif self.kind == "datetime":
                problem = f"the step of dates must be {_STEPS}"
        if problem:
            raise SchemaError(
                f"Column {self.name!r}: {problem}.",
                code="schema.invalid",
                column=self.name,
                field=field,
            )

    def _check_order(self) -> None:
        if self.order is None:
            return
        if self.kind is not None and not KINDS[self.kind].takes_order:
            raise SchemaError(
                f"Column {self.name!r}: order is only valid for ordinal columns, not for "
                f"{self.kind} ones. Remove it, or set kind = 'ordinal'.",
                code="schema.invalid",
                column=self.name,
                field="order",
            )
        if len(set(self.order)) != len(self.order):
            raise SchemaError(
                f"Column {self.name!r}: order contains a category twice. Remove one of them.",
                code="schema.category_order",
                column=self.name,
                field="order",
            )

    def _check_location(self) -> None:
        n_given = sum(part is not None for part in (self.latitude, self.longitude))
        takes_two = self.kind is not None and KINDS[self.kind].n_parts == 2
        if takes_two and n_given != 2:
            raise SchemaError(
                f"Column {self.name!r}: a location needs the names of two columns. Set latitude "
                "and longitude.",
                code="schema.invalid",
                column=self.name,
                field="latitude",
            )
        if not takes_two and n_given:
            raise SchemaError(
                f"Column {self.name!r}: latitude and longitude are only valid for kind 'location'.",
                code="schema.invalid",
                column=self.name,
                field="latitude",
            )


def _category_name(item: object) -> str:
    """Return the name of a category; whole numbers have no decimal point, so 1.0 equals 1."""
    return str(int(item)) if isinstance(item, float) and item.is_integer() else str(item)


Layout = Literal["line", "places", "indicators", "tree", "sphere"]
"""How an encoded column uses its dimensions.

``"line"``: one dimension, values on a number line. ``"places"``: one dimension, a coordinate per
name. ``"indicators"``: a dimension per name. ``"tree"``: a dimension per value and
group of a hierarchy. ``"sphere"``: three dimensions, unit vectors.
"""


def _empty() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """The dimensions ``first`` to ``last - 1`` of the points: one quasi-identifier, encoded.

    Parameters
    ----------
    name, kind, weight
        As in the schema. The weight multiplies squared distances, so coordinates are multiplied by
        its square root.
    parts
        Names of the table's columns: two for a location.
    storage, unit
        Type of the fitted values, and the unit of dates and times.
    first
        The first dimension.
    origin, exponent, centre, scale
        Numbers and dates: coordinate = (value * 2**exponent - origin - centre) / scale. ``origin``
        is a round number near the mean, an integer for whole numbers so that large ones lose no
        digits; ``centre`` is the remainder of the mean. The exponent is 0 except for numbers so
        large or small that they would overflow or underflow. Axes of a location:
        (value - centre) / scale. Indicators: indicator - centre.
    names
        Nominal columns: the category of each dimension; two categories share one dimension, and the
        one without an indicator comes first. None stands for a withheld name. Ordinal columns: the
        categories, lowest first. Codes: the known codes, sorted.
    places
        Ordinal columns and codes: the coordinate of each name, before the weight is applied.
    hierarchy
        The groups of values, for columns with a hierarchy; their ``names`` are the values and
        groups with a dimension, and ``places`` the heights of their indicators.
    counts
        Number of people with each name; None if the names are public, as declared orders are.
    totals
        Number of people with each value and group of a hierarchy, until rare ones are withheld.
    """

    name: str
    kind: str
    parts: tuple[str, ...]
    storage: Storage
    unit: str | None = None
    weight: float = 1.0
    first: int = 0
    origin: int | float = 0
    exponent: int = 0
    centre: Floats = field(default_factory=_empty)
    scale: Floats = field(default_factory=_empty)
    names: tuple[str | None, ...] = ()
    places: Floats = field(default_factory=_empty)
    hierarchy: Hierarchy | None = None
    counts: Integers | None = None
    totals: Mapping[str, int] | None = None

    __repr__ = record_repr

    @property
    def dimensions(self) -> int:
        """Number of dimensions."""
        return len(self.centre)

    @property
    def last(self) -> int:
        """End of the column's dimensions (exclusive)."""
        return self.first + self.dimensions

    @property
    def constant(self) -> bool:
        """True if the column had a single value and therefore has no dimension."""
        return self.dimensions == 0

    @property
    def layout(self) -> Layout:
        """How the column uses its dimensions."""
        return KINDS[self.kind].layout

    def published(self, k: int) -> "EncodedColumn":
        """Return the column without counts and without names that fewer than ``k`` people have."""
        return KINDS[self.kind].withhold(self, k)


class _HasKind(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str | None: ...


def kind_of(column: _HasKind) -> "Kind":
    """Return the kind of a resolved column, or of an encoded one.

    Examples
    --------
    >>> from microcell.kinds import Column
    >>> kind_of(Column("age", kind="numeric")).representatives
    ('mean', 'median', 'range')
    """
    if column.kind is None:
        raise SchemaError(
            f"Column {column.name!r} has no kind yet. Resolve the schema with the table first.",
            code="schema.invalid",
            column=column.name,
        )
    return KINDS[column.kind]
