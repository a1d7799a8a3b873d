"""How records become points: each quasi-identifier's dimensions, and all that is needed to place a further record."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isfinite
from typing import Any, get_args

import numpy as np

from microcell.errors import TableError
from microcell.kernels.arrays import Floats, Integers
from microcell.model.schema import PUBLISHED
from microcell.model.table import Storage

__all__ = ["EncodedColumn", "Encoding"]

UNITS = ("D", "s", "ms", "us", "ns")
"""What dates and times may be counted in."""


def _nothing() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """The dimensions ``first`` to ``last - 1`` of the points, that one quasi-identifier became.

    Parameters
    ----------
    name, kind, weight
        As in the schema. The weight multiplies squared distances, so coordinates by its root.
    parts
        The columns of the table: two for a location.
    storage, unit
        What the column held when it was fitted, and what dates and times were counted in.
    first
        The first dimension.
    origin, exponent, centre, scale
        Of numbers and dates: coordinate = (value 2^exponent - origin - centre) / scale. ``origin`` is a round number
        near the mean, whole if the values were, so that large ones lose nothing; ``centre`` is the rest of the mean.
        The exponent is 0 but for numbers so large or small that they would overflow or vanish. Of the axes of a
        location: (value - centre) / scale. Of indicators: indicator - centre.
    names
        Of a nominal column: the category of each dimension; of two categories, that share a dimension, first the one
        that has no indicator. None stands for a name that is withheld. Of an ordinal column: its categories, lowest
        first. Of a code: the known codes, sorted.
    places
        Of ordinal columns and codes: the coordinate of each name.
    counts
        How many records have each name; None if the names are public, as declared orders are.
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
    centre: Floats = field(default_factory=_nothing)
    scale: Floats = field(default_factory=_nothing)
    names: tuple[str | None, ...] = ()
    places: Floats = field(default_factory=_nothing)
    counts: Integers | None = None

    @property
    def dimensions(self) -> int:
        """The number of dimensions."""
        return len(self.centre)

    @property
    def last(self) -> int:
        """The dimension after the last one."""
        return self.first + self.dimensions

    @property
    def constant(self) -> bool:
        """True if the column had one value only, and so carries no distance."""
        return self.dimensions == 0

    def published(self, k: int) -> "EncodedColumn":
        """The column without the names that fewer than ``k`` records have, and without counts."""
        if self.counts is None:
            return self
        kept = self.counts >= k
        if self.kind == "nominal":  # the dimension stays, so that distances do
            hidden = tuple(
                name if keep else None for name, keep in zip(self.names, kept, strict=True)
            )
            return replace(self, names=hidden, counts=None)
        names = tuple(name for name, keep in zip(self.names, kept, strict=True) if keep)
        return replace(self, names=names, places=self.places[kept], counts=None)


@dataclass(frozen=True, eq=False)
class Encoding:
    """How records become points: a column for each quasi-identifier, whose dimensions follow each other.

    ``published_for`` is the k for which rare names were taken out, None if they are all there. Only an encoding
    without rare names can be made into plain data, to be saved.

    Examples
    --------
    >>> column = EncodedColumn("sex", "nominal", ("sex",), "text", centre=np.array([0.25]), scale=np.ones(1),
    ...     names=("f", "m"), counts=np.array([3, 1]))
    >>> encoding = Encoding((column,))
    >>> encoding.dimensions
    1
    >>> encoding.published(2).columns[0].names
    ('f', None)
    >>> Encoding.from_dict(encoding.published(2).as_dict()).columns[0].centre
    array([0.25])
    """

    columns: tuple[EncodedColumn, ...]
    published_for: int | None = None

    def __post_init__(self) -> None:
        ends = [0, *(column.last for column in self.columns)]
        if any(column.first != end for column, end in zip(self.columns, ends, strict=False)):
            raise ValueError("The dimensions of an encoding's columns follow each other.")

    @property
    def dimensions(self) -> int:
        """The number of dimensions of the points."""
        return self.columns[-1].last if self.columns else 0

    def published(self, k: int) -> "Encoding":
        """The encoding without what fewer than ``k`` records say: their categories, codes and undeclared ranks.

        Nominal categories keep their dimension and lose their name. Codes and ordinal values disappear: a record that
        has one is placed by its neighbours. Declared orders are public and stay. Of numbers nothing is taken out:
        mean and deviation are all there is. Still to be seen are how many names were taken out and, of codes and
        ordinal values, how far the remaining ones lie apart. O(names).
        """
        if k < 1:
            raise ValueError("k must be 1 or more.")
        if self.published_for is None:
            return Encoding(tuple(column.published(k) for column in self.columns), k)
        if self.published_for < k:
            raise ValueError(
                f"Rare names were taken out for k = {self.published_for}; how rare the others are is not known."
            )
        return self

    def as_dict(self) -> dict[str, Any]:
        """The encoding as plain data for JSON; :class:`ValueError` if it still has rare names."""
        if self.published_for is None:
            raise ValueError(
                "An encoding with rare names in it is not to be saved. Save published(k) of it."
            )
        return {"k": self.published_for, "columns": [_as_dict(column) for column in self.columns]}

    @classmethod
    def from_dict(cls, data: Any) -> "Encoding":
        """The encoding that :meth:`as_dict` was made of; :class:`TableError` if the data are damaged."""
        if not isinstance(data, Mapping) or set(data) != {"k", "columns"}:
            raise TableError(f"{_DAMAGED} it must have the entries 'k' and 'columns'.")
        if not (_is_whole(data["k"]) and data["k"] >= 1):
            raise TableError(f"{_DAMAGED} its 'k' must be a whole number, 1 or more.")
        if not isinstance(data["columns"], list):
            raise TableError(f"{_DAMAGED} its 'columns' must be a list.")
        columns = tuple(
            _read_column(number, column) for number, column in enumerate(data["columns"], start=1)
        )
        try:
            return cls(columns, data["k"])
        except ValueError:
            raise TableError(
                f"{_DAMAGED} the dimensions of its columns do not follow each other."
            ) from None


# ---------------------------------------------------------------------------------------------- plain data, and back

_DAMAGED = "The encoding is damaged:"

_STORAGES: Mapping[str, tuple[str, ...]] = {
    "numeric": ("integer", "float", "empty"),
    "location": ("integer", "float", "empty"),
    "datetime": ("date", "datetime", "duration", "time"),
    "code": ("integer", "float", "text", "empty"),
    "ordinal": get_args(Storage),
    "nominal": get_args(Storage),
}


def _as_dict(column: EncodedColumn) -> dict[str, Any]:
    plain = {name: getattr(column, name) for name in _FIELDS}
    for name, value in plain.items():
        if isinstance(value, np.ndarray):
            plain[name] = value.tolist()
        elif isinstance(value, tuple):
            plain[name] = list(value)
    return plain


def _read_column(number: int, data: Any) -> EncodedColumn:
    """The column of those data, the ``number``-th."""
    where = f"{_DAMAGED} in column {number},"
    if not isinstance(data, Mapping) or set(data) != set(_FIELDS):
        raise TableError(f"{where} the entries must be {', '.join(_FIELDS)}.")
    for name, (holds, expected) in _FIELDS.items():
        if not holds(data[name]):
            raise TableError(f"{where} {name!r} must be {expected}.")
    column = EncodedColumn(**{name: _convert(name, data[name]) for name in _FIELDS})
    for problem in _contradictions(column):
        raise TableError(f"{where} {problem}.")
    return column


def _convert(name: str, value: Any) -> Any:
    if name in ("centre", "scale", "places"):
        return np.array(value, dtype=np.float64)
    return tuple(value) if isinstance(value, list) else value


def _contradictions(column: EncodedColumn) -> Iterator[str]:
    """What does not fit together in a column whose entries are of the right types, a clause each."""
    numbers = column.kind in ("numeric", "datetime")
    if len(column.parts) != (2 if column.kind == "location" else 1):
        yield "'parts' has not as many names as its kind needs"
    if column.storage not in _STORAGES[column.kind]:
        yield "'storage' does not fit its kind"
    if (column.unit is not None) != (column.storage in _STORAGES["datetime"]):
        yield "'unit' is for dates and times, and they need it"
    if len(column.scale) != column.dimensions or not (column.scale > 0).all():
        yield "'scale' must have a positive number for each of 'centre'"
    if column.kind != "nominal" and column.dimensions not in (
        0,
        3 if column.kind == "location" else 1,
    ):
        yield "'centre' has not as many numbers as its kind needs"
    if not numbers and (column.origin or column.exponent):
        yield "'origin' and 'exponent' are for numbers and dates"
    whole = isinstance(column.origin, int)
    if (column.kind == "datetime" and not whole) or (column.exponent and whole):
        yield "'origin' must be whole for dates, and must not be where there is an 'exponent'"
    yield from _contradictions_of_names(column)


def _contradictions_of_names(column: EncodedColumn) -> Iterator[str]:
    known = [name for name in column.names if name is not None]
    if len(set(known)) != len(known):
        yield "a name stands twice in 'names'"
    if column.kind not in ("ordinal", "code"):
        if len(column.places):
            yield "'places' is for ordinal columns and codes"
        # Two categories share a dimension, and one needs none.
        wanted = {0: (0, 1), 1: (2,), 2: ()}.get(column.dimensions, (column.dimensions,))
        if len(column.names) not in (wanted if column.kind == "nominal" else (0,)):
            yield "'names' has not as many names as its kind needs"
        return
    if len(known) != len(column.places) or len(known) != len(column.names):
        yield "'places' must have a number for each of 'names'"
    if column.kind == "code" and any(before > after for before, after in pairwise(known)):
        yield "'names' must be sorted"


def _is_whole(value: Any) -> bool:
    return type(value) is int


def _is_number(value: Any) -> bool:
    if type(value) is float:
        return isfinite(value)
    return type(value) is int and abs(value) < 2**63


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "name": (_is_text, "text"),
    "kind": (
        lambda value: _is_text(value) and value in PUBLISHED,
        f"one of {', '.join(PUBLISHED)}",
    ),
    "parts": (
        lambda value: isinstance(value, list) and all(map(_is_text, value)),
        "a list of column names",
    ),
    "storage": (lambda value: value in get_args(Storage), f"one of {', '.join(get_args(Storage))}"),
    "unit": (lambda value: value is None or value in UNITS, f"none or one of {', '.join(UNITS)}"),
    "weight": (lambda value: _is_number(value) and value > 0, "a positive number"),
    "first": (lambda value: _is_whole(value) and value >= 0, "a whole number, 0 or more"),
    "origin": (_is_number, "a finite number"),
    "exponent": (
        lambda value: _is_whole(value) and abs(value) <= 1000,
        "a whole number, at most 1000",
    ),
    "centre": (_is_numbers, "a list of finite numbers"),
    "scale": (_is_numbers, "a list of finite numbers"),
    "names": (
        lambda value: (
            isinstance(value, list) and all(name is None or _is_text(name) for name in value)
        ),
        "a list of names, or of none where they are withheld",
    ),
    "places": (_is_numbers, "a list of finite numbers"),
}
"""The entries of a column in plain data: what each must hold, and how to say so."""
