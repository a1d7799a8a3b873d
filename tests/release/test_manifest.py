"""The manifest: one typed record, its JSON Schema, and the files that follow it."""

import json
from pathlib import Path

import numpy as np
import pytest

import microcell as mc
from microcell.methods import Bound
from microcell.model.manifest import DesignManifest
from microcell.release.manifest import describe_bound
from tests.raising import raises

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def people(n=60):
    rng = np.random.default_rng(0)
    return {
        "age": rng.integers(18, 90, n),
        "bmi": rng.normal(25, 4, n),
        "pay": rng.integers(0, 9, n),
    }


SCHEMA = mc.Schema(quasi=["age", "bmi"], confidential=["pay"])


def releases():
    settings = [{}, {"require": {"l_diversity": 2}}, {"dependence": 0.3}, {"blocks": 1}]
    for options in [*settings, {"cells": True}]:
        yield mc.anonymize(people(), SCHEMA, k=5, method="mdav", **options)


def test_the_published_json_schema_is_current():
    published = json.loads((REFERENCE / "manifest.schema.json").read_text(encoding="utf-8"))
    assert published == mc.Manifest.json_schema()


def test_written_manifests_follow_the_json_schema(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    for number, release in enumerate(releases()):
        written = release.publish(tmp_path / f"{number}.csv")
        path = mc.release.manifest_path(tmp_path / f"{number}.csv")
        jsonschema.validate(json.loads(path.read_text()), mc.Manifest.json_schema())
        assert mc.Manifest.load(path) == written.manifest
        assert mc.find_manifest(None, tmp_path / f"{number}.csv") == written.manifest


def test_survey_manifests_are_typed_too(tmp_path):
    frame = {"age": np.arange(600) % 71 + 18}
    design = mc.surveys.design(
        frame, mc.Schema(quasi=["age"]), 5, participation=0.5, failure=1e-3, method="mdav"
    )
    assert DesignManifest.parse(design.manifest.to_json()) == design.manifest
    answers = {"cell": design.labels, "income": np.arange(600)}
    collection = mc.surveys.collect(design.cells, answers).publish(tmp_path / "out.csv")
    assert mc.find_manifest(None, tmp_path / "out.csv") == collection.manifest
    assert collection.manifest.survey.design_sha256 == design.cells.digest


def test_unknown_entries_are_rejected():
    manifest = next(releases()).manifest
    with raises(mc.errors.TableError, "table.malformed", entry="cells"):
        mc.Manifest.parse(manifest.as_dict() | {"cells": {"count": 3, "colour": "red"}})


def test_a_manifest_is_immutable():
    manifest = next(releases()).manifest
    with pytest.raises(ValueError, match="frozen"):
        manifest.k = 9
    assert manifest.updated(row_order="shuffled").row_order == "shuffled"
    assert manifest.row_order == "kept"


# ------------------------------------------------------------------------------ the bound


@pytest.mark.parametrize(
    ("settings", "quasi"),
    [({}, ["age", "bmi"]), ({}, ["age"]), ({"require": {"l_diversity": 2}}, ["age", "bmi"])],
)
def test_the_bound_is_below_the_loss_of_the_cells_and_rounded_down(settings, quasi):
    schema = mc.Schema(quasi=quasi, confidential=["pay"], rest="drop")
    release = mc.anonymize(people(), schema, k=5, **settings)
    bound, loss = release.manifest.bound, release.manifest.cells.sse_ratio
    assert 0 < bound.sse_ratio <= loss
    assert float(f"{bound.sse_ratio:.3g}") == bound.sse_ratio
    assert float(f"{bound.gap:.3g}") == bound.gap
    assert bound.gap >= 1 - bound.sse_ratio / loss - 1e-12 or bound.gap == 0
    assert (bound.gap == 0) == (quasi == ["age"])


def test_blocks_and_searches_cut_short_have_no_bound(monkeypatch):
    blocks = mc.anonymize(people(), SCHEMA, k=5, method="mdav", blocks=1)
    assert blocks.manifest.bound is None
    assert describe_bound(Bound(0.1, "nearest records", complete=False), 0.2) is None


def test_rounding_is_on_the_side_that_stays_true():
    bound = describe_bound(Bound(0.0344996, "nearest records"), 0.07)
    assert (bound.sse_ratio, bound.gap) == (0.0344, 0.509)
    assert describe_bound(Bound(0.0, "equal records"), 0.0).gap == 0
    assert describe_bound(Bound(0.0, "equal records"), 1e-5).gap == 1
