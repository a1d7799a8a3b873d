"""Files: suffixes of text tables, strict JSON parsing, and translation of system errors."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from microcell.errors import TableError

__all__ = [
    "TEXT_SUFFIXES",
    "URL",
    "MemoryFile",
    "Readable",
    "find_system_error",
    "is_url",
    "parse_json",
    "read_bytes",
    "unreadable",
    "unwritable",
]

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
"""Suffixes of tables as delimited text."""


@dataclass(frozen=True)
class MemoryFile:
    """The content of a file that is not on disk, or that was compressed there."""

    name: str
    data: bytes

    @property
    def suffix(self) -> str:
        """Suffix of the name."""
        return Path(self.name).suffix

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<MemoryFile {len(self.data):,} bytes>"


Readable = Path | MemoryFile
"""What the readers of file formats read."""


def parse_json(text: str | bytes, *, allow_nan: bool = False) -> Any:
    """Parse JSON; raise ValueError if it is invalid, repeats a key, or has a forbidden NaN.

    Programs disagree on which of two equal keys counts.

    Examples
    --------
    >>> parse_json('{"k": 5}')
    {'k': 5}
    >>> parse_json('{"k": 5, "k": 2}')
    Traceback (most recent call last):
    ValueError: A key is repeated.
    """
    constant = None if allow_nan else _refuse_constant
    return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=constant)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("A key is repeated.")
    return entries


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON.")


def read_bytes(path: str | Readable, *, limit: int = -1) -> bytes:
    """Return the content of a file, or its first ``limit`` bytes.

    Raises
    ------
    TableError
        The file does not exist or cannot be read.
    """
    if isinstance(path, MemoryFile):
        return path.data if limit < 0 else path.data[:limit]
    try:
        with Path(path).open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: str | Path, error: OSError) -> TableError:
    """Return the error to raise for a file that the system cannot read.

    Examples
    --------
    >>> error = unreadable("people.csv", FileNotFoundError())
    >>> error.code, str(error)
    ('table.not_found', "File 'people.csv' does not exist. Check the path.")
    """
    code = "table.unreadable"
    if isinstance(error, FileNotFoundError):
        code = "table.not_found"
        message = f"File {str(path)!r} does not exist. Check the path."
    elif isinstance(error, IsADirectoryError):
        message = f"{str(path)!r} is a folder, not a file. Pass the path of a file."
    elif isinstance(error, PermissionError):
        message = f"No permission to read {str(path)!r}. Change its permissions or copy it."
    else:
        message = f"Cannot read {str(path)!r}: {error.strerror or 'unknown reason'}."
    return TableError(message, code=code, path=str(path))


# A path object has lost one of two slashes.
URL = re.compile(r"^(?P<scheme>[a-z][a-z0-9+]+):/{1,3}(?=[^/])")


def is_url(source: str | Path) -> bool:
    """Return whether a source is a URL and not a path.

    Examples
    --------
    >>> is_url("s3://bucket/people.csv"), is_url("people.csv"), is_url(r"C:\\people.csv")
    (True, False, False)
    """
    return URL.match(str(source)) is not None


def find_system_error(error: Exception) -> OSError | None:
    """Return the system error that is quoted in the message of a library written in Rust.

    Examples
    --------
    >>> find_system_error(ValueError("parquet: No space left on device (os error 28)")).errno
    28
    """
    match = re.search(r"\(os error ([0-9]+)\)", str(error))
    return None if match is None else OSError(int(match[1]), os.strerror(int(match[1])))


def unwritable(path: str | Path, error: OSError) -> TableError:
    """Return the error to raise for a file that the system cannot write."""
    if error.errno is None:
        error = find_system_error(error) or error
    if isinstance(error, FileNotFoundError):
        message = f"The folder of {str(path)!r} does not exist. Create it first."
    elif isinstance(error, IsADirectoryError):
        message = f"{str(path)!r} is a folder, not a file. Choose the name of a file."
    elif isinstance(error, PermissionError):
        message = f"No permission to write {str(path)!r}. Choose another folder."
    else:
        message = f"Cannot write {str(path)!r}: {error.strerror or 'unknown reason'}."
    return TableError(message, code="table.unwritable", path=str(path))
