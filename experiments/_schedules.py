"""Chapters 4 and 6 of the incremental paper: closed forms and the worked example.

The closed forms are the paper's; ours are the shares that :func:`microcell.increments.plan` finds
numerically.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
from matplotlib.axes import Axes

import microcell as mc
from experiments._curves import COLOURS, label, panels, verdict
from experiments._findings import Study

__all__ = ["closed_forms", "worked_example"]

CRITICAL = 2 * (2 / sqrt(3) - 1)
HOUR = 3600.0
SIGMAS = (0.1, 0.2, 0.25, 0.309, 0.4, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
ROUNDED = "The paper rounds; ours are the exact values of the same formulas."


def critical_share(sigma: float) -> float:
    """Share nu at which the base finishes just as the data are complete."""
    return (2 + sigma - sqrt(sigma * (4 + sigma))) / 2


def best_share(sigma: float) -> float:
    """Share nu with the earliest end."""
    return (2 + sigma) / 4 if sigma <= CRITICAL else critical_share(sigma)


def gain(nu: float, sigma: float) -> float:
    """Time saved by starting early, in units of the whole job."""
    return min(nu * (2 + sigma - nu), 1.0) - nu**2


def least_end(sigma: float) -> float:
    """Earliest end after the data are complete, in units of the whole job."""
    return 1 - (2 + sigma) ** 2 / 8 if sigma <= CRITICAL else critical_share(sigma) ** 2


def discriminant(sigma: float) -> float:
    """Discriminant of nu_end at the earliest end."""
    return (2 + sigma) ** 2 - 8 * (1 - least_end(sigma))


def plan_for(sigma: float) -> mc.increments.Plan:
    """Plan for a collection time of sigma whole jobs."""
    return mc.increments.plan(
        1_000_000, collection=sigma * HOUR, whole=HOUR, strategy="separate", min_gain=0.0
    )


# --- chapter 4 ---


def closed_forms(results: Study) -> None:
    """Figs. 4.1 to 4.5: critical share, best share, gain, earliest end, discriminant."""
    grid = [step / 80 for step in range(1, 401)]
    plans = {sigma: plan_for(sigma) for sigma in SIGMAS}
    figure, axes = panels(5, rows=2)
    _draw_critical(axes[0], grid)
    _draw_measured(
        axes[1], grid, [best_share(s) for s in grid], [plans[s].soonest.nu for s in SIGMAS]
    )
    label(axes[1], "4.2: best share", "sigma (collection / whole job)", "nu*")
    _draw_gain(axes[2])
    _draw_measured(
        axes[3], grid, [least_end(s) for s in grid], [plans[s].soonest.after / HOUR for s in SIGMAS]
    )
    label(axes[3], "4.4: soonest end", "sigma", "tau_min (whole jobs)")
    axes[4].plot(grid, [discriminant(s) for s in grid], color=COLOURS[0])
    label(
        axes[4],
        "4.5: discriminant at the soonest end",
        "sigma",
        "(2+sigma)² - 8(1-tau_min)",
        legend=False,
    )
    results.figure(
        "closed_forms",
        "Figs. 4.1 to 4.5",
        "Shares, gains and ends for quadratic methods, as formulas and as planned",
        figure,
    )
    results.table(
        "closed_forms",
        "Figs. 4.1 to 4.5",
        "The paper's closed forms beside what our plan finds numerically",
        (
            {
                "sigma": sigma,
                "nu_critical": critical_share(sigma),
                "approximation": 1 / (2 + sigma),
                "nu_best": best_share(sigma),
                "nu_planned": plan.soonest.nu,
                "tau_min": least_end(sigma),
                "tau_planned": plan.soonest.after / HOUR,
                "discriminant": discriminant(sigma),
            }
            for sigma, plan in plans.items()
        ),
    )
    _find_closed_forms(results, plans)


def _draw_critical(axes: Axes, grid: Sequence[float]) -> None:
    axes.plot(grid, [critical_share(s) for s in grid], color=COLOURS[0], label="nu_c")
    axes.plot(grid, [1 / (2 + s) for s in grid], "--", color=COLOURS[1], label="1/(2+sigma)")
    label(axes, "4.1: critical share", "sigma (collection / whole job)", "nu_c")


def _draw_measured(
    axes: Axes, grid: Sequence[float], formula: list[float], actual: list[float]
) -> None:
    axes.plot(grid, formula, color=COLOURS[0], label="formula")
    axes.plot(SIGMAS, actual, "x", color=COLOURS[1], label="our plan")
    axes.axvline(CRITICAL, color="black", linestyle=":", linewidth=0.8)


def _draw_gain(axes: Axes) -> None:
    shares = np.linspace(0, 1, 201)
    for sigma, colour in zip((0.1, CRITICAL, 1.0, 2.0, 5.0), COLOURS, strict=False):
        axes.plot(
            shares, [gain(nu, sigma) for nu in shares], color=colour, label=f"sigma = {sigma:.3g}"
        )
        axes.plot([best_share(sigma)], [gain(best_share(sigma), sigma)], "o", color=colour)
    label(axes, "4.3: gain, and the best share", "nu", "Delta (whole jobs)", ylim=(-0.2, 1))


def _find_closed_forms(results: Study, plans: dict[float, mc.increments.Plan]) -> None:
    error = max(abs(1 / (2 + s) / critical_share(s) - 1) for s in np.linspace(1, 100, 1000))
    results.find(
        "Fig. 4.1",
        "1/(2+sigma) against nu_c, sigma > 1: largest relative error, at sigma = 1, and at sigma "
        "= 5",
        "a good approximation for sigma > 1",
        f"{100 * error:.1f} %, {100 * abs(1 / 7 / critical_share(5) - 1):.1f} %",
        verdict(error < 0.15),
    )
    worst = max(abs(plan.soonest.nu - best_share(sigma)) for sigma, plan in plans.items())
    results.find(
        "Fig. 4.2",
        "sigma_c = 2(2/√3 - 1), from where nu* = nu_c",
        "0.309",
        f"{CRITICAL:.3f}",
        "reproduced",
    )
    results.find(
        "Fig. 4.2",
        f"nu*: largest difference of our plan from the formula, sigma = {SIGMAS[0]} to "
        f"{SIGMAS[-1]:.0f}",
        "(2+sigma)/4 up to sigma_c, then nu_c",
        f"{worst:.1e}",
        verdict(worst < 1e-3),
    )
    below, above = 0.2, 1.0
    results.find(
        "Fig. 4.3",
        f"where the gain is largest for sigma = {below} and {above:.0f}; at nu_c the base "
        f"finishes within the head start",
        "before saturation for sigma < sigma_c, at saturation above",
        f"nu* = {plans[below].soonest.nu:.3f} < nu_c = {critical_share(below):.3f}; "
        f"nu* = {plans[above].soonest.nu:.3f} = nu_c",
        verdict(
            plans[below].soonest.nu < critical_share(below)
            and abs(plans[above].soonest.nu - critical_share(above)) < 1e-3
        ),
    )
    worst = max(abs(plan.soonest.after / HOUR - least_end(sigma)) for sigma, plan in plans.items())
    results.find(
        "Fig. 4.4",
        "tau_min: largest difference of our plan from the formula",
        "1 - (2+sigma)²/8 up to sigma_c, then (2+sigma-√(sigma(4+sigma)))²/4",
        f"{worst:.1e}",
        verdict(worst < 1e-3),
    )
    results.find(
        "Fig. 4.5",
        "the discriminant for sigma = 0.1, 0.3 and 1",
        "0 up to sigma_c, then growing",
        ", ".join(f"{abs(discriminant(s)):.2f}" for s in (0.1, 0.3, 1.0)),
        verdict(abs(discriminant(0.1)) < 1e-9 and discriminant(1.0) > 0),
    )


# --- worked example ---


def worked_example(results: Study) -> None:
    """Figs. 1.2, 6.1 and 6.2: ten hours of voting, a job of two hours, so sigma = 5."""
    best = mc.increments.plan(1_000_000, collection=10 * HOUR, whole=2 * HOUR, strategy="separate")
    hour = mc.increments.plan(
        1_000_000, collection=10 * HOUR, whole=2 * HOUR, strategy="separate", deadline=HOUR
    )
    tenth = next(each for each in best.alternatives if abs(each.nu - 0.1) < 1e-9)
    schedules = {"Fig. 1.2": tenth, "Fig. 6.1": best.chosen, "Fig. 6.2": hour.chosen}
    figure, axes = panels(3)
    for panel, (item, schedule) in zip(axes, schedules.items(), strict=True):
        _draw_schedule(panel, item, schedule)
    results.figure(
        "worked_example",
        "Figs. 1.2, 6.1 and 6.2",
        "Ten hours of voting and a job of two hours: what runs when",
        figure,
    )
    _find_tenth(results, tenth)
    _find_best(results, best.chosen)
    _find_deadline(results, hour.chosen)


def _draw_schedule(axes: Axes, item: str, schedule: mc.increments.Schedule) -> None:
    end = schedule.collection

    def minutes(moment: float) -> float:
        return (moment - end) / 60

    bars = (
        ("whole job", end, end + 2 * HOUR),
        ("base", schedule.starts, schedule.base_ends),
        ("increment", schedule.ends - schedule.adding, schedule.ends),
    )
    for row, (_, start, stop) in enumerate(bars):
        axes.barh(row, minutes(stop) - minutes(start), left=minutes(start), color=COLOURS[row])
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.axvline(0, color="black", linestyle=":")
    title = f"{item}: begun at {100 * schedule.received:.1f} % received"
    label(axes, title, "minutes after the last record", "", legend=False, xlim=(-95, 125))


def clock(seconds: float) -> str:
    """Format hours, minutes and seconds."""
    whole = round(seconds)
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "min"), (whole % 60, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or "0 s"


def _find_time(
    results: Study,
    item: str,
    what: str,
    theirs: str,
    seconds: float,
    near: float,
    within: float,
    why: str = ROUNDED,
) -> None:
    results.find(item, what, theirs, clock(seconds), verdict(abs(seconds - near) <= within), why)


def _find_tenth(results: Study, tenth: mc.increments.Schedule) -> None:
    item, base = "Fig. 1.2", tenth.base_ends - tenth.starts
    _find_time(
        results,
        item,
        "sigma = 5, nu = 0.1 (begun at 90 %): head start",
        "1 h",
        tenth.head_start,
        HOUR,
        1,
    )
    _find_time(results, item, "the same: base", "1 h 37 min", base, 97 * 60, 30)
    _find_time(results, item, "the same: increment", "72 s", tenth.adding, 72, 0.5)
    sooner = (
        "The paper's own parts, 1 h 37 min and 72 s after 9 h, sum to 38 min 12 s; it states 39."
    )
    _find_time(
        results,
        item,
        "the same: finished after the end",
        "39 min",
        tenth.after,
        39 * 60,
        60,
        sooner,
    )


def _find_best(results: Study, chosen: mc.increments.Schedule) -> None:
    item = "Fig. 6.1"
    results.find(
        item,
        "sigma = 5: the best share nu*",
        "14.6 %",
        f"{100 * chosen.nu:.1f} %",
        verdict(abs(chosen.nu - 0.146) < 5e-4),
    )
    received = f"{100 * chosen.received:.1f} %"
    results.find(
        item,
        "share of records received at the start",
        "85.4 %",
        received,
        verdict(received == "85.4 %"),
    )
    _find_time(
        results, item, "head start, and base", "1 h 27 min", chosen.head_start, 87.5 * 60, 60
    )
    _find_time(results, item, "finished after the end", "2 min 33 s", chosen.after, 153, 0.5)


def _find_deadline(results: Study, chosen: mc.increments.Schedule) -> None:
    item = "Fig. 6.2"
    exact = (7 - sqrt(49 - 8 * 0.5)) / 4
    nu, received = f"{100 * chosen.nu:.1f} %", f"{100 * chosen.received:.1f} %"
    why = (
        f"Last digit: the paper's own formula, (7 - √45)/4, gives {100 * exact:.3f} %, which is "
        f"7.3 % when rounded."
    )
    results.find(
        item,
        "sigma = 5, one hour allowed (tau_end = 0.5): nu_end",
        "7.2 %",
        nu,
        verdict(nu == "7.2 %"),
        why,
    )
    results.find(
        item,
        "share of records received at the start",
        "92.8 %",
        received,
        verdict(received == "92.8 %"),
        why,
    )
    _find_time(results, item, "head start", "44 min", chosen.head_start, 44 * 60, 30)
    _find_time(results, item, "base", "1 h 43 min", chosen.base_ends - chosen.starts, 103 * 60, 30)
    _find_time(results, item, "increment", "38 s", chosen.adding, 38, 0.5)
    _find_time(results, item, "finished after the end", "1 h", chosen.after, HOUR, 1)
