"""What all kinds of cells have in common."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from microcell.cells._arrays import NUMBERS_FROM_0, POINTS, read_entry, read_points
from microcell.cells._files import KINDS, cells_to_json, check_publishable, digest_of, save_cells
from microcell.cells._surveys import read_survey
from microcell.errors import DataError, GuaranteeError, OptionError
from microcell.model import Encoding, Floats, Integers

__all__ = ["Cells"]


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
            if given is not None or name not in optional:  # centroids come first, so the dimensions are known
                width = 0 if name == "centroids" else self.dimensions
                object.__setattr__(self, name, read_entry(name, given, entry, width))
        self._check_sizes()
        self._check_encoding()
        if self.representatives is not None:
            object.__setattr__(self, "representatives", _read_representatives(self.representatives, len(self)))
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
            raise DataError(f"Cells of kind {cls.kind!r} have the entries {', '.join(sorted(expected))}.")
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
        expected = (
            f"The representatives of column {name!r} must be a list of {count}, one a cell, of what JSON can hold"
        )
        if not isinstance(name, str) or isinstance(values, (str, Mapping)):
            raise DataError(f"{expected}; names of columns are text.")
        try:
            plain = json.loads(json.dumps(list(values), allow_nan=False, default=_as_plain))
        except (TypeError, ValueError):
            raise DataError(f"{expected}: text, finite numbers, true, false, null and lists.") from None
        if len(plain) != count:
            raise DataError(f"{expected}; there are {len(plain)}.")
        out[name] = tuple(plain)
    return MappingProxyType(out)


def _as_plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError
