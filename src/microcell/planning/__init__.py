"""Planning for data that are still coming in: how much to wait for, and when it will all be finished."""

from microcell.planning.arrivals import Arrivals
from microcell.planning.calibration import TimeCurve, calibrate
from microcell.planning.plans import Plan, draw_plan, plan
from microcell.planning.schedules import Schedule

__all__ = ["Arrivals", "Plan", "Schedule", "TimeCurve", "calibrate", "draw_plan", "plan"]
