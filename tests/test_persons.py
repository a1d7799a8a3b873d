"""Other functions with a schema that names a person: refine, compare, explore, sweeps, figures."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import microcell as mc
from microcell.cli import app
from microcell.errors import GuaranteeError, OptionError
from tests.raising import raises

SCHEMA = mc.Schema(quasi=["age", "height"], person="patient", confidential=["cost"], rest="drop")


def people_per_group(groups, persons):
    """Count distinct persons by plain sets."""
    members = {}
    for group, person in zip(list(groups), list(persons), strict=True):
        members.setdefault(group, set()).add(person)
    return [len(each) for each in members.values()]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    patient = rng.integers(35, size=110)
    homes = rng.normal(size=(35, 2))
    return pl.DataFrame(
        {
            "patient": [f"P{i:03}" for i in patient],
            "age": np.round(40 + 20 * homes[patient, 0] + rng.normal(size=110), 1),
            "height": np.round(170 + 10 * homes[patient, 1] + rng.normal(size=110), 1),
            "cost": rng.integers(9, size=110),
        }
    )


@pytest.mark.parametrize("most", [1, 4, 12])
def test_refine_keeps_k_persons(most):
    rng = np.random.default_rng(most)
    n, k = 120, 3
    persons = rng.permutation(np.repeat(np.arange(n), rng.integers(1, most + 1, size=n))[:n])
    X = rng.normal(size=(n, 2))
    start = mc.partition(X, k, method="mdav", persons=persons)
    refined = mc.refine(X, start.labels, k, persons=persons)
    assert min(people_per_group(refined.labels, persons)) >= k
    assert mc.distortion(X, refined.labels) <= mc.distortion(X, start.labels)
    assert refined.people.min() >= k


def test_refine_keeps_persons_and_another_rule():
    rng = np.random.default_rng(5)
    n, k = 60, 3
    persons, X = np.arange(n) % 25, rng.normal(size=(n, 2))
    traits = rng.integers(2, size=(n, 1)).astype(float)
    start = mc.partition(X, 2 * k, method="mdav", persons=persons)

    def allowed(values):
        return values.sum() >= 1

    if min(traits[start.labels == cell].sum() for cell in set(start.labels)) < 1:
        pytest.skip("the start does not satisfy the rule")
    refined = mc.refine(X, start.labels, k, persons=persons, traits=traits, allowed=allowed)
    assert min(people_per_group(refined.labels, persons)) >= k
    assert min(traits[refined.labels == cell].sum() for cell in set(refined.labels)) >= 1


def test_refine_rejects_cells_of_too_few_persons():
    X = np.arange(4.0)[:, None]
    with raises(GuaranteeError, "guarantee.failed", k=2, smallest=1):
        mc.refine(X, [0, 0, 1, 1], 2, persons=[0, 0, 1, 2])
    with raises(OptionError, "option.invalid", option="persons"):
        mc.refine(X, [0, 0, 1, 1], 2, persons=[0, 0, 1])
    with raises(OptionError, "option.invalid", option="labels"):
        mc.refine(X, [0, 0, 1], 2, persons=[0, 0, 1, 2])


def test_compare_and_explore_count_persons(table):
    comparison = mc.compare(table, SCHEMA, k=[3, 5], methods=["mdav", "vmdav"])
    assert len(comparison) == 4
    exploration = mc.explore(table, SCHEMA, k=[3, 5], methods=["mdav"])
    for point, k in zip(exploration.points, (3, 5), strict=True):
        release = mc.anonymize(table, SCHEMA, k=k, method="mdav")
        assert point.measured_k == min(release.class_sizes)
        assert point.measures["k"].unit == "persons"


def test_explore_counts_persons_of_the_released_rows(table):
    gaps = table.with_columns(
        pl.when(pl.int_range(110) % 9 == 0).then(None).otherwise(pl.col("age")).alias("age")
    )
    (point,) = mc.explore(gaps, SCHEMA, k=4, methods=["mdav"], missing="drop").points
    release = mc.anonymize(gaps, SCHEMA, k=4, method="mdav", missing="drop")
    assert point.measured_k == min(release.class_sizes) >= 4


@pytest.mark.parametrize("blocks", [None, 1])
def test_the_dependence_sweep_counts_persons(table, blocks):
    sweep = mc.dependence_sweep(table, SCHEMA, k=4, lambdas=[0, 0.5], method="mdav", blocks=blocks)
    for point in sweep.points:
        release = mc.anonymize(
            table, SCHEMA, k=4, method="mdav", dependence=point.dependence, blocks=blocks
        )
        assert point.joint_k == release.manifest.k
        if blocks is None:
            assert point.joint_k >= 4


@pytest.mark.parametrize("person_cells", ["rows", "together"])
def test_figures(table, tmp_path, person_cells):
    schema = replace(SCHEMA, person_cells=person_cells)
    assert mc.plot.cells(table, schema, k=4).startswith(b"<")
    more = replace(schema, quasi=["age", "height", "cost"], confidential=[])
    assert mc.plot.cells(table, more, k=4, columns=["age", "height"], methods="mdav")
    release = mc.anonymize(table, schema, k=4, method="mdav")
    assert mc.plot.release(table, release).startswith(b"<")


def test_draw(table, tmp_path):
    table.write_csv(tmp_path / "visits.csv")
    (tmp_path / "schema.toml").write_text(
        'schema_version = 1\n[columns]\npatient = {role = "person"}\nage = {role = "quasi"}\n'
        'height = {role = "quasi"}\ncost = {role = "confidential"}\n'
    )
    words = f"draw {tmp_path}/visits.csv -s {tmp_path}/schema.toml -k 4 --methods mdav --quiet"
    result = CliRunner().invoke(app, [*words.split(), "-o", f"{tmp_path}/cells.svg"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "cells.svg").exists()
