"""A case: time, memory and distortion of one contender on one table, in a separate process."""

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.apart import Row, not_run, run_apart
from benchmarks.contenders import CONTENDERS, PEERS

__all__ = [
    "Case",
    "Memory",
    "best_of",
    "gaussian",
    "machine",
    "measure",
    "run_case",
    "start_up",
    "versions",
    "warm_up_peers",
]

WARM_UP, WARM_UP_OF_OTHERS = 3000, 500
"""Records of the warm-up run, in which kernels are compiled or loaded and packages imported.

Fewer for other packages, some of which would take longer to warm up than to be measured.
"""

RUNS, ENOUGH = 5, 2.0
"""Maximum number of runs of a case, and total seconds after which it is not repeated."""


@dataclass(frozen=True)
class Case:
    """A contender on ``n`` standard Gaussian records with ``m`` columns, as part of a ``question``.

    ``threads`` of 0 means all; the case is stopped after ``limit`` seconds.
    """

    question: str
    contender: str
    n: int
    m: int
    k: int
    threads: int = 0
    limit: float = 60.0


def gaussian(n: int, m: int, seed: int = 0) -> NDArray[np.float64]:
    """Independent standard Gaussian columns."""
    return np.random.default_rng(seed).normal(size=(n, m))


def loss(X: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return D = SSE / SST in plain NumPy; 0 if all records are equal.

    Examples
    --------
    >>> round(loss(np.array([[0.0], [2.0], [10.0], [12.0]]), np.array([7, 7, 3, 3])), 4)
    0.0385
    """
    cells = np.unique(labels, return_inverse=True)[1]
    sizes, within, total = np.bincount(cells), 0.0, 0.0
    for x in X.T:
        means = np.bincount(cells, weights=x) / sizes
        within += float(((x - means[cells]) ** 2).sum())
        total += float(((x - x.mean()) ** 2).sum())
    return within / total if total else 0.0


def digest(labels: NDArray[np.int64]) -> str:
    """Return a digest of a partition that does not depend on the numbering of its cells.

    Examples
    --------
    >>> digest(np.array([4, 4, 0])) == digest(np.array([1, 1, 2])) != digest(np.array([1, 2, 2]))
    True
    """
    _, first, cells = np.unique(labels, return_index=True, return_inverse=True)
    return sha256(first[cells].astype("<i8").tobytes()).hexdigest()[:16]


def best_of(times: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shortest of several times, and the last result."""
    seconds = []
    for _ in range(times):
        started = perf_counter()
        result = work()
        seconds.append(perf_counter() - started)
    return min(seconds), result


class Memory:
    """Memory of a process at construction, and its peak since then, in bytes.

    Where the system does not report current memory or cannot reset the peak, the peak is that of
    the whole life of the process, and ``beyond`` is None.
    """

    def __init__(self) -> None:
        try:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
            self.held: int | None = pages * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            self.held = None

    def peak(self) -> int:
        """Peak memory of the process."""
        if self.held is None:
            unit = 1 if sys.platform == "darwin" else 1024
            return getrusage(RUSAGE_SELF).ru_maxrss * unit
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

    def row(self) -> Row:
        """Return the peak of the process and the part since construction, in MB."""
        peak = self.peak()
        return {
            "peak_mb": peak / 1e6,
            "beyond_mb": None if self.held is None else max(0, peak - self.held) / 1e6,
        }


def measure(contender: str, n: int, m: int, k: int) -> Row:
    """Measure one contender in this process: after a warm-up, the best of a few runs."""
    chosen, X = CONTENDERS[contender], gaussian(n, m)
    group = chosen.load()
    warm = chosen.warm() if chosen.warm else group
    warm(X[: max(WARM_UP if chosen.ours else WARM_UP_OF_OTHERS, 4 * k)], k)
    memory, runs = Memory(), list[float]()
    while not runs or (len(runs) < RUNS and sum(runs) < ENOUGH):
        seconds, labels = best_of(1, lambda: group(X, k))
        runs.append(seconds)
    row = {
        "status": "measured",
        "seconds": min(runs),
        "runs": runs,
        **memory.row(),
        "matrix_mb": X.nbytes / 1e6,
    }
    sizes = np.unique(labels, return_counts=True)[1]
    cells = {"cells": len(sizes), "smallest": int(sizes.min()), "largest": int(sizes.max())}
    return {**row, "D": loss(X, labels), **cells, "digest": digest(labels)}


def run_case(case: Case, peers: str | None) -> Row:
    """Call :func:`measure` in a separate process, for peers with the Python ``peers``."""
    chosen = CONTENDERS[case.contender]
    if not chosen.ours and peers is None:
        return {**asdict(case), **not_run(f"{chosen.package} is not installed (make peers)")}
    options = {"contender": case.contender, "n": case.n, "m": case.m, "k": case.k}
    python = sys.executable if chosen.ours else str(peers)
    actual = run_apart(
        "benchmarks.cases:measure", options, python=python, threads=case.threads, limit=case.limit
    )
    return {**asdict(case), **actual}


def warm_up_peers(python: str) -> None:
    """Run every other package once, so that its compiled code is cached before measuring."""
    for name in PEERS:
        options = {"contender": name, "n": WARM_UP_OF_OTHERS, "m": 2, "k": 10}
        run_apart("benchmarks.cases:measure", options, python=python)


def start_up() -> list[Row]:
    """Time the import, and the command on 1,000 rows with warm and with empty kernel cache."""
    bare, _ = best_of(5, lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    imported, _ = best_of(
        5, lambda: subprocess.run([sys.executable, "-c", "import microcell"], check=True)
    )
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
    files = [
        str(folder / "people.csv"),
        "-s",
        str(folder / "schema.toml"),
        "-o",
        str(folder / "out.csv"),
    ]
    return [*program, "anonymize", *files, "-k", "5", "-q"]


def versions() -> Row:
    """Return the versions of the relevant packages; None if not installed."""
    actual: Row = {}
    packages = dict.fromkeys(contender.package for contender in CONTENDERS.values())
    for name in (*packages, "pycanon", "numpy", "numba", "scipy", "pandas"):
        try:
            actual[name] = version(name)
        except PackageNotFoundError:
            actual[name] = None
    return actual


def machine() -> Row:
    """Describe the machine."""
    name, cache = platform.processor() or platform.machine(), None
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
            name,
        )
        level = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
        cache = level.read_text(encoding="ascii").strip() if level.is_file() else None
    except OSError:
        pass  # a system that keeps such things elsewhere: the run is none the worse
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    facts = {
        "processor": name,
        "cores": os.cpu_count(),
        "last_level_cache": cache,
        "memory_gb": round(memory, 1),
    }
    return {
        **facts,
        "system": platform.system(),
        "python": platform.python_version(),
        "microcell": version("microcell"),
    }
