"""The notebooks of the docs run, and are stored as built from their scripts."""

import importlib
import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
SCRIPTS = sorted(FOLDER.glob("*.py"))


@pytest.fixture
def maker(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    return importlib.import_module("make_notebooks")


def stored_cells(script):
    return json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]


def outputs_of(cells):
    return [output for cell in cells for output in cell.get("outputs", [])]


def test_every_notebook_has_a_script_and_is_listed():
    names = {path.stem for path in SCRIPTS}
    assert names == {path.stem for path in FOLDER.glob("*.ipynb")}
    page = FOLDER.with_suffix(".md").read_text(encoding="utf-8")
    assert names == set(re.findall(r"\(notebooks/(\w+)\.ipynb\)", page))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_notebooks_run(script, maker):
    outputs = outputs_of(json.loads(maker.build(script))["cells"])
    kinds = [set(output.get("data", ())) for output in outputs]
    stored = [set(output.get("data", ())) for output in outputs_of(stored_cells(script))]
    assert kinds == stored


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_stored_notebooks_are_built_from_their_scripts(script, maker):
    actual = [(cell["cell_type"], "".join(cell["source"])) for cell in stored_cells(script)]
    expected = maker.read_cells(script.read_text(encoding="utf-8"))
    assert actual == [(cell.cell_type, cell.source) for cell in expected], (
        "run python docs/make_notebooks.py"
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_stored_notebooks_are_small_and_have_pictures(script):
    kinds = [kind for output in outputs_of(stored_cells(script)) for kind in output.get("data", ())]
    assert {"image/png", "image/svg+xml"} & set(kinds)
    assert "text/html" in kinds
    assert script.with_suffix(".ipynb").stat().st_size < 200_000


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_links_of_notebooks_resolve(script):
    text = script.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert targets
    for target in targets:
        assert (FOLDER / target).exists(), target
