"""``python -m benchmarks.command``: time of ``microcell anonymize`` on a small table, by phase.

Each run is a new process with compiled kernels at hand. Processor time is given beside elapsed
time, because it depends less on what else the machine does.
"""

import argparse
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from benchmarks.apart import Row, run_apart

__all__ = ["PHASES", "measure_command", "time_phases"]

PHASES = ("start", "import", "read", "search", "publish")
"""Start of Python (processor time only); imports of the command; reading the table;
``mc.anonymize``, mostly the search; writing the release and verifying the file."""


def time_phases(n: int, k: int, effort: str) -> Row:
    """Anonymize the bundled survey as the command does; return (processor, elapsed) per phase.

    Runs in its own process (see :func:`benchmarks.apart.run_apart`).
    """
    marks = [(0.0, perf_counter()), (process_time(), perf_counter())]

    def mark() -> None:
        marks.append((process_time(), perf_counter()))

    from microcell import anonymize, read, sample_schema, sample_survey, write  # noqa: PLC0415

    mark()
    with TemporaryDirectory() as folder:
        source = Path(folder, "people.csv")
        write(sample_survey(n), source)
        marks[-1], skipped = (process_time(), perf_counter()), marks[-1]
        table = read(source)
        mark()
        release = anonymize(table, sample_schema(), k=k, effort=effort)
        mark()
        release.publish(Path(folder, "release.csv"))
        mark()
    ends = [*marks[1:2], skipped, *marks[3:]]
    begins = marks[:-1]
    spent = [
        (end[0] - begin[0], end[1] - begin[1]) for begin, end in zip(begins, ends, strict=True)
    ]
    return {"phases": dict(zip(PHASES, spent, strict=True))}


def measure_command(n: int, k: int, effort: str, repeat: int) -> Row:
    """Return the median (processor, elapsed) seconds of each phase, without the first run."""
    arguments = {"n": n, "k": k, "effort": effort}
    rows = [run_apart("benchmarks.command:time_phases", arguments) for _ in range(repeat + 1)][1:]
    if any("phases" not in row for row in rows):
        return rows[-1]
    return {
        name: tuple(median(row["phases"][name][i] for row in rows) for i in (0, 1))
        for name in PHASES
    }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("-k", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    for effort in ("fast", "balanced"):
        result = measure_command(options.records, options.k, effort, options.repeat)
        print(f"{options.records:,} records, k = {options.k}, effort {effort}")
        if "why" in result:
            print(f"  {result['why']}")
            continue
        result["total"] = tuple(sum(result[name][i] for name in PHASES) for i in (0, 1))
        for name, (processor, elapsed) in result.items():
            print(f"  {name:8} {processor:6.2f} s processor {elapsed:6.2f} s elapsed")


if __name__ == "__main__":
    main()
