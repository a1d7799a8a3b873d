"""The certificate: one page that contains everything, and the same bytes every time."""

import logging
from io import BytesIO

import numpy as np
import pytest
from pypdf import PdfReader

from microcell.errors import OptionError
from microcell.model import Audit
from microcell.report import certify, guarantee
from tests.raising import raises
from tests.report.examples import MANIFEST, example, full, measure

LIMITS = {"k": 5, "information_loss": 0.05, "t_closeness": 0.4}
LONG = "an extraordinarily long name of a column that nobody would type twice"


def open_page(pdf):
    (page,) = PdfReader(BytesIO(pdf)).pages
    assert [round(float(side)) for side in page.mediabox[2:]] == [595, 842]
    return page


def read(pdf):
    return " ".join(open_page(pdf).extract_text().split())


def test_the_certificate_contains_what_is_signed():
    title = "Survey of thyroid health"
    text = read(certify(full(), manifest=MANIFEST, title=title, require=LIMITS))
    assert title in text
    assert guarantee(full()) in text
    assert "1 of 3 requirements is not met." in text
    assert "✗ Information loss at most 5 % 6.2 % missed by 1.2 percentage points" in text
    assert "✓ k at least 5 5 met (exactly at the limit)" in text
    assert "Highest re-identification risk" in text
    assert "Dependence loss" in text
    assert MANIFEST["output"]["sha256"] in text.replace(" ", "")
    assert "2026-11-16 10:00:00 UTC" in text
    for field in ("Name and function", "Place and date", "Signature"):
        assert field in text


def test_the_certificate_is_public():
    text = read(certify(full(), manifest=MANIFEST)).replace(" ", "")
    assert MANIFEST["input"]["sha256"] not in text
    assert "seed" not in text
    assert "Anote" not in text


def test_the_certificate_is_reproducible_and_dated_by_the_manifest():
    pdf = certify(full(), manifest=MANIFEST, require=LIMITS)
    assert pdf == certify(full(), manifest=MANIFEST, require=LIMITS)
    created = PdfReader(BytesIO(pdf)).metadata.creation_date
    assert created.isoformat() == MANIFEST["created"]


@pytest.mark.parametrize("created", [None, "yesterday", 7, "2026-11-16T10:00:00"])
def test_a_manifest_without_a_valid_date(created):
    manifest = {**MANIFEST, "created": created}
    assert certify(example(), manifest=manifest) == certify(example(), manifest=manifest)


def test_a_release_that_is_not_fit_to_publish_is_not_certified_as_anonymous():
    text = read(certify(example(left=2), require={"k": 5}))
    assert "2 columns that should have been removed are still in the table." in text
    assert "✗ Identifiers left at most 0 2 missed by 2" in text
    assert "anonymous" not in text


def test_a_guarantee_for_very_many_columns_stays_complete():
    text = read(certify(example(keys=tuple(f"{LONG} {index}" for index in range(300)))))
    assert (
        "and 297 more columns with at least 4 others: the table is 5-anonymous in these columns."
    ) in text


def test_minimal_audits():
    audit = Audit(
        ("age",), rows_original=2, rows_released=2, measures={}, class_sizes=np.array([2])
    )
    text = read(certify(audit))
    assert "2-anonymous" in text
    assert "No requirements were set." in text
    assert "empty" in read(certify(example(sizes=[])))


def test_a_limit_on_something_not_measured_is_an_error():
    with raises(OptionError, "option.unknown", measure="novelty"):
        certify(example(), require={"novelty": 1})


CROWDED = {
    "usual": (full(), {}),
    "long names": (full(keys=tuple(f"{LONG} {index}" for index in range(12))), {}),
    "very many names": (full(keys=tuple(f"{LONG} {index}" for index in range(300))), {}),
    "endless words": (full(keys=("x" * 3000,)), {"title": "y" * 900}),
    "long title": (full(), {"title": "A very long title indeed " * 30}),
    "empty names": (full(keys=("",)), {"title": ""}),
    "long manifest entries": (full(), {"manifest": {**MANIFEST, "method": {"used": "m" * 4000}}}),
    "many limits": (
        full(keys=tuple(f"{LONG} {index}" for index in range(60))),
        {"require": {f"information_loss.{LONG} {index}": 0.1 for index in range(60)}},
    ),
}


@pytest.mark.parametrize("name", CROWDED)
def test_nothing_overlaps_the_signature_or_leaves_the_page(name):
    audit, options = CROWDED[name]
    page = open_page(certify(audit, **{"manifest": MANIFEST, "require": LIMITS, **options}))
    positions = []

    def visit(text, _, matrix, *__):
        if text.strip():
            positions.append((matrix[4], matrix[5], text))

    page.extract_text(visitor_text=visit)
    signature = next(y for _, y, text in positions if "Name and function" in text)
    below = [text for _, y, text in positions if y <= signature]
    assert "Established by comparing" in "".join(below)
    assert len("".join(below)) < 300
    for x, y, _ in positions:
        assert 50 <= x <= 595 - 50
        assert 20 <= y <= 842 - 20


def test_unmet_requirements_come_first_if_not_all_fit():
    keys = tuple(f"{LONG} {index}" for index in range(60))
    limits = {f"information_loss.{key}": 0.2 for key in keys} | {"records_dropped": 50}
    text = read(certify(full(keys=keys), manifest=MANIFEST, require=limits))
    assert "Records dropped" in text
    assert "missed by 50" in text
    assert "more requirements are listed in the report." in text


@pytest.mark.parametrize(
    "title", ["$x^$", "漢字", "עברית", "\U0001f600", "a\nb\tc", "(brackets\\", ""]
)
def test_titles_in_any_script(title, caplog):
    with caplog.at_level(logging.WARNING):
        assert certify(example(), title=title).startswith(b"%PDF")
    assert caplog.records == []


def test_very_large_numbers():
    measures = {"il1s": measure("il1s", 1e300, "deviations"), "k": measure("k", 5, lower=False)}
    audit = Audit(("age",), 5, 5, measures, np.array([5]))
    assert "1e+300" in read(certify(audit))
