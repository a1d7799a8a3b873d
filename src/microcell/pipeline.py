"""The stages in a row: from a table to a proved release, to its files, to its audit."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import (
    __version__,
    aggregation,
    auditing,
    groundwork,
    inspection,
    manifests,
    partitioning,
    progress,
    roles,
    tables,
)
from microcell.cells import Cells
from microcell.errors import DataError, GuaranteeError, TableError
from microcell.model import Audit, Integers, Manifest, Partition, Release, Schema, Table
from microcell.staging import Staging, check_target

__all__ = ["anonymize", "audit", "check_outputs", "inspect", "publish", "read", "write"]

read = tables.read


def anonymize(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int,
    method: str = "auto",
    seed: int = 0,
    missing: str = "error",
    cells: bool | str = False,
    **options: Any,
) -> Release:
    """A k-anonymous release of a table: cells of k or more records that share the very same quasi-identifiers.

    Parameters
    ----------
    source
        A pandas, polars or pyarrow table, a dict of arrays, the path of a file, or what :func:`read` gave.
    schema
        The role of each column: a :class:`Schema`, or the path of its file.
    k
        The least number of records in a cell, 2 or more.
    method
        "auto" or a registered method (``microcell methods``); ``options`` are the method's own.
    seed
        For methods that use chance, and for the order of rows in a file.
    missing
        "error" refuses records without a quasi-identifier, "drop" leaves them out and reports how many, "impute"
        places them at the mean and publishes their cell's representative.
    cells
        True to have the cells as a function in the release too, which assigns further records and can be saved: power
        cells, to which the method's cells are polished at the same sizes. "balls" suit MDAV and V-MDAV; "lookup" holds
        the records themselves.

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
    function = groundwork.check_function(cells)
    prepared = groundwork.prepare(source, schema, k=k, missing=missing)
    original, table, schema, encoded = prepared.original, prepared.table, prepared.schema, prepared.encoded
    made = _make(prepared, groundwork.Request(k, method, seed, options), function)
    partition = made.partition
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
        columns=manifests.describe_columns(schema, original),
        input=manifests.describe_table(original),
        records={"in": original.rows, "out": table.rows, "dropped": original.rows - table.rows},
        cells=manifests.describe_cells(partition, encoded) | ({"function": function} if function else {}),
        distortion=auditing.average(auditing.distort_columns(table, published, schema, pairs=np.arange(table.rows))),
        seconds=round(perf_counter() - started, 3),
    )
    order = manifests.row_order(table, manifest.as_dict())
    told = _with_representatives(made.cells, published, partition, schema)
    return Release(published.native, partition, manifest, schema, published, order, original.origin.path, told)


def publish(
    release: Release, output: str | Path, *, keep_order: bool = False, beside: Mapping[Path, str] | None = None
) -> Release:
    """Write the release and its manifest; the release as written, its manifest telling of the file.

    Rows are shuffled, so that their places tell nothing, unless ``keep_order``. The file is read back and k counted
    once more before it takes its name. ``beside`` are further texts to write in the same step (a report). Either
    all files appear, whole, or none.
    """
    target, texts = Path(output), {Path(path): text for path, text in (beside or {}).items()}
    check_outputs(target, beside=texts, sources=[] if release.source is None else [release.source])
    tables.check_writable(release.published, target.suffix)
    table = release.published if keep_order else tables.take(release.published, release.row_order)
    with Staging() as staging:
        for path, text in texts.items():
            staging.path(path).write_text(text, encoding="utf-8")
        account, temporary = staging.path(manifests.manifest_path(target)), staging.path(target)
        progress.report("writing")
        tables.write(table, temporary)
        progress.report("checking the file")
        written = tables.read_back(table, temporary)
        _prove(written, release.schema, release.partition.k, table.rows)
        order = "kept" if keep_order else "shuffled"
        manifest = replace(release.manifest, row_order=order, output=manifests.describe_table(written))
        account.write_text(manifests.to_json(manifest), encoding="utf-8")
    return replace(release, manifest=manifest)


def check_outputs(output: str | Path, *, beside: Iterable[str | Path] = (), sources: Iterable[Path] = ()) -> None:
    """Refuse, before any work, what :func:`publish` could not write, or what would overwrite a source or another."""
    target, sources = Path(output), list(sources)
    check_target(target, sources=sources)
    tables.check_suffix(target.suffix)
    outputs = [target, manifests.manifest_path(target), *map(Path, beside)]
    places = [path.resolve() for path in outputs]
    for path, place in zip(outputs, places, strict=True):
        check_target(path, sources=sources)
        if places.count(place) > 1:
            raise TableError(f"{path} would be written twice: table, manifest and report must be different files.")


def write(table: Any, path: str | Path) -> None:
    """Write a table (a frame, or what :func:`read` gave) to a file, whole or not at all."""
    target = Path(path)
    check_target(target)
    with Staging() as staging:
        tables.write(tables.read(table), staging.path(target))


def inspect(source: Any) -> inspection.Inspection:
    """The facts of each column of a table (a frame, a path, or what :func:`read` gave), with a drafted role and kind.

    Examples
    --------
    >>> inspect({"age": [31, 33, 35, 60, 62, 64]}).columns[0].role
    'quasi'
    """
    return inspection.inspect(tables.read(source))


def audit(original: Any, released: Any, schema: Schema | str | Path, *, manifest: Any = None) -> Audit:
    """What an outsider finds who compares the original table with the released one under the schema.

    ``manifest`` (a record, a mapping or a path; for a released file, the one beside it if left out) tells the order of
    shuffled rows, without which distortion cannot be measured. What it says is checked against the tables.

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
    resolved = roles.resolve(groundwork.as_schema(schema), before)
    account = manifests.find_manifest(manifest, after.origin.path)
    if account is None:
        return auditing.audit(before, after, resolved)
    contradictions = manifests.find_contradictions(account, before, after, resolved)
    pairs = _pairs(before, after, resolved, account)
    return auditing.audit(before, after, resolved, pairs=pairs, contradictions=contradictions)


# ---------------------------------------------------------------------------------------------- steps of anonymize


def _check_request(k: int, method: str, missing: str, seed: int, options: Mapping[str, Any]) -> None:
    partitioning.check_k(k)
    partitioning.check_method(method, options)
    groundwork.check_handling(missing, seed)


def _make(prepared: groundwork.Prepared, request: groundwork.Request, function: str | None) -> groundwork.Made:
    if function is None:
        return groundwork.Made(groundwork.make_cells(prepared, request))
    return groundwork.make_function(prepared, request, function)


def _with_representatives(cells: Cells | None, published: Table, partition: Partition, schema: Schema) -> Cells | None:
    """The cells with what each publishes, so that they can tell it to further records."""
    if cells is None:
        return None
    names = [name for name in published.names if name in schema.keys]
    return replace(cells, representatives=tables.values_of_cells(published, partition.labels, names))


def _prove(published: Table, schema: Schema, k: int, rows: int) -> None:
    """Count k, the columns and the records of the table that is about to be published, as an outsider would."""
    strange = set(published.names) ^ {*schema.keys, *schema.unchanged}
    if strange:
        raise GuaranteeError(f"Columns {sorted(strange)} are not as the schema wants them. Nothing was released.")
    if published.rows != rows:
        raise GuaranteeError(f"The release has {published.rows} records instead of {rows}. Nothing was released.")
    smallest = int(auditing.class_sizes(published, schema.keys).min(initial=rows))
    if smallest < k:
        raise GuaranteeError(
            f"The finished table has a class of {smallest} records, fewer than k = {k}. Nothing was released; please "
            "report this as a defect."
        )


def _pairs(before: Table, after: Table, schema: Schema, manifest: Mapping[str, Any]) -> Integers | None:
    """The row of the original that each released row comes from, if the manifest tells."""
    if manifest.get("row_order") != "shuffled":
        return None
    try:
        rows = groundwork.released_rows(before, schema, str(manifest["missing"]))
        order = manifests.row_order(groundwork.take_rows(before, rows), manifest)
    except (KeyError, TypeError, ValueError, DataError):  # a manifest of another table, or a damaged one
        return None
    return rows[order] if len(order) == after.rows else None
