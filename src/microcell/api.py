"""The main functions: anonymize, audit, publish, inspect, partition, read and write."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell import auditing, methods, tables
from microcell._atomic import AtomicFiles, check_target
from microcell._files import TEXT_SUFFIXES
from microcell.cells import Cells
from microcell.errors import DataError, OptionError
from microcell.measures import people
from microcell.model import Audit, Integers, Partition, Schema, Table, TableRisk
from microcell.model.findings import check_strictly
from microcell.model.manifest import (
    BlocksSection,
    BoundSection,
    CellsSection,
    DependenceSection,
    DominanceSection,
    Manifest,
    RecordsSection,
    SuppressionSection,
)
from microcell.release import aggregate, enforce, order, prepare, requirements, suppression
from microcell.release import dependence as weighting
from microcell.release import manifest as manifests
from microcell.release import partition as partitioning
from microcell.release.masking import has_random_masks, mask_confidential, measure_masks
from microcell.release.prove import check_audited_limits, measure_information_loss, prove
from microcell.release.publish import Release, check_outputs, check_report_names, write_reports
from microcell.schema import draft, resolve

__all__ = [
    "anonymize",
    "audit",
    "check_outputs",
    "check_report_names",
    "check_strictly",
    "inspect",
    "partition",
    "publish",
    "read",
    "risk",
    "write",
    "write_reports",
]

read = tables.read


def anonymize(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int,
    method: str = "auto",
    seed: int = 0,
    order_key: str | Path | None = None,
    missing: str = "error",
    suppress: float | str | None = None,
    cells: bool | str = False,
    require: Mapping[str, float] | None = None,
    dependence: methods.Weights = 0.0,
    regression: str = "linear",
    dominance: tuple[int, float] | None = None,
    blocks: Any = None,
    engine: str | None = None,
    **options: Any,
) -> Release | Any:
    """Make a table k-anonymous by microaggregation.

    Records are grouped into cells of at least k, and the quasi-identifiers of each record are
    replaced by the representative of its cell.

    Parameters
    ----------
    source
        A pandas, polars, pyarrow or Dask dataframe, a dict of arrays, the path of a file, or the
        result of :func:`read`.
    schema
        The role of each column: a :class:`Schema` or the path of a schema file.
    k
        Minimum number of people per cell, at least 2. Distinct persons are counted if the schema
        names a person column, otherwise records.
    method
        "auto" or the name of a method (``microcell methods`` lists them). Options of the method
        are passed as further keyword arguments.
    seed
        Random seed of the method.
    order_key
        Key that determines the order in which :meth:`Release.publish` writes the rows: 32
        hexadecimal digits, or the manifest of an earlier release to reproduce its file. By default
        a new random key, which is stored only in the manifest. Keep it secret.
    missing
        How to handle records with a missing quasi-identifier: "error" rejects the table, "drop"
        leaves the records out and counts them, "impute" keeps them and publishes their cell's
        representative.
    suppress
        Share of the records that may be left out, such as 0.02 or "2%": those that cost most,
        chosen together with the cells by their quasi-identifiers. The release states how many.
    cells
        True to also return cells that assign further records and can be saved: power cells of the
        same sizes as the method's cells. "balls" suits MDAV and V-MDAV; "lookup" cells contain the
        original records.
    require
        Limits that the release must meet, by measure, such as
        ``{"l_diversity": 3, "t_closeness.income": 0.3}``. Limits on cells are met by searching for
        cells that satisfy them, or by merging cells of the same stratum, whichever loses less
        information. A limit on ``dependence_loss`` is met by choosing the weight ``dependence``
        with the least information loss, unless that is given. Other measures
        (``information_loss``, ``linkage``, ...) are checked on the finished release.
    dependence
        Weight (lambda) of preserving the association between confidential columns and
        quasi-identifiers: the partition minimizes (1 - lambda) D_X + lambda D_Y. A number from 0
        (the default) to 1, or a mapping from confidential columns to their weights. Confidential
        values are published unchanged in any case. :func:`dependence_sweep` helps to choose.
    regression
        With ``dependence`` and ``cells``: how confidential columns are predicted from the
        quasi-identifiers, so that cells depend only on the latter. "linear", or "neighbours" for
        the mean of the nearest groups of records.
    dominance
        Dominance rule (n, p) for sampling weights and persons, overriding that of the schema: when
        the representative of a cell is computed, its n largest weights are capped so that their
        share of the total weight is at most p; the rows of a person count together. The schema's
        default is (1, 0.5); (1, 1.0) caps nothing.
    blocks
        Partition blocks of quasi-identifiers independently: a number of columns per block, or
        lists of names. This lowers the information loss, but the release is k-anonymous only
        within each block. The manifest reports k over all columns combined.
    engine
        "dask" for a data set of many files that may exceed memory; ``options`` then include those
        of :func:`microcell.dask.anonymize_dataset`, such as ``output``. Used automatically for a
        Dask dataframe.

    Returns
    -------
    Release
        The table, in the type of the source, with its partition and manifest. k and the limits
        have been verified on that table. With an engine, a
        :class:`microcell.dask.DatasetRelease`.

    Raises
    ------
    RequirementError
        A limit cannot be met. The error contains the measure, its best value and the limit.

    Examples
    --------
    >>> from microcell import Schema
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> release = anonymize(people, Schema(quasi=["age"], confidential=["income"]), k=3)
    >>> release.table["age"]
    array([33, 33, 33, 62, 62, 62])
    """
    schema = schema if dominance is None else prepare.with_dominance(schema, dominance)
    if engine is not None or _is_dask(source):
        settings = {"k": k, "method": method, "seed": seed, "missing": missing}
        extras = {"cells": cells, "require": require, "blocks": blocks, "order_key": order_key}
        extras |= {"suppress": suppression.as_share(suppress)}
        other = regression if regression != "linear" else None
        extras |= {"regression": other}
        settings |= {"dependence": dependence} | {name: on for name, on in extras.items() if on}
        return _anonymize_on_engine(source, schema, engine, settings | options)
    started = perf_counter()
    limits, kind = _check_options(
        k, method, missing, seed, options, dependence, regression, require, cells, blocks
    )
    share = suppression.as_share(suppress)
    key = order.read_order_key(order_key)
    request = partitioning.Request(k, method, seed, options, dependence, regression)
    prepared = prepare.encode_records(
        source, schema, k=k, missing=missing, publish_cells=bool(kind)
    )
    prepared, suppressed = _leave_out(prepared, share, k, seed, key, publish_cells=bool(kind))
    demands = partitioning.resolve_limits(prepared, limits)
    request, grouping, merged = _find_cells(prepared, request, demands, kind, blocks)
    final = replace(grouping, partition=merged.partition)
    final_blocks = _describe_blocks(final, prepared.schema, k)
    class_sizes = prove(
        merged.published,
        prepared.schema,
        k=final.partition.k,
        n_rows=prepared.table.rows,
        limits=limits,
        blocks=final_blocks,
        persons=prepared.persons,
    )
    check_audited_limits(prepared, merged.published, demands.checked)
    cells_section = _describe_cells(prepared, final, kind)
    manifest = manifests.build_manifest(
        prepared.schema,
        prepared.original.names,
        k=final.partition.k,
        input=manifests.describe_table(prepared.original),
        records=_describe_records(prepared, missing, suppressed),
        suppression=suppressed,
        method=manifests.describe_method(method, final.partition, options),
        seed=int(seed),
        missing=missing,
        cells=cells_section,
        bound=_describe_bound(prepared, final, cells_section),
        requirements=manifests.describe_requirements(
            limits, grouping.partition, merged, prepared.encoded
        ),
        dependence=_describe_dependence(prepared, final, request, kind),
        dominance=_describe_dominance(prepared, final),
        **manifests.describe_people(prepared.schema, prepared.persons, prepared.table),
        blocks=final_blocks,
        information_loss=_information_loss(prepared, merged.published),
        seconds=round(perf_counter() - started, 3),
        order_key=key,
    )
    return _make_release(prepared, final, merged.published, manifest, class_sizes)


def partition(
    X: ArrayLike,
    k: int,
    *,
    method: str = "auto",
    weights: ArrayLike | None = None,
    persons: ArrayLike | None = None,
    together: bool = False,
    seed: int = 0,
    refine: bool = False,
    require: Mapping[str, float] | None = None,
    confidential: Any = None,
    **options: Any,
) -> Partition:
    """Group the rows of a matrix into cells of at least k.

    Parameters
    ----------
    X
        Points, one per row, used without further scaling.
    k
        Minimum number of people per cell: of distinct persons with ``persons``, otherwise of rows.
    method
        "auto" or a registered method (``microcell methods`` lists them).
    weights
        One positive number per row, for weighted means.
    persons
        The person that each row is about, if a person may have several rows: one value per row.
    together
        Put all rows of a person into one cell.
    seed
        Random seed. The same seed gives the same labels with any number of threads, unless the run
        time is limited.
    refine
        Improve the result by local search.
    require
        Limits on cells by measure, as for :func:`anonymize`.
    confidential
        Confidential values that the limits apply to: one array, or several by name (a dict or a
        data frame). Numbers and dates are treated as ordered, text as unordered.
    options
        Options of the method. "auto" has one, ``effort``: "fast", "balanced" (the default), "best",
        or a number of seconds.

    Examples
    --------
    >>> cells = partition([[2, 1], [3, 2], [3, 2], [20, 19], [21, 20]], k=2, method="mdav")
    >>> cells.labels
    array([1, 1, 1, 0, 0])
    >>> ages, illness = [[20], [21], [23], [24], [60], [61]], ["flu", "flu", "ulcer", "ulcer"] * 2
    >>> partition(ages, 2, require={"l_diversity": 2}, confidential=illness[:6]).labels.tolist()
    [1, 1, 1, 0, 0, 0]
    """
    settings = {"method": method, "weights": weights, "seed": seed, "refine": refine, **options}
    settings |= {"persons": persons, "together": together}
    limits = requirements.check_limits(require)
    cells = methods.partition(X, k, **settings)
    if not limits:
        return cells
    return partitioning.partition_within_limits(cells, X, limits, confidential, settings)


def publish(release: Release, path: str | Path, **options: Any) -> Release:
    """Write a release and its manifest; the function form of :meth:`Release.publish`.

    ``options`` are those of the method: ``report``, ``certificate``, ``cells``, ``audience``,
    ``keep_order`` and ``overwrite``.

    Examples
    --------
    >>> import microcell as mc
    >>> from tempfile import TemporaryDirectory
    >>> release = mc.anonymize(mc.sample_survey(100), mc.sample_schema(), k=5, method="mdav")
    >>> with TemporaryDirectory() as folder:
    ...     _ = publish(release, Path(folder, "people_k5.csv"))
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['people_k5.csv', 'people_k5.csv.manifest.json']
    """
    return release.publish(path, **options)


def write(table: Any, path: str | Path) -> None:
    """Write a table (a dataframe or the result of :func:`read`) to a file, atomically.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     write({"age": [31, 52]}, path)
    ...     read(path).rows
    2
    """
    target = Path(path)
    check_target(target)
    with AtomicFiles() as atomic:
        tables.write(tables.read(table), atomic.path(target))


def inspect(source: Any) -> draft.Inspection:
    """Inspect the columns of a table and suggest a role and kind for each.

    Examples
    --------
    >>> inspect({"age": [31, 33, 35, 60, 62, 64]}).columns[0].role
    'quasi'
    """
    return draft.inspect(tables.read(source))


def risk(
    source: Any,
    schema: Schema | str | Path | None = None,
    *,
    k: int = 5,
    population: int | None = None,
) -> TableRisk:
    """Measure the re-identification risk of a table as it stands; no original is needed.

    Parameters
    ----------
    source
        A table, in any form that :func:`anonymize` accepts.
    schema
        The role of each column: a :class:`Schema` or the path of a schema file. It may name columns
        that are not in the table any more, such as identifiers. Drafted as by :func:`inspect` if
        omitted. Persons are counted if it names a person column.
    k
        Classes with fewer people are at risk.
    population
        Number of people in the population that the table is a sample of. If the schema names
        sampling weights, their sum by default.

    Returns
    -------
    TableRisk
        k, unique people, what each column contributes, minimal unique combinations of columns with
        SUDA scores, prosecutor, journalist and marketer risk, estimates for the population, and the
        records at risk by row number.

    Examples
    --------
    >>> import microcell as mc
    >>> result = risk(mc.sample_survey(300), mc.sample_schema(), population=9000)
    >>> result["unique_people"], result.n_at_risk
    (300, 300)
    """
    methods.check_k(k)
    table = tables.read(source)
    declared = (
        draft.draft_schema(draft.inspect(table)) if schema is None else prepare.as_schema(schema)
    )
    resolved = resolve.resolve(resolve.without_absent(declared, table), table)
    # Its estimates of the population need parts of SciPy that take a second to import.
    single = import_module("microcell.auditing.single")
    result: TableRisk = single.assess(table, resolved, k=int(k), population=population)
    return result.with_drafted_roles() if schema is None else result


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
    analyses: Sequence[str] = (),
    by: Sequence[str] = (),
) -> Audit:
    """Measure risk and utility of a released table by comparing it with the original.

    All measures are computed from the two tables and the schema alone. The statements of the
    manifest are checked, not trusted.

    Parameters
    ----------
    original, released
        Tables, in any form that :func:`anonymize` accepts.
    schema
        The role of each column: a :class:`Schema` or the path of a schema file.
    manifest
        A :class:`Manifest`, plain data or a path. For a released file, the manifest next to it is
        used if this is omitted. It determines the order of shuffled rows, without which the
        information loss cannot be measured. Its statements are checked against the tables.
    key
        A column of both tables, unique and complete, that matches rows regardless of their order.
        An identifier can be used before it is removed; it still counts in ``identifiers_left``.
    population
        Size of the population that the records were sampled from, for the journalist risk.
    target
        An unchanged column to predict from the others, on both tables. Requires scikit-learn.
    brief
        Skip the slow comparison of records: linkage, information loss, other utility measures and
        figures.
    analyses
        Formulas such as "hours ~ age + education": each is fitted on both tables, and coefficients
        with their intervals are compared. A response with two values gives a logistic regression.
    by
        Columns to group by when comparing means of numeric columns and rates of two-valued columns.

    Examples
    --------
    >>> from microcell import Schema
    >>> before = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> after = {"age": [33, 33, 33, 62, 62, 62], "income": [10, 20, 30, 40, 50, 60]}
    >>> result = audit(before, after, Schema(quasi=["age"], confidential=["income"]))
    >>> result["k"], round(result["information_loss"], 4)
    (3, 0.0125)
    """
    path = released.origin.path if isinstance(released, Table) else released
    statement = manifests.find_manifest(manifest, path)
    before = tables.read(original, **manifests.stored_reading(statement, original))
    after = read_released(released, before)
    resolved = resolve.resolve(prepare.as_schema(schema), before)
    unmasked, before = before, _mask(before, resolved, statement)
    escaped = statement is not None and bool(statement.formulas_escaped)
    if escaped:
        after = replace(tables.unescape_formulas(after), origin=after.origin)
    pairs = None
    contradictions = None
    if statement is not None:
        pairs = _match_rows(before, after, resolved, statement) if key is None else None
        contradictions = _find_contradictions(statement, before, after, resolved, pairs)
        if pairs is not None and not _has_order(before, after, resolved, pairs, statement):
            # The file is the published one, so the manifest was edited rather than the values.
            pairs = None
            contradictions = contradictions or (_EDITED_SETTINGS,)
    result = auditing.audit(
        before,
        after,
        resolved,
        pairs=pairs,
        key=key,
        population=population,
        target=target,
        brief=brief,
        contradictions=contradictions,
        formulas_escaped=escaped,
        k=None if statement is None else _requested_k(statement),
        earlier=_other_releases(statement, after),
        analyses=analyses,
        by=by,
    )
    if before is not unmasked and not brief:
        rows = _released_rows(before, resolved, statement)
        result = replace(result, masks=measure_masks(unmasked, before, resolved, rows))
    if statement is not None and manifests.was_read_differently(statement, before, after, result):
        return replace(result, warning=manifests.READ_DIFFERENTLY)
    return result


def _mask(before: Table, schema: Schema, manifest: Manifest | None) -> Table:
    """Mask the original as the release did."""
    key = None if manifest is None else manifest.order_key
    rows = _released_rows(before, schema, manifest) if has_random_masks(schema) else None
    return mask_confidential(before, schema, rows, key)


def _released_rows(before: Table, schema: Schema, manifest: Manifest | None) -> Integers:
    """Return the rows that a release with this manifest contains; all, if they are not known."""
    missing = "error" if manifest is None else manifest.missing or "error"
    suppressed = () if manifest is None else manifest.suppressed_rows
    try:
        return prepare.released_rows(before, schema, missing, suppressed)
    except DataError:  # the manifest belongs to another table
        return np.arange(before.rows)


def read_released(released: Any, before: Table, **options: Any) -> Table:
    """Read a release. Amounts that are text in the original are text in its file, too."""
    is_text = isinstance(released, (str, Path)) and Path(released).suffix.lower() in TEXT_SUFFIXES
    if is_text and not before.origin.notes:
        options = {"thousands": "", **options}
    return tables.read(released, **options)


def _is_dask(source: Any) -> bool:
    """Return True for a Dask dataframe, without importing Dask."""
    return type(source).__module__.partition(".")[0] in ("dask", "dask_expr")


def _anonymize_on_engine(
    source: Any, schema: Any, engine: str | None, settings: Mapping[str, Any]
) -> Any:
    # Imported by name: the engine is optional and slow to import.
    dask = import_module("microcell.dask")
    dask.check_engine(engine)
    return dask.anonymize_dataset(source, schema, **settings)


def _check_options(
    k: int,
    method: str,
    missing: str,
    seed: int,
    options: Mapping[str, Any],
    dependence: methods.Weights,
    regression: str,
    require: Mapping[str, float] | None,
    cells: bool | str,
    blocks: Any,
) -> tuple[Mapping[str, float], str | None]:
    """Check all options before reading the table; return the limits and the kind of cells."""
    methods.check_k(k)
    methods.check_method(method, options)
    prepare.check_handling(missing, seed)
    methods.check_dependence(dependence)
    methods.check_regression(regression)
    limits = requirements.check_limits(require)
    kind = partitioning.check_cells_option(cells)
    requirements.check_function(limits, kind)
    if kind is not None and blocks is not None:
        raise OptionError(
            "cells cannot be combined with blocks, because a cell function needs all "
            "quasi-identifiers. Omit one of the two.",
            code="option.conflict",
            option="cells",
            other="blocks",
        )
    if limits and blocks is not None:
        raise OptionError(
            "require cannot be combined with blocks: blocks have no common cells to merge. "
            "Audit the release instead.",
            code="option.conflict",
            option="require",
            other="blocks",
        )
    return limits, kind


def _find_cells(
    prepared: prepare.Prepared,
    request: partitioning.Request,
    demands: requirements.Requirements,
    kind: str | None,
    blocks: Any,
) -> tuple[partitioning.Request, partitioning.Grouping, enforce.Enforced]:
    """Return the request used, the cells of the method, and the cells after enforcing limits.

    A limit on the dependence loss determines the weight of dependence, if that is 0.
    """
    limits = {
        name: limit for name, limit in demands.limits.items() if weighting.limits_dependence(name)
    }
    if not limits or request.weight > 0:
        return (request, *_make_cells(prepared, request, demands, kind, blocks))

    def attempt(weight: float) -> weighting.Attempt[Any]:
        tried = replace(request, dependence=weight)
        grouping, merged = _make_cells(prepared, tried, demands, kind, blocks)
        parts = replace(grouping, partition=merged.partition).parts(prepared)
        loss = partitioning.quasi_identifier_loss(prepared, parts)
        return weighting.Attempt(loss, merged.published, (tried, grouping, merged))

    result: tuple[partitioning.Request, partitioning.Grouping, enforce.Enforced]
    result = weighting.find_weight(prepared, limits, attempt)
    return result


def _make_cells(
    prepared: prepare.Prepared,
    request: partitioning.Request,
    demands: requirements.Requirements,
    kind: str | None = None,
    blocks: Any = None,
) -> tuple[partitioning.Grouping, enforce.Enforced]:
    """Return the cells of the method, and the cells after enforcing the requirements."""
    grouping = partitioning.make_grouping(prepared, request, kind, blocks)
    return grouping, enforce.enforce(
        demands,
        grouping.partition,
        prepared.encoded,
        prepared.schema,
        lambda cells: partitioning.aggregate_table(prepared, replace(grouping, partition=cells)),
        partitioning.searching(prepared, request),
    )


def _leave_out(
    prepared: prepare.Prepared, share: float, k: int, seed: int, key: str, *, publish_cells: bool
) -> tuple[prepare.Prepared, SuppressionSection | None]:
    """Leave out a share of the records, and mask the others."""
    kept, section = suppression.suppress(
        prepared, share, k=k, seed=seed, publish_cells=publish_cells
    )
    return prepare.mask(kept, key), section


def _information_loss(prepared: prepare.Prepared, published: Table) -> float:
    return measure_information_loss(prepared.original, published, prepared.schema, prepared.rows)


def _describe_records(
    prepared: prepare.Prepared, missing: str, suppressed: SuppressionSection | None
) -> RecordsSection:
    return manifests.describe_records(
        prepared.original.rows,
        prepared.table.rows,
        missing,
        prepared.n_missing,
        None if suppressed is None else suppressed.records,
    )


def _describe_cells(
    prepared: prepare.Prepared, grouping: partitioning.Grouping, kind: str | None
) -> CellsSection:
    encoded = prepared.encoded
    if grouping.blocks:
        loss = partitioning.quasi_identifier_loss(prepared, grouping.blocks)
    else:
        labels = grouping.partition.labels
        loss = methods.distortion(encoded.matrix, labels, weights=encoded.weights)
    return manifests.describe_cells(grouping.partition, loss, function=kind)


def _describe_bound(
    prepared: prepare.Prepared, grouping: partitioning.Grouping, cells: CellsSection
) -> BoundSection | None:
    """Compare the cells with a bound that is proved quickly; None for blocks."""
    if grouping.blocks or cells.sse_ratio is None:
        return None
    bound = methods.bound_within(
        prepared.strata,
        prepared.encoded.matrix,
        grouping.partition.k,
        prepared.encoded.weights,
        methods.BRIEF,
    )
    return manifests.describe_bound(bound, cells.sse_ratio)


def _describe_blocks(
    grouping: partitioning.Grouping, schema: Schema, k: int
) -> BlocksSection | None:
    if not grouping.blocks:
        return None
    names = [tuple(schema.quasi[i].name for i in block.columns) for block in grouping.blocks]
    return BlocksSection(
        k=int(k),
        columns=tuple(names),
        cells=tuple(len(block.partition) for block in grouping.blocks),
        jointly_k_anonymous=grouping.partition.k >= k,
    )


def _describe_dominance(
    prepared: prepare.Prepared, grouping: partitioning.Grouping
) -> DominanceSection | None:
    weights, schema = prepared.encoded.weights, prepared.schema
    n_capped = sum(
        aggregate.count_dominated(block.partition.labels, weights, schema, prepared.persons)
        for block in grouping.parts(prepared)
    )
    return manifests.describe_dominance(schema, n_capped)


def _describe_dependence(
    prepared: prepare.Prepared,
    grouping: partitioning.Grouping,
    request: partitioning.Request,
    kind: str | None,
) -> DependenceSection | None:
    if request.weight == 0:
        return None
    parts = grouping.parts(prepared)
    return manifests.describe_dependence(
        request.dependence,
        partitioning.quasi_identifier_loss(prepared, parts),
        partitioning.confidential_loss(prepared, parts),
        partitioning.weighted_loss(prepared, parts, request.dependence),
        None if kind is None else request.regression,
    )


def _make_release(
    prepared: prepare.Prepared,
    grouping: partitioning.Grouping,
    published: Table,
    manifest: Manifest,
    class_sizes: Integers,
) -> Release:
    path = prepared.original.origin.path
    return Release(
        table=published.native,
        partition=grouping.partition,
        manifest=manifest,
        schema=prepared.schema,
        published=published,
        row_order=order.row_order(prepared.table, manifest),
        original=prepared.original,
        class_sizes=class_sizes,
        persons=prepared.persons,
        mask_effects=prepared.mask_effects,
        sources=() if path is None else (path,),
        cells=_with_representatives(grouping.cells, published, grouping.partition, prepared.schema),
    )


def _with_representatives(
    cells: Cells | None, published: Table, partition: Partition, schema: Schema
) -> Cells | None:
    """Attach the published values of each cell, so that it can publish further records."""
    if cells is None:
        return None
    names = [name for name in published.names if name in schema.keys]
    values = tables.values_of_cells(published, partition.labels, names)
    return replace(cells, representatives=values)


def _find_contradictions(
    manifest: Manifest, before: Table, after: Table, schema: Schema, pairs: Integers | None
) -> tuple[str, ...]:
    persons = None
    if schema.person and pairs is not None:
        codes = people.person_codes(prepare.take_rows(before, np.unique(pairs)), schema)
        persons = None if codes is None else codes[np.searchsorted(np.unique(pairs), pairs)]
    contradictions = manifests.find_contradictions(manifest, before, after, schema, persons)
    if not set(schema.keys) <= set(after.columns):
        return contradictions
    unmet = requirements.missed_manifest_limits(after, schema, manifest.limits, persons)
    missed = (f"A limit in the manifest is not met: {item}" for item in unmet)
    return (*contradictions, *missed)


def _match_rows(before: Table, after: Table, schema: Schema, manifest: Manifest) -> Integers | None:
    """Return the original row of each released row, if the manifest determines it."""
    shuffled = manifest.row_order == "shuffled" and manifest.order_key is not None
    if not shuffled or manifest.survey is not None:
        return None
    try:
        rows = prepare.released_rows(
            before, schema, manifest.missing or "error", manifest.suppressed_rows
        )
    except DataError:  # the manifest belongs to another table
        return None
    positions = order.row_order(prepare.take_rows(before, rows), manifest)
    return rows[positions] if len(positions) == after.rows else None


def _requested_k(manifest: Manifest) -> int:
    return manifest.k if manifest.blocks is None else manifest.blocks.k


def _other_releases(manifest: Manifest | None, released: Table) -> tuple[str, ...]:
    path = released.origin.path
    if manifest is None or path is None:
        return ()
    return manifests.other_releases(manifest, path)


_EDITED_SETTINGS = (
    "The settings in the manifest do not reproduce the row order of the release: k, the method, "
    "the random seed or another setting was edited."
)


def _has_order(
    before: Table, after: Table, schema: Schema, pairs: Integers, manifest: Manifest
) -> bool:
    """Return False if the file is unaltered but the manifest implies a different row order."""
    if manifest.output is None or not manifests.has_digest(manifest.output, after):
        return True
    return auditing.align(before, after, schema, pairs=pairs).pairs is not None
