"""Text and JSON reports, compared with golden files.

To accept a change, run ``python -m tests.report.test_formats`` and read the difference.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from microcell.errors import OptionError
from microcell.measures.registry import measures
from microcell.model import Audit, Measure
from microcell.report import FORMATS, render
from tests.raising import raises
from tests.report.examples import MANIFEST, example, full, pictured

GOLDEN = Path(__file__).parent / "golden"


LIMITS = {"k": 5, "information_loss": 0.05}
GOLDEN_REPORTS = {
    "report.txt": ("text", "internal"),
    "report.json": ("json", "internal"),
    "public.txt": ("text", "public"),
    "public.json": ("json", "public"),
}


def golden_report(name):
    format, audience = GOLDEN_REPORTS[name]
    audit = example() if audience == "internal" else full()
    options = {"manifest": MANIFEST, "title": "A survey", "require": LIMITS}
    return render(audit, format, audience=audience, **options)


@pytest.mark.parametrize("name", GOLDEN_REPORTS)
def test_golden_reports(name):
    assert golden_report(name) == (GOLDEN / name).read_text(encoding="utf-8")


def test_the_order_of_measures_does_not_depend_on_imports():
    program = (
        "import microcell.measures.utility, microcell.measures.disclosure;"
        "from microcell.measures.registry import measures; print(*measures())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == list(measures())


def test_text_is_at_most_100_characters_wide():
    long = "a very long name of a column " * 4
    limits = {f"information_loss.{long}": 0.1, "information_loss.age": 0.2}
    text = render(
        full(keys=(long, "age")), "text", manifest=MANIFEST, title="title " * 40, require=limits
    )
    assert max(map(len, text.splitlines())) <= 100
    assert "How the release was created" in text


def test_text_of_an_audit_without_measures():
    bare = Audit(
        keys=("age",), rows_original=2, rows_released=2, measures={}, class_sizes=np.array([2])
    )
    text = render(bare, "text")
    assert "2-anonymous" in text
    assert "How the release was created" not in text
    assert "Notes" not in text


def test_json_has_exact_measures_and_no_categories():
    text = render(pictured(label="secretvalue"), "json")
    report = json.loads(text)
    assert next(iter(report)) == "audit_version"
    assert report["audit_version"] == 2
    assert report["measures"]["k"] == {
        "name": "k",
        "value": 5,
        "unit": "records",
        "lower_is_better": False,
        "meaning": "What k means, in one sentence.",
        "interval": None,
    }
    assert report["class_sizes"] == [{"size": 5, "classes": 391}, {"size": 9, "classes": 5}]
    assert "manifest" not in report
    assert "secretvalue" not in text
    assert "comparisons" not in report


def test_json_has_the_data_of_figures():
    audit = full()
    report = json.loads(render(audit, "json", require={"k": 6, "information_loss": 1}))
    assert report["audience"] == "internal"
    assert report["correlations"]["columns"] == list(audit.correlations.names)
    assert report["correlations"]["before"] == audit.correlations.before.tolist()
    assert report["correlations"]["after"] == audit.correlations.after.tolist()
    assert report["linkage_by_known"] == audit.linkage_by_known.tolist()
    assert report["homogeneous"] == {
        "tsh": [{"size": 5, "classes": 2}, {"size": 7, "classes": 1}],
        "remark": [],
    }
    # Quantiles are values of the original, and JSON often ends up in logs.
    assert "quantiles" not in report
    assert report["measures"]["linkage"]["interval"] == [0.11111, 0.13333]
    verdict = report["verdict"]
    assert verdict["met"] is False
    assert verdict["requirements"][0] == {
        "measure": "k",
        "bound": "at least",
        "limit": 6,
        "value": 5,
        "met": False,
    }
    assert {item["measure"]: item["met"] for item in verdict["requirements"][1:]} == {
        "information_loss": True,
        "identifiers_left": True,
        "records_unaccounted": True,
    }


def test_json_of_an_audit_without_data_for_figures():
    report = json.loads(render(example(), "json"))
    assert report["correlations"] is report["linkage_by_known"] is None
    assert report["homogeneous"] == {}


def test_json_has_neither_nan_nor_infinity():
    infinite = Measure("novelty", float("inf"), "share", True, "", (0.0, float("nan")))
    audit = Audit(
        ("age",), 2, 2, {"novelty": infinite}, np.array([2]), linkage_by_known=np.array([np.nan])
    )
    report = json.loads(render(audit, "json"), parse_constant=pytest.fail)
    assert report["measures"]["novelty"]["value"] is None
    assert report["measures"]["novelty"]["interval"] == [0.0, None]
    assert report["linkage_by_known"] == [None]
    for format in ("text", "html"):
        assert "novelty" in render(audit, format, audience="public")


def test_numpy_numbers_in_a_manifest():
    assert json.loads(render(example(), "json", manifest={"seed": np.int64(3)}))["manifest"] == {
        "seed": 3
    }


def test_unknown_formats_are_an_error():
    with raises(OptionError, "option.unknown", option="format"):
        render(example(), "pdf")


def test_unknown_audiences_are_an_error():
    with raises(OptionError, "option.unknown", option="audience"):
        render(example(), "text", audience="press")


@pytest.mark.parametrize("format", FORMATS)
def test_a_limit_on_something_not_measured_is_an_error(format):
    with raises(OptionError, "option.unknown", measure="novelty"):
        render(example(), format, require={"novelty": 1})


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_release_can_be_reported(format):
    assert "empty" in render(example(sizes=[]), format)


def test_text_and_json_do_not_load_matplotlib():
    program = (
        "import sys; from tests.report.examples import example;"
        "from microcell.report import render;"
        "render(example(), 'text', audience='public');"
        "render(example(), 'json', require={'k': 5});"
        "sys.exit(any(name.split('.')[0] in ('matplotlib', 'fpdf') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])


if __name__ == "__main__":
    for name in GOLDEN_REPORTS:
        (GOLDEN / name).write_text(golden_report(name), encoding="utf-8")
