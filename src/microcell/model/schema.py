"""The schema: the role and kind of each column."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import Any, Literal

from microcell.errors import SchemaError

__all__ = ["PUBLISHED", "Column", "Kind", "Schema"]

Kind = Literal["numeric", "ordinal", "nominal", "code", "datetime", "location"]

PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "numeric": ("mean", "median", "range"),
    "ordinal": ("median",),
    "nominal": ("mode",),
    "code": ("prefix",),
    "datetime": ("mean",),
    "location": ("mean",),
}
"""What may be published of a cell, for each kind of column; the first is the default."""


@dataclass(frozen=True)
class Column:
    """A quasi-identifier: its kind, what a cell publishes of it, and how much it weighs.

    A confidential column has a kind, a weight and an order too; it is published unchanged.

    Parameters
    ----------
    name
        The column's name; for a location, a name for the pair of columns ``latitude`` and ``longitude``.
    kind
        numeric, ordinal, nominal, code (postal codes and the like), datetime or location; found out from the
        column's type if left out.
    publish
        What a cell publishes: numeric: mean, median or range; ordinal: median; nominal: mode; code: prefix;
        datetime and location: mean.
    weight
        Factor on the column's squared distances.
    order
        An ordinal column's categories, lowest first.

    Examples
    --------
    >>> Column("age", kind="numeric", publish="range").publish
    'range'
    """

    name: str
    kind: Kind | None = None
    publish: str | None = None
    weight: float = 1.0
    order: tuple[str, ...] | None = None
    latitude: str | None = None
    longitude: str | None = None

    def __post_init__(self) -> None:
        if self.order is not None:
            object.__setattr__(self, "order", tuple(_category_name(item) for item in self.order))
        self._check_kind()
        self._check_publish()
        if not (
            isinstance(self.weight, (int, float)) and isfinite(self.weight) and self.weight > 0
        ):
            raise SchemaError(
                f"Column {self.name!r}: weight must be a positive number, not {self.weight!r}."
            )
        self._check_order()
        self._check_location()

    @property
    def parts(self) -> tuple[str, ...]:
        """The columns of the table that this stands for."""
        if self.latitude is not None and self.longitude is not None:
            return (self.latitude, self.longitude)
        return (self.name,)

    def _check_kind(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError(f"A column's name must be text, not {self.name!r}.")
        if self.kind is not None and self.kind not in PUBLISHED:
            raise SchemaError(
                f"Column {self.name!r}: unknown kind {self.kind!r}; choose one of {', '.join(PUBLISHED)}."
            )

    def _check_publish(self) -> None:
        allowed = (
            PUBLISHED[self.kind] if self.kind else tuple(chain.from_iterable(PUBLISHED.values()))
        )
        if self.publish is not None and self.publish not in allowed:
            raise SchemaError(
                f"Column {self.name!r}: cannot publish {self.publish!r} for kind {self.kind or 'not given'!r}; "
                f"choose {' or '.join(dict.fromkeys(allowed))}."
            )

    def _check_order(self) -> None:
        if self.order is None:
            return
        if self.kind not in (None, "ordinal"):
            raise SchemaError(
                f"Column {self.name!r}: an order is for ordinal columns, not for {self.kind}."
            )
        if len(set(self.order)) != len(self.order):
            raise SchemaError(f"Column {self.name!r}: a category stands twice in its order.")

    def _check_location(self) -> None:
        given = [part for part in (self.latitude, self.longitude) if part is not None]
        if self.kind == "location" and len(given) != 2:
            raise SchemaError(
                f"Column {self.name!r}: a location needs both latitude and longitude, the names of two columns."
            )
        if self.kind != "location" and given:
            raise SchemaError(
                f"Column {self.name!r}: latitude and longitude are for kind 'location'."
            )


@dataclass(frozen=True)
class Schema:
    """What each column of a table is: the roles.

    Parameters
    ----------
    identifiers
        Columns that name a person. They are dropped.
    quasi
        Quasi-identifiers, names or :class:`Column` records: what an outsider may know. Cells are made of them.
    confidential
        Columns published unchanged, that an outsider would like to learn: names, or :class:`Column` records that tell
        their kind (numeric, datetime, ordinal with its order, nominal) where it is not that of their type.
    weight
        A sampling-weight column, used in representatives; published unchanged.
    strata
        Columns within whose values cells are made; published unchanged.
    keep, drop
        Further columns to publish unchanged, or to leave out.
    rest
        What becomes of columns not named: "error", "keep" or "drop".

    Examples
    --------
    >>> schema = Schema(identifiers=["name"], quasi=["age", Column("sex", kind="nominal")], confidential=["tsh"])
    >>> [column.name for column in schema.quasi]
    ['age', 'sex']
    >>> Schema(quasi=["age"], confidential=["age"])
    Traceback (most recent call last):
    microcell.errors.SchemaError: Column 'age' has two roles: quasi and confidential. Give it one.
    """

    identifiers: Sequence[str] = ()
    quasi: Sequence[Any] = ()
    confidential: Sequence[Any] = ()
    weight: str | None = None
    strata: Sequence[str] = ()
    keep: Sequence[str] = ()
    drop: Sequence[str] = ()
    rest: Literal["error", "keep", "drop"] = "error"

    def __post_init__(self) -> None:
        for role in ("identifiers", "quasi", "confidential", "strata", "keep", "drop"):
            object.__setattr__(self, role, _as_names(role, getattr(self, role)))
        for role in ("quasi", "confidential"):
            columns = tuple(
                item if isinstance(item, Column) else Column(item) for item in getattr(self, role)
            )
            object.__setattr__(self, role, columns)
        _check_confidential(self.confidential)
        if self.weight is not None and not isinstance(self.weight, str):
            raise SchemaError("weight must be the name of one column.")
        if self.rest not in ("error", "keep", "drop"):
            raise SchemaError(f"rest must be 'error', 'keep' or 'drop', not {self.rest!r}.")
        self._check_overlap()

    def roles(self) -> Iterator[tuple[str, str]]:
        """(column of the table, role), in the order of the roles."""
        for name in self.identifiers:
            yield name, "identifiers"
        for column in self.quasi:
            for part in column.parts:
                yield part, "quasi"
        for column in self.confidential:
            yield column.name, "confidential"
        for role in ("strata", "keep", "drop"):
            for name in getattr(self, role):
                yield name, role
        if self.weight is not None:
            yield self.weight, "weight"

    @property
    def keys(self) -> tuple[str, ...]:
        """The published columns that an outsider may match on: quasi-identifiers and strata."""
        return tuple(chain.from_iterable(column.parts for column in self.quasi)) + tuple(
            self.strata
        )

    @property
    def unchanged(self) -> tuple[str, ...]:
        """The columns that are published as they are."""
        weight = () if self.weight is None else (self.weight,)
        return (*(column.name for column in self.confidential), *self.strata, *self.keep, *weight)

    def _check_overlap(self) -> None:
        first: dict[str, str] = {}
        for name, role in self.roles():
            if name in first:
                same = (
                    f"is named twice under {role}"
                    if first[name] == role
                    else (f"has two roles: {first[name]} and {role}")
                )
                raise SchemaError(f"Column {name!r} {same}. Give it one.")
            first[name] = role
        for column in self.quasi:
            if column.kind == "location" and column.name in first:
                raise SchemaError(
                    f"The location {column.name!r} is named like a column. Give it another name."
                )


def _check_confidential(columns: Sequence[Column]) -> None:
    for column in columns:
        if column.kind in ("code", "location"):
            raise SchemaError(
                f"Column {column.name!r}: a confidential column is numeric, datetime, ordinal or nominal, not "
                f"{column.kind}."
            )
        if column.publish is not None:
            raise SchemaError(
                f"Column {column.name!r} is confidential, and so published unchanged: publish is for quasi-identifiers."
            )


def _category_name(item: object) -> str:
    """A category as text, whole numbers without a decimal point: 1.0 and 1 are the same category."""
    return str(int(item)) if isinstance(item, float) and item.is_integer() else str(item)


def _as_names(role: str, given: Any) -> tuple[Any, ...]:
    items = (given,) if isinstance(given, (str, Column)) else tuple(given)
    allowed = (str, Column) if role in ("quasi", "confidential") else (str,)
    for item in items:
        if not isinstance(item, allowed):
            raise SchemaError(f"{role} must be column names, not {type(item).__name__}.")
    return items
