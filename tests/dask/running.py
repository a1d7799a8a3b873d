"""Helpers for engine tests: small data sets on disk, and all stages in this process."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")

import pyarrow.parquet as pq  # noqa: E402

from microcell.dask.cluster import LocalEngine  # noqa: E402
from microcell.dask.folders import Folders  # noqa: E402
from microcell.dask.release import release_dataset  # noqa: E402
from microcell.dask.sources import find_files  # noqa: E402
from microcell.dask.stages import make_request  # noqa: E402
from microcell.model import Schema  # noqa: E402

SCHEMA = Schema(
    identifiers=["name"], quasi=["age", "height", "sex"], confidential=["income"], keep=["note"]
)


def people(rows, seed=0):
    """Return a table of people with unique names and incomes."""
    rng = np.random.default_rng(seed)
    return {
        "name": [f"person {seed} {row}" for row in range(rows)],
        "age": rng.integers(18, 90, rows),
        "height": rng.normal(170, 9, rows).round(1),
        "sex": rng.choice(["f", "m", "x"], rows, p=[0.49, 0.49, 0.02]),
        "income": np.arange(rows) + 1_000_000 * seed,
        "note": rng.choice(["a", "b"], rows),
    }


def write_files(folder, tables):
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(pa.table(table), folder / f"file{number}.parquet")
    return folder


def run(source, schema, output, *, k=5, engine=None, macrocell=400, **options):
    defaults = {"method": "auto", "seed": 0, "missing": "error", "seams": 1, "replace": False}
    settings = {name: options.pop(name, value) for name, value in defaults.items()} | {
        name: options.pop(name)
        for name in ("dependence", "order_key", "read_options", "require", "strict")
        if name in options
    }
    request = make_request(
        schema, output, options.pop("scratch", None), options, k=k, macrocell=macrocell, **settings
    )
    with Folders(request.output, request.scratch) as folders:
        return release_dataset(engine or LocalEngine(), find_files(source), request, folders)


def run_killed(source, output):
    """Run in this process, which is killed on the way."""
    run_stage = LocalEngine.run

    def run_or_die(self, stage, function, items):
        if stage == "partitioning macrocells":
            os.kill(os.getpid(), signal.SIGKILL)
        return run_stage(self, stage, function, items)

    LocalEngine.run = run_or_die
    run(source, SCHEMA, output)


def read_release(folder):
    """Return all rows of a release, file by file."""
    return pa.concat_tables(
        [pq.read_table(path) for path in sorted(Path(folder).glob("part-*"))]
    ).to_pylist()


def contents(folder):
    """Return the bytes of each file of a release."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}
