"""Files of a data set, given as a directory, a pattern or a list, and the parts to read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from itertools import takewhile
from pathlib import Path
from typing import Any

from microcell import tables
from microcell._files import TEXT_SUFFIXES
from microcell.dask.arrow import arrow, plain_schema, row_groups, stored_schema, write_parquet
from microcell.errors import MicrocellError, OptionError, TableError

__all__ = [
    "FileInfo",
    "Part",
    "check_output_location",
    "convert",
    "find_files",
    "in_file",
    "inspect_file",
    "make_parts",
    "read_text",
]

"""Suffixes of text files, each of which is read as a whole."""

SUFFIXES = (".parquet", *TEXT_SUFFIXES)

PART_ROWS = 250_000
"""Target number of rows per part; the size of a macrocell if that is larger."""


@dataclass(frozen=True)
class Part:
    """Consecutive row groups of a Parquet file that one task reads.

    ``first`` is the number of rows of the file before the part, and ``name`` the name of the
    original file.
    """

    number: int
    path: Path
    name: str
    groups: tuple[int, ...]
    first: int
    rows: int


@dataclass(frozen=True, eq=False)
class FileInfo:
    """Arrow schema of a Parquet file, its columns of ordered categories, and its row groups."""

    path: Path
    schema: Any
    ordered: tuple[str, ...]
    groups: tuple[int, ...]


def find_files(source: Any) -> tuple[Path, ...]:
    """Return the files of a data set, sorted by name.

    Files and directories whose names start with a dot or an underscore are ignored, as other
    engines do.
    """
    if isinstance(source, (str, Path)):
        files = _files_of(Path(source))
    elif (items := _listed(source)) is not None:
        files = sorted(items)
    else:
        raise OptionError(
            "A data set must be a directory, a file name pattern, a list of files or a Dask "
            f"dataframe, not {type(source).__name__}.",
            code="option.wrong_type",
            option="source",
        )
    if not files:
        raise TableError(
            f"{str(source)!r} contains no data files. Give a directory or a pattern such as "
            "'in/*.parquet'.",
            code="table.not_found",
            path=str(source),
        )
    suffixes = sorted({path.suffix.lower() for path in files})
    unsupported = [path.name for path in files if path.suffix.lower() not in SUFFIXES]
    if unsupported:
        raise TableError(
            f"{unsupported[0]!r} is not supported: the files of a data set must be one of "
            f"{', '.join(SUFFIXES)}.",
            code="table.unknown_format",
            file=unsupported[0],
        )
    if len(suffixes) > 1:
        raise TableError(
            f"The data set mixes file formats ({', '.join(suffixes)}). Use files of one format.",
            code="table.mismatch",
            formats=list(suffixes),
        )
    _check_duplicates(files)
    return tuple(files)


def check_output_location(source: Any, output: Path) -> None:
    """Raise TableError if the output would be read as part of the source the next time."""
    if not isinstance(source, (str, Path)):
        return
    root = Path(source)
    if _is_pattern(root):
        root = _base_of(root) if "**" in root.parts else root
    if root.is_dir() and root.resolve() in output.resolve().parents:
        raise TableError(
            f"The output {output} is inside the data set's directory and would be read as part of "
            "it the next time. Choose another output.",
            code="table.exists",
            path=str(output),
        )


def _listed(source: Any) -> list[Path] | None:
    """Return the paths of a list; None for frames and mappings, whose values must not be shown."""
    if (
        not isinstance(source, Iterable)
        or isinstance(source, (bytes, Mapping))
        or hasattr(source, "__array__")
    ):
        return None
    items = list(source)
    return (
        [Path(item) for item in items]
        if all(isinstance(item, (str, Path)) for item in items)
        else None
    )


def _check_duplicates(files: Sequence[Path]) -> None:
    """Raise TableError if a file is listed twice: its records would count twice."""
    seen: dict[Any, Path] = {}
    for path in files:
        if not path.exists():
            continue  # reported when it is read
        stat = path.stat()
        identity = (stat.st_dev, stat.st_ino) if stat.st_ino else path.resolve()
        first = seen.setdefault(identity, path)
        if first is not path:
            raise TableError(
                f"{str(first)!r} and {str(path)!r} are the same file; its records would be counted "
                "twice. List it only once.",
                code="table.mismatch",
                path=str(path),
            )


def _is_pattern(path: Path) -> bool:
    return has_magic(str(path)) and not path.exists()


def _base_of(pattern: Path) -> Path:
    """Return the directory that a pattern starts with."""
    return Path(*takewhile(lambda part: not has_magic(part), pattern.parts))


def _files_of(path: Path) -> list[Path]:
    if _is_pattern(path):
        return _files_of_pattern(path)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TableError(
            f"{str(path)!r} does not exist. Check the path.",
            code="table.not_found",
            path=str(path),
        )
    entries = [(entry, entry.relative_to(path).parts) for entry in sorted(path.rglob("*"))]
    visible = [
        (entry, parts)
        for entry, parts in entries
        if not any(part.startswith((".", "_")) for part in parts)
    ]
    for entry, _ in visible:
        if entry.is_symlink() and entry.is_dir():
            raise TableError(
                f"{str(entry)!r} is a link to a directory, which is not followed. List its files "
                "explicitly.",
                code="table.unreadable",
                path=str(entry),
            )
    return [entry for entry, parts in visible if _is_data_file(entry, parts)]


def _files_of_pattern(pattern: Path) -> list[Path]:
    matches = sorted(Path(match) for match in glob(str(pattern), recursive=True))
    for match in matches:
        if match.is_dir() and "**" not in pattern.parts:
            raise TableError(
                f"{str(match)!r} is a directory, whose files the pattern does not match. Use a "
                "pattern that matches only files, or one with '**'.",
                code="table.unreadable",
                path=str(match),
            )
    base = _base_of(pattern)
    return [match for match in matches if _is_data_file(match, match.relative_to(base).parts)]


def _is_data_file(file: Path, parts: Sequence[str]) -> bool:
    """Return True for a file; raise if its records would be lost silently."""
    if file.is_symlink() and not file.exists():
        raise TableError(
            f"{str(file)!r} is a broken link. Remove it or restore its target.",
            code="table.not_found",
            path=str(file),
        )
    if not file.is_file():
        return False
    if any("=" in part for part in parts[:-1]):
        raise TableError(
            "The data set is partitioned by directories such as NAME=VALUE, which is not "
            "supported. Write it with all columns in its files.",
            code="table.unknown_format",
        )
    return True


def in_file(error: MicrocellError, name: str, first_row: int = 0) -> MicrocellError:
    """Return an error with the same code and details whose message names the file."""
    rows = f" (rows are counted after row {first_row:,})" if first_row else ""
    details = {**error.details, "file": name}
    return type(error)(f"In {name!r}{rows}: {error}", code=error.code, **details)


def convert(source: Path, target: Path, read_options: Mapping[str, Any]) -> None:
    """Convert a text file to Parquet, with the types detected as in memory."""
    write_parquet(read_text(source, read_options), target)


def read_text(source: Path, read_options: Mapping[str, Any]) -> Any:
    """Read a text file as an Arrow table; without records, its columns have the null type."""
    try:
        table = tables.read(source, **read_options)
    except MicrocellError as error:
        raise in_file(error, source.name) from None
    pa = arrow()
    return (
        table.native.to_arrow()
        if table.rows
        else pa.table({name: pa.nulls(0) for name in table.names})
    )


def inspect_file(path: Path) -> FileInfo:
    """Return the schema and row groups of a file without reading its rows."""
    schema = stored_schema(path)
    duplicates = [name for name in schema.names if schema.names.count(name) > 1]
    if duplicates:
        raise TableError(
            f"{path.name!r} has more than one column named {duplicates[0]!r}. Rename all but one.",
            code="table.bad_names",
            column=duplicates[0],
            file=path.name,
        )
    types = arrow().types
    ordered = tuple(
        field.name for field in schema if types.is_dictionary(field.type) and field.type.ordered
    )
    return FileInfo(path, plain_schema(schema), ordered, row_groups(path))


def make_parts(
    files: Sequence[FileInfo], names: Sequence[str], macrocell: int = 0
) -> tuple[Part, ...]:
    """Split all files into parts, named after the original files.

    Parts grow with macrocells: the shuffle writes a batch per part and macrocell, and batches must
    not become tiny.
    """
    target = max(PART_ROWS, macrocell)
    parts: list[Part] = []
    for file, name in zip(files, names, strict=True):
        groups: list[int] = []
        first = rows = 0
        for group, size in [*enumerate(file.groups), (-1, target)]:  # the last entry ends the file
            if groups and rows + size > target:
                parts.append(Part(len(parts), file.path, name, tuple(groups), first, rows))
                groups, first, rows = [], first + rows, 0
            if size:
                groups.append(group)
                rows += size
    return tuple(parts)
