"""People with several rows: find the column that identifies them, or choose another one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell._display import record_html, record_repr
from microcell.errors import OptionError
from microcell.model import Integers, Schema, Values

__all__ = [
    "RANKS",
    "Candidate",
    "RowsPerPerson",
    "choose_person",
    "count_rows",
    "count_unique",
    "hash_rows",
    "with_person",
]

RANKS: Mapping[str, int] = {"number": 0, "content": 1, "household": 2, "text": 3, "name": 4}
"""Kinds of columns, from the surest sign of a person to the weakest. "content" is a column whose
name says nothing but whose rows agree in sex and date of birth; "text" is text that rarely repeats.
A first name is not a person, so names come last.
"""

_MIN_PERSONS = 10
"""A column with fewer distinct values cannot identify people."""

_AGREEMENT = 0.9
"""Share of the persons with several rows whose rows must agree in sex and date of birth."""

_MAX_CHANCE = 0.8
"""If any two rows agree more often than this, agreement means nothing."""


@dataclass(frozen=True)
class RowsPerPerson:
    """Median and maximum of the number of rows of a person."""

    median: float
    max: int

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True, eq=False)
class Candidate:
    """Columns that may identify people, with the columns that never change for a person."""

    names: tuple[str, ...]
    columns: tuple[Values, ...]
    sign: str
    stable: Mapping[str, Values]

    @cached_property
    def persons(self) -> Integers:
        """The person of each row, from 0; -1 if the row has no value."""
        return number_persons(self.columns)

    @property
    def distinct(self) -> int:
        """Number of persons."""
        return int(self.persons.max(initial=-1)) + 1

    @property
    def missing(self) -> int:
        """Number of rows without a person."""
        return int((self.persons < 0).sum())

    @cached_property
    def agreement(self) -> float | None:
        """Share of the persons with several rows whose rows agree in the stable columns."""
        present = self.persons >= 0
        rows = np.bincount(self.persons[present], minlength=self.distinct)
        if not self.stable or not (rows > 1).any():
            return None
        stable = hash_rows(self.stable.values(), len(self.persons))[present]
        values = np.unique(stable, return_inverse=True)[1]
        pairs = np.unique(np.stack((self.persons[present], values)), axis=1)
        n_values = np.bincount(pairs[0], minlength=self.distinct)
        return float((n_values[rows > 1] == 1).mean())

    @property
    def is_person(self) -> bool:
        """Whether the columns identify people, as far as the table shows."""
        if self.distinct < _MIN_PERSONS:
            return False
        if self.sign in ("number", "household"):
            return True
        if self.agreement is None:
            return self.sign == "name"
        return self.agreement >= _AGREEMENT and (self.sign == "name" or self._is_remarkable)

    @property
    def _is_remarkable(self) -> bool:
        """Whether agreement is unlikely to be a coincidence."""
        _, counts = np.unique(
            hash_rows(self.stable.values(), len(self.persons)), return_counts=True
        )
        rows = np.bincount(self.persons[self.persons >= 0])
        probability = float(((counts / counts.sum()) ** 2).sum())
        return probability <= _MAX_CHANCE and int((rows > 1).sum()) >= _MIN_PERSONS

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: the best candidate is the smallest."""
        agrees = self.agreement is None or self.agreement >= _AGREEMENT
        coarse = self.sign in ("text", "name")
        return (coarse, self.missing > 0, not agrees, RANKS[self.sign], self.distinct)


def choose_person(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the candidate that most probably identifies people; None if none does."""
    return min(
        (item for item in candidates if item.is_person), key=lambda item: item.order, default=None
    )


def number_persons(columns: Sequence[Values]) -> Integers:
    """Number the combinations of values from 0; rows with a missing value get -1."""
    missing = np.logical_or.reduce([values.missing for values in columns])
    persons = np.full(len(missing), -1, dtype=np.int64)
    hashes = hash_rows(columns, len(missing))[~missing]
    persons[~missing] = np.unique(hashes, return_inverse=True)[1]
    return persons


def count_rows(persons: Integers) -> RowsPerPerson:
    """Return the median and maximum number of rows of a person; there is at least one."""
    rows = np.bincount(persons[persons >= 0])
    return RowsPerPerson(float(np.median(rows)), int(rows.max()))


def count_unique(keys: NDArray[np.uint64], persons: Integers) -> int:
    """Return the number of persons with a combination of values that no other person has.

    Examples
    --------
    >>> count_unique(np.array([7, 7, 8, 8, 9], np.uint64), np.array([0, 0, 1, 2, 2]))
    2
    """
    combination = np.unique(keys, return_inverse=True)[1]
    pairs = np.unique(np.stack((combination, persons)), axis=1)
    alone = np.bincount(pairs[0]) == 1
    unique = pairs[1][alone[pairs[0]]]
    return len(np.unique(unique[unique >= 0]))


def hash_rows(columns: Iterable[Values], rows: int) -> NDArray[np.uint64]:
    """Return a hash per row; different rows among n collide with probability n² / 2⁶⁵."""
    hashes = np.zeros(rows, dtype=np.uint64)
    for values in (values for values in columns if values.storage != "empty"):
        # Adding zero turns -0.0 into 0.0, which is equal to it.
        data = values.data + 0.0 if values.storage == "float" else values.data.astype(np.int64)
        hashes ^= np.where(values.missing, np.uint64(0x5BF0_3635_DCA5_9A1F), data.view(np.uint64))
        for factor, shift in ((0x9E37_79B9_7F4A_7C15, 32), (0xBF58_476D_1CE4_E5B9, 29)):
            hashes *= np.uint64(factor)
            hashes ^= hashes >> np.uint64(shift)
    return hashes


def with_person(
    schema: Schema,
    person: str | Sequence[str] | None = None,
    person_cells: str | None = None,
    rows_are_people: bool | None = None,
) -> Schema:
    """Return the schema with another person column, or with the statement that rows are people.

    Arguments that are None change nothing. Identifiers and dropped columns may become the person;
    earlier person columns become identifiers, so that they are still removed.

    Examples
    --------
    >>> schema = Schema(identifiers=["name", "card"], quasi=["age"])
    >>> named = with_person(schema, "card", "together")
    >>> named.person, named.identifiers, named.person_cells
    (('card',), ('name',), 'together')
    >>> with_person(named, rows_are_people=True).identifiers
    ('name', 'card')
    """
    if person and rows_are_people:
        raise OptionError(
            "A person column and rows_are_people exclude each other: either some people have "
            "several rows, or every row is about a different person. Leave one of them out.",
            code="option.conflict",
            option="rows_are_people",
        )
    changes: dict[str, Any] = {}
    if person or rows_are_people:
        names = (person,) if isinstance(person, str) else tuple(person or ())
        former = [name for name in schema.person if name not in names]
        changes = {
            "person": names,
            "identifiers": [*(n for n in schema.identifiers if n not in names), *former],
            "drop": [name for name in schema.drop if name not in names],
            "rows_are_people": bool(rows_are_people),
        }
        if rows_are_people:
            changes["person_cells"] = "rows"
    elif rows_are_people is not None:
        changes["rows_are_people"] = False
    if person_cells is not None:
        changes["person_cells"] = person_cells
    return replace(schema, **changes) if changes else schema
