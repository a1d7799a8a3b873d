"""Answering: the same cell as in the design, nothing else submitted, and few modules loaded."""

import datetime
import json
import subprocess
import sys

import numpy as np
import pytest

import microcell as mc
from microcell.errors import DataError, SchemaError, TableError
from tests.raising import raises
from tests.surveys.candidates import OPTIONS_BY_KIND, SCHEMA

PARTS = [column.name for column in SCHEMA.quasi]


def record_of(people, row):
    """Return the quasi-identifiers of a candidate as a JSON file contains them."""
    plain = {name: people[name][row].item() for name in PARTS}
    return json.loads(json.dumps(plain, default=lambda value: value.isoformat()))


@pytest.mark.parametrize("kind", OPTIONS_BY_KIND)
@pytest.mark.parametrize("participation", ["common", "uneven"])
def test_candidates_get_the_cell_of_the_design(kind, participation, people, designs):
    design = designs[kind, participation]
    for row in range(0, 420, 7):
        result = mc.surveys.answer(design.cells, record_of(people, row))
        assert result.cell == design.labels[row]
        assert result.representative == {
            name: design.cells.representatives[name][result.cell] for name in PARTS
        }


def test_times_and_durations():
    rng = np.random.default_rng(2)
    seconds = rng.integers(0, 86_400, 200)
    people = {
        "at": np.array(
            [datetime.time(s // 3600, s // 60 % 60, s % 60) for s in seconds], dtype=object
        ),
        "long": np.array(
            [datetime.timedelta(seconds=int(s)) for s in rng.integers(1, 10**6, 200)],
            dtype=object,
        ),
        "when": np.datetime64("2020-01-01T00:00:00") + rng.integers(0, 10**8, 200),
    }
    schema = mc.Schema(quasi=list(people))
    design = mc.surveys.design(people, schema, 2, 0.9, 0.05, method="mdav")
    for row in range(0, 200, 11):
        record = {
            "at": people["at"][row].isoformat(),
            "long": people["long"][row].total_seconds(),
            "when": str(people["when"][row]),
        }
        assert mc.surveys.answer(design.cells, record).cell == design.labels[row]


def test_only_cell_and_representative_are_submitted(people, designs):
    record = {**record_of(people, 5), "income": 12345, "name": "S3CR3T"}
    submitted = mc.surveys.answer(designs["power", "common"].cells, record).as_dict()
    assert list(submitted) == ["cell", "representative"]
    assert list(submitted["representative"]) == PARTS
    assert "S3CR3T" not in json.dumps(submitted)


def test_unfamiliar_values_get_the_nearest_cell(people, designs):
    cells, record = designs["power", "common"].cells, record_of(people, 5)
    assert mc.surveys.answer(cells, record).unfamiliar == ()
    result = mc.surveys.answer(
        cells, {**record, "town": "Atlantis", "age": 900, "born": "1066-10-14"}
    )
    assert set(result.unfamiliar) == {"town", "age", "born"}
    assert 0 <= result.cell < len(cells)
    assert mc.surveys.answer(cells, {**record, "age": 10**30}).unfamiliar == ("age",)


@pytest.mark.parametrize("kind", OPTIONS_BY_KIND)
def test_rare_categories_are_placed_as_in_the_design(kind, people, designs):
    """The file does not name the towns of rows 0 and 1, which occur only once."""
    design = designs[kind, "common"]
    for row in (0, 1):
        result = mc.surveys.answer(design.cells, record_of(people, row))
        assert result.cell == design.labels[row]
        assert "town" in result.unfamiliar


@pytest.mark.parametrize(
    "change",
    [
        {"age": "S3CR3T"},
        {"age": True},
        {"age": float("inf")},
        {"age": 10**400},
        {"age": [3]},
        {"town": 77},
        {"postal": 8001},
        {"member": "S3CR3T"},
        {"born": "S3CR3T"},
        {"born": 1980},
    ],
)
def test_values_of_the_wrong_type(change, people, designs):
    record = {**record_of(people, 5), **change}
    with raises(DataError, "data.invalid", column=next(iter(change))) as caught:
        mc.surveys.answer(designs["power", "common"].cells, record)
    assert "S3CR3T" not in str(caught.value)


@pytest.mark.parametrize("change", [{"age": None}, {"age": float("nan"), "town": " "}])
def test_missing_values(change, people, designs):
    record = {**record_of(people, 5), **change}
    with raises(DataError, "data.missing_values", columns=tuple(change)):
        mc.surveys.answer(designs["power", "common"].cells, record)


def test_absent_columns_and_unreadable_records(people, designs, tmp_path):
    cells, record = designs["power", "common"].cells, record_of(people, 5)
    del record["age"], record["town"]
    with raises(SchemaError, "schema.unknown_column", columns=("age", "town")) as caught:
        mc.surveys.answer(cells, record)
    assert str(caught.value) == "The record lacks 'age', 'town'. Provide all quasi-identifiers."
    with raises(DataError, "data.invalid"):
        mc.surveys.answer(cells, [1, 2])
    path = tmp_path / "me.json"
    with raises(TableError, "table.not_found"):
        mc.surveys.answer(cells, path)
    path.write_text("{")
    with raises(TableError, "table.malformed"):
        mc.surveys.answer(cells, path)


def test_respondents_load_neither_tables_nor_methods(people, designs, tmp_path):
    designs["power", "uneven"].cells.save(tmp_path / "cells.json")
    (tmp_path / "me.json").write_text(json.dumps(record_of(people, 5)))
    code = """
import sys
import microcell as mc
assert mc.surveys.check("cells.json").holds
mc.surveys.answer("cells.json", "me.json")
heavy = ("polars", "narwhals", "pandas", "matplotlib", "jinja2", "typer", "sklearn")
heavy += ("microcell.tables", "microcell.methods", "microcell.report")
print(sorted(name for name in sys.modules if name.startswith(heavy)))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert result.stdout.strip() == "[]"


def test_a_record_with_a_repeated_name(designs, tmp_path):
    path = tmp_path / "me.json"
    path.write_text('{"age": 44, "age": 80}')
    with raises(TableError, "table.malformed") as caught:
        mc.surveys.answer(designs["power", "common"].cells, path)
    assert "80" not in str(caught.value).replace(str(path), "")
