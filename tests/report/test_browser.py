"""The HTML report in a browser: self-contained, no overflow, enough contrast, printable."""

from io import BytesIO

import numpy as np
import pytest
from pypdf import PdfReader

from microcell import anonymize, sample_survey
from microcell.model import Schema
from microcell.report import render
from tests.report.examples import MANIFEST, correlations, full

LONG = "an_extraordinarily_long_name_of_a_column_" * 4
LIMITS = {"k": 5, "information_loss": 0.05}
PAGES = {
    "internal": lambda: render(full(), "html", manifest=MANIFEST, title="A survey", require=LIMITS),
    "public": lambda: render(
        full(), "html", manifest=MANIFEST, title="A survey", require=LIMITS, audience="public"
    ),
    "long": lambda: render(
        full(keys=(LONG, "age"), name=LONG, column=LONG, notes=(LONG,)),
        "html",
        manifest={
            **MANIFEST,
            "method": {"used": LONG},
            "columns": {LONG: {"role": "quasi", "kind": "numeric"}},
        },
        title=LONG,
        require={f"information_loss.{LONG}": 0.1},
    ),
    "wide": lambda: render(
        wide(),
        "html",
        manifest=MANIFEST,
        picture=b'<svg xmlns="http://www.w3.org/2000/svg" width="2000" height="9"/>',
    ),
}
FIGURES = {"internal": 18, "public": 5, "long": 18, "wide": 19}

WIDTHS = (390, 1280)
OVERFLOWING = """
[...document.querySelectorAll("body *")].filter(node => {
  if (node.closest("svg") && node.tagName !== "svg") return false;
  const head = node.closest("thead");
  if (head && getComputedStyle(head).position === "absolute") return false;
  return node.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5;
}).map(node => node.outerHTML.slice(0, 80))
"""
CONTRAST = """
(() => {
  const parts = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(part => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const light = colour => {
    const [r, g, b] = parts(colour);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = node => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!colour.startsWith("rgba") || !colour.endsWith(", 0)")) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const words = "h1, h2, h3, h4, p, dt, dd, th, td, figcaption, code, summary, small, .sign";
  const ratios = [...document.querySelectorAll(words)].map(node => {
    const [one, two] = [light(getComputedStyle(node).color), light(behind(node))];
    return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
  });
  return Math.min(...ratios);
})()
"""


GREEN = """
[...document.querySelectorAll("#guarantee ~ *, #guarantee ~ * *, #verdict ~ *, #verdict ~ * *")]
  .flatMap(node => [getComputedStyle(node).color, getComputedStyle(node).borderLeftColor])
  .filter(colour => colour === "rgb(23, 99, 63)").length
"""


def careless_audit():
    """The survey with many columns published unchanged, lost categories and small groups."""
    people = sample_survey(300)
    rng = np.random.default_rng(0)
    extra = {f"note{i}": rng.integers(0, 10**6, 300) for i in range(7)}
    town = np.array([f"town {min(int(x), 40)}" for x in rng.exponential(8, 300)])
    table = {**people, **extra, "town": town}
    quasi = ["sex", "age", "bmi", "town"]
    kept = [*extra, "latitude", "longitude", "postal_code"]
    schema = Schema(
        identifiers=["name"], quasi=quasi, confidential=["anti_tpo_grade", "tsh"], keep=kept
    )
    audit = anonymize(table, schema, k=5, method="mdav").audit()
    assert len(audit.findings) >= 10
    return audit


def wide():
    audit = full()
    return type(audit)(
        **{**vars(audit), "correlations": correlations([f"column {index}" for index in range(30)])}
    )


@pytest.fixture(scope="module", params=PAGES)
def page(request, tmp_path_factory):
    """Name and address of a page."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(PAGES[request.param](), encoding="utf-8")
    return request.param, path.as_uri()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_loads_nothing_and_does_not_overflow(browser, page, width):
    name, address = page
    browser.open(address, width=width)
    assert [url for url in browser.requests if not url.startswith("data:")] == [address]
    assert browser.problems == []
    drawn = (
        "[...document.querySelectorAll('figure svg, figure img')]"
        ".filter(it => it.getBoundingClientRect().width > 150)"
    )
    assert (
        browser.run(f"{drawn}.length")
        == browser.run("document.querySelectorAll('figure').length")
        == FIGURES[name]
    )
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run(OVERFLOWING) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_enough_contrast(browser, page, dark):
    """At least 4.5 (WCAG 2, level AA)."""
    browser.open(page[1], dark=dark)
    assert [url for url in browser.requests if not url.startswith("data:")] == [page[1]]
    assert browser.problems == []
    assert browser.run(CONTRAST) >= 4.5
    dark_paper = (
        browser.run("getComputedStyle(document.body).backgroundColor") != "rgb(251, 251, 250)"
    )
    assert dark_paper == dark


@pytest.mark.parametrize("width", WIDTHS)
def test_the_appendix_begins_within_five_screens(browser, tmp_path, blank_figures, width):
    """Of a release with ten findings, on a laptop and on a telephone."""
    path = tmp_path / "report.html"
    path.write_text(render(careless_audit(), "html", manifest=MANIFEST), encoding="utf-8")
    browser.open(path.as_uri(), width=width)
    top = "document.querySelector('#appendix').getBoundingClientRect().top + scrollY"
    assert browser.run(top) <= 5 * browser.run("innerHeight")
    places = "[...document.querySelectorAll('h2')].map(heading => heading.id)"
    assert browser.run(places)[:3] == ["guarantee", "findings", "verdict"]
    assert browser.run(GREEN) == 0
    pictures = "document.querySelectorAll('main section:has(~ section #appendix) figure').length"
    assert browser.run(pictures) == 0


def test_risk_and_utility_are_side_by_side_only_on_wide_screens(browser, page):
    tops = "[...document.querySelectorAll('.side')].map(side => side.getBoundingClientRect().top)"
    for width, rows in ((1280, 1), (390, 2)):
        browser.open(page[1], width=width)
        assert len(set(browser.run(tops))) == rows


def test_the_page_prints_on_a4_with_all_details_open(browser, page):
    browser.open(page[1], dark=True)
    assert browser.run("document.querySelectorAll('details:not([open])').length") >= 2
    printed = PdfReader(BytesIO(browser.print()))
    for sheet in printed.pages:
        assert [float(side) for side in sheet.mediabox[2:]] == pytest.approx(
            [595.3, 841.9], abs=1.5
        )
    text = "".join("".join(sheet.extract_text().split()) for sheet in printed.pages)
    assert "l_diversity.tsh" in text
    assert "mean_change.age" in text
    assert ("Forinternaluse" in text) == (page[0] != "public")
