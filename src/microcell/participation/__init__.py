"""Surveys whose participation is uncertain: how many candidates a cell needs, and how it may fail.

A cell of candidates is made before anyone answers. It fails if some, but fewer than k, of them take part.
"""

from microcell.participation.anonymity import (
    EffectiveAnonymity,
    cell_failures,
    common_table_failure,
    effective_anonymity,
    table_failure,
)
from microcell.participation.approximations import APPROXIMATIONS, Approximation, approximate_size
from microcell.participation.simulation import Estimate, Simulation, simulate_participation

__all__ = [
    "APPROXIMATIONS",
    "Approximation",
    "EffectiveAnonymity",
    "Estimate",
    "Simulation",
    "approximate_size",
    "cell_failures",
    "common_table_failure",
    "effective_anonymity",
    "simulate_participation",
    "table_failure",
]
