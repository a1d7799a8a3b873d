"""The studio in a browser: from a file to what is handed over, by mouse and by keyboard."""

import re
from importlib.resources import files

import pytest

from tests.studio.conftest import PEOPLE, open_table

axe = pytest.importorskip("axe_playwright_python", reason="axe is not installed")
SOURCE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
TIMEOUT = 120_000
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def violations(page):
    """Return what axe finds on the page, by rule, with the elements concerned."""
    page.evaluate(SOURCE)
    result = page.evaluate(f"axe.run({{runOnly: {RULES}}})")
    return {item["id"]: [node["target"] for node in item["nodes"]] for item in result["violations"]}


def check(page):
    """Check accessibility, and that nothing is wider than a phone."""
    assert violations(page) == {}
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert violations(page) == {}
    page.set_viewport_size({"width": 1200, "height": 900})


@pytest.fixture
def page(browser, studio):
    """A tab that came in with a token, and has no problems at the end."""
    browser.open("about:blank", width=1200)
    tab = browser.page
    tab.set_default_timeout(TIMEOUT)
    tab.context.add_cookies(
        [
            {
                "name": f"microcell_studio_{studio.url.rpartition(':')[2]}",
                "value": studio.access.session,
                "url": studio.url,
            }
        ]
    )
    tab.goto(studio.url)
    yield tab
    # Chromium mentions every refusal; the page shows it.
    assert [text for text in browser.problems if "status of 422" not in text] == []
    assert all(address.startswith((studio.url, "about:")) for address in browser.requests)


def follow(page, name):
    page.click(f"nav >> text={name}")
    page.wait_for_selector(f"h1:text-is('{name}')")


def test_from_a_file_to_what_is_handed_over(page, tmp_path):
    file = tmp_path / "people.csv"
    file.write_text(PEOPLE)
    check(page)
    page.set_input_files("#file", file)
    page.click("button:text-is('Open')")
    page.wait_for_url("**/columns")
    page.wait_for_selector("#exposure b")
    assert page.inner_text("#exposure b") == "60 of 60"
    check(page)
    # Every change is seen at once, saved, and can be undone with the keyboard.
    page.focus("select[aria-label='Role of town']")
    page.select_option("select[aria-label='Role of town']", "drop")
    page.wait_for_selector("#exposure b:has-text('32 of 60')")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Role of town"
    page.focus("h1 >> xpath=..")
    page.keyboard.press("Control+z")
    page.wait_for_selector("#exposure b:has-text('60 of 60')")
    for name in ("Read", "Prepare", "Explore", "Run", "History"):
        follow(page, name)
        check(page)
    follow(page, "Goal")
    page.fill("#k", "3")
    page.press("#k", "Tab")
    page.wait_for_selector("#announcer:text-is('Saved')")
    check(page)
    follow(page, "Run")
    page.click("text=Make the release")
    page.wait_for_url("**/result")
    assert "3-anonymous" in page.inner_text(".sentence")
    order = page.evaluate("[...document.querySelectorAll('h2')].map(item => item.textContent)")
    assert order[:2] == ["Findings", "Guarantee"]
    check(page)
    page.reload()
    follow(page, "Hand over")
    check(page)
    with page.expect_download() as download:
        page.click("a:text-is('people_k3.csv')")
    rows = download.value.path().read_text().splitlines()
    assert len(rows) == 61
    assert not any("Person" in row for row in rows)


def test_a_change_that_is_not_possible_is_explained(page):
    page.click("text=Open the survey")
    page.wait_for_url("**/columns")
    follow(page, "Prepare")
    page.click("summary:has-text('tsh')")
    page.fill("details:has-text('tsh') [name=round]", "many")
    page.click("details:has-text('tsh') button")
    page.wait_for_selector("[role=alert]:has-text('must be a number')")


def test_exploring_shows_progress_and_can_be_cancelled(page):
    page.click("text=Open the survey")
    page.wait_for_url("**/columns")
    follow(page, "Explore")
    page.click("button:text-is('Explore')")
    page.wait_for_selector("text=so far")
    page.click("button:text-is('Cancel')")
    page.wait_for_selector("text=Cancelled")


def test_the_keyboard_suffices_to_choose_k(page, studio):
    with studio.client() as http:
        project = open_table(http, PEOPLE)
        job = http.post(f"{project}/jobs", json={"kind": "explore"}).json()
        with http.stream("GET", f"/api/jobs/{job['id']}/events") as answer:
            answer.read()
    page.goto(f"{studio.url}{project.removeprefix('/api')}/explore")
    check(page)
    page.focus("g[data-k='10']")
    page.keyboard.press("Enter")
    page.wait_for_selector("th:has-text('10 (now)')")


def test_a_project_is_deleted_after_a_second_click(page):
    page.click("text=Open the hospital visits")
    page.wait_for_url("**/columns")
    page.goto(re.match(r"https?://[^/]+/", page.url)[0])
    before = page.locator(".projects li").count()
    button = page.locator("[data-delete]").first
    button.click()
    assert page.locator(".projects li").count() == before
    button.click()
    page.wait_for_selector(f".projects li >> nth={before - 2}")
    page.locator(f".projects li >> nth={before - 1}").wait_for(state="detached")
