"""The stages of a release on an engine: each is a round of tasks, and what the next one needs to know of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from microcell import methods, progress, tables
from microcell.dask.arrow import Spill, arrow, unify
from microcell.dask.cluster import Engine
from microcell.dask.first_pass import (
    Dependence,
    Design,
    Key,
    Survey,
    check_confidential,
    encode_survey,
    find_factor,
    stratum_keys,
    unite,
)
from microcell.dask.folders import Folders, check_output, temporary_output
from microcell.dask.macrocells import (
    Job,
    Macrocell,
    Routing,
    Run,
    make_macrocells,
    make_routing,
    save_job,
)
from microcell.dask.sources import PLAIN, Described, Part, convert, describe, make_parts
from microcell.dask.tasks import (
    Checked,
    Counted,
    Published,
    check,
    count,
    divide,
    gather_classes,
    mend,
    scatter,
    survey,
    weigh,
)
from microcell.errors import GuaranteeError, OptionError, SchemaError, TooFewRecordsError
from microcell.kinds import kind_of
from microcell.model import Schema
from microcell.release import prepare
from microcell.schema import resolve

__all__ = [
    "CLASSES_A_BUCKET",
    "ENGINES",
    "MACROCELL",
    "SEAMS",
    "Opened",
    "Proof",
    "Request",
    "check_engine",
    "check_workers",
    "count_classes",
    "make_cells",
    "make_request",
    "open_dataset",
    "survey_dataset",
]

MACROCELL, LEAST_MACROCELL = 200_000, 100
SEAMS = 2

ENGINES = ("dask",)

_REFUSED = {
    "cells": "cells as a function",
    "blocks": "blocks of columns",
    "require": "requirements",
}


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    schema: Schema
    k: int
    output: Path
    method: str = "auto"
    options: Mapping[str, Any] | None = None
    seed: int = 0
    missing: str = "error"
    dependence: float = 0.0
    reading: Mapping[str, Any] | None = None
    macrocell: int = MACROCELL
    seams: int = SEAMS
    scratch: Path | None = None
    replace: bool = False


def make_request(
    schema: Any,
    output: str | Path | None,
    scratch: str | Path | None,
    options: Mapping[str, Any],
    **given: Any,
) -> Request:
    """The request, refused if it asks for what is unknown, out of range or not there on an engine.

    Without an output, the release goes to a folder that lasts as long as the program.
    """
    for name in _REFUSED.keys() & options.keys():
        raise OptionError(
            f"{name}: {_REFUSED[name]} cannot be had for a data set on an engine yet. Leave it out."
        )
    own = {"effort": "fast", **options} if given["method"] == "auto" else dict(options)
    methods.check_k(given["k"])
    methods.check_method(given["method"], own)
    prepare.check_handling(given["missing"], given["seed"])
    methods.check_dependence(given.get("dependence", 0.0))
    if not isinstance(own.get("effort", "fast"), str) or "seconds" in own:
        raise OptionError(
            "A limit of seconds makes results differ from run to run. Give an effort in a word."
        )
    for name, least in (("macrocell", LEAST_MACROCELL), ("seams", 0)):
        if not _is_whole(given[name]) or given[name] < least:
            raise OptionError(
                f"{name} must be a whole number of {least:,} or more, not {given[name]!r}."
            )
    folder = None if scratch is None else Path(scratch)
    if folder is not None and not folder.is_dir():
        raise OptionError(f"The scratch folder {folder} does not exist. Make it first.")
    known = prepare.as_schema(schema)
    if output is not None:
        check_output(Path(output), given["replace"])
    given["macrocell"] = max(int(given["macrocell"]), 4 * int(given["k"]))
    target = temporary_output(folder) if output is None else Path(output)
    return Request(known, output=target, options=own, scratch=folder, **given)


def check_engine(engine: Any) -> None:
    """Refuse the name of an engine that is not known; None is the one that there is."""
    if engine is not None and engine not in ENGINES:
        raise OptionError(f"engine must be {' or '.join(map(repr, ENGINES))}, not {engine!r}.")


def check_workers(scheduler: Any, workers: Any, memory: Any) -> None:
    """Refuse an address or a number of workers that is none, and workers for a scheduler, which has its own."""
    if scheduler is not None and not isinstance(scheduler, str):
        raise OptionError(f"scheduler must be the address of one, not {type(scheduler).__name__}.")
    if workers is not None and (not _is_whole(workers) or workers < 1):
        raise OptionError(f"workers must be 1 or more, not {workers!r}.")
    for name, value in (("workers", workers), ("memory", memory)):
        if scheduler is not None and value is not None:
            raise OptionError(
                f"{name} is for workers that are started on this machine; those of a scheduler have their own. Give "
                "one of the two."
            )


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


_SAMPLE_A_MACROCELL, _LEAST_SAMPLE = 500, 20_000
"""Records of the sample: enough to place the borders of macrocells."""

_LARGE_TEXT = 500_000_000
"""Bytes of a file of plain text that are worth a word."""

CLASSES_A_BUCKET = 500_000
"""So many classes are counted by one task."""

_SEAMS = 10
"""Chance for the directions of further rounds."""


@dataclass(frozen=True, eq=False)
class Opened:
    """A data set as it lies there: the parts to read, and the job that is to be done on them."""

    parts: tuple[Part, ...]
    columns: Any
    job: Job


@dataclass(frozen=True)
class Proof:
    """What was counted in the files of the release: how many classes of each size there are; and their digests."""

    sizes: Counter[int]
    columns: int
    digests: tuple[str, ...]


def open_dataset(
    engine: Engine, files: Sequence[Path], request: Request, folders: Folders
) -> Opened:
    """The parts of the files and the types that they have in common; plain text is made Parquet first."""
    suffix, paths = files[0].suffix.lower(), list(files)
    if suffix in PLAIN:
        paths = [folders.work / f"text-{number:06d}.parquet" for number in range(len(files))]
        _tell_large(files)
        engine.run(
            "reading",
            partial(_convert, request.reading or {}),
            list(zip(files, paths, strict=True)),
        )
    found: list[Described] = engine.run("looking at files", describe, paths)
    names = [file.name for file in files]
    columns = unify(
        [(name, item.schema) for name, item in zip(names, found, strict=True)],
        texts=suffix in PLAIN,
    )
    _check_orders(request.schema, {name for item in found for name in item.ordered})
    schema = resolve.resolve(request.schema, tables.read(columns.empty_table()))
    if request.dependence > 0:
        check_confidential(schema)
    wanted = {*schema.keys, *schema.unchanged}
    job = Job(
        schema,
        columns=arrow().schema([columns.field(name) for name in columns.names if name in wanted]),
        k=request.k,
        seed=request.seed,
        missing=request.missing,
        dependence=request.dependence,
        method=request.method,
        options=request.options or {},
        work=folders.work,
        target=folders.target,
        suffix=suffix,
        label=_free_name(columns.names),
    )
    return Opened(make_parts(found, names, request.macrocell), columns, job)


def _tell_large(files: Sequence[Path]) -> None:
    """Tell of files of plain text that may be too much for a worker: lines in quotes may break, so none is cut."""
    for path in files:
        size = path.stat().st_size
        if size > _LARGE_TEXT:
            progress.report(
                f"{path.name} is one task of {size / 1e9:.1f} GB, which takes several times as much memory: if workers "
                "fail, split it"
            )


def _convert(reading: Mapping[str, Any], paths: tuple[Path, Path]) -> None:
    convert(*paths, reading)


def _check_orders(schema: Schema, ordered: set[str]) -> None:
    for column in schema.quasi:
        if (
            column.name in ordered
            and (column.kind is None or kind_of(column).takes_order)
            and column.order is None
        ):
            raise SchemaError(
                f"Column {column.name!r} has ordered categories, whose order is not read from a data set. Give the "
                "order in the schema, or another kind."
            )


def _free_name(names: Sequence[str]) -> str:
    name = "cell"
    while name in names:
        name += "_"
    return name


# ---------------------------------------------------------------------------------------------- what there is


def survey_dataset(engine: Engine, opened: Opened, request: Request) -> tuple[Job, Survey]:
    """The job with its encoding, its strata and the way to macrocells; and what was found out of the records."""
    job, total = opened.job, sum(part.rows for part in opened.parts)
    _check_enough(total, job.k)
    wanted = max(_LEAST_SAMPLE, _SAMPLE_A_MACROCELL * total // request.macrocell)
    step = partial(survey, save_job(job, "survey"), min(1.0, wanted / total))
    found = unite(engine.run("finding out about columns", step, opened.parts))
    _check_enough(found.rows, job.k)
    _check_strata(found, job)
    keys = sorted(
        found.strata, key=lambda key: tuple((name is not None, name or "") for name in key)
    )
    job = replace(job, strata={key: number for number, key in enumerate(keys)})
    job = replace(job, design=_make_design(engine, job, found, opened.parts))
    return replace(job, routings=_make_routings(job, found, keys, request)), found


def _make_design(engine: Engine, job: Job, found: Survey, parts: Sequence[Part]) -> Design:
    """The points of all records; what confidential columns weigh among them takes a pass of its own."""
    design = Design(encode_survey(found, job.schema))
    if job.dependence == 0:
        return design
    fitted = encode_survey(found, job.schema, confidential=True)
    check_confidential(job.schema, fitted)
    design = replace(design, dependence=Dependence(fitted))
    sums = engine.run(
        "weighing dependence", partial(weigh, save_job(replace(job, design=design), "weigh")), parts
    )
    factor = find_factor(job.dependence, *zip(*sums, strict=True))
    return replace(design, dependence=Dependence(fitted, factor))


def _make_routings(
    job: Job, found: Survey, keys: Sequence[Key], request: Request
) -> tuple[Routing, ...]:
    """The ways to the macrocells of each round: across principal axes first, then across random directions."""
    assert job.strata is not None
    sample = tables.read(found.sample)
    own, labels = stratum_keys(sample, job.schema.strata)
    strata = np.array([job.strata[key] for key in own], dtype=np.int64)[labels]
    points, sizes = job.design.place(sample).design, [found.strata[key] for key in keys]
    first = make_routing(points, strata, sizes, request.macrocell)
    seams = request.seams if first.first[-1] > len(sizes) and points.shape[1] > 1 else 0
    chances = [np.random.default_rng([job.seed, _SEAMS, number]) for number in range(seams)]
    return first, *(
        make_routing(points, strata, sizes, request.macrocell, chance) for chance in chances
    )


def _check_enough(rows: int, k: int) -> None:
    if rows < k:
        raise TooFewRecordsError(
            f"{rows} records cannot make a cell of k = {k}. Lower k or add records; nothing was released."
        )


def _check_strata(found: Survey, job: Job) -> None:
    small = [size for size in found.strata.values() if size < job.k]
    if small:
        raise TooFewRecordsError(
            f"{len(small)} of {len(found.strata)} strata (by {', '.join(map(repr, job.schema.strata))}) have fewer "
            f"than k = {job.k} records; the smallest has {min(small)}. Merge strata, lower k, or make the column a "
            "quasi-identifier, so that cells may span its values."
        )


# ---------------------------------------------------------------------------------------------- cells


def make_cells(engine: Engine, job: Job, opened: Opened, request: Request) -> list[Published]:
    """The files of the release: records sent to macrocells and divided there, and refined across seams."""
    path = save_job(job, "cells")
    spills = engine.run("sending records to macrocells", partial(scatter, path), opened.parts)
    for number, routing in enumerate(job.routings):
        macrocells = _gather(spills, routing, number, job.k, request.macrocell)
        stage = (
            f"mending seams, round {number} of {len(job.routings) - 1}"
            if number
            else "dividing macrocells"
        )
        made = engine.run(stage, partial(mend if number else divide, path), macrocells)
        for spill in spills:
            spill.path.unlink(missing_ok=True)
        spills = made
    return spills


def _gather(
    spills: Sequence[Spill], routing: Routing, number: int, k: int, rows: int
) -> list[Macrocell]:
    """The macrocells of a round, each with the runs that its records come in."""
    counts = [0] * routing.first[-1]
    runs: dict[int, list[Run]] = {}
    for spill in spills:
        for batch, (leaf, size) in enumerate(zip(spill.places, spill.rows, strict=True)):
            counts[leaf] += size
            runs.setdefault(leaf, []).append(Run(spill.path, batch))
    groups = make_macrocells(counts, routing.first, 2 * k, rows)
    order = {spill.path: at for at, spill in enumerate(spills)}
    return [
        Macrocell(
            at,
            number,
            tuple(
                sorted(
                    (run for leaf in group for run in runs[leaf]), key=lambda run: order[run.path]
                )
            ),
        )
        for at, group in enumerate(groups)
    ]


# ---------------------------------------------------------------------------------------------- proof


def count_classes(engine: Engine, job: Job, published: Sequence[Published], rows: int) -> Proof:
    """The k of the files, read back and counted over all of them; refused if it is less than what was asked for."""
    cells = sum(sum(item.sizes.values()) for item in published)
    buckets = 1 + cells // CLASSES_A_BUCKET
    step = partial(check, save_job(replace(job, design=Design(), routings=()), "check"), buckets)
    files: list[Checked] = engine.run(
        "reading the release back", step, [item.name for item in published]
    )
    counted: list[Counted] = engine.run("counting k", count, gather_classes(files))
    sizes: Counter[int] = sum((item.sizes for item in counted), Counter())
    found = sum(size * classes for size, classes in sizes.items())
    if found != rows or sum(file.rows for file in files) != rows:
        raise GuaranteeError(
            f"The release has {found} records instead of {rows}. Nothing was released."
        )
    smallest = min(sizes)
    if smallest < job.k:
        raise GuaranteeError(
            f"The finished data set has a class of {smallest} records, fewer than k = {job.k}. Nothing was released; "
            "please report this as a defect."
        )
    return Proof(sizes, files[0].columns, tuple(file.sha256 for file in files))
