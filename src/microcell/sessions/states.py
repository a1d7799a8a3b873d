"""What a session knows: the records so far, their points in the base's encoding, and their cells."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import auditing, encoding, groundwork, partitioning, progress, roles, tables
from microcell.errors import DataError, OptionError, SchemaError, TooFewRecordsError
from microcell.groundwork import Request
from microcell.model import Encoding, Floats, Integers, Schema, Table
from microcell.partitioning.increments import check_strategy
from microcell.sessions.joining import WAITING, First, Points, join, make_first

__all__ = ["Batch", "Part", "State", "begin", "extend", "place_part"]


@dataclass(frozen=True)
class Batch:
    """A part of the records: the base, of which ``strategy`` is None, or a batch that was added.

    ``records`` are as many as it has, ``kept`` those that will be released. ``strange`` says, by column, how many of
    them have a category that the base has not. ``digest`` is the SHA-256 of the contents.
    """

    records: int
    kept: int
    strategy: str | None
    inertial: bool
    seconds: float
    strange: Mapping[str, int]
    digest: str


@dataclass(frozen=True, eq=False)
class State:
    """All records as read and, of those in the rows ``kept``, the points and the cells, -1 for records that wait."""

    original: Table
    kept: Integers
    schema: Schema
    request: Request
    missing: str
    encoding: Encoding
    points: Points
    labels: Integers
    used: str
    why: str
    batches: tuple[Batch, ...]
    source: Path | None = None

    @property
    def table(self) -> Table:
        """The records that will be released."""
        return groundwork.take_rows(self.original, self.kept)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.labels.max(initial=WAITING)) + 1

    @property
    def waiting(self) -> int:
        """How many records have no cell yet, as their stratum has fewer than k."""
        return int(np.count_nonzero(self.labels == WAITING))


def begin(source: Any, schema: Schema | str | Path, request: Request, missing: str) -> State:
    """The state after the base: its encoding, and cells of its strata of k records or more."""
    _check_request(request, missing)
    options = {name: value for name, value in request.options.items() if name != "refine"}
    request = replace(request, k=int(request.k), seed=int(request.seed), options=options)
    started = perf_counter()
    progress.report("reading")
    original = _own(tables.read(source))
    _check_enough(original.rows, request.k)
    resolved = roles.resolve(groundwork.as_schema(schema), original)
    kept = groundwork.released_rows(original, resolved, missing)
    _check_enough(len(kept), request.k)
    table = groundwork.take_rows(original, kept)
    progress.report("encoding")
    encoded = encoding.encode(table, resolved)
    points = Points(encoded.matrix, encoded.weights)
    first = make_first(points, auditing.class_labels(table, resolved.strata), request)
    base = Batch(original.rows, len(kept), None, False, _since(started), {}, tables.digest(original))
    return State(
        original,
        kept,
        resolved,
        request,
        missing,
        encoded.encoding.published(1),  # all names, without their counts: as it can be saved
        points,
        first.labels,
        first.method,
        first.why,
        (base,),
        original.origin.path,
    )


def extend(state: State, source: Any, *, strategy: str, inertial: bool, again: bool = True) -> tuple[State, Table]:
    """The state with a batch in it, and the batch as it goes with the others; the state given is not changed.

    Unless ``again``, a batch with the very records of one that is in the state is refused.
    """
    own: dict[str, Any] = {"method": state.request.method, "options": state.request.options}
    check_strategy(
        strategy,
        inertial=inertial,
        rounds=None,
        **(own if strategy == "separate" else {"method": None, "options": {}}),
    )
    started = perf_counter()
    progress.report("reading")
    batch = tables.align(state.original, tables.read(source))
    if batch.rows == 0:
        raise DataError("The batch has no records. Add one when there are some.")
    digest = tables.digest(batch)
    if not again:
        _check_new(state, digest)
    _check_orders(batch, state.schema)
    rows = groundwork.released_rows(batch, state.schema, state.missing)
    progress.report("encoding")
    placed = place_part(batch, rows, state.encoding, state.schema)
    original = tables.stack([state.original, batch])
    kept = np.concatenate([state.kept, state.original.rows + rows])
    table = groundwork.take_rows(original, kept)
    encoding.fit(table, state.schema)  # what the release could not be made of is refused here, not at the end
    points = Points.stack([state.points, placed.points])
    cells = First(state.labels, state.used, state.why)
    if len(rows):
        progress.report("adding records")
        strata = auditing.class_labels(table, state.schema.strata)
        joined = join(points, strata, state.labels, state.request, strategy=strategy, inertial=inertial)
        cells = replace(cells, labels=joined.labels) if state.cells else joined
    added = Batch(batch.rows, len(rows), strategy, inertial, _since(started), placed.strange, digest)
    more = replace(state, original=original, kept=kept, points=points, batches=(*state.batches, added))
    return replace(more, labels=cells.labels, used=cells.method, why=cells.why), batch


@dataclass(frozen=True, eq=False)
class Part:
    """The points of a part, and by column how many of its records have a category that the base has not."""

    points: Points
    strange: Mapping[str, int]


def place_part(part: Table, rows: Integers, fitted: Encoding, schema: Schema) -> Part:
    """Some rows of a part of the records as points of the base's encoding, and how many have strange categories."""
    placed, weights = encoding.place(part, fitted), _weights_of(part, rows, schema)
    strange = placed.strange
    if strange and len(rows) < part.rows:
        strange = encoding.place(tables.take(part, rows), fitted).strange
    return Part(Points(placed.matrix, weights).take(rows), dict(strange))


def _weights_of(part: Table, rows: Integers, schema: Schema) -> Floats | None:
    """The sampling weights of a part, refused where one of these rows has none; None if the schema names no column."""
    if schema.weight is None:
        return None
    values = part.columns[schema.weight]
    weights = values.reals() if values.is_number else np.full(part.rows, np.nan)
    wrong = rows[~(np.isfinite(weights[rows]) & (weights[rows] > 0))]
    if len(wrong):
        raise DataError(
            f"Weight column {schema.weight!r} must hold positive numbers; {len(wrong)} rows of the batch do not, the "
            f"first is row {wrong[0] + 1}."
        )
    return weights


def _own(table: Table) -> Table:
    """The table with a frame of its own: a session lasts, and the one that was given may be changed meanwhile."""
    return table if table.origin.source == "file" else tables.take(table, np.arange(table.rows))


def _check_new(state: State, digest: str) -> None:
    places = [number for number, one in enumerate(state.batches) if one.digest == digest]
    if places:
        which = "the base" if places[0] == 0 else f"batch {places[0]}"
        raise OptionError(
            f"The state has these very records already, as {which}. If they are other people's, with the same values, "
            "say so by again (--again)."
        )


def _check_request(request: Request, missing: str) -> None:
    partitioning.check_k(request.k)
    partitioning.check_method(request.method, request.options)
    groundwork.check_handling(missing, request.seed)
    if request.options.get("refine"):
        raise OptionError("refine is for cells that stay as they are. Add batches by the strategy 'refined' instead.")


def _check_enough(records: int, k: int) -> None:
    if records < k:
        raise TooFewRecordsError(
            f"{records} records are too few to begin with: the base needs k = {k} or more. Wait for further records."
        )


def _check_orders(batch: Table, schema: Schema) -> None:
    """Refuse categories outside a declared order, which could not be placed."""
    for column in schema.quasi:
        if column.order is None:
            continue
        values = batch.columns[column.name]
        strange = np.flatnonzero((values.ranks(column.order) < 0) & ~values.missing)
        if len(strange):
            raise SchemaError(
                f"Column {column.name!r}: {len(strange)} rows of the batch hold a category that is not in its order, "
                f"the first is row {strange[0] + 1}. Correct them, or begin anew with the order completed."
            )


def _since(started: float) -> float:
    return round(perf_counter() - started, 3)
