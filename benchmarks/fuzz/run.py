"""Run many cases on several processes and count what they came to."""

import logging
import os
import shutil
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkdtemp

from polars.exceptions import PanicException

from benchmarks.fuzz.cases import make_case
from benchmarks.fuzz.faults import run_with_fault
from benchmarks.fuzz.names import run_names
from benchmarks.fuzz.recount import run_case
from benchmarks.fuzz.sessions import run_session

__all__ = ["Tally", "run", "run_seed", "run_seeds"]

_BATCH = 200
_MOST_FAILURES = 20


@dataclass
class Tally:
    """Outcomes of cases, and the failures by seed."""

    outcomes: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    @property
    def n_released(self) -> int:
        """Number of releases that were published and recounted."""
        return sum(n for name, n in self.outcomes.items() if name.startswith("released"))

    def add(self, other: "Tally") -> None:
        """Add the outcomes of other cases."""
        self.outcomes += other.outcomes
        self.formats += other.formats
        self.failures |= other.failures


def run_seed(seed: int, folder: Path) -> tuple[str, str]:
    """Run one case in an empty folder; return its outcome and format."""
    if seed % 100 == 99:
        return f"names: {run_names(seed, folder)}", ""
    if seed % 25 == 24:
        return run_session(seed, folder), ""
    case = make_case(seed)
    outcome = run_with_fault(case, folder) if case.fault else run_case(case, folder)
    return outcome, case.suffix if outcome.startswith("released") else ""


def run_seeds(seeds: range, scratch: Path) -> Tally:
    """Run the cases of a range of integers, one after the other."""
    logging.getLogger("fastexcel").setLevel(logging.ERROR)  # it warns of empty columns
    tally = Tally()
    for seed in seeds:
        folder = scratch / str(seed)
        folder.mkdir(parents=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                outcome, suffix = run_seed(seed, folder)
        except (Exception, PanicException):  # noqa: BLE001  # every failure is reported
            tally.failures[seed] = traceback.format_exc()
            outcome, suffix = "failed", ""
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        tally.outcomes[outcome] += 1
        if suffix:
            tally.formats[suffix] += 1
    return tally


def run(
    count: int,
    first: int,
    workers: int,
    report: Callable[[Tally, float], None],
    report_failure: Callable[[int, str], None],
) -> Tally:
    """Run cases until ``count`` releases have been recounted, or too many have failed."""
    started = time.monotonic()
    tally = Tally()
    scratch = Path(mkdtemp(prefix="fuzz", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    # For the processes started below: one thread each.
    os.environ |= {"POLARS_MAX_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    batches = _batches(first)
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            waiting = {pool.submit(run_seeds, next(batches), scratch) for _ in range(workers)}
            while waiting:
                done = next(as_completed(waiting))
                waiting.remove(done)
                batch = done.result()
                for seed, trace in batch.failures.items():
                    report_failure(seed, trace)
                tally.add(batch)
                report(tally, time.monotonic() - started)
                if tally.n_released < count and len(tally.failures) < _MOST_FAILURES:
                    waiting.add(pool.submit(run_seeds, next(batches), scratch))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return tally


def _batches(first: int) -> Iterator[range]:
    while True:
        yield range(first, first + _BATCH)
        first += _BATCH
