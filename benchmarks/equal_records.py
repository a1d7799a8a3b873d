"""``python -m benchmarks.equal_records [TABLE ...]``: tables in which many records are equal.

A generated census (sex, age, marital status, education, economic status) and, if the classic data
sets are there, several columns of Adult. Stores ``results/equal_records.json``, of which ``python
-m benchmarks.page`` makes a section. On a busy machine compare processor seconds. The names of
tables restrict the run; the other results stay.
"""

import json
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import microcell as mc
from benchmarks.contenders import CONTENDERS
from microcell.release.prepare import prepare
from tests.conftest import DATA

__all__ = ["RESULTS", "generate_census", "measure"]

RESULTS = Path(__file__).parent / "results" / "equal_records.json"
METHODS = ("mdav", "auto, fast", "auto, balanced")
SIZES = (5, 10)
SIZES_OF_CENSUS = (3, 5, 10)
ADULT = (
    ("age", "sex", "race", "education_num"),
    ("age", "education_num", "hours_per_week"),
    ("age", "sex", "race", "marital_status", "education_num", "workclass"),
    ("age", "sex", "race", "marital_status", "native_country"),
)

Points = NDArray[np.float64]


def generate_census(rows: int = 66_666, seed: int = 0) -> Points:
    """Return standardized codes of people whose columns depend on sex and age, some 4,500 distinct.

    Ages are dense up to 60 and rare beyond 90; children are single and have little education.
    """
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, rows)
    age = np.floor(98 * rng.beta(1.35, 1.9, rows)).astype(int)
    single = 1 / (1 + np.exp((age - 29) / 5))
    widowed = np.clip((age - 55) / 90, 0, 1) * (0.6 + 0.8 * sex)
    shares = np.column_stack([single, widowed, np.clip((age - 25) / 150, 0, 0.12)])
    shares[age < 18] = (1, 0, 0)
    marital = (rng.random(rows)[:, np.newaxis] > shares.cumsum(axis=1)).sum(axis=1)
    education = np.clip(np.round(rng.normal(2.2 - 0.015 * np.maximum(age - 40, 0), 1.0)), 0, 4)
    education = np.minimum(education, np.searchsorted([7, 15, 18, 22], age, side="right"))
    works = np.where(rng.random(rows) < 0.6 + 0.05 * education, 0, rng.integers(1, 4, rows))
    status = np.where(age < 15, 4, np.where(age >= 67, 3, works))
    X = np.column_stack([sex, age, marital, education, status]).astype(float)
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def read_adult(columns: tuple[str, ...]) -> Points:
    """Return the encoded columns of the records without missing values."""
    import polars as pl  # noqa: PLC0415

    frame = pl.read_csv(DATA / "adult.csv", null_values=["?"]).drop_nulls()
    schema = mc.Schema(quasi=list(columns), rest="drop")
    return prepare(frame, schema, k=2, missing="error").encoded.matrix


def tables() -> dict[str, Any]:
    """Return functions that read or generate the tables, by name."""
    out: dict[str, Any] = {"census-like": generate_census}
    if (DATA / "adult.csv").is_file():
        out |= {
            f"adult: {', '.join(columns)}": lambda c=columns: read_adult(c)  # type: ignore[misc]
            for columns in ADULT
        }
    return out


def measure(name: str, X: Points, k: int) -> list[dict[str, Any]]:
    """Return the loss in percent and the time of each method."""
    rows = []
    for method in METHODS:
        group = CONTENDERS[method].load()
        group(X[:2000], k)  # compiles or loads kernels
        started, busy = perf_counter(), process_time()
        labels = group(X, k)
        row = {
            "table": name,
            "n": len(X),
            "distinct": len(np.unique(X, axis=0)),
            "k": k,
            "method": method,
            "loss": 100 * mc.distortion(X, labels),
            "seconds": perf_counter() - started,
            "cpu_seconds": process_time() - busy,
        }
        print(f"{name}, k = {k}, {method}: {row['loss']:.4f} % in {row['cpu_seconds']:.1f} s")
        rows.append(row)
    return rows


def main() -> None:
    """Measure the tables, and store the results after each."""
    chosen = {name: load for name, load in tables().items() if name in (sys.argv[1:] or tables())}
    rows = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else []
    for name, load in chosen.items():
        X = load()
        rows = [row for row in rows if row["table"] != name]
        for k in SIZES_OF_CENSUS if name == "census-like" else SIZES:
            rows += measure(name, X, k)
        order = list(tables())
        rows.sort(key=lambda row: order.index(row["table"]))
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
