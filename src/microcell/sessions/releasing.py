"""The one release of a session, proved on the table that is published."""

from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import numpy as np

from microcell import __version__, auditing, encoding, groundwork, manifests, progress
from microcell.errors import TooFewRecordsError
from microcell.model import Manifest, Partition, Release
from microcell.sessions.joining import WAITING
from microcell.sessions.states import Batch, State

__all__ = ["Making", "make_release"]

Making = tuple[str, float]
"""When a release was made, as ISO text, and how many seconds its making took in all."""


def make_release(state: State, making: Making | None = None) -> Release:
    """The release of all records so far; the same, to the last digit, if ``making`` is that of its manifest.

    Distortion is measured with the means and deviations of all records, where the cells were made with the base's.
    """
    started = perf_counter()
    table, schema, k = state.table, state.schema, state.request.k
    strata = auditing.class_labels(table, schema.strata)
    _check_waiting(state, strata)
    progress.report("encoding")
    prepared = groundwork.Prepared(state.original, table, schema, encoding.encode(table, schema), strata)
    partition = Partition(state.labels, k, method=state.used, why=state.why)
    published = groundwork.publish_cells(prepared, groundwork.Made(partition))
    progress.report("checking")
    groundwork.prove(published, schema, k, table.rows)
    cells = manifests.describe_cells(partition, prepared.encoded)
    losses = auditing.distort_columns(table, published, schema, pairs=np.arange(table.rows))
    spent = sum(batch.seconds for batch in state.batches) + perf_counter() - started
    created, seconds = making or (datetime.now(UTC).isoformat(timespec="seconds"), round(spent, 3))
    manifest = Manifest(
        microcell=__version__,
        created=created,
        k=k,
        method=_describe_method(state),
        seed=state.request.seed,
        missing=state.missing,
        columns=manifests.describe_columns(schema, state.original),
        input=manifests.describe_table(state.original),
        records=manifests.describe_records(state.original.rows, table.rows, state.missing, prepared.gaps),
        cells=cells,
        distortion=auditing.average(losses),
        seconds=seconds,
    )
    order = manifests.row_order(table, manifest.as_dict())
    return Release(published.native, partition, manifest, schema, published, order, state.source)


def _describe_method(state: State) -> dict[str, Any]:
    """The method, and the batches after the base, if there were some.

    No digest of a batch is told: of a few records it could be found out by trial which they are.
    """
    request = state.request
    method = {"asked": request.method, "used": state.used, "why": state.why, "options": dict(request.options)}
    base, *added = state.batches
    if not added:
        return method
    return {**method, "base": _describe(base), "batches": [_describe(batch) for batch in added]}


def _describe(batch: Batch) -> dict[str, Any]:
    size = {"records": batch.records, "seconds": batch.seconds}
    return size if batch.strategy is None else {**size, "strategy": batch.strategy, "inertial": batch.inertial}


def _check_waiting(state: State, strata: Any) -> None:
    waiting = np.unique(strata[state.labels == WAITING])
    if len(waiting):
        sizes = np.bincount(strata)
        raise TooFewRecordsError(
            f"{len(waiting)} of {len(sizes)} strata (by {', '.join(map(repr, state.schema.strata))}) have fewer than "
            f"k = {state.request.k} records; the smallest has {sizes[waiting].min()}. Add further records of these "
            "strata, or begin anew with strata merged or a lower k. Nothing was released."
        )
