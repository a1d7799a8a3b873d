"""Stages of a release on an engine; each runs a round of tasks and prepares the next one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_bytes
from typing import Any

import numpy as np

from microcell import methods, progress, tables
from microcell._display import count
from microcell._files import TEXT_SUFFIXES
from microcell.dask.arrow import Batch, Spill, arrow, concatenate, unify
from microcell.dask.cluster import Engine
from microcell.dask.examine import Whole, examine_sample
from microcell.dask.first_pass import (
    Dependence,
    Embedding,
    Key,
    Summary,
    combine,
    dependence_factor,
    fit_encoding,
    resolve_hierarchies,
    stratum_keys,
)
from microcell.dask.folders import Folders, check_output, temporary_output
from microcell.dask.limits import (
    Distribution,
    add_counts,
    check_possible,
    check_reached,
    limited_columns,
    make_limited_column,
)
from microcell.dask.macrocells import (
    Job,
    Macrocell,
    Routing,
    make_macrocells,
    make_routing,
    save_job,
)
from microcell.dask.people import (
    collect_buckets,
    count_digests,
    some_persons,
    spill_identifier,
)
from microcell.dask.sources import FileInfo, Part, convert, inspect_file, make_parts
from microcell.dask.tasks import (
    CheckedFile,
    PublishedFile,
    check_file,
    count_bucket,
    count_confidential,
    count_persons_with_values,
    measure_bucket,
    partition,
    persons_path,
    refine_seams,
    shuffle,
    sum_part,
    summarize,
)
from microcell.errors import GuaranteeError, OptionError, SchemaError
from microcell.kinds import kind_of
from microcell.measures import people
from microcell.model import Finding, Integers, Schema
from microcell.release import prepare
from microcell.release.masking import refuse_masks
from microcell.release.order import read_order_key
from microcell.release.requirements import check_columns, check_limits, is_enforced, least_size
from microcell.schema import resolve

__all__ = [
    "CLASSES_PER_BUCKET",
    "MACROCELL",
    "SEAMS",
    "Dataset",
    "Proof",
    "Request",
    "build_cells",
    "check_scratch",
    "check_workers",
    "count_classes",
    "examine_release",
    "make_request",
    "open_dataset",
    "summarize_dataset",
]

MACROCELL = 200_000
MIN_MACROCELL = 100
SEAMS = 2

_UNSUPPORTED = ("cells", "blocks", "regression", "suppress")
"""Options of anonymize that are not supported for data sets."""


@dataclass(frozen=True)
class Request:
    """Validated options of a release."""

    schema: Schema
    k: int
    output: Path
    method: str = "auto"
    options: Mapping[str, Any] | None = None
    seed: int = 0
    order_key: str = ""
    missing: str = "error"
    dependence: float = 0.0
    require: Mapping[str, float] = field(default_factory=dict)
    read_options: Mapping[str, Any] | None = None
    macrocell: int = MACROCELL
    seams: int = SEAMS
    scratch: Path | None = None
    replace: bool = False
    strict: bool = False


def make_request(
    schema: Any,
    output: str | Path | None,
    scratch: str | Path | None,
    options: Mapping[str, Any],
    **settings: Any,
) -> Request:
    """Validate the options of a release.

    Without an output, the release goes to a directory that is removed when the program ends.
    """
    for name in _UNSUPPORTED:
        if name in options:
            raise OptionError(
                f"{name} is not supported for data sets. Leave it out.",
                code="option.unsupported",
                option=name,
            )
    if settings["method"] == "auto":
        options = {"effort": "fast", **options}
    methods.check_k(settings["k"])
    methods.check_method(settings["method"], options)
    prepare.check_handling(settings["missing"], settings["seed"])
    methods.check_dependence(settings.get("dependence", 0.0))
    if isinstance(settings.get("dependence"), Mapping):
        raise OptionError(
            "dependence by column is not supported for data sets. Pass one number.",
            code="option.unsupported",
            option="dependence",
        )
    if not isinstance(options.get("effort", "fast"), str) or "seconds" in options:
        raise OptionError(
            "A time limit is not supported for data sets, because results would differ between "
            'runs. Use an effort such as "fast" or "balanced".',
            code="option.unsupported",
            option="effort",
        )
    settings["require"] = _check_limits(settings.get("require"))
    settings["k"] = max(settings["k"], least_size(settings["require"], _MOST_K))
    settings["order_key"] = read_order_key(settings.get("order_key"))
    _check_integer("macrocell", settings["macrocell"], MIN_MACROCELL)
    _check_integer("seams", settings["seams"], 0)
    directory = check_scratch(scratch)
    if output is not None:
        check_output(Path(output), settings["replace"])
    settings["macrocell"] = max(int(settings["macrocell"]), 4 * int(settings["k"]))
    read_schema = prepare.as_schema(schema)
    if read_schema.person_cells == "together":
        raise OptionError(
            "person_cells = 'together' is not supported for data sets: the rows of a person may "
            "lie far apart, in different macrocells. Use person_cells = 'rows'.",
            code="option.unsupported",
            option="person_cells",
        )
    prepare.check_dominance(read_schema, settings["k"])
    return Request(
        read_schema,
        output=temporary_output(directory) if output is None else Path(output),
        options=dict(options),
        scratch=directory,
        **settings,
    )


def _check_limits(require: Any) -> dict[str, float]:
    """Return the limits, all of which are about cells."""
    limits = check_limits(require)
    for name in limits:
        if not is_enforced(name):
            raise OptionError(
                f"A limit on {name} is not supported for data sets: it needs all records at once. "
                "Require measures of cells only, such as l_diversity or t_closeness.",
                code="option.unsupported",
                option="require",
                measure=name,
            )
    return limits


def check_scratch(scratch: str | Path | None) -> Path | None:
    """Return the scratch directory; raise OptionError if it does not exist."""
    if scratch is None:
        return None
    directory = Path(scratch)
    if not directory.is_dir():
        raise OptionError(
            f"The scratch directory {directory} does not exist. Create it first.",
            code="option.invalid",
            option="scratch",
        )
    return directory


def check_workers(scheduler: Any, workers: Any, memory: Any) -> None:
    """Raise OptionError if the options of the cluster are invalid or contradict each other."""
    if scheduler is not None and not isinstance(scheduler, str):
        raise OptionError(
            f"scheduler must be an address such as tcp://host:8786, not "
            f"{type(scheduler).__name__}.",
            code="option.wrong_type",
            option="scheduler",
        )
    if workers is not None:
        _check_integer("workers", workers, 1)
    for name, value in (("workers", workers), ("memory", memory)):
        if scheduler is not None and value is not None:
            raise OptionError(
                f"{name} cannot be combined with scheduler: it applies to workers started on this "
                "machine.",
                code="option.conflict",
                option=name,
            )


def _check_integer(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise OptionError(f"{name} must be an integer.", code="option.wrong_type", option=name)
    if value < least:
        raise OptionError(
            f"{name} must be at least {least:,}, not {value:,}.",
            code="option.out_of_range",
            option=name,
        )


_MOST_K = 1_000_000
"""Largest k that a limit on class sizes may imply."""

_SAMPLE_PER_MACROCELL = 500
_SAMPLE_WITH_LIMITS = 4
"""Factor on the sample if macrocells must repeat the distribution of confidential values."""

_MIN_SAMPLE = 20_000
"""Minimum number of sampled records: enough to place the borders of macrocells."""

_LARGE_TEXT = 500_000_000
"""Size in bytes from which a text file causes a warning."""

CLASSES_PER_BUCKET = 500_000
"""Number of classes counted by one task."""

_DIRECTIONS = 10
"""Stream of random numbers for the directions of further rounds."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set: the parts to read, the Arrow schema of all columns, and the job."""

    parts: tuple[Part, ...]
    columns: Any
    job: Job


@dataclass(frozen=True)
class Proof:
    """Result of reading back the release: columns, file digests, classes and persons.

    ``classes`` counts the classes by numbers of records and of people, ``rows_per_person`` the
    persons by number of rows; it is empty if every record counts as a person.
    """

    classes: Counter[tuple[int, int]]
    columns: int
    digests: tuple[str, ...]
    rows_per_person: Counter[int]


def open_dataset(
    engine: Engine, files: Sequence[Path], request: Request, folders: Folders
) -> Dataset:
    """Convert text files to Parquet, find the common types, and split the files into parts."""
    suffix, paths = files[0].suffix.lower(), list(files)
    if suffix in TEXT_SUFFIXES:
        paths = [folders.work / f"text-{number:06d}.parquet" for number in range(len(files))]
        _warn_if_large(files)
        engine.run(
            "reading",
            partial(_convert, request.read_options or {}),
            list(zip(files, paths, strict=True)),
        )
    infos: list[FileInfo] = engine.run("inspecting files", inspect_file, paths)
    names = [file.name for file in files]
    columns = unify(
        [(name, info.schema) for name, info in zip(names, infos, strict=True)],
        text_files=suffix in TEXT_SUFFIXES,
    )
    _check_orders(request.schema, {name for info in infos for name in info.ordered})
    refuse_masks(request.schema, "data sets on Dask")
    schema = resolve.resolve(request.schema, tables.read(columns.empty_table()))
    if request.dependence > 0:
        prepare.check_confidential(schema)
    check_columns(request.require, schema)
    needed = {*schema.keys, *schema.unchanged, *schema.person}
    job = Job(
        schema,
        columns=arrow().schema([columns.field(name) for name in columns.names if name in needed]),
        k=request.k,
        seed=request.seed,
        order_key=request.order_key,
        missing=request.missing,
        dependence=request.dependence,
        method=request.method,
        options=request.options or {},
        work=folders.work,
        target=folders.target,
        suffix=suffix,
        label=_unused_name("cell", columns.names),
        person=_unused_name("person", columns.names),
        person_key=token_bytes(32),
        limits=request.require,
    )
    return Dataset(make_parts(infos, names, request.macrocell), columns, job)


def _warn_if_large(files: Sequence[Path]) -> None:
    """Report large text files; they cannot be split, because quoted fields may span lines."""
    for path in files:
        size = path.stat().st_size
        if size > _LARGE_TEXT:
            progress.report(
                f"{path.name} has {size / 1e9:.1f} GB and is read by one task, which needs several "
                "times as much memory; split it if workers fail"
            )


def _convert(read_options: Mapping[str, Any], paths: tuple[Path, Path]) -> None:
    convert(*paths, read_options)


def _check_orders(schema: Schema, ordered: set[str]) -> None:
    for column in schema.quasi:
        if (
            column.name in ordered
            and (column.kind is None or kind_of(column).takes_order)
            and column.order is None
        ):
            raise SchemaError(
                f"Column {column.name!r} has ordered categories, but their order is not read from "
                "the files of a data set. Give the order in the schema, or another kind.",
                code="schema.category_order",
                column=column.name,
            )


def _unused_name(name: str, names: Sequence[str]) -> str:
    while name in names:
        name += "_"
    return name


# -------------------------------------------------------------------------------- first pass


def summarize_dataset(engine: Engine, dataset: Dataset, request: Request) -> tuple[Job, Summary]:
    """Run the first pass; return the job with embedding, strata and routings, and the summary."""
    job, total = dataset.job, sum(part.rows for part in dataset.parts)
    people.check_enough(total, job.k)
    _check_identifiers(engine, dataset, total)
    factor = _SAMPLE_WITH_LIMITS if limited_columns(job.limits, job.schema) else 1
    size = factor * max(_MIN_SAMPLE, _SAMPLE_PER_MACROCELL * total // request.macrocell)
    task = partial(summarize, save_job(job, "summarize"), min(1.0, size / total))
    summary = combine(engine.run("summarizing columns", task, dataset.parts), job.k)
    _check_people(summary, job)
    job = replace(job, schema=resolve_hierarchies(job.schema, summary))
    keys = sorted(
        summary.strata, key=lambda key: tuple((name is not None, name or "") for name in key)
    )
    job = replace(job, strata={key: number for number, key in enumerate(keys)})
    job = replace(job, distribution=_count_confidential(engine, job, dataset, summary.rows))
    job = replace(job, embedding=_make_embedding(engine, job, summary, dataset.parts))
    routings = _make_routings(job, summary, keys, request)
    return replace(job, routings=routings, rows=summary.rows), summary


def _count_confidential(
    engine: Engine, job: Job, dataset: Dataset, rows: int
) -> Distribution | None:
    """Return the distribution of the confidential columns with limits, which takes another pass.

    Limits that even whole strata miss raise RequirementError.
    """
    columns = limited_columns(job.limits, job.schema)
    if not columns:
        return None
    stage, buckets = "counting confidential values", 1 + rows // CLASSES_PER_BUCKET
    task = partial(count_confidential, save_job(job, "values"), buckets)
    counts = []
    for parts in zip(*engine.run(stage, task, dataset.parts), strict=True):
        found: Sequence[Any] = parts
        if job.schema.person:
            found = engine.run(stage, count_persons_with_values, collect_buckets(parts))
            for spill in parts:
                spill.path.unlink(missing_ok=True)
        counts.append(add_counts(found))
    everyone, *by_column = counts
    blank = tables.read(dataset.columns.empty_table())
    limited = [
        make_limited_column(column, found, len(columns), blank.columns[column.name].unit)
        for column, found in zip(columns, by_column, strict=True)
    ]
    distribution = Distribution(job.limits, tuple(limited), rows)
    check_possible(distribution, by_column, everyone, len(job.strata or ()))
    return distribution


def _make_embedding(engine: Engine, job: Job, summary: Summary, parts: Sequence[Part]) -> Embedding:
    """Return the map from records to points; the scale of dependence takes another pass."""
    embedding = Embedding(fit_encoding(summary, job.schema))
    if job.dependence == 0:
        return embedding
    encoding = fit_encoding(summary, job.schema, confidential=True)
    prepare.check_confidential(job.schema, encoding.dimensions)
    embedding = replace(embedding, dependence=Dependence(encoding))
    path = save_job(replace(job, embedding=embedding), "variances")
    sums = engine.run("measuring variances", partial(sum_part, path), parts)
    factor = dependence_factor(job.dependence, *zip(*sums, strict=True))
    return replace(embedding, dependence=Dependence(encoding, factor))


def _make_routings(
    job: Job, summary: Summary, keys: Sequence[Key], request: Request
) -> tuple[Routing, ...]:
    """Return the routing of each round: along principal axes, then along random directions."""
    assert job.strata is not None
    sample = tables.read(summary.sample)
    sample_keys, labels = stratum_keys(sample, job.schema.strata)
    strata = np.array([job.strata[key] for key in sample_keys], dtype=np.int64)[labels]
    points = job.embedding.place(sample).combined
    sizes = [summary.strata[key] for key in keys]
    spread = job.distribution
    groups = None if spread is None else spread.group(sample)
    n_groups = 1 if spread is None else spread.count
    first = make_routing(points, strata, sizes, request.macrocell, None, groups, n_groups)
    seams = request.seams if first.first[-1] > len(sizes) and points.shape[1] > 1 else 0
    generators = [np.random.default_rng([job.seed, _DIRECTIONS, number]) for number in range(seams)]
    return first, *(
        make_routing(points, strata, sizes, request.macrocell, rng) for rng in generators
    )


def _check_identifiers(engine: Engine, dataset: Dataset, rows: int) -> None:
    """Raise SchemaError if people seem to have several rows and the schema does not say so."""
    job = dataset.job
    if job.schema.person or job.schema.rows_are_people:
        return
    counts = {}
    for name in job.schema.identifiers:
        counts[name] = _count_values(engine, dataset, name)
        if counts[name][0] == rows:
            return
    people.check_repetition(counts, rows)


def _count_values(
    engine: Engine, dataset: Dataset, name: str, *, unify: bool = False
) -> tuple[int, int]:
    """Return the numbers of distinct and of all values; ``unify`` ignores case and white space."""
    job, column = dataset.job, arrow().schema([dataset.columns.field(name)])
    buckets = 1 + sum(part.rows for part in dataset.parts) // CLASSES_PER_BUCKET
    task = partial(spill_identifier, column, job.person_key, buckets, job.work, unify)
    spills = engine.run("counting identifiers", task, dataset.parts)
    parts = engine.run("counting identifiers", count_digests, collect_buckets(spills))
    repeated: Counter[int] = sum(parts, Counter())
    for spill in spills:
        spill.path.unlink(missing_ok=True)
    return sum(repeated.values()), sum(n * each for n, each in repeated.items())


def _count_spellings(engine: Engine, dataset: Dataset, name: str) -> tuple[int, int]:
    """Return the numbers of distinct values of a column as they are and with unified spelling."""
    if arrow().types.is_primitive(dataset.columns.field(name).type):
        return 0, 0  # Numbers and dates have one spelling.
    distinct, unified = (
        _count_values(engine, dataset, name, unify=unify)[0] for unify in (False, True)
    )
    return distinct, unified


def _check_people(summary: Summary, job: Job) -> None:
    """Raise TooFewRecordsError if the data set or a stratum has fewer than k people."""
    if not job.schema.person:
        people.check_enough(summary.rows, job.k)
        people.check_strata(np.array([*summary.strata.values()]), job.schema, job.k)
        return
    some = [*summary.persons.values(), np.zeros(0, dtype=np.int64)]
    everyone = some_persons(np.concatenate(some), job.k)
    people.check_enough(len(everyone), job.k, people.unit(job.schema))
    sizes = np.array([len(persons) for persons in summary.persons.values()])
    people.check_strata(sizes, job.schema, job.k)


# -------------------------------------------------------------------------------- cells


def build_cells(
    engine: Engine, job: Job, dataset: Dataset, request: Request
) -> list[PublishedFile]:
    """Shuffle records into macrocells, partition each one, refine across seams, and publish."""
    path = save_job(job, "cells")
    spills = engine.run("shuffling records into macrocells", partial(shuffle, path), dataset.parts)
    for number, routing in enumerate(job.routings):
        macrocells = _collect_macrocells(spills, routing, number, job, request.macrocell)
        if number == 0:
            outputs = engine.run("partitioning macrocells", partial(partition, path), macrocells)
        else:
            stage = f"refining seams, round {number} of {len(job.routings) - 1}"
            outputs = engine.run(stage, partial(refine_seams, path), macrocells)
        for spill in spills:
            spill.path.unlink(missing_ok=True)
        spills = outputs
    return spills


def _collect_macrocells(
    spills: Sequence[Spill], routing: Routing, number: int, job: Job, rows: int
) -> list[Macrocell]:
    """Return the macrocells of a round, each with the batches of its records."""
    counts = [0] * routing.first[-1]
    batches: dict[int, list[Batch]] = {}
    persons: dict[int, Integers] = {}
    for spill in spills:
        for position, (leaf, size) in enumerate(zip(spill.destinations, spill.rows, strict=True)):
            counts[leaf] += size
            batches.setdefault(leaf, []).append(Batch(spill.path, position))
        for leaf, some in zip(spill.destinations, spill.people, strict=False):
            earlier = persons.get(leaf, some)
            persons[leaf] = some_persons(np.concatenate([earlier, some]), job.k)
    # After the first round whole cells are moved, which have k persons each.
    groups = make_macrocells(
        counts, routing.first, 2 * job.k, rows, people=persons or None, k=job.k
    )
    order = {spill.path: position for position, spill in enumerate(spills)}
    macrocells = []
    for group_number, group in enumerate(groups):
        members = [batch for leaf in group for batch in batches[leaf]]
        members.sort(key=lambda batch: order[batch.path])
        macrocells.append(Macrocell(group_number, number, tuple(members)))
    return macrocells


# -------------------------------------------------------------------------------- proof


def count_classes(engine: Engine, job: Job, published: Sequence[PublishedFile], rows: int) -> Proof:
    """Read the release back and count its classes; raise GuaranteeError if one is below k."""
    cells = sum(sum(item.sizes.values()) for item in published)
    buckets = 1 + (rows if job.schema.person else cells) // CLASSES_PER_BUCKET
    path = save_job(replace(job, embedding=Embedding(), routings=()), "check")
    files: list[CheckedFile] = engine.run(
        "reading back the release",
        partial(check_file, path, buckets),
        [item.name for item in published],
    )
    spills = collect_buckets([file.classes for file in files])
    classes: Counter[tuple[int, int]] = sum(
        engine.run("counting class sizes", count_bucket, spills), Counter()
    )
    counted = sum(size * number for (size, _), number in classes.items())
    if counted != rows or sum(file.rows for file in files) != rows:
        raise GuaranteeError(
            f"The release has {count(counted, 'record')} instead of {rows:,}. Nothing was "
            "released. This is a bug in microcell; please report it.",
            code="guarantee.failed",
            records=counted,
        )
    smallest = min(people_of for _, people_of in classes)
    if smallest < job.k:
        raise GuaranteeError(
            f"The finished data set has a class of {count(smallest, people.unit(job.schema))}, "
            f"fewer than k = {job.k}. Nothing was released. This is a bug in microcell; please "
            "report it.",
            code="guarantee.failed",
            k=job.k,
            class_size=smallest,
        )
    if job.distribution is not None:
        task = partial(measure_bucket, path)
        check_reached(job.distribution, engine.run("checking limits", task, spills))
    return Proof(
        classes,
        files[0].columns,
        tuple(file.sha256 for file in files),
        _count_rows_per_person(engine, [file.persons for file in files if file.persons]),
    )


def _count_rows_per_person(engine: Engine, spills: Sequence[Spill]) -> Counter[int]:
    if not spills:
        return Counter()
    return sum(engine.run("counting persons", count_digests, collect_buckets(spills)), Counter())


# -------------------------------------------------------------------------------- findings


def examine_release(
    engine: Engine,
    job: Job,
    dataset: Dataset,
    published: Sequence[PublishedFile],
    proof: Proof,
    earlier: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Return the findings of a release that is not in its place yet."""
    schema = job.schema
    stated = schema.identifiers if schema.rows_are_people else ()  # Others have been checked.
    persons = [item.persons for item in published if item.persons is not None]
    whole = Whole(
        tuple(job.target / item.name for item in published),
        job.rows,
        sum(proof.rows_per_person.values()) or job.rows,
        sum(proof.classes.values()),
        job.person_key,
        job.work,
        job.k,
        tuple(persons_path(job, item.name) for item in published) if persons else (),
        earlier,
        identifiers={name: _count_values(engine, dataset, name) for name in stated},
        spellings={name: _count_spellings(engine, dataset, name) for name in schema.person},
    )
    codes = np.unique(np.concatenate(persons), return_inverse=True)[1] if persons else None
    before, after = (
        tables.read(concatenate(parts))
        for parts in (
            [item.before for item in published],
            [item.after for item in published],
        )
    )
    return examine_sample(engine, whole, schema, before, after, persons=codes)
