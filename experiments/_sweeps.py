"""Sweeps of the dependence weight over the paper's data."""

from collections.abc import Iterable
from typing import Any

import numpy as np

import microcell as mc
from experiments._profiles import classic
from microcell.model import Floats

__all__ = [
    "LAMBDAS",
    "RECORDS",
    "SIZES",
    "Sweeps",
    "at",
    "percent",
    "sizes_of",
    "sweep",
    "sweep_all",
]

LAMBDAS = tuple(step / 10 for step in range(11))
SIZES = (50, 100, 200, 500)
CLASSIC_SIZES = (5, 10, 20, 50, 100)
RECORDS = {"quick": 2500, "full": 10_000}

Sweeps = dict[str, mc.sweeps.DependenceSweep]


def gaussian_pairs(correlation: float, records: int) -> Floats:
    """Standard normal pairs with the given correlation."""
    covariance = [[1.0, correlation], [correlation, 1.0]]
    return np.random.default_rng(0).multivariate_normal([0.0, 0.0], covariance, size=records)


def sweep(points: Floats, quasi: int, **options: Any) -> mc.sweeps.DependenceSweep:
    """Sweep with the first ``quasi`` columns as quasi-identifiers, the rest as confidential."""
    names = [f"column{place}" for place in range(points.shape[1])]
    table = dict(zip(names, points.T, strict=True))
    return mc.dependence_sweep(
        table, mc.Schema(quasi=names[:quasi], confidential=names[quasi:]), **options
    )


def sweep_all(profile: str) -> Sweeps:
    """Sweep the paper's four data sets by MDAV, lambda = 0, 0.1, ..., 1."""
    pairs = {f"Gaussian {rho}": gaussian_pairs(rho, RECORDS[profile]) for rho in (0.5, 0.9)}
    actual = {
        name: sweep(points, 1, k=SIZES, lambdas=LAMBDAS, method="mdav")
        for name, points in pairs.items()
    }
    for name in ("Census", "Tarragona"):
        actual[name] = sweep(
            classic(name.lower()), 6, k=CLASSIC_SIZES, lambdas=LAMBDAS, method="mdav"
        )
    return actual


def at(
    points: Iterable[mc.sweeps.DependencePoint], k: int, weight: float
) -> mc.sweeps.DependencePoint:
    """The point of this k and this weight."""
    return next(point for point in points if point.k == k and abs(point.dependence - weight) < 1e-9)


def sizes_of(actual: mc.sweeps.DependenceSweep) -> list[int]:
    """The values of k of a sweep, ascending."""
    return sorted({point.k for point in actual.points})


def percent(share: float) -> str:
    """Format a relative change: +1.6 %."""
    return f"{100 * share:+.1f} %"
