"""Rebollo-Monedero, Forné and Soriano: quantizer-inspired microaggregation (2011).

The paper proposes the probability-constrained Lloyd algorithm (PCL) for large cells and, for small
cells, a variant with noisy copies of the points whose variance decreases. It claims less
distortion than MDAV at the same k in all cases: typically 20 % (uniform) and 15 % (Gaussian) for
large cells in the plane, 27 % and 15 % for small cells, and 9 to 17 % on Census, in minutes rather
than milliseconds. "Classic data sets" is our own addition: published values for three reference
data sets next to ours.
"""

from experiments._census import census
from experiments._classics import classic_sets
from experiments._extensions import noise_over_draws
from experiments._findings import Study
from experiments._landscapes import landscapes
from experiments._pcl import warm_up
from experiments._profiles import run_alone
from experiments._synthetic import few_points, large_cells, small_cells

TITLE = (
    "An algorithm for k-anonymous microaggregation and clustering inspired by quantizer design "
    "(2011)"
)

LEFT_OUT = {
    "Fig. 1": "an example of two tables; no result to reproduce",
    "Fig. 2": "a sketch of devices that ask for information; no result to reproduce",
    "Fig. 3": "a sketch of access through a trusted party; no result to reproduce",
    "Fig. 4": "a sketch of users who perturb their own location; no result to reproduce",
    "Fig. 5": "a sketch and an example of a quantizer; no result to reproduce",
    "Fig. 6": "a sketch of the architecture for locations; no result to reproduce",
    "Fig. 7": "a sketch of the protocol for locations; no result to reproduce",
    "Fig. 8": "a sketch of the location anonymizer; no result to reproduce",
}


def study(profile: str) -> Study:
    """Reproduce all results of the paper, and the classic data sets."""
    results = Study("aggregation", TITLE, profile)
    warm_up()
    few_points(results, profile)
    large_cells(results, profile)
    small_cells(results, profile)
    noise_over_draws(results, profile)
    census(results, profile)
    landscapes(results)
    classic_sets(results, profile)
    return results


if __name__ == "__main__":
    run_alone(study)
