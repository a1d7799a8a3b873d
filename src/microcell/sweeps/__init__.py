"""Try methods, values of k or dependence weights on one table; nothing is released.

:func:`compare`, :func:`explore` and :func:`dependence_sweep` read and encode the table once, hand
a list of requests to the same runner, and turn its attempts into their own points.
"""

from microcell.sweeps.comparison import Comparison, Trial, compare
from microcell.sweeps.dependence import (
    DependencePoint,
    DependenceSweep,
    check_targets,
    dependence_sweep,
)
from microcell.sweeps.exploration import Exploration, Point, explore

__all__ = [
    "Comparison",
    "DependencePoint",
    "DependenceSweep",
    "Exploration",
    "Point",
    "Trial",
    "check_targets",
    "compare",
    "dependence_sweep",
    "explore",
]
