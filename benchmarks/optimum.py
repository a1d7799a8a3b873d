"""``python -m benchmarks.optimum [SECONDS]``: how far the classic data sets are from the optimum.

Bounds by nearest records and by set partitioning, the latter at effort "best" or within some
seconds each, next to the lowest loss that we have found. Stores the results for the page of
benchmarks, of which ``python -m benchmarks.page`` makes a section.
"""

import json
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import microcell as mc
from benchmarks import records

__all__ = ["RESULTS", "measure"]

RESULTS = Path(__file__).parent / "results" / "optimum.json"
SIZES = (3, 5, 10)


def measure(name: str, k: int, effort: str | float) -> dict[str, Any]:
    """Return the bounds of a data set in percent, and the time that the second one took."""
    X = records.load(name)
    nearest = 100 * mc.lower_bound(X, k, effort="fast")
    started, busy = perf_counter(), process_time()
    bound = 100 * mc.lower_bound(X, k, effort=effort)
    return {
        "data": name,
        "k": k,
        "effort": effort,
        "nearest": nearest,
        "bound": bound,
        "lowest": records.loss(X, records.kept_labels(name, k)),
        "seconds": perf_counter() - started,
        "cpu_seconds": process_time() - busy,
    }


def main() -> None:
    """Measure every data set for every k, and store the results after each."""
    effort = float(sys.argv[1]) if len(sys.argv) > 1 else "best"
    rows = []
    for k in SIZES:
        for name in records.SETS:
            row = measure(name, k, effort)
            rows.append(row)
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
            share = row["bound"] / row["lowest"]
            print(f"{name} k = {k}: {row['bound']:.4f} ({share:.1%}) in {row['seconds']:.0f} s")


if __name__ == "__main__":
    main()
