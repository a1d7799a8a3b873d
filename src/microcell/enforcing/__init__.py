"""Requirements on a release, enforced: cells that break one are merged with the neighbour that costs least.

Merging mends every measure of a class alone (its size, the diversity of its confidential values, their distance from
the table's): of none but ``delta_disclosure`` is a union worse than the worse of its parts. So the requirements can be
met if the strata, each as one cell, meet them, and that is known before any cell is made.
"""

from microcell.enforcing._demands import (
    Demands,
    check_function,
    check_limits,
    find_missed,
    find_unkept,
    read_demands,
)
from microcell.enforcing._merging import Enforced, Merged, enforce, merge_cells

__all__ = [
    "Demands",
    "Enforced",
    "Merged",
    "check_function",
    "check_limits",
    "enforce",
    "find_missed",
    "find_unkept",
    "merge_cells",
    "read_demands",
]
