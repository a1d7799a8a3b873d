"""``python -m benchmarks.datasets FOLDER ROWSxCOLUMNS [...]``: measure data sets on local workers.

Gaussian records are written to Parquet files in FOLDER (kept for the next run) and made
10-anonymous by two workers with 2 GB each. Seconds, processor seconds of all processes and the peak
memory of any worker are stored in ``results/datasets.json``. On a busy machine compare processor
seconds. ``--memory`` (such as 2GB), ``--workers`` and ``--macrocell`` change the run; ``--compare``
also makes the release in memory, in a separate process, if the table fits.
"""

import argparse
import json
import os
import subprocess
import sys
from math import log
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from shutil import rmtree
from threading import Event, Thread
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import microcell as mc
from benchmarks.cases import machine
from microcell.dask import anonymize_dataset

RESULTS = Path(__file__).parent / "results" / "datasets.json"
FILE_ROWS, K = 250_000, 10


def write_files(folder: Path, rows: int, columns: int) -> Path:
    """Return the folder of the data set; write it first if it does not exist."""
    target = folder / f"gaussian-{rows}x{columns}"
    if target.is_dir():
        return target
    temporary = folder / f".{target.name}.partial"
    rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        X = np.random.default_rng([columns, number]).normal(
            size=(min(FILE_ROWS, rows - start), columns)
        )
        table = pa.table({name: X[:, j] for j, name in enumerate(names(columns))})
        pq.write_table(table, temporary / f"file-{number:05d}.parquet")
    temporary.rename(target)
    return target


def names(columns: int) -> list[str]:
    """Return the column names."""
    return [f"x{j}" for j in range(columns)]


class Watch:
    """Track the peak memory (bytes) of any child process while the block runs."""

    def __init__(self) -> None:
        self.peaks: dict[int, int] = {}
        self._end = Event()
        self._thread = Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(0.5):
            for pid in _descendants(os.getpid()):
                self.peaks[pid] = max(self.peaks.get(pid, 0), _peak(pid))


def _descendants(pid: int) -> list[int]:
    result: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            result += [child, *_descendants(child)]
    return result


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def processor_seconds() -> float:
    """Processor seconds of this process and of its finished child processes."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN))
    )


def on_workers(
    folder: Path, rows: int, columns: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Make a release on workers and measure it."""
    source, output = write_files(folder, rows, columns), folder / f"release-{rows}x{columns}"
    stages: dict[str, float] = {}
    before, started = processor_seconds(), perf_counter()

    def hear(task: str, _done: int, _total: int) -> None:
        if task not in stages:
            stages[task] = round(perf_counter() - started, 1)
            print(f"  {stages[task]:8.1f} s  {task}", flush=True)

    with Watch() as watch, mc.listen(hear):
        release = anonymize_dataset(
            source,
            mc.Schema(quasi=names(columns)),
            k=K,
            output=output,
            workers=options.workers,
            memory=options.memory,
            macrocell=options.macrocell,
            replace=True,
        )
    return {
        "rows": rows,
        "columns": columns,
        "workers": options.workers,
        "memory": options.memory,
        "macrocell": options.macrocell,
        "k": release.k,
        "records": release.manifest["records"]["released"],
        "classes": release.manifest["cells"]["classes"],
        "macrocells": release.manifest["cells"]["macrocells"],
        "distortion": release.manifest["cells"]["sse_ratio"],
        "seconds": perf_counter() - started,
        "processor_seconds": processor_seconds() - before,
        "worker_peak_mb": max(watch.peaks.values()) / 1e6,
        "driver_peak_mb": _peak(os.getpid()) / 1e6,
        "source_mb": sum(path.stat().st_size for path in source.iterdir()) / 1e6,
        "stages_begin_at": {
            task: at for task, at in stages.items() if not task.startswith("dashboard")
        },
    }


def in_memory(source: Path) -> dict[str, Any]:
    """Make the same release in memory, in this process."""
    table = pq.read_table(source)
    before, started = processor_seconds(), perf_counter()
    release = mc.anonymize(table, mc.Schema(quasi=table.column_names), k=K)
    return {
        "distortion": release.manifest["cells"]["sse_ratio"],
        "seconds": perf_counter() - started,
        "processor_seconds": processor_seconds() - before,
        "peak_mb": _peak(os.getpid()) / 1e6,
    }


def in_memory_apart(source: Path) -> dict[str, Any]:
    """Make the same release in memory, in a separate process."""
    words = [sys.executable, "-m", "benchmarks.datasets", "--in-memory", str(source)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def keep(row: dict[str, Any]) -> None:
    """Store a result, replacing that of the same run, and update the growth exponent."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {"cases": []}
    same = ("rows", "columns", "workers", "memory", "macrocell")
    cases = [case for case in kept["cases"] if any(case[name] != row[name] for name in same)]
    cases = sorted(
        [*cases, row],
        key=lambda case: tuple(str(case[name]).zfill(12) for name in ("columns", "rows")),
    )
    growth = []
    for one, other in ((a, b) for a in cases for b in cases):
        if one["rows"] < other["rows"] and all(one[name] == other[name] for name in same[1:]):
            power = log(other["processor_seconds"] / one["processor_seconds"]) / log(
                other["rows"] / one["rows"]
            )
            growth.append(
                {
                    "columns": one["columns"],
                    "from": one["rows"],
                    "to": other["rows"],
                    "power": power,
                }
            )
    RESULTS.parent.mkdir(exist_ok=True)
    messages = {"machine": machine(), "k": K, "cases": cases, "growth": growth}
    RESULTS.write_text(json.dumps(messages, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.datasets", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", metavar="ROWSxCOLUMNS")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--macrocell", type=int, default=200_000)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--in-memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_memory:
        print(json.dumps(in_memory(options.folder)))
        return
    for case in options.cases:
        rows, columns = map(int, case.split("x"))
        print(case, flush=True)
        row = on_workers(options.folder, rows, columns, options)
        if options.compare:
            row["in_memory"] = in_memory_apart(write_files(options.folder, rows, columns))
        keep(row)
        print(json.dumps(row, indent=2), flush=True)


if __name__ == "__main__":
    main()
