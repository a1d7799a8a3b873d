"""Larger weights for columns whose categories are lost."""

import json

import numpy as np
from typer.testing import CliRunner

from microcell.cli import app
from microcell.model import Schema
from microcell.sweeps.weights import try_weights


def people(n=240):
    rng = np.random.default_rng(2)
    group = np.array(["most"] * (n - 24) + ["few"] * 24)
    return {
        "age": rng.integers(20, 80, n),
        "income": rng.normal(0, 1, n).round(3),
        "height": rng.normal(170, 9, n).round(1),
        "group": group,
    }


SCHEMA = Schema(quasi=["age", "income", "height", "group"])


def test_a_larger_weight_keeps_more_of_a_lost_category():
    trials = try_weights(people(), SCHEMA, k=20, method="mdav", factors=(1, 64))
    assert [trial.weight for trial in trials] == [1, 64]
    same, heavy = trials
    assert same.people == 24
    assert same.kept == same.kept_before < 0.5
    assert same.loss == same.loss_before
    assert heavy.kept > 0.5
    assert heavy.loss >= heavy.loss_before


def test_nothing_to_try_if_no_category_is_lost():
    assert try_weights(people(), SCHEMA, k=2, method="mdav", factors=(2,)) == ()


def test_the_command_prints_the_trials(tmp_path):
    rows = people()
    table, schema = tmp_path / "t.csv", tmp_path / "s.toml"
    lines = [",".join(rows), *(",".join(map(str, row)) for row in zip(*rows.values(), strict=True))]
    table.write_text("\n".join(lines) + "\n")
    columns = "".join(f'[columns.{name}]\nrole = "quasi"\n' for name in rows)
    schema.write_text(f"schema_version = 1\n{columns}")
    base = ["explore", str(table), "-s", str(schema), "-k", "20", "--weights", "--methods", "mdav"]
    printed = CliRunner().invoke(app, [*base, "--json", "-q"])
    assert printed.exit_code == 0
    assert {trial["column"] for trial in json.loads(printed.stdout)} == {"group"}
    assert "instead of" in CliRunner().invoke(app, base).stdout
