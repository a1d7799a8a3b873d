"""The HTML page: structure, escaping, no external files."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from microcell.model import Comparison, Finding, Quantiles
from microcell.report import guarantee, render
from microcell.report.figures.audit import draw_audit, draw_classes
from tests.report.examples import MANIFEST, correlations, example, full

VOID = {"meta", "col", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """The tags of a page; checks that they are nested correctly."""

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

    def count(self, tag, **attributes):
        return sum(name == tag and attributes.items() <= attrs.items() for name, attrs in self.tags)


LIMITS = {"k": 5, "information_loss": 0.05, "t_closeness": 0.4}


@pytest.fixture(scope="module")
def page():
    return render(full(), "html", manifest=MANIFEST, title="A survey", require=LIMITS)


def visible_text(text):
    return " ".join(" ".join(Page(text).text).split())


def test_structure(page):
    parsed = Page(page)
    assert page.lstrip().startswith("<!DOCTYPE html>")
    assert parsed.count("h1") == 1
    assert parsed.count("h2") == 14
    assert parsed.count("main") == 1
    assert parsed.count("html", lang="en") == 1
    assert parsed.count("meta", name="viewport") == 1
    assert parsed.count("th", scope="row") == len(full().measures) + len(LIMITS)
    text = visible_text(page)
    assert guarantee(full()) in text
    assert "For internal use" in text
    assert 'mdav, chosen by "auto": 5 dimensions' in text
    assert "sex (nominal, published as the most frequent value of the cell)" in text
    headings = re.findall(r"<h2[^>]*>([^<]*)", page)
    assert headings[:6] == [
        "Guarantee",
        "Verdict",
        "Risk and utility",
        "Columns and roles",
        "Notes",
        "Appendix",
    ]
    assert "A note that contains" in text
    command = "microcell anonymize ORIGINAL -s SCHEMA -k 5 --method auto --seed 7 --missing drop"
    assert f"{command} --order-key MANIFEST -o RELEASED" in text


def test_each_figure_is_an_image_with_a_caption(page):
    parsed = Page(page)
    figures = parsed.count("figure")
    assert figures == 1 + 1 + 1 + 7 + 5 + 3
    assert (
        parsed.count("svg")
        == parsed.count("figcaption")
        == parsed.count("div", role="img")
        == figures
    )
    assert all(attrs["aria-label"] for tag, attrs in parsed.tags if attrs.get("role") == "img")


def test_the_page_has_no_scripts_or_external_files(page):
    without_namespaces = re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert "http" not in without_namespaces
    assert "@import" not in page
    parsed = Page(page)
    assert not {"script", "link", "iframe", "img", "object"} & {tag for tag, _ in parsed.tags}
    for _, attrs in parsed.tags:
        assert "src" not in attrs
        assert attrs.get("href", "#").startswith("#")
        assert attrs.get("xlink:href", "#").startswith("#")
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))


def test_ids_are_unique_and_references_resolve(page):
    parsed = Page(page)
    names = [attrs["id"] for _, attrs in parsed.tags if "id" in attrs]
    assert len(names) == len(set(names))
    used = re.findall(r"url\(#([^)]*)\)", page) + re.findall(r'xlink:href="#([^"]*)"', page)
    assert used
    assert set(used) <= set(names)
    assert {
        attrs["aria-labelledby"] for _, attrs in parsed.tags if "aria-labelledby" in attrs
    } <= set(names)


def test_the_page_is_reproducible(page):
    assert render(full(), "html", manifest=MANIFEST, title="A survey", require=LIMITS) == page


def test_markup_in_names_and_values_is_escaped():
    hostile = '"></td>]]><b>&amp;<script>alert(1)</script><img src=x onerror=alert(1)>'
    audit = full(
        label=hostile[:17], name=hostile, keys=(hostile, "age"), notes=(hostile,), column=hostile
    )
    manifest = {
        "method": {"used": hostile},
        "columns": {hostile: {"role": "quasi", "kind": hostile}},
    }
    limits = {f"information_loss.{hostile}": 0.1}
    parsed = Page(render(audit, "html", manifest=manifest, title=hostile, require=limits))
    assert not {"script", "img", "b"} & {tag for tag, _ in parsed.tags}
    assert not any("onerror" in attrs for _, attrs in parsed.tags)
    assert "".join(parsed.text).count(hostile) >= 11


def test_unusual_labels_are_drawn():
    labels = ["$x^$", "$\\frac{$", "漢字", "\U0001f600", "", "a\nb", 'id="q" url(#z)']
    shares = np.linspace(0, 1, 101)
    audit = example(
        comparisons=tuple(
            Comparison(
                label or "x", "nominal", np.array([3, 2]), np.array([4, 1]), labels=(label, "male")
            )
            for label in labels
        ),
        quantiles=tuple(Quantiles(label, shares, shares, shares / 2) for label in labels),
        correlations=correlations(labels),
    )
    page = Page(render(audit, "html"))
    assert page.count("svg") >= 2 * len(labels)


def test_dollar_signs_are_not_formulas():
    comparison = Comparison("pay", "nominal", np.array([1]), np.array([1]), labels=("$5 to $9",))
    (picture,) = draw_audit(example(comparisons=(comparison,)))["columns"]
    assert "$5 to $9" in picture.svg


@pytest.mark.parametrize("sizes", [[5], [5, 6, 9], list(range(2, 200)), [3, 1_000_000]])
def test_class_sizes_of_any_range(sizes):
    picture = draw_classes(example(sizes=sizes))
    assert f"{len(sizes):,} class" in picture.caption
    assert "<svg" in picture.svg


def test_a_page_without_figures_or_manifest():
    parsed = Page(render(example(notes=()), "html"))
    assert parsed.count("figure") == 1
    assert parsed.count("h2") == 7


def test_findings_follow_the_guarantee_and_a_danger_is_not_green():
    finding = Finding("danger", "utility.category_lost", "x is lost.", "weight = 4", {}, ("x",))
    audit = replace(example(notes=()), findings=(replace(finding, details=("Ruritania",)),))
    page = render(audit, "html", require={"k": 5})
    headings = re.findall(r"<h2[^>]*>([^<]*)", page)
    assert headings[:3] == ["Guarantee", "Findings", "Verdict"]
    assert 'class="sentence caution"' in page
    assert 'class="ruling caution"' in page
    assert "Ruritania" in page
    public = render(audit, "html", require={"k": 5}, audience="public")
    assert "Ruritania" not in public
    assert "x is lost" not in public
    assert "Some categories vanish or are mostly wrong" in public
    for format in ("text", "json"):
        assert "Ruritania" not in render(audit, format)


def test_the_verdict_has_signs_and_words(page):
    text = visible_text(page)
    assert "1 of 3 requirements is not met." in text
    assert "k at least 5 5 ✓ met (exactly at the limit)" in text
    assert "Information loss at most 5 % 6.25 % ✗ missed by 1.25 percentage points" in text
    assert "t-closeness at most 0.4 0.3125 ✓ met by 0.0875" in text
    assert "Basic checks passed: no " in text


def test_failed_basic_checks_are_in_the_verdict():
    text = visible_text(render(example(left=2), "html"))
    assert "The requirement is not met." in text
    assert "Identifiers left at most 0 2 ✗ missed by 2" in text
    assert "Basic checks passed" not in text


def test_headlines_are_in_two_columns(page):
    sides = page[page.index('id="sides"') : page.index('id="roles"')]
    assert [len(re.findall('class="much"', side)) for side in sides.split('class="side"')[1:]] == [
        9,
        8,
    ]
    text = visible_text(
        f"<section>{sides[sides.index('<div') : sides.index('</section>')]}</section>"
    )
    assert "Highest re-identification risk 20 % Probability of guessing" in text
    assert "Records re-identified 12.35 % Expected share" in text


def test_every_measure_is_listed_once(page):
    names = re.findall(r'<th scope="row">(?:[^<]*<br><code>)?([^<]*)<', page)
    assert sorted(names[len(LIMITS) :]) == sorted(full().measures)
    assert names[-1] == "novelty"


def test_measures_of_columns_are_in_closed_details(page):
    folded = "".join(re.findall("<details>.*?</details>", page, re.DOTALL))
    assert set(re.findall(r"<code>([^<]*)</code>", folded)) == {
        name for name in full().measures if "." in name
    }


def test_an_estimated_measure_shows_its_interval(page):
    assert "estimate, 95 % CI 11.11 % to 13.33 %" in page


def test_homogeneous_classes_are_listed_by_size(page):
    assert "tsh 2 classes of 5 records and 1 class of 7 records remark none" in visible_text(page)


def test_every_measure_is_explained(page):
    words = page[page.index('id="words"') :]
    names = {name.partition(".")[0] for name in full().measures} - {"k", "novelty"}
    assert names <= set(re.findall(r"<code>([^<]*)</code>", words))


def test_absent_data_have_no_heading(page):
    headings = {
        "quantiles": 'id="quantiles"',
        "correlations": 'id="correlations"',
        "linkage_by_known": "and linkage",
        "homogeneous": "single confidential value",
        "projection": "Records before",
    }
    empty = dict.fromkeys(headings) | {"quantiles": (), "homogeneous": {}}
    text = render(replace(full(), **empty), "html")
    assert {name for name, heading in headings.items() if heading in page} == set(headings)
    assert not any(heading in text for heading in headings.values())


@pytest.mark.parametrize(
    ("audit", "verdict"),
    [
        (example(), "good"),
        (example(left=1), "bad"),
        (example(sizes=[1, 3]), "bad"),
        (example(faults={"values_changed": 1}), "bad"),
        (example(sizes=[]), "bad"),
    ],
)
def test_the_guarantee_is_marked_as_good_or_bad(audit, verdict):
    assert f'class="sentence {verdict}"' in render(audit, "html")


def test_long_names_wrap(page):
    style = page[page.index("<style>") : page.index("</style>")]
    assert re.search(r"^body {[^}]*overflow-wrap: anywhere", style, re.MULTILINE)
    assert re.search(r"^table {[^}]*table-layout: fixed", style, re.MULTILINE)
    assert "overflow-wrap: normal" not in style
