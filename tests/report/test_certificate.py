"""The certificate: one page, whole, and the same every time."""

from io import BytesIO

import numpy as np
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from pypdf import PdfReader

from microcell.errors import OptionError
from microcell.model import Audit
from microcell.report import certificate, certify, guarantee
from microcell.report.contents import gather
from tests.raising import raises
from tests.report.examples import MANIFEST, example, full, measure

LIMITS = {"k": 5, "distortion": 0.05, "t_closeness": 0.4}
LONG = "an extraordinarily long name of a column that nobody would type twice"


def read(pdf):
    pages = PdfReader(BytesIO(pdf)).pages
    assert len(pages) == 1
    assert [round(float(side)) for side in pages[0].mediabox[2:]] == [595, 842]
    return " ".join(pages[0].extract_text().split())


def laid_out(audit, **more):
    given = {"manifest": MANIFEST, "title": "A survey", "require": LIMITS, **more}
    return certificate._fit(gather(audit, audience="public", **given))


def test_it_tells_what_there_is_to_sign():
    text = read(
        certify(full(), manifest=MANIFEST, title="Survey of thyroid health", require=LIMITS)
    )
    assert "Survey of thyroid health" in text
    assert guarantee(full()) in text
    assert "1 of 3 requirements is missed." in text
    assert "✗ Information loss at most 0.05 0.062 missed by 0.012" in text
    assert "✓ k at least 5 5 met, just" in text
    assert "Highest re-identification risk" in text
    assert "Dependence lost" in text
    assert MANIFEST["output"]["sha256"] in text.replace(" ", "")
    assert "2026-11-16 10:00:00 UTC" in text
    for place in ("Name and function", "Place and date", "Signature"):
        assert place in text


def test_it_is_public():
    text = read(certify(full(), manifest=MANIFEST)).replace(" ", "")
    assert MANIFEST["input"]["sha256"] not in text
    assert "Seed" not in text
    assert "Anote" not in text


def test_the_same_audit_gives_the_same_bytes():
    assert certify(full(), manifest=MANIFEST, require=LIMITS) == certify(
        full(), manifest=MANIFEST, require=LIMITS
    )


def test_a_release_that_is_not_fit_is_not_certified_as_if_it_were():
    text = read(certify(example(left=2), require={"k": 5}))
    assert "Not fit to publish: 2 columns to be removed are still in the table." in text
    assert "✗ Identifiers left at most 0 2 missed by 2" in text
    assert "anonymous" not in text


def test_a_guarantee_of_very_many_columns_stays_whole():
    text = read(certify(example(keys=tuple(f"{LONG} {place}" for place in range(300)))))
    assert (
        f"{LONG} 2 and 297 more columns with at least 4 others: the table is 5-anonymous in these columns."
        in text
    )


def test_an_audit_of_nearly_nothing():
    bare = Audit(
        keys=("age",), rows_original=2, rows_released=2, measures={}, class_sizes=np.array([2])
    )
    text = read(certify(bare))
    assert "2-anonymous" in text
    assert "No requirement was given." in text
    assert "empty" in read(certify(example(sizes=[])))


def test_what_was_not_measured_is_refused():
    with raises(OptionError, "option.unknown", measure="novelty"):
        certify(example(), require={"novelty": 1})


CROWDED = {
    "usual": (full(), {}),
    "long names": (full(keys=tuple(f"{LONG} {place}" for place in range(12))), {}),
    "very many names": (full(keys=tuple(f"{LONG} {place}" for place in range(300))), {}),
    "a word without end": (full(keys=("x" * 3000,)), {"title": "y" * 900}),
    "a long title": (full(), {"title": "A very long title indeed " * 30}),
    "no words": (full(keys=("",)), {"title": ""}),
    "long words in the manifest": (
        full(),
        {"manifest": {**MANIFEST, "method": {"used": "m" * 4000}}},
    ),
    "many limits": (
        full(keys=tuple(f"{LONG} {place}" for place in range(60))),
        {"require": {f"distortion.{LONG} {place}": 0.1 for place in range(60)}},
    ),
}


@pytest.mark.parametrize("what", CROWDED)
def test_nothing_runs_off_the_sheet_or_over_another_line(what):
    audit, more = CROWDED[what]
    block = laid_out(audit, **more)
    room = certificate._WIDTH - 2 * certificate._MARGIN
    assert block.height <= certificate._HEIGHT - certificate._MARGIN - certificate._FOOT
    boxes = []
    for item in block.pieces:
        width = certificate._wide(item.text, item.size, bold=item.bold)
        assert item.left + width <= room + 0.01
        boxes.append((item.left, item.left + width, item.top, item.top + item.size))
    for place, (left, right, top, bottom) in enumerate(boxes):
        assert 0 <= left <= right
        assert 0 <= top <= bottom <= block.height + 0.01
        for other in boxes[:place]:
            apart = right <= other[0] + 0.01 or other[1] <= left + 0.01
            assert apart or bottom <= other[2] + 0.01 or other[3] <= top + 0.01
    assert certify(audit, **{"manifest": MANIFEST, "require": LIMITS, **more}).startswith(b"%PDF")


@pytest.mark.parametrize("bold", [False, True])
@pytest.mark.parametrize(
    "text",
    ["Each of the 2,000 published records", "Wäre es möglich? ✗ ✓", "AVAVAT To Ly fifl", "x " * 40],
)
def test_lines_are_not_wider_than_they_are_taken_to_be(text, bold):
    """The ink of what is drawn, by matplotlib's own outlines."""
    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal", size=20)
    extent = TextPath((0, 0), text.rstrip(), prop=font, usetex=False).get_extents().width
    assert extent - 0.5 <= certificate._wide(text.rstrip(), 20, bold=bold) <= 1.08 * extent + 3


def test_requirements_that_are_missed_stay_when_not_all_fit():
    keys = tuple(f"{LONG} {place}" for place in range(60))
    limits = {f"distortion.{key}": 0.2 for key in keys} | {"records_dropped": 50}
    text = read(certify(full(keys=keys), manifest=MANIFEST, require=limits))
    assert "Records dropped" in text
    assert "missed by 50" in text
    assert "more requirements. The report names them all." in text


@pytest.mark.parametrize("title", ["$x^$", "漢字", "\U0001f600", "a\nb\tc", "(brackets\\"])
def test_odd_titles_are_set(title):
    assert certify(example(), title=title).startswith(b"%PDF")


def test_numbers_of_any_size():
    odd = {"il1s": measure("il1s", 1e300, "deviations"), "k": measure("k", 5, lower=False)}
    audit = Audit(("age",), 5, 5, odd, np.array([5]))
    assert "1e+300" in read(certify(audit))
