"""Where a data set lies: the files of a folder, of a pattern or of a list, and the parts they are read in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from itertools import takewhile
from pathlib import Path
from typing import Any

from microcell import tables
from microcell.dask.arrow import arrow, plain_schema, row_groups, stored_schema, write_parquet
from microcell.errors import MicrocellError, OptionError, TableError

__all__ = [
    "Described",
    "Part",
    "check_apart",
    "convert",
    "describe",
    "find_files",
    "make_parts",
    "read_text",
]

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
    elif (items := _listed(source)) is not None:
        files = sorted(items)
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
        raise TableError(
            f"{strange[0]!r} is none of {', '.join(SUFFIXES)}, which a data set consists of."
        )
    if len(suffixes) > 1:
        raise TableError(
            f"The data set has files of several kinds, {' and '.join(suffixes)}. Give those of one kind."
        )
    _check_twice(files)
    return tuple(files)


def check_apart(source: Any, output: Path) -> None:
    """Refuse an output that the same source would take for a part of itself the next time."""
    if not isinstance(source, (str, Path)):
        return
    root = Path(source)
    if _is_pattern(root):
        root = _fixed(root) if "**" in root.parts else root
    if root.is_dir() and root.resolve() in output.resolve().parents:
        raise TableError(
            f"The output {output} lies in the folder of the data set, and would be read as a part of it the next time. "
            "Choose another output."
        )


def _listed(source: Any) -> list[Path] | None:
    """The paths of a list; None for a frame, a series or a mapping, which hold values that no error may show."""
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


def _check_twice(files: Sequence[Path]) -> None:
    """Refuse a file that is there under two names: its people would be counted twice, and k with them."""
    seen: dict[Any, Path] = {}
    for path in files:
        if not path.exists():
            continue  # told of where it is read
        facts = path.stat()
        first = seen.setdefault(
            (facts.st_dev, facts.st_ino) if facts.st_ino else path.resolve(), path
        )
        if first is not path:
            raise TableError(
                f"{str(first)!r} and {str(path)!r} are the same file, whose records would count twice. Give it once."
            )


def _is_pattern(path: Path) -> bool:
    return has_magic(str(path)) and not path.exists()


def _fixed(pattern: Path) -> Path:
    """The folder that a pattern begins with."""
    return Path(*takewhile(lambda step: not has_magic(step), pattern.parts))


def _files_of(path: Path) -> list[Path]:
    if _is_pattern(path):
        return _files_of_pattern(path)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TableError(f"No folder or file {str(path)!r}. Check the path.")
    found = [(file, file.relative_to(path).parts) for file in sorted(path.rglob("*"))]
    files = [
        (file, steps)
        for file, steps in found
        if not any(step.startswith((".", "_")) for step in steps)
    ]
    for file, _ in files:
        if file.is_symlink() and file.is_dir():
            raise TableError(
                f"{str(file)!r} is a link to a folder, which is not followed. Give its files by name."
            )
    return [file for file, steps in files if _is_data(file, steps)]


def _files_of_pattern(pattern: Path) -> list[Path]:
    found = sorted(Path(item) for item in glob(str(pattern), recursive=True))
    for item in found:
        if item.is_dir() and "**" not in pattern.parts:
            raise TableError(
                f"{str(item)!r} is a folder, whose files the pattern leaves out. Give a pattern of files alone, or one "
                "with '**'."
            )
    base = _fixed(pattern)
    return [item for item in found if _is_data(item, item.relative_to(base).parts)]


def _is_data(file: Path, steps: Sequence[str]) -> bool:
    """True for a file; refused if its folders stand for values, or if records would be lost without a word."""
    if file.is_symlink() and not file.exists():
        raise TableError(
            f"{str(file)!r} is a link to a file that is not there. Remove it, or bring the file back."
        )
    if not file.is_file():
        return False
    if any("=" in step for step in steps[:-1]):
        raise TableError(
            f"Folder {steps[0]!r} of the data set stands for a value of a column. Such columns are not read: write "
            "the data set with all columns in its files."
        )
    return True


def convert(source: Path, target: Path, reading: Mapping[str, Any]) -> None:
    """Write a file of plain text as Parquet, its types found out as they are in memory."""
    write_parquet(read_text(source, reading), target)


def read_text(source: Path, reading: Mapping[str, Any]) -> Any:
    """A file of plain text as an Arrow table; one without records does not say of which types its columns are."""
    try:
        table = tables.read(source, **reading)
    except MicrocellError as error:
        raise type(error)(f"In {source.name!r}: {error}") from None
    pa = arrow()
    return (
        table.native.to_arrow()
        if table.rows
        else pa.table({name: pa.nulls(0) for name in table.names})
    )


def describe(path: Path) -> Described:
    """What the file itself says of its columns and rows, without reading them."""
    schema = stored_schema(path)
    twins = [name for name in schema.names if schema.names.count(name) > 1]
    if twins:
        raise TableError(f"{path.name!r} has two columns of the name {twins[0]!r}. Rename one.")
    kinds = arrow().types
    ordered = tuple(
        field.name for field in schema if kinds.is_dictionary(field.type) and field.type.ordered
    )
    return Described(path, plain_schema(schema), ordered, row_groups(path))


def make_parts(
    files: Sequence[Described], names: Sequence[str], macrocell: int = 0
) -> tuple[Part, ...]:
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
