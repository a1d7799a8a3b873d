"""Tasks: each reads files, does its part of the work, and writes a file atomically.

A task depends only on its files and on the job, so that it can be repeated by any worker.
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
from microcell.dask.arrow import (
    Batch,
    Spill,
    arrow,
    concatenate,
    read_batch,
    read_part,
    write_batches,
)
from microcell.dask.examine import sample_classes
from microcell.dask.first_pass import (
    EmbeddedRecords,
    Summary,
    Sums,
    stratum_keys,
    sum_points,
    summarize_table,
)
from microcell.dask.limits import (
    Distribution,
    Keeping,
    Reached,
    add_counts,
    count_by_stratum,
    limited_columns,
    measure_classes,
    spill_persons,
)
from microcell.dask.macrocells import Job, Macrocell, load_job
from microcell.dask.people import some_persons_by_group, spill_digests
from microcell.dask.sources import Part, in_file
from microcell.encoding import sampling_weights
from microcell.errors import GuaranteeError, MicrocellError
from microcell.kernels.arrays import centroids, unit_vectors
from microcell.kernels.rules import Rule, take_rows
from microcell.kinds import CategoricalKind, kind_of
from microcell.kinds.losses import Loss
from microcell.measures.classes import combine
from microcell.measures.pairs import ColumnPairs
from microcell.measures.people import digest_persons
from microcell.measures.utility import ColumnLoss, weigh_losses
from microcell.methods.persons import as_persons, person_rule
from microcell.methods.search import refine_labels
from microcell.model import Column, Encoding, Floats, Integers, Partition, Schema, Table, Values
from microcell.release import aggregate, prepare
from microcell.release.enforce import Searching, as_rule, meet
from microcell.release.order import draw_order
from microcell.release.publish import read_written
from microcell.release.requirements import Points as LimitPoints

__all__ = [
    "CheckedFile",
    "PartialLoss",
    "PublishedFile",
    "check_file",
    "combine_losses",
    "count_bucket",
    "count_confidential",
    "count_file",
    "count_persons_with_values",
    "measure_bucket",
    "measure_losses",
    "partition",
    "persons_path",
    "refine_seams",
    "shuffle",
    "sum_part",
    "summarize",
]


@dataclass(frozen=True, eq=False)
class PartialLoss:
    """Loss of a column in a macrocell, with the sums that the baseline of all records needs.

    For numbers, dates, ranks and locations these are the ``weight`` of the records with a value,
    the weighted ``sums`` of their coordinates and the sum of their ``squares``; for categories and
    codes, the weight of each name.
    """

    lost: float
    weight: float = 0.0
    sums: tuple[float, ...] = ()
    squares: float = 0.0
    names: Counter[str] | None = None


def measure_losses(
    table: Table,
    published: Table,
    schema: Schema,
    encoding: Encoding,
    points: Floats,
    weights: Floats | None,
) -> tuple[PartialLoss, ...]:
    """Return the loss of each quasi-identifier, in units common to all macrocells."""
    each = np.ones(table.rows) if weights is None else weights
    # Ranks refer to the values of all records, not only of these.
    ranked = replace(
        schema,
        quasi=tuple(
            replace(column, order=fitted.names) if kind_of(column).takes_order else column
            for column, fitted in zip(schema.quasi, encoding.columns, strict=True)
        ),
    )
    pairs = ColumnPairs(table, published, ranked, np.arange(table.rows))
    losses = auditing.column_losses(pairs)
    result = []
    for item, fitted in zip(losses, encoding.columns, strict=True):
        if isinstance(kind_of(item.column), CategoricalKind):
            result.append(_category_loss(item, table, each))
        elif kind_of(item.column).layout == "sphere":
            result.append(_location_loss(item, table, each))
        else:
            coordinates = points[:, fitted.first : fitted.last] / np.sqrt(fitted.weight)
            # A constant column has no coordinates, so the sum is 0.
            result.append(_squared_loss(item, table, coordinates.sum(axis=1), each))
    return tuple(result)


def combine_losses(columns: Sequence[Column], parts: Sequence[Sequence[PartialLoss]]) -> float:
    """Return the information loss of all records: the weighted mean over columns, as audits do."""
    combined: list[Loss] = []
    for column, losses in zip(columns, zip(*parts, strict=True), strict=True):
        baseline = (
            _category_baseline(column, losses)
            if losses[0].names is not None
            else _squared_baseline(column, losses)
        )
        combined.append(Loss(fsum(item.lost for item in losses), baseline))
    return auditing.information_loss(weigh_losses(columns, combined, [0] * len(combined)))


def _squared_loss(item: ColumnLoss, table: Table, x: Floats, weights: Floats) -> PartialLoss:
    """Convert the audited share of the baseline to standardized units."""
    present = ~table.columns[item.column.name].missing
    x, weights = x[present], weights[present]
    if not len(x):
        return PartialLoss(0.0, sums=(0.0,))
    spread = float((weights * np.square(x - np.average(x, weights=weights))).sum())
    total, squares = float((weights * x).sum()), float((weights * np.square(x)).sum())
    return PartialLoss(item.share * spread, float(weights.sum()), (total,), squares)


def _location_loss(item: ColumnLoss, table: Table, weights: Floats) -> PartialLoss:
    latitude, longitude = (table.columns[part].reals() for part in item.column.parts)
    present = ~(np.isnan(latitude) | np.isnan(longitude))
    directions = unit_vectors(latitude[present], longitude[present])
    vectors = directions * weights[present][:, np.newaxis]
    # The audit uses weights relative to the largest one.
    lost = item.loss.lost * float(weights.max())
    return PartialLoss(lost, float(weights[present].sum()), tuple(vectors.sum(axis=0).tolist()))


def _category_loss(item: ColumnLoss, table: Table, weights: Floats) -> PartialLoss:
    codes, names = table.columns[item.column.name].factorize()
    present = codes >= 0
    totals = np.bincount(codes[present], weights=weights[present], minlength=len(names))
    by_name = Counter(
        {name: total for name, total in zip(names, totals.tolist(), strict=True) if total > 0}
    )
    return PartialLoss(item.loss.lost * float(weights.max()), names=by_name)


def _squared_baseline(column: Column, parts: Sequence[PartialLoss]) -> float:
    weight = fsum(part.weight for part in parts)
    sums = [fsum(axis) for axis in zip(*(part.sums for part in parts), strict=True)]
    if weight == 0:
        return 0.0
    if kind_of(column).layout == "sphere":  # distances to the mean direction
        return max(0.0, 2 * (weight - float(np.linalg.norm(sums))))
    return max(0.0, fsum(part.squares for part in parts) - sums[0] ** 2 / weight)


def _category_baseline(column: Column, parts: Sequence[PartialLoss]) -> float:
    totals: Counter[str] = sum((part.names or Counter() for part in parts), Counter())
    names = sorted(totals)
    codes, weights = np.arange(len(names)), np.array([totals[name] for name in names])
    kind = kind_of(column)
    assert isinstance(kind, CategoricalKind)
    return kind.loss(column, codes, codes, weights, names=names).baseline


_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@dataclass(frozen=True, eq=False)
class CheckedFile:
    """A file that was read back: its size, its classes and persons by bucket, and its digest."""

    name: str
    rows: int
    columns: int
    classes: Spill
    sha256: str
    persons: Spill | None = None


def check_file(job_path: Path, buckets: int, name: str) -> CheckedFile:
    """Read a file back and count its classes; raise GuaranteeError on unexpected columns."""
    job = load_job(job_path)
    path = job.target / name
    columns = job.columns.empty_table().drop_columns(list(job.schema.person))
    table = tables.read_back(tables.read(columns), path)
    unexpected = set(table.names) ^ {*job.schema.keys, *job.schema.unchanged}
    if unexpected:
        raise GuaranteeError(
            f"The columns of the finished file do not match the schema: {sorted(unexpected)}. "
            "Nothing was released. This is a bug in microcell; please report it.",
            code="guarantee.failed",
            columns=sorted(unexpected),
        )
    target = job.work / f"classes-{name}.arrow"
    limited = () if job.distribution is None else job.distribution.columns
    codes = [column.encode(table) for column in limited]
    if not job.schema.person:
        return count_file(table, path, job.schema.keys, buckets, target, codes=codes)
    digests = read_batch(persons_path(job, name), 0).column("person").to_numpy()
    checked = count_file(table, path, job.schema.keys, buckets, target, digests, codes)
    spill = spill_digests(digests, buckets, job.work / f"census-{name}.arrow")
    return replace(checked, persons=spill)


def count_file(
    table: Table,
    path: Path,
    keys: Sequence[str],
    buckets: int,
    target: Path,
    persons: Integers | None = None,
    codes: Sequence[Integers] = (),
) -> CheckedFile:
    """Count the classes of a table and write them to ``target``, sorted by bucket.

    The bucket is a hash of the values, so that equal classes of all files share a bucket. With
    ``persons``, the digest of each row's person, each person of a class is written, and with
    ``codes`` each combination of confidential values.
    """
    labels = auditing.class_labels(table, keys)
    for each in codes:
        labels = combine(labels, each)
    if persons is not None:
        labels = combine(labels, np.unique(persons, return_inverse=True)[1].reshape(-1))
    _, rows, sizes = np.unique(labels, return_index=True, return_counts=True)
    classes, hashes = _classes(table, keys, rows, sizes, typed=path.suffix.lower() == ".parquet")
    if persons is not None:
        classes = classes.append_column("person", arrow().array(persons[rows]))
    for number, each in enumerate(codes):
        classes = classes.append_column(f"code{number}", arrow().array(each[rows]))
    spill = write_batches(classes, (hashes % np.uint64(buckets)).astype(np.int64), target)
    return CheckedFile(path.name, table.rows, len(table.names), spill, tables.file_digest(path))


def count_bucket(batches: tuple[Batch, ...]) -> Counter[tuple[int, int]]:
    """Return the number of classes of one bucket by records and people, over all files."""
    classes = concatenate([read_batch(batch.path, batch.number) for batch in batches])
    names = [name for name in classes.column_names if name.startswith("value")]
    counted = [("count", "sum")]
    if "person" in classes.column_names:
        counted.append(("person", "count_distinct"))
    totals = classes.group_by(names, use_threads=False).aggregate(counted)
    sizes = totals.column("count_sum").to_pylist()
    people = sizes if len(counted) == 1 else totals.column("person_count_distinct").to_pylist()
    return Counter(zip(sizes, people, strict=True))


def measure_bucket(job_path: Path, batches: tuple[Batch, ...]) -> Reached:
    """Return the limits that the classes of one bucket reach, over all files."""
    distribution = load_job(job_path).distribution
    assert distribution is not None
    classes = concatenate([read_batch(batch.path, batch.number) for batch in batches])
    return measure_classes(distribution, classes)


def _classes(
    table: Table, keys: Sequence[str], rows: Integers, sizes: Integers, *, typed: bool
) -> tuple[Any, Any]:
    """Return one row per class: its values in a canonical form, and a hash of them."""
    pa, hashes = arrow(), np.zeros(len(rows), dtype=np.uint64)
    columns: dict[str, Any] = {}
    for i, name in enumerate(keys):
        column = _canonical(table.columns[name], rows, typed=typed)
        columns[f"value{i}"] = column
        hashes ^= _bits(column)
        hashes *= _MULTIPLIER
        hashes ^= hashes >> _SHIFT
    return pa.table({**columns, "count": pa.array(sizes)}), hashes


def _canonical(values: Values, rows: Integers, *, typed: bool) -> Any:
    """Return values as an Arrow array: numbers if the file declares types, else text.

    The types of text files are guessed and may differ between files.
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
    """Return 64 bits per value, equal for equal values."""
    types = arrow().types
    if types.is_null(column.type):
        return np.zeros(len(column), dtype=np.uint64)
    if types.is_large_string(column.type):
        return np.array(
            [0 if text is None else crc32(text.encode()) for text in column.to_pylist()],
            dtype=np.uint64,
        )
    filled = column.fill_null(0).to_numpy(zero_copy_only=False)
    return filled.astype(np.float64 if filled.dtype.kind == "f" else np.int64).view(np.uint64)


_ROUNDS = 3
"""Rounds of local search per seam; further rounds gain less than another round of seams."""

_SAMPLING, _SHUFFLING, _REFINING = range(3)
"""Independent streams of random numbers."""


@dataclass(frozen=True, eq=False)
class PublishedFile:
    """A file of the release, with its contribution to the statistics of the whole release.

    ``n_missing`` counts missing values of quasi-identifiers, ``sizes`` the cells by size,
    ``n_capped`` the cells with capped weights. ``before`` and ``after`` are the original and the
    published records of some classes as Arrow tables, for the findings, and ``persons`` the digests
    of their persons. ``sums`` and ``confidential`` are the sums of the
    points, ``losses`` the loss of each quasi-identifier.
    """

    name: str
    rows: int
    n_missing: int
    sizes: Counter[int]
    sums: Sums
    confidential: Sums | None
    losses: tuple[PartialLoss, ...]
    n_capped: int
    before: Any
    after: Any
    persons: Integers | None


@dataclass(frozen=True, eq=False)
class _Records:
    table: Table
    embedded: EmbeddedRecords
    strata: Integers
    weights: Floats | None
    persons: Integers | None
    """Digest of each record's person, if persons are counted."""

    @property
    def points(self) -> Floats:
        """Points to be partitioned."""
        return self.embedded.combined


def summarize(job_path: Path, share: float, part: Part) -> Summary:
    """Summarize the records of a part and sample a share of them."""
    job = load_job(job_path)
    native = read_part(part.path, part.groups, job.columns, part.name)
    try:
        table = _released(job, native)
        return summarize_table(
            table,
            job.schema,
            native.num_rows,
            _make_rng(job, _SAMPLING, part.number),
            share,
            confidential=job.dependence > 0,
            persons=digest_persons(table, job.schema, job.person_key),
            k=job.k,
            sampled=[column.name for column in limited_columns(job.limits, job.schema)],
        )
    except MicrocellError as error:
        raise in_file(error, part.name, part.first) from None


def count_confidential(job_path: Path, buckets: int, part: Part) -> tuple[Any, ...]:
    """Count the people of a part in total and by value of each column with limits.

    Tables of counts, or with persons intermediate files that list them.
    """
    job = load_job(job_path)
    records = _read_part(job, part)
    columns = (None, *limited_columns(job.limits, job.schema))
    counts = [
        count_by_stratum(records.table, column, records.strata, records.persons)
        for column in columns
    ]
    if records.persons is None:
        return tuple(counts)
    paths = [job.work / f"values{i}-{part.number:06d}.arrow" for i in range(len(columns))]
    return tuple(
        spill_persons(found, buckets, path) for found, path in zip(counts, paths, strict=True)
    )


def count_persons_with_values(batches: tuple[Batch, ...]) -> Any:
    """Return how many persons of a bucket have each value in each stratum, over all parts."""
    return add_counts([read_batch(batch.path, batch.number) for batch in batches])


def sum_part(job_path: Path, part: Part) -> tuple[Sums, Sums]:
    """Return the sums of the quasi-identifier and confidential points of a part."""
    job = load_job(job_path)
    records = _read_part(job, part)
    embedded = records.embedded
    assert embedded.confidential is not None
    return (
        sum_points(embedded.quasi, records.weights),
        sum_points(embedded.confidential, records.weights),
    )


def shuffle(job_path: Path, part: Part) -> Spill:
    """Write the records of a part sorted by their leaf in the first routing."""
    job = load_job(job_path)
    records = _read_part(job, part)
    uniforms = _make_rng(job, _SHUFFLING, part.number).random(len(records.points))
    groups = None if job.distribution is None else job.distribution.group(records.table)
    leaves = job.routings[0].route(records.points, records.strata, uniforms, groups)
    path = job.work / f"shuffled-{part.number:06d}.arrow"
    native = records.table.native.drop_columns(list(job.schema.person))
    spill = write_batches(_with_persons(job, native, records), leaves, path)
    if records.persons is None:
        return spill
    return replace(spill, people=tuple(some_persons_by_group(records.persons, leaves, job.k)))


def partition(job_path: Path, macrocell: Macrocell) -> Spill | PublishedFile:
    """Partition a macrocell within strata, and pass it on to the next round or publish it."""
    job = load_job(job_path)
    batches = [read_batch(batch.path, batch.number) for batch in macrocell.batches]
    records = _read_records(job, concatenate(batches))
    _, strata = np.unique(records.strata, return_inverse=True)
    result = methods.partition_within(
        strata,
        records.points,
        job.k,
        method=job.method,
        weights=records.weights,
        persons=records.persons,
        seed=job.seed,
        **job.options,
    )
    labels = result.labels
    if job.distribution is not None:
        labels = _keep_limits(job, job.distribution, macrocell, records, strata, result)
    return _pass_on(job, macrocell, records, labels)


def _keep_limits(
    job: Job,
    distribution: Distribution,
    macrocell: Macrocell,
    records: _Records,
    strata: Integers,
    cells: Partition,
) -> Integers:
    """Return the cells of a macrocell within the limits, and write how they were found."""
    persons = as_persons(records.persons, len(strata))
    quasi, weights = records.embedded.quasi, records.weights
    merged = meet(
        distribution.require(records.table, strata, persons),
        replace(cells, persons=persons),
        LimitPoints(quasi, weights),
        Searching(records.points, job.seed, job.options.get("effort", "balanced")),
    )
    Keeping(
        rows=len(strata),
        cells_before=len(cells),
        sse_before=sum_points(quasi, weights, cells.labels).sse,
        way=merged.way,
        rounds=merged.rounds,
    ).save(job.work / f"limits-{macrocell.number:06d}.json")
    return merged.partition.labels


def refine_seams(job_path: Path, macrocell: Macrocell) -> Spill | PublishedFile:
    """Refine complete cells from several macrocells of the previous round across their seams."""
    job = load_job(job_path)
    batches = [read_batch(batch.path, batch.number) for batch in macrocell.batches]
    labels = []
    n_cells = 0
    for batch in batches:
        _, batch_labels = np.unique(batch.column(job.label).to_numpy(), return_inverse=True)
        labels.append(batch_labels + n_cells)
        n_cells += int(batch_labels.max()) + 1
    records = _read_records(
        job, concatenate([batch.drop_columns([job.label]) for batch in batches])
    )
    return _pass_on(job, macrocell, records, _refine(job, records, np.concatenate(labels)))


def _refine(job: Job, records: _Records, labels: Integers) -> Integers:
    """Refine cells within each stratum; strata in a single macrocell have no seams."""
    refined, rule = labels.copy(), _rule(job, records)
    for stratum in np.unique(records.strata).tolist():
        if job.routings[0].trees[stratum].leaves == 1:
            continue
        rows = np.flatnonzero(records.strata == stratum)
        weights = None if records.weights is None else records.weights[rows]
        _, start = np.unique(labels[rows], return_inverse=True)
        result = refine_labels(
            records.points[rows],
            start,
            job.k,
            weights=weights,
            seed=job.seed,
            rounds=_ROUNDS,
            rule=None if rule is None else take_rows(rule, rows),
        )
        refined[rows] = len(labels) * (stratum + 1) + result
    return np.unique(refined, return_inverse=True)[1].astype(np.int64)


def _rule(job: Job, records: _Records) -> Rule | None:
    """Return the rule of k persons and of the limits, if there are any."""
    n = len(records.points)
    persons = as_persons(records.persons, n)
    if job.distribution is not None:
        return as_rule(job.distribution.require(records.table, records.strata, persons), n, job.k)
    return None if persons is None else person_rule(persons, job.k)


def _pass_on(
    job: Job, macrocell: Macrocell, records: _Records, labels: Integers
) -> Spill | PublishedFile:
    """Write the records for the next round or, after the last round, publish them."""
    next_round = macrocell.round + 1
    if next_round >= len(job.routings):
        return _publish(job, macrocell, records, labels)
    each = np.ones(len(labels)) if records.weights is None else records.weights
    strata = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    strata[labels] = records.strata
    uniforms = _make_rng(job, _REFINING + next_round, macrocell.number).random(len(strata))
    means = centroids(records.points, labels, each)
    leaves = job.routings[next_round].route(means, strata, uniforms)
    native = _with_persons(job, records.table.native, records)
    native = native.append_column(job.label, arrow().array(labels))
    path = job.work / f"round{macrocell.round}-{macrocell.number:06d}.arrow"
    return write_batches(native, leaves[labels], path)


def _publish(job: Job, macrocell: Macrocell, records: _Records, labels: Integers) -> PublishedFile:
    table, weights, embedded = records.table, records.weights, records.embedded
    persons = as_persons(records.persons, table.rows)
    representatives = aggregate.represent(table, job.schema, labels, weights, persons)
    published = tables.publish(table, labels, representatives)
    name = f"part-{macrocell.number:06d}{job.suffix}"
    temporary = job.target / f".{name}.{token_hex(4)}.partial{job.suffix}"
    order = _row_order(job, macrocell, table)
    examined = sample_classes(published, job.schema.keys, job.person_key, job.rows)
    if records.persons is not None:  # in the order of the file, to count the persons of its classes
        digests = arrow().table({"person": records.persons[order]})
        write_batches(digests, np.zeros_like(order), persons_path(job, name))
    try:
        ordinal = {column.name for column in job.schema.quasi if column.kind == "ordinal"}
        shuffled = tables.without_category_order(tables.take(published, order), ordinal)
        # Dates keep their time of day: whether all files have whole days only is not known here.
        tables.check_writable(shuffled, job.suffix)
        tables.write(shuffled, temporary, days=False)
        read_written(shuffled, temporary)
        os.replace(temporary, job.target / name)
    finally:
        temporary.unlink(missing_ok=True)
    return PublishedFile(
        name,
        table.rows,
        sum(encoding.count_missing(table, job.schema).values()),
        Counter(np.bincount(labels).tolist()),
        sum_points(embedded.quasi, weights, labels),
        None
        if embedded.confidential is None
        else sum_points(embedded.confidential, weights, labels),
        measure_losses(
            table, published, job.schema, job.embedding.encoding, embedded.quasi, weights
        ),
        aggregate.count_dominated(labels, weights, job.schema, persons),
        table.native.take(examined),
        published.native.take(examined),
        None if records.persons is None else records.persons[examined],
    )


def _row_order(job: Job, macrocell: Macrocell, table: Table) -> Integers:
    """Return a row order that can only be computed with the order key."""
    parameters = {
        "k": job.k,
        "method": [job.method, dict(job.options), len(job.routings)],
        "seed": job.seed,
        "missing": job.missing,
        "dependence": job.dependence,
        "schema": repr(job.schema),
        "macrocell": macrocell.number,
    }
    key = json.dumps(parameters, sort_keys=True, default=str)
    context = tables.digest(table, key=key.encode())
    return draw_order(table.rows, job.order_key, context.encode())


def _released(job: Job, native: Any) -> Table:
    table = tables.read(native)
    return prepare.take_rows(table, prepare.released_rows(table, job.schema, job.missing))


def _read_part(job: Job, part: Part) -> _Records:
    table = _released(job, read_part(part.path, part.groups, job.columns, part.name))
    return _as_records(job, table, digest_persons(table, job.schema, job.person_key))


def _read_records(job: Job, native: Any) -> _Records:
    """Read records of an intermediate file, which has digests in place of the persons."""
    if not job.schema.person:
        return _as_records(job, tables.read(native), None)
    persons = native.column(job.person).to_numpy()
    return _as_records(job, tables.read(native.drop_columns([job.person])), persons)


def _with_persons(job: Job, native: Any, records: _Records) -> Any:
    if records.persons is None:
        return native
    return native.append_column(job.person, arrow().array(records.persons))


def persons_path(job: Job, name: str) -> Path:
    return job.work / f"persons-{name}.arrow"


def _as_records(job: Job, table: Table, persons: Integers | None) -> _Records:
    keys, labels = stratum_keys(table, job.schema.strata)
    assert job.strata is not None
    strata = np.array([job.strata[key] for key in keys], dtype=np.int64)[labels]
    weights = sampling_weights(table, job.schema)
    return _Records(table, job.embedding.place(table), strata, weights, persons)


def _make_rng(job: Job, stream: int, number: int) -> np.random.Generator:
    return np.random.default_rng([job.seed, stream, number])
