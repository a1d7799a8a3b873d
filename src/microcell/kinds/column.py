"""The declaration of a column in a schema: its kind, representative, weight and order."""

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import isfinite

from microcell._display import record_html, record_repr
from microcell.errors import SchemaError
from microcell.kinds.registry import KINDS

__all__ = ["Column"]


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
        numeric, ordinal, nominal, code (such as postal codes), datetime or location. Detected from
        the column's type if omitted.
    publish
        What each cell publishes. numeric: mean, median or range; ordinal: median; nominal: mode;
        code: prefix; datetime and location: mean.
    weight
        Factor applied to the column's squared distances.
    order
        Categories of an ordinal column, lowest first.
    latitude, longitude
        Names of the two columns of a location, in degrees.
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
    after: str | None = None
    difference_of: tuple[str, ...] | None = None
    sum_of: tuple[str, ...] | None = None
    round: float | None = None

    __repr__ = record_repr
    _repr_html_ = record_html

    def __post_init__(self) -> None:
        if self.order is not None:
            object.__setattr__(self, "order", tuple(_category_name(item) for item in self.order))
        for key in ("difference_of", "sum_of"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, tuple(getattr(self, key)))
        self._check_kind()
        self._check_publish()
        self._check_relations()
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
        problem, field = "", keys[0] if keys else "round"
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
        elif self.round is not None and not (
            isinstance(self.round, (int, float))
            and not isinstance(self.round, bool)
            and isfinite(self.round)
            and self.round > 0
        ):
            problem = "round must be a positive number"
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
