"""The cases: each a function that measures something in this run and returns rows of figures."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import microcell as mc
from tests.reference import oracles

Row = dict[str, Any]


def best_of(times: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """The least of several times, and the last result."""
    seconds = []
    for _ in range(times):
        started = perf_counter()
        result = work()
        seconds.append(perf_counter() - started)
    return min(seconds), result


def gaussian(n: int, m: int, seed: int = 0) -> np.ndarray:
    """Independent standard Gaussian columns."""
    return np.random.default_rng(seed).normal(size=(n, m))


def method_row(name: str, X: np.ndarray, k: int, *, times: int = 3, **options: Any) -> Row:
    """Time and distortion of one method on one table."""
    mc.partition(X[: 4 * k], k, method=name, **options)  # compiled or loaded beforehand
    seconds, cells = best_of(times, lambda: mc.partition(X, k, method=name, **options))
    n, m = X.shape
    row = {"case": name, "n": n, "m": m, "k": k, "seconds": seconds, "D": mc.distortion(X, cells.labels)}
    return {**row, "cells": len(cells), "smallest": int(cells.sizes.min())}


def mdav_against_numpy(n: int, m: int = 15, k: int = 10) -> list[Row]:
    """MDAV beside the plain NumPy version of the tests: same labels, ratio of times."""
    X = gaussian(n, m)
    ours = method_row("mdav", X, k)
    seconds, labels = best_of(1, lambda: oracles.mdav(X, k))
    same = bool((labels == mc.partition(X, k, method="mdav").labels).all())
    plain = {"case": "mdav, plain NumPy", "n": n, "m": m, "k": k, "seconds": seconds, "D": mc.distortion(X, labels)}
    return [{**ours, "times faster": seconds / ours["seconds"], "same labels": same}, plain]


def mdav_memory(n: int, m: int = 15, k: int = 2000) -> list[Row]:
    """Peak memory of MDAV, matrix included, in matrices; measured in a process of its own.

    From what the process holds before the matrix is made (its earlier peak would hide some of it) to its peak.
    """
    code = (
        "import os, resource, numpy as np, microcell as mc\n"
        "mc.partition(np.random.default_rng(0).normal(size=(20000, 3)), 100, method='mdav')\n"
        "held = int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGE_SIZE')\n"
        f"X = np.random.default_rng(0).normal(size=({n}, {m})); mc.partition(X, {k}, method='mdav')\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - held) / X.nbytes)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [{"case": "mdav, peak memory", "n": n, "m": m, "k": k, "matrices": float(found.stdout)}]


def other_methods(n: int) -> list[Row]:
    """V-MDAV beside MDAV, and the univariate optimum."""
    X = gaussian(n, 10)
    rows = [method_row("mdav", X, 10), method_row("vmdav", X, 10, times=1)]
    return [*rows, method_row("univariate", gaussian(1_000_000, 1), 10)]


def scaling(sizes: tuple[int, ...]) -> list[Row]:
    """MDAV over n: seconds, and the exponent of n between neighbours (2 is what its scans cost)."""
    rows: list[Row] = []
    for n in sizes:
        row = method_row("mdav", gaussian(n, 10), 10, times=2)
        if rows:
            last = rows[-1]
            row["exponent"] = float(np.log(row["seconds"] / last["seconds"]) / np.log(n / last["n"]))
        rows.append(row)
    return rows


def least_distortion(n: int, m: int, efforts: tuple[str | float, ...], k: int = 10) -> list[Row]:
    """MDAV, and ``auto`` of several efforts beside it: D and seconds as ratios to MDAV's."""
    X = gaussian(n, m)
    yardstick = method_row("mdav", X, k)
    mc.partition(X[:3000], k)
    rows = [yardstick]
    for effort in efforts:
        seconds, cells = best_of(1, lambda effort=effort: mc.partition(X, k, effort=effort))
        D = mc.distortion(X, cells.labels)
        row = {"case": f"auto, effort {effort}", "n": n, "m": m, "k": k, "seconds": seconds, "D": D}
        rows.append({**row, "D / MDAV": D / yardstick["D"], "seconds / MDAV": seconds / yardstick["seconds"]})
    return rows


def scaling_of_auto(sizes: tuple[int, ...], m: int = 8, k: int = 10) -> list[Row]:
    """The default over n: seconds, D, and the exponent of n from one size to the next."""
    rows: list[Row] = []
    for n in sizes:
        X = gaussian(n, m)
        seconds, cells = best_of(1, lambda X=X: mc.partition(X, k))
        row = {"case": "auto", "n": n, "m": m, "k": k, "seconds": seconds, "D": mc.distortion(X, cells.labels)}
        if rows:
            last = rows[-1]
            row["exponent"] = float(np.log(seconds / last["seconds"]) / np.log(n / last["n"]))
        rows.append(row)
    return rows


def constrained_lloyd(n: int) -> list[Row]:
    """PCL at cells of many and of few points: time and distortion, MDAV's beside."""
    rows = []
    for points, k in ((gaussian(n, 2), n // 64), (gaussian(n * 3 // 4, 10), 50)):
        mdav = method_row("mdav", points, k, times=1)
        rows += [mdav, {**method_row("pcl", points, k, times=1), "case": "pcl, one start, exact"}]
    return rows


def constrained_k_means(n: int = 5000, m: int = 10, k: int = 50) -> list[Row]:
    """PCL beside k-means-constrained on the same points and sizes, where that package is installed."""
    try:
        from k_means_constrained import KMeansConstrained  # noqa: PLC0415
    except ImportError:
        return [{"case": "k-means-constrained is not installed: nothing to compare with"}]
    X = gaussian(n, m)
    peer = KMeansConstrained(n_clusters=n // k, size_min=k, size_max=-(-n // (n // k)), n_init=1, random_state=0)
    seconds, labels = best_of(1, lambda: peer.fit_predict(X))
    ours = [
        {**method_row("pcl", X, k, shakes=shakes), "case": f"pcl, {told}"}
        for shakes, told in ((0, "without shaking"), (None, "as by default"))
    ]
    theirs = {"case": "k-means-constrained", "n": n, "m": m, "k": k, "seconds": seconds, "D": mc.distortion(X, labels)}
    return [theirs, *({**row, "times faster": seconds / row["seconds"]} for row in ours)]


def start_up() -> list[Row]:
    """Import, and the command on 1,000 rows: warm, and with no compiled kernel on disk."""
    bare, _ = best_of(5, lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    imported, _ = best_of(5, lambda: subprocess.run([sys.executable, "-c", "import microcell"], check=True))
    with tempfile.TemporaryDirectory() as folder:
        command = _anonymize_command(Path(folder))
        subprocess.run(command, check=True)
        warm, _ = best_of(3, lambda: subprocess.run(command, check=True))
        fresh = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder) / "cache")}
        first, _ = best_of(1, lambda: subprocess.run(command, env=fresh, check=True))
    return [
        {"case": "import microcell", "seconds": imported - bare},
        {"case": "anonymize 1,000 rows, warm", "seconds": warm},
        {"case": "anonymize 1,000 rows, first run on a machine", "seconds": first},
    ]


def _anonymize_command(folder: Path) -> list[str]:
    program = [sys.executable, "-m", "microcell"]
    subprocess.run([*program, "example", "-q", "--records", "1000", "-o", str(folder)], check=True)
    files = [str(folder / "people.csv"), "-s", str(folder / "schema.toml"), "-o", str(folder / "out.csv")]
    return [*program, "anonymize", *files, "-k", "5", "-q"]


def machine() -> Row:
    """What this run was measured on."""
    return {"cores": os.cpu_count(), "python": sys.version.split()[0], "microcell": mc.__version__}
