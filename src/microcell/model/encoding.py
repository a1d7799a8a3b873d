"""How records become points: the dimensions of each quasi-identifier."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, get_args

import numpy as np

from microcell._display import record_repr
from microcell.errors import TableError
from microcell.hierarchies import from_plain, is_plain_hierarchy
from microcell.kinds import KINDS, EncodedColumn, Storage, kind_of
from microcell.kinds.values import NANOSECONDS

__all__ = ["Encoding"]


@dataclass(frozen=True, eq=False)
class Encoding:
    """How records become points: one encoded column per quasi-identifier, with adjacent dimensions.

    ``published_for`` is the k for which rare names were withheld, or None if all are present. Only
    an encoding without rare names can be saved.

    Examples
    --------
    >>> column = EncodedColumn("sex", "nominal", ("sex",), "text", centre=np.array([0.25]),
    ...     scale=np.ones(1), names=("f", "m"), counts=np.array([3, 1]))
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

    __repr__ = record_repr

    def __post_init__(self) -> None:
        ends = [0, *[column.last for column in self.columns]]
        if any(column.first != end for column, end in zip(self.columns, ends, strict=False)):
            raise ValueError("The dimensions of an encoding's columns must be adjacent.")

    @property
    def dimensions(self) -> int:
        """Number of dimensions of the points."""
        return self.columns[-1].last if self.columns else 0

    def published(self, k: int) -> "Encoding":
        """Withhold the categories, codes and undeclared ranks that fewer than ``k`` records have.

        Nominal categories keep their dimension and lose their name. Codes and ordinal values are
        removed: a record with such a value is placed by its neighbours. Declared orders are public
        and stay. Nothing is removed from numbers, which are represented by their mean and deviation
        only; those must have been rounded when the encoding was fitted. The result still reveals
        how many names were withheld and, for codes and ordinal values, how far apart the remaining
        ones are. Time O(names).
        """
        if k < 1:
            raise ValueError("k must be at least 1.")
        if self.published_for is None:
            return Encoding(tuple(column.published(k) for column in self.columns), k)
        if self.published_for < k:
            raise ValueError(
                f"Rare names were withheld for k = {self.published_for}; "
                "the counts needed for a larger k are not available."
            )
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return the encoding as plain data for JSON; raise ValueError if it has rare names."""
        if self.published_for is None:
            raise ValueError("An encoding with rare names must not be saved. Save published(k).")
        return {"k": self.published_for, "columns": [_as_dict(column) for column in self.columns]}

    @classmethod
    def from_dict(cls, data: Any) -> "Encoding":
        """Read what :meth:`as_dict` returned; raise :class:`TableError` if it is damaged."""
        if not isinstance(data, Mapping) or set(data) != {"k", "columns"}:
            raise _damaged("its entries must be 'k' and 'columns'")
        if not (_is_whole(data["k"]) and data["k"] >= 1):
            raise _damaged("its 'k' must be a whole number of at least 1")
        if not isinstance(data["columns"], list):
            raise _damaged("its 'columns' must be a list")
        columns = tuple(_read_column(i, item) for i, item in enumerate(data["columns"], start=1))
        try:
            return cls(columns, data["k"])
        except ValueError:
            raise _damaged("the dimensions of its columns are not adjacent") from None


def _damaged(problem: str, number: int | None = None) -> TableError:
    where = "" if number is None else f"in column {number}, "
    return TableError(f"The encoding is damaged: {where}{problem}.", code="table.malformed")


def _as_dict(column: EncodedColumn) -> dict[str, Any]:
    plain = {name: getattr(column, name) for name in _FIELDS}
    for name, value in plain.items():
        if isinstance(value, np.ndarray):
            plain[name] = value.tolist()
        elif isinstance(value, tuple):
            plain[name] = list(value)
    plain["hierarchy"] = None if column.hierarchy is None else column.hierarchy.as_plain()
    return plain


def _read_column(number: int, data: Any) -> EncodedColumn:
    if not isinstance(data, Mapping) or set(data) != set(_FIELDS):
        raise _damaged(f"the entries must be {', '.join(_FIELDS)}", number)
    for name, (is_valid, expected) in _FIELDS.items():
        if not is_valid(data[name]):
            raise _damaged(f"{name!r} must be {expected}", number)
    column = EncodedColumn(**{name: _convert(name, data[name]) for name in _FIELDS})
    for problem in kind_of(column).problems(column):
        raise _damaged(problem, number)
    return column


def _convert(name: str, value: Any) -> Any:
    if name in ("centre", "scale", "places"):
        return np.array(value, dtype=np.float64)
    if name == "hierarchy":
        return value if value is None else from_plain(value)
    return tuple(value) if isinstance(value, list) else value


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


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(name is None or _is_text(name) for name in value)


_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "name": (_is_text, "text"),
    "kind": (lambda value: _is_text(value) and value in KINDS, f"one of {', '.join(KINDS)}"),
    "parts": (
        lambda value: isinstance(value, list) and all(map(_is_text, value)),
        "a list of column names",
    ),
    "storage": (lambda value: value in get_args(Storage), f"one of {', '.join(get_args(Storage))}"),
    "unit": (
        lambda value: value is None or (_is_text(value) and value in NANOSECONDS),
        f"null or one of {', '.join(NANOSECONDS)}",
    ),
    "weight": (lambda value: _is_number(value) and value > 0, "a positive number"),
    "first": (lambda value: _is_whole(value) and value >= 0, "a whole number of at least 0"),
    "origin": (_is_number, "a finite number"),
    "exponent": (
        lambda value: _is_whole(value) and abs(value) <= 1000,
        "a whole number from -1000 to 1000",
    ),
    "centre": (_is_numbers, "a list of finite numbers"),
    "scale": (_is_numbers, "a list of finite numbers"),
    "names": (_is_names, "a list of names, null where they are withheld"),
    "places": (_is_numbers, "a list of finite numbers"),
    "hierarchy": (is_plain_hierarchy, "null, rows of labels, or bands"),
}
"""The entries of a column in plain data: a check, and what a valid entry is."""
