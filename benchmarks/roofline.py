"""Roofline of the MDAV scan: its speed relative to measured bandwidth and arithmetic limits.

A distance evaluation over m columns reads 8 m bytes and takes 3 m operations (a difference, a
product, a sum), and MDAV makes 0.75 n^2 / k of them. A machine allows at most the smaller of its
arithmetic peak and of 3/8 operation per byte times its bandwidth (Williams, Waterman and Patterson
2009). The bandwidth is that of data of the table's size, which may fit in a cache: the larger of a
STREAM-like triad and of reading alone.
"""

import os
from time import perf_counter
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.apart import Row, run_apart
from benchmarks.cases import Case, run_case

__all__ = ["LARGE_MB", "bandwidth", "peaks", "place", "roofline"]

LARGE_MB = 1200.0
"""Amount of data that exceeds every cache."""

_SECONDS = 0.3
"""Minimum duration of a measurement in seconds; the best of three is used."""

CHAIN = 8
"""Operations per number between load and store."""

Floats = NDArray[np.float64]


@numba.njit(parallel=True, cache=True, fastmath=True)
def _triad(a: Floats, b: Floats, c: Floats, parts: int, rounds: int) -> None:
    """Compute a = b + s c ``rounds`` times, with fixed parts per thread (OUT: ``a``)."""
    n = len(a)
    for part in numba.prange(parts):
        # Loop over slices: the type of the bounds of a part prevents vectorization.
        part_rows = slice(part * n // parts, (part + 1) * n // parts)
        x, y, z = a[part_rows], b[part_rows], c[part_rows]
        for r in range(rounds):
            s = 1.0 + r
            for i in range(len(x)):
                x[i] = y[i] + s * z[i]


@numba.njit(parallel=True, cache=True, fastmath=True)
def _read(a: Floats, parts: int, rounds: int) -> float:
    """Sum ``a`` ``rounds`` times."""
    n, total = len(a), 0.0
    for part in numba.prange(parts):
        x = a[part * n // parts : (part + 1) * n // parts]
        kept = 0.0
        for r in range(rounds):
            subtotal = 0.0
            for i in range(len(x)):
                subtotal += x[i]
            kept += (
                1.0 + r
            ) * subtotal  # another factor in every round, so that no round is left out
        total += kept
    return total


def _chains(a: Floats, parts: int, rounds: int) -> None:
    """Apply :data:`CHAIN` multiply-adds to every number of the small array ``a`` (OUT)."""
    n = a.shape[1]
    for part in numba.prange(parts):
        rows = a[part]
        for r in range(rounds):
            b, c = 0.999 - 1e-12 * r, 1e-3
            for i in range(n):
                x = rows[i]
                for _ in range(CHAIN):
                    x = x * b + c
                rows[i] = x


# Not kept on disk: numba takes a function compiled with other options for the same one.
_fused = numba.njit(parallel=True, fastmath={"contract"})(_chains)
_unfused = numba.njit(parallel=True)(_chains)


def _speed(work: Any, amount: float) -> float:
    """Return ``amount`` per round in units of 1e9 per second; ``work`` takes the rounds to run."""
    work(1)
    rounds, best = 1, 0.0
    while True:
        started = perf_counter()
        work(rounds)
        seconds = perf_counter() - started
        if seconds >= _SECONDS:
            break
        rounds = max(
            rounds + 1, min(10 * rounds, int(rounds * 1.2 * _SECONDS / max(seconds, 1e-6)))
        )
    best = amount * rounds / seconds
    for _ in range(2):
        started = perf_counter()
        work(rounds)
        best = max(best, amount * rounds / (perf_counter() - started))
    return best / 1e9


def bandwidth(megabytes: float) -> Row:
    """Return the bandwidth in GB/s of a triad (24 bytes per step) and of reading."""
    threads, n = numba.get_num_threads(), max(1024, int(megabytes * 1e6 / 24))
    a, b, c = np.zeros(n), np.ones(n), np.ones(n)
    triad = _speed(lambda rounds: _triad(a, b, c, threads, rounds), 24.0 * n)
    whole = np.ones(3 * n)
    return {
        "megabytes": megabytes,
        "triad": triad,
        "read": _speed(lambda r: _read(whole, threads, r), 24.0 * n),
    }


def peaks() -> Row:
    """Return GFLOP/s of multiply-adds, fused and as two instructions (as in the kernels).

    The kernels do not fuse: it rounds once instead of twice and depends on the compiler, so labels
    would differ between machines.
    """
    threads = numba.get_num_threads()
    a = np.ones((threads, 1024))
    amount = 2.0 * CHAIN * a.size
    fused = _speed(lambda rounds: _fused(a, threads, rounds), amount)
    return {"fused": fused, "unfused": _speed(lambda rounds: _unfused(a, threads, rounds), amount)}


def place(row: Row, peak: Row, near: Row) -> Row:
    """Place an MDAV measurement under the roofline; ``near`` is the bandwidth for its data size.

    Examples
    --------
    >>> row = {"n": 1000, "m": 10, "k": 10, "seconds": 0.001, "threads": 1}
    >>> told = place(row, {"fused": 100.0, "unfused": 50.0}, {"triad": 8.0, "read": 16.0})
    >>> told["gflops"], told["gbps"], told["bound"], round(told["of_roof"], 4)
    (2.25, 6.0, 'bandwidth', 0.375)
    """
    evaluations = 0.75 * row["n"] ** 2 / row["k"]
    gflops, gbps = (amount * row["m"] * evaluations / row["seconds"] / 1e9 for amount in (3, 8))
    widest = max(near["triad"], near["read"])
    roof = min(peak["fused"], widest * 3 / 8)
    return {
        **{name: row[name] for name in ("n", "m", "k", "threads", "seconds")},
        "evaluations": evaluations,
        "gflops": gflops,
        "gbps": gbps,
        "of_fused_peak": gflops / peak["fused"],
        "of_unfused_peak": gflops / peak["unfused"],
        "bandwidth": widest,
        "of_bandwidth": gbps / widest,
        "bound": "arithmetic" if roof == peak["fused"] else "bandwidth",
        "of_roof": gflops / roof,
    }


def roofline(tables: list[tuple[int, int, int]], large_mb: float = LARGE_MB) -> Row:
    """Measure the limits of one core and of all cores, and MDAV on tables of (n, m, k)."""
    output: Row = {"machine": [], "mdav": []}
    for threads in dict.fromkeys((1, os.cpu_count() or 1)):
        peak = run_apart("benchmarks.roofline:peaks", {}, threads=threads)
        far = run_apart("benchmarks.roofline:bandwidth", {"megabytes": large_mb}, threads=threads)
        output["machine"].append({"threads": threads, **peak, **far})
        for n, m, k in tables:
            row = run_case(Case("roofline", "mdav", n, m, k, threads=threads, limit=300.0), None)
            near = run_apart(
                "benchmarks.roofline:bandwidth", {"megabytes": 8e-6 * n * m}, threads=threads
            )
            missing = next(
                (part for part in (row, peak, near) if part.get("status") == "not run"), None
            )
            output["mdav"].append({**row, **(missing or place(row, peak, near))})
    return output
