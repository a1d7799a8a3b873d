"""What may be told of the service: to anyone, and to its operator."""

import math

from microcell.locations._nouns import Overview, Status
from microcell.locations._population import Population, Served
from microcell.locations._records import State

__all__ = ["overview_of", "status_of"]


def overview_of(population: Population, served: Served, k: int) -> Overview:
    """What anyone may know: the cells, never their members, and what the guarantee is worth now."""
    sizes, devices = served.sizes(), len(population)
    return Overview(
        k=k,
        cells=served.summaries(sizes),
        devices=devices,
        waiting=max(0, devices - int(sizes.sum())),
        least_size=int(sizes.min()) if len(sizes) else None,
        rebuilt=served.rebuilt,
        generation=served.generation,
    )


def status_of(view: Overview, state: State, share: float, rebuilding: bool, failure: str | None) -> Status:
    """What the operator may know besides."""
    return Status(
        k=view.k,
        devices=view.devices,
        waiting=view.waiting,
        cells=len(view.cells),
        least_size=view.least_size,
        generation=view.generation,
        rebuilt=view.rebuilt,
        rebuild_seconds=state.rebuild_seconds,
        rebuilding=rebuilding,
        rebuilds=state.rebuilds,
        merges=state.merges,
        sign_ups=state.sign_ups,
        moves=state.moves,
        cancellations=state.cancellations,
        changes=state.changes,
        changes_until_rebuild=max(0, math.floor(share * view.devices) + 1 - state.changes),
        last_failure=failure,
    )
