"""The page: its structure, and that it keeps to itself."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from microcell.model import Comparison
from microcell.report import guarantee, render
from microcell.report.figures import draw_classes, draw_column
from tests.report.examples import MANIFEST, example, full

VOID = {"meta", "col", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """The tags of a page, checked to be nested."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def count(self, tag, **wanted):
        return sum(name == tag and wanted.items() <= attrs.items() for name, attrs in self.tags)


LIMITS = {"k": 5, "distortion": 0.05, "t_closeness": 0.4}


@pytest.fixture(scope="module")
def page():
    return render(full(), "html", manifest=MANIFEST, title="A survey", require=LIMITS)


def told(text):
    return " ".join(" ".join(Page(text).text).split())


def test_structure(page):
    found = Page(page)
    assert page.lstrip().startswith("<!DOCTYPE html>")
    assert found.count("h1") == 1
    assert found.count("h2") == 13
    assert found.count("main") == 1
    assert found.count("html", lang="en") == 1
    assert found.count("meta", name="viewport") == 1
    assert found.count("th", scope="row") == len(full().measures) + len(LIMITS)
    text = told(page)
    assert guarantee(full()) in text
    assert "For internal use" in text
    assert "mdav (asked for: auto), because 5 dimensions" in text
    assert "sex (nominal: the most frequent value of the cell)" in text
    headings = re.findall(r"<h2[^>]*>([^<]*)", page)
    assert headings[:5] == [
        "Guarantee",
        "Verdict",
        "Risk and utility",
        "Columns and roles",
        "Measures",
    ]
    assert "A note that tells" in text
    assert (
        "microcell anonymize ORIGINAL -s SCHEMA -k 5 --method auto --seed 7 --missing drop -o RELEASED"
        in text
    )


def test_each_figure_is_an_image_with_a_caption(page):
    found = Page(page)
    figures = found.count("figure")
    assert figures == 1 + 1 + 1 + 7 + 5 + 3
    assert (
        found.count("svg") == found.count("figcaption") == found.count("div", role="img") == figures
    )
    assert all(attrs["aria-label"] for tag, attrs in found.tags if attrs.get("role") == "img")


def test_nothing_is_fetched_and_nothing_runs(page):
    without_namespaces = re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert "http" not in without_namespaces
    assert "@import" not in page
    found = Page(page)
    assert not {"script", "link", "iframe", "img", "object"} & {tag for tag, _ in found.tags}
    for _, attrs in found.tags:
        assert "src" not in attrs
        assert attrs.get("href", "#").startswith("#")
        assert attrs.get("xlink:href", "#").startswith("#")
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))


def test_names_within_the_page_are_unique_and_found(page):
    found = Page(page)
    names = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert len(names) == len(set(names))
    used = re.findall(r"url\(#([^)]*)\)", page) + re.findall(r'xlink:href="#([^"]*)"', page)
    assert used
    assert set(used) <= set(names)
    assert {
        attrs["aria-labelledby"] for _, attrs in found.tags if "aria-labelledby" in attrs
    } <= set(names)


def test_the_same_audit_gives_the_same_page(page):
    assert render(full(), "html", manifest=MANIFEST, title="A survey", require=LIMITS) == page


@pytest.mark.parametrize(
    "hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "]]><b>&amp;"]
)
def test_markup_in_names_and_values_is_text(hostile):
    audit = full(
        label=hostile[:17], name=hostile, keys=(hostile, "age"), notes=(hostile,), odd=hostile
    )
    manifest = {
        "method": {"used": hostile},
        "columns": {hostile: {"role": "quasi", "kind": hostile}},
    }
    limits = {f"distortion.{hostile}": 0.1}
    found = Page(render(audit, "html", manifest=manifest, title=hostile, require=limits))
    assert not {"script", "img", "b"} & {tag for tag, _ in found.tags}
    assert not any("onerror" in attrs for _, attrs in found.tags)
    assert "".join(found.text).count(hostile) >= 11


@pytest.mark.parametrize(
    "label", ["$x^$", "$\\frac{$", "漢字", "\U0001f600", "", "a\nb", 'id="q" url(#z)']
)
def test_odd_labels_are_drawn(label):
    assert "<svg" in render(full(label=label, name=label or "x", odd=label), "html")


def test_a_dollar_sign_stays_one():
    comparison = Comparison("pay", "nominal", np.array([1]), np.array([1]), labels=("$5 to $9",))
    assert "$5 to $9" in draw_column(comparison, 0).svg


@pytest.mark.parametrize("sizes", [[5], [5, 6, 9], list(range(2, 200)), [3, 1_000_000]])
def test_class_sizes_of_any_spread(sizes):
    picture = draw_classes(example(sizes=sizes))
    assert f"{len(sizes):,} class" in picture.caption
    assert "<svg" in picture.svg


def test_a_page_without_figures_or_manifest():
    found = Page(render(example(notes=()), "html"))
    assert found.count("figure") == 1
    assert found.count("h2") == 6


def test_the_verdict_is_told_with_signs_and_words(page):
    text = told(page)
    assert "1 of 3 requirements is missed." in text
    assert "k at least 5 5 ✓ met, just" in text
    assert "Information loss at most 0.05 0.0625 ✗ missed by 0.0125" in text
    assert "t-closeness at most 0.4 0.3125 ✓ met, 0.0875 to spare" in text
    assert (
        "What must be 0 in any release is 0: identifiers left and records unaccounted for." in text
    )


def test_what_should_be_0_and_is_not_is_in_the_verdict():
    text = told(render(example(left=2), "html"))
    assert "1 of 1 requirement is missed." in text
    assert "Identifiers left at most 0 2 ✗ missed by 2" in text
    assert "What must be 0 in any release is 0" not in text


def test_risk_and_utility_stand_side_by_side(page):
    sides = page[page.index('id="sides"') : page.index('id="roles"')]
    assert [len(re.findall('class="much"', side)) for side in sides.split('class="side"')[1:]] == [
        9,
        8,
    ]
    text = told(f"<section>{sides[sides.index('<div') : sides.index('</section>')]}</section>")
    assert "Highest re-identification risk 20 % Probability of guessing" in text
    assert "Records found again 12.3 % By someone" in text


def test_no_measure_is_lost_and_each_is_told_once(page):
    names = re.findall(r'<th scope="row">(?:[^<]*<br><code>)?([^<]*)<', page)
    assert sorted(names[len(LIMITS) :]) == sorted(full().measures)
    assert names[-1] == "novelty"


def test_measures_of_columns_are_folded(page):
    folded = "".join(re.findall("<details>.*?</details>", page, re.DOTALL))
    assert set(re.findall(r"<code>([^<]*)</code>", folded)) == {
        name for name in full().measures if "." in name
    }


def test_a_sampled_measure_shows_its_interval(page):
    assert "0.1111 to 0.1333, sampled" in page


def test_homogeneous_classes_are_listed_by_size(page):
    assert "tsh 2 classes of 5 records and 1 class of 7 records remark none" in told(page)


def test_every_measure_shown_is_defined(page):
    words = page[page.index('id="words"') :]
    names = {name.partition(".")[0] for name in full().measures} - {"k", "novelty"}
    assert names <= set(re.findall(r"<code>([^<]*)</code>", words))


@pytest.mark.parametrize(
    "lacking", ["quantiles", "correlations", "linkage_by_known", "homogeneous", "projection"]
)
def test_what_is_absent_leaves_no_heading(lacking):
    empty = {"quantiles": (), "homogeneous": {}}
    text = render(replace(full(), **{lacking: empty.get(lacking)}), "html")
    heading = {
        "linkage_by_known": "and linkage",
        "homogeneous": "share one value",
        "projection": "Records before",
    }
    assert heading.get(lacking, f'id="{lacking}"') not in text


@pytest.mark.parametrize(
    "audit, verdict",
    [
        (example(), "good"),
        (example(left=1), "bad"),
        (example(sizes=[1, 3]), "bad"),
        (example(faults={"values_changed": 1}), "bad"),
        (example(sizes=[]), "bad"),
    ],
)
def test_the_verdict_is_marked(audit, verdict):
    assert f'class="sentence {verdict}"' in render(audit, "html")


def test_long_names_wrap_and_push_nothing_aside(page):
    style = page[page.index("<style>") : page.index("</style>")]
    assert re.search(r"^body {[^}]*overflow-wrap: anywhere", style, re.MULTILINE)
    assert re.search(r"^table {[^}]*table-layout: fixed", style, re.MULTILINE)
    assert "overflow-wrap: normal" not in style
