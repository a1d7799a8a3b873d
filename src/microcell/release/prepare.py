"""What releasing and comparing have in common: from a source to points, and from points to cells within strata."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from microcell import auditing, encoding, methods, progress, tables
from microcell.cells import Cells, PowerCells, ball_cells, lookup_cells
from microcell.errors import GuaranteeError, OptionError, SchemaError, TooFewRecordsError
from microcell.kernels.arrays import total_sum_of_squares
from microcell.model import Encoded, Floats, Integers, Partition, Schema, Table
from microcell.release import aggregate
from microcell.schema import files, resolve

__all__ = [
    "FUNCTIONS",
    "Block",
    "Made",
    "Prepared",
    "Request",
    "as_schema",
    "check_function",
    "check_handling",
    "find_dependence_loss",
    "find_distortion",
    "make_blocks",
    "make_cells",
    "make_function",
    "prepare",
    "prove",
    "publish_cells",
    "released_rows",
    "take_rows",
]

MISSING = ("error", "drop", "impute")

FUNCTIONS = ("power", "balls", "lookup")
"""The kinds of cells that a release can carry as a function."""


@dataclass(frozen=True)
class Request:
    """How cells are to be made."""

    k: int
    method: str
    seed: int
    options: Mapping[str, Any]
    dependence: float = 0.0


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table as read, the records of it that go on, their resolved schema, their points and their strata."""

    original: Table
    table: Table
    schema: Schema
    encoded: Encoded
    strata: Integers

    @property
    def dimensions(self) -> tuple[slice, ...]:
        """The dimensions of each quasi-identifier."""
        return tuple(slice(column.first, column.last) for column in self.encoded.encoding.columns)

    @property
    def gaps(self) -> int:
        """How many values of quasi-identifiers are missing."""
        return sum(encoding.count_missing(self.table, self.schema).values())

    @cached_property
    def confidential(self) -> Floats:
        """The confidential columns as points; :class:`OptionError` if there is nothing to depend on."""
        if not self.schema.confidential:
            raise OptionError(
                "dependence is for confidential columns, and the schema names none. Name some, or use 0."
            )
        points = encoding.encode_confidential(self.table, self.schema)
        if points.shape[1] == 0:
            raise OptionError(
                "No confidential column has differences, so that nothing depends on them. Use 0."
            )
        return points

    def points(self, block: Sequence[int] | None = None) -> Floats:
        """The points of some quasi-identifiers, by their places; of all if left out."""
        if block is None:
            return self.encoded.matrix
        return np.ascontiguousarray(
            np.hstack([self.encoded.matrix[:, self.dimensions[place]] for place in block])
        )


def check_handling(missing: str, seed: int) -> None:
    """Refuse a word for missing values that is unknown, and a seed that is none."""
    if missing not in MISSING:
        raise OptionError(f"missing must be one of {', '.join(MISSING)}, not {missing!r}.")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise OptionError(f"seed must be a whole number of 0 or more, not {seed!r}.")


def prepare(source: Any, schema: Schema | str | Path, *, k: int, missing: str) -> Prepared:
    """The source read, its incomplete records handled and the others encoded; refused if they are too few for k."""
    progress.report("reading")
    original = tables.read(source)
    _check_enough(original, k)
    resolved = resolve.resolve(as_schema(schema), original)
    table = take_rows(original, released_rows(original, resolved, missing))
    _check_enough(table, k)
    strata = auditing.class_labels(table, resolved.strata)
    _check_strata(strata, resolved, k)
    progress.report("encoding")
    return Prepared(original, table, resolved, encoding.encode(table, resolved), strata)


def make_cells(
    prepared: Prepared, request: Request, block: Sequence[int] | None = None
) -> Partition:
    """Cells within each stratum, numbered through: of all quasi-identifiers, or of those of a block."""
    points = prepared.points(block)
    if request.dependence > 0:
        points = methods.extend(
            points, prepared.confidential, request.dependence, prepared.encoded.weights
        )
    return methods.partition_within(
        prepared.strata,
        points,
        request.k,
        method=request.method,
        weights=prepared.encoded.weights,
        seed=request.seed,
        **request.options,
    )


@dataclass(frozen=True, eq=False)
class Block:
    """Some quasi-identifiers, by their places, and the cells that were made of them alone."""

    columns: tuple[int, ...]
    partition: Partition


@dataclass(frozen=True, eq=False)
class Made:
    """A partition, and the cells that yield it as a function of the points, if they were asked for.

    Of ``blocks``, if there are some, each has cells of its own; the partition is then of the records that share all of
    them, and its k what that comes to.
    """

    partition: Partition
    cells: Cells | None = None
    blocks: tuple[Block, ...] = ()

    def parts(self, prepared: Prepared) -> tuple[Block, ...]:
        """The blocks; all quasi-identifiers as one where there are none."""
        return self.blocks or (Block(tuple(range(len(prepared.schema.quasi))), self.partition),)


def make_blocks(prepared: Prepared, request: Request, blocks: Any) -> Made:
    """Cells of each block of quasi-identifiers on its own, and what all of them together come to."""
    places = resolve.as_blocks(blocks, prepared.schema.quasi)
    made = tuple(Block(block, make_cells(prepared, request, block)) for block in places)
    rows = np.stack([block.partition.labels for block in made], axis=1)
    _, labels, sizes = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    first = made[0].partition
    joint = Partition(labels.reshape(-1), int(sizes.min()), method=first.method, why=first.why)
    return Made(joint, blocks=made)


def publish_cells(prepared: Prepared, made: Made) -> Table:
    """The table that a release of these cells is."""
    progress.report("aggregating")
    table, schema, weights = prepared.table, prepared.schema, prepared.encoded.weights
    published, dropped = table, (*schema.identifiers, *schema.drop)
    for block in made.parts(prepared):
        own = replace(schema, quasi=tuple(schema.quasi[place] for place in block.columns))
        representatives = aggregate.represent(table, own, block.partition.labels, weights)
        published = tables.publish(published, block.partition.labels, representatives, dropped)
        dropped = ()
    return published


def prove(published: Table, schema: Schema, k: int, rows: int) -> None:
    """Count the columns, the records and k of the table about to be published, as an outsider would."""
    strange = set(published.names) ^ {*schema.keys, *schema.unchanged}
    if strange:
        raise GuaranteeError(
            f"Columns {sorted(strange)} are not as the schema wants them. Nothing was released."
        )
    if published.rows != rows:
        raise GuaranteeError(
            f"The release has {published.rows} records instead of {rows}. Nothing was released."
        )
    smallest = int(auditing.class_sizes(published, schema.keys).min(initial=rows))
    if smallest < k:
        raise GuaranteeError(
            f"The finished table has a class of {smallest} records, fewer than k = {k}. Nothing was released; please "
            "report this as a defect."
        )


def find_distortion(prepared: Prepared, blocks: Sequence[Block]) -> float:
    """D_X, what is lost of the points of the quasi-identifiers: SSE / SST."""
    points = [prepared.points(block.columns) for block in blocks]
    return _mean_distortion(prepared, blocks, points)


def find_dependence_loss(prepared: Prepared, blocks: Sequence[Block]) -> float:
    """D_Y, what the cells do not predict of the points of the confidential columns: SSE / SST."""
    return _mean_distortion(prepared, blocks, [prepared.confidential] * len(blocks))


def _mean_distortion(
    prepared: Prepared, blocks: Sequence[Block], points: Sequence[Floats]
) -> float:
    """The distortion of some points by the cells of each block, weighted by the variance of the block."""
    weights = prepared.encoded.weights
    each = np.ones(prepared.table.rows) if weights is None else weights
    spreads = np.array(
        [total_sum_of_squares(prepared.points(block.columns), each) for block in blocks]
    )
    shares = spreads / spreads.sum() if spreads.sum() > 0 else np.full(len(blocks), 1 / len(blocks))
    pairs = zip(points, blocks, strict=True)
    losses = [
        methods.distortion(side, block.partition.labels, weights=weights) for side, block in pairs
    ]
    return float(shares @ np.array(losses))


def check_function(kind: Any) -> str | None:
    """The kind of cells asked for: True stands for power cells, False and None for none."""
    if isinstance(kind, bool) or kind is None:
        return "power" if kind else None
    if kind not in FUNCTIONS:
        raise OptionError(
            f"cells must be true, false or one of {', '.join(FUNCTIONS)}, not {kind!r}."
        )
    return str(kind)


def make_function(prepared: Prepared, request: Request, kind: str) -> Made:
    """Cells as a function of that kind, and the partition that the function makes of the records.

    Power cells: the method's cells polished at the same sizes, which cannot raise the distortion (but for sampling
    weights, which they do not know). Balls and lookup: the cells that the function makes of the records, which may be
    fewer.
    """
    points, weights, k = prepared.encoded.matrix, prepared.encoded.weights, request.k
    if len(np.unique(prepared.strata)) > 1:
        raise OptionError(
            "Cells as a function do not go with strata yet. Anonymize each stratum on its own."
        )
    if "cell" in prepared.schema.keys:
        raise OptionError(
            "A quasi-identifier is named 'cell', as the column that assigning adds. Rename it."
        )
    if points.shape[1] == 0:
        raise OptionError(
            "No quasi-identifier varies, so that there is nothing that cells could be a function of."
        )
    if (
        kind == "power"
        and request.method != "pcl"
        and len(points) // (2 * k - 1) > methods.MOST_POWER_CELLS
    ):
        raise OptionError(
            f"These records make more than {methods.MOST_POWER_CELLS:,} cells, too many to find a function of. "
            "Use method='pcl', which makes cells within macrocells."
        )
    if kind == "power" and request.method == "pcl" and "refine" not in request.options:
        found = methods.pcl(points, k, weights=weights, seed=request.seed, **request.options)
        made = Made(Partition(found.labels, k, method="pcl", why=methods.REQUESTED), found.cells)
    else:
        made = _function_of(make_cells(prepared, request), points, weights, kind)
    if isinstance(made.cells, PowerCells):
        made = replace(made, cells=methods.unpin(made.cells, points, made.partition.labels.copy()))
    assert made.cells is not None
    return replace(made, cells=replace(made.cells, k=k, encoding=prepared.encoded.encoding))


def _function_of(partition: Partition, points: Floats, weights: Floats | None, kind: str) -> Made:
    k = partition.k
    if kind == "power":
        found = methods.power_cells(points, partition.labels, weights=weights)
        why = f"{partition.why}, then polished into power cells"
        return Made(Partition(found.labels, k, method=partition.method, why=why), found.cells)
    progress.report("making the cells a function")
    cells: Cells = (ball_cells if kind == "balls" else lookup_cells)(points, partition.labels, k)
    why = f"{partition.why}, then as the function of {kind} has it"  # equal records are in one cell there
    return Made(Partition(cells.assign(points), k, method=partition.method, why=why), cells)


def as_schema(schema: Any) -> Schema:
    """The schema, read if its path was given."""
    if isinstance(schema, (str, Path)):
        return files.load_schema(schema)
    if not isinstance(schema, Schema):
        raise SchemaError(
            f"schema must be a Schema or the path of its file, not {type(schema).__name__}."
        )
    return schema


def released_rows(table: Table, schema: Schema, missing: str) -> Integers:
    """The rows to release: all, or those with every quasi-identifier."""
    if missing == "drop":
        return np.flatnonzero(~encoding.missing_rows(table, schema))
    if missing == "error":
        encoding.check_missing(table, schema)
    return np.arange(table.rows)


def take_rows(table: Table, rows: Integers) -> Table:
    """The table with these rows; itself if they are all of its own."""
    return table if len(rows) == table.rows else tables.take(table, rows)


def _check_enough(table: Table, k: int) -> None:
    if table.rows < k:
        raise TooFewRecordsError(
            f"{table.rows} records cannot make a cell of k = {k}. Lower k or add records; nothing was released."
        )


def _check_strata(strata: Integers, schema: Schema, k: int) -> None:
    sizes = np.bincount(strata)
    small = sizes[sizes < k]
    if len(small):
        raise TooFewRecordsError(
            f"{len(small)} of {len(sizes)} strata (by {', '.join(map(repr, schema.strata))}) have fewer than "
            f"k = {k} records; the smallest has {small.min()}. Merge strata, lower k, or make the column a "
            "quasi-identifier, so that cells may span its values."
        )
