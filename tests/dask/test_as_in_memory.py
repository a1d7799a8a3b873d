"""Strata, weights, missing values and dependence on the engine, compared with in memory."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import microcell as mc
from microcell.errors import OptionError, SchemaError
from microcell.model import Column, Schema
from tests.dask.running import SCHEMA, pa, people, read_release, run, write_files
from tests.raising import raises


def table_of(rows, seed):
    """Return people with regions, weights, missing heights and incomes that depend on age."""
    rng = np.random.default_rng(seed)
    table = people(rows, seed)
    table["height"] = pa.array(table["height"], mask=rng.random(rows) < 0.05)
    table["region"] = rng.choice(["north", "south", None], rows, p=[0.7, 0.2, 0.1])
    table["w"] = rng.uniform(0.5, 2, rows)
    table["income"] = table["age"] * 1000.0 + rng.normal(0, 3000, rows)
    table["job"] = rng.choice(["farmer", "clerk", "smith"], rows)
    return table


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_files(
        tmp_path_factory.mktemp("source") / "in", [table_of(400, 1), table_of(300, 2)]
    )


def rows_of(rows):
    return sorted((tuple(str(value) for value in row.values()) for row in rows), key=str)


SCHEMAS = {
    "plain": SCHEMA,
    "strata": replace(SCHEMA, strata=["region"]),
    "weights": replace(SCHEMA, weight="w"),
    "both": replace(SCHEMA, strata=["region"], weight="w", confidential=["income", "job"]),
}


@pytest.mark.parametrize(
    ("name", "missing", "dependence"),
    [
        ("plain", "drop", 0.0),
        ("plain", "impute", 1.0),
        ("strata", "impute", 0.3),
        ("strata", "drop", 1.0),
        ("weights", "drop", 0.3),
        ("weights", "impute", 0.0),
        ("both", "impute", 0.3),
        ("both", "drop", 0.0),
    ],
)
def test_one_macrocell_equals_in_memory(source, tmp_path, name, missing, dependence):
    schema = replace(SCHEMAS[name], rest="drop")
    result = run(
        source, schema, tmp_path / "out", macrocell=10_000, missing=missing, dependence=dependence
    )
    table = pa.concat_tables([pq.read_table(path) for path in sorted(source.iterdir())])
    expected = mc.anonymize(
        table, schema, k=5, effort="fast", missing=missing, dependence=dependence
    )
    assert rows_of(read_release(result.path)) == rows_of(expected.table.to_pylist())
    for item in ("records", "dependence"):
        one, other = (actual.manifest.as_dict().get(item) for actual in (result, expected))
        assert (one is None) == (other is None)
        assert one is None or one == pytest.approx(other, rel=1e-9)
    assert result.manifest.cells.sse_ratio == pytest.approx(
        expected.manifest.cells.sse_ratio, rel=1e-9
    )
    assert result.manifest.information_loss == pytest.approx(
        expected.manifest.information_loss, rel=1e-9
    )


def test_dependence_in_many_macrocells(source, tmp_path):
    """A larger weight lowers the dependence loss; D_X and D_Y are computed by hand."""
    schema = Schema(
        quasi=["age", Column("height", kind="numeric")], confidential=["income"], rest="drop"
    )
    sections = []
    for weight in (0.1, 0.9):
        out = tmp_path / f"out{weight}"
        result = run(source, schema, out, macrocell=150, missing="drop", dependence=weight)
        assert result.manifest.cells.macrocells > 2
        rows = read_release(result.path)
        income = np.array([row["income"] for row in rows])
        _, cells = np.unique(
            [(row["age"], row["height"]) for row in rows], axis=0, return_inverse=True
        )
        means = np.bincount(cells, income) / np.bincount(cells)
        loss = np.square(income - means[cells]).sum() / np.square(income - income.mean()).sum()
        sections.append(result.manifest.dependence)
        assert len(means) == result.manifest.cells.count
        assert sections[-1].dependence_loss == pytest.approx(loss, rel=1e-9)
        assert sections[-1].quasi_identifier_loss == result.manifest.cells.sse_ratio
    assert sections[1].dependence_loss < sections[0].dependence_loss
    assert sections[1].quasi_identifier_loss > sections[0].quasi_identifier_loss


def test_dependence_without_confidential_variation_is_rejected(tmp_path):
    source = write_files(tmp_path / "in", [{"x": np.arange(50), "y": np.ones(50)}])
    with raises(OptionError, "option.conflict", option="dependence"):
        run(source, Schema(quasi=["x"], rest="drop"), tmp_path / "out", dependence=0.5)
    with raises(OptionError, "option.conflict", option="dependence"):
        run(source, Schema(quasi=["x"], confidential=["y"]), tmp_path / "out", dependence=0.5)


def test_too_many_confidential_categories_are_rejected(tmp_path):
    words = [f"word {number}" for number in range(1001)]
    source = write_files(tmp_path / "in", [{"x": np.arange(1001), "y": words}] * 2)
    with raises(SchemaError, "schema.wrong_kind", column="y") as caught:
        run(source, Schema(quasi=["x"], confidential=["y"]), tmp_path / "out", dependence=0.5)
    assert "word" not in str(caught.value)
    assert run(source, Schema(quasi=["x"], confidential=["y"]), tmp_path / "out").k >= 5
