"""Answers that cannot be used: an error, or a list with reasons."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from microcell._display import listing, record_html, short_repr
from microcell.errors import DataError
from microcell.model import Integers, Mask

__all__ = ["Rejected", "Rejects"]

_MAX_ROWS_SHOWN = 10


@dataclass(frozen=True, repr=False)
class Rejected:
    """An answer that was left out. Contains no value of it."""

    row: int
    """Row of the answers, from 1."""
    code: str
    """Error code of the problem."""
    reason: str
    column: str | None

    _repr_html_ = record_html

    def __repr__(self) -> str:
        return short_repr(self, row=self.row, code=self.code)


@dataclass(eq=False, repr=False)
class Rejects:
    """Rows found to be invalid. The first problem is an error unless they are ``listed``."""

    rows: int
    listed: bool = False
    found: dict[int, Rejected] = field(default_factory=dict)

    def __repr__(self) -> str:
        return short_repr(self, rejected=len(self.found))

    def add(self, invalid: Mask, code: str, problem: str, **details: Any) -> None:
        """Note rows, or raise :class:`DataError` that names the first ones."""
        rows = np.flatnonzero(invalid).tolist()
        if self.listed:
            for row in rows:
                reason = f"{problem.rstrip(',')}."
                self.found.setdefault(row, Rejected(row + 1, code, reason, details.get("column")))
        elif rows:
            shown = listing((str(row + 1) for row in rows), most=_MAX_ROWS_SHOWN)
            raise DataError(
                f"{problem} in {'row' if len(rows) == 1 else 'rows'} {shown}. Correct or remove "
                "them; nothing was released.",
                code=code,
                row=rows[0] + 1,
                count=len(rows),
                **details,
            )

    @property
    def valid(self) -> Mask:
        """Which rows can be used."""
        valid = np.ones(self.rows, dtype=np.bool_)
        valid[list(self.found)] = False
        return valid

    def valid_rows(self) -> Integers:
        """Return the rows that can be used."""
        return np.flatnonzero(self.valid)

    def as_tuple(self) -> tuple[Rejected, ...]:
        """Return the rejected answers by row."""
        return tuple(self.found[row] for row in sorted(self.found))
