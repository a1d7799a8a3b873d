"""Sessions: tables that arrive in parts, partitioned as they arrive and released once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import auditing, encoding, methods, progress, tables
from microcell._display import count, html_card, record_html, record_repr, short_repr
from microcell.errors import DataError, GuaranteeError, OptionError, SchemaError, TooFewRecordsError
from microcell.measures import people
from microcell.methods.increments import add_batch, check_strategy, order_by_coordinates
from microcell.model import Encoding, Floats, Integers, Partition, Schema, Table
from microcell.model.manifest import BatchSection, MethodSection
from microcell.release import manifest as manifests
from microcell.release import order, prepare
from microcell.release.aggregate import count_dominated
from microcell.release.partition import Grouping, Request, aggregate_table
from microcell.release.prove import measure_information_loss, prove
from microcell.release.publish import Release, check_outputs
from microcell.schema import resolve

__all__ = [
    "WAITING",
    "Batch",
    "FinishedRelease",
    "Labelled",
    "PlacedPart",
    "Points",
    "Session",
    "State",
    "add_part",
    "build_release",
    "check_same_key",
    "finished_error",
    "join",
    "partition_base",
    "place_part",
    "start",
    "start_state",
]

_STRATA_ADVICE = "Add records of these strata, or start again with merged strata or a lower k."

WAITING = -1
"""Label of a record without a cell, because its stratum has fewer than k people so far."""

_REQUESTED = "requested"


# ---------------------------------------------------------------------------- public interface


@dataclass(frozen=True)
class Batch:
    """One part of the records: the base, or a batch added later."""

    records: int
    """Number of records."""
    kept: int
    """Number of records that will be released."""
    strategy: str | None
    """How the batch was added; None for the base."""
    inertial: bool
    seconds: float
    unknown_categories: Mapping[str, int]
    """Number of records with a category that the base does not have, by column."""
    digest: str
    """SHA-256 of the contents."""

    def __repr__(self) -> str:
        return short_repr(
            self, count(self.records, "record"), kept=self.kept, strategy=self.strategy or "base"
        )

    _repr_html_ = record_html


class Session:
    """A table that arrives in parts, in memory; :func:`start` creates one.

    All records so far are in cells of at least k people, except records of strata with fewer than
    k, which wait. Rows of one person may come with different batches: k counts distinct persons if
    the schema names a person column, otherwise records. A batch that raises an error leaves the
    session unchanged.
    """

    def __init__(self, state: "State") -> None:
        self._state = state
        self._release: Release | None = None

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(self.records, "record"),
            count(self.cells, "cell"),
            k=self.k,
            batches=len(self.batches),
            finished=self.finished,
        )

    def _repr_html_(self) -> str:
        return html_card(
            f"Every cell has at least {count(self.k, 'record')}",
            {
                "Records": f"{self.records:,}",
                "Cells": f"{self.cells:,}",
                "Waiting": count(self.waiting, "record"),
                "Batches": f"{len(self.batches):,}",
                "Finished": "yes" if self.finished else "no",
            },
            next_steps={
                "session.add(table)": "add a batch of records",
                "session.finish()": "produce the release",
            },
        )

    @property
    def state(self) -> "State":
        """Records, points and cells so far. Contains original values."""
        return self._state

    @property
    def k(self) -> int:
        """Smallest number of people in a cell."""
        return self._state.request.k

    @property
    def records(self) -> int:
        """Number of records so far."""
        return self._state.original.rows

    @property
    def table(self) -> Table:
        """All records so far, unchanged, for an audit of the release."""
        return self._state.original

    @property
    def cells(self) -> int:
        """Number of cells so far."""
        return self._state.cells

    @property
    def waiting(self) -> int:
        """Number of records without a cell, because their stratum has fewer than k people."""
        return self._state.waiting

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The base and the batches added so far."""
        return self._state.batches

    @property
    def finished(self) -> bool:
        """True once the release has been produced."""
        return self._release is not None

    def add(self, batch: Any, *, strategy: str = "refined", inertial: bool = False) -> Batch:
        """Add a batch of records to the cells.

        Parameters
        ----------
        batch
            A table with the columns of the base, as the same type of data frame, or a file if the
            base was a file. Categories that the base does not have are placed as close as possible
            and counted; outside a declared order they are an error.
        strategy, inertial
            "refined", "separate" (with the session's method), "nearest", "split-late" or
            "split-early"; see :func:`microcell.methods.increments.add_batch`.

        Raises
        ------
        GuaranteeError
            The session is finished.
        SchemaError, DataError
            The batch is empty, has other columns or types than the base, or has missing values
            although they are an error.
        """
        if self.finished:
            raise finished_error()
        self._state, _ = add_part(self._state, batch, strategy=strategy, inertial=inertial)
        return self._state.batches[-1]

    def finish(self, *, order_key: str | Path | None = None) -> Release:
        """Release all records; repeating the call returns the same release.

        Parameters
        ----------
        order_key
            Key of the order of published rows; see :func:`microcell.anonymize`.

        Raises
        ------
        OptionError
            The session was finished with another key.
        TooFewRecordsError
            A stratum has fewer than k people. The session remains open.
        """
        if self._release is None:
            self._release = build_release(self._state, order_key=order_key)
        check_same_key(order_key, self._release.manifest.order_key)
        return self._release

    def publish(
        self,
        path: str | Path,
        *,
        report: str | Path | None = None,
        certificate: str | Path | None = None,
        audience: str = "internal",
        keep_order: bool = False,
        order_key: str | Path | None = None,
        overwrite: bool = True,
    ) -> Release:
        """Finish the session and write its release; see :meth:`microcell.Release.publish`.

        The outputs are checked before the session is finished.
        """
        sources = () if self._state.source is None else (self._state.source,)
        check_outputs(
            path, report=report, certificate=certificate, sources=sources, overwrite=overwrite
        )
        return self.finish(order_key=order_key).publish(
            path,
            report=report,
            certificate=certificate,
            audience=audience,
            keep_order=keep_order,
            overwrite=overwrite,
        )


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
    """Start a session with the records that have arrived so far, at least k.

    Means, standard deviations and categories of the base place all further records until the
    release, and columns that are constant in the base have no influence on distances. So the base
    should be similar to the whole.

    Parameters
    ----------
    base, schema, k, method, seed, missing, options
        As for :func:`anonymize`. Strata with fewer than k people wait for more.

    Raises
    ------
    TooFewRecordsError
        The base has fewer than k people.

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
    return Session(start_state(base, schema, Request(k, method, seed, options), missing))


def finished_error() -> GuaranteeError:
    """Return the error for changes to a finished session."""
    return GuaranteeError(
        "This session is finished and its table released. Nothing can be added: comparing a "
        "second version with the first would reveal single records. Start a new session for "
        "another table.",
        code="guarantee.session_finished",
    )


# --------------------------------------------------------------------------------------- cells


@dataclass(frozen=True, eq=False)
class Points:
    """Encoded records with their sampling weights and persons, if any."""

    matrix: Floats
    weights: Floats | None
    persons: Integers | None = None
    """Person of each record; None if every record counts as a person."""
    together: bool = False
    """Whether the records of a person must share a cell."""

    __repr__ = record_repr

    def take(self, rows: Integers) -> "Points":
        """Return the points of these rows."""
        return replace(
            self,
            matrix=np.ascontiguousarray(self.matrix[rows]),
            weights=None if self.weights is None else self.weights[rows],
            persons=None if self.persons is None else self.persons[rows],
        )

    def of_people(self, table: Table, schema: Schema) -> "Points":
        """Return the points with the persons that the rows of the table are about."""
        together = schema.person_cells == "together"
        return replace(self, persons=people.person_codes(table, schema), together=together)

    def count_people(self, rows: Integers) -> int:
        """Return the number of people that these rows are about."""
        return len(rows) if self.persons is None else len(np.unique(self.persons[rows]))

    @classmethod
    def stack(cls, parts: Sequence["Points"]) -> "Points":
        """Concatenate parts, without their persons."""
        weights = [part.weights for part in parts if part.weights is not None]
        matrix = np.concatenate([part.matrix for part in parts])
        return cls(matrix, np.concatenate(weights) if weights else None)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Cells of the records, and the method that partitioned the base."""

    labels: Integers
    method: str
    reason: str


def partition_base(points: Points, strata: Integers, request: Request) -> Labelled:
    """Partition all strata with at least k people; records of the others wait."""
    labels = np.full(len(strata), WAITING, dtype=np.int64)
    rows = np.flatnonzero(people.count_people(strata, points.persons)[strata] >= request.k)
    if len(rows) == 0:
        return Labelled(labels, request.method, _REQUESTED)
    ready = points.take(rows)
    partition = methods.partition_within(
        _compact(strata[rows]),
        ready.matrix,
        request.k,
        method=request.method,
        weights=ready.weights,
        persons=ready.persons,
        together=points.together,
        seed=request.seed,
        **request.options,
    )
    labels[rows] = partition.labels
    return Labelled(labels, partition.method, partition.reason)


def join(
    points: Points,
    strata: Integers,
    labels: Integers,
    request: Request,
    *,
    strategy: str,
    inertial: bool,
) -> Labelled:
    """Add the last records, which have no label yet, to the cells of the others.

    A stratum that has cells adds its new records by the strategy; one without cells is partitioned
    as soon as it has k people. The result does not depend on the order of the new records.
    """
    joined = np.full(len(strata), WAITING, dtype=np.int64)
    n_cells = 0
    method, reason = request.method, _REQUESTED
    for rows in np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1]):
        old = rows[rows < len(labels)]
        old = old[labels[old] != WAITING]
        new = rows if len(old) == 0 else rows[rows >= len(labels)]
        if len(old) == 0 and points.count_people(new) < request.k:
            continue
        if len(old) == 0:
            new = new[_canonical_order(points.take(new))]
            stratum = np.zeros(len(new), dtype=np.int64)
            first = partition_base(points.take(new), stratum, request)
            cells, method, reason = first.labels, first.method, first.reason
        elif len(new) == 0:
            cells = _compact(labels[old])
        else:
            share = len(new) / (len(strata) - len(labels))
            options = _method_options(request, share) if strategy == "separate" else {}
            cells = _add(
                points,
                old,
                new,
                _compact(labels[old]),
                request,
                strategy=strategy,
                inertial=inertial,
                **options,
            )
        joined[np.concatenate([old, new])] = n_cells + cells
        n_cells += int(cells.max()) + 1
    return Labelled(joined, method, reason)


def _add(
    points: Points, old: Integers, new: Integers, labels: Integers, request: Request, **options: Any
) -> Integers:
    both = np.concatenate([old, new])
    return add_batch(
        points.matrix[old],
        labels,
        points.matrix[new],
        request.k,
        weights=None if points.weights is None else points.weights[both],
        persons=None if points.persons is None else points.persons[both],
        together=points.together,
        seed=request.seed,
        **options,
    ).labels


def _method_options(request: Request, share: float) -> dict[str, Any]:
    """Return the options for a separate partition; a stratum gets its share of a time limit."""
    options = dict(request.options)
    effort = options.get("effort")
    if isinstance(effort, (int, float)) and not isinstance(effort, bool):
        options["effort"] = effort * share
    return {"method": request.method, **options}


def _compact(labels: Integers) -> Integers:
    return np.unique(labels, return_inverse=True)[1]


def _canonical_order(points: Points) -> Integers:
    """Sort by coordinates and weights, so that the order of arrival does not matter."""
    weights = np.zeros(len(points.matrix)) if points.weights is None else points.weights
    return order_by_coordinates(points.matrix, weights)


# --------------------------------------------------------------------------------------- state


@dataclass(frozen=True, eq=False, repr=False)
class State:
    """Everything that a session knows. Contains original values."""

    original: Table
    """All records, unchanged."""
    kept: Integers
    """Rows that will be released. Points and labels refer to these rows."""
    schema: Schema
    request: Request
    missing: str
    encoding: Encoding
    """Encoding of the base."""
    points: Points
    labels: Integers
    """Cell of each record, or :data:`WAITING`."""
    method: str
    """Method that made the first cells."""
    reason: str
    """Why this method was chosen."""
    batches: tuple[Batch, ...]
    source: Path | None = None
    """File that the base was read from."""

    def __repr__(self) -> str:
        return short_repr(self, count(self.original.rows, "record"), cells=self.cells)

    @property
    def table(self) -> Table:
        """Records that will be released."""
        return prepare.take_rows(self.original, self.kept)

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.labels.max(initial=WAITING)) + 1

    @property
    def waiting(self) -> int:
        """Number of records without a cell."""
        return int(np.count_nonzero(self.labels == WAITING))


def start_state(source: Any, schema: Schema | str | Path, request: Request, missing: str) -> State:
    """Return the state after the base."""
    _check_request(request, missing)
    options = {name: value for name, value in request.options.items() if name != "refine"}
    request = replace(request, k=int(request.k), seed=int(request.seed), options=options)
    started = perf_counter()
    progress.report("reading")
    original = _copy_frame(tables.read(source))
    _check_enough(original.rows, request.k)
    resolved = resolve.resolve(prepare.as_schema(schema), original)
    people.check_people(original, resolved)
    prepare.refuse_rounding(resolved, "sessions")
    prepare.check_dominance(resolved, request.k)
    kept = prepare.released_rows(original, resolved, missing)
    table = prepare.take_rows(original, kept)
    strata = auditing.class_labels(table, resolved.strata)
    persons = people.person_codes(table, resolved)
    n_people = len(kept) if persons is None else len(np.unique(persons))
    _check_enough(n_people, request.k, people.unit(resolved))
    people.check_together(resolved, persons, strata)
    progress.report("encoding")
    encoded = encoding.encode(table, resolved)
    together = resolved.person_cells == "together"
    points = Points(encoded.matrix, encoded.weights, persons, together)
    first = partition_base(points, strata, request)
    base = Batch(
        records=original.rows,
        kept=len(kept),
        strategy=None,
        inertial=False,
        seconds=_seconds_since(started),
        unknown_categories={},
        digest=tables.digest(original),
    )
    return State(
        original=original,
        kept=kept,
        schema=resolved,
        request=request,
        missing=missing,
        encoding=encoded.encoding.published(1),  # All categories, without counts, as saved.
        points=points,
        labels=first.labels,
        method=first.method,
        reason=first.reason,
        batches=(base,),
        source=original.origin.path,
    )


def add_part(
    state: State,
    source: Any,
    *,
    strategy: str,
    inertial: bool,
    allow_duplicate: bool = True,
) -> tuple[State, Table]:
    """Return the state with a batch added, and the batch aligned with the other records.

    Unless ``allow_duplicate``, a batch that is identical to an earlier one is an error.
    """
    is_separate = strategy == "separate"
    check_strategy(
        strategy,
        inertial=inertial,
        rounds=None,
        method=state.request.method if is_separate else None,
        options=state.request.options if is_separate else {},
    )
    started = perf_counter()
    progress.report("reading")
    batch = tables.align(state.original, tables.read(source))
    if batch.rows == 0:
        raise DataError(
            "The batch has no records. Add a batch with at least one.",
            code="data.empty",
        )
    digest = tables.digest(batch)
    if not allow_duplicate:
        _check_duplicate(state, digest)
    _check_orders(batch, state.schema)
    rows = prepare.released_rows(batch, state.schema, state.missing)
    people.person_codes(prepare.take_rows(batch, rows), state.schema)  # errors name rows of it
    progress.report("encoding")
    placed = place_part(batch, rows, state.encoding, state.schema)
    original = tables.stack([state.original, batch])
    kept = np.concatenate([state.kept, state.original.rows + rows])
    table = prepare.take_rows(original, kept)
    strata = auditing.class_labels(table, state.schema.strata)
    points = Points.stack([state.points, placed.points]).of_people(table, state.schema)
    # Errors that would prevent the release must appear now, not at the end.
    encoding.fit(table, state.schema)
    people.check_people(batch, state.schema)
    people.check_together(state.schema, points.persons, strata)
    cells = Labelled(state.labels, state.method, state.reason)
    if len(rows):
        progress.report("adding records")
        joined = join(
            points, strata, state.labels, state.request, strategy=strategy, inertial=inertial
        )
        cells = replace(cells, labels=joined.labels) if state.cells else joined
    added = Batch(
        records=batch.rows,
        kept=len(rows),
        strategy=strategy,
        inertial=inertial,
        seconds=_seconds_since(started),
        unknown_categories=placed.unknown_categories,
        digest=digest,
    )
    extended = replace(
        state,
        original=original,
        kept=kept,
        points=points,
        labels=cells.labels,
        method=cells.method,
        reason=cells.reason,
        batches=(*state.batches, added),
    )
    return extended, batch


@dataclass(frozen=True, eq=False)
class PlacedPart:
    """Points of a part, and the number of unknown categories by column."""

    points: Points
    unknown_categories: Mapping[str, int]


def place_part(part: Table, rows: Integers, fitted: Encoding, schema: Schema) -> PlacedPart:
    """Encode some rows of a part with the encoding of the base."""
    placed = encoding.place(part, fitted)
    weights = _read_weights(part, rows, schema)
    unknown = placed.unknown
    if unknown and len(rows) < part.rows:
        unknown = encoding.place(tables.take(part, rows), fitted).unknown
    return PlacedPart(Points(placed.matrix, weights).take(rows), dict(unknown))


def _read_weights(part: Table, rows: Integers, schema: Schema) -> Floats | None:
    """Return the sampling weights of a part, or None if the schema has no weight column."""
    if schema.weight is None:
        return None
    values = part.columns[schema.weight]
    weights = values.reals() if values.is_number else np.full(part.rows, np.nan)
    invalid = rows[~(np.isfinite(weights[rows]) & (weights[rows] > 0))]
    if len(invalid):
        row = int(invalid[0]) + 1
        raise DataError(
            f"Weight column {schema.weight!r} must contain positive numbers, but "
            f"{count(len(invalid), 'row')} of the batch {'does' if len(invalid) == 1 else 'do'} "
            f"not, first in row {row}. Correct or remove them.",
            code="data.bad_weight",
            column=schema.weight,
            row=row,
            count=len(invalid),
        )
    return weights


def _copy_frame(table: Table) -> Table:
    """Copy a data frame of the caller, who may change it while the session lasts."""
    return table if table.origin.source == "file" else tables.take(table, np.arange(table.rows))


def _check_duplicate(state: State, digest: str) -> None:
    digests = [batch.digest for batch in state.batches]
    if digest not in digests:
        return
    number = digests.index(digest)
    earlier = "the base" if number == 0 else f"batch {number}"
    raise OptionError(
        f"The session already contains exactly these records, as {earlier}. If they are other "
        "people with the same values, repeat with again=True (--again).",
        code="option.duplicate_batch",
        batch=number,
    )


def _check_request(request: Request, missing: str) -> None:
    methods.check_k(request.k)
    methods.check_method(request.method, request.options)
    prepare.check_handling(missing, request.seed)
    if request.options.get("refine"):
        raise OptionError(
            "Sessions do not support refine. Add batches with the strategy 'refined' instead.",
            code="option.unsupported",
            option="refine",
        )


def _check_enough(n: int, k: int, noun: str = "record") -> None:
    if n < k:
        raise TooFewRecordsError(
            f"The base has {count(n, noun)}, but needs at least k = {k}. Wait for more {noun}s, or "
            "lower k.",
            code="guarantee.too_few_records",
            k=k,
            records=n,
            unit=f"{noun}s",
        )


def _check_orders(batch: Table, schema: Schema) -> None:
    """Reject categories outside a declared order, which cannot be placed."""
    for column in schema.quasi:
        if column.order is None:
            continue
        values = batch.columns[column.name]
        unknown = np.flatnonzero((values.ranks(column.order) < 0) & ~values.missing)
        if len(unknown):
            row = int(unknown[0]) + 1
            raise SchemaError(
                f"Column {column.name!r}: {count(len(unknown), 'row')} of the batch "
                f"{'has' if len(unknown) == 1 else 'have'} a category that is not in its order, "
                f"first in row {row}. Correct them, or start again with a complete order.",
                code="schema.category_order",
                column=column.name,
                row=row,
                count=len(unknown),
            )


def _seconds_since(started: float) -> float:
    return round(perf_counter() - started, 3)


# ------------------------------------------------------------------------------------- release


@dataclass(frozen=True)
class FinishedRelease:
    """When a release was created and how long it took, to reproduce its manifest exactly."""

    created: str
    seconds: float
    order_key: str | None = None


def check_same_key(order_key: str | Path | None, finished: str | None) -> None:
    """Raise OptionError if a finished session has another order key."""
    if None not in (order_key, finished) and order.read_order_key(order_key) != finished:
        raise OptionError(
            "The session was finished with another order_key. Leave it out to get the same "
            "release again.",
            code="option.conflict",
            option="order_key",
        )


def build_release(
    state: State,
    finished: FinishedRelease | None = None,
    *,
    order_key: str | Path | None = None,
) -> Release:
    """Release all records; identical to an earlier release if ``finished`` describes it.

    The information loss is measured with the means and deviations of all records, although the
    cells were formed with those of the base.
    """
    started = perf_counter()
    key = order.read_order_key(order_key if finished is None else finished.order_key)
    table, schema, k = state.table, state.schema, state.request.k
    strata = auditing.class_labels(table, schema.strata)
    persons = state.points.persons
    people.check_strata(people.count_people(strata, persons), schema, k, _STRATA_ADVICE)
    progress.report("encoding")
    encoded = encoding.encode(table, schema)
    prepared = prepare.Prepared(state.original, table, schema, encoded, strata, state.kept, persons)
    partition = Partition(
        state.labels, k, method=state.method, reason=state.reason, persons=persons
    )
    published = aggregate_table(prepared, Grouping(partition))
    progress.report("checking")
    class_sizes = prove(published, schema, k=k, n_rows=table.rows, persons=persons)
    loss = methods.distortion(encoded.matrix, partition.labels, weights=encoded.weights)
    information_loss = measure_information_loss(table, published, schema)
    elapsed = sum(batch.seconds for batch in state.batches) + perf_counter() - started
    manifest = manifests.build_manifest(
        schema,
        state.original.names,
        created=None if finished is None else finished.created,
        k=k,
        method=_describe_method(state, partition),
        seed=state.request.seed,
        missing=state.missing,
        input=manifests.describe_table(state.original),
        records=manifests.describe_records(
            state.original.rows, table.rows, state.missing, prepared.n_missing
        ),
        cells=manifests.describe_cells(partition, loss),
        dominance=manifests.describe_dominance(
            schema, count_dominated(partition.labels, encoded.weights, schema)
        ),
        **manifests.describe_people(schema, persons),
        information_loss=information_loss,
        seconds=round(elapsed, 3) if finished is None else finished.seconds,
        order_key=key,
    )
    return Release(
        table=published.native,
        partition=partition,
        manifest=manifest,
        schema=schema,
        published=published,
        row_order=order.row_order(table, manifest),
        original=state.original,
        class_sizes=class_sizes,
        persons=persons,
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
    batches = tuple(_describe_batch(batch) for batch in added)
    return method.model_copy(update={"base": _describe_batch(base), "batches": batches})


def _describe_batch(batch: Batch) -> BatchSection:
    return BatchSection(
        records=batch.records,
        seconds=batch.seconds,
        strategy=batch.strategy,
        inertial=None if batch.strategy is None else batch.inertial,
    )
