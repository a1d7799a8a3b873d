"""Read and write Parquet, Arrow and JSON lines (via polars)."""

import json
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from microcell._files import Readable, read_bytes
from microcell.errors import TableError
from microcell.model import Origin
from microcell.tables.content import Content
from microcell.tables.csv import convert_dates
from microcell.tables.values import as_plain_types

__all__ = [
    "read_arrow",
    "read_json_lines",
    "read_parquet",
    "write_arrow",
    "write_json_lines",
    "write_parquet",
]


def read_parquet(path: Readable) -> Content:
    """Read a Parquet file."""
    return _read_with_polars(path, "Parquet", pl.read_parquet)


def read_arrow(path: Readable) -> Content:
    """Read an Arrow file or stream."""
    return _read_with_polars(path, "Arrow", _parse_arrow)


def read_json_lines(path: Readable) -> Content:
    """Read a file with one JSON object per line."""
    return _read_with_polars(path, "JSON lines", _parse_json_lines)


def _read_with_polars(
    path: Readable, product: str, parse: Callable[[BytesIO], pl.DataFrame]
) -> Content:
    data = read_bytes(path)
    if not data:
        raise TableError(
            f"{path.name!r} is empty. Get the complete file.",
            code="table.malformed",
            path=str(path),
        )
    try:
        return Content(parse(BytesIO(data)))
    except TableError:
        raise
    except pl.exceptions.DuplicateError:
        raise TableError(
            f"{path.name!r} has more than one column with the same name. Rename all but one.",
            code="table.bad_names",
            path=str(path),
        ) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        raise TableError(
            f"{path.name!r} cannot be read as {product}: it is damaged, truncated, or "
            "in another format. Get it again, or correct its suffix.",
            code="table.malformed",
            path=str(path),
        ) from None


def _parse_arrow(data: BytesIO) -> pl.DataFrame:
    # The file format and the stream format share suffixes; the file format has a magic number.
    if data.getvalue().startswith(b"ARROW1"):
        return pl.read_ipc(data)
    return pl.read_ipc_stream(data)


def _parse_json_lines(data: BytesIO) -> pl.DataFrame:
    for row, line in enumerate(data, start=1):
        if _repeats_a_key(line):
            raise TableError(
                f"Row {row} repeats a key, so it is unclear which value counts. Remove one.",
                code="table.malformed",
                row=row,
            )
    data.seek(0)
    return convert_dates(pl.read_ndjson(data, infer_schema_length=None))


def _repeats_a_key(line: bytes) -> bool:
    repeats = False

    def check(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeats
        repeats = repeats or len({name for name, _ in pairs}) < len(pairs)

    with suppress(ValueError, RecursionError):  # reported by the reader, which parses it again
        json.loads(line, object_pairs_hook=check)
    return repeats


def write_parquet(frame: pl.DataFrame, path: Path, _: Origin) -> None:
    """Write a Parquet file."""
    frame.write_parquet(path)


def write_arrow(frame: pl.DataFrame, path: Path, _: Origin) -> None:
    """Write an Arrow file."""
    # Gathering the rows resets what is stored under nulls, which this format would write.
    # The newest Arrow format shares text buffers, and would write values from before publishing.
    rows = pl.int_range(frame.height)
    frame.select(pl.all().gather(rows)).write_ipc(path, compat_level=pl.CompatLevel.oldest())


def write_json_lines(frame: pl.DataFrame, path: Path, _: Origin) -> None:
    """Write one JSON object per row and line."""
    as_plain_types(frame).write_ndjson(path)
