"""The page: its structure, and that it keeps to itself."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from microcell.model import Comparison
from microcell.reporting import guarantee, render
from microcell.reporting.figures import draw_classes, draw_comparison
from tests.reporting.examples import MANIFEST, example, pictured

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


@pytest.fixture(scope="module")
def page():
    return render(pictured(), "html", manifest=MANIFEST, title="A survey")


def test_structure(page):
    found = Page(page)
    assert page.lstrip().startswith("<!DOCTYPE html>")
    assert found.count("h1") == 1
    assert found.count("h2") == 9
    assert found.count("main") == 1
    assert found.count("html", lang="en") == 1
    assert found.count("meta", name="viewport") == 1
    assert found.count("th", scope="row") == 11
    text = " ".join(" ".join(found.text).split())
    assert guarantee(pictured()) in text
    assert "For internal use" in text
    assert "mdav (asked for: auto), because 5 dimensions" in text
    assert "sex (nominal: the most frequent value of the cell)" in text
    headings = re.findall(r"<h2[^>]*>([^<]*)", page)
    assert headings[:3] == ["Guarantee", "Columns and roles", "Measures"]
    assert "on trust" in text


def test_each_figure_is_an_image_with_a_caption(page):
    found = Page(page)
    figures = found.count("figure")
    assert figures == 1 + 1 + 6
    assert found.count("svg") == found.count("figcaption") == found.count("div", role="img") == figures
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
    assert {attrs["aria-labelledby"] for _, attrs in found.tags if "aria-labelledby" in attrs} <= set(names)


def test_the_same_audit_gives_the_same_page(page):
    assert render(pictured(), "html", manifest=MANIFEST, title="A survey") == page


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "]]><b>&amp;"])
def test_markup_in_names_and_values_is_text(hostile):
    audit = pictured(label=hostile[:17], name=hostile, keys=(hostile, "age"), notes=(hostile,))
    manifest = {"method": {"used": hostile}, "columns": {hostile: {"role": "quasi", "kind": hostile}}}
    found = Page(render(audit, "html", manifest=manifest, title=hostile))
    assert not {"script", "img", "b"} & {tag for tag, _ in found.tags}
    assert not any("onerror" in attrs for _, attrs in found.tags)
    assert "".join(found.text).count(hostile) >= 8


@pytest.mark.parametrize("label", ["$x^$", "$\\frac{$", "漢字", "\U0001f600", "", "a\nb", 'id="q" url(#z)'])
def test_odd_labels_are_drawn(label):
    assert "<svg" in render(pictured(label=label, name=label or "x"), "html")


def test_a_dollar_sign_stays_one():
    comparison = Comparison("pay", "nominal", np.array([1]), np.array([1]), labels=("$5 to $9",))
    assert "$5 to $9" in draw_comparison(comparison, 0).svg


@pytest.mark.parametrize("sizes", [[5], [5, 6, 9], list(range(2, 200)), [3, 1_000_000]])
def test_class_sizes_of_any_spread(sizes):
    picture = draw_classes(example(sizes=sizes))
    assert f"{len(sizes):,} in all" in picture.caption
    assert "<svg" in picture.svg


def test_a_page_without_figures_or_manifest():
    found = Page(render(example(notes=()), "html"))
    assert found.count("figure") == 1
    assert found.count("h2") == 4


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
