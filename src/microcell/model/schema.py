"""The schema: the role of each column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from numbers import Integral, Real
from typing import Any, Final, Literal

from microcell._display import html_card, record_repr
from microcell.errors import SchemaError
from microcell.kinds import KINDS, Column

__all__ = ["DOMINANCE", "Schema", "as_dominance"]

DOMINANCE: Final = (1, 0.5)
"""Default dominance rule: no member has more than half of the weight of its cell."""


@dataclass(frozen=True)
class Schema:
    """The role of each column of a table.

    Parameters
    ----------
    identifiers
        Columns that identify a person directly. They are removed.
    person
        The column (or several columns combined) that identifies the unit that k protects, such as a
        patient, a household or a company, if it may have several rows. A cell then needs k distinct
        persons. The columns are removed. Without them every row counts as a person.
    quasi
        Quasi-identifiers: columns that an outsider may know. Names or :class:`Column` records.
        Cells are formed on them.
    confidential
        Columns that an outsider would like to learn, published unchanged. Names, or
        :class:`Column` records if their kind (numeric, datetime, ordinal or nominal) is not the
        default for their type.
    weight
        Column of sampling weights, used to compute representatives; published unchanged.
    strata
        Columns that divide the table into strata; a cell never spans two strata. Published
        unchanged.
    keep, drop
        Other columns to publish unchanged, or to remove.
    rest
        What to do with columns that are not listed: "error", "keep" or "drop".
    dominance
        Dominance rule (n, p): when a cell's representative is computed, the sampling weights of
        its n heaviest members are capped so that together they have at most the share p of the
        total. The rows of a person count together. ``(1, 1.0)`` caps nothing. Without weights and
        persons the rule has no effect.
    person_cells
        With ``person``: "rows" lets the rows of a person lie in different cells; "together" puts
        all rows of a person into one cell, for tables whose quasi-identifiers hardly vary within
        a person.
    rows_are_people
        True states that every row is about a different person although no identifier is unique.

    Examples
    --------
    >>> sex = Column("sex", kind="nominal")
    >>> schema = Schema(identifiers=["name"], quasi=["age", sex], confidential=["tsh"])
    >>> [column.name for column in schema.quasi]
    ['age', 'sex']
    >>> Schema(quasi=["age"], confidential=["age"])
    Traceback (most recent call last):
    microcell.errors.SchemaError: Column 'age' has two roles: quasi and confidential. ...
    """

    identifiers: Sequence[str] = ()
    quasi: Sequence[Any] = ()
    confidential: Sequence[Any] = ()
    weight: str | None = None
    strata: Sequence[str] = ()
    keep: Sequence[str] = ()
    drop: Sequence[str] = ()
    rest: Literal["error", "keep", "drop"] = "error"
    dominance: tuple[int, float] = DOMINANCE
    person: str | Sequence[str] = ()
    person_cells: Literal["rows", "together"] = "rows"
    rows_are_people: bool = False

    __repr__ = record_repr

    def __post_init__(self) -> None:
        for role in ("identifiers", "person", "quasi", "confidential", "strata", "keep", "drop"):
            object.__setattr__(self, role, _as_names(role, getattr(self, role)))
        for role in ("quasi", "confidential"):
            columns = tuple(
                item if isinstance(item, Column) else Column(item) for item in getattr(self, role)
            )
            object.__setattr__(self, role, columns)
        _check_confidential(self.confidential)
        if self.weight is not None and not isinstance(self.weight, str):
            raise SchemaError(
                "weight must be the name of one column, as text.",
                code="schema.invalid",
                field="weight",
            )
        if self.rest not in ("error", "keep", "drop"):
            raise SchemaError(
                f"rest must be 'error', 'keep' or 'drop', not {self.rest!r}.",
                code="schema.invalid",
                field="rest",
            )
        object.__setattr__(self, "dominance", as_dominance(self.dominance))
        self._check_persons()
        self._check_overlap()
        _check_relations(self.quasi)

    def _repr_html_(self) -> str:
        columns: dict[str, list[str]] = {}
        for name, role in self.roles():
            columns.setdefault(role, []).append(name)
        return html_card(
            "Schema",
            {role: ", ".join(names) for role, names in columns.items()},
            next_steps={"mc.anonymize(table, schema, k=5)": "a k-anonymous release"},
        )

    def roles(self) -> list[tuple[str, str]]:
        """Return (column of the table, role) pairs, role by role."""
        pairs = [(name, "identifiers") for name in self.identifiers]
        pairs += [(name, "person") for name in self.person]
        pairs += [(part, "quasi") for column in self.quasi for part in column.parts]
        pairs += [(column.name, "confidential") for column in self.confidential]
        for role in ("strata", "keep", "drop"):
            pairs += [(name, role) for name in getattr(self, role)]
        if self.weight is not None:
            pairs.append((self.weight, "weight"))
        return pairs

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Published columns that an outsider can match on: quasi-identifiers and strata."""
        parts = chain.from_iterable(column.parts for column in self.quasi)
        return (*parts, *self.strata)

    @property
    def removed(self) -> tuple[str, ...]:
        """Columns that are not published."""
        return (*self.identifiers, *self.person, *self.drop)

    @property
    def unchanged(self) -> tuple[str, ...]:
        """Columns that are published unchanged."""
        weight = () if self.weight is None else (self.weight,)
        return (*(column.name for column in self.confidential), *self.strata, *self.keep, *weight)

    def _check_persons(self) -> None:
        if self.person_cells not in ("rows", "together"):
            raise SchemaError(
                f"person_cells must be 'rows' or 'together', not {self.person_cells!r}.",
                code="schema.invalid",
                field="person_cells",
            )
        if not isinstance(self.rows_are_people, bool):
            raise SchemaError(
                "rows_are_people must be true or false.",
                code="schema.invalid",
                field="rows_are_people",
            )
        if self.person and self.rows_are_people:
            raise SchemaError(
                "The schema names a person column and also states rows_are_people. Remove one of "
                "the two.",
                code="schema.invalid",
                field="rows_are_people",
            )
        if self.person_cells == "together" and not self.person:
            raise SchemaError(
                "person_cells = 'together' needs a person column. Set person to the column "
                "that identifies people.",
                code="schema.invalid",
                field="person_cells",
            )

    def _check_overlap(self) -> None:
        role_of: dict[str, str] = {}
        for name, role in self.roles():
            if name in role_of:
                problem = (
                    f"is listed twice under {role}"
                    if role_of[name] == role
                    else f"has two roles: {role_of[name]} and {role}"
                )
                raise SchemaError(
                    f"Column {name!r} {problem}. Keep only one of them.",
                    code="schema.duplicate_role",
                    column=name,
                )
            role_of[name] = role
        for column in self.quasi:
            if len(column.parts) > 1 and column.name in role_of:
                raise SchemaError(
                    f"The location {column.name!r} has the same name as a column. Rename the "
                    "location.",
                    code="schema.duplicate_role",
                    column=column.name,
                )


def as_dominance(rule: Any) -> tuple[int, float]:
    """Return a dominance rule (n, p); raise SchemaError if it is invalid.

    Examples
    --------
    >>> as_dominance([2, 0.8])
    (2, 0.8)
    """
    items = tuple(rule) if isinstance(rule, (tuple, list)) else ()
    if len(items) == 2 and not any(isinstance(item, bool) for item in items):
        n, p = items
        if isinstance(n, Integral) and isinstance(p, Real):
            number, share = int(n), float(p)
            if number >= 1 and 0 < share <= 1:
                return number, share
    raise SchemaError(
        "dominance must be two numbers (n, p): a whole number of records of at least 1, and their "
        "largest share of a cell's weight, above 0 and at most 1.",
        code="schema.invalid",
        field="dominance",
    )


def _check_confidential(columns: Sequence[Column]) -> None:
    allowed = [kind.name for kind in KINDS.values() if kind.can_be_confidential]
    for column in columns:
        if column.kind is not None and column.kind not in allowed:
            raise SchemaError(
                f"Column {column.name!r}: a confidential column cannot be {column.kind}. "
                f"Choose {', '.join(allowed[:-1])} or {allowed[-1]}.",
                code="schema.wrong_kind",
                column=column.name,
            )
        if column.publish is not None:
            raise SchemaError(
                f"Column {column.name!r} is confidential and published unchanged; "
                "publish is only valid for quasi-identifiers.",
                code="schema.invalid",
                column=column.name,
                field="publish",
            )
        if column.related:
            raise SchemaError(
                f"Column {column.name!r} is confidential and published unchanged; after, "
                "difference_of and sum_of are only valid for quasi-identifiers.",
                code="schema.invalid",
                column=column.name,
                field="after",
            )


def _check_relations(columns: Sequence[Column]) -> None:
    """Check that after, difference_of and sum_of name other quasi-identifiers, without a cycle."""
    by_name = {column.name: column for column in columns if len(column.parts) == 1}
    for column in columns:
        field = "after" if column.after else "difference_of" if column.difference_of else "sum_of"
        for name in column.related:
            problem = ""
            if name not in by_name:
                problem = (
                    f"names {name!r}, which is not a quasi-identifier (of the same block). Only "
                    "published representatives can be kept consistent"
                )
            elif by_name[name].difference_of or by_name[name].sum_of:
                problem = f"names {name!r}, which is itself a difference or a sum"
            elif _leads_back(by_name, column.name, name):
                problem = f"leads back to {column.name!r}"
            elif by_name[name].kind not in (None, "numeric", "datetime"):
                problem = f"names {name!r}, which is {by_name[name].kind}, not a number or date"
            elif by_name[name].publish == "range":
                problem = f"names {name!r}, which is published as a range, not as a number"
            if problem:
                raise SchemaError(
                    f"Column {column.name!r}: {field} {problem}.",
                    code="schema.invalid",
                    column=column.name,
                    field=field,
                )
        for field in column.masks:
            raise SchemaError(
                f"Column {column.name!r}: {field} is only valid for confidential columns; "
                "quasi-identifiers are published as representatives.",
                code="schema.invalid",
                column=column.name,
                field=field,
            )


def _leads_back(columns: Mapping[str, Column], start: str, name: str) -> bool:
    seen = set()
    while name in columns and name not in seen:
        if name == start:
            return True
        seen.add(name)
        name = columns[name].after or ""
    return False


def _as_names(role: str, names: Any) -> tuple[Any, ...]:
    items = (names,) if isinstance(names, (str, Column)) else tuple(names)
    allowed = (str, Column) if role in ("quasi", "confidential") else (str,)
    for item in items:
        if not isinstance(item, allowed):
            raise SchemaError(
                f"{role} must contain column names, not {type(item).__name__}.",
                code="schema.invalid",
                field=role,
            )
    return items
