"""Growth of running time: slope and uncertainty of a fit on logarithmic axes."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from benchmarks.apart import Row

__all__ = ["exponents", "fit"]


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> Row:
    """Fit seconds = a size^b by least squares of logarithms; return b and its uncertainty.

    ``error`` is the standard error of the slope, None for two points; ``least`` and ``most`` are
    the extreme slopes between neighbouring points.

    Examples
    --------
    >>> result = fit([1, 2, 4, 8], [3, 12, 48, 192])
    >>> round(result["exponent"], 9), round(result["error"], 9)
    (2.0, 0.0)
    """
    if len(set(sizes)) < 2:
        raise ValueError("a slope needs two different sizes")
    order = np.argsort(sizes)
    x, y = (
        np.log(np.asarray(sizes, dtype=float)[order]),
        np.log(np.asarray(seconds, dtype=float)[order]),
    )
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    rest = y - y.mean() - slope * centred
    error = float(np.sqrt(rest @ rest / (len(x) - 2) / (centred @ centred))) if len(x) > 2 else None
    steps = [(q - p) / (b - a) for (a, p), (b, q) in pairwise(zip(x, y, strict=True)) if b > a]
    return {
        "exponent": slope,
        "error": error,
        "least": float(min(steps)),
        "most": float(max(steps)),
        "points": len(x),
    }


def exponents(rows: Iterable[Row], over: dict[str, str]) -> list[Row]:
    """Return the exponent of every contender for each question; ``over`` names what varies."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["status"] == "measured" and row["question"] in over:
            groups.setdefault((row["question"], row["contender"]), []).append(row)
    output = []
    for (question, contender), actual in groups.items():
        varied = over[question]
        sizes = [row[varied] for row in actual]
        if len(set(sizes)) > 1:
            slope = fit(sizes, [row["seconds"] for row in actual])
            output.append(
                {"question": question, "contender": contender, "over": varied}
                | {"from": min(sizes), "to": max(sizes), **slope}
            )
    return output
