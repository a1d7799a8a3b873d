"""The base class of cells, and the versioned JSON format of all kinds (see docs/cells.md)."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from microcell._atomic import AtomicFiles, check_target
from microcell._display import count, html_card, short_repr
from microcell._files import parse_json, unreadable
from microcell._validation import NUMBERS_FROM_0, POINTS, read_entry, read_points
from microcell.cells.survey_section import read_survey_section
from microcell.errors import DataError, GuaranteeError, MicrocellError, OptionError, TableError
from microcell.model import Encoding, Floats, Integers

__all__ = ["FORMAT", "KINDS", "VERSION", "Cells", "load_cells"]

FORMAT = "microcell cells"
VERSION = 2
"""Latest version. Cells without a survey section are written as version 1 for older readers."""

KINDS: dict[str, type["Cells"]] = {}
"""Kinds of cells by name; each class registers itself."""

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
FIELDS_WITH_SURVEY = {*FIELDS, "survey"}
"""Fields of version 2."""

_SHARED = {"k", "encoding", "representatives", "survey"}
"""Fields that all kinds share, outside their own part of the file."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Cells(ABC):
    """A partition as a function that assigns any point to a cell, including new points.

    Construction fails unless there is one centroid and one size per cell, every size is at least k
    and all numbers are finite.

    Parameters
    ----------
    centroids
        Mean of each cell, one row per cell, in the space of the points.
    sizes
        Number of records in each cell when the cells were made.
    k
        Minimum size of a cell.
    encoding
        How records become points, if they were not points to begin with.
    representatives
        What each cell publishes: for each column, one JSON value per cell.
    survey
        For cells of a survey: expected participation and failure probabilities. docs/cells.md
        lists the entries.

    Examples
    --------
    >>> import microcell as mc
    >>> people, schema = mc.sample_survey(100), mc.sample_schema()
    >>> cells = mc.anonymize(people, schema, k=5, method="mdav", cells=True).cells
    >>> isinstance(cells, Cells), bool(cells.sizes.min() >= 5)
    (True, True)
    """

    kind: ClassVar[str]
    """Name of the kind in files."""

    holds_records: ClassVar[bool]
    """Whether original records can be read from the cells, which are then confidential."""

    centroids: Floats = field(metadata=POINTS)
    sizes: Integers = field(metadata=NUMBERS_FROM_0)
    k: int
    encoding: Encoding | None = None
    representatives: Mapping[str, tuple[Any, ...]] | None = None
    survey: Mapping[str, Any] | None = None

    def __init_subclass__(cls, *, kind: str, holds_records: bool, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind = kind
        cls.holds_records = holds_records
        KINDS[kind] = cls

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, (int, np.integer)) or self.k < 1:
            raise OptionError(
                "k must be an integer of at least 1.", code="option.out_of_range", option="k"
            )
        object.__setattr__(self, "k", int(self.k))
        self._read_arrays()
        self._check_sizes()
        self._check_encoding()
        if self.representatives is not None:
            plain = _read_representatives(self.representatives, len(self))
            object.__setattr__(self, "representatives", plain)
        if self.survey is not None:
            object.__setattr__(self, "survey", read_survey_section(self.survey, self.sizes))

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.sizes)

    def __repr__(self) -> str:
        return short_repr(
            self, count(len(self), "cell"), count(self.dimensions, "dimension"), k=self.k
        )

    def _repr_html_(self) -> str:
        return html_card(
            f"Every cell has at least {count(self.k, 'record')}",
            {
                "Cells": f"{len(self):,} ({self.kind})",
                "Records": f"{int(self.sizes.sum()):,}",
                "Dimensions": f"{self.dimensions:,}",
                "Contains original records": "yes" if self.holds_records else "no",
            },
            next_steps={
                "mc.assign(cells, table)": "assign further records",
                "cells.save('cells.json')": "write the cells to a file",
            },
        )

    @property
    def dimensions(self) -> int:
        """Number of columns of the points."""
        return int(self.centroids.shape[1])

    @property
    def digest(self) -> str:
        """SHA-256 of the file's content, which identifies the cells."""
        return _digest(self._describe())

    def assign(self, X: Any) -> Integers:
        """Return the cell of each row of X; ties go to the lowest cell.

        X is a matrix of finite numbers in the space of the centroids, or a list of numbers if there
        is one dimension. Raises :class:`DataError` for anything else.
        """
        return self._place(read_points(X, self.dimensions))

    def save(self, path: str | Path, *, confidential: bool = False) -> None:
        """Write the cells to a JSON file in one atomic step; :func:`load_cells` reads it.

        Raises :class:`OptionError` for a kind that holds original records, unless ``confidential``
        is true; the file is then readable by its owner only. docs/cells.md describes the format.
        """
        path = Path(path)
        if not confidential:
            self._check_publishable()
        check_target(path)
        text = self._as_json()
        with AtomicFiles() as atomic:
            atomic.path(path, private=confidential).write_text(text, encoding="ascii")

    def to_json(self) -> str:
        """Return the text that :meth:`save` writes; raise an error for cells that hold records."""
        self._check_publishable()
        return self._as_json()

    def contents(self) -> dict[str, Any]:
        """Return the arrays specific to this kind of cells as plain lists."""
        arrays = {name: getattr(self, name) for name in _entries(self)}
        return {name: None if array is None else array.tolist() for name, array in arrays.items()}

    @classmethod
    def from_contents(cls, contents: Mapping[str, Any], **shared: Any) -> Self:
        """Rebuild cells from :meth:`contents`; ``shared`` holds k and the optional fields."""
        expected = {item.name for item in fields(cls)} - _SHARED
        if not isinstance(contents, Mapping) or set(contents) != expected:
            raise DataError(
                f"Cells of kind {cls.kind!r} must have the entries {', '.join(sorted(expected))}.",
                code="data.invalid",
                kind=cls.kind,
            )
        return cls(**contents, **shared)

    @abstractmethod
    def _place(self, points: Floats) -> Integers:
        """Return the cell of each point; the points have been checked."""

    def _read_arrays(self) -> None:
        optional = {item.name for item in fields(self) if item.default is None}
        for name, entry in _entries(self).items():
            value = getattr(self, name)
            if value is not None or name not in optional:
                # Centroids come first, so the number of dimensions is known for the others.
                width = 0 if name == "centroids" else self.dimensions
                object.__setattr__(self, name, read_entry(name, value, entry, width))

    def _check_sizes(self) -> None:
        if len(self.sizes) == 0 or self.centroids.shape[0] != len(self.sizes):
            raise DataError(
                "There must be at least one cell, with one centroid and one size each, not "
                f"{count(len(self.centroids), 'centroid')} and {count(len(self.sizes), 'size')}.",
                code="data.invalid",
                entry="sizes",
            )
        if self.sizes.min() < self.k:
            raise GuaranteeError(
                f"The smallest cell has {count(int(self.sizes.min()), 'record')}, fewer than k = "
                f"{self.k}. Make the cells again, or pass the k that they were made for.",
                code="guarantee.failed",
                k=self.k,
                smallest=int(self.sizes.min()),
            )

    def _check_encoding(self) -> None:
        encoding = self.encoding
        if encoding is None:
            return
        if encoding.dimensions != self.dimensions:
            raise DataError(
                f"The encoding has {count(encoding.dimensions, 'dimension')}, but the centroids "
                f"have {self.dimensions}. Pass the encoding that the points were made with.",
                code="data.invalid",
                entry="encoding",
            )
        if encoding.published_for is not None and encoding.published_for < self.k:
            raise GuaranteeError(
                "The encoding names categories shared by as few as "
                f"{count(encoding.published_for, 'record')}, fewer than k = {self.k}. Pass the "
                "encoding that the points were made with.",
                code="guarantee.failed",
                k=self.k,
            )

    def _check_publishable(self) -> None:
        if self.holds_records:
            raise OptionError(
                f"Cells of kind {self.kind!r} contain original records. Pass confidential=True to "
                "write a file for yourself, or publish power or ball cells, which contain none.",
                code="option.unsupported",
                option="confidential",
            )

    def _as_json(self) -> str:
        return json.dumps(_seal(self._describe()), allow_nan=False) + "\n"

    def _describe(self) -> dict[str, Any]:
        """Return the content of the file, except for the digest."""
        encoding, representatives = self.encoding, self.representatives
        content = {
            "format": FORMAT,
            "version": 1 if self.survey is None else VERSION,
            "kind": self.kind,
            "k": self.k,
            "count": len(self),
            "dimensions": self.dimensions,
            "holds_original_records": self.holds_records,
            "encoding": None if encoding is None else encoding.published(self.k).as_dict(),
            "representatives": None
            if representatives is None
            else {name: list(values) for name, values in representatives.items()},
            "cells": self.contents(),
        }
        return content if self.survey is None else {**content, "survey": dict(self.survey)}


def _entries(cells: Cells) -> dict[str, Any]:
    """Return the specification of each array, by name."""
    return {item.name: item.metadata["entry"] for item in fields(cells) if "entry" in item.metadata}


def _read_representatives(
    representatives: Mapping[str, Any], count: int
) -> Mapping[str, tuple[Any, ...]]:
    """Return the representatives as they would be read back from a file."""
    if not isinstance(representatives, Mapping):
        raise DataError(
            "representatives must map column names to lists with one entry per cell.",
            code="data.invalid",
            entry="representatives",
        )
    plain = {}
    for name, values in representatives.items():
        problem = None
        if not isinstance(name, str) or isinstance(values, (str, Mapping)):
            problem = "must be a list under a column name"
        else:
            try:
                plain[name] = tuple(
                    json.loads(json.dumps(list(values), allow_nan=False, default=_as_plain))
                )
            except (TypeError, ValueError):
                problem = "may contain only text, finite numbers, true, false, null and lists"
            else:
                if len(plain[name]) != count:
                    problem = f"must have one entry per cell ({count}), not {len(plain[name])}"
        if problem is not None:
            raise DataError(
                f"The representatives of column {name!r} {problem}.",
                code="data.invalid",
                entry="representatives",
                column=name,
            )
    return MappingProxyType(plain)


def _as_plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError


# ----------------------------------------------------------------------------------------- files


def load_cells(path: str | Path) -> Cells:
    """Load cells from a file written by :meth:`Cells.save`; numbers are restored exactly.

    Raises :class:`TableError` if the file cannot be read, is not a cells file, was written by a
    newer version, or was altered or damaged.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from microcell.cells import PowerCells
    >>> cells = PowerCells(centroids=[[0.0], [4.0]], sizes=[3, 5], k=3, costs=[0.0, 0.0])
    >>> with TemporaryDirectory() as folder:
    ...     cells.save(f"{folder}/cells.json")
    ...     load_cells(f"{folder}/cells.json").assign([[1.0], [9.0]])
    array([0, 1])
    """
    path = Path(path)
    content = _read_json(path)
    _check_format(content, path)
    expected = FIELDS if content["version"] == 1 else FIELDS_WITH_SURVEY
    if set(content) != expected or content["sha256"] != _digest(content):
        raise TableError(
            f"{path} was altered or damaged after it was written. Ask its author for a new copy.",
            code="table.malformed",
            path=str(path),
        )
    try:
        return _restore(content)
    except MicrocellError as error:
        raise _invalid_cells(path, f" {error}", cause=error.code, **error.details) from None
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise _invalid_cells(path) from None


def _invalid_cells(path: Path, reason: str = "", **details: Any) -> TableError:
    return TableError(
        f"{path} does not contain valid cells.{reason} Ask its author for a new copy.",
        code="table.malformed",
        path=str(path),
        **details,
    )


def _seal(content: Mapping[str, Any]) -> dict[str, Any]:
    return {**content, "sha256": _digest(content)}


def _digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything but the digest itself, as compact JSON with sorted keys.

    Returns an empty string if the content cannot be written as JSON.
    """
    rest = {name: value for name, value in content.items() if name != "sha256"}
    try:
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError:  # a number in the file overflowed to infinity
        return ""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _read_json(path: Path) -> Any:
    try:
        return parse_json(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError):
        raise TableError(
            f"{path} is not JSON. Pass a file written by Cells.save.",
            code="table.malformed",
            path=str(path),
        ) from None


def _check_format(content: Any, path: Path) -> None:
    problem = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        problem = "is JSON but not a cells file. Pass a file written by Cells.save."
    else:
        version = content.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            problem = "has no format version. Ask its author for a new copy."
        elif version > VERSION:
            problem = "was written by a newer version of microcell. Upgrade microcell to read it."
    if problem is not None:
        raise TableError(f"{path} {problem}", code="table.malformed", path=str(path))


def _restore(content: Mapping[str, Any]) -> Cells:
    if content["kind"] not in KINDS:
        raise TableError(
            f"The kind of cells is unknown; this version supports {', '.join(sorted(KINDS))}.",
            code="table.malformed",
            entry="kind",
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
        raise TableError(
            "The survey cells file has no survey section.",
            code="table.malformed",
            entry="survey",
        )
    stated = (content["count"], content["dimensions"], content["holds_original_records"])
    if stated != (len(cells), cells.dimensions, cells.holds_records):
        raise TableError(
            "The count, dimensions or confidentiality stated in the file do not match its cells.",
            code="table.malformed",
            entry="count",
        )
    return cells
