"""Data sets with hierarchies: the same cells and loss as in memory, and unknown values."""

import numpy as np
import pytest

import microcell as mc
from microcell.errors import SchemaError
from microcell.model import Column, Schema
from tests.dask.running import pa, pq, read_release, run, write_files
from tests.raising import raises

PLACES = {"Europe": {"Italy": ["Rome", "Pisa"], "Germany": ["Bonn"]}, "Africa": ["Giza", "Lamu"]}
SCHEMA = Schema(
    quasi=[
        Column("town", hierarchy=PLACES),
        Column("age", bands=(5, 20)),
        Column("illness", kind="nominal", publish="set"),
    ],
    rest="drop",
)


def people(n, seed):
    rng = np.random.default_rng(seed)
    return {
        "town": rng.choice(["Rome", "Pisa", "Bonn", "Giza", "Lamu"], n),
        # The ages of one file span less than those of all.
        "age": rng.integers(20, 50 + 20 * seed, n),
        "illness": rng.choice(["asthma", "gout", "flu"], n),
    }


@pytest.fixture
def source(tmp_path):
    return write_files(tmp_path / "in", [people(120, 0), people(90, 2)])


def test_one_macrocell_equals_in_memory(source, tmp_path):
    result = run(source, SCHEMA, tmp_path / "out", macrocell=10_000, method="mdav")
    table = pa.concat_tables([pq.read_table(path) for path in sorted(source.iterdir())])
    expected = mc.anonymize(table, SCHEMA, k=5, method="mdav")
    one, other = (
        sorted(tuple(row.values()) for row in rows)
        for rows in (read_release(result.path), expected.table.to_pylist())
    )
    assert one == other
    assert result.manifest.information_loss == pytest.approx(expected.manifest.information_loss)


def test_unknown_values_are_counted_over_all_files(source, tmp_path):
    towns = Column("town", hierarchy={"Italy": ["Rome", "Pisa"], "Germany": ["Bonn"]})
    with raises(SchemaError, "schema.unknown_category", column="town", count=2) as caught:
        run(source, Schema(quasi=[towns], rest="drop"), tmp_path / "out", method="mdav")
    assert "row" not in caught.value.details
    assert "Giza" not in str(caught.value)
