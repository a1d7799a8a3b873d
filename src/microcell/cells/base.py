"""Cells as files: one versioned JSON format for all kinds. docs/cells.md describes it."""

import hashlib
import json
import os
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from microcell._atomic import Staging, check_target
from microcell._display import record_repr
from microcell.errors import DataError, MicrocellError, OptionError, TableError
from microcell.model import Encoding, Integers

if TYPE_CHECKING:
    pass
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import ClassVar, Self

from microcell._validation import NUMBERS_FROM_0, POINTS, read_entry, read_points
from microcell.errors import GuaranteeError
from microcell.model import Floats

__all__ = [
    "FIGURES",
    "FORMAT",
    "KINDS",
    "TRUST",
    "VERSION",
    "Cells",
    "cells_to_json",
    "check_publishable",
    "digest_of",
    "load_cells",
    "read_survey",
    "save_cells",
]

TRUST = ("local", "none")
"""Whom respondents trust: their own device, or nobody."""

FIGURES = ("table_failure", "unprotected", "record_failure", "participant_failure")
"""The figures of the table, one number each."""

_FIELDS = {"k", "failure", "trust", "participation", "cell_failures", *FIGURES}


def read_survey(given: Any, sizes: Integers) -> Mapping[str, Any]:
    """The survey part as a file gives it back, if it has the right form; whether it is true is checked elsewhere.

    Examples
    --------
    >>> part = {"k": 2, "failure": 0.6, "trust": "local", "participation": {"common": 0.5}, "cell_failures": [0.5],
    ...     "table_failure": 0.5, "unprotected": 1.0, "record_failure": 0.25, "participant_failure": 0.5}
    >>> read_survey(part, np.array([2]))["participation"]
    {'common': 0.5}
    """
    if not isinstance(given, Mapping) or set(given) != _FIELDS:
        raise DataError(f"The survey part of cells has the entries {', '.join(sorted(_FIELDS))}.")
    try:
        plain = json.loads(json.dumps(dict(given), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise DataError(
            "The survey part of cells must hold plain numbers, text and lists."
        ) from None
    wrong = [name for name, holds in _holds(plain, sizes).items() if not holds]
    if wrong:
        raise DataError(
            f"In the survey part of cells, {wrong[0]!r} is not as it must be; docs/cells.md tells how."
        )
    return MappingProxyType(plain)


def _holds(plain: Mapping[str, Any], sizes: Integers) -> dict[str, bool]:
    """Whether each entry has its form."""
    failures = plain["cell_failures"]
    return {
        "k": type(plain["k"]) is int and plain["k"] >= 2,
        "failure": _is_real(plain["failure"]) and 0 < plain["failure"] < 1,
        "trust": plain["trust"] in TRUST,
        "participation": _is_participation(plain["participation"], sizes),
        "cell_failures": isinstance(failures, list)
        and len(failures) == len(sizes)
        and all(_is_real(value) and 0 <= value <= 1 for value in failures),
        **{name: _is_real(plain[name]) and plain[name] >= 0 for name in FIGURES},
    }


def _is_participation(given: Any, sizes: Integers) -> bool:
    """One number for all, or for each cell its values in ascending order with how many candidates have each."""
    if not isinstance(given, dict) or len(given) != 1:
        return False
    if "common" in given:
        return _is_chance(given["common"])
    cells = given.get("cells")
    return (
        isinstance(cells, list)
        and len(cells) == len(sizes)
        and all(_is_counted(pairs, size) for pairs, size in zip(cells, sizes.tolist(), strict=True))
    )


def _is_counted(pairs: Any, size: int) -> bool:
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and len(pair) == 2 for pair in pairs
    ):
        return False
    if not all(_is_chance(value) and type(count) is int and count >= 1 for value, count in pairs):
        return False
    values = np.array([value for value, _ in pairs], dtype=np.float64)
    return bool((np.diff(values) > 0).all()) and sum(count for _, count in pairs) == size


def _is_chance(value: Any) -> bool:
    return _is_real(value) and 0 < value <= 1


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)


FORMAT = "microcell cells"
VERSION = 2
"""The latest. Cells without a survey part are written as version 1, which earlier readers know."""

KINDS: dict[str, type["Cells"]] = {}
"""The kinds of cells by name; each enters itself when its class is made."""

FIELDS = {
    "format",
    "version",
    "kind",
    "k",
    "count",
    "dimensions",
    "holds_original_records",
    "encoding",
    "representatives",
    "cells",
    "sha256",
}
FIELDS_OF_SURVEYS = {*FIELDS, "survey"}
"""Those of version 2."""


def save_cells(cells: "Cells", path: Path, *, confidential: bool) -> None:
    """Write the cells to a file, whole or not at all."""
    if not confidential:
        check_publishable(cells)
    check_target(path)
    text = cells_to_json(cells)
    with Staging() as staging:
        mode = 0o600 if confidential else 0o666  # less what the user's mask takes away
        handle = os.open(staging.path(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)


def check_publishable(cells: "Cells") -> None:
    """Refuse cells that hold records of the table."""
    if cells.holds_records:
        raise OptionError(
            f"Cells of kind {cells.kind!r} hold the records that they were made of. Give confidential=True to write "
            "them to a file for yourself alone, or publish power or ball cells, which hold none."
        )


def cells_to_json(cells: "Cells") -> str:
    """The content of the file of the cells."""
    return json.dumps(_seal(_describe(cells)), allow_nan=False) + "\n"


def load_cells(path: str | Path) -> "Cells":
    """The cells of a file that :meth:`Cells.save` wrote, equal to the last bit.

    :class:`TableError` for a file that cannot be read, is no cells file, comes from a newer version, was altered or
    is damaged.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from microcell.cells import PowerCells
    >>> with TemporaryDirectory() as folder:
    ...     PowerCells(centroids=[[0.0], [4.0]], sizes=[3, 5], k=3, costs=[0.0, 0.0]).save(f"{folder}/cells.json")
    ...     load_cells(f"{folder}/cells.json").assign([[1.0], [9.0]])
    array([0, 1])
    """
    path = Path(path)
    content = _read(path)
    _check_format(content, path)
    fields = FIELDS if content["version"] == 1 else FIELDS_OF_SURVEYS
    if set(content) != fields or content["sha256"] != _digest(content):
        raise TableError(
            f"{path} was altered after it was written, or damaged. Get it again from who made it."
        )
    try:
        return _restore(content)
    except (
        MicrocellError,
        KeyError,
        TypeError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as error:
        why = f" {error}" if isinstance(error, MicrocellError) else ""
        raise TableError(
            f"{path} holds no whole cells.{why} Get the file again from who made it."
        ) from None


def _describe(cells: "Cells") -> dict[str, Any]:
    """The whole content of the file, but for the digest."""
    encoding, representatives = cells.encoding, cells.representatives
    return {
        "format": FORMAT,
        "version": 1 if cells.survey is None else VERSION,
        "kind": cells.kind,
        "k": cells.k,
        "count": len(cells),
        "dimensions": cells.dimensions,
        "holds_original_records": cells.holds_records,
        "encoding": None if encoding is None else encoding.published(cells.k).as_dict(),
        "representatives": None
        if representatives is None
        else {n: list(v) for n, v in representatives.items()},
        "cells": cells.contents(),
        **({} if cells.survey is None else {"survey": dict(cells.survey)}),
    }


def digest_of(cells: "Cells") -> str:
    """The digest that the file of the cells has."""
    return _digest(_describe(cells))


def _seal(content: Mapping[str, Any]) -> dict[str, Any]:
    return {**content, "sha256": _digest(content)}


def _digest(content: Mapping[str, Any]) -> str:
    """The SHA-256 of all but itself, as JSON with sorted keys and no spaces; empty if that cannot be written."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    try:
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError:  # a number too large to be one
        return ""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _read(path: Path) -> Any:
    try:
        return json.loads(
            path.read_bytes(), object_pairs_hook=_without_repeats, parse_constant=_refuse_constant
        )
    except OSError as error:
        raise TableError(
            f"{path} cannot be read: {error.strerror or 'unknown reason'}. Check its name."
        ) from None
    except (ValueError, RecursionError):
        raise TableError(f"{path} is not JSON. Give a file that Cells.save wrote.") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):  # programs differ in which one they take
        raise ValueError
    return out


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _check_format(content: Any, path: Path) -> None:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise TableError(
            f"{path} is JSON, but not a cells file. Give a file that Cells.save wrote."
        )
    version = content.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise TableError(f"{path} has no version of the format. Get it again from who made it.")
    if version > VERSION:
        raise TableError(
            f"{path} was made by a newer version of microcell; upgrade microcell to read it."
        )


def _restore(content: Mapping[str, Any]) -> "Cells":
    if content["kind"] not in KINDS:
        raise TableError(
            f"Its kind is unknown; this version of microcell has {', '.join(sorted(KINDS))}."
        )
    encoding = content["encoding"]
    cells = KINDS[content["kind"]].from_contents(
        content["cells"],
        k=content["k"],
        encoding=None if encoding is None else Encoding.from_dict(encoding),
        representatives=content["representatives"],
        survey=content.get("survey"),
    )
    if (cells.survey is None) != (content["version"] == 1):
        raise TableError("It is of a survey, but tells nothing of it.")
    stated = (content["count"], content["dimensions"], content["holds_original_records"])
    if stated != (len(cells), cells.dimensions, cells.holds_records):
        raise TableError("What it states of its cells does not hold.")
    return cells


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells(ABC):
    """A partition as a function: the cell of any point, also of one that was not there when the cells were made.

    Built only if it is whole: one centroid and one size a cell, every size k or more, all numbers finite.

    Parameters
    ----------
    centroids
        The mean of each cell, one row a cell, in the space of the points.
    sizes
        How many records each cell had when it was made.
    k
        The least size of a cell.
    encoding
        How records become points, where they were not points to begin with.
    representatives
        What each cell publishes: by name of a column one entry a cell, of what JSON can hold.
    survey
        Of cells for a survey: who is expected to take part, and how each cell may fail. docs/cells.md has its entries.
    """

    kind: ClassVar[str]
    """The name of the kind in files."""

    holds_records: ClassVar[bool]
    """True if records of the table can be read from the cells, which are then as confidential as the table."""

    centroids: Floats = field(metadata=POINTS)
    sizes: Integers = field(metadata=NUMBERS_FROM_0)
    k: int
    encoding: Encoding | None = None
    representatives: Mapping[str, tuple[Any, ...]] | None = None
    survey: Mapping[str, Any] | None = None

    __repr__ = record_repr

    def __init_subclass__(cls, *, kind: str, holds_records: bool, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind, cls.holds_records = kind, holds_records
        KINDS[kind] = cls

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, (int, np.integer)) or self.k < 1:
            raise OptionError("k must be a whole number of 1 or more.")
        object.__setattr__(self, "k", int(self.k))
        optional = {item.name for item in fields(self) if item.default is None}
        for name, entry in _entries(self).items():
            given = getattr(self, name)
            if (
                given is not None or name not in optional
            ):  # centroids come first, so the dimensions are known
                width = 0 if name == "centroids" else self.dimensions
                object.__setattr__(self, name, read_entry(name, given, entry, width))
        self._check_sizes()
        self._check_encoding()
        if self.representatives is not None:
            object.__setattr__(
                self, "representatives", _read_representatives(self.representatives, len(self))
            )
        if self.survey is not None:
            object.__setattr__(self, "survey", read_survey(self.survey, self.sizes))

    def __len__(self) -> int:
        """The number of cells."""
        return len(self.sizes)

    @property
    def dimensions(self) -> int:
        """The number of columns of the points."""
        return int(self.centroids.shape[1])

    @property
    def digest(self) -> str:
        """The SHA-256 that the file of these cells is sealed with: it tells cells apart."""
        return digest_of(self)

    def assign(self, X: Any) -> Integers:
        """The cell of each row of X, ties to the lowest.

        X is a matrix of finite numbers in the space of the centroids, or, in one dimension, a plain list of them.
        :class:`DataError` otherwise.
        """
        return self._place(read_points(X, self.dimensions))

    def save(self, path: str | Path, *, confidential: bool = False) -> None:
        """Write the cells to a JSON file, whole or not at all; :func:`load_cells` reads it.

        A kind that holds records of the table is refused with :class:`OptionError`, unless it is said to be
        ``confidential``; the file then is readable by its owner alone. docs/cells.md describes the format.
        """
        save_cells(self, Path(path), confidential=confidential)

    def to_json(self) -> str:
        """The text that :meth:`save` writes; refused for a kind that holds records."""
        check_publishable(self)
        return cells_to_json(self)

    def contents(self) -> dict[str, Any]:
        """The arrays of this kind as plain lists, by name: its part of a file."""
        arrays = {name: getattr(self, name) for name in _entries(self)}
        return {name: None if array is None else array.tolist() for name, array in arrays.items()}

    @classmethod
    def from_contents(cls, contents: Mapping[str, Any], **facts: Any) -> Self:
        """The cells that :meth:`contents` was made of; ``facts`` are k and what is optional."""
        shared = {"k", "encoding", "representatives", "survey"}
        expected = {item.name for item in fields(cls)} - shared
        if not isinstance(contents, Mapping) or set(contents) != expected:
            raise DataError(
                f"Cells of kind {cls.kind!r} have the entries {', '.join(sorted(expected))}."
            )
        return cls(**contents, **facts)

    @abstractmethod
    def _place(self, points: Floats) -> Integers:
        """The cell of each point; the points are checked."""

    def _check_sizes(self) -> None:
        if len(self.sizes) == 0 or self.centroids.shape[0] != len(self.sizes):
            raise DataError(
                f"{len(self.centroids)} centroids and {len(self.sizes)} sizes were given, expected one of each for "
                "every cell, and at least one cell."
            )
        if self.sizes.min() < self.k:
            raise GuaranteeError(
                f"The smallest cell has {self.sizes.min()} records, fewer than k = {self.k}. "
                "Make the cells again, or give the k that they were made for."
            )

    def _check_encoding(self) -> None:
        encoding = self.encoding
        if encoding is None:
            return
        if encoding.dimensions != self.dimensions:
            raise DataError(
                f"The encoding makes points of {encoding.dimensions} dimensions, the centroids have {self.dimensions}. "
                "Give the encoding that the points were made with."
            )
        if encoding.published_for is not None and encoding.published_for < self.k:
            raise GuaranteeError(
                f"The encoding names what {encoding.published_for} records have, fewer than k = {self.k}. "
                "Give the encoding that the points were made with."
            )


def _entries(cells: Cells) -> dict[str, Any]:
    """The arrays of the cells: what each must be, by name."""
    return {item.name: item.metadata["entry"] for item in fields(cells) if "entry" in item.metadata}


def _read_representatives(given: Mapping[str, Any], count: int) -> Mapping[str, tuple[Any, ...]]:
    """The same as a file gives them back: what is held is what is saved."""
    if not isinstance(given, Mapping):
        raise DataError("representatives must be a dict of the cells' entries by name of a column.")
    out = {}
    for name, values in given.items():
        expected = f"The representatives of column {name!r} must be a list of {count}, one a cell, of what JSON can hold"
        if not isinstance(name, str) or isinstance(values, (str, Mapping)):
            raise DataError(f"{expected}; names of columns are text.")
        try:
            plain = json.loads(json.dumps(list(values), allow_nan=False, default=_as_plain))
        except (TypeError, ValueError):
            raise DataError(
                f"{expected}: text, finite numbers, true, false, null and lists."
            ) from None
        if len(plain) != count:
            raise DataError(f"{expected}; there are {len(plain)}.")
        out[name] = tuple(plain)
    return MappingProxyType(out)


def _as_plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError
