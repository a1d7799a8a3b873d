"""Partition prepared records into cells, and build the table that the cells publish."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell import methods, progress, tables
from microcell._display import record_repr
from microcell._validation import as_points, as_weights
from microcell.cells import Cells, PowerCells, RegressionCells, ball_cells, lookup_cells
from microcell.errors import OptionError
from microcell.kernels.arrays import centroids, total_sum_of_squares
from microcell.kinds import kind_of
from microcell.measures import people
from microcell.measures.evaluate import evaluate
from microcell.measures.evidence import Evidence
from microcell.measures.registry import measures
from microcell.model import Column, Floats, Integers, Partition, Schema, Table
from microcell.release import aggregate, enforce, requirements
from microcell.release.blocks import exchange_columns, group_columns
from microcell.release.enforce import Searching
from microcell.release.prepare import Prepared, take_rows
from microcell.schema import resolve

__all__ = [
    "CELL_KINDS",
    "Block",
    "Grouping",
    "Request",
    "aggregate_table",
    "check_cells_option",
    "choose_blocks",
    "confidential_loss",
    "fit_cells",
    "make_grouping",
    "partition_blocks",
    "partition_records",
    "partition_within_limits",
    "quasi_identifier_loss",
    "resolve_limits",
    "searching",
    "weighted_loss",
]

LINKAGE_SAMPLE = 2000
"""Number of records on which blocks are compared by linkage."""

CELL_KINDS = ("power", "balls", "lookup")
"""Kinds of cells that a release can carry to assign further records."""


@dataclass(frozen=True)
class Request:
    """How to partition the records."""

    k: int
    method: str
    seed: int
    options: Mapping[str, Any]
    dependence: methods.Weights = 0.0
    regression: str = "linear"

    __repr__ = record_repr

    def __post_init__(self) -> None:
        methods.check_regression(self.regression)

    @property
    def weight(self) -> float:
        """Weight of all confidential columns (lambda)."""
        return methods.total_weight(self.dependence)


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Some quasi-identifiers (by position) and the partition computed from them alone."""

    columns: tuple[int, ...]
    partition: Partition


@dataclass(frozen=True, eq=False, repr=False)
class Grouping:
    """A partition, with its cells as a function of the points if requested.

    With ``blocks``, each block has its own partition; ``partition`` then groups the records that
    share the cells of all blocks, and its k is the size of the smallest such group.
    """

    partition: Partition
    cells: Cells | None = None
    blocks: tuple[Block, ...] = ()

    def parts(self, prepared: Prepared) -> tuple[Block, ...]:
        """Return the blocks; without blocks, all quasi-identifiers as one."""
        return self.blocks or (Block(tuple(range(len(prepared.schema.quasi))), self.partition),)


def check_cells_option(cells: Any) -> str | None:
    """Return the requested kind of cells: True means power cells, False and None mean none."""
    if isinstance(cells, bool) or cells is None:
        return "power" if cells else None
    if cells not in CELL_KINDS:
        raise OptionError(
            f"cells must be True, False or one of {', '.join(CELL_KINDS)}, not {cells!r}.",
            code="option.unknown",
            option="cells",
        )
    return str(cells)


def make_grouping(prepared: Prepared, request: Request, cells: str | None, blocks: Any) -> Grouping:
    """Partition the records as requested: in blocks, as a cell function, or directly."""
    if blocks is not None:
        return partition_blocks(prepared, request, blocks)
    if cells is not None:
        return fit_cells(prepared, request, cells)
    return Grouping(partition_records(prepared, request))


def partition_records(
    prepared: Prepared, request: Request, block: Sequence[int] | None = None
) -> Partition:
    """Partition the records within each stratum, by all quasi-identifiers or those of a block."""
    return _partition_points(prepared, request, _objective_points(prepared, request, block))


def _scaled_confidential(prepared: Prepared, request: Request) -> Floats:
    """Return the confidential points, each column with its weight."""
    parts, weights = prepared.confidential_parts, prepared.encoded.weights
    return methods.scale_confidential(prepared.confidential, parts, request.dependence, weights)


def _partition_points(prepared: Prepared, request: Request, points: Floats) -> Partition:
    return methods.partition_within(
        prepared.strata,
        points,
        request.k,
        method=request.method,
        weights=prepared.encoded.weights,
        persons=prepared.persons,
        together=prepared.schema.person_cells == "together",
        seed=request.seed,
        **request.options,
    )


def _objective_points(
    prepared: Prepared, request: Request, block: Sequence[int] | None = None
) -> Floats:
    """Return the points whose SSE the partition minimizes, given the weight of dependence."""
    points = prepared.points(block)
    if request.weight > 0:
        scaled = _scaled_confidential(prepared, request)
        points = methods.extend(points, scaled, request.weight, prepared.encoded.weights)
    return points


def resolve_limits(prepared: Prepared, limits: Mapping[str, float]) -> requirements.Requirements:
    """Resolve limits for prepared records and check that they can be met."""
    return requirements.resolve_limits(
        limits,
        prepared.table,
        prepared.schema,
        prepared.strata,
        prepared.encoded,
        prepared.persons,
    )


def searching(prepared: Prepared, request: Request) -> Searching | None:
    """Return the settings of a search within limits: the same objective and effort.

    None if the rows of a person stay together: the search exchanges single rows, so cells are
    merged instead.
    """
    if prepared.schema.person_cells == "together":
        return None
    return Searching(
        _objective_points(prepared, request),
        request.seed,
        request.options.get("effort", request.options.get("seconds", "balanced")),
        lambda k: partition_records(prepared, replace(request, k=k)),
    )


def partition_within_limits(
    cells: Partition,
    X: ArrayLike,
    limits: Mapping[str, float],
    confidential: Any,
    settings: Mapping[str, Any],
) -> Partition:
    """Return cells that meet limits, starting from the cells of a method with its settings."""
    unmet = [name for name in limits if not requirements.is_enforced(name)]
    if unmet:
        raise OptionError(
            f"{unmet[0]} cannot be required of a partition, only of a release. Use anonymize.",
            code="option.unsupported",
            option="require",
            measure=unmet[0],
        )
    points = as_points(X)
    weights = as_weights(settings.get("weights"), len(points))
    table, schema = _read_confidential(confidential, len(points))
    matrix = requirements.Points(points, weights)
    demands = requirements.resolve_limits(
        limits, table, schema, np.zeros(len(points), dtype=np.int64), matrix, cells.persons
    )
    searching = (
        None
        if settings.get("together")
        else Searching(
            points,
            settings["seed"],
            settings.get("effort", settings.get("seconds", "balanced")),
            lambda k: methods.partition(points, k, **settings),
        )
    )
    return enforce.meet(demands, cells, matrix, searching).partition


def _read_confidential(confidential: Any, n: int) -> tuple[Table, Schema]:
    """Return the confidential columns as a table and its schema; a single array has no name."""
    if confidential is None:
        confidential = {}
    elif not hasattr(confidential, "columns") and not isinstance(confidential, Mapping):
        array = np.asarray(confidential)
        arrays = [array] if array.ndim == 1 else list(array.T)
        confidential = {f"y{i}" if i else "y": values for i, values in enumerate(arrays)}
    if not confidential:
        return Table({}, n, None), Schema()
    table = tables.read(confidential)
    if table.rows != n:
        raise OptionError(
            f"confidential must have one row per point ({n}), not {table.rows}.",
            code="option.invalid",
            option="confidential",
        )
    columns = [Column(name) for name in table.names]
    return table, Schema(confidential=resolve.resolve_columns(columns, table))


def partition_blocks(prepared: Prepared, request: Request, blocks: Any) -> Grouping:
    """Partition by each block of quasi-identifiers, and intersect the partitions."""
    positions = choose_blocks(prepared, request, blocks)
    parts = tuple(Block(block, partition_records(prepared, request, block)) for block in positions)
    rows = np.stack([block.partition.labels for block in parts], axis=1)
    labels = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    smallest = int(people.count_people(labels, prepared.persons).min())
    joint = replace(parts[0].partition, labels=labels, k=smallest)
    return Grouping(joint, blocks=parts)


def choose_blocks(prepared: Prepared, request: Request, blocks: Any) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the quasi-identifiers in each block.

    ``blocks`` is a number of columns, names, or "correlation:B" or "linkage:B" for blocks of at
    most B columns chosen from the data.
    """
    columns = prepared.schema.quasi
    rule, size = resolve.as_block_rule(blocks)
    if rule is None:
        return resolve.as_blocks(blocks, columns)
    correlated = group_columns(_associations(prepared), size)
    if rule == "correlation" or len(correlated) == 1:
        return correlated
    fast = Request(request.k, "mdav", request.seed, {}, request.dependence)
    sample = _sample(prepared, request)
    return exchange_columns(correlated, lambda trial: _linkage(sample, fast, trial))


def _sample(prepared: Prepared, request: Request) -> Prepared:
    """Return some of the records, or all if strata would become too small."""
    n = prepared.table.rows
    if n <= LINKAGE_SAMPLE or prepared.persons is not None:
        return prepared
    rows = np.sort(np.random.default_rng(request.seed).choice(n, LINKAGE_SAMPLE, replace=False))
    strata = prepared.strata[rows]
    if len(np.unique(strata)) < strata.max() + 1 or np.bincount(strata).min() < request.k:
        return prepared
    encoded = prepared.encoded
    weights = None if encoded.weights is None else encoded.weights[rows]
    matrix = np.ascontiguousarray(encoded.matrix[rows])
    table = take_rows(prepared.table, rows)
    return replace(
        prepared,
        original=table,
        table=table,
        encoded=replace(encoded, matrix=matrix, weights=weights),
        strata=strata,
        rows=rows,
    )


def _associations(prepared: Prepared) -> Floats:
    """Return the share of variance that two quasi-identifiers have in common (RV coefficient)."""
    matrix, dimensions = prepared.encoded.matrix, prepared.dimensions
    centred = matrix - matrix.mean(axis=0)
    parts = [centred[:, part] for part in dimensions]
    cross = np.array([[float(np.square(a.T @ b).sum()) for b in parts] for a in parts])
    norms = np.sqrt(np.maximum(np.diag(cross), 1e-300))
    return np.asarray(cross / np.outer(norms, norms))


def _linkage(prepared: Prepared, request: Request, blocks: Sequence[tuple[int, ...]]) -> float:
    """Return the share of records that an outsider re-identifies, as the audit measures it."""
    schema = prepared.schema
    names = [[schema.quasi[place].name for place in block] for block in blocks]
    published = aggregate_table(prepared, partition_blocks(prepared, request, names))
    evidence = Evidence(prepared.table, published, schema, pairs=np.arange(prepared.table.rows))
    return float(evaluate(evidence, [measures()["linkage"]])["linkage"].value)


def fit_cells(prepared: Prepared, request: Request, kind: str) -> Grouping:
    """Fit cells that can assign further records, and the partition they induce.

    Power cells start from the method's cells and keep their sizes; that does not increase the
    information loss, unless there are sampling weights, which power cells ignore. Ball and lookup
    cells may be fewer than the method's cells. If the records of a cell have fewer than k persons,
    it is merged with a neighbour, and the cells are fitted again.
    """
    points, persons = prepared.encoded.matrix, prepared.persons
    _check_cells_fit(prepared, request, kind)
    if request.weight > 0:
        if kind != "power":
            raise OptionError(
                f"cells={kind!r} cannot be combined with dependence. Use power cells.",
                code="option.conflict",
                option="cells",
                other="dependence",
            )
        return _fit_dependent_cells(prepared, request)
    finest = _published_precision(prepared)
    if kind == "power" and request.method == "pcl" and "refine" not in request.options:
        # Without sampling weights: the sites are published, and a weight could make them a record.
        result = methods.pcl(points, request.k, seed=request.seed, **request.options)
        method, reason = "pcl", "requested"
        fitted = _blur(prepared, points, _Fitted(result.labels, result.cells), finest)
    else:
        start = partition_records(prepared, request)
        method, reason = start.method, f"{start.reason}, then converted to {kind} cells"
        fitted = _as_function(start.labels, points, kind, request.k)
        fitted = _blur(prepared, points, fitted, finest)
    fitted = _with_enough_persons(prepared, request, points, fitted, kind, finest)
    partition = Partition(fitted.labels, request.k, method, reason, persons)
    cells = replace(fitted.cells, k=request.k, encoding=prepared.encoded.encoding)
    return Grouping(partition, cells)


@dataclass(frozen=True, eq=False, repr=False)
class _Fitted:
    """Cells as a function, and the cell of each record that they were fitted to."""

    labels: Integers
    cells: Cells


def _as_function(labels: Integers, points: Floats, kind: str, k: int) -> _Fitted:
    if kind == "power":
        result = methods.power_cells(points, labels)
        return _Fitted(result.labels, result.cells)
    progress.report("fitting cells")
    fit = ball_cells if kind == "balls" else lookup_cells
    cells: Cells = fit(points, labels, k)
    # Equal records share a cell here, unlike in the partition.
    return _Fitted(cells.assign(points), cells)


def _with_enough_persons(
    prepared: Prepared,
    request: Request,
    points: Floats,
    fitted: _Fitted,
    kind: str,
    finest: Floats,
) -> _Fitted:
    """Merge cells with fewer than k persons, and fit the cells again."""
    persons = prepared.persons
    # Every turn has fewer cells than the one before.
    while persons is not None and people.count_people(fitted.labels, persons).min() < request.k:
        labels = methods.merge_short_cells(points, fitted.labels, request.k, persons, None)
        fitted = _blur(prepared, points, _as_function(labels, points, kind, request.k), finest)
    return fitted


def _blur(prepared: Prepared, points: Floats, fitted: _Fitted, finest: Floats) -> _Fitted:
    """Move the sites, so that they reveal no more than the rounded means that are published.

    Before that, sites close to a person with most of the rows are moved to the capped mean.
    """
    cells, labels = fitted.cells, fitted.labels
    if prepared.persons is not None:
        weights = aggregate.capped_weights(labels, prepared.schema, prepared.persons)
        cells = replace(cells, centroids=centroids(points, labels, weights))
    if isinstance(cells, PowerCells):
        blurred, labels = methods.blur_sites(cells, points, labels, finest)
        return _Fitted(labels, methods.unpin(blurred, points, labels.copy()))
    # The centroids are not used to assign records.
    blurred_sites = methods.blur_centroids(cells.centroids, points, finest)
    return _Fitted(labels, replace(cells, centroids=blurred_sites))


def _fit_dependent_cells(prepared: Prepared, request: Request) -> Grouping:
    """Fit power cells on the quasi-identifiers and the confidential columns predicted from them."""
    X, weights = prepared.encoded.matrix, prepared.encoded.weights
    regression = methods.fit_regression(
        X, _scaled_confidential(prepared, request), request.weight,
        kind=request.regression, k=request.k, weights=weights,
    )  # fmt: skip
    learned = regression.outcomes if regression.intercept is None else regression.intercept
    assert learned is not None
    width = learned.shape[-1]
    shape = RegressionCells(
        centroids=X[:1],
        sizes=np.ones(1, dtype=np.int64),
        k=1,
        costs=np.zeros(1),
        predictions=np.zeros((1, width)),
        **vars(regression),
    )
    points = np.ascontiguousarray(np.hstack([X, shape.predict(X)]))
    start = _partition_points(prepared, request, points)
    finest = np.concatenate([_published_precision(prepared), np.zeros(width)])
    fitted = _blur(prepared, points, _as_function(start.labels, points, "power", request.k), finest)
    fitted = _with_enough_persons(prepared, request, points, fitted, "power", finest)
    cells, m = fitted.cells, X.shape[1]
    assert isinstance(cells, PowerCells)
    function = replace(
        shape, centroids=cells.centroids[:, :m], predictions=cells.centroids[:, m:],
        sizes=cells.sizes, costs=cells.costs, k=request.k, encoding=prepared.encoded.encoding,
    )  # fmt: skip
    reason = f"{start.reason}, then converted to power cells"
    return Grouping(
        Partition(fitted.labels, request.k, start.method, reason, prepared.persons), function
    )


def _published_precision(prepared: Prepared) -> Floats:
    """Return the precision of the published means in each dimension; 0 if they are not rounded."""
    finest = np.zeros(prepared.encoded.matrix.shape[1])
    for column in prepared.encoded.encoding.columns:
        values = [prepared.table.columns[part] for part in column.parts]
        step = kind_of(column).precision(values)
        if step > 0 and not column.constant:
            finest[column.first : column.last] = (
                step * 2.0**column.exponent / column.scale * np.sqrt(column.weight)
            )
    return finest


def _check_cells_fit(prepared: Prepared, request: Request, kind: str) -> None:
    n_records, dimensions = prepared.encoded.matrix.shape
    if len(np.unique(prepared.strata)) > 1:
        raise OptionError(
            "cells is not supported with strata. Anonymize each stratum separately.",
            code="option.unsupported",
            option="cells",
        )
    if prepared.schema.person_cells == "together":
        raise OptionError(
            "cells is not supported with person_cells = 'together': the function assigns each row "
            "by itself, so the rows of a person may get different cells. Use person_cells = "
            "'rows'.",
            code="option.conflict",
            option="cells",
            other="person_cells",
        )
    if "cell" in prepared.schema.keys:
        raise OptionError(
            "A quasi-identifier is named 'cell', which is the column that assign adds. Rename it.",
            code="option.conflict",
            option="cells",
            column="cell",
        )
    if dimensions == 0:
        raise OptionError(
            "cells needs a quasi-identifier that varies, but all of them are constant. Omit cells.",
            code="option.conflict",
            option="cells",
        )
    distance = request.options.get("distance", "squared")
    if distance not in ("squared", "absolute"):
        raise OptionError(
            f"cells is not supported with the distance {distance!r}. Use 'squared' or 'absolute'.",
            code="option.unsupported",
            option="cells",
        )
    too_many = n_records // (2 * request.k - 1) > methods.MOST_POWER_CELLS
    if kind == "power" and request.method != "pcl" and too_many:
        raise OptionError(
            f"cells supports at most {methods.MOST_POWER_CELLS:,} power cells with this method, "
            "and this table needs more. Use method='pcl', which works within macrocells.",
            code="option.unsupported",
            option="cells",
            method=request.method,
        )


def aggregate_table(prepared: Prepared, grouping: Grouping) -> Table:
    """Return the table to publish: cell representatives in place of the records' values."""
    progress.report("aggregating")
    schema = prepared.schema
    published = prepared.table
    dropped: tuple[str, ...] = schema.removed
    for block in grouping.parts(prepared):
        part = replace(schema, quasi=tuple(schema.quasi[position] for position in block.columns))
        labels = block.partition.labels
        representatives = aggregate.represent(
            prepared.table, part, labels, prepared.encoded.weights, prepared.persons
        )
        published = tables.publish(published, labels, representatives, dropped)
        dropped = ()
    return published


def quasi_identifier_loss(prepared: Prepared, blocks: Sequence[Block]) -> float:
    """Return D_X: SSE / SST of the encoded quasi-identifiers."""
    points = [prepared.points(block.columns) for block in blocks]
    return _mean_loss(prepared, blocks, points)


def confidential_loss(prepared: Prepared, blocks: Sequence[Block]) -> float:
    """Return D_Y: SSE / SST of the encoded confidential columns."""
    return _mean_loss(prepared, blocks, [prepared.confidential] * len(blocks))


def weighted_loss(
    prepared: Prepared, blocks: Sequence[Block], dependence: methods.Weights
) -> float:
    """Return (1 - lambda) D_X + lambda D_Y, the quantity that cells minimize."""
    rest = 1 - methods.total_weight(dependence)
    quasi = rest * quasi_identifier_loss(prepared, blocks)
    if not isinstance(dependence, Mapping):
        return quasi + dependence * confidential_loss(prepared, blocks)
    parts = prepared.confidential_parts
    by_column = (
        weight * _mean_loss(prepared, blocks, [_of_column(prepared, parts[name])] * len(blocks))
        for name, weight in dependence.items()
    )
    return quasi + sum(by_column)


def _of_column(prepared: Prepared, part: slice) -> Floats:
    return np.ascontiguousarray(prepared.confidential[:, part])


def _mean_loss(prepared: Prepared, blocks: Sequence[Block], points: Sequence[Floats]) -> float:
    """Return the mean SSE / SST over blocks, weighted by the variance of each block."""
    weights = prepared.encoded.weights
    masses = np.ones(prepared.table.rows) if weights is None else weights
    spreads = np.array(
        [total_sum_of_squares(prepared.points(block.columns), masses) for block in blocks]
    )
    total = spreads.sum()
    shares = spreads / total if total > 0 else np.full(len(blocks), 1 / len(blocks))
    losses = [
        methods.distortion(matrix, block.partition.labels, weights=weights)
        for matrix, block in zip(points, blocks, strict=True)
    ]
    return float(shares @ np.array(losses))
