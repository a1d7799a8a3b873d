"""State of a session: all records so far and their cells, and how a batch changes them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import auditing, encoding, methods, progress, tables
from microcell._display import count, record_html, short_repr
from microcell.errors import DataError, OptionError, SchemaError, TooFewRecordsError
from microcell.increments.joining import WAITING, Labelled, Points, join, partition_base
from microcell.increments.limits import check_limited, joining_strategy, keep_limits
from microcell.increments.repeats import (
    Register,
    check_once,
    check_repeated,
    refuse_repeats,
    with_id,
)
from microcell.measures import people
from microcell.methods.increments import check_strategy
from microcell.model import Encoding, Floats, Integers, Schema, Table
from microcell.release import prepare, requirements
from microcell.release.masking import refuse_masks
from microcell.release.partition import Request
from microcell.schema import resolve

__all__ = [
    "DEFAULT_METHOD",
    "AddedPart",
    "Batch",
    "PlacedPart",
    "State",
    "add_part",
    "place_part",
    "start_state",
]


DEFAULT_METHOD = "auto"
"""Method of sessions, and therefore of plans: a plan measures what will run."""


@dataclass(frozen=True)
class Batch:
    """One part of the records: the base, or a batch added later."""

    records: int
    """Number of records."""
    kept: int
    """Number of records that will be released."""
    strategy: str | None
    """Strategy by which the batch was added; None for the base."""
    inertial: bool
    seconds: float
    unknown_categories: Mapping[str, int]
    """Number of records with a category that the base does not have, by column."""
    digest: str
    """Keyed digest of the rows in any order."""
    skipped: int = 0
    """Number of rows left out because their people were already in the session."""

    def __repr__(self) -> str:
        return short_repr(
            self, count(self.records, "record"), kept=self.kept, strategy=self.strategy or "base"
        )

    _repr_html_ = record_html


@dataclass(frozen=True, eq=False, repr=False)
class State:
    """Complete state of a session. Contains original values."""

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
    register: Register
    """Who is in the session."""
    source: Path | None = None
    """File that the base was read from."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Limits that the release must meet, by measure."""

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


def start_state(
    source: Any,
    schema: Schema | str | Path,
    request: Request,
    missing: str,
    require: Mapping[str, float] | None = None,
    id: str | None = None,
) -> State:
    """Return the state after the base."""
    _check_request(request, missing)
    limits = requirements.check_limits(require)
    options = {name: value for name, value in request.options.items() if name != "refine"}
    request = replace(request, k=int(request.k), seed=int(request.seed), options=options)
    started = perf_counter()
    progress.report("reading")
    original = _copy_frame(tables.read(source))
    _check_enough(original.rows, request.k)
    resolved = resolve.resolve(with_id(prepare.as_schema(schema), id), original)
    refuse_masks(resolved, "sessions")
    prepare.check_dominance(resolved, request.k)
    requirements.check_columns(limits, resolved)
    request = replace(request, k=max(request.k, requirements.least_size(limits, original.rows)))
    kept = prepare.released_rows(original, resolved, missing)
    register = Register(tuple(resolved.person) if id is None else (id,), once=id is not None)
    digests = register.digest(original)
    check_once(register, original, kept, digests)
    people.check_people(original, resolved)
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
    first = replace(
        first, labels=keep_limits(limits, table, resolved, points, first.labels, request)
    )
    base = Batch(
        records=original.rows,
        kept=len(kept),
        strategy=None,
        inertial=False,
        seconds=_seconds_since(started),
        unknown_categories={},
        digest=register.contents(original),
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
        register=register.including(digests[kept]),
        source=original.origin.path,
        limits=limits,
    )


def add_part(
    state: State,
    source: Any,
    *,
    strategy: str,
    inertial: bool,
    repeated: str = "refuse",
    again: bool = False,
) -> "AddedPart":
    """Add a batch; an exact repetition of an earlier one is an error unless ``again`` is set."""
    _check_strategy(state.request, strategy, inertial=inertial)
    check_repeated(repeated, state.register)
    check_limited(state.limits, strategy)
    started = perf_counter()
    progress.report("reading")
    batch = tables.read(source)
    if batch.rows == 0:
        raise DataError(
            "The batch has no records. Add a batch with at least one.",
            code="data.empty",
        )
    batch = tables.align(state.original, batch)
    digest = state.register.contents(batch)
    if not again:
        _check_duplicate(state, digest)
    if again and repeated == "refuse" and not state.register.columns:
        repeated = "keep"
    part = _choose_rows(state, batch, repeated)
    added = Batch(
        records=part.table.rows,
        kept=len(part.rows),
        strategy=strategy,
        inertial=inertial,
        seconds=0.0,
        unknown_categories=part.placed.unknown_categories,
        digest=digest,
        skipped=batch.rows - part.table.rows,
    )
    if part.table.rows == 0:
        return AddedPart(state, part.table, replace(added, seconds=_seconds_since(started)))
    extended = _extend(state, part, strategy=strategy, inertial=inertial, repeated=repeated)
    added = replace(added, seconds=_seconds_since(started))
    return AddedPart(
        replace(extended, batches=(*state.batches, added)), part.table, added, part.digests
    )


@dataclass(frozen=True, eq=False)
class AddedPart:
    """The state after a batch, and what was added. If all rows were skipped, nothing changed."""

    state: State
    table: Table
    """The rows added, aligned with the other records."""
    batch: Batch
    digests: Integers | None = None
    """Digests of the people added; None if there are none."""


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows of a batch to be added, those of them to be released, and their points and people."""

    table: Table
    rows: Integers
    placed: "PlacedPart"
    digests: Integers


def _choose_rows(state: State, batch: Table, repeated: str) -> _Part:
    """Check the rows of a batch and leave out those to be skipped; errors name rows of the batch.

    Rows that will not be released are not compared with those in the session.
    """
    register = state.register
    _check_orders(batch, state.schema)
    with _missing_errors():
        rows = prepare.released_rows(batch, state.schema, state.missing)
        people.person_codes(prepare.take_rows(batch, rows), state.schema)
    digests = register.digest(batch)
    check_once(register, batch, rows, digests)
    progress.report("encoding")
    placed = place_part(batch, rows, state.encoding, state.schema)
    if repeated == "refuse":
        refuse_repeats(register, rows, digests)
    repeats = rows[register.knows(digests[rows])]
    if repeated != "skip" or len(repeats) == 0:
        return _Part(batch, rows, placed, digests[rows])
    fresh = np.setdiff1d(np.arange(batch.rows), repeats)
    batch, digests = tables.take(batch, fresh), digests[fresh]
    rows = np.searchsorted(fresh, np.setdiff1d(rows, repeats))
    return _Part(batch, rows, place_part(batch, rows, state.encoding, state.schema), digests[rows])


def _extend(state: State, part: _Part, *, strategy: str, inertial: bool, repeated: str) -> State:
    """Return the state with these rows, without the description of the batch."""
    original = tables.stack([state.original, part.table])
    kept = np.concatenate([state.kept, state.original.rows + part.rows])
    table = prepare.take_rows(original, kept)
    strata = auditing.class_labels(table, state.schema.strata)
    points = Points.stack([state.points, part.placed.points]).of_people(table, state.schema)
    # Errors that would prevent the release must appear now, not at the end.
    encoding.fit(table, state.schema)
    people.check_people(part.table, state.schema)
    if repeated != "keep":
        people.check_people(original, state.schema)
    people.check_together(state.schema, points.persons, strata)
    cells = Labelled(state.labels, state.method, state.reason)
    if len(part.rows):
        progress.report("adding records")
        cells = _join(state, table, points, strata, cells, strategy=strategy, inertial=inertial)
    return replace(
        state,
        original=original,
        kept=kept,
        points=points,
        labels=cells.labels,
        method=cells.method,
        reason=cells.reason,
        register=state.register.including(part.digests),
    )


def _check_strategy(request: Request, strategy: str, *, inertial: bool) -> None:
    is_separate = strategy == "separate"
    check_strategy(
        strategy,
        inertial=inertial,
        rounds=None,
        method=request.method if is_separate else None,
        options=request.options if is_separate else {},
    )


def _join(
    state: State,
    table: Table,
    points: Points,
    strata: Integers,
    cells: Labelled,
    *,
    strategy: str,
    inertial: bool,
) -> Labelled:
    """Return the cells after a batch has joined, within the limits as far as possible."""
    joining = joining_strategy(state.limits, strategy, points)
    joined = join(points, strata, state.labels, state.request, strategy=joining, inertial=inertial)
    added = None if strategy == "nearest" else len(state.labels)
    labels = keep_limits(
        state.limits, table, state.schema, points, joined.labels, state.request, added=added
    )
    return replace(cells if state.cells else joined, labels=labels)


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
        f"The session already contains exactly these records, as {earlier}, perhaps in another "
        "order. If they are other people with the same values, repeat with again=True (--again).",
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


@contextmanager
def _missing_errors() -> Iterator[None]:
    """Say what to do about missing values in a batch: the choice was made with the base."""
    try:
        yield
    except DataError as error:
        if error.code != "data.missing_values":
            raise
        columns = ", ".join(map(repr, error.details.get("columns", ())))
        raise DataError(
            f"Missing values in {columns}. This session was started to treat them as an error. "
            "Complete or remove these records, or start another session that drops or imputes "
            "them (missing, or --missing of 'increment start').",
            code=error.code,
            **error.details,
        ) from None


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
