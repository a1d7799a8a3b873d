"""Further records to the cells of an earlier release: each gets its cell, and what that publishes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import __version__, auditing, dask, encoding, methods, progress, tables
from microcell._atomic import Staging, check_target
from microcell.cells import Cells, load_cells
from microcell.errors import DataError, GuaranteeError, OptionError, RequirementError, TableError
from microcell.measures.pairs import ColumnPairs
from microcell.model import Audit, Integers, Manifest, Partition, Release, Schema, Table
from microcell.release import enforce, prepare
from microcell.release import manifest as manifests
from microcell.schema import draft, resolve

__all__ = [
    "Assigned",
    "anonymize",
    "assign",
    "audit",
    "check_outputs",
    "inspect",
    "publish",
    "read",
    "write",
]

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
    require: Mapping[str, float] | None = None,
    dependence: float = 0.0,
    blocks: Any = None,
    engine: str | None = None,
    **options: Any,
) -> Release | Any:
    """A k-anonymous release of a table: cells of k or more records that share the very same quasi-identifiers.

    Parameters
    ----------
    source
        A pandas, polars or pyarrow table, a dict of arrays, the path of a file, or what :func:`read` gave; or a Dask
        dataframe.
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
    require
        Limits that the release is to meet, by measure of the audit: ``{"l_diversity": 3, "t_closeness.income": 0.3}``.
        Cells that break one are merged with the neighbour (of the same stratum) at which it costs least distortion.
        That mends sizes and what classes tell of confidential columns; other measures (``distortion``, ``linkage``,
        ...) are checked on the finished release.
    dependence
        How much cells are to preserve of what the confidential columns have to do with the quasi-identifiers: cells
        minimize (1 - lambda) D_X + lambda D_Y, from 0 (the default), D_X alone, to 1, D_Y alone. Confidential values
        are published unchanged all the same. :func:`dependence_sweep` shows what to choose.
    blocks
        Make cells of blocks of quasi-identifiers, each on its own: of so many columns, or as named in lists. It lowers
        the distortion, but the release is k-anonymous in each block only, and not as a whole: its k is what all
        columns together come to, and the manifest says so.
    engine
        "dask" for a data set of many files, which need not fit in memory: ``options`` are then those of
        :func:`anonymize_dataset` too, such as ``output``. A Dask dataframe goes there by itself.

    Returns
    -------
    Release
        The table in the frame type that came in, its partition and manifest. k was counted again on that table, and
        so was what is required. On an engine, a :class:`DatasetRelease`.

    Raises
    ------
    RequirementError
        What is required cannot be met; the error says which measure, what was reached and what was asked for.

    Examples
    --------
    >>> from microcell import Schema
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> release = anonymize(people, Schema(quasi=["age"], confidential=["income"]), k=3)
    >>> release.table["age"]
    array([33, 33, 33, 62, 62, 62])
    """
    if engine is not None or dask.is_dask(source):
        dask.check_engine(engine)
        given = {"cells": cells, "require": require, "blocks": blocks}
        options |= {"method": method, "seed": seed, "missing": missing, "dependence": dependence}
        asked = {name: value for name, value in given.items() if value}
        return dask.anonymize_dataset(source, schema, k=k, **asked, **options)
    started = perf_counter()
    _check_request(k, method, missing, seed, options)
    methods.check_dependence(dependence)
    limits, function = enforce.check_limits(require), prepare.check_function(cells)
    enforce.check_function(limits, function)
    _check_together(function, limits, dependence, blocks)
    prepared = prepare.prepare(source, schema, k=k, missing=missing)
    original, table, schema, encoded = (
        prepared.original,
        prepared.table,
        prepared.schema,
        prepared.encoded,
    )
    demands = enforce.resolve_limits(limits, table, schema, prepared.strata)
    made = _make(
        prepared, prepare.Request(k, method, seed, options, float(dependence)), function, blocks
    )
    merged = enforce.enforce(
        demands,
        made.partition,
        encoded,
        schema,
        lambda cells: prepare.publish_cells(prepared, replace(made, partition=cells)),
    )
    before, made, published = (
        made.partition,
        replace(made, partition=merged.partition),
        merged.published,
    )
    partition, account = made.partition, _account_of(made, schema, k)
    progress.report("checking")
    _prove(published, schema, partition.k, table.rows, limits)
    _prove_blocks(published, schema, account)
    _check_audit(prepared, published, missing, demands.checked)
    manifest = Manifest(
        microcell=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        k=partition.k,
        method={
            "asked": method,
            "used": partition.method,
            "why": partition.why,
            "options": dict(options),
        },
        seed=int(seed),
        missing=missing,
        columns=manifests.describe_columns(schema, original),
        input=manifests.describe_table(original),
        records=manifests.describe_records(original.rows, table.rows, missing, prepared.gaps),
        cells={
            **manifests.describe_cells(partition, encoded),
            **(
                {"distortion": prepare.find_distortion(prepared, made.blocks)}
                if made.blocks
                else {}
            ),
            **({"function": function} if function else {}),
            **manifests.describe_merging(limits, before, partition, merged.rounds, encoded),
        },
        distortion=auditing.information_loss(
            auditing.column_losses(ColumnPairs(table, published, schema, np.arange(table.rows)))
        ),
        seconds=round(perf_counter() - started, 3),
        dependence=_account_of_dependence(prepared, made, float(dependence)),
        blocks=account,
    )
    order = manifests.row_order(table, manifest.as_dict())
    told = _with_representatives(made.cells, published, partition, schema)
    return Release(
        published.native, partition, manifest, schema, published, order, original.origin.path, told
    )


def publish(
    release: Release,
    output: str | Path,
    *,
    keep_order: bool = False,
    beside: Mapping[Path, str] | None = None,
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
        limits = manifests.limits_of(release.manifest.as_dict())
        _prove(written, release.schema, release.partition.k, table.rows, limits)
        _prove_blocks(written, release.schema, release.manifest.blocks)
        order = "kept" if keep_order else "shuffled"
        manifest = replace(
            release.manifest, row_order=order, output=manifests.describe_table(written)
        )
        account.write_text(manifests.to_json(manifest), encoding="utf-8")
    return replace(release, manifest=manifest)


def check_outputs(
    output: str | Path, *, beside: Iterable[str | Path] = (), sources: Iterable[Path] = ()
) -> None:
    """Refuse, before any work, what :func:`publish` could not write, or what would overwrite a source or another."""
    target, sources = Path(output), list(sources)
    check_target(target, sources=sources)
    tables.check_suffix(target.suffix)
    outputs = [target, manifests.manifest_path(target), *map(Path, beside)]
    places = [path.resolve() for path in outputs]
    for path, place in zip(outputs, places, strict=True):
        check_target(path, sources=sources)
        if places.count(place) > 1:
            raise TableError(
                f"{path} would be written twice: table, manifest and report must be different files."
            )


def write(table: Any, path: str | Path) -> None:
    """Write a table (a frame, or what :func:`read` gave) to a file, whole or not at all."""
    target = Path(path)
    check_target(target)
    with Staging() as staging:
        tables.write(tables.read(table), staging.path(target))


def inspect(source: Any) -> draft.Inspection:
    """The facts of each column of a table (a frame, a path, or what :func:`read` gave), with a drafted role and kind.

    Examples
    --------
    >>> inspect({"age": [31, 33, 35, 60, 62, 64]}).columns[0].role
    'quasi'
    """
    return draft.inspect(tables.read(source))


def audit(
    original: Any,
    released: Any,
    schema: Schema | str | Path,
    *,
    manifest: Any = None,
    key: str | None = None,
    population: int | None = None,
    target: str | None = None,
    brief: bool = False,
) -> Audit:
    """What an outsider finds who compares the original table with the released one under the schema.

    Parameters
    ----------
    manifest
        A record, a mapping or a path; for a released file, the one beside it if left out. It tells the order of
        shuffled rows, without which distortion cannot be measured. What it says is checked against the tables.
    key
        A column of both tables, different and known in every row, by which rows are matched whatever their order and
        number. An identifier may serve before it is removed, and counts in ``identifiers_left`` all the same.
    population
        The number of people that the released records were sampled from, for the risks of a journalist.
    target
        A column published unchanged to learn from the others, on the release and on the original; needs scikit-learn.
    brief
        Leave out what takes long and needs both tables: linkage, distortion and other utility, and pictures.

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
    resolved = resolve.resolve(prepare.as_schema(schema), before)
    account = manifests.find_manifest(manifest, after.origin.path)
    if account is None:
        return auditing.audit(
            before, after, resolved, key=key, population=population, target=target, brief=brief
        )
    contradictions = _contradictions(account, before, after, resolved)
    pairs = _pairs(before, after, resolved, account) if key is None else None
    return auditing.audit(
        before,
        after,
        resolved,
        pairs=pairs,
        key=key,
        population=population,
        target=target,
        brief=brief,
        contradictions=contradictions,
    )


# ---------------------------------------------------------------------------------------------- steps of anonymize


def _check_request(
    k: int, method: str, missing: str, seed: int, options: Mapping[str, Any]
) -> None:
    methods.check_k(k)
    methods.check_method(method, options)
    prepare.check_handling(missing, seed)


def _check_together(
    function: str | None, limits: Mapping[str, float], dependence: float, blocks: Any
) -> None:
    """Refuse what does not go together."""
    if function is not None and (dependence > 0 or blocks is not None):
        raise OptionError(
            "Cells as a function are a function of the quasi-identifiers: they do not go with dependence, for which "
            "cells depend on confidential values, nor with blocks, which have cells of their own."
        )
    if limits and blocks is not None:
        raise OptionError(
            "require does not go with blocks: they have no cells in common that could be merged. Audit the release."
        )


def _make(
    prepared: prepare.Prepared, request: prepare.Request, function: str | None, blocks: Any
) -> prepare.Made:
    if blocks is not None:
        return prepare.make_blocks(prepared, request, blocks)
    if function is None:
        return prepare.Made(prepare.make_cells(prepared, request))
    return prepare.make_function(prepared, request, function)


def _account_of(made: prepare.Made, schema: Schema, k: int) -> dict[str, Any] | None:
    names = [[schema.quasi[place].name for place in block.columns] for block in made.blocks]
    return manifests.describe_blocks(
        names, [len(block.partition) for block in made.blocks], int(k), made.partition.k
    )


def _account_of_dependence(
    prepared: prepare.Prepared, made: prepare.Made, dependence: float
) -> dict[str, Any] | None:
    if dependence == 0:
        return None
    parts = made.parts(prepared)
    lost, unpredicted = (
        prepare.find_distortion(prepared, parts),
        prepare.find_dependence_loss(prepared, parts),
    )
    return manifests.describe_dependence(dependence, lost, unpredicted)


def _check_audit(
    prepared: prepare.Prepared, published: Table, missing: str, limits: Mapping[str, float]
) -> None:
    """Refuse a release that misses a limit which only its audit can judge."""
    if not limits:
        return
    rows = prepare.released_rows(prepared.original, prepared.schema, missing)
    found = auditing.audit(prepared.original, published, prepared.schema, pairs=rows)
    missed = [str(item) for item in found.check(limits) if not item.met]
    if missed:
        raise RequirementError(
            f"{' '.join(missed)} Merging cells does not mend this. Nothing was released."
        )


def _with_representatives(
    cells: Cells | None, published: Table, partition: Partition, schema: Schema
) -> Cells | None:
    """The cells with what each publishes, so that they can tell it to further records."""
    if cells is None:
        return None
    names = [name for name in published.names if name in schema.keys]
    return replace(
        cells, representatives=tables.values_of_cells(published, partition.labels, names)
    )


def _prove(
    published: Table, schema: Schema, k: int, rows: int, limits: Mapping[str, float]
) -> None:
    """Measure k, the columns, the records and the limits on the table about to be published, as an outsider would."""
    prepare.prove(published, schema, k, rows)
    missed = enforce.missed_limits(published, schema, limits)
    if missed:
        raise RequirementError(
            f"{' '.join(map(str, missed))} This is of the finished table. Nothing was released."
        )


def _prove_blocks(published: Table, schema: Schema, blocks: Mapping[str, Any] | None) -> None:
    """Count the k of each block, which the release promises in place of a k of all columns."""
    parts = {column.name: column.parts for column in schema.quasi}
    for names in blocks["columns"] if blocks else ():
        keys = (*chain.from_iterable(parts[name] for name in names), *schema.strata)
        smallest = int(auditing.class_sizes(published, keys).min(initial=published.rows))
        if blocks and smallest < blocks["k"]:
            raise GuaranteeError(
                f"The finished table has a class of {smallest} records in a block of columns, fewer than "
                f"k = {blocks['k']}. Nothing was released; please report this as a defect."
            )


def _contradictions(
    manifest: Mapping[str, Any], before: Table, after: Table, schema: Schema
) -> tuple[str, ...]:
    """What the manifest says that does not hold, a sentence each."""
    told = manifests.find_contradictions(manifest, before, after, schema)
    if not set(schema.keys) <= set(after.columns):
        return told
    unkept = enforce.missed_manifest_limits(after, schema, manifests.limits_of(manifest))
    return *told, *(f"The manifest says that a limit was met: {item}" for item in unkept)


def _pairs(
    before: Table, after: Table, schema: Schema, manifest: Mapping[str, Any]
) -> Integers | None:
    """The row of the original that each released row comes from, if the manifest tells."""
    if manifest.get("row_order") != "shuffled":
        return None
    try:
        rows = prepare.released_rows(before, schema, str(manifest["missing"]))
        order = manifests.row_order(prepare.take_rows(before, rows), manifest)
    except (
        KeyError,
        TypeError,
        ValueError,
        DataError,
    ):  # a manifest of another table, or a damaged one
        return None
    return rows[order] if len(order) == after.rows else None


@dataclass(frozen=True, eq=False)
class Assigned:
    """Records with their cells.

    ``table`` is in the frame type that came in, rows in their order: the representatives of the cells in place of the
    quasi-identifiers, the columns that were to be kept, and ``cell``. It is not k-anonymous by itself: ``smallest`` is
    the least number of its records in a cell that has any. ``strange`` counts, by column, values that the cells do not
    know; these records were placed as near as can be told.
    """

    table: Any
    labels: Integers
    strange: Mapping[str, int]
    assigned: Table

    @property
    def used(self) -> int:
        """How many cells have records."""
        return len(np.unique(self.labels))

    @property
    def smallest(self) -> int:
        """The least number of records in a cell that has any."""
        sizes = np.bincount(self.labels)
        return int(sizes[sizes > 0].min(initial=len(self.labels)))


def assign(
    cells: Cells | str | Path, source: Any, *, keep: Sequence[str] = (), missing: str = "error"
) -> Assigned:
    """The records of a table with the cells that an earlier release has for them, and what these publish.

    Parameters
    ----------
    cells
        Cells of a release (``anonymize(..., cells=True).cells``), or the path of their file.
    source
        A table, as :func:`anonymize` takes it; it needs the quasi-identifiers alone.
    keep
        Further columns to keep. Others are left out: they might tell who is who.
    missing
        "error" refuses records without a quasi-identifier, "impute" places them at the mean.

    Examples
    --------
    >>> from microcell import Schema, anonymize
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> release = anonymize(people, Schema(quasi=["age"], confidential=["income"]), k=3, cells=True)
    >>> assign(release.cells, {"age": [40, 70]}).table
    {'age': array([33, 62]), 'cell': array([0, 1])}
    """
    found = load_cells(cells) if isinstance(cells, (str, Path)) else cells
    if not isinstance(found, Cells):
        raise OptionError(
            f"cells must be Cells or the path of their file, not {type(cells).__name__}."
        )
    if found.encoding is None or found.representatives is None:
        raise OptionError(
            "These cells were made of points, not of records. Use their own assign for points."
        )
    if missing not in ("error", "impute"):
        raise OptionError(f"missing must be error or impute, not {missing!r}.")
    if isinstance(keep, str) or not isinstance(keep, Sequence):
        raise OptionError("keep must be a list of column names.")
    progress.report("reading")
    table = tables.read(source)
    if table.rows == 0:
        raise DataError("The table has no records.")
    placed = encoding.place(table, found.encoding)
    if missing == "error":
        _check_missing(table, [part for column in found.encoding.columns for part in column.parts])
    progress.report("assigning")
    labels = found.assign(placed.matrix)
    out = tables.replace_by_cells(table, labels, found.representatives, keep)
    return Assigned(out.native, labels, placed.strange, out)


def _check_missing(table: Table, names: Sequence[str]) -> None:
    counts = {name: int(table.columns[name].missing.sum()) for name in names}
    if any(counts.values()):
        listing = ", ".join(f"{name!r} ({count})" for name, count in counts.items() if count)
        raise DataError(
            f"Missing values in {listing}. Complete them, or say missing='impute' to place them at the mean."
        )
