"""Publishing a design: all files or none, checked before they replace others; the report."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

import microcell as mc
from tests.raising import raises
from tests.surveys.candidates import OPTIONS_BY_KIND


@pytest.mark.parametrize("kind", ["power", "balls", "boxes"])
def test_publish_writes_cells_manifest_and_report(kind, designs, tmp_path):
    design = designs[kind, "uneven"]
    design.publish(tmp_path / "cells.json", report=tmp_path / "page.html")
    assert sorted(os.listdir(tmp_path)) == ["cells.design.json", "cells.json", "page.html"]
    assert json.loads((tmp_path / "cells.design.json").read_text()) == json.loads(
        design.manifest.to_json()
    )
    assert mc.surveys.check(tmp_path / "cells.json").holds


def test_lookup_cells_require_confidential(designs, tmp_path):
    design = designs["lookup", "common"]
    with raises(mc.errors.OptionError, "option.unsupported", option="confidential"):
        design.publish(tmp_path / "cells.json")
    assert os.listdir(tmp_path) == []
    design.publish(tmp_path / "cells.json", confidential=True)
    assert (tmp_path / "cells.json").stat().st_mode & 0o077 == 0
    messages = [item.message for item in mc.surveys.check(tmp_path / "cells.json").findings]
    assert any("contain the candidates' records" in message for message in messages)


def test_a_design_above_the_limit_is_not_published(designs, tmp_path):
    design = designs["power", "common"]
    survey = {**design.cells.survey, "failure": min(design.cells.survey["cell_failures"]) / 2}
    altered = replace(design, cells=replace(design.cells, survey=survey))
    with raises(mc.GuaranteeError, "guarantee.failed", checks=("limit",)):
        altered.publish(tmp_path / "cells.json")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", OPTIONS_BY_KIND)
def test_report_shows_probabilities_and_no_values(kind, people, designs):
    design = designs[kind, "uneven"]
    page = design.render()
    for probability in design.failures.as_dict().values():
        assert f"{probability:.4g}" in page
    assert page.count("<svg") == 2
    assert "<script" not in page
    for name in ("Prats", "Lleida", "person 5"):
        assert name not in page
    assert not any(f"{height:.6f}".rstrip("0") in page for height in np.unique(people["height"]))


def test_report_of_a_design_that_cannot_fail(people):
    design = mc.surveys.design(
        {"age": people["age"]}, mc.Schema(quasi=["age"]), 3, 1.0, 0.01, method="mdav"
    )
    assert "<html" in design.render()
