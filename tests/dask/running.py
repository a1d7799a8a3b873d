"""What the tests of the engine share: small data sets on disk, and a run of all stages in this process."""

from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")

import pyarrow.parquet as pq  # noqa: E402

from microcell.dask.cluster import Here  # noqa: E402
from microcell.dask.folders import Folders  # noqa: E402
from microcell.dask.release import release_dataset  # noqa: E402
from microcell.dask.sources import find_files  # noqa: E402
from microcell.dask.stages import make_request  # noqa: E402
from microcell.model import Schema  # noqa: E402

SCHEMA = Schema(
    identifiers=["name"], quasi=["age", "height", "sex"], confidential=["income"], keep=["note"]
)


def people(rows, seed=0):
    """A table of people, their names and incomes all different."""
    chance = np.random.default_rng(seed)
    return {
        "name": [f"person {seed} {row}" for row in range(rows)],
        "age": chance.integers(18, 90, rows),
        "height": chance.normal(170, 9, rows).round(1),
        "sex": chance.choice(["f", "m", "x"], rows, p=[0.49, 0.49, 0.02]),
        "income": np.arange(rows) + 1_000_000 * seed,
        "note": chance.choice(["a", "b"], rows),
    }


def write_files(folder, tables):
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(pa.table(table), folder / f"file{number}.parquet")
    return folder


def run(source, schema, output, *, k=5, engine=None, macrocell=400, **given):
    defaults = {"method": "auto", "seed": 0, "missing": "error", "seams": 1, "replace": False}
    own = {name: given.pop(name, value) for name, value in defaults.items()} | {
        name: given.pop(name) for name in ("dependence", "reading") if name in given
    }
    request = make_request(
        schema, output, given.pop("scratch", None), given, k=k, macrocell=macrocell, **own
    )
    with Folders(request.output, request.scratch) as folders:
        return release_dataset(engine or Here(), find_files(source), request, folders)


def read_release(folder):
    """All rows of a release, its files in order."""
    return pa.concat_tables(
        [pq.read_table(path) for path in sorted(Path(folder).glob("part-*"))]
    ).to_pylist()


def contents(folder):
    """The bytes of each file but the manifest, which tells the time."""
    return {
        path.name: path.read_bytes()
        for path in Path(folder).iterdir()
        if path.name != "_manifest.json"
    }
