"""Arrow tables and files: the sources of a data set, and intermediate files between tasks."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from microcell._extras import missing_extra
from microcell._files import unreadable
from microcell.errors import DataError, SchemaError, TableError
from microcell.model import Integers

__all__ = [
    "Batch",
    "Spill",
    "arrow",
    "concatenate",
    "plain_schema",
    "read_batch",
    "read_part",
    "row_groups",
    "stored_schema",
    "unify",
    "write_batches",
    "write_parquet",
]


def arrow() -> Any:
    """Import pyarrow with its Parquet and IPC submodules; raise OptionError if it is missing."""
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.ipc  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise missing_extra("Data sets larger than memory", "pyarrow", extra="dask") from None
    return pyarrow


@dataclass(frozen=True)
class Spill:
    """An intermediate file of rows sorted by destination, with one batch per destination.

    ``destinations`` are in ascending order; ``rows`` holds the number of rows of each, ``people``
    a few of the persons of each (:func:`microcell.dask.people.some_persons`), if they are counted.
    """

    path: Path
    destinations: tuple[int, ...]
    rows: tuple[int, ...]
    people: tuple[Integers, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of rows in an intermediate file."""

    path: Path
    number: int


# -------------------------------------------------------------------------------- column types


def plain_schema(schema: Any) -> Any:
    """Return the schema with plain value types and without metadata, which may name people."""
    pa = arrow()
    return pa.schema([(field.name, _plain_type(field.type)) for field in schema])


def _plain_type(kind: Any) -> Any:
    pa = arrow()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or str(kind) == "string_view":
        return pa.large_string()
    return kind


def unify(schemas: Sequence[tuple[str, Any]], *, text_files: bool = False) -> Any:
    """Return the common schema of files, given as pairs of name and schema.

    The columns are those of the first file, with types that hold the values of all files. With
    ``text_files``, integers and text combine to text, because text files do not declare types.

    Raises
    ------
    SchemaError
        A file lacks a column, has an additional one, or has an incompatible type.
    """
    pa = arrow()
    (first_name, first), *others = schemas
    for name, schema in others:
        _check_columns(first, first_name, schema, name)
        _check_columns(schema, name, first, first_name)
    fields = []
    for column in first.names:
        kind = first.field(column).type
        for name, schema in others:
            kind = _common_type(kind, schema.field(column).type, column, name, text_files)
        fields.append((column, kind))
    return pa.schema(fields)


def _check_columns(schema: Any, name: str, other: Any, other_name: str) -> None:
    """Raise SchemaError if the other file lacks a column of this one."""
    missing = [column for column in schema.names if column not in other.names]
    if missing:
        raise SchemaError(
            f"File {other_name!r} has no column {missing[0]!r}, but {name!r} does. All files of a "
            "data set must have the same columns.",
            code="table.mismatch",
            column=missing[0],
            file=other_name,
        )


def _common_type(one: Any, other: Any, column: str, name: str, text_files: bool) -> Any:
    pa = arrow()
    if one == other:
        return one
    kinds = [pa.schema([(column, kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(kinds, promote_options="permissive").field(0).type
    except pa.ArrowException:
        text = pa.large_string()
        if (
            text_files
            and text in (one, other)
            and (pa.types.is_integer(one) or pa.types.is_integer(other))
        ):
            return text
        raise SchemaError(
            f"Column {column!r} has type {other} in file {name!r} but {one} in earlier files. "
            "Convert it to one type in all files.",
            code="table.mismatch",
            column=column,
            file=name,
        ) from None


# -------------------------------------------------------------------------------- Parquet files


def stored_schema(path: Path) -> Any:
    """Return the schema stored in a Parquet file."""
    return _open(path).schema_arrow


def row_groups(path: Path) -> tuple[int, ...]:
    """Return the number of rows in each row group of a Parquet file."""
    metadata = _open(path).metadata
    return tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))


def _open(path: Path) -> Any:
    pa = arrow()
    try:
        return pa.parquet.ParquetFile(path)
    except OSError as error:
        # Without an error number, the file was read but is not Parquet.
        missing = isinstance(error, FileNotFoundError)
        raise (unreadable(path, error) if missing or error.strerror else _damaged(path)) from None
    except pa.ArrowException:
        raise _damaged(path) from None


def _damaged(path: Path) -> TableError:
    return TableError(
        f"{path.name!r} is not a valid Parquet file: it is empty, truncated, damaged or in "
        "another format. Get a new copy, or remove it from the data set.",
        code="table.malformed",
        path=str(path),
    )


def read_part(path: Path, groups: Sequence[int], schema: Any, name: str | None = None) -> Any:
    """Read the columns of ``schema`` from some row groups, converted to its types.

    ``name`` is the name of the original file, for errors.
    """
    pa = arrow()
    try:
        table = _open(path).read_row_groups(list(groups), columns=schema.names, use_threads=False)
    except (pa.ArrowException, OSError):
        raise _damaged(path) from None
    return cast(table, schema, name or path.name)


def cast(table: Any, schema: Any, name: str) -> Any:
    """Convert a table to the types of a schema; raise DataError if a value does not fit."""
    pa = arrow()
    columns = []
    for field in schema:
        try:
            columns.append(table.column(field.name).cast(field.type))
        except pa.ArrowException:
            raise DataError(
                f"Column {field.name!r} of {name!r} has values that do not fit the common type "
                f"{field.type} of all files. Convert the column to one type in all files.",
                code="table.mismatch",
                column=field.name,
                file=name,
            ) from None
    return pa.table(columns, schema=schema)


def write_parquet(table: Any, path: Path) -> None:
    """Write a Parquet file atomically."""
    with _atomic(path) as temporary:
        arrow().parquet.write_table(table, temporary.path)


# ---------------------------------------------------------------------------- intermediate files


def write_batches(table: Any, destinations: Integers, path: Path) -> Spill:
    """Write rows sorted by destination, one batch each; rows of a batch keep their order.

    The file is written atomically, so that a repeated task does no harm.
    """
    pa = arrow()
    order = np.argsort(destinations, kind="stable")
    distinct, starts = np.unique(destinations[order], return_index=True)
    ends = [*starts[1:].tolist(), *([len(order)] if len(order) else [])]
    table = table.take(pa.array(order)).combine_chunks()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        _atomic(path) as temporary,
        pa.OSFile(str(temporary.path), "wb") as file,
        pa.ipc.new_file(file, table.schema, options=options) as writer,
    ):
        for start, end in zip(starts.tolist(), ends, strict=True):
            (batch,) = table.slice(start, end - start).to_batches()
            writer.write_batch(batch)
    rows = tuple(end - start for start, end in zip(starts.tolist(), ends, strict=True))
    return Spill(path, tuple(distinct.tolist()), rows)


def read_batch(path: Path, number: int) -> Any:
    """Read one batch written by :func:`write_batches`."""
    pa = arrow()
    with pa.OSFile(str(path), "rb") as file:
        return pa.Table.from_batches([pa.ipc.open_file(file).get_batch(number)])


def concatenate(parts: Sequence[Any]) -> Any:
    """Concatenate tables; an empty column may have the null type in some of them."""
    return arrow().concat_tables(parts, promote_options="default").combine_chunks()


class _atomic:  # noqa: N801
    """A temporary path that replaces the target on success and is removed on failure."""

    def __init__(self, path: Path) -> None:
        self._target = path
        self.path = path.with_name(f".{path.name}.{token_hex(4)}.partial")

    def __enter__(self) -> "_atomic":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                os.replace(self.path, self._target)
        finally:
            self.path.unlink(missing_ok=True)
