"""``python -m benchmarks.locations [DEVICES [K]]``: benchmark of the location anonymizer.

Measures publications, the distances between devices and their locations, memory, and look-ups.
Costs are processor times, which other work on the machine hardly changes; latencies are wall times
and saved together with the load of the machine. Results are printed and saved as JSON.
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
from time import monotonic, process_time, sleep
from typing import Any

import numpy as np

from microcell import locations
from microcell.locations.clustering import to_points
from microcell.locations.simulation import mdav_distances

RESULTS = Path(__file__).parent / "results"
OPERATOR = "the operator of the benchmark"
LONGEST = 300.0
"""Maximum duration of a rebuild in seconds."""

PERIOD = 20
"""Seconds between publications."""

Row = dict[str, Any]
Answers = np.ndarray  # when, seconds, status; one row a request


def publications(n: int = 100_000, k: int = 100) -> Iterator[Row]:
    """Measure sign-ups, the first publication, one after 5 % changed, and a rebuild."""
    locations.cluster(to_points(*locations.make_city(10 * k, seed=3)), k)  # compiled beforehand
    service = locations.Anonymizer.open(
        "sqlite://", k, key=locations.new_key(), background=False, share=1.0
    )
    before = _resident()
    with _timed() as taken:
        accounts = service.sign_up_many(*locations.make_city(n, seed=0))
    row = {"case": "sign-ups in one batch", "n": n, "k": k, **taken}
    yield {**row, "bytes per device": (_resident() - before) / n}
    free = _free(service, k)
    yield {**_published("first publication", service), **free}
    few = np.random.default_rng(1).choice(n, round(0.05 * n), replace=False)
    homes = np.stack(locations.make_city(len(few), seed=2), axis=1).tolist()
    with _timed() as taken:
        for at, home in zip(few.tolist(), homes, strict=True):
            service.move(accounts[at].pseudonym, accounts[at].token, *home)
    yield {"case": "moves of 5 %, one by one", **taken}
    yield _published("publication after 5 % moved", service)
    service.rebuild()
    service.sign_up_many(*locations.make_city(n // 20, seed=4))
    yield {**_published("publication with a rebuild", service), **_free(service, k)}
    service.close()


@contextmanager
def _timed() -> Iterator[Row]:
    taken: Row = {}
    began = process_time()
    yield taken
    taken["processor seconds"] = process_time() - began


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _published(case: str, service: "locations.Anonymizer") -> Row:
    with _timed() as taken:
        service.publish()
    status = service.status()
    return {
        "case": case,
        **taken,
        "rebuilds": status.rebuilds,
        "cells": status.cells,
        "smallest": status.smallest_cell,
        "k over history": status.k_over_history,
        "mean km": status.distance,
    }


def _free(service: "locations.Anonymizer", k: int) -> Row:
    """Return the mean distance of MDAV cells of k with exact means, on the same devices."""
    population = service._population
    points = population.points[population.occupied()]
    with _timed() as taken:
        theirs = mdav_distances(points, k)
    return {"MDAV mean km": float(theirs.mean()), "MDAV processor s": taken["processor seconds"]}


def look_ups(
    n: int = 100_000, k: int = 100, rate: float = 1000.0, seconds: float = 8.0
) -> Iterator[Row]:
    """Measure look-ups of a service in a separate process, idle and during a publication.

    First at maximum throughput, then at a steady rate, with waiting counted from when each was due.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        key = locations.new_key()
        database = f"sqlite:///{folder / 'locations.db'}"
        _fill(database, folder, n, k, key)
        with _serving(database, k, key) as (port, client, process):
            for case, at in (("as fast as can be", 0.0), (f"{rate:g} a second", rate)):
                used = _processor_time(process)
                with _load(folder, port, at) as taken:
                    sleep(seconds)
                used = _processor_time(process) - used
                row = _measured(f"idle, {case}", taken[0])
                yield {**row, "service ms per look-up": 1000 * used / len(taken[0])}
                with _load(folder, port, at) as taken:
                    sleep(0.5)
                    window = _publication(client)
                    sleep(0.5)
                yield _measured(f"during a publication, {case}", taken[0], window)


def _processor_time(process: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _fill(database: str, folder: Path, n: int, k: int, key: bytes) -> None:
    latitude, longitude = locations.make_city(n, seed=0)
    anonymizer = locations.Anonymizer.open(database, k, key=key, background=False)
    people = {"latitude": latitude, "longitude": longitude}
    locations.import_people(anonymizer, people, folder / "accounts.csv")
    anonymizer.close()


@contextmanager
def _serving(database: str, k: int, key: bytes) -> "Iterator[tuple[int, locations.Client, int]]":
    """The service in a separate process: its port, the operator's client and the process id."""
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
            yield port, client, process.pid
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
    """Measure a city with this number of devices."""
    options = [int(word) for word in sys.argv[1:3]]
    n, k = (*options, *(100_000, 100)[len(options) :])
    rows: list[Row] = []
    for case in (publications, look_ups):
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
