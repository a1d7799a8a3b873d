"""The price of uncertain participation in distortion, and the risk of ignoring it."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

import microcell as mc
from experiments._census10k import SUBSTITUTES, draw_survey_data
from experiments._curves import COLOURS, label, panels
from experiments._findings import Study
from experiments._pcl import agree, change, gaussian, percent, standardize
from microcell.model import Floats

__all__ = ["distortion_of_surveys", "ignoring_participation", "price_of_uncertainty"]

RECORDS = {"quick": 2000, "full": 10_000}
SIZES = (2, 5, 10, 20, 50, 100)
CHANCES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
POWERS = tuple(range(-1, -9, -1))
HARDLY = 0.05
"""Relative change of D per factor of 10 in the failure that counts as "hardly any"."""

Loss = Callable[[int, float, float], float]


def loss_by_mdav(X: Floats) -> Loss:
    """Return D of MDAV as a function of k, participation and accepted failure."""

    @cache
    def of_size(size: int) -> float:
        return mc.distortion(X, mc.partition(X, size, method="mdav").labels)

    return lambda k, participation, accepted: of_size(
        mc.surveys.effective_anonymity(k, participation, accepted).size
    )


def distortion_of_surveys(results: Study, profile: str) -> None:
    """Figs. 11 and 12: D against k, pi and the accepted failure."""
    rows = []
    for number, (name, X) in enumerate(draw_survey_data(RECORDS[profile]).items()):
        item = "Fig. 11" if number == 0 else "Fig. 12"
        loss = loss_by_mdav(X)
        draw_distortion(results, item, name, loss, f"distortion_{number + 1}")
        judge_distortion(
            results, item, f"{name}, {len(X):,} records", loss, SUBSTITUTES if number else ""
        )
        better_cells(results, item, f"{name}, {len(X):,} records", X)
        rows += [
            {
                "data": name,
                "k": k,
                "pi": participation,
                "size": mc.surveys.effective_anonymity(k, participation, 1e-5).size,
                "D": loss(k, participation, 1e-5),
            }
            for k in SIZES
            for participation in (0.5, 0.75, 1.0)
        ]
    results.table(
        "distortion",
        "Figs. 11 and 12",
        "D of MDAV with the size in place of k, accepted failure 1e-5.",
        rows,
    )


def draw_distortion(results: Study, item: str, name: str, loss: Loss, file: str) -> None:
    """Three panels: against k, against participation, against the accepted failure."""
    figure, axes = panels(3)
    for participation, colour in zip((1.0, 0.75, 0.5), COLOURS, strict=False):
        values = [loss(k, participation, 1e-5) for k in SIZES]
        axes[0].plot(
            SIZES, values, "o-", color=colour, markersize=3, label=f"pi = {participation:g}"
        )
    label(axes[0], "accepted failure 1e-5", "k", "D")
    for k, colour in zip((10, 50), COLOURS, strict=False):
        axes[1].plot(
            CHANCES,
            [loss(k, c, 1e-5) for c in CHANCES],
            "o-",
            color=colour,
            markersize=3,
            label=f"k = {k}",
        )
        accepted = [10.0**power for power in POWERS]
        axes[2].semilogx(
            accepted,
            [loss(k, 0.75, a) for a in accepted],
            "o-",
            color=colour,
            markersize=3,
            label=f"k = {k}",
        )
    label(axes[1], "accepted failure 1e-5", "participation pi", "D")
    label(axes[2], "pi = 0.75", "accepted failure", "D", ylim=(0, None))
    results.figure(file, item, f"{name}: expected distortion of MDAV's cells.", figure)


def judge_distortion(results: Study, item: str, name: str, loss: Loss, why: str) -> None:
    """Check that low participation increases D and that the accepted failure hardly matters."""
    values = [loss(10, participation, 1e-5) for participation in CHANCES]
    high, low = values[7] - values[8], values[0] - values[1]
    results.find(
        item,
        f"{name}, k = 10: increase of D as participation falls from 0.9 to 0.8, and from 0.2 to "
        f"0.1",
        "gradually, then more sharply",
        f"{high:.3g}; {low:.3g}",
        agree(values[-1] < values[0], high < low),
        why or "Shown in a figure, no numbers given.",
    )
    few, many = loss(10, 0.75, 1e-2), loss(10, 0.75, 1e-8)
    whole, half = loss(10, 1.0, 1e-5), loss(10, 0.5, 1e-5)
    sizes = [mc.surveys.effective_anonymity(10, 0.75, accepted).size for accepted in (1e-2, 1e-8)]
    each = (many / few) ** (1 / 6) - 1
    results.find(
        item,
        f"{name}, k = 10, pi = 0.75: change of D if the accepted failure probability falls from "
        f"1e-2 to 1e-8",
        "hardly any, even on a logarithmic scale",
        f"{percent(change(many, few))}, {percent(each)} per factor of 10 "
        f"(from pi = 1 to 0.5: {percent(change(half, whole))})",
        agree(each < HARDLY),
        (why + " " if why else "")
        + f'"Hardly any" is taken to mean less than {percent(HARDLY, 0).lstrip("+")} '
        + "per factor of 10. "
        + f"Cells grow from {sizes[0]} to {sizes[1]} records, and D with them.",
    )


def better_cells(results: Study, item: str, name: str, X: Floats) -> None:
    """Compare MDAV with our default at the same cell size."""
    size = mc.surveys.effective_anonymity(10, 0.75, 1e-5).size
    mdav, ours = (
        mc.distortion(X, mc.partition(X, size, method=method).labels) for method in ("mdav", "auto")
    )
    results.find(
        item,
        f"{name}, k = 10, pi = 0.75, accepted failure 1e-5 (cells of {size}): D of MDAV, and of "
        f"our default",
        "MDAV alone",
        f"{mdav:.4g}; {ours:.4g} ({percent(change(ours, mdav))})",
        "better" if ours < mdav else "differs",
        "Our addition: with a common pi any method can be used, with the size in place of k.",
    )


def price_of_uncertainty(results: Study, profile: str) -> None:
    """Fig. 13 (a): D for pi = 0.75 over D for pi = 1, in 2, 5 and 10 dimensions."""
    ratios: dict[int, list[float]] = {}
    figure, (panel,) = panels(1)
    for m, colour in zip((2, 5, 10), COLOURS, strict=False):
        loss = loss_by_mdav(standardize(gaussian(RECORDS[profile], m, seed=5)))
        ratios[m] = [loss(k, 0.75, 1e-5) / loss(k, 1.0, 1e-5) for k in SIZES]
        panel.plot(SIZES, ratios[m], "o-", color=colour, markersize=4, label=f"m = {m}")
    panel.set_yscale("log")
    label(
        panel,
        f"{RECORDS[profile]:,} Gaussian records, accepted failure 1e-5",
        "k",
        "D(pi = 0.75) / D(pi = 1)",
    )
    results.figure(
        "price", "Fig. 13 (a)", "What uncertain participation costs in distortion.", figure
    )
    rows = [
        {"k": k, **{f"m = {m}": ratios[m][place] for m in ratios}} for place, k in enumerate(SIZES)
    ]
    results.table(
        "price", "Fig. 13 (a)", "D(pi = 0.75) / D(pi = 1), MDAV, accepted failure 1e-5.", rows
    )
    for m, values in ratios.items():
        results.find(
            "Fig. 13 (a)",
            f"D(pi = 0.75) / D(pi = 1), m = {m}, k = {', '.join(map(str, SIZES))}",
            "shown in a figure: decreases with k",
            ", ".join(f"{value:.2f}" for value in values),
            agree(falls(values)),
            "A different random sample."
            if falls(values)
            else "MDAV's last cell takes what is left over, so that a "
            "large size that does not divide the records well counts for more.",
        )
    ordered = all(
        ratios[2][place] > ratios[5][place] > ratios[10][place] for place in range(len(SIZES))
    )
    what, output = (
        "the ratio falls with the dimension, at every k",
        "yes" if ordered else "not at every k",
    )
    results.find(
        "Fig. 13 (a)", what, "yes", output, agree(ordered), "" if ordered else "See the table."
    )


def falls(values: Sequence[float]) -> bool:
    """Return True if the values are strictly decreasing."""
    return all(later < earlier for earlier, later in pairwise(values))


def ignoring_participation(results: Study) -> None:
    """Fig. 13 (b): the failure of cells of just k candidates."""
    chances = np.linspace(0.01, 0.99, 99)
    figure, (panel,) = panels(1)
    gaps, worst = [], {}
    for k, colour in zip((2, 3, 5, 10), COLOURS, strict=False):
        ours = np.array(
            [
                mc.surveys.cell_failures(np.zeros(k, dtype=int), float(participation), k)[0]
                for participation in chances
            ]
        )
        gaps.append(float(np.abs(ours - (1 - (chances**k + (1 - chances) ** k))).max()))
        worst[k] = float(ours[49])
        panel.plot(chances, ours, "-", color=colour, label=f"k = {k}")
    label(panel, "cells of k candidates", "participation pi", "failure of a cell")
    results.figure(
        "ignoring", "Fig. 13 (b)", "How often cells fail if participation is ignored.", figure
    )
    results.find(
        "Fig. 13 (b)",
        "failure of a cell of k candidates: largest deviation from 1 - (pi^k + (1 - pi)^k), k = "
        "2, 3, 5, 10",
        "0 (formula)",
        f"{max(gaps):.0e}",
        agree(max(gaps) < 1e-12),
    )
    results.find(
        "Fig. 13 (b)",
        "worst failure, at pi = 1/2, k = 2, 3, 5, 10",
        ", ".join(f"{1 - 2.0 ** (1 - k):.4g}" for k in worst),
        ", ".join(f"{value:.4g}" for value in worst.values()),
        agree(*[abs(value - (1 - 2.0 ** (1 - k))) < 1e-12 for k, value in worst.items()]),
    )
