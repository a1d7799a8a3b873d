"""Planning for data that are still coming in: how much to wait for, and when it will all be finished."""

from microcell.increments.arrivals import Arrivals, TimeCurve, calibrate
from microcell.increments.folder import Status, StoredSession
from microcell.increments.planning import Plan, Schedule, plan
from microcell.increments.session import Batch, Session, start
from microcell.increments.trials import Increment, measure_increment, measure_increments

__all__ = [
    "Arrivals",
    "Batch",
    "Increment",
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
