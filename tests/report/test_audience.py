"""What public reports leave out."""

import json
import re
from datetime import date, timedelta
from html import unescape
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader

import microcell as mc
from microcell.measures.registry import measures
from microcell.model import Measure
from microcell.report import FORMATS, certify, render
from microcell.report.contents import trim_audit, trim_manifest
from tests.report.examples import EXTREME, MANIFEST, example, full

HIGH, LOW = 987654.25, -876543.75
"""Values of one record each, far from all others and from any number in a report."""
FAR = date(2371, 3, 17)


@pytest.fixture(scope="module")
def audited():
    """Audit and manifest of a table with quasi-identifier values that only one record has."""
    rng = np.random.default_rng(0)
    n = 60
    pay = rng.normal(100, 15, n).round(2)
    pay[7], pay[11] = HIGH, LOW
    born = [date(1980, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 9000, n)]
    born[13] = FAR
    job = [["nurse", "baker"][index] for index in rng.integers(0, 2, n)]
    job[17] = "xylomancer"
    code = [f"94{number:03d}" for number in rng.integers(0, 99, n)]
    code[19] = "QZJ77"
    people = {
        "pay": pay,
        "born": born,
        "job": job,
        "code": code,
        "tsh": rng.normal(size=n).round(1),
    }
    schema = mc.Schema(
        quasi=["pay", "born", "job", mc.Column("code", kind="code")],
        confidential=["tsh"],
    )
    release = mc.anonymize(people, schema, k=5, method="mdav")
    return mc.audit(people, release.table, schema), release.manifest.as_dict()


def texts(audited, audience):
    """Everything one can read, by format, including texts in figures and for screen readers."""
    audit, manifest = audited
    limits = {"k": 5, "information_loss": 0.9}
    reports = {
        format: render(audit, format, manifest=manifest, require=limits, audience=audience)
        for format in FORMATS
    }
    reports["html"] = re.sub(
        r' (d|transform|x|y|width|height|viewBox|style|points|id)="[^"]*"',
        "",
        unescape(reports["html"]),
    )
    if audience == "public":
        pdf = certify(audit, manifest=manifest, require=limits)
        reports["pdf"] = PdfReader(BytesIO(pdf)).pages[0].extract_text()
    return reports


def numbers(text):
    return [
        float(number.replace(",", ""))
        for number in re.findall(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", text)
    ]


def reveals(text):
    """The planted values that the text reveals to at least three digits."""
    near = {
        value
        for value in (HIGH, LOW)
        for number in numbers(text)
        if abs(abs(number) - abs(value)) <= 2e-3 * abs(value)
    }
    return near | {word for word in ("xylomancer", "QZJ", "2371", "xylo") if word in text}


def test_public_reports_contain_no_original_value(audited):
    for format, text in texts(audited, "public").items():
        assert len(text) > 500, format
        assert reveals(text) == set(), format


def test_internal_reports_contain_original_values(audited):
    """Shows that the search of the test above works."""
    assert reveals(texts(audited, "internal")["html"]) >= {HIGH, LOW, "2371", "xylomancer"}


@pytest.mark.parametrize("format", FORMATS)
def test_notes_figures_and_digest_of_the_original_stay_internal(format):
    text = render(full(), format, manifest=MANIFEST, audience="public", picture=b"<svg>cells</svg>")
    for secret in (
        str(EXTREME),
        "A note",
        MANIFEST["input"]["sha256"],
        "phone",
        "9.88e+05",
        "5 dimensions",
    ):
        assert secret not in text
    assert MANIFEST["output"]["sha256"] in text
    internal = render(full(), format, manifest=MANIFEST)
    for text in ("A note", MANIFEST["input"]["sha256"], "phone", "5 dimensions"):
        assert text in internal


def test_the_public_page_has_only_figures_of_the_release():
    page = render(full(), "html", audience="public", picture=b"<svg>cells</svg>")
    assert page.count("<figure") == 1 + 1 + 3
    assert "<img" not in page
    assert "internal use" not in page
    assert "For internal use" in render(full(), "html")


def test_public_json_has_no_notes():
    report = json.loads(render(full(), "json", audience="public", manifest=MANIFEST))
    assert "notes" not in report
    assert not {"seed", "input", "information_loss", "seconds", "row_order"} & set(
        report["manifest"]
    )
    assert set(report["manifest"]["columns"]) == {"sex", "age", "region", "tsh", "remark", "w"}
    for row in (*report["correlations"]["before"], *report["correlations"]["after"]):
        assert all(value == round(value, 2) for value in row)


def test_only_measures_of_the_published_table_are_exact():
    audit = full()
    shown = trim_audit(audit)
    assert set(shown.measures) == set(audit.measures)
    for name, measure in audit.measures.items():
        base = name.partition(".")[0]
        if base in measures() and measures()[base].exact:
            assert shown.measures[name] == measure
        else:
            assert shown[name] == float(f"{shown[name]:.2g}") == round(shown[name], 3)
            assert shown[name] == pytest.approx(measure.value, rel=0.05, abs=0.00051)
    assert shown.measures["linkage"].interval == (0.11, 0.13)
    assert shown.measures["novelty"].meaning != audit.measures["novelty"].meaning
    assert shown.linkage_by_known.tolist() == [0.003, 0.046, 0.12, 0.18]


@given(st.floats(0, 1e6), st.integers(0, 20))
def test_small_changes_do_not_reveal_an_original_mean(value, shift):
    """At any scale, a shown value stands for a range at least 0.001 wide."""
    audit = example()
    measure = Measure("mean_change", value * 10.0**-shift, "deviations", True, "")
    shown = trim_audit(type(audit)(**{**vars(audit), "measures": {"mean_change": measure}}))[
        "mean_change"
    ]
    assert shown == round(shown, 3)


@pytest.mark.parametrize(
    "value", [None, 3, -1.5, "words", True, [], ["a"], {}, {"a": {}}, {"a": []}]
)
def test_damaged_manifests_can_be_trimmed(value):
    for key in MANIFEST:
        manifest = {**MANIFEST, key: value}
        assert trim_manifest(manifest) is not None
        for format in ("text", "json"):
            text = render(example(), format, manifest=manifest, audience="public")
            assert "a1a1" in text or key == "output"


def test_without_a_manifest():
    assert trim_manifest(None) is None
    assert "manifest" not in json.loads(render(example(), "json", audience="public"))
