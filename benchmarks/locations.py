"""``python -m benchmarks.locations [DEVICES [K]]``: benchmark of the location anonymizer.

Measures the time of clustering, the distances between devices and their locations, and the speed of
look-ups with and without a rebuild. Results are printed and saved as JSON, together with the load
of the machine: look-up times are meaningful only if both cores are idle.
"""

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep
from typing import Any

import numpy as np

from microcell import locations
from microcell.locations.clustering import great_circle, to_points
from microcell.locations.simulation import mdav_distances

RESULTS = Path(__file__).parent / "results"
OPERATOR = "the operator of the benchmark"
LONGEST = 300.0
"""Maximum duration of a rebuild in seconds."""

PERIOD = 20
"""Seconds between publications."""

SPARE = 0.05
"""By how much cells are larger than k, as the service makes them."""

Row = dict[str, Any]
Answers = np.ndarray  # when, seconds, status; one row a request


def clustering(n: int = 100_000, k: int = 100, changed: float = 0.05) -> list[Row]:
    """Measure the first clustering of a city and a warm rebuild, compared with MDAV."""
    points = to_points(*locations.make_city(n, seed=0))
    locations.cluster(points[: 10 * k], k)  # compiled or loaded beforehand
    first, row = _clustered("first clustering", points, k, None)
    moved = points.copy()
    few = np.random.default_rng(1).choice(n, round(changed * n), replace=False)
    moved[few] = to_points(*locations.make_city(len(few), seed=2))
    _, again = _clustered("warm rebuild", moved, k, first)
    return [row, {**again, "of the first": again["seconds"] / row["seconds"]}]


def _clustered(
    case: str, points: np.ndarray, k: int, start: "locations.Clustering | None"
) -> "tuple[locations.Clustering, Row]":
    began = perf_counter()
    actual, cells = locations.cluster(points, k, start=start, spare=SPARE)
    seconds = perf_counter() - began
    ours = great_circle(points, to_points(*actual.places[cells].T))
    began = perf_counter()
    theirs = mdav_distances(points, k)
    mdav_seconds = perf_counter() - began
    return actual, {
        "case": case,
        "n": len(points),
        "k": k,
        "seconds": seconds,
        "cells": len(actual),
        "smallest": int(np.bincount(cells).min()),
        "mean km": float(ours.mean()),
        "MDAV mean km": float(theirs.mean()),
        "distortion over MDAV": float(np.mean(ours**2) / np.mean(theirs**2)),
        "MDAV seconds": mdav_seconds,
    }


def look_ups(
    n: int = 100_000, k: int = 100, rate: float = 1000.0, seconds: float = 8.0
) -> list[Row]:
    """Measure look-ups of a service in a separate process, idle and during a publication.

    First at maximum throughput, then at a steady rate, with waiting counted from when each was due.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        key = locations.new_key()
        database = f"sqlite:///{folder / 'locations.db'}"
        _fill(database, folder, n, k, key)
        with _serving(database, k, key) as (port, client):
            rows = []
            for case, at in (("as fast as can be", 0.0), (f"{rate:g} a second", rate)):
                with _load(folder, port, at) as taken:
                    sleep(seconds)
                rows.append(_measured(f"idle, {case}", taken[0]))
                with _load(folder, port, at) as taken:
                    sleep(0.5)
                    window = _publication(client)
                    sleep(0.5)
                rows.append(_measured(f"during a publication, {case}", taken[0], window))
            return [{**row, "n": n, "k": k} for row in rows]


def _fill(database: str, folder: Path, n: int, k: int, key: bytes) -> None:
    latitude, longitude = locations.make_city(n, seed=0)
    anonymizer = locations.Anonymizer.open(database, k, key=key, background=False)
    people = {"latitude": latitude, "longitude": longitude}
    locations.import_people(anonymizer, people, folder / "accounts.csv")
    anonymizer.close()


@contextmanager
def _serving(database: str, k: int, key: bytes) -> "Iterator[tuple[int, locations.Client]]":
    """The service in a process of its own, and the operator's client of it."""
    secrets = {
        "MICROCELL_LOCATIONS_KEY": b64encode(key).decode(),
        "MICROCELL_LOCATIONS_OPERATOR": OPERATOR,
    }
    words = [
        "locations",
        "serve",
        "--database",
        database,
        "-k",
        str(k),
        "--port",
        "0",
        "--rate",
        "0",
        "--sign-up-rate",
        "0",
        "--period",
        str(PERIOD),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "microcell", *words],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | secrets,
    )
    assert process.stderr is not None
    try:
        message = next((line for line in process.stderr if line.startswith("serving on ")), "")
        if not message:
            raise RuntimeError("The service did not start.")
        port = int(message.partition("//")[2].partition("/")[0].rpartition(":")[2])
        with locations.Client(f"http://127.0.0.1:{port}", operator=OPERATOR) as client:
            yield port, client
    finally:
        process.terminate()
        process.communicate(timeout=60)


@contextmanager
def _load(folder: Path, port: int, rate: float) -> Iterator[list[Answers]]:
    """A load while the block runs; what it measured is in the list thereafter."""
    output = folder / "load.npy"
    words = [str(port), str(folder / "accounts.csv"), str(output), "--rate", str(rate)]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load", *words], stdin=subprocess.PIPE
    )
    taken: list[Answers] = []
    sleep(2.0)  # it reads the accounts first
    try:
        yield taken
    finally:
        process.communicate()
    taken.append(np.load(output))


def _publication(client: "locations.Client") -> tuple[float, float]:
    """Sign up as many devices as a publication needs: when it began and when it was over."""
    status = client.status()
    for home in zip(*locations.make_city(2 * (status.k + status.colluders), seed=7), strict=True):
        client.sign_up(*map(float, home))
    before, asked, began = status.publications, monotonic(), 0.0
    while (status := client.status()).publications == before:
        if status.last_failure is not None or monotonic() - asked > LONGEST:
            raise RuntimeError(f"The publication does not end: {status.last_failure}")
        if status.rebuilding and not began:
            began = monotonic()
        sleep(0.1)
    return began or monotonic(), monotonic()


def _measured(case: str, answers: Answers, window: tuple[float, float] | None = None) -> Row:
    """Rate and quantiles of the answers that came within the window."""
    when, took, status = answers.T
    begin, end = window or (when.min(), when.max())
    inside = (when >= begin) & (when <= end)
    p50, p99, worst = np.quantile(took[inside], [0.5, 0.99, 1.0]) * 1000
    return {
        "case": case,
        "seconds": float(end - begin),
        "look-ups a second": float(inside.sum() / (end - begin)),
        "p50 ms": float(p50),
        "p99 ms": float(p99),
        "longest ms": float(worst),
        "refused": int((status[inside] != 200).sum()),
    }


def main() -> None:
    """Measure a city of so many devices."""
    options = [int(word) for word in sys.argv[1:3]]
    n, k = (*options, *(100_000, 100)[len(options) :])
    rows: list[Row] = []
    for case in (clustering, look_ups):
        before = os.getloadavg()[0]
        for row in case(n, k):
            rows.append({**row, "load before": before})
            text = (
                f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                for name, value in row.items()
            )
            print("  " + ", ".join(text).removeprefix("case "), flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "locations.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
