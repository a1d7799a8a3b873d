"""Increments: partition records while others still arrive, and release all of them once.

:func:`plan` says when to start. :func:`start` creates a :class:`Session` in memory and
:meth:`StoredSession.create` one in a folder; batches are added as they arrive, and the session is
finished with a single release. :func:`run` does all of this by itself until a deadline.
"""

from microcell.increments.arrivals import Arrivals
from microcell.increments.planning import Plan, plan
from microcell.increments.running import Event, RunResult, run
from microcell.increments.schedules import Schedule
from microcell.increments.session import Session, start
from microcell.increments.state import Batch
from microcell.increments.storage import Status, StoredSession
from microcell.increments.timing import TimeCurve, calibrate
from microcell.increments.trials import (
    Increment,
    Increments,
    measure_increment,
    measure_increments,
)

__all__ = [
    "Arrivals",
    "Batch",
    "Event",
    "Increment",
    "Increments",
    "Plan",
    "RunResult",
    "Schedule",
    "Session",
    "Status",
    "StoredSession",
    "TimeCurve",
    "calibrate",
    "measure_increment",
    "measure_increments",
    "plan",
    "run",
    "start",
]
