"""Text and JSON against golden files; what is loaded for them.

To accept a change: write the new text into tests/reporting/golden and read the difference.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from microcell.errors import OptionError
from microcell.model import Audit
from microcell.reporting import FORMS, render
from tests.reporting.examples import MANIFEST, example, pictured

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("form, name", [("text", "report.txt"), ("json", "report.json")])
def test_golden(form, name):
    assert render(example(), form, manifest=MANIFEST, title="A survey") == (GOLDEN / name).read_text(encoding="utf-8")


def test_text_is_at_most_100_wide():
    long = "a very long name of a column " * 4
    text = render(example(keys=(long, "age")), "text", manifest=MANIFEST, title="title " * 40)
    assert max(map(len, text.splitlines())) <= 100
    assert "How it was made" in text


def test_text_of_an_audit_without_measures():
    bare = Audit(keys=("age",), rows_original=2, rows_released=2, measures={}, class_sizes=np.array([2]))
    text = render(bare, "text")
    assert "2-anonymous" in text
    assert "How it was made" not in text
    assert "Notes" not in text


def test_json_tells_measures_in_full_and_no_value_of_the_table():
    text = render(pictured(label="secretvalue"), "json")
    facts = json.loads(text)
    assert next(iter(facts)) == "audit_version"
    assert facts["audit_version"] == 1
    assert facts["measures"]["k"] == {
        "name": "k",
        "value": 5,
        "unit": "records",
        "lower_is_better": False,
        "meaning": "What k means, in one sentence.",
        "interval": None,
    }
    assert facts["class_sizes"] == [{"size": 5, "classes": 391}, {"size": 9, "classes": 5}]
    assert "manifest" not in facts
    assert "secretvalue" not in text
    assert "comparisons" not in facts


def test_json_knows_numpy_numbers_in_a_manifest():
    assert json.loads(render(example(), "json", manifest={"seed": np.int64(3)}))["manifest"] == {"seed": 3}


def test_an_unknown_form_is_refused():
    with pytest.raises(OptionError, match="'pdf'; choose one of text, json, html"):
        render(example(), "pdf")


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_release_can_be_reported(form):
    assert "empty" in render(example(sizes=[]), form)


def test_text_and_json_do_not_load_matplotlib():
    program = (
        "import sys; from tests.reporting.examples import example; from microcell.reporting import render;"
        "render(example(), 'text'); render(example(), 'json');"
        "sys.exit(any(name.split('.')[0] in ('matplotlib', 'jinja2') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
