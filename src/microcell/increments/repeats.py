"""Repeated people or rows: recognize those of a batch that are already in the session.

Records that are added twice would count twice, so that a cell of k records could be about fewer
than k people.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from secrets import token_bytes
from typing import Any

import numpy as np

from microcell._display import count, listing, short_repr
from microcell.errors import DataError, OptionError
from microcell.measures.people import digest_values
from microcell.model import Integers, Mask, Schema, Table

__all__ = ["REPEATED", "Register", "check_once", "check_repeated", "refuse_repeats", "with_id"]

REPEATED = ("refuse", "skip", "keep")
"""What to do with rows of people who are already in the session."""

_KEY_BYTES = 16
_MAX_ROWS_SHOWN = 10
_MAX_ROWS = 1000
"""Maximum number of row numbers in the details of an error."""


@dataclass(frozen=True, eq=False, repr=False)
class Register:
    """Keyed digests of all people in a session.

    Without columns that identify people, rows are compared as a whole.
    """

    columns: tuple[str, ...] = ()
    once: bool = False
    """Whether a person may have only one row."""
    key: bytes = field(default_factory=lambda: token_bytes(_KEY_BYTES))
    """Random key. Whoever has it can find out who a digest belongs to."""
    digests: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Digests of the people so far, sorted, without repetition."""

    def __repr__(self) -> str:
        return short_repr(self, count(len(self.digests), "digest"), columns=self.columns)

    @property
    def unit(self) -> str:
        """What is compared: persons or rows."""
        return "person" if self.columns else "row"

    def digest(self, table: Table) -> Integers:
        """Return the digest of the person of each row, or of the row."""
        return digest_values(table, self.columns or table.names, self.key)

    def contents(self, table: Table) -> str:
        """Return a digest of a table's rows that does not depend on their order."""
        rows = np.sort(digest_values(table, table.names, self.key))
        return blake2b(rows.tobytes(), key=self.key, digest_size=32).hexdigest()

    def knows(self, digests: Integers) -> Mask:
        """Return which of these digests are in the register."""
        return np.isin(digests, self.digests)

    def including(self, digests: Integers) -> "Register":
        """Return the register with these digests added."""
        return replace(self, digests=np.union1d(self.digests, digests))


def with_id(schema: Schema, id: str | None) -> Schema:
    """Return the schema with ``id`` among the identifiers, which are not published."""
    if id is None or id in schema.identifiers:
        return schema
    role = dict(schema.roles()).get(id) if isinstance(id, str) else "none"
    if role not in (None, "drop"):
        raise OptionError(
            "id must name a column that identifies people and is not published, so it cannot have "
            "another role in the schema. If people have several rows, use the role person alone.",
            code="option.conflict",
            option="id",
        )
    drop = [name for name in schema.drop if name != id]
    return replace(schema, identifiers=[*schema.identifiers, id], drop=drop)


def check_repeated(repeated: Any, register: Register) -> None:
    """Raise OptionError unless ``repeated`` is a choice that this register allows."""
    if repeated not in REPEATED:
        raise OptionError(
            f"repeated must be one of {', '.join(REPEATED)}.",
            code="option.unknown",
            option="repeated",
        )
    if repeated == "keep" and register.once:
        raise OptionError(
            "The session's id states that every person has one row, so rows of people who are "
            "already in the session cannot be kept. Skip them (repeated='skip').",
            code="option.conflict",
            option="repeated",
        )


def check_once(register: Register, table: Table, rows: Integers, digests: Integers) -> None:
    """Raise DataError if the ``rows`` of a table lack an id or repeat one.

    ``digests`` are those of all rows.
    """
    if not register.once:
        return
    (name,) = register.columns
    _reject(rows[table.columns[name].missing[rows]], f"Column {name!r} has no value", name)
    _, first = np.unique(digests[rows], return_index=True)
    _reject(np.delete(rows, first), f"Column {name!r} repeats an earlier person", name)


def _reject(rows: Integers, problem: str, column: str) -> None:
    if len(rows):
        raise DataError(
            f"{problem} in {_describe_rows(rows)}. Correct or remove them.",
            code="data.bad_key",
            column=column,
            row=int(rows[0]) + 1,
            count=len(rows),
        )


def refuse_repeats(register: Register, rows: Integers, digests: Integers) -> None:
    """Raise DataError if any of the ``rows`` is about somebody who is already in the session."""
    repeats = rows[register.knows(digests[rows])]
    if len(repeats) == 0:
        return
    n = len(np.unique(digests[repeats])) if register.columns else len(repeats)
    if register.columns:
        advice = "" if register.once else " If these are further rows of theirs, use 'keep'."
        problem = f"{count(n, 'person')} of the batch {_verb(n)} in the session"
    else:
        advice = " If other people have the same values, use 'keep'."
        problem = f"{count(n, 'row')} of the batch {_verb(n)} in the session, with the same values"
    raise DataError(
        f"{problem} ({_describe_rows(repeats)}). Remove them, or leave them out with "
        f"repeated='skip' (--repeated skip).{advice}",
        code="data.repeated",
        row=int(repeats[0]) + 1,
        rows=(repeats[:_MAX_ROWS] + 1).tolist(),
        count=n,
        unit=f"{register.unit}s",
    )


def _verb(n: int) -> str:
    return "is already" if n == 1 else "are already"


def _describe_rows(rows: Sequence[int] | Integers) -> str:
    noun = "row" if len(rows) == 1 else "rows"
    return f"{noun} {listing((str(row + 1) for row in rows), most=_MAX_ROWS_SHOWN)}"
