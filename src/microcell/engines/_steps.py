"""The tasks: each reads files, does its part of the work, and writes a file that appears whole or not at all.

A task is a function of its files and of the job alone, so that it may be done twice, or by another worker.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from microcell import aggregation, encoding, groundwork, partitioning, tables
from microcell.encoding._points import sampling_weights
from microcell.engines._arrow import Spill, arrow, concatenate, read_part, read_run, write_runs
from microcell.engines._designs import Placed, Sums, add_up
from microcell.engines._jobs import Job, Macrocell, load_job
from microcell.engines._losses import Lost, lose
from microcell.engines._sources import Part
from microcell.engines._surveying import Survey, stratum_keys, survey_table
from microcell.errors import MicrocellError
from microcell.kernels.cells import centroids
from microcell.model import Floats, Integers, Table
from microcell.partitioning.refinement import refine_labels

__all__ = ["Published", "divide", "mend", "scatter", "survey", "weigh"]

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
        return survey_table(table, job.schema, native.num_rows, chance, share, confidential=confidential)
    except MicrocellError as error:
        where = f"In {part.name!r}" + (f", counted after its row {part.first}" if part.first else "")
        raise type(error)(f"{where}: {error}") from None


def weigh(job_path: Path, part: Part) -> tuple[Sums, Sums]:
    """The sums of the points of a part: of the quasi-identifiers, and of what is confidential."""
    job = load_job(job_path)
    records = _read(job, _released(job, read_part(part.path, part.groups, job.columns, part.name)))
    assert records.placed.confidential is not None
    return add_up(records.placed.quasi, records.weights), add_up(records.placed.confidential, records.weights)


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
    records = _read(job, tables.read(concatenate([read_run(run.path, run.number) for run in macrocell.runs])))
    _, strata = np.unique(records.strata, return_inverse=True)
    made = partitioning.partition_within(
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
    records = _read(job, tables.read(concatenate([part.drop_columns([job.label]) for part in parts])))
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
        found = refine_labels(records.points[rows], own, job.k, weights=weights, seed=job.seed, rounds=_ROUNDS)
        out[rows] = len(labels) * (stratum + 1) + found
    return np.unique(out, return_inverse=True)[1].astype(np.int64)


def _pass_on(job: Job, macrocell: Macrocell, records: _Records, labels: Integers) -> Spill | Published:
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
    representatives = aggregation.represent(table, job.schema, labels, weights)
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
    return np.random.default_rng(int(tables.digest(table, key=key.encode()), 16)).permutation(table.rows)


def _released(job: Job, native: Any) -> Table:
    table = tables.read(native)
    return groundwork.take_rows(table, groundwork.released_rows(table, job.schema, job.missing))


def _read(job: Job, table: Table) -> _Records:
    keys, labels = stratum_keys(table, job.schema.strata)
    assert job.strata is not None
    strata = np.array([job.strata[key] for key in keys], dtype=np.int64)[labels]
    return _Records(table, job.design.place(table), strata, sampling_weights(table, job.schema))


def _chance(job: Job, purpose: int, number: int) -> np.random.Generator:
    return np.random.default_rng([job.seed, purpose, number])
