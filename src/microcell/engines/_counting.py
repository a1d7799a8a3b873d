"""The audit on the engine: k of the files as they were written, counted over all of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from microcell import auditing, tables
from microcell.engines._arrow import Spill, arrow, concatenate, read_run, write_runs
from microcell.engines._jobs import Run, load_job
from microcell.errors import GuaranteeError
from microcell.model import Integers, Table, Values

__all__ = ["Checked", "Counted", "check", "count", "count_file", "gather_classes"]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@dataclass(frozen=True, eq=False)
class Checked:
    """A file as it was read back: its records, its classes sorted by where they are counted, and its digest."""

    name: str
    rows: int
    columns: int
    classes: Spill
    sha256: str


@dataclass(frozen=True)
class Counted:
    """Some classes of the whole data set: how many there are of each size."""

    sizes: Counter[int]


def check(job_path: Path, buckets: int, name: str) -> Checked:
    """Read a file back and count its classes; refused if its columns are not those to be published."""
    job = load_job(job_path)
    path = job.target / name
    table = tables.read_back(tables.read(job.columns.empty_table()), path)
    strange = set(table.names) ^ {*job.schema.keys, *job.schema.unchanged}
    if strange:
        raise GuaranteeError(f"Columns {sorted(strange)} are not as the schema wants them. Nothing was released.")
    return count_file(table, path, job.schema.keys, buckets, job.work / f"classes-{name}.arrow")


def count_file(table: Table, path: Path, keys: Sequence[str], buckets: int, target: Path) -> Checked:
    """The classes of a file that was read, written to ``target`` sorted by their buckets.

    The bucket is a hash of the values, so that classes of the same values meet in one, whatever files they are in.
    """
    labels = auditing.class_labels(table, keys)
    _, rows, sizes = np.unique(labels, return_index=True, return_counts=True)
    classes, places = _classes(table, keys, rows, sizes, typed=path.suffix.lower() == ".parquet")
    spill = write_runs(classes, (places % np.uint64(buckets)).astype(np.int64), target)
    return Checked(path.name, table.rows, len(table.names), spill, tables.file_digest(path))


def gather_classes(files: Sequence[Checked]) -> list[tuple[Run, ...]]:
    """The runs of each bucket that has classes: what :func:`count` takes."""
    runs: dict[int, list[Run]] = {}
    for file in files:
        for batch, bucket in enumerate(file.classes.places):
            runs.setdefault(bucket, []).append(Run(file.classes.path, batch))
    return [tuple(runs[bucket]) for bucket in sorted(runs)]


def count(runs: tuple[Run, ...]) -> Counted:
    """The classes of a bucket over all files: records are in one class if all of their values are the same."""
    together = concatenate([read_run(run.path, run.number) for run in runs])
    names = [name for name in together.column_names if name != "count"]
    sizes = together.group_by(names, use_threads=False).aggregate([("count", "sum")]).column("count_sum").to_numpy()
    return Counted(Counter(sizes.tolist()))


def _classes(table: Table, keys: Sequence[str], rows: Integers, sizes: Integers, *, typed: bool) -> tuple[Any, Any]:
    """A row for each class, its values in a form that is the same in all files, and a hash of them."""
    pa, hashes = arrow(), np.zeros(len(rows), dtype=np.uint64)
    columns: dict[str, Any] = {}
    for at, name in enumerate(keys):
        column = _canonical(table.columns[name], rows, typed=typed)
        columns[f"value{at}"] = column
        hashes ^= _bits(column)
        hashes *= _MULTIPLIER
        hashes ^= hashes >> _SHIFT
    return pa.table({**columns, "count": pa.array(sizes)}), hashes


def _canonical(values: Values, rows: Integers, *, typed: bool) -> Any:
    """The values of those rows as an Arrow array: numbers where files tell types, else names.

    The types of a file of plain text are guesses, which may differ from file to file; names do not.
    """
    pa = arrow()
    if values.missing.all():
        return pa.nulls(len(rows))
    if typed and (values.is_number or values.is_time):
        return pa.array(values.data[rows] + 0, mask=values.missing[rows])  # no negative zero
    codes, names = values.factorize()
    return pa.array([None if code < 0 else names[code] for code in codes[rows].tolist()], pa.large_string())


def _bits(column: Any) -> Any:
    """64 bits for each value, the same for the same value."""
    kinds = arrow().types
    if kinds.is_null(column.type):
        return np.zeros(len(column), dtype=np.uint64)
    if kinds.is_large_string(column.type):
        return np.array([0 if text is None else crc32(text.encode()) for text in column.to_pylist()], dtype=np.uint64)
    filled = column.fill_null(0).to_numpy(zero_copy_only=False)
    return filled.astype(np.float64 if filled.dtype.kind == "f" else np.int64).view(np.uint64)
