"""The profiles: questions, and for each its contenders and tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import Case
from benchmarks.contenders import PEERS

__all__ = ["OVER", "PROFILES", "Profile"]

OVER = {
    "over n": "n",
    "over n, one column": "n",
    "over m": "m",
    "over m, fewer records": "m",
    "over k": "k",
}
"""The quantity that varies in a question, if any."""

Sizes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Profile:
    """Cases, tables for the roofline of MDAV, and sizes of the audit cases.

    Cases that do not start within ``minutes`` are skipped and listed as such.
    """

    minutes: float
    cases: tuple[Case, ...]
    roof: tuple[tuple[int, int, int], ...]
    large_mb: float
    audit: int
    anonymity: int


def _over_n(sizes: Sizes, m: int, question: str, **options: Any) -> list[Case]:
    return [
        Case(question, name, n, m, 10, **options)
        for name, several in sizes.items()
        for n in several
    ]


def _over_m(
    names: tuple[str, ...], n: int, columns: tuple[int, ...], question: str = "over m"
) -> list[Case]:
    return [Case(question, name, n, m, 10) for name in names for m in columns]


def _over_k(names: tuple[str, ...], n: int, several: tuple[int, ...], limit: float) -> list[Case]:
    # The largest k first: a contender that takes too long with it is spared those that take longer.
    return [
        Case("over k", name, n, 10, k, limit=limit)
        for name in names
        for k in sorted(several, reverse=True)
    ]


def _at_once(
    question: str, names: tuple[str, ...], n: int, m: int, k: int, limit: float
) -> list[Case]:
    return [Case(question, name, n, m, k, limit=limit) for name in names]


EVERYONE = (
    "bisect",
    "mdav",
    "vmdav",
    "pcl",
    "anneal, 300 steps",
    "auto, fast",
    "auto, balanced",
    *PEERS[:3],
)
"""Methods that take several columns and moderate time."""

SEVERAL = ("bisect", "mdav", "vmdav", "anneal, 300 steps", "auto, fast")

SLOWER = ("mdav", "pcl", "auto, balanced", *PEERS[:3])
"""Slow methods, run on a small table, and MDAV for comparison."""


def _doubling(first: int, times: int) -> tuple[int, ...]:
    return tuple(first << i for i in range(times))


QUICK = Profile(
    minutes=2.75,
    cases=(
        *_at_once("distortion and time", EVERYONE, 1_000, 10, 10, limit=20.0),
        *_over_n(
            {"mdav": _doubling(5_000, 3), "bisect": _doubling(50_000, 3)}, 10, "over n", limit=20.0
        ),
        *_over_n(
            {"auto, fast": (5_000, 20_000), "anonypyx, MDAV": (500, 1_000)},
            10,
            "over n",
            limit=20.0,
        ),
        *_over_n(
            dict.fromkeys(("univariate", "microagg1d"), (100_000, 200_000)),
            1,
            "over n, one column",
            limit=60.0,
        ),
        *_over_m(("mdav",), 10_000, (5, 10, 20)),
        *_over_k(
            tuple(name for name in EVERYONE if name != "auto, balanced"), 500, (5, 25), limit=20.0
        ),
        *_at_once("plain NumPy", ("mdav", "mdav, plain NumPy"), 5_000, 15, 10, limit=60.0),
    ),
    roof=((20_000, 10, 10),),
    large_mb=240.0,
    audit=100_000,
    anonymity=2_000,
)

FULL = Profile(
    minutes=26.5,
    cases=(
        *_at_once("distortion and time", (*EVERYONE, "auto, best"), 5_000, 10, 10, limit=300.0),
        *_over_k(EVERYONE, 2_000, (3, 5, 10, 25, 50, 100), limit=60.0),
        *_over_n(
            {
                "mdav": _doubling(12_500, 5),
                "vmdav": _doubling(6_250, 5),
                "bisect": _doubling(100_000, 5),
                "pcl": _doubling(1_000, 5),
                "anneal, 300 steps": _doubling(12_500, 5),
                "auto, fast": (25_000, 100_000, 400_000, 1_000_000, 3_000_000),
                "auto, balanced": (12_500, 50_000, 200_000, 1_000_000),
                "anonypyx, Mondrian": _doubling(1_000, 4),
                "anonypyx, MDAV": _doubling(1_000, 4),
                "k-means-constrained": _doubling(500, 4),
            },
            10,
            "over n",
            limit=120.0,
        ),
        *_over_n(
            dict.fromkeys(("univariate", "microagg1d"), _doubling(100_000, 5)),
            1,
            "over n, one column",
            limit=240.0,
        ),
        *_over_m(SEVERAL, 20_000, (3, 10, 30, 100)),
        *_over_m(SLOWER, 2_000, (3, 10, 30, 100), "over m, fewer records"),
        *_at_once(
            "larger table",
            ("mdav", "auto, fast", "auto, balanced", "auto, 60 s"),
            50_000,
            15,
            10,
            limit=150.0,
        ),
        *_at_once("plain NumPy", ("mdav", "mdav, plain NumPy"), 50_000, 15, 10, limit=240.0),
        *_at_once("large cells", ("mdav", "pcl"), 65_536, 2, 1_024, limit=120.0),
        *_at_once("large cells, ten columns", ("mdav", "pcl"), 49_152, 10, 50, limit=120.0),
        *_at_once(
            "equal sizes",
            ("pcl", "pcl, no shaking", "k-means-constrained"),
            5_000,
            10,
            50,
            limit=120.0,
        ),
        Case("memory", "mdav", 1_000_000, 15, 2_000, limit=120.0),
    ),
    roof=((50_000, 15, 10), (100_000, 10, 10), (1_000_000, 50, 2_000)),
    large_mb=1_200.0,
    audit=1_000_000,
    anonymity=50_000,
)

PROFILES = {"quick": QUICK, "full": FULL}
