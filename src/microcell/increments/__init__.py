"""Increments: partition records while others still arrive, and release all of them once.

:func:`plan` says when to start. :func:`start` creates a :class:`Session` in memory and
:meth:`StoredSession.create` one in a folder; batches are added as they arrive, and the session is
finished with a single release.
"""

from microcell.increments.arrivals import Arrivals
from microcell.increments.planning import Plan, plan
from microcell.increments.schedules import Schedule
from microcell.increments.session import Batch, Session, start
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
    "Increment",
    "Increments",
    "Plan",
    "Schedule",
    "Session",
    "Status",
    "StoredSession",
    "TimeCurve",
    "calibrate",
    "measure_increment",
    "measure_increments",
    "plan",
    "start",
]
