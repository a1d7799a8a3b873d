"""What the engine does with strata, weights, missing values and dependence, against the same in memory."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import microcell as mc
from microcell.errors import OptionError, SchemaError
from microcell.model import Column, Schema
from tests.dask.running import SCHEMA, pa, people, read_release, run, write_files


def table_of(rows, seed):
    """People with regions, weights and some heights missing; incomes that depend on age, all different."""
    chance = np.random.default_rng(seed)
    table = people(rows, seed)
    table["height"] = pa.array(table["height"], mask=chance.random(rows) < 0.05)
    table["region"] = chance.choice(["north", "south", None], rows, p=[0.7, 0.2, 0.1])
    table["w"] = chance.uniform(0.5, 2, rows)
    table["income"] = table["age"] * 1000.0 + chance.normal(0, 3000, rows)
    table["job"] = chance.choice(["farmer", "clerk", "smith"], rows)
    return table


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_files(
        tmp_path_factory.mktemp("source") / "in", [table_of(400, 1), table_of(300, 2)]
    )


def rows_of(found):
    return sorted((tuple(str(value) for value in row.values()) for row in found), key=str)


SCHEMAS = {
    "plain": SCHEMA,
    "strata": replace(SCHEMA, strata=["region"]),
    "weights": replace(SCHEMA, weight="w"),
    "both": replace(SCHEMA, strata=["region"], weight="w", confidential=["income", "job"]),
}


@pytest.mark.parametrize("missing", ["drop", "impute"])
@pytest.mark.parametrize("dependence", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", SCHEMAS)
def test_one_macrocell_is_as_in_memory(source, tmp_path, name, missing, dependence):
    schema = replace(SCHEMAS[name], rest="drop")
    found = run(
        source, schema, tmp_path / "out", macrocell=10_000, missing=missing, dependence=dependence
    )
    table = pa.concat_tables([pq.read_table(path) for path in sorted(source.iterdir())])
    expected = mc.anonymize(
        table, schema, k=5, effort="fast", missing=missing, dependence=dependence
    )
    assert rows_of(read_release(found.path)) == rows_of(expected.table.to_pylist())
    for item in ("records", "dependence"):
        one, other = found.manifest[item], expected.manifest[item]
        assert (one is None) == (other is None)
        assert one is None or one == pytest.approx(other, rel=1e-9)
    assert found.manifest["cells"]["sse_ratio"] == pytest.approx(
        expected.manifest["cells"]["sse_ratio"], rel=1e-9
    )
    assert found.manifest["information_loss"] == pytest.approx(
        expected.manifest["information_loss"], rel=1e-9
    )


def test_dependence_in_many_macrocells(source, tmp_path):
    """The more it weighs, the less is lost of what incomes have to do with cells; D_X and D_Y by hand."""
    schema = Schema(
        quasi=["age", Column("height", kind="numeric")], confidential=["income"], rest="drop"
    )
    told = []
    for weight in (0.1, 0.9):
        out = tmp_path / f"out{weight}"
        found = run(source, schema, out, macrocell=150, missing="drop", dependence=weight)
        assert found.manifest["cells"]["macrocells"] > 2
        rows = read_release(found.path)
        income = np.array([row["income"] for row in rows])
        _, cells = np.unique(
            [(row["age"], row["height"]) for row in rows], axis=0, return_inverse=True
        )
        means = np.bincount(cells, income) / np.bincount(cells)
        loss = np.square(income - means[cells]).sum() / np.square(income - income.mean()).sum()
        told.append(found.manifest["dependence"])
        assert len(means) == found.manifest["cells"]["count"]
        assert told[-1]["dependence_loss"] == pytest.approx(loss, rel=1e-9)
        assert told[-1]["distortion"] == found.manifest["cells"]["sse_ratio"]
    assert told[1]["dependence_loss"] < told[0]["dependence_loss"]
    assert told[1]["distortion"] > told[0]["distortion"]


def test_dependence_on_nothing_is_refused(tmp_path):
    source = write_files(tmp_path / "in", [{"x": np.arange(50), "y": np.ones(50)}])
    with pytest.raises(OptionError, match="schema names none"):
        run(source, Schema(quasi=["x"], rest="drop"), tmp_path / "out", dependence=0.5)
    with pytest.raises(OptionError, match="No confidential column has differences"):
        run(source, Schema(quasi=["x"], confidential=["y"]), tmp_path / "out", dependence=0.5)


def test_too_many_confidential_categories_are_refused(tmp_path):
    words = [f"word {number}" for number in range(1001)]
    source = write_files(tmp_path / "in", [{"x": np.arange(1001), "y": words}] * 2)
    with pytest.raises(
        SchemaError, match="1001 categories, more than 1000: too many to preserve"
    ) as caught:
        run(source, Schema(quasi=["x"], confidential=["y"]), tmp_path / "out", dependence=0.5)
    assert "word" not in str(caught.value)
    assert run(source, Schema(quasi=["x"], confidential=["y"]), tmp_path / "out").k >= 5
