"""Where a data set lies: the files of a folder, of a pattern or of a list, and the parts they are read in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from microcell import tables
from microcell.engines._arrow import arrow, plain_schema, row_groups, stored_schema, write_parquet
from microcell.errors import OptionError, TableError

__all__ = ["Described", "Part", "convert", "describe", "find_files", "make_parts"]

PLAIN = (".csv", ".tsv", ".txt")
"""Files of plain text, each of which is read whole."""

SUFFIXES = (".parquet", *PLAIN)

PART_ROWS = 250_000
"""Row groups are taken together up to about so many rows, or to those of a macrocell if that has more."""


@dataclass(frozen=True)
class Part:
    """Some row groups of a Parquet file, from the row after ``first`` on, of so many ``rows``: what one task reads.

    It is called by its ``number`` and by the ``name`` of the file that was given.
    """

    number: int
    path: Path
    name: str
    groups: tuple[int, ...]
    first: int
    rows: int


@dataclass(frozen=True, eq=False)
class Described:
    """A Parquet file: the Arrow schema of its columns, which of them have ordered categories, and its row groups."""

    path: Path
    schema: Any
    ordered: tuple[str, ...]
    groups: tuple[int, ...]


def find_files(source: Any) -> tuple[Path, ...]:
    """The files of a data set, by name: a folder's own, those of a pattern, or those given.

    Files and folders whose names begin with a dot or an underscore are no part of it, as engines agree.
    """
    if isinstance(source, (str, Path)):
        files = _files_of(Path(source))
    elif isinstance(source, Iterable):
        files = sorted(Path(item) for item in source)
    else:
        raise OptionError(
            f"A data set is a folder, a pattern of file names, a list of files or a Dask dataframe, not a "
            f"{type(source).__name__}."
        )
    if not files:
        raise TableError(
            f"No files of a data set at {str(source)!r}. Give a folder or a pattern such as 'in/*.parquet'."
        )
    suffixes = sorted({path.suffix.lower() for path in files})
    strange = [path.name for path in files if path.suffix.lower() not in SUFFIXES]
    if strange:
        raise TableError(f"{strange[0]!r} is none of {', '.join(SUFFIXES)}, which a data set consists of.")
    if len(suffixes) > 1:
        raise TableError(f"The data set has files of several kinds, {' and '.join(suffixes)}. Give those of one kind.")
    return tuple(files)


def _files_of(path: Path) -> list[Path]:
    if has_magic(str(path)) and not path.exists():
        return sorted(Path(item) for item in glob(str(path), recursive=True) if Path(item).is_file())
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TableError(f"No folder or file {str(path)!r}. Check the path.")
    files = []
    for file in sorted(path.rglob("*")):
        steps = file.relative_to(path).parts
        if not file.is_file() or any(step.startswith((".", "_")) for step in steps):
            continue
        if any("=" in step for step in steps[:-1]):
            raise TableError(
                f"Folder {steps[0]!r} of the data set stands for a value of a column. Such columns are not read: write "
                "the data set with all columns in its files."
            )
        files.append(file)
    return files


def convert(source: Path, target: Path, reading: Mapping[str, Any]) -> None:
    """Write a file of plain text as Parquet, its types found out as they are in memory."""
    table = tables.read(source, **reading)
    write_parquet(table.native.to_arrow(), target)


def describe(path: Path) -> Described:
    """What the file itself says of its columns and rows, without reading them."""
    schema = stored_schema(path)
    twins = [name for name in schema.names if schema.names.count(name) > 1]
    if twins:
        raise TableError(f"{path.name!r} has two columns of the name {twins[0]!r}. Rename one.")
    kinds = arrow().types
    ordered = tuple(field.name for field in schema if kinds.is_dictionary(field.type) and field.type.ordered)
    return Described(path, plain_schema(schema), ordered, row_groups(path))


def make_parts(files: Sequence[Described], names: Sequence[str], macrocell: int = 0) -> tuple[Part, ...]:
    """The parts of all files, called by the names of those that they come from.

    They grow with macrocells: the shuffle writes a batch for each part and macrocell, and batches must not get tiny.
    """
    most = max(PART_ROWS, macrocell)
    parts: list[Part] = []
    for file, name in zip(files, names, strict=True):
        groups: list[int] = []
        first = rows = 0
        for group, size in [*enumerate(file.groups), (-1, most)]:  # the last one ends the file
            if groups and rows + size > most:
                parts.append(Part(len(parts), file.path, name, tuple(groups), first, rows))
                groups, first, rows = [], first + rows, 0
            if size:
                groups.append(group)
                rows += size
    return tuple(parts)
