"""Rebollo-Monedero, Forné, Soriano and Puiggalí: p-probabilistic k-anonymity (2017).

Cells of a survey are designed before anyone answers, and each candidate participates with some
probability pi. The paper enlarges cells so that either nobody or at least k participate, except
with an accepted failure probability; it derives the smallest size, the failure of cells, records
and tables, approximations, and the cost in distortion. It claims that even tiny failure
probabilities need no prohibitive sizes, that distortion hardly depends on them, and that ignoring
participation fails nearly always. Figures are numbered by the order of their captions.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

import microcell as mc
from experiments._curves import COLOURS, label, panels
from experiments._findings import Study
from experiments._pcl import agree, change, percent, same_digits
from experiments._profiles import run_alone
from experiments._surveys import distortion_of_surveys, ignoring_participation, price_of_uncertainty

TITLE = (
    "p-Probabilistic k-anonymous microaggregation for surveys with uncertain participation (2017)"
)

LEFT_OUT = {
    "Fig. 1": "an example of two tables; no result to reproduce",
    "Fig. 2": "a sketch of the idea; no result to reproduce",
    "Fig. 3": "a sketch of the modes of trust; no result to reproduce",
    "Fig. 4": "a sketch of microaggregation as quantization; no result to reproduce",
    "Fig. 5": "a sketch of how size and distortion are related; no result to reproduce",
    "Table I": "definitions; no result to reproduce",
}

TABLE_II = {
    "cell failure": ("0.09671", "0.09606", "-0.67 %"),
    "unprotected": ("17.85", "17.83", "-0.13 %"),
    "record failure": ("0.03597", "0.03605", "+0.23 %"),
}
"""Published values: computed, simulated with 100,000 cells, and the relative error."""

TABLE_III = {
    (10, 0.75, 1e-4): ("25", "4.31e-05", "8.80", "1.52e-05", "2.02e-05"),
    (10, 0.75, 1e-5): ("27", "6.05e-06", "8.82", "1.98e-06", "2.64e-06"),
    (10, 0.75, 1e-6): ("29", "7.95e-07", "8.84", "2.42e-07", "3.23e-07"),
    (10, 0.5, 1e-4): ("43", "8.51e-05", "8.69", "1.72e-05", "3.44e-05"),
    (10, 0.5, 1e-5): ("48", "7.61e-06", "8.73", "1.38e-06", "2.77e-06"),
    (10, 0.5, 1e-6): ("53", "6.1e-07", "8.77", "1.01e-07", "2.02e-07"),
    (50, 0.75, 1e-4): ("88", "6.2e-05", "48.4", "3.41e-05", "4.54e-05"),
    (50, 0.75, 1e-5): ("91", "9.82e-06", "48.4", "5.22e-06", "6.97e-06"),
    (50, 0.75, 1e-6): ("95", "7.14e-07", "48.5", "3.64e-07", "4.86e-07"),
    (50, 0.5, 1e-4): ("144", "7.86e-05", "48.1", "2.62e-05", "5.25e-05"),
    (50, 0.5, 1e-5): ("151", "9.64e-06", "48.2", "3.08e-06", "6.15e-06"),
    (50, 0.5, 1e-6): ("159", "7.35e-07", "48.3", "2.23e-07", "4.46e-07"),
}
"""Size, cell failure, unprotected, record and participant failure by k, pi and accepted failure."""

TABLE_IV = {
    (10, 10_000): ("0.0171", "0.00223", "0.000273"),
    (10, 100_000): ("0.158", "0.0221", "0.00274"),
    (10, 1_000_000): ("0.822", "0.201", "0.027"),
    (50, 10_000): ("0.00692", "0.00106", "7.42e-05"),
    (50, 100_000): ("0.0679", "0.0107", "0.00075"),
    (50, 1_000_000): ("0.505", "0.102", "0.00748"),
}
"""Table failure by k and records for cell failures 1e-4, 1e-5 and 1e-6, pi = 0.75."""

FAILURES = (1e-4, 1e-5, 1e-6)
TRIALS = {"quick": 20_000, "full": 100_000}
RESULTS = ("size", "cell_failure", "unprotected", "record_failure", "participant_failure")
APPROXIMATE = ("divergence", "square-root", "square-root-simple", "intercept")
LOGARITHMIC = ("logarithm", "linear", "quadratic", "lambert")


def study(profile: str) -> Study:
    """Reproduce all results of the paper."""
    results = Study("probabilistic", TITLE, profile)
    simulated_failures(results, profile)
    sizes_and_failures(results)
    failures_of_tables(results)
    numerical_stability(results)
    size_against_failure(results)
    approximations_against_k(results)
    logarithmic_approximations(results, profile)
    distortion_of_surveys(results, profile)
    price_of_uncertainty(results, profile)
    ignoring_participation(results)
    return results


# --- printed tables ---


def simulated_failures(results: Study, profile: str) -> None:
    """Table II: k = 20, pi = 0.5, 0.1 accepted; computed, and simulated."""
    actual = mc.surveys.effective_anonymity(20, 0.5, 0.1)
    drawn = mc.surveys.simulate_participation(
        np.full(actual.size, 0.5), 20, trials=TRIALS[profile], seed=1
    )
    results.find(
        "Table II",
        "size for k = 20, pi = 0.5, 0.1 accepted",
        "48",
        str(actual.size),
        agree(actual.size == 48),
    )
    rows = []
    for name, (algorithm, simulation, error) in TABLE_II.items():
        exact, estimate = (
            getattr(actual, name.replace(" ", "_")),
            getattr(drawn, name.replace(" ", "_")),
        )
        off = change(estimate.value, exact)
        rows.append(
            {
                "what": name,
                "in print": algorithm,
                "ours": exact,
                "simulated, in print": simulation,
                "simulated": estimate.value,
                "standard error": estimate.error,
                "off": percent(off, 2),
            }
        )
        results.find(
            "Table II",
            f"{name}, computed by the algorithm",
            algorithm,
            f"{exact:.4g}",
            agree(same_digits(algorithm, exact)),
        )
        results.find(
            "Table II",
            f"{name}, by simulation of {TRIALS[profile]:,} cells, and its standard error",
            f"{simulation}, {error}",
            f"{estimate.value:.4g}, {percent(off, 2)}",
            agree(abs(off) < max(0.01, 3 * estimate.error / exact)),
            "Different random seed; the standard error is in the table.",
        )
    results.table(
        "simulation",
        "Table II",
        "Failures computed and simulated, k = 20, pi = 0.5, size 48.",
        rows,
    )


def sizes_and_failures(results: Study) -> None:
    """Table III: sizes and failures for k = 10, 50."""
    rows = []
    for (k, participation, accepted), printed in TABLE_III.items():
        actual = mc.surveys.effective_anonymity(k, participation, accepted)
        ours = [float(getattr(actual, name)) for name in RESULTS]
        same = [same_digits(text, value) for text, value in zip(printed, ours, strict=True)]
        rows.append(
            {"k": k, "pi": participation, "accepted": f"{accepted:.0e}"}
            | {name.replace("_", " "): value for name, value in zip(RESULTS, ours, strict=True)}
            | {"digits as printed": f"{sum(same)} of {len(same)}"}
        )
        results.find(
            "Table III",
            f"k = {k}, pi = {participation:g}, {accepted:.0e} accepted: size; failure of a cell; "
            f"unprotected; failure of a "
            "record; of a participant",
            "; ".join(printed),
            "; ".join([str(actual.size), *(f"{value:.3g}" for value in ours[1:])]),
            agree(*same),
            "" if all(same) else "The reason was not found.",
        )
    results.table("sizes", "Table III", "The smallest size of a cell and what it attains.", rows)


def failures_of_tables(results: Study) -> None:
    """Table IV: failures of whole tables, pi = 0.75."""
    rows = []
    for (k, records), printed in TABLE_IV.items():
        for accepted, theirs in zip(FAILURES, printed, strict=True):
            size = mc.surveys.size(k, participation=0.75, failure=accepted, records=records)
            actual, failure = size.anonymity, float(size.table_failure or 0.0)
            record, participant = TABLE_III[k, 0.75, accepted][3:]
            rows.append(
                {
                    "k": k,
                    "records": records,
                    "accepted": f"{accepted:.0e}",
                    "record failure": actual.record_failure,
                    "participant failure": actual.participant_failure,
                    "table failure": failure,
                    "in print": theirs,
                }
            )
            pairs = zip(
                (record, participant, theirs),
                (actual.record_failure, actual.participant_failure, failure),
                strict=True,
            )
            same = [same_digits(text, value) for text, value in pairs]
            results.find(
                "Table IV",
                f"k = {k}, {records:,} records, {accepted:.0e} accepted: record, participant, "
                f"table failure",
                f"{record}; {participant}; {theirs}",
                f"{actual.record_failure:.3g}; {actual.participant_failure:.3g}; {failure:.3g}",
                agree(*same),
                "" if all(same) else "The reason was not found.",
            )
    results.table("tables", "Table IV", "Failures of records and of tables, pi = 0.75.", rows)


# --- sizes and their digits ---


def exact_failure(n: int, k: int) -> float:
    """P{0 < K < k} for pi = 1/2 in exact integers."""
    return float(Fraction(sum(math.comb(n, j) for j in range(1, k)), 2**n))


def failure_as_published(n: int, k: int, participation: float) -> float:
    """The published recursion: the distribution function minus the probability of nobody."""
    mass, below = np.zeros(k), 1.0
    mass[0] = 1.0
    for _ in range(n):
        below -= participation * mass[-1]
        mass = (1 - participation) * mass + participation * np.concatenate([[0.0], mass[:-1]])
    return float(below - mass[0])


def numerical_stability(results: Study) -> None:
    """Fig. 6: error of the cell failure for k = 20, pi = 1/2, down to 1e-17 and below."""
    powers = np.linspace(-1, -17, 129)
    errors: dict[str, list[float]] = {"recursion as printed": [], "ours": []}
    for power in powers:
        actual = mc.surveys.effective_anonymity(20, 0.5, float(10**power))
        exact = exact_failure(actual.size, 20)
        errors["recursion as printed"].append(
            abs(change(failure_as_published(actual.size, 20, 0.5), exact))
        )
        errors["ours"].append(abs(change(actual.cell_failure, exact)))
    deep = [
        mc.surveys.effective_anonymity(20, 0.5, float(10.0**power))
        for power in range(-20, -301, -20)
    ]
    worst = max(abs(change(actual.cell_failure, exact_failure(actual.size, 20))) for actual in deep)
    figure, (panel,) = panels(1)
    for (name, values), colour in zip(errors.items(), (COLOURS[1], COLOURS[0]), strict=True):
        panel.loglog(
            10**powers, np.maximum(values, 1e-17), ".", color=colour, markersize=4, label=name
        )
    panel.axhline(
        0.0084, color=COLOURS[5], linestyle=":", linewidth=0.8, label="printed: at most 0.84 %"
    )
    label(panel, "k = 20, pi = 0.5", "accepted failure", "relative error of the cell failure")
    results.figure(
        "stability",
        "Fig. 6",
        "Errors against exact arithmetic; under 1e-17 drawn at 1e-17.",
        figure,
    )
    results.find(
        "Fig. 6",
        "largest relative error of the cell failure, accepted failures down to 1e-17",
        "0.84 %",
        f"{max(errors['ours']):.1e} (the recursion as printed: "
        f"{max(errors['recursion as printed']):.2%}); "
        f"down to 1e-300: {worst:.1e}",
        "better" if max(*errors["ours"], worst) < 1e-10 else "differs",
        "The published recursion subtracts nearly equal numbers; ours sums positive terms. The "
        "reference is computed in exact integers.",
    )


def size_against_failure(results: Study) -> None:
    """Fig. 7: the size against the accepted failure, k = 50, pi = 1/2."""
    powers = np.linspace(0, -8, 161)
    accepted = np.minimum(10**powers, math.nextafter(1, 0))
    sizes = [mc.surveys.effective_anonymity(50, 0.5, float(limit)).size for limit in accepted]
    marks = {"six sigma": 3.4e-6, "five sigma": 2.87e-7}
    figure, (panel,) = panels(1)
    panel.semilogx(10**powers, sizes, "-", color=COLOURS[0], label="smallest cell")
    for (name, limit), colour in zip(marks.items(), COLOURS[1:], strict=False):
        panel.semilogx(
            limit,
            mc.surveys.effective_anonymity(50, 0.5, limit).size,
            "o",
            color=colour,
            label=f"{name}: {limit:.3g}",
        )
    label(panel, "k = 50, pi = 0.5", "accepted failure", "candidates in a cell", ylim=(0, None))
    results.figure(
        "size", "Fig. 7", "Candidates that a cell needs, against the accepted failure.", figure
    )
    at = {
        limit: mc.surveys.effective_anonymity(50, 0.5, limit).size
        for limit in (1e-2, 1e-8, *marks.values())
    }
    results.find(
        "Fig. 7",
        "size if every failure is accepted",
        "k = 50",
        str(sizes[0]),
        agree(sizes[0] == 50),
    )
    results.find(
        "Fig. 7",
        "no prohibitive sizes: 1e-2; six sigma (3.40e-6); five sigma (2.87e-7); 1e-8",
        "drawn, not printed: slow growth",
        f"{at[1e-2]}; {at[3.4e-6]}; {at[2.87e-7]}; {at[1e-8]}",
        agree(at[1e-8] < 1.5 * at[1e-2]),
        "A failure probability a million times smaller needs less than 50 % more candidates.",
    )


# --- approximations ---


def approximations_against_k(results: Study) -> None:
    """Figs. 8 and 9: approximations for any k, pi = 1/2, 1e-6 accepted, and their errors."""
    sizes = np.arange(2, 101)
    exact = np.array([mc.surveys.effective_anonymity(int(k), 0.5, 1e-6).size for k in sizes])
    about = {
        name: np.array([mc.surveys.approximate_size(int(k), 0.5, 1e-6, name) for k in sizes])
        for name in APPROXIMATE
    }
    limit = math.log(1e-6) / math.log(0.5)
    figure, axes = panels(2)
    axes[0].plot(sizes, exact, "-", color="black", label="exact")
    for (name, values), colour in zip(about.items(), COLOURS, strict=False):
        axes[0].plot(sizes, values, "--", color=colour, linewidth=0.9, label=name)
        axes[1].plot(
            sizes, 100 * (values / exact - 1), "-", color=colour, linewidth=0.9, label=name
        )
    axes[0].axhline(
        limit, color=COLOURS[5], linestyle=":", linewidth=0.8, label="limit of tiny failures"
    )
    label(axes[0], "size, pi = 0.5, 1e-6 accepted", "k", "candidates in a cell")
    label(axes[1], "relative error", "k", "error of the approximation, %")
    results.figure(
        "approximations", "Figs. 8 and 9", "Approximations of the size, and their errors.", figure
    )
    errors = {name: values / exact - 1 for name, values in about.items()}
    rows = [
        {
            "approximation": name,
            "error at k = 10": percent(float(error[8])),
            "at k = 50": percent(float(error[48])),
            "at k = 100": percent(float(error[98])),
            "largest": percent(float(error[np.abs(error).argmax()])),
        }
        for name, error in errors.items()
    ]
    results.table(
        "approximations",
        "Fig. 9",
        "Relative errors of the approximations, pi = 0.5, 1e-6 accepted.",
        rows,
    )
    results.find(
        "Fig. 8",
        "the root of the divergence follows the size, k = 2 to 100: error at k = 10; at k = 100",
        "drawn, not printed: close",
        f"{percent(float(errors['divergence'][8]))}; {percent(float(errors['divergence'][98]))}",
        agree(bool(np.abs(errors["divergence"][8:]).max() < 0.1)),
        "Within 10 % from k = 10 counts as close.",
    )
    worst = {name: float(np.abs(error[8:]).max()) for name, error in errors.items()}
    results.find(
        "Fig. 9",
        f"largest error from k = 10 on, and error at k = 100, of {', '.join(APPROXIMATE)}",
        "drawn, not printed: adequate",
        "; ".join(
            f"{100 * worst[name]:.1f} %, {percent(float(errors[name][98]))}" for name in APPROXIMATE
        ),
        agree(max(worst.values()) < 0.15),
        "Within 15 % counts as adequate.",
    )
    off = change(limit, float(exact[48]))
    results.find(
        "Fig. 9",
        "the limit of tiny failures, ln(failure) / ln(1 - pi), at k = 50",
        "of little use",
        percent(off),
        agree(off < -0.5),
    )


def logarithmic_approximations(results: Study, profile: str) -> None:
    """Fig. 10: approximations for k = 2, rounded up, failures from 1e-7 to 1e-3."""
    powers = np.linspace(-7, -3, 4001 if profile == "full" else 401)
    exact = np.array(
        [mc.surveys.effective_anonymity(2, 0.5, float(10**power)).size for power in powers]
    )
    rounded = {
        name: np.ceil(
            [mc.surveys.approximate_size(2, 0.5, float(10**power), name) for power in powers]
        )
        for name in LOGARITHMIC
    }
    shown = slice(None, None, max(1, len(powers) // 200))
    figure, (panel,) = panels(1)
    for (name, values), colour in zip(rounded.items(), COLOURS, strict=False):
        panel.semilogx(
            10 ** powers[shown],
            100 * (values / exact - 1)[shown],
            "-",
            color=colour,
            linewidth=0.8,
            label=name,
        )
    label(panel, "k = 2, pi = 0.5, rounded up", "accepted failure", "error of the size, %")
    results.figure("logarithmic", "Fig. 10", "Errors of the approximations for k = 2.", figure)
    right: Callable[[str], float] = lambda name: float((rounded[name] == exact).mean())  # noqa: E731
    above, below = (
        bool((rounded["linear"] >= exact).all()),
        bool((rounded["quadratic"] <= exact).all()),
    )
    results.find(
        "Fig. 10",
        "first order, rounded up: an upper bound; how often exact",
        "yes; less often",
        f"{'yes' if above else 'no'}; {right('linear'):.0%}",
        agree(above),
        f"At {len(powers):,} failures from 1e-7 to 1e-3, pi = 0.5; the paper does not state its "
        f"pi.",
    )
    results.find(
        "Fig. 10",
        "second order, rounded up: optimistic; how often exact",
        "yes; more often",
        f"{'yes' if below else 'no'}; {right('quadratic'):.0%}",
        agree(below, right("quadratic") > right("linear")),
        f"At the same {len(powers):,} failures. By Lambert's function the size is exact for "
        f"{right('lambert'):.0%}.",
    )


if __name__ == "__main__":
    run_alone(study)
