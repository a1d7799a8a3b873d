"""Answers: the same cell as the designer has, nothing else, and on little code."""

import datetime
import json
import subprocess
import sys

import numpy as np
import pytest

import microcell as mc
from tests.surveys.candidates import SCHEMA, WAYS

PARTS = [column.name for column in SCHEMA.quasi]


def record_of(people, row):
    """The candidate's quasi-identifiers as a JSON file would have them."""
    plain = {name: people[name][row].item() for name in PARTS}
    return json.loads(json.dumps(plain, default=lambda value: value.isoformat()))


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("how", ["common", "uneven"])
def test_candidates_find_the_cell_that_the_designer_has_for_them(kind, how, people, designs):
    design = designs[kind, how]
    for row in range(0, 420, 7):
        found = mc.surveys.answer_survey(design.cells, record_of(people, row))
        assert found.cell == design.labels[row]
        assert found.representative == {
            name: design.cells.representatives[name][found.cell] for name in PARTS
        }


def test_times_and_durations_are_read():
    chance = np.random.default_rng(2)
    seconds = chance.integers(0, 86_400, 200)
    people = {
        "at": np.array(
            [datetime.time(s // 3600, s // 60 % 60, s % 60) for s in seconds], dtype=object
        ),
        "long": np.array(
            [datetime.timedelta(seconds=int(s)) for s in chance.integers(1, 10**6, 200)],
            dtype=object,
        ),
        "when": np.datetime64("2020-01-01T00:00:00") + chance.integers(0, 10**8, 200),
    }
    schema = mc.Schema(quasi=list(people))
    design = mc.surveys.design_survey(people, schema, 2, 0.9, 0.05, method="mdav")
    for row in range(0, 200, 11):
        record = {
            "at": people["at"][row].isoformat(),
            "long": people["long"][row].total_seconds(),
            "when": str(people["when"][row]),
        }
        assert mc.surveys.answer_survey(design.cells, record).cell == design.labels[row]


def test_nothing_but_the_cell_and_its_representative_is_submitted(people, designs):
    record = {**record_of(people, 5), "income": 12345, "name": "S3CR3T"}
    told = mc.surveys.answer_survey(designs["power", "common"].cells, record).as_dict()
    assert list(told) == ["cell", "representative"]
    assert list(told["representative"]) == PARTS
    assert "S3CR3T" not in json.dumps(told)


def test_strange_values_get_the_nearest_cell_and_are_told(people, designs):
    cells, record = designs["power", "common"].cells, record_of(people, 5)
    assert mc.surveys.answer_survey(cells, record).strange == ()
    found = mc.surveys.answer_survey(
        cells, {**record, "town": "Atlantis", "age": 900, "born": "1066-10-14"}
    )
    assert set(found.strange) == {"town", "age", "born"}
    assert 0 <= found.cell < len(cells)
    assert mc.surveys.answer_survey(cells, {**record, "age": 10**30}).strange == ("age",)


@pytest.mark.parametrize("kind", WAYS)
def test_names_that_the_file_withholds_are_placed_as_the_designer_placed_them(
    kind, people, designs
):
    """Rows 0 and 1 live in towns of their own, which no file names."""
    design = designs[kind, "common"]
    for row in (0, 1):
        found = mc.surveys.answer_survey(design.cells, record_of(people, row))
        assert found.cell == design.labels[row]
        assert "town" in found.strange


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"age": None}, mc.errors.DataError, "no value for 'age'"),
        ({"age": float("nan"), "town": " "}, mc.errors.DataError, "no value for 'age', 'town'"),
        ({"age": "S3CR3T"}, mc.errors.DataError, "'age' must be a number"),
        ({"age": True}, mc.errors.DataError, "'age' must be a number"),
        ({"age": float("inf")}, mc.errors.DataError, "'age' must be a number"),
        ({"age": 10**400}, mc.errors.DataError, "'age' must be a number"),
        ({"age": [3]}, mc.errors.DataError, "'age' must be a number"),
        ({"town": 77}, mc.errors.DataError, "'town' must be text"),
        ({"postal": 8001}, mc.errors.DataError, "'postal' must be text"),
        ({"member": "S3CR3T"}, mc.errors.DataError, "'member' must be true or false"),
        ({"born": "S3CR3T"}, mc.errors.DataError, "'born' must be a date"),
        ({"born": 1980}, mc.errors.DataError, "'born' must be a date"),
    ],
)
def test_wrong_values_are_refused_and_not_shown(change, error, said, people, designs):
    with pytest.raises(error, match=said) as caught:
        mc.surveys.answer_survey(
            designs["power", "common"].cells, {**record_of(people, 5), **change}
        )
    assert "S3CR3T" not in str(caught.value)


def test_lacking_columns_and_no_records_are_refused(people, designs, tmp_path):
    cells, record = designs["power", "common"].cells, record_of(people, 5)
    del record["age"], record["town"]
    with pytest.raises(mc.errors.SchemaError, match="no column 'age', 'town'"):
        mc.surveys.answer_survey(cells, record)
    with pytest.raises(mc.errors.DataError, match="object of values"):
        mc.surveys.answer_survey(cells, [1, 2])
    path = tmp_path / "me.json"
    with pytest.raises(mc.errors.TableError, match=r"me\.json"):
        mc.surveys.answer_survey(cells, path)
    path.write_text("{")
    with pytest.raises(mc.errors.TableError, match="not JSON"):
        mc.surveys.answer_survey(cells, path)


def test_respondents_load_nothing_that_reads_tables_or_draws(people, designs, tmp_path):
    designs["power", "uneven"].cells.save(tmp_path / "cells.json")
    (tmp_path / "me.json").write_text(json.dumps(record_of(people, 5)))
    code = (
        "import sys, microcell as mc;"
        "assert mc.surveys.check_survey('cells.json').holds; mc.surveys.answer_survey('cells.json', 'me.json');"
        "heavy = {'polars', 'narwhals', 'pandas', 'matplotlib', 'jinja2', 'typer', 'sklearn'};"
        "print(sorted(heavy & set(sys.modules)), sorted(m for m in sys.modules if m.startswith('microcell.partit')))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert found.stdout.strip() == "[] []"


def test_a_record_that_gives_a_name_twice_is_refused(designs, tmp_path):
    path = tmp_path / "me.json"
    path.write_text('{"age": 44, "age": 80}')
    with pytest.raises(mc.errors.TableError, match="twice") as refused:
        mc.surveys.answer_survey(designs["power", "common"].cells, path)
    assert "80" not in str(refused.value).replace(str(path), "")
