"""``python -m benchmarks.fuzz [N] [--seed S] [--case C]``: publish and recount N releases.

Exits with 1 if any of them breaks a promise, and prints the command that repeats that case.
"""

import argparse
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.fuzz.run import Tally, run, run_seed

__all__: list[str] = []


def main() -> None:
    """Run one case, or cases until N releases have been recounted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=2_000, help="releases to recount")
    parser.add_argument("--seed", type=int, default=0, help="integer of the first case")
    parser.add_argument("--case", type=int, help="run only the case of this integer")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, help="file for the counts, as JSON")
    options = parser.parse_args()
    if options.case is not None:
        with TemporaryDirectory() as folder:
            print(run_seed(options.case, Path(folder))[0])
        return
    tally = run(options.count, options.seed, options.workers, _report, _report_failure)
    print(_summary(tally))
    if options.output:
        counts = {"outcomes": dict(tally.outcomes), "formats": dict(tally.formats)}
        options.output.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    if tally.failures:
        raise SystemExit(1)


def _report(tally: Tally, seconds: float) -> None:
    rate = tally.n_released / max(seconds, 1e-9)
    failed = len(tally.failures)
    print(f"{tally.n_released:,} releases, {failed} failed, {rate:.0f} per second", flush=True)


def _report_failure(seed: int, trace: str) -> None:
    print(f"\n{trace}repeat with: python -m benchmarks.fuzz --case {seed}\n", flush=True)


def _summary(tally: Tally) -> str:
    lines = [f"{number:8,}  {name}" for name, number in tally.outcomes.most_common()]
    formats = ", ".join(f"{name} {number:,}" for name, number in tally.formats.most_common())
    return "\n".join([*lines, f"Formats: {formats}."])


if __name__ == "__main__":
    main()
