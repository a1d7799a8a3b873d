"""The tasks: each reads files, does its part of the work, and writes a file that appears whole or not at all.

A task is a function of its files and of the job alone, so that it may be done twice, or by another worker.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from secrets import token_hex
from typing import Any
from zlib import crc32

import numpy as np

from microcell import auditing, encoding, methods, tables
from microcell.dask.arrow import Spill, arrow, concatenate, read_part, read_run, write_runs
from microcell.dask.first_pass import Placed, Sums, Survey, add_up, stratum_keys, survey_table
from microcell.dask.macrocells import Job, Macrocell, Run, load_job
from microcell.dask.sources import Part
from microcell.encoding import sampling_weights
from microcell.errors import GuaranteeError, MicrocellError
from microcell.kernels.arrays import centroids, unit_vectors
from microcell.kinds.losses import Loss, lose_changes, lose_characters
from microcell.measures.pairs import ColumnPairs
from microcell.measures.utility import ColumnLoss
from microcell.methods.search import refine_labels
from microcell.model import Column, Encoding, Floats, Integers, Schema, Table, Values
from microcell.release import aggregate, prepare

__all__ = [
    "Checked",
    "Counted",
    "Lost",
    "Published",
    "check",
    "count",
    "count_file",
    "divide",
    "gather_classes",
    "lose",
    "mend",
    "scatter",
    "survey",
    "unite_losses",
    "weigh",
]


@dataclass(frozen=True, eq=False)
class Lost:
    """What a column lost in a macrocell, and sums that tell what it would lose if all records were published alike.

    Of numbers, times, ranks and locations: the ``weight`` of the records that have a value, the weighted ``sums`` of
    their coordinates and the sum of their ``squares``. Of categories and codes: the weight of each name.
    """

    lost: float
    weight: float = 0.0
    sums: tuple[float, ...] = ()
    squares: float = 0.0
    names: Counter[str] | None = None


def lose(
    table: Table,
    published: Table,
    schema: Schema,
    encoding: Encoding,
    points: Floats,
    weights: Floats | None,
) -> tuple[Lost, ...]:
    """What each quasi-identifier lost, in units that are the same for all macrocells."""
    each = np.ones(table.rows) if weights is None else weights
    # Ranks are those among the values of all records, not of these alone.
    own = replace(
        schema,
        quasi=tuple(
            replace(column, order=fitted.names) if column.kind == "ordinal" else column
            for column, fitted in zip(schema.quasi, encoding.columns, strict=True)
        ),
    )
    found = auditing.column_losses(ColumnPairs(table, published, own, np.arange(table.rows)))
    out = []
    for item, fitted in zip(found, encoding.columns, strict=True):
        if item.column.kind in ("nominal", "code"):
            out.append(_of_names(item, table, each))
        elif item.column.kind == "location":
            out.append(_of_places(item, table, each))
        else:
            coordinates = points[:, fitted.first : fitted.last] / np.sqrt(fitted.weight)
            out.append(
                _of_squares(item, table, coordinates.sum(axis=1), each)
            )  # a constant column has none
    return tuple(out)


def unite_losses(columns: Sequence[Column], parts: Sequence[Sequence[Lost]]) -> float:
    """The distortion of all records: the mean of the columns' own, weighted, as the audit has it."""
    united = []
    for column, lost in zip(columns, zip(*parts, strict=True), strict=True):
        whole = (
            _whole_of_names(column, lost)
            if lost[0].names is not None
            else _whole_of_sums(column, lost)
        )
        united.append(ColumnLoss(column, Loss(fsum(item.lost for item in lost), whole)))
    return auditing.information_loss(united)


def _of_squares(item: ColumnLoss, table: Table, x: Floats, weights: Floats) -> Lost:
    """The audit's share of what these records could lose, times that in standardized units."""
    known = ~table.columns[item.column.name].missing
    x, weights = x[known], weights[known]
    if not len(x):
        return Lost(0.0, sums=(0.0,))
    spread = float((weights * np.square(x - np.average(x, weights=weights))).sum())
    total, squares = float((weights * x).sum()), float((weights * np.square(x)).sum())
    return Lost(item.loss.share * spread, float(weights.sum()), (total,), squares)


def _of_places(item: ColumnLoss, table: Table, weights: Floats) -> Lost:
    latitude, longitude = (table.columns[part].reals() for part in item.column.parts)
    known = ~(np.isnan(latitude) | np.isnan(longitude))
    vectors = unit_vectors(latitude[known], longitude[known]) * weights[known][:, np.newaxis]
    lost = item.loss.lost * float(weights.max())  # the audit weighs by shares of the largest weight
    return Lost(lost, float(weights[known].sum()), tuple(vectors.sum(axis=0).tolist()))


def _of_names(item: ColumnLoss, table: Table, weights: Floats) -> Lost:
    codes, names = table.columns[item.column.name].factorize()
    known = codes >= 0
    totals = np.bincount(codes[known], weights=weights[known], minlength=len(names))
    by_name = Counter(
        {name: total for name, total in zip(names, totals.tolist(), strict=True) if total > 0}
    )
    return Lost(item.loss.lost * float(weights.max()), names=by_name)


def _whole_of_sums(column: Column, parts: Sequence[Lost]) -> float:
    weight = fsum(part.weight for part in parts)
    sums = [fsum(axis) for axis in zip(*(part.sums for part in parts), strict=True)]
    if weight == 0:
        return 0.0
    if column.kind == "location":  # unit vectors, to the unit vector of their mean direction
        return max(0.0, 2 * (weight - float(np.linalg.norm(sums))))
    return max(0.0, fsum(part.squares for part in parts) - sums[0] ** 2 / weight)


def _whole_of_names(column: Column, parts: Sequence[Lost]) -> float:
    together: Counter[str] = sum((part.names or Counter() for part in parts), Counter())
    names = sorted(together)
    codes, weights = np.arange(len(names)), np.array([together[name] for name in names])
    if column.kind == "nominal":
        return lose_changes(codes, codes, weights).whole
    return lose_characters(codes, codes, weights, names=names).whole


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
        raise GuaranteeError(
            f"Columns {sorted(strange)} are not as the schema wants them. Nothing was released."
        )
    return count_file(table, path, job.schema.keys, buckets, job.work / f"classes-{name}.arrow")


def count_file(
    table: Table, path: Path, keys: Sequence[str], buckets: int, target: Path
) -> Checked:
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
    sizes = (
        together.group_by(names, use_threads=False)
        .aggregate([("count", "sum")])
        .column("count_sum")
        .to_numpy()
    )
    return Counted(Counter(sizes.tolist()))


def _classes(
    table: Table, keys: Sequence[str], rows: Integers, sizes: Integers, *, typed: bool
) -> tuple[Any, Any]:
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
    return pa.array(
        [None if code < 0 else names[code] for code in codes[rows].tolist()], pa.large_string()
    )


def _bits(column: Any) -> Any:
    """64 bits for each value, the same for the same value."""
    kinds = arrow().types
    if kinds.is_null(column.type):
        return np.zeros(len(column), dtype=np.uint64)
    if kinds.is_large_string(column.type):
        return np.array(
            [0 if text is None else crc32(text.encode()) for text in column.to_pylist()],
            dtype=np.uint64,
        )
    filled = column.fill_null(0).to_numpy(zero_copy_only=False)
    return filled.astype(np.float64 if filled.dtype.kind == "f" else np.int64).view(np.uint64)


_ROUNDS = 3
"""Rounds of local search across seams; further ones gain less than another round of seams does."""

_SAMPLING, _SCATTERING, _MENDING = range(3)
"""What chance is drawn for: each has its own."""


@dataclass(frozen=True, eq=False)
class Published:
    """A file of the release: its records and their ``gaps``, the sizes of its cells, and what its distortion comes of.

    That is the sums of its points, of those of confidential columns if they count, and what each column lost. Gaps are
    missing values of quasi-identifiers.
    """

    name: str
    rows: int
    gaps: int
    sizes: Counter[int]
    sums: Sums
    confidential: Sums | None
    losses: tuple[Lost, ...]


@dataclass(frozen=True, eq=False)
class _Records:
    """Records of some strata as points."""

    table: Table
    placed: Placed
    strata: Integers
    weights: Floats | None

    @property
    def points(self) -> Floats:
        """The points that cells are made of."""
        return self.placed.design


def survey(job_path: Path, share: float, part: Part) -> Survey:
    """What the records of a part tell; a share of them is sampled."""
    job = load_job(job_path)
    native = read_part(part.path, part.groups, job.columns, part.name)
    try:
        table = _released(job, native)
        chance, confidential = _chance(job, _SAMPLING, part.number), job.dependence > 0
        return survey_table(
            table, job.schema, native.num_rows, chance, share, confidential=confidential
        )
    except MicrocellError as error:
        where = f"In {part.name!r}" + (
            f", counted after its row {part.first}" if part.first else ""
        )
        raise type(error)(f"{where}: {error}") from None


def weigh(job_path: Path, part: Part) -> tuple[Sums, Sums]:
    """The sums of the points of a part: of the quasi-identifiers, and of what is confidential."""
    job = load_job(job_path)
    records = _read(job, _released(job, read_part(part.path, part.groups, job.columns, part.name)))
    assert records.placed.confidential is not None
    return add_up(records.placed.quasi, records.weights), add_up(
        records.placed.confidential, records.weights
    )


def scatter(job_path: Path, part: Part) -> Spill:
    """The records of a part in a file, sorted by the leaf of the first routing that each goes to."""
    job = load_job(job_path)
    records = _read(job, _released(job, read_part(part.path, part.groups, job.columns, part.name)))
    chance = _chance(job, _SCATTERING, part.number).random(len(records.points))
    leaves = job.routings[0].route(records.points, records.strata, chance)
    return write_runs(records.table.native, leaves, job.work / f"scattered-{part.number:06d}.arrow")


def divide(job_path: Path, macrocell: Macrocell) -> Spill | Published:
    """The records of a macrocell in cells, within strata; passed on to the next round, or published."""
    job = load_job(job_path)
    records = _read(
        job, tables.read(concatenate([read_run(run.path, run.number) for run in macrocell.runs]))
    )
    _, strata = np.unique(records.strata, return_inverse=True)
    made = methods.partition_within(
        strata,
        records.points,
        job.k,
        method=job.method,
        weights=records.weights,
        seed=job.seed,
        **job.options,
    )
    return _pass_on(job, macrocell, records, made.labels)


def mend(job_path: Path, macrocell: Macrocell) -> Spill | Published:
    """Whole cells of several macrocells of the round before, refined across the seams between those."""
    job = load_job(job_path)
    parts = [read_run(run.path, run.number) for run in macrocell.runs]
    labels, cells = [], 0
    for part in parts:
        _, own = np.unique(part.column(job.label).to_numpy(), return_inverse=True)
        labels.append(own + cells)
        cells += int(own.max()) + 1
    records = _read(
        job, tables.read(concatenate([part.drop_columns([job.label]) for part in parts]))
    )
    return _pass_on(job, macrocell, records, _refine(job, records, np.concatenate(labels)))


def _refine(job: Job, records: _Records, labels: Integers) -> Integers:
    """The cells refined within each stratum; one that was in a single macrocell has no seams."""
    out = labels.copy()
    for stratum in np.unique(records.strata).tolist():
        if job.routings[0].trees[stratum].leaves == 1:
            continue
        rows = np.flatnonzero(records.strata == stratum)
        weights = None if records.weights is None else records.weights[rows]
        _, own = np.unique(labels[rows], return_inverse=True)
        found = refine_labels(
            records.points[rows], own, job.k, weights=weights, seed=job.seed, rounds=_ROUNDS
        )
        out[rows] = len(labels) * (stratum + 1) + found
    return np.unique(out, return_inverse=True)[1].astype(np.int64)


def _pass_on(
    job: Job, macrocell: Macrocell, records: _Records, labels: Integers
) -> Spill | Published:
    further = macrocell.round + 1
    if further >= len(job.routings):
        return _publish(job, macrocell, records, labels)
    each = np.ones(len(labels)) if records.weights is None else records.weights
    strata = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    strata[labels] = records.strata
    chance = _chance(job, _MENDING + further, macrocell.number).random(len(strata))
    leaves = job.routings[further].route(centroids(records.points, labels, each), strata, chance)
    native = records.table.native.append_column(job.label, arrow().array(labels))
    path = job.work / f"round{macrocell.round}-{macrocell.number:06d}.arrow"
    return write_runs(native, leaves[labels], path)


def _publish(job: Job, macrocell: Macrocell, records: _Records, labels: Integers) -> Published:
    table, weights, placed = records.table, records.weights, records.placed
    representatives = aggregate.represent(table, job.schema, labels, weights)
    published = tables.publish(table, labels, representatives)
    name = f"part-{macrocell.number:06d}{job.suffix}"
    temporary = job.target / f".{name}.{token_hex(4)}.partial"
    try:
        shuffled = tables.take(published, _row_order(job, macrocell, table))
        # A file cannot tell whether all have whole days only, and classes are counted across files by what is written.
        tables.write(shuffled, temporary, suffix=job.suffix, days=False)
        os.replace(temporary, job.target / name)
    finally:
        temporary.unlink(missing_ok=True)
    return Published(
        name,
        table.rows,
        sum(encoding.count_missing(table, job.schema).values()),
        Counter(np.bincount(labels).tolist()),
        add_up(placed.quasi, weights, labels),
        None if placed.confidential is None else add_up(placed.confidential, weights, labels),
        lose(table, published, job.schema, job.design.encoding, placed.quasi, weights),
    )


def _row_order(job: Job, macrocell: Macrocell, table: Table) -> Integers:
    """An order of the rows that only someone with the originals can work out, another one for each release."""
    making = {
        "k": job.k,
        "method": [job.method, dict(job.options), len(job.routings)],
        "seed": job.seed,
        "missing": job.missing,
        "dependence": job.dependence,
        "schema": repr(job.schema),
        "macrocell": macrocell.number,
    }
    key = json.dumps(making, sort_keys=True, default=str)
    return np.random.default_rng(int(tables.digest(table, key=key.encode()), 16)).permutation(
        table.rows
    )


def _released(job: Job, native: Any) -> Table:
    table = tables.read(native)
    return prepare.take_rows(table, prepare.released_rows(table, job.schema, job.missing))


def _read(job: Job, table: Table) -> _Records:
    keys, labels = stratum_keys(table, job.schema.strata)
    assert job.strata is not None
    strata = np.array([job.strata[key] for key in keys], dtype=np.int64)[labels]
    return _Records(table, job.design.place(table), strata, sampling_weights(table, job.schema))


def _chance(job: Job, purpose: int, number: int) -> np.random.Generator:
    return np.random.default_rng([job.seed, purpose, number])
