"""The missing share as a function of the costs: piecewise constant, smoothed by noise."""

import numpy as np

import microcell as mc
from experiments._curves import COLOURS, label, panels
from experiments._findings import Study
from experiments._pcl import agree
from microcell.model import Floats

__all__ = ["landscapes"]

STEPS = 401
COARSE = 61
COPIES = 400
NOISES = (0.3, 0.1, 0.02)
SITES = np.array([[0.3, 0.3], [0.7, 0.4], [0.5, 0.75]])


def landscapes(results: Study) -> None:
    """Figs. 21 to 28, with our own points: the paper does not list its points."""
    rng = np.random.default_rng(4)
    two_cells(results, rng.uniform(size=(10, 2)))
    points = rng.uniform(size=(15, 2))
    three_cells(results, points)
    noise_in_one_cost(results)
    noise_in_two_costs(results, points)


def missing(points: Floats, sites: Floats, costs: Floats) -> Floats:
    """Return p0 - p_min for each row of costs: how far the smallest cell is below its share."""
    squares = ((points[:, np.newaxis] - sites) ** 2).sum(axis=2)
    chosen = (squares[np.newaxis] + costs[:, np.newaxis]).argmin(axis=2)
    shares = np.array([[np.mean(row == cell) for cell in range(len(sites))] for row in chosen])
    return np.asarray(1 / len(sites) - shares.min(axis=1))


def noisy(points: Floats, deviation: float, copies: int = COPIES, seed: int = 0) -> Floats:
    """Replace every point by a cloud of noisy copies."""
    noise = np.random.default_rng(seed).normal(scale=deviation, size=(copies, *points.shape))
    return np.asarray((points + noise).reshape(-1, points.shape[1]))


def flat_share(values: Floats) -> float:
    """Share of steps between neighboring costs that change nothing."""
    return float((np.diff(values) == 0).mean())


def steepest(values: Floats) -> float:
    """Largest change over ten cost steps: the sharpness of the curve."""
    return float(np.abs(values[10:] - values[:-10]).max())


def two_cells(results: Study, points: Floats) -> None:
    """Figs. 21 and 22: ten points, two sites, and the missing share against the second cost."""
    sites, line = SITES[:2], np.linspace(-0.5, 0.5, STEPS)
    values = missing(points, sites, np.column_stack([np.zeros(STEPS), line]))
    figure, axes = panels(2)
    axes[0].plot(points[:, 0], points[:, 1], ".", color="black", label="points")
    axes[0].plot(sites[:, 0], sites[:, 1], "o", color=COLOURS[1], label="sites, given")
    label(axes[0], "ten points, two cells of five", "x1", "x2", aspect="equal")
    axes[1].step(line, values, color=COLOURS[0])
    label(
        axes[1],
        "what the smaller cell lacks",
        "second cost (the first is 0)",
        "p0 - p_min",
        legend=False,
    )
    results.figure(
        "one_cost", "Figs. 21 and 22", "Ten points, and the missing share against the cost.", figure
    )
    actual = mc.pcl(points, sizes=[5, 5], start=sites, fixed=True)
    lack = missing(points, sites, actual.cells.costs[np.newaxis])[0]
    results.find(
        "Figs. 21 and 22",
        "the missing share is piecewise constant: number of values; share of cost steps that "
        "change nothing; share of costs from -1/2 to 1/2 that are solutions",
        "piecewise constant, a fairly narrow well",
        f"{len(np.unique(values.round(9)))}; {flat_share(values):.0%}; "
        f"{np.isclose(values, 0).mean():.1%}",
        agree(flat_share(values) > 0.9, bool(np.isclose(values, 0).any())),
        "Our own ten points: the paper does not list its points.",
    )
    results.find(
        "Figs. 21 and 22",
        "missing share at the costs found by shortest paths",
        "derivatives may not find them",
        f"{max(lack, 0.0):.0f}",
        "better" if np.isclose(lack, 0) else "differs",
        "Exact adjustment needs no derivatives.",
    )


def grid_of_costs() -> tuple[Floats, Floats]:
    """Return a grid line of costs, and all pairs of costs after a first cost of 0."""
    line = np.linspace(-0.4, 0.4, COARSE)
    second, third = (axis.ravel() for axis in np.meshgrid(line, line))
    return line, np.column_stack([np.zeros(len(second)), second, third])


def three_cells(results: Study, points: Floats) -> None:
    """Figs. 23 and 24: fifteen points, three sites, and the missing share against two costs."""
    line, costs = grid_of_costs()
    values = missing(points, SITES, costs)
    figure, axes = panels(2)
    axes[0].plot(points[:, 0], points[:, 1], ".", color="black", label="points")
    axes[0].plot(SITES[:, 0], SITES[:, 1], "o", color=COLOURS[1], label="sites, given")
    label(axes[0], "fifteen points, three cells of five", "x1", "x2", aspect="equal")
    sides = (line[0], line[-1]) * 2
    shown = axes[1].imshow(
        values.reshape(COARSE, COARSE), origin="lower", extent=sides, interpolation="nearest"
    )
    figure.colorbar(shown, ax=axes[1], label="p0 - p_min")
    label(axes[1], "what the smallest cell lacks", "second cost", "third cost", legend=False)
    results.figure(
        "two_costs",
        "Figs. 23 and 24",
        "Fifteen points, and the missing share against two costs.",
        figure,
    )
    actual = mc.pcl(points, sizes=[5, 5, 5], start=SITES, fixed=True)
    solved = np.isclose(missing(points, SITES, actual.cells.costs[np.newaxis])[0], 0)
    results.find(
        "Figs. 23 and 24",
        "share of cost pairs that are solutions; number of values of the surface; solved by "
        "shortest paths",
        "fairly narrow, piecewise constant; -",
        f"{np.isclose(values, 0).mean():.1%}; {len(np.unique(values.round(9)))}; "
        f"{'yes' if solved else 'no'}",
        agree(bool(solved), bool(np.isclose(values, 0).mean() < 0.1)),
        "Our own fifteen points.",
    )


def noise_in_one_cost(results: Study) -> None:
    """Figs. 25 and 26: two points, decreasing noise, and the missing share against the cost."""
    points, sites = np.array([[0.35, 0.4], [0.65, 0.6]]), SITES[:2]
    line = np.linspace(-0.5, 0.5, STEPS)
    costs = np.column_stack([np.zeros(STEPS), line])
    curves = {deviation: missing(noisy(points, deviation), sites, costs) for deviation in NOISES}
    curves[0.0] = missing(points, sites, costs)
    figure, axes = panels(2)
    for deviation, colour in zip(NOISES, COLOURS, strict=False):
        cloud = noisy(points, deviation, 50)
        axes[0].plot(
            cloud[:, 0],
            cloud[:, 1],
            ".",
            color=colour,
            markersize=1.5,
            label=f"noise {deviation:g}",
        )
    label(axes[0], "two points and their copies", "x1", "x2", aspect="equal")
    for (deviation, values), colour in zip(curves.items(), COLOURS, strict=False):
        axes[1].plot(line, values, color=colour, linewidth=0.9, label=f"noise {deviation:g}")
    label(axes[1], "what the smaller cell lacks", "second cost", "p0 - p_min")
    results.figure(
        "noise_one_cost",
        "Figs. 25 and 26",
        "Copies with less and less noise, and the objective.",
        figure,
    )
    near = slice(STEPS // 4, 3 * STEPS // 4)
    flats = [flat_share(values[near]) for values in curves.values()]
    slopes = [steepest(values) for values in curves.values()]
    results.find(
        "Figs. 25 and 26",
        f"noise {', '.join(f'{d:g}' for d in curves)}: largest change of the objective for a cost "
        f"change of 0.025; share of steps of 0.0025 in the middle half that change nothing",
        "smooth at first, then sharper",
        f"{', '.join(f'{slope:.3f}' for slope in slopes)}; "
        f"{', '.join(f'{flat:.0%}' for flat in flats)}",
        agree(slopes == sorted(slopes), slopes[0] < slopes[-1], flats[0] < 0.2, flats[-1] > 0.9),
        f"Our own points, sites and noise. Sharpness is judged by the change; single steps are "
        f"also flat where "
        f"{COPIES} widely spread copies per point are too few to show a step, so that share need "
        f"not rise throughout.",
    )


def noise_in_two_costs(results: Study, points: Floats) -> None:
    """Figs. 27 and 28: the same for fifteen points and two costs."""
    line, costs = grid_of_costs()
    figure, axes = panels(2 * len(NOISES), rows=2)
    flats = []
    for place, deviation in enumerate(NOISES):
        values = missing(noisy(points, deviation, 40), SITES, costs).reshape(COARSE, COARSE)
        flats.append(flat_share(values.ravel()))
        few = noisy(points, deviation, 12)
        axes[place].plot(few[:, 0], few[:, 1], ".", color=COLOURS[0], markersize=1.5)
        axes[place].plot(points[:, 0], points[:, 1], ".", color="black")
        label(axes[place], f"noise {deviation:g}", "x1", "x2", legend=False, aspect="equal")
        axes[len(NOISES) + place].imshow(
            values, origin="lower", extent=(line[0], line[-1]) * 2, interpolation="nearest"
        )
        label(
            axes[len(NOISES) + place],
            f"p0 - p_min, noise {deviation:g}",
            "second cost",
            "third cost",
            legend=False,
        )
    results.figure(
        "noise_two_costs", "Figs. 27 and 28", "Copies and the surface as the noise falls.", figure
    )
    flats.append(flat_share(missing(points, SITES, costs)))
    results.find(
        "Figs. 27 and 28",
        "share of cost steps that change nothing: noise "
        + ", ".join(f"{d:g}" for d in (*NOISES, 0)),
        "smooth at first, then sharper",
        ", ".join(f"{flat:.0%}" for flat in flats),
        agree(flats[0] < flats[-1], flats == sorted(flats)),
        "Our own points, sites and noise.",
    )
