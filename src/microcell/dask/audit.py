"""The audit of a data set on the engine: what an outsider counts in its files, whoever made them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from microcell import auditing, tables
from microcell.dask.arrow import arrow, plain_schema, read_part, row_groups, unify
from microcell.dask.cluster import DaskEngine, Engine, check_installed
from microcell.dask.folders import Folders, temporary_output
from microcell.dask.sources import PLAIN, describe, find_files, read_text
from microcell.dask.stages import CLASSES_A_BUCKET, check_workers
from microcell.dask.tasks import Checked, Counted, count, count_file, gather_classes
from microcell.errors import OptionError
from microcell.measures.evaluate import as_measure, evaluate_sizes
from microcell.measures.registry import measures as declared_measures
from microcell.model import Audit, Schema
from microcell.model.manifest import Manifest, TableSection
from microcell.release import find_manifest, prepare
from microcell.schema import resolve

__all__ = ["audit_counts", "audit_dataset", "audit_files", "describe_files"]

_NOT_COMPARED = (
    "Records were counted, not compared one by one: values published unchanged were not looked at, and the distortion "
    "is what the manifest says of the release when it was made."
)


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
    """What an outsider counts in a released data set, over all of its files: k, classes, risks, records, columns.

    Parameters
    ----------
    original, released
        Folders, patterns or lists of files, as :func:`anonymize_dataset` takes them.
    manifest
        A record, a mapping or a path; the one in the released folder if left out. What it says is checked: the number
        of records, k, and the digests of all files.
    scheduler, workers, memory, scratch
        As :func:`anonymize_dataset` takes them.

    Notes
    -----
    Records are not compared one by one, so that the distortion is not measured anew: ``distortion`` is that of the
    manifest, if the files are still those that it was written for. Reads both data sets once; no machine holds more
    than a file, and a number for each class.
    """
    check_installed()
    check_workers(scheduler, workers, memory)
    known, before, after = prepare.as_schema(schema), find_files(original), find_files(released)
    account = find_manifest(manifest, released)
    folder = None if scratch is None else Path(scratch)
    if folder is not None and not folder.is_dir():
        raise OptionError(f"The scratch folder {folder} does not exist. Make it first.")
    with (
        Folders(temporary_output(folder), folder) as folders,
        DaskEngine(scheduler, workers, memory, folders.work) as engine,
    ):
        return audit_files(engine, before, after, known, account, folders.work)


def audit_files(
    engine: Engine,
    original: Sequence[Path],
    released: Sequence[Path],
    schema: Schema,
    manifest: Manifest | None,
    work: Path,
) -> Audit:
    """The audit of files, its tasks on that engine."""
    told = [_head(engine, files) for files in (original, released)]
    (columns, rows), (published, found) = told
    resolved = resolve.resolve(schema, tables.read(columns.empty_table()))
    buckets = 1 + found // CLASSES_A_BUCKET
    items = [(path, work / f"classes-{number:06d}.arrow") for number, path in enumerate(released)]
    # An audit without records refuses a schema that does not fit, before files are read, and knows the columns.
    blank = auditing.audit(
        tables.read(columns.empty_table()),
        tables.read(published.empty_table()),
        resolved,
        brief=True,
    )
    wanted = arrow().schema([published.field(name) for name in dict.fromkeys(resolved.keys)])
    files: list[Checked] = engine.run(
        "reading the release", partial(_read, wanted, resolved.keys, buckets), items
    )
    counted: list[Counted] = engine.run("counting k", count, gather_classes(files))
    sizes: Counter[int] = sum((item.sizes for item in counted), Counter())
    digests = [file.sha256 for file in files]
    contradictions: tuple[str, ...] | None = None
    distortion = None
    if manifest is not None:
        before = engine.run("taking digests", tables.file_digest, original)
        contradictions = tuple(_contradict(manifest, rows, before, digests, sizes, resolved))
        distortion = None if contradictions else manifest.information_loss
    return audit_counts(blank, rows, sizes, distortion, contradictions, (_NOT_COMPARED,))


def audit_counts(
    blank: Audit,
    rows: int,
    sizes: Mapping[int, int],
    distortion: float | None,
    contradictions: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> Audit:
    """The audit of as many records, given the number of classes of each size, and an audit of the columns alone."""
    order = sorted(sizes)
    each = np.repeat(
        *(np.array(part, dtype=np.int64) for part in (order, [sizes[size] for size in order]))
    )
    released = sum(size * classes for size, classes in sizes.items())
    found = {"records_unaccounted": max(0, released - rows)}
    kept = {name: item for name, item in blank.measures.items() if name != "values_changed"}
    measures = {
        name: replace(item, value=found.get(name, item.value)) for name, item in kept.items()
    }
    definitions = declared_measures()
    if contradictions is not None:
        measures["manifest_contradictions"] = as_measure(
            definitions["manifest_contradictions"], len(contradictions)
        )
    measures |= evaluate_sizes(each, rows)
    if distortion is not None:
        measures["distortion"] = as_measure(definitions["distortion"], distortion)
    return replace(
        blank,
        rows_original=rows,
        rows_released=released,
        measures=measures,
        class_sizes=each,
        notes=(*(contradictions or ()), *blank.notes, *notes),
    )


def describe_files(rows: int, columns: int, digests: Sequence[str]) -> TableSection:
    """How many files there are, and the digest of all of theirs in order; their names stay out."""
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


def _head(engine: Engine, files: Sequence[Path]) -> tuple[Any, int]:
    """The columns of some files, and their records: as Parquet says, or as plain text is read."""
    plain = files[0].suffix.lower() in PLAIN
    found = engine.run("looking at files", _look_at_text if plain else _look_at_parquet, files)
    schemas = [(path.name, schema) for path, (schema, _) in zip(files, found, strict=True)]
    return unify(schemas, texts=plain), sum(rows for _, rows in found)


def _look_at_parquet(path: Path) -> tuple[Any, int]:
    found = describe(path)
    return found.schema, sum(found.groups)


def _look_at_text(path: Path) -> tuple[Any, int]:
    table = read_text(path, {})
    return plain_schema(table.schema), table.num_rows


def _read(columns: Any, keys: Sequence[str], buckets: int, item: tuple[Path, Path]) -> Checked:
    path, target = item
    plain = path.suffix.lower() in PLAIN
    source = path if plain else read_part(path, range(len(row_groups(path))), columns)
    return count_file(tables.read(source), path, keys, buckets, target)


def _contradict(
    manifest: Manifest,
    rows: int,
    before: Sequence[str],
    after: Sequence[str],
    sizes: Counter[int],
    schema: Schema,
) -> list[str]:
    """Return the statements of the manifest that are false for these files, as sentences."""
    released = sum(size * classes for size, classes in sizes.items())
    quasi = {name for name, column in manifest.columns.items() if column.role == "quasi"}
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
            min(sizes, default=0) < manifest.k
        ),
        "Quasi-identifiers in the manifest have another role in the schema.": (
            not quasi <= set(schema.keys)
        ),
    }
    return [sentence for sentence, is_false in statements.items() if is_false]
