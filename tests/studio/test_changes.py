"""Edits of a run file."""

import pytest

from microcell.errors import MicrocellError, OptionError
from microcell.studio.changes import apply_edits, apply_preset, field_value, first_run
from tests.raising import raises

RUN = {
    "k": 5,
    "schema": {
        "rest": "error",
        "columns": {
            "age": {"role": "quasi", "kind": "numeric", "publish": "range"},
            "home": {"role": "quasi", "kind": "location", "latitude": "lat", "longitude": "lon"},
            "pay": {"role": "confidential", "kind": "numeric", "round": 100.0},
        },
    },
}


def columns_after(name, role, facts=None):
    run, _ = apply_edits(RUN, [(["schema", "columns", name, "role"], role)], facts)
    return run["schema"]["columns"]


def test_a_new_role_keeps_only_the_options_that_fit_it():
    assert columns_after("age", "confidential")["age"] == {
        "role": "confidential",
        "kind": "numeric",
    }
    assert columns_after("age", "keep")["age"] == {"role": "keep"}
    facts = {"pay": {"kind": "ordinal", "order": ("low", "high")}}
    expected = {"role": "quasi", "kind": "ordinal", "order": ["low", "high"]}
    assert columns_after("pay", "quasi", facts)["pay"] == expected


def test_a_location_with_another_role_becomes_two_columns():
    columns = columns_after("home", "drop")
    assert "home" not in columns
    assert columns["lat"] == columns["lon"] == {"role": "drop"}


def test_the_run_before_an_edit_stays_as_it_was():
    apply_edits(RUN, [(["k"], 9), (["schema", "columns", "age", "publish"], None)])
    assert RUN["k"] == 5
    assert RUN["schema"]["columns"]["age"]["publish"] == "range"


@pytest.mark.parametrize(
    "path, value",
    [
        (["k"], "five"),
        (["k", "deeper"], 1),
        (["colour"], "red"),
        (["schema", "columns", "age", "role"], "boss"),
        (["schema", "columns", "age", "kind"], "imaginary"),
        (["schema", "columns", "pay", "publish"], "range"),
        (["missing"], "perhaps"),
        (["read", "colour"], "red"),
        (["options", "order_key"], "/etc/passwd"),
        (["options", "engine"], "dask"),
    ],
)
def test_an_edit_that_makes_no_valid_run_is_refused(path, value):
    with pytest.raises(MicrocellError):
        apply_edits(RUN, [(path, value)])


def test_empty_tables_are_removed():
    limited, _ = apply_edits(RUN, [(["require", "l_diversity"], 2.0)])
    assert limited["require"] == {"l_diversity": 2.0}
    assert "require" not in apply_edits(limited, [(["require", "l_diversity"], None)])[0]


def test_presets():
    assert apply_preset(RUN, "open")[0]["k"] == 10
    assert apply_preset(RUN, "open")[0]["require"] == {"l_diversity": 3.0}
    without = {"k": 2, "schema": {"columns": {"age": {"role": "quasi"}}}, "require": {"k": 9.0}}
    assert "require" not in apply_preset(without, "internal")[0]
    with raises(OptionError, "option.unknown"):
        apply_preset(RUN, "secret")


def test_the_first_run_limits_what_cells_reveal():
    schema = {"columns": {"age": {"role": "quasi"}, "ill": {"role": "confidential"}}}
    assert first_run(schema, {})["require"] == {"l_diversity": 2.0}
    assert "require" not in first_run({"columns": {"age": {"role": "quasi"}}}, {})


@pytest.mark.parametrize(
    "name, text, value",
    [
        ("publish", " range ", "range"),
        ("weight", "2.5", 2.5),
        ("bands", "5, 10", [5, 10]),
        ("bands", "month, year", ["month", "year"]),
        ("difference_of", "end, start", ["end", "start"]),
        ("hierarchy", "countries", "countries"),
        ("top", "", None),
    ],
)
def test_values_of_forms(name, text, value):
    assert field_value(name, text) == value


def test_wrong_values_of_forms():
    with raises(OptionError, "option.wrong_type"):
        field_value("round", "many")
    with raises(OptionError, "option.unknown"):
        field_value("colour", "red")


@pytest.mark.parametrize(
    "path, value",
    [
        (["schema", "columns", "age"], {"role": "quasi", "hierarchy": "/etc/passwd"}),
        (["schema"], "/etc/passwd"),
        (["order_key"], "other/release.csv.manifest.json"),
        *((["input"], "a.csv"), (["output"], "a.csv"), (["report"], "a.html")),
        (["cells"], "a.json"),
    ],
)
def test_a_run_in_a_shared_studio_names_no_file(path, value):
    with raises(OptionError, "option.unsupported", option=value_name(path, value)):
        apply_edits(RUN, [(path, value)], allow_files=False)


def value_name(path, value):
    return "hierarchy" if isinstance(value, dict) else path[-1]


def test_a_run_in_a_shared_studio_may_name_what_is_no_file():
    entry = {"role": "quasi", "kind": "hierarchy", "hierarchy": "countries"}
    groups = {**entry, "hierarchy": {"north": ["a"], "south": ["b"]}}
    for value in (entry, groups):
        run, _ = apply_edits(
            RUN,
            [(["schema", "columns", "age"], value), (["order_key"], "0" * 32)],
            allow_files=False,
        )
        assert run["schema"]["columns"]["age"] == value
