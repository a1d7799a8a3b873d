"""Text and JSON against golden files; what is loaded for them.

To accept a change: write the new text into tests/report/golden and read the difference.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from microcell.errors import OptionError
from microcell.model import Audit, Measure
from microcell.report import FORMATS, render
from tests.raising import raises
from tests.report.examples import MANIFEST, example, full, pictured

GOLDEN = Path(__file__).parent / "golden"


LIMITS = {"k": 5, "distortion": 0.05}


@pytest.mark.parametrize("form, name", [("text", "report.txt"), ("json", "report.json")])
def test_golden(form, name):
    text = render(example(), form, manifest=MANIFEST, title="A survey", require=LIMITS)
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("form, name", [("text", "public.txt"), ("json", "public.json")])
def test_golden_for_the_public(form, name):
    text = render(
        full(), form, manifest=MANIFEST, title="A survey", require=LIMITS, audience="public"
    )
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def test_text_is_at_most_100_wide():
    long = "a very long name of a column " * 4
    limits = {f"distortion.{long}": 0.1, "distortion.age": 0.2}
    text = render(
        full(keys=(long, "age")), "text", manifest=MANIFEST, title="title " * 40, require=limits
    )
    assert max(map(len, text.splitlines())) <= 100
    assert "How it was made" in text


def test_text_of_an_audit_without_measures():
    bare = Audit(
        keys=("age",), rows_original=2, rows_released=2, measures={}, class_sizes=np.array([2])
    )
    text = render(bare, "text")
    assert "2-anonymous" in text
    assert "How it was made" not in text
    assert "Notes" not in text


def test_json_tells_measures_in_full_and_no_category():
    text = render(pictured(label="secretvalue"), "json")
    facts = json.loads(text)
    assert next(iter(facts)) == "audit_version"
    assert facts["audit_version"] == 2
    assert facts["measures"]["k"] == {
        "name": "k",
        "value": 5,
        "unit": "records",
        "lower_is_better": False,
        "meaning": "What k means, in one sentence.",
        "interval": None,
        "must_be_zero": False,
    }
    assert facts["class_sizes"] == [{"size": 5, "classes": 391}, {"size": 9, "classes": 5}]
    assert "manifest" not in facts
    assert "secretvalue" not in text
    assert "comparisons" not in facts


def test_json_has_what_figures_show():
    audit = full()
    facts = json.loads(render(audit, "json", require={"k": 6, "distortion": 1}))
    assert facts["audience"] == "internal"
    assert facts["correlations"]["columns"] == list(audit.correlations.names)
    assert facts["correlations"]["before"] == audit.correlations.before.tolist()
    assert facts["correlations"]["after"] == audit.correlations.after.tolist()
    assert facts["linkage_by_known"] == audit.linkage_by_known.tolist()
    assert facts["homogeneous"] == {
        "tsh": [{"size": 5, "classes": 2}, {"size": 7, "classes": 1}],
        "remark": [],
    }
    assert "quantiles" not in facts  # they are values of the original, and JSON ends up in logs
    assert facts["measures"]["linkage"]["interval"] == [0.11111, 0.13333]
    verdict = facts["verdict"]
    assert verdict["met"] is False
    assert verdict["requirements"][0] == {
        "measure": "k",
        "bound": "at least",
        "limit": 6,
        "value": 5,
        "met": False,
    }
    assert {item["measure"]: item["met"] for item in verdict["requirements"][1:]} == {
        "distortion": True,
        "identifiers_left": True,
        "records_unaccounted": True,
    }


def test_json_of_an_audit_without_figures_says_so():
    facts = json.loads(render(example(), "json"))
    assert facts["correlations"] is facts["linkage_by_known"] is None
    assert facts["homogeneous"] == {}


def test_json_has_no_number_that_json_does_not_know():
    odd = Measure("novelty", float("inf"), "share", True, "Odd.", (0.0, float("nan")))
    audit = Audit(
        ("age",), 2, 2, {"novelty": odd}, np.array([2]), linkage_by_known=np.array([np.nan])
    )
    facts = json.loads(render(audit, "json"), parse_constant=pytest.fail)
    assert facts["measures"]["novelty"]["value"] is None
    assert facts["measures"]["novelty"]["interval"] == [0.0, None]
    assert facts["linkage_by_known"] == [None]
    for form in ("text", "html"):
        assert "novelty" in render(audit, form, audience="public")


def test_json_knows_numpy_numbers_in_a_manifest():
    assert json.loads(render(example(), "json", manifest={"seed": np.int64(3)}))["manifest"] == {
        "seed": 3
    }


def test_an_unknown_form_is_refused():
    with raises(OptionError, "option.unknown", option="format"):
        render(example(), "pdf")


def test_an_unknown_audience_is_refused():
    with pytest.raises(OptionError, match="'press'; choose one of internal, public"):
        render(example(), "text", audience="press")


@pytest.mark.parametrize("form", FORMATS)
def test_a_limit_of_what_was_not_measured_is_refused(form):
    with raises(OptionError, "option.unknown", measure="novelty"):
        render(example(), form, require={"novelty": 1})


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_release_can_be_reported(form):
    assert "empty" in render(example(sizes=[]), form)


def test_text_and_json_do_not_load_matplotlib():
    program = (
        "import sys; from tests.report.examples import example; from microcell.report import render;"
        "render(example(), 'text', audience='public'); render(example(), 'json', require={'k': 5});"
        "sys.exit(any(name.split('.')[0] in ('matplotlib', 'fpdf') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
