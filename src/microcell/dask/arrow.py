"""Arrow tables and files: what a data set is read from, and what goes to and fro between tasks on disk."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from microcell.errors import DataError, OptionError, SchemaError, TableError
from microcell.model import Integers

__all__ = [
    "Spill",
    "arrow",
    "concatenate",
    "plain_schema",
    "read_part",
    "read_run",
    "row_groups",
    "stored_schema",
    "unify",
    "write_parquet",
    "write_runs",
]


def arrow() -> Any:
    """The module pyarrow, with what reads Parquet; :class:`OptionError` if it is not installed."""
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.ipc  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise OptionError(
            "Data sets beyond memory need pyarrow and Dask, which are not installed: pip install 'microcell[dask]'."
        ) from None
    return pyarrow


@dataclass(frozen=True)
class Spill:
    """A file of rows sorted by where they go: the places that have some, in order, and how many each has."""

    path: Path
    places: tuple[int, ...]
    rows: tuple[int, ...]


# ---------------------------------------------------------------------------------------------- the types of columns


def plain_schema(schema: Any) -> Any:
    """The schema without metadata, which may name people; categories are what they stand for, texts are of one type."""
    pa = arrow()
    return pa.schema([(field.name, _plain_type(field.type)) for field in schema])


def _plain_type(kind: Any) -> Any:
    pa = arrow()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or str(kind) == "string_view":
        return pa.large_string()
    return kind


def unify(found: Sequence[tuple[str, Any]], *, texts: bool = False) -> Any:
    """The one schema of files, by their names: the columns of the first, in types that hold the values of all.

    With ``texts``, whole numbers and text go together as text: files of plain text do not say which of them they hold.

    Raises
    ------
    SchemaError
        A file lacks a column, has one more, or holds another type: the error names both.
    """
    pa = arrow()
    (first, wanted), *others = found
    for name, schema in others:
        for lacking, one, other in ((wanted, name, first), (schema, first, name)):
            absent = [
                column
                for column in lacking.names
                if column not in (schema if lacking is wanted else wanted).names
            ]
            if absent:
                raise SchemaError(
                    f"File {one!r} lacks column {absent[0]!r}, which {other!r} has. Files of one data set have the "
                    "same columns."
                )
    fields = []
    for column in wanted.names:
        kind = wanted.field(column).type
        for name, schema in others:
            kind = _common(kind, schema.field(column).type, column, name, texts)
        fields.append((column, kind))
    return pa.schema(fields)


def _common(one: Any, other: Any, column: str, name: str, texts: bool) -> Any:
    pa = arrow()
    if one == other:
        return one
    kinds = [pa.schema([(column, kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(kinds, promote_options="permissive").field(0).type
    except pa.ArrowException:
        text = pa.large_string()
        if (
            texts
            and text in (one, other)
            and (pa.types.is_integer(one) or pa.types.is_integer(other))
        ):
            return text
        raise SchemaError(
            f"Column {column!r} holds {other} values in file {name!r} and {one} values in files before it. Convert "
            "them to one type."
        ) from None


# ---------------------------------------------------------------------------------------------- Parquet files


def stored_schema(path: Path) -> Any:
    """The schema of a Parquet file as it is stored."""
    return _open(path).schema_arrow


def row_groups(path: Path) -> tuple[int, ...]:
    """The number of rows in each row group of a Parquet file."""
    metadata = _open(path).metadata
    return tuple(metadata.row_group(at).num_rows for at in range(metadata.num_row_groups))


def _open(path: Path) -> Any:
    pa = arrow()
    try:
        return pa.parquet.ParquetFile(path)
    except FileNotFoundError:
        raise TableError(f"No file {str(path)!r}. Check the path.") from None
    except OSError as error:
        if error.strerror:
            raise TableError(f"Cannot read {str(path)!r}: {error.strerror}.") from None
        raise TableError(
            f"{path.name!r} cannot be read as Parquet: it is damaged or cut in the middle."
        ) from None
    except pa.ArrowException:
        raise TableError(
            f"{path.name!r} cannot be read as Parquet: it is empty, damaged, cut in the middle, or of another format."
        ) from None


def read_part(path: Path, groups: Sequence[int], schema: Any, name: str | None = None) -> Any:
    """The rows of some row groups, in the types of ``schema``, only its columns; nothing else of the file is read.

    Errors call the file by the ``name`` that it was given by.
    """
    pa = arrow()
    try:
        table = _open(path).read_row_groups(list(groups), columns=schema.names, use_threads=False)
    except (pa.ArrowException, OSError):
        raise TableError(
            f"{path.name!r} cannot be read: it is damaged or cut in the middle. Get it again."
        ) from None
    return cast(table, schema, name or path.name)


def cast(table: Any, schema: Any, where: str) -> Any:
    """The table in the types of the schema; refused by column and file if a value does not fit its type."""
    pa = arrow()
    columns = []
    for field in schema:
        try:
            columns.append(table.column(field.name).cast(field.type))
        except pa.ArrowException:
            raise DataError(
                f"Column {field.name!r} of {where!r} holds values that the type of the other files, {field.type}, "
                "cannot hold. Convert the column to one type in all files."
            ) from None
    return pa.table(columns, schema=schema)


def write_parquet(table: Any, path: Path) -> None:
    """Write an Arrow table to a Parquet file, whole or not at all."""
    with _whole(path) as temporary:
        arrow().parquet.write_table(table, temporary.path)


# ---------------------------------------------------------------------------------------------- rows on their way


def write_runs(table: Any, places: Integers, path: Path) -> Spill:
    """Write the rows sorted by their places, a batch for each place; within a place they keep their order.

    The file appears whole or not at all, so that a task that is done twice does no harm.
    """
    pa = arrow()
    order = np.argsort(places, kind="stable")
    found, starts = np.unique(places[order], return_index=True)
    ends = [*starts[1:].tolist(), *([len(order)] if len(order) else [])]
    table = table.take(pa.array(order)).combine_chunks()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        _whole(path) as temporary,
        pa.OSFile(str(temporary.path), "wb") as file,
        pa.ipc.new_file(file, table.schema, options=options) as writer,
    ):
        for start, end in zip(starts.tolist(), ends, strict=True):
            (batch,) = table.slice(start, end - start).to_batches()
            writer.write_batch(batch)
    rows = tuple(end - start for start, end in zip(starts.tolist(), ends, strict=True))
    return Spill(path, tuple(found.tolist()), rows)


def read_run(path: Path, number: int) -> Any:
    """The rows of the ``number``-th batch that :func:`write_runs` wrote."""
    pa = arrow()
    with pa.OSFile(str(path), "rb") as file:
        return pa.Table.from_batches([pa.ipc.open_file(file).get_batch(number)])


def concatenate(parts: Sequence[Any]) -> Any:
    """The rows of tables of one schema, below each other, in one piece; a column may have no type where it is empty."""
    return arrow().concat_tables(parts, promote_options="default").combine_chunks()


class _whole:  # noqa: N801
    """A path to write to, renamed to its own name when all is written, removed if it fails."""

    def __init__(self, path: Path) -> None:
        self._target = path
        self.path = path.with_name(f".{path.name}.{token_hex(4)}.partial")

    def __enter__(self) -> "_whole":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                os.replace(self.path, self._target)
        finally:
            self.path.unlink(missing_ok=True)
