"""Designs as files: all or nothing, checked before they have their name; and the report."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

import microcell as mc
from tests.surveys.candidates import WAYS


@pytest.mark.parametrize("kind", ["power", "balls", "boxes"])
def test_cells_and_manifest_are_written_and_hold(kind, designs, tmp_path):
    design = designs[kind, "uneven"]
    mc.surveys.write_survey(
        design,
        tmp_path / "cells.json",
        beside={tmp_path / "page.html": mc.surveys.render_survey(design)},
    )
    assert sorted(os.listdir(tmp_path)) == ["cells.design.json", "cells.json", "page.html"]
    assert json.loads((tmp_path / "cells.design.json").read_text()) == json.loads(
        json.dumps(design.manifest)
    )
    assert mc.surveys.check_survey(tmp_path / "cells.json").holds


def test_lookup_cells_are_refused_unless_confidential(designs, tmp_path):
    design = designs["lookup", "common"]
    with pytest.raises(mc.errors.OptionError, match="confidential"):
        mc.surveys.write_survey(design, tmp_path / "cells.json")
    assert os.listdir(tmp_path) == []
    mc.surveys.write_survey(design, tmp_path / "cells.json", confidential=True)
    assert (tmp_path / "cells.json").stat().st_mode & 0o077 == 0
    words = [item.words for item in mc.surveys.check_survey(tmp_path / "cells.json").findings]
    assert any("hold the candidates' records" in sentence for sentence in words)


def test_a_design_that_does_not_hold_is_not_written(designs, tmp_path):
    design = designs["power", "common"]
    survey = {**design.cells.survey, "failure": min(design.cells.survey["cell_failures"]) / 2}
    with pytest.raises(mc.GuaranteeError, match="over the accepted"):
        mc.surveys.write_survey(
            replace(design, cells=replace(design.cells, survey=survey)), tmp_path / "cells.json"
        )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", WAYS)
def test_the_page_tells_every_figure_and_no_value(kind, people, designs):
    design = designs[kind, "uneven"]
    page = mc.surveys.render_survey(design)
    for figure in design.figures.as_dict().values():
        assert f"{figure:.4g}" in page
    assert page.count("<svg") == 2
    assert "<script" not in page
    for name in ("Prats", "Lleida", "person 5"):
        assert name not in page
    assert not any(f"{height:.6f}".rstrip("0") in page for height in np.unique(people["height"]))


def test_a_design_that_cannot_fail_has_a_page_too(people):
    design = mc.surveys.design_survey(
        {"age": people["age"]}, mc.Schema(quasi=["age"]), 3, 1.0, 0.01, method="mdav"
    )
    assert "or nobody" in mc.surveys.render_survey(design)
