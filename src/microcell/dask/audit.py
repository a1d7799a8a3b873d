"""Audit of a released data set on an engine."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes
from typing import Any

import numpy as np

from microcell import auditing, tables
from microcell._files import TEXT_SUFFIXES
from microcell.dask.arrow import (
    Spill,
    arrow,
    cast,
    concatenate,
    plain_schema,
    read_part,
    row_groups,
    unify,
)
from microcell.dask.cluster import DaskEngine, Engine, check_installed
from microcell.dask.examine import Whole, examine_sample, sample_classes
from microcell.dask.folders import Folders, temporary_output
from microcell.dask.people import collect_buckets, count_digests, spill_digests
from microcell.dask.sources import find_files, inspect_file, read_text
from microcell.dask.stages import CLASSES_PER_BUCKET, check_scratch, check_workers
from microcell.dask.tasks import CheckedFile, count_bucket, count_file
from microcell.measures.classes import fewest_people
from microcell.measures.evaluate import Result, as_measures, evaluate_sizes
from microcell.measures.people import digest_values, incomplete_persons
from microcell.measures.registry import measures as declared_measures
from microcell.model import Audit, Finding, Integers, Schema
from microcell.model.manifest import Manifest, TableSection
from microcell.release import find_manifest, prepare
from microcell.release.manifest import other_releases
from microcell.schema import resolve

__all__ = [
    "audit_counts",
    "audit_dataset",
    "audit_files",
    "combine_digests",
    "describe_files",
    "expand",
]

_WORST_CASE = (
    "Records were not matched with the original, so the persons in each class could not be "
    "counted: k and the other counts of persons are worst-case values. The exact k was counted "
    "when the release was produced; its manifest states it."
)
_NOT_COMPARED = (
    "Records were counted, not compared one by one: values that should be unchanged were not "
    "checked, and the information loss is the one stated in the manifest."
)

_PERSON_BUCKETS = 16


def audit_dataset(
    original: Any,
    released: Any,
    schema: Schema | str | Path,
    *,
    manifest: Any = None,
    scheduler: str | None = None,
    workers: int | None = None,
    memory: str | None = None,
    scratch: str | Path | None = None,
) -> Audit:
    """Audit a released data set over all its files: k, class sizes, risks, records and columns.

    Parameters
    ----------
    original, released
        Directories, patterns or lists of files, as for :func:`anonymize_dataset`.
    manifest
        A manifest, plain data or a path; by default the one in the released directory. The number
        of records, k and the digests of all files are checked against it.
    scheduler, workers, memory, scratch
        As for :func:`anonymize_dataset`.

    Notes
    -----
    Records are not compared one by one. ``information_loss`` is therefore the one stated in the
    manifest, provided that the files are unchanged. Both data sets are read once; no machine holds
    more than one file and one number per class.
    """
    check_installed()
    check_workers(scheduler, workers, memory)
    read_schema = prepare.as_schema(schema)
    original_files, released_files = find_files(original), find_files(released)
    statement = find_manifest(manifest, released)
    directory = check_scratch(scratch)
    with (
        Folders(temporary_output(directory), directory) as folders,
        DaskEngine(scheduler, workers, memory, folders.work) as engine,
    ):
        earlier: tuple[str, ...] = ()
        if statement is not None and isinstance(released, (str, Path)):
            earlier = other_releases(statement, Path(released))
        return audit_files(
            engine,
            original_files,
            released_files,
            read_schema,
            statement,
            folders.work,
            earlier=earlier,
        )


def audit_files(
    engine: Engine,
    original: Sequence[Path],
    released: Sequence[Path],
    schema: Schema,
    manifest: Manifest | None,
    work: Path,
    *,
    earlier: Sequence[str] = (),
) -> Audit:
    """Audit files on an engine; ``earlier`` names manifests of other releases of the same people.

    Findings are those that the published files alone show.
    """
    columns, rows = _inspect(engine, original)
    published, released_rows = _inspect(engine, released)
    resolved = resolve.resolve(schema, tables.read(columns.empty_table()))
    buckets = 1 + released_rows // CLASSES_PER_BUCKET
    items = [(path, work / f"classes-{number:06d}.arrow") for number, path in enumerate(released)]
    # An audit of empty tables checks the schema and the columns before any file is read.
    blank = auditing.audit(
        tables.read(columns.empty_table()),
        tables.read(published.empty_table()),
        resolved,
        brief=True,
    )
    keys = arrow().schema([published.field(name) for name in dict.fromkeys(resolved.keys)])
    files: list[CheckedFile] = engine.run(
        "reading the release", partial(_read, keys, resolved.keys, buckets), items
    )
    counted = collect_buckets([file.classes for file in files])
    counts = engine.run("counting class sizes", count_bucket, counted)
    sizes, _ = expand(sum(counts, Counter()))
    digests = [file.sha256 for file in files]
    contradictions: tuple[str, ...] | None = None
    information_loss = None
    if manifest is not None:
        before = engine.run("computing digests", tables.file_digest, original)
        contradictions = tuple(
            _find_contradictions(manifest, rows, before, digests, sizes, resolved)
        )
        information_loss = None if contradictions else manifest.information_loss
    notes = [_NOT_COMPARED]
    people = None
    if resolved.person:
        notes.insert(0, _WORST_CASE)
        rows_per_person = _count_rows_per_person(engine, original, columns, resolved, work)
        people = fewest_people(sizes, rows_per_person)
    audit = audit_counts(blank, rows, sizes, information_loss, contradictions, notes, people=people)
    if not released_rows:
        return audit
    whole = Whole(
        tuple(released),
        released_rows,
        released_rows,
        len(sizes),
        token_bytes(32),
        work,
        None if manifest is None else manifest.k,
        earlier=earlier,
        columns=published,
    )
    return replace(audit, findings=_examine(engine, whole, resolved, columns))


def _examine(engine: Engine, whole: Whole, schema: Schema, columns: Any) -> tuple[Finding, ...]:
    """Return the findings that the published files show; every record counts as a person."""
    task = partial(_sample_file, whole.columns, schema.keys, whole.key, whole.rows)
    parts = engine.run("sampling classes", task, list(whole.files))
    records = replace(schema, person=(), person_cells="rows", rows_are_people=False)
    before, after = tables.read(columns.empty_table()), tables.read(concatenate(parts))
    return examine_sample(engine, whole, records, before, after, matched=False)


def _sample_file(columns: Any, keys: Sequence[str], key: bytes, rows: int, path: Path) -> Any:
    is_text = path.suffix.lower() in TEXT_SUFFIXES
    native = (
        read_text(path, {}) if is_text else read_part(path, range(len(row_groups(path))), columns)
    )
    table = tables.read(cast(native, columns, path.name))
    return table.native.take(sample_classes(table, keys, key, rows))


def audit_counts(
    blank: Audit,
    rows: int,
    class_sizes: Integers,
    information_loss: float | None,
    contradictions: Sequence[str] | None = None,
    notes: Sequence[str] = (),
    *,
    people: Integers | None = None,
) -> Audit:
    """Complete an audit of the columns with the sizes of all classes.

    ``people`` are the numbers of persons in the classes; None if every record is a person.
    """
    released = int(class_sizes.sum())
    measures = {name: item for name, item in blank.measures.items() if name != "values_changed"}
    if "records_unaccounted" in measures:
        measures["records_unaccounted"] = replace(
            measures["records_unaccounted"], value=max(0, released - rows)
        )
    definitions = declared_measures()
    if contradictions is not None:
        definition = definitions["manifest_contradictions"]
        measures |= as_measures([Result(definition, len(contradictions))])
    measures |= evaluate_sizes(class_sizes, rows, people)
    if information_loss is not None:
        measures |= as_measures([Result(definitions["information_loss"], information_loss)])
    return replace(
        blank,
        rows_original=rows,
        rows_released=released,
        measures=measures,
        class_sizes=class_sizes if people is None else people,
        notes=(*(contradictions or ()), *blank.notes, *notes),
    )


def expand(classes: Mapping[tuple[int, int], int]) -> tuple[Integers, Integers]:
    """Return the numbers of records and people of each class, given how many classes have them."""
    keys = sorted(classes)
    numbers = np.array([classes[key] for key in keys], dtype=np.int64)
    both = np.array(keys, dtype=np.int64).reshape(-1, 2)
    return np.repeat(both[:, 0], numbers), np.repeat(both[:, 1], numbers)


def describe_files(rows: int, columns: int, digests: Sequence[str]) -> TableSection:
    """Describe files by number and combined digest, without their names."""
    return TableSection(
        rows=rows,
        columns=columns,
        sha256=combine_digests(digests),
        sha256_of="files",
        files=len(digests),
    )


def combine_digests(digests: Sequence[str]) -> str:
    """Return the digest of the digests of several files, in order."""
    return sha256("".join(digests).encode()).hexdigest()


def _inspect(engine: Engine, files: Sequence[Path]) -> tuple[Any, int]:
    """Return the common Arrow schema of files and their total number of records."""
    is_text = files[0].suffix.lower() in TEXT_SUFFIXES
    infos = engine.run("inspecting files", _inspect_text if is_text else _inspect_parquet, files)
    schemas = [(path.name, schema) for path, (schema, _) in zip(files, infos, strict=True)]
    return unify(schemas, text_files=is_text), sum(rows for _, rows in infos)


def _inspect_parquet(path: Path) -> tuple[Any, int]:
    info = inspect_file(path)
    return info.schema, sum(info.groups)


def _inspect_text(path: Path) -> tuple[Any, int]:
    table = read_text(path, {})
    return plain_schema(table.schema), table.num_rows


def _read(columns: Any, keys: Sequence[str], buckets: int, item: tuple[Path, Path]) -> CheckedFile:
    path, target = item
    is_text = path.suffix.lower() in TEXT_SUFFIXES
    source = path if is_text else read_part(path, range(len(row_groups(path))), columns)
    return count_file(tables.read(source), path, keys, buckets, target)


def _count_rows_per_person(
    engine: Engine, files: Sequence[Path], columns: Any, schema: Schema, work: Path
) -> Integers:
    """Return the number of rows of each person of the original, in any order."""
    fields = arrow().schema([columns.field(name) for name in schema.person])
    items = [(path, work / f"persons-{number:06d}.arrow") for number, path in enumerate(files)]
    task = partial(_read_persons, fields, schema, token_bytes(32))
    spills = engine.run("reading the original", task, items)
    counts = engine.run("counting persons", count_digests, collect_buckets(spills))
    totals: Counter[int] = sum(counts, Counter())
    return np.repeat(np.array([*totals], dtype=np.int64), np.array([*totals.values()]))


def _read_persons(columns: Any, schema: Schema, key: bytes, item: tuple[Path, Path]) -> Spill:
    path, target = item
    is_text = path.suffix.lower() in TEXT_SUFFIXES
    source = path if is_text else read_part(path, range(len(row_groups(path))), columns)
    table = tables.read(source)
    digests = digest_values(table, schema.person, key)
    complete = ~incomplete_persons(table, schema)  # others cannot have been released
    return spill_digests(digests[complete], _PERSON_BUCKETS, target)


def _find_contradictions(
    manifest: Manifest,
    rows: int,
    before: Sequence[str],
    after: Sequence[str],
    sizes: Integers,
    schema: Schema,
) -> list[str]:
    """Return the statements of the manifest that are false for these files, as sentences."""
    released = int(sizes.sum())
    quasi = {name for name, column in manifest.columns.items() if column.role == "quasi"}
    counted_by = () if manifest.person is None else manifest.person.columns
    output = manifest.output
    statements = {
        "The original data set is not the one the release was produced from (digests differ).": (
            manifest.input.sha256 != combine_digests(before)
        ),
        "The released files are not those that were published (digests differ).": (
            output is None or output.sha256 != combine_digests(after)
        ),
        f"The release has {released:,} records, not the number in the manifest.": (
            manifest.records.released != released
        ),
        f"The original has {rows:,} records, not the number in the manifest.": (
            manifest.records.read != rows
        ),
        "The release has a class smaller than the k in the manifest.": (
            int(sizes.min(initial=released)) < manifest.k
        ),
        "The manifest and the schema name different person columns.": (
            set(counted_by) != set(schema.person)
        ),
        "Some quasi-identifiers in the manifest have a different role in the schema.": (
            not quasi <= set(schema.keys)
        ),
    }
    return [sentence for sentence, is_false in statements.items() if is_false]
