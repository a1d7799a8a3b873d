"""A session in memory: begun with the base, given batches, finished once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import auditing, encoding, methods, progress, tables
from microcell.errors import DataError, GuaranteeError, OptionError, SchemaError, TooFewRecordsError
from microcell.methods.increments import add_batch, check_strategy, order_by_coordinates
from microcell.model import Encoding, Floats, Integers, Partition, Schema, Table
from microcell.model.manifest import BatchSection, MethodSection
from microcell.release import manifest as manifests
from microcell.release import prepare
from microcell.release.partition import Grouping, Request, aggregate_table
from microcell.release.prove import measure_information_loss, prove
from microcell.release.publish import Release
from microcell.schema import resolve

__all__ = [
    "FINISHED",
    "WAITING",
    "Batch",
    "First",
    "Making",
    "Part",
    "Points",
    "Session",
    "State",
    "begin",
    "extend",
    "join",
    "make_first",
    "make_release",
    "place_part",
    "start",
]

WAITING = -1
"""The label of a record that has no cell yet."""

_ASKED = "requested"


@dataclass(frozen=True, eq=False)
class Points:
    """Records as points, and their sampling weights if they have some."""

    matrix: Floats
    weights: Floats | None

    def take(self, rows: Integers) -> "Points":
        """Those in these rows."""
        matrix = np.ascontiguousarray(self.matrix[rows])
        return Points(matrix, None if self.weights is None else self.weights[rows])

    @classmethod
    def stack(cls, parts: Sequence["Points"]) -> "Points":
        """Those of all parts, in the order given."""
        weights = [part.weights for part in parts if part.weights is not None]
        matrix = np.concatenate([part.matrix for part in parts])
        return cls(matrix, np.concatenate(weights) if weights else None)


@dataclass(frozen=True, eq=False)
class First:
    """The cells of records, by which method the first ones were made, and why by that one."""

    labels: Integers
    method: str
    why: str


def make_first(points: Points, strata: Integers, request: Request) -> First:
    """The cells of all strata with k records or more, numbered through; the others wait."""
    labels = np.full(len(strata), WAITING, dtype=np.int64)
    rows = np.flatnonzero(np.bincount(strata)[strata] >= request.k)
    if len(rows) == 0:
        return First(labels, request.method, _ASKED)
    ready = points.take(rows)
    found = methods.partition_within(
        _compact(strata[rows]),
        ready.matrix,
        request.k,
        method=request.method,
        weights=ready.weights,
        seed=request.seed,
        **request.options,
    )
    labels[rows] = found.labels
    return First(labels, found.method, found.reason)


def join(
    points: Points,
    strata: Integers,
    labels: Integers,
    request: Request,
    *,
    strategy: str,
    inertial: bool,
) -> First:
    """The cells of all records, of which the first ones have had ``labels``; those after them are new.

    With them the method that made the first cells of a stratum, and why; as make_first says it where none did.

    A stratum that has cells takes its new records by the strategy. One that has none yet gets cells by the method as
    soon as it has k records. Neither depends on the order of the new records.
    """
    out = np.full(len(strata), WAITING, dtype=np.int64)
    done, method, why = 0, request.method, _ASKED
    for rows in np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1]):
        old = rows[rows < len(labels)]
        old = old[labels[old] != WAITING]
        new = rows if len(old) == 0 else rows[rows >= len(labels)]
        if len(old) == 0 and len(new) < request.k:
            continue
        if len(old) == 0:
            new = new[_canonical(points.take(new))]
            first = make_first(points.take(new), np.zeros(len(new), dtype=np.int64), request)
            found, method, why = first.labels, first.method, first.why
        elif len(new) == 0:
            found = _compact(labels[old])
        else:
            share = len(new) / (len(strata) - len(labels))
            own = _options(request, share) if strategy == "separate" else {}
            found = _add(
                points,
                old,
                new,
                _compact(labels[old]),
                request,
                strategy=strategy,
                inertial=inertial,
                **own,
            )
        out[np.concatenate([old, new])] = done + found
        done += int(found.max()) + 1
    return First(out, method, why)


def _add(
    points: Points, old: Integers, new: Integers, labels: Integers, request: Request, **how: Any
) -> Integers:
    base, both = points.matrix[old], np.concatenate([old, new])
    weights = None if points.weights is None else points.weights[both]
    return add_batch(
        base, labels, points.matrix[new], request.k, weights=weights, seed=request.seed, **how
    ).labels


def _options(request: Request, share: float) -> dict[str, Any]:
    """How a batch makes cells of its own: as the base did; of a limit of seconds each stratum has its share."""
    options = dict(request.options)
    effort = options.get("effort")
    if isinstance(effort, (int, float)) and not isinstance(effort, bool):
        options["effort"] = effort * share
    return {"method": request.method, **options}


def _compact(labels: Integers) -> Integers:
    return np.unique(labels, return_inverse=True)[1]


def _canonical(points: Points) -> Integers:
    """The rows by their coordinates and weights, so that the order in which they came does not count."""
    weights = np.zeros(len(points.matrix)) if points.weights is None else points.weights
    return order_by_coordinates(points.matrix, weights)


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
        return prepare.take_rows(self.original, self.kept)

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
    resolved = resolve.resolve(prepare.as_schema(schema), original)
    kept = prepare.released_rows(original, resolved, missing)
    _check_enough(len(kept), request.k)
    table = prepare.take_rows(original, kept)
    progress.report("encoding")
    encoded = encoding.encode(table, resolved)
    points = Points(encoded.matrix, encoded.weights)
    first = make_first(points, auditing.class_labels(table, resolved.strata), request)
    base = Batch(
        original.rows, len(kept), None, False, _since(started), {}, tables.digest(original)
    )
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


def extend(
    state: State, source: Any, *, strategy: str, inertial: bool, again: bool = True
) -> tuple[State, Table]:
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
    rows = prepare.released_rows(batch, state.schema, state.missing)
    progress.report("encoding")
    placed = place_part(batch, rows, state.encoding, state.schema)
    original = tables.stack([state.original, batch])
    kept = np.concatenate([state.kept, state.original.rows + rows])
    table = prepare.take_rows(original, kept)
    encoding.fit(
        table, state.schema
    )  # what the release could not be made of is refused here, not at the end
    points = Points.stack([state.points, placed.points])
    cells = First(state.labels, state.used, state.why)
    if len(rows):
        progress.report("adding records")
        strata = auditing.class_labels(table, state.schema.strata)
        joined = join(
            points, strata, state.labels, state.request, strategy=strategy, inertial=inertial
        )
        cells = replace(cells, labels=joined.labels) if state.cells else joined
    added = Batch(
        batch.rows, len(rows), strategy, inertial, _since(started), placed.strange, digest
    )
    more = replace(
        state, original=original, kept=kept, points=points, batches=(*state.batches, added)
    )
    return replace(more, labels=cells.labels, used=cells.method, why=cells.why), batch


@dataclass(frozen=True, eq=False)
class Part:
    """The points of a part, and by column how many of its records have a category that the base has not."""

    points: Points
    strange: Mapping[str, int]


def place_part(part: Table, rows: Integers, fitted: Encoding, schema: Schema) -> Part:
    """Some rows of a part of the records as points of the base's encoding, and how many have strange categories."""
    placed, weights = encoding.place(part, fitted), _weights_of(part, rows, schema)
    strange = placed.unknown
    if strange and len(rows) < part.rows:
        strange = encoding.place(tables.take(part, rows), fitted).unknown
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
    methods.check_k(request.k)
    methods.check_method(request.method, request.options)
    prepare.check_handling(missing, request.seed)
    if request.options.get("refine"):
        raise OptionError(
            "refine is for cells that stay as they are. Add batches by the strategy 'refined' instead."
        )


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


Making = tuple[str, float]
"""When a release was made, as ISO text, and how many seconds its making took in all."""


def make_release(state: State, making: Making | None = None) -> Release:
    """Release all records so far; identical to an earlier release if its ``making`` is given.

    The information loss is measured with the means and deviations of all records, although the
    cells were formed with those of the base.
    """
    started = perf_counter()
    table, schema, k = state.table, state.schema, state.request.k
    strata = auditing.class_labels(table, schema.strata)
    _check_waiting(state, strata)
    progress.report("encoding")
    encoded = encoding.encode(table, schema)
    prepared = prepare.Prepared(state.original, table, schema, encoded, strata, state.kept)
    partition = Partition(state.labels, k, method=state.used, reason=state.why)
    published = aggregate_table(prepared, Grouping(partition))
    progress.report("checking")
    class_sizes = prove(published, schema, k=k, n_rows=table.rows)
    loss = methods.distortion(encoded.matrix, partition.labels, weights=encoded.weights)
    information_loss = measure_information_loss(table, published, schema)
    elapsed = sum(batch.seconds for batch in state.batches) + perf_counter() - started
    created, seconds = making or (None, round(elapsed, 3))
    manifest = manifests.build_manifest(
        schema,
        state.original.names,
        created=created,
        k=k,
        method=_describe_method(state, partition),
        seed=state.request.seed,
        missing=state.missing,
        input=manifests.describe_table(state.original),
        records=manifests.describe_records(
            state.original.rows, table.rows, state.missing, prepared.n_missing
        ),
        cells=manifests.describe_cells(partition, loss),
        information_loss=information_loss,
        seconds=seconds,
    )
    return Release(
        table=published.native,
        partition=partition,
        manifest=manifest,
        schema=schema,
        published=published,
        row_order=manifests.row_order(table, manifest),
        original=state.original,
        class_sizes=class_sizes,
        sources=() if state.source is None else (state.source,),
    )


def _describe_method(state: State, partition: Partition) -> MethodSection:
    """Describe the method and, if there are any, the batches after the base.

    Digests of batches are left out: the records of a small batch could be found by trial.
    """
    request = state.request
    method = manifests.describe_method(request.method, partition, request.options)
    base, *added = state.batches
    if not added:
        return method
    batches = tuple(_describe(batch) for batch in added)
    return method.model_copy(update={"base": _describe(base), "batches": batches})


def _describe(batch: Batch) -> BatchSection:
    return BatchSection(
        records=batch.records,
        seconds=batch.seconds,
        strategy=batch.strategy,
        inertial=None if batch.strategy is None else batch.inertial,
    )


def _check_waiting(state: State, strata: Any) -> None:
    waiting = np.unique(strata[state.labels == WAITING])
    if len(waiting):
        sizes = np.bincount(strata)
        raise TooFewRecordsError(
            f"{len(waiting)} of {len(sizes)} strata (by {', '.join(map(repr, state.schema.strata))}) have fewer than "
            f"k = {state.request.k} records; the smallest has {sizes[waiting].min()}. Add further records of these "
            "strata, or begin anew with strata merged or a lower k. Nothing was released."
        )


FINISHED = (
    "This session is finished, and its table released. A second version of one table could be laid beside the first, "
    "and what changed would tell of single records; so nothing can be added. Begin a session anew for another table."
)


class Session:
    """A table that comes in parts: cells of those that are there, and one release when all are.

    :func:`start` makes one. Between the calls the cells of all records so far have k or more; only records of strata
    that have not yet k wait without a cell. A batch that is refused leaves the session as it was.
    """

    def __init__(self, state: State, making: Making | None = None) -> None:
        self._state = state
        self._making = making
        self._release: Release | None = None

    @property
    def state(self) -> State:
        """The records so far, their points and their cells; original values are in it."""
        return self._state

    @property
    def k(self) -> int:
        """The least number of records in a cell."""
        return self._state.request.k

    @property
    def records(self) -> int:
        """How many records there are so far."""
        return self._state.original.rows

    @property
    def table(self) -> Table:
        """All records so far as they were read, for an audit of the release."""
        return self._state.original

    @property
    def cells(self) -> int:
        """How many cells there are so far."""
        return self._state.cells

    @property
    def waiting(self) -> int:
        """How many records have no cell yet, as their stratum has fewer than k."""
        return self._state.waiting

    @property
    def batches(self) -> tuple[Batch, ...]:
        """What was added, the base first."""
        return self._state.batches

    @property
    def finished(self) -> bool:
        """True once the release was made."""
        return self._release is not None or self._making is not None

    def add(self, batch: Any, *, strategy: str = "refined", inertial: bool = False) -> Batch:
        """What adding a batch came to; its records join the cells by ``strategy``.

        Parameters
        ----------
        batch
            A table with the columns of the base, in the kind of frame that the base came in, or a file where that was
            one. Categories that the base has not are placed as near as can be told, and counted; outside of a declared
            order they are refused.
        strategy, inertial
            "refined", "separate" (by the session's method), "nearest", "split-late" or "split-early"; see
            :func:`microcell.methods.increments.add_batch`.

        Raises
        ------
        GuaranteeError
            The session is finished.
        SchemaError, DataError
            Other columns or types than the base, no records, missing values that are to be an error.
        """
        if self.finished:
            raise GuaranteeError(FINISHED)
        self._state, _ = extend(self._state, batch, strategy=strategy, inertial=inertial)
        return self._state.batches[-1]

    def finish(self) -> Release:
        """The release of all records, as :func:`anonymize` gives one; the same whenever it is asked for.

        :class:`TooFewRecordsError`, and a session that can still be added to, if a stratum has fewer than k records.
        """
        if self._release is None:
            self._release = make_release(self._state, self._making)
        return self._release


def start(
    base: Any,
    schema: Schema | str | Path,
    k: int,
    *,
    method: str = "auto",
    seed: int = 0,
    missing: str = "error",
    **options: Any,
) -> Session:
    """A session with the records that are there already, k or more; further ones are added as they arrive.

    The means and deviations of the base, and its categories, place all further records until the release. A column
    that has one value in the base has no part in distances. So begin with a base that is like the whole.

    Parameters
    ----------
    base, schema, k, method, seed, missing, options
        As :func:`anonymize` takes them. Strata of the base with fewer than k records wait for further ones.

    Raises
    ------
    TooFewRecordsError
        The base has fewer than k records.

    Examples
    --------
    >>> from microcell import Schema
    >>> schema = Schema(quasi=["age"], confidential=["income"])
    >>> session = start({"age": [31, 33, 60, 62], "income": [10, 20, 40, 50]}, schema, 2)
    >>> session.add({"age": [32, 64], "income": [30, 60]}, strategy="nearest").records
    2
    >>> session.finish().table["age"]
    array([32, 32, 62, 62, 32, 62])
    """
    return Session(begin(base, schema, Request(k, method, seed, options), missing))
