"""Release of a session: one table of all records."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from microcell import auditing, encoding, methods, progress
from microcell.errors import OptionError
from microcell.increments.limits import searching_release
from microcell.increments.state import Batch, State
from microcell.measures import people
from microcell.model import Partition
from microcell.model.manifest import BatchSection, MethodSection
from microcell.release import manifest as manifests
from microcell.release import order, prepare
from microcell.release.aggregate import count_dominated
from microcell.release.enforce import Enforced, enforce
from microcell.release.partition import Grouping, aggregate_table, resolve_limits
from microcell.release.prove import check_audited_limits, measure_information_loss, prove
from microcell.release.publish import Release

__all__ = ["FinishedRelease", "build_release", "check_same_key"]

_STRATA_ADVICE = "Add records of these strata, or start again with merged strata or a lower k."


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
    enforced = _enforce(state, prepared, partition)
    session_cells, partition, published = partition, enforced.partition, enforced.published
    progress.report("checking")
    class_sizes = prove(
        published, schema, k=k, n_rows=table.rows, limits=state.limits, persons=persons
    )
    loss = methods.distortion(encoded.matrix, partition.labels, weights=encoded.weights)
    information_loss = measure_information_loss(table, published, schema, np.arange(table.rows))
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
            schema, count_dominated(partition.labels, encoded.weights, schema, persons)
        ),
        requirements=manifests.describe_requirements(
            state.limits, session_cells, enforced, encoded
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


def _enforce(state: State, prepared: prepare.Prepared, partition: Partition) -> Enforced:
    """Return cells that meet the limits of the session, and the table that they publish."""
    requirements = resolve_limits(prepared, state.limits)
    enforced = enforce(
        requirements,
        partition,
        prepared.encoded,
        prepared.schema,
        lambda cells: aggregate_table(prepared, Grouping(cells)),
        searching_release(prepared, state.request),
    )
    check_audited_limits(prepared, enforced.published, requirements.checked)
    return enforced


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
