"""Cells as files: one versioned JSON format for all kinds. docs/cells.md describes it."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from microcell.errors import MicrocellError, OptionError, TableError
from microcell.model import Encoding
from microcell.staging import Staging, check_target

if TYPE_CHECKING:
    from microcell.cells._base import Cells

__all__ = ["FORMAT", "KINDS", "VERSION", "cells_to_json", "check_publishable", "digest_of", "load_cells", "save_cells"]

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
        raise TableError(f"{path} was altered after it was written, or damaged. Get it again from who made it.")
    try:
        return _restore(content)
    except (MicrocellError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        why = f" {error}" if isinstance(error, MicrocellError) else ""
        raise TableError(f"{path} holds no whole cells.{why} Get the file again from who made it.") from None


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
        "representatives": None if representatives is None else {n: list(v) for n, v in representatives.items()},
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
        return json.loads(path.read_bytes(), object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or 'unknown reason'}. Check its name.") from None
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
        raise TableError(f"{path} is JSON, but not a cells file. Give a file that Cells.save wrote.")
    version = content.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise TableError(f"{path} has no version of the format. Get it again from who made it.")
    if version > VERSION:
        raise TableError(f"{path} was made by a newer version of microcell; upgrade microcell to read it.")


def _restore(content: Mapping[str, Any]) -> "Cells":
    if content["kind"] not in KINDS:
        raise TableError(f"Its kind is unknown; this version of microcell has {', '.join(sorted(KINDS))}.")
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
