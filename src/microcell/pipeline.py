"""The stages in a row: from a table to a proved release, to its files, to its audit."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import __version__, aggregation, auditing, encoding, partitioning, progress, roles, tables
from microcell.errors import DataError, GuaranteeError, OptionError, TableError, TooFewRecordsError
from microcell.model import Audit, Encoded, Integers, Manifest, Partition, Release, Schema, Table
from microcell.staging import Staging, check_target

__all__ = ["anonymize", "audit", "check_outputs", "manifest_path", "publish", "read", "write"]

read, write = tables.read, tables.write

MISSING = ("error", "drop", "impute")


def anonymize(
    source: Any,
    schema: Schema,
    *,
    k: int,
    method: str = "auto",
    seed: int = 0,
    missing: str = "error",
    **options: Any,
) -> Release:
    """A k-anonymous release of a table: cells of k or more records that share the very same quasi-identifiers.

    Parameters
    ----------
    source
        A pandas, polars or pyarrow table, a dict of arrays, the path of a file, or what :func:`read` gave.
    schema
        The role of each column.
    k
        The least number of records in a cell, 2 or more.
    method
        "auto" or a registered method (``microcell methods``); ``options`` are the method's own.
    seed
        For methods that use chance, and for the order of rows in a file.
    missing
        "error" refuses records without a quasi-identifier, "drop" leaves them out and reports how many, "impute"
        places them at the mean and publishes their cell's representative.

    Returns
    -------
    Release
        The table in the frame type that came in, its partition and manifest. k was counted again on that table.

    Examples
    --------
    >>> from microcell import Schema
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> release = anonymize(people, Schema(quasi=["age"], confidential=["income"]), k=3)
    >>> release.table["age"]
    array([33, 33, 33, 62, 62, 62])
    """
    started = perf_counter()
    _check_request(k, method, missing, seed, options)
    progress.report("reading")
    original = tables.read(source)
    schema = roles.resolve(schema, original)
    table = _take(original, _released_rows(original, schema, missing))
    _check_enough(table, k)
    progress.report("encoding")
    encoded = encoding.encode(table, schema)
    partition = _partition(table, encoded, schema, _Request(k, method, seed, options))
    progress.report("aggregating")
    representatives = aggregation.represent(table, schema, partition.labels, encoded.weights)
    published = tables.publish(table, partition.labels, representatives, (*schema.identifiers, *schema.drop))
    progress.report("checking")
    _prove(published, schema, k, table.rows)
    manifest = Manifest(
        microcell=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        k=int(k),
        method={"asked": method, "used": partition.method, "why": partition.why, "options": dict(options)},
        seed=int(seed),
        missing=missing,
        columns=_describe_columns(schema, original),
        input=_describe_input(original),
        records={"in": original.rows, "out": table.rows, "dropped": original.rows - table.rows},
        cells=_describe_cells(partition, encoded),
        distortion=auditing.average(auditing.distort_columns(table, published, schema, pairs=np.arange(table.rows))),
        seconds=round(perf_counter() - started, 3),
    )
    order = _secret_order(table, int(seed))
    return Release(published.native, partition, manifest, schema, published, order, original.origin.path)


def publish(
    release: Release, output: str | Path, *, keep_order: bool = False, beside: Mapping[Path, str] | None = None
) -> Release:
    """Write the release and its manifest; the release as written, with the order of rows in its manifest.

    Rows are shuffled, so that their places tell nothing, unless ``keep_order``. The file is read back and k counted
    once more before it takes its name. ``beside`` are further texts to write in the same step (a report). Either
    all files appear, whole, or none.
    """
    target, texts = Path(output), dict(beside or {})
    check_outputs(target, beside=texts, sources=[] if release.source is None else [release.source])
    written = replace(release, manifest=replace(release.manifest, row_order="kept" if keep_order else "shuffled"))
    texts[manifest_path(target)] = json.dumps(written.manifest.as_dict(), indent=2, ensure_ascii=False) + "\n"
    table = release.published if keep_order else tables.take(release.published, release.row_order)
    progress.report("writing")
    with Staging() as staging:
        for path, text in texts.items():
            staging.path(path).write_text(text, encoding="utf-8")
        temporary = staging.path(target)
        tables.write(table, temporary)
        progress.report("checking the file")
        _prove(tables.read_back(table, temporary), release.schema, release.partition.k, table.rows)
    return written


def audit(original: Any, released: Any, schema: Schema, *, manifest: Mapping[str, Any] | None = None) -> Audit:
    """What an outsider finds who compares the original table with the released one under the schema.

    ``manifest`` is needed only for what compares records one by one (the distortion) if rows were shuffled.

    Examples
    --------
    >>> from microcell import Schema
    >>> before = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> after = {"age": [33, 33, 33, 62, 62, 62], "income": [10, 20, 30, 40, 50, 60]}
    >>> found = audit(before, after, Schema(quasi=["age"], confidential=["income"]))
    >>> found["k"], round(found["distortion"], 4)
    (3, 0.0125)
    """
    before, after = tables.read(original), tables.read(released)
    resolved = roles.resolve(schema, before)
    return auditing.audit(before, after, resolved, pairs=_pairs(before, after, resolved, manifest))


def manifest_path(output: str | Path) -> Path:
    """Where the manifest of a release goes: beside it."""
    return Path(output).with_name(f"{Path(output).stem}.manifest.json")


def check_outputs(output: Path, *, beside: Iterable[Path] = (), sources: Iterable[Path] = ()) -> None:
    """Refuse, before any work, what :func:`publish` could not write, or what would overwrite a source or another."""
    check_target(output, sources=sources)
    tables.check_suffix(output.suffix)
    outputs = [output, manifest_path(output), *beside]
    places = [path.resolve() for path in outputs]
    for path, place in zip(outputs, places, strict=True):
        check_target(path, sources=sources)
        if places.count(place) > 1:
            raise TableError(f"{path} would be written twice: table, manifest and report must be different files.")


# ---------------------------------------------------------------------------------------------- steps of anonymize


@dataclass(frozen=True)
class _Request:
    """How cells are to be made."""

    k: int
    method: str
    seed: int
    options: Mapping[str, Any]


def _check_request(k: int, method: str, missing: str, seed: int, options: Mapping[str, Any]) -> None:
    partitioning.check_k(k)
    partitioning.check_method(method, options)
    if missing not in MISSING:
        raise OptionError(f"missing must be one of {', '.join(MISSING)}, not {missing!r}.")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise OptionError(f"seed must be a whole number of 0 or more, not {seed!r}.")


def _released_rows(table: Table, schema: Schema, missing: str) -> Integers:
    """The rows to release: all, or those with every quasi-identifier."""
    if missing == "drop":
        return np.flatnonzero(~encoding.missing_rows(table, schema))
    if missing == "error":
        encoding.check_missing(table, schema)
    return np.arange(table.rows)


def _take(table: Table, rows: Integers) -> Table:
    return table if len(rows) == table.rows else tables.take(table, rows)


def _check_enough(table: Table, k: int) -> None:
    if table.rows < k:
        raise TooFewRecordsError(
            f"{table.rows} records cannot make a cell of k = {k}. Lower k or add records; nothing was released."
        )


def _partition(table: Table, encoded: Encoded, schema: Schema, request: _Request) -> Partition:
    """Cells within each stratum, numbered through."""
    strata = auditing.class_labels(table, schema.strata)
    sizes = np.bincount(strata)
    small = sizes[sizes < request.k]
    if len(small):
        raise TooFewRecordsError(
            f"{len(small)} of {len(sizes)} strata (by {', '.join(map(repr, schema.strata))}) have fewer than "
            f"k = {request.k} records; the smallest has {small.min()}. Merge strata, lower k, or make the column a "
            "quasi-identifier, so that cells may span its values."
        )
    labels, done = np.empty(table.rows, dtype=np.int64), 0
    for rows in np.split(np.argsort(strata, kind="stable"), np.cumsum(sizes)[:-1]):
        part = partitioning.partition(
            encoded.matrix[rows],
            request.k,
            method=request.method,
            weights=None if encoded.weights is None else encoded.weights[rows],
            seed=request.seed,
            **request.options,
        )
        labels[rows] = part.labels + done
        done += len(part)
    return Partition(labels, int(request.k), method=part.method, why=part.why)


def _prove(published: Table, schema: Schema, k: int, rows: int) -> None:
    """Count k and the records on the table that is about to be published, as an outsider would."""
    left = [name for name in (*schema.identifiers, *schema.drop) if name in published.columns]
    if left:
        raise GuaranteeError(f"Columns {left} should be gone but are in the release. Nothing was released.")
    if published.rows != rows:
        raise GuaranteeError(f"The release has {published.rows} records instead of {rows}. Nothing was released.")
    smallest = int(auditing.class_sizes(published, schema.keys).min(initial=rows))
    if smallest < k:
        raise GuaranteeError(
            f"The finished table has a class of {smallest} records, fewer than k = {k}. Nothing was released; please "
            "report this as a defect."
        )


def _secret_order(table: Table, seed: int) -> Integers:
    """An order of the rows that only someone with the original table can work out, even if the seed is known."""
    key = tables.digest(table, key=f"row order {seed}".encode())
    return np.random.default_rng(int(key, 16)).permutation(table.rows)


def _pairs(before: Table, after: Table, schema: Schema, manifest: Mapping[str, Any] | None) -> Integers | None:
    """The row of the original that each released row comes from, if the manifest tells."""
    if manifest is None or manifest.get("row_order") != "shuffled":
        return None
    try:
        rows = _released_rows(before, schema, str(manifest["missing"]))
        order = _secret_order(_take(before, rows), int(manifest["seed"]))
    except (KeyError, TypeError, ValueError, DataError):  # a manifest of another table, or a damaged one
        return None
    return rows[order] if len(order) == after.rows else None


# ---------------------------------------------------------------------------------------------- the manifest's parts


def _describe_columns(schema: Schema, table: Table) -> dict[str, dict[str, Any]]:
    described: dict[str, dict[str, Any]] = {
        name: {"role": "identifier" if role == "identifiers" else role} for name, role in schema.roles()
    }
    for column in schema.quasi:
        for part in column.parts:
            described[part] |= {"kind": column.kind, "publish": column.publish, "weight": column.weight}
    return {name: described[name] for name in table.names}


def _describe_input(table: Table) -> dict[str, Any]:
    size = {"rows": table.rows, "columns": len(table.names)}
    if table.origin.path is not None:
        return {**size, "sha256": tables.file_digest(table.origin.path), "sha256_of": "file"}
    return {**size, "sha256": tables.digest(table), "sha256_of": "contents"}


def _describe_cells(partition: Partition, encoded: Encoded) -> dict[str, Any]:
    sizes, counts = np.unique(partition.sizes, return_counts=True)
    of_points = partitioning.distortion(encoded.matrix, partition.labels, weights=encoded.weights)
    return {
        "count": len(partition),
        "smallest": int(sizes[0]),
        "largest": int(sizes[-1]),
        "distortion": of_points,
        "sizes": {str(size): int(count) for size, count in zip(sizes, counts, strict=True)},
    }
