"""The web page in a browser: map, what-if, operator actions, and no requests to other hosts."""

import re
import time
import zipfile
from importlib.resources import files

import pytest

pytest.importorskip("fastapi", reason="the extra locations is not installed")

from tests.locations.serving import OPERATOR, make_app, open_anonymizer, running, scatter, sign_up

TIMEOUT = 60
FILES = (
    "index.html",
    "style.css",
    "page.js",
    "map.js",
    "colours.js",
    "histogram.js",
    "timeline.js",
    "icon.svg",
    "world.json",
)


def text_of(name):
    return files("microcell.locations").joinpath("page", name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def service():
    """URL and anonymizer of a service with cells."""
    anonymizer = open_anonymizer(k=5, share=0.9)
    sign_up(anonymizer, scatter(300))
    sign_up(anonymizer, scatter(10, seed=1))
    with running(make_app(anonymizer)) as url:
        yield url, anonymizer
    anonymizer.close()


def wait_for(browser, expression):
    limit = time.monotonic() + TIMEOUT
    while not (actual := browser.run(expression)):
        assert time.monotonic() < limit, (
            f"never true: {expression}\n{browser.run('document.body.innerText')}"
        )
        time.sleep(0.05)
    return actual


def open_page(browser, url, **options):
    browser.open(f"{url}/", **options)
    browser.run("sessionStorage.clear()")
    wait_for(browser, "document.getElementById('state').dataset.state === 'live'")
    wait_for_frames(browser)


def wait_for_frames(browser):
    """Wait until the map is painted; it requests one frame for that."""
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def words(browser, name):
    return browser.run(f"document.getElementById('{name}').innerText")


def colours_on_map(browser, step=7):
    """Count the pixels of each colour on the map."""
    return browser.run(
        "(() => { const map = document.getElementById('map');"
        " const size = { width: map.width, height: map.height };"
        " const copy = Object.assign(document.createElement('canvas'), size);"
        " const pen = copy.getContext('2d', { willReadFrequently: true });"
        " pen.drawImage(map, 0, 0);"
        " const data = pen.getImageData(0, 0, map.width, map.height).data; const found = {};"
        f" for (let i = 0; i < data.length; i += 4 * {step})"
        " { const key = data.slice(i, i + 3).join(); found[key] = (found[key] ?? 0) + 1; }"
        " return found; })()"
    )


def press(browser, key):
    browser.run(
        "document.getElementById('map').dispatchEvent("
        f"new KeyboardEvent('keydown', {{key: '{key}'}}))"
    )
    wait_for_frames(browser)


def enter(browser, token):
    browser.run(
        f"document.getElementById('token').value = '{token}';"
        " document.querySelector('#enter button').click(); true"
    )


def troubles(browser, *, url):
    """Return console messages and requests to other addresses."""
    browser.run("1")
    assert browser.requests
    return browser.problems, [
        address for address in browser.requests if not address.startswith(f"{url}/")
    ]


# -------------------------------------------------------------------------------- the files


def test_the_page_loads_nothing_from_other_hosts():
    for name in FILES:
        addresses = set(re.findall(r"(?:https?:)?//[\w.]+\.\w+", text_of(name)))
        assert addresses <= {"http://www.w3.org"}, name  # an XML namespace, never requested


def test_the_page_has_no_inline_script_or_style():
    page = text_of("index.html")
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
    assert all(re.search(r"\ssrc=", tag) for tag in re.findall(r"<script[^>]*>", page))
    assert "localStorage" not in "".join(text_of(name) for name in FILES)
    assert "innerHTML" not in "".join(text_of(name) for name in FILES)


def test_every_field_has_a_label():
    page = text_of("index.html")
    for tag in re.findall(r"<(?:input|select|canvas)[^>]*>", page):
        name = re.search(r'id="([\w-]+)"', tag)[1]
        assert f'for="{name}"' in page or "aria-label=" in tag, name


def test_the_wheel_ships_the_page(tmp_path):
    wheels = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    root = files("microcell").joinpath("..", "..")
    built = next(
        iter(wheels.WheelBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"]))
    )
    with zipfile.ZipFile(built) as wheel:
        assert {f"microcell/locations/page/{name}" for name in FILES} <= set(wheel.namelist())


# -------------------------------------------------------------------------------- the map


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_map_is_drawn(browser, service, width, dark):
    url, _ = service
    open_page(browser, url, width=width, dark=dark)
    seen = colours_on_map(browser)
    assert len(seen) > 20
    assert max(seen.values()) < 0.8 * sum(seen.values())
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.getElementById('empty').hidden")
    assert troubles(browser, url=url) == ([], [])


def test_the_facts_match_the_service(browser, service):
    url, anonymizer = service
    open_page(browser, url)
    view = anonymizer.overview()
    assert words(browser, "devices") == f"{view.devices:,}"
    assert words(browser, "cells") == f"{len(view.cells):,}"
    assert words(browser, "smallest") == f"{view.smallest_cell} devices or more"
    assert words(browser, "k") == "5"
    assert "k = 5" in words(browser, "promise-k")
    browser.run("document.getElementById('listing').open = true")
    wait_for(browser, f"document.querySelectorAll('#rows tr').length === {len(view.cells)}")


def test_colours_change_with_the_measure(browser, service):
    url, _ = service
    open_page(browser, url)
    seen, legends = [], []
    for measure in ("size", "radius", "density"):
        browser.run(
            "(() => { const chooser = document.getElementById('measure');"
            f" chooser.value = '{measure}';"
            " chooser.dispatchEvent(new Event('change')); })()"
        )
        wait_for_frames(browser)
        seen.append(colours_on_map(browser))
        legends.append(browser.run("document.getElementById('legend').getAttribute('aria-label')"))
    assert seen[1] != seen[2]
    assert len(set(legends)) == 3


def test_cell_details_with_mouse_and_keyboard(browser, service):
    url, anonymizer = service
    open_page(browser, url)
    box = browser.run(
        "(() => { const box = document.getElementById('map').getBoundingClientRect();"
        " return [box.x, box.y, box.width, box.height]; })()"
    )
    middle = {"x": box[0] + box[2] / 2, "y": box[1] + box[3] / 2}
    browser.page.mouse.move(**middle)
    wait_for(browser, "!document.getElementById('cell').hidden")
    assert re.search(r"Cell \d+\s+\d+ to \d+ devices\s+radius", words(browser, "cell"))
    press(browser, "n")
    first = anonymizer.overview().cells[0]
    expected = f"Cell 0\n{first.at_least} to {first.below - 1} devices"
    assert words(browser, "cell").startswith(expected)
    assert "Spain" in words(browser, "cell")
    assert browser.run("document.getElementById('spoken').textContent").startswith("Cell 0, ")
    press(browser, "Escape")
    assert browser.run("document.getElementById('cell').hidden")


def test_the_map_zooms_and_moves(browser, service):
    url, _ = service
    open_page(browser, url)
    start = colours_on_map(browser)
    press(browser, "+")
    nearer = colours_on_map(browser)
    assert nearer != start
    press(browser, "ArrowLeft")
    assert colours_on_map(browser) != nearer
    press(browser, "0")
    assert colours_on_map(browser) == start
    for _ in range(30):
        press(browser, "-")
    assert troubles(browser, url=url) == ([], [])


def test_countries_are_drawn(browser, service):
    """The outlines are a file of the service, and land differs from sea."""
    url, _ = service
    open_page(browser, url)
    wait_for(browser, "performance.getEntriesByName(`${location.origin}/page/world.json`).length")
    for _ in range(40):
        press(browser, "-")
    seen = colours_on_map(browser)
    land, sea = (
        browser.run(f"getComputedStyle(document.body).getPropertyValue('--{name}')")
        for name in ("land", "sea")
    )
    counts = [
        seen.get(",".join(str(int(c[i : i + 2], 16)) for i in (1, 3, 5)), 0)
        for c in (land.strip(), sea.strip())
    ]
    assert min(counts) > 0.05 * sum(seen.values()) / 7
    assert troubles(browser, url=url) == ([], [])


def test_k_over_time_and_alarms(browser, service):
    url, anonymizer = service
    open_page(browser, url, width=400)
    wait_for(browser, "document.querySelectorAll('#timeline svg path').length === 3")
    assert "at least 5 devices shared the whole history" in words(browser, "timeline")
    assert words(browser, "alarms") == "No alarms."
    enter(browser, OPERATOR)
    wait_for(browser, "document.getElementById('status').innerText.includes('k over history')")
    assert f"k over history\n{anonymizer.status().k_over_history}" in words(browser, "status")
    anonymizer.sign_up(41.4, 2.2)
    anonymizer.publish()
    wait_for(browser, "document.getElementById('alarms').innerText.includes('Only 1 device')")
    assert browser.run("document.documentElement.scrollWidth") <= 400
    assert troubles(browser, url=url) == ([], [])


def test_the_token_of_a_demonstration_signs_in(browser, service):
    url, _ = service
    browser.open(f"{url}/#operator={'x' * 20}")
    wait_for(
        browser, "document.getElementById('refused').textContent.includes('token is not valid')"
    )
    assert browser.run("location.hash") == ""


def test_a_stray_device_does_not_shrink_the_city(browser):
    anonymizer = open_anonymizer(k=5, share=0.9)
    sign_up(anonymizer, [*scatter(300), (-30.0, 100.0)])
    with running(make_app(anonymizer)) as url:
        open_page(browser, url)
        city = [colour for colour, count in colours_on_map(browser).items() if count > 50]
        press(browser, "0")
        world = [colour for colour, count in colours_on_map(browser).items() if count > 50]
        assert len(city) > len(world)
        assert troubles(browser, url=url) == ([], [])
    anonymizer.close()


def test_the_page_follows_the_service(browser):
    anonymizer = open_anonymizer(k=20)
    sign_up(anonymizer, scatter(7))
    with running(make_app(anonymizer)) as url:
        open_page(browser, url, width=400)
        assert "shared by at least 20" in words(browser, "empty")
        assert browser.run("document.documentElement.scrollWidth") <= 400
        sign_up(anonymizer, scatter(60, seed=1))
        wait_for(browser, "document.getElementById('empty').hidden")
        assert words(browser, "change") == "+60"
        assert troubles(browser, url=url) == ([], [])
    wait_for(browser, "document.getElementById('state').dataset.state === 'gone'")
    assert "No response from the service since" in words(browser, "state")
    assert words(browser, "devices") == "60"
    anonymizer.close()


# -------------------------------------------------------------------------------- the operator


def test_a_wrong_token_is_rejected(browser, service):
    url, _ = service
    open_page(browser, url)
    enter(browser, "not the operator at all")
    wait_for(
        browser, "document.getElementById('refused').textContent.includes('token is not valid')"
    )
    assert browser.run("document.getElementById('inside').hidden")
    assert browser.run("sessionStorage.length") == 0


def test_the_address_of_a_demonstration_fills_the_page_at_once(browser, service):
    _, anonymizer = service
    with running(make_app(anonymizer, operator="a-token-for-this-test")) as url:
        browser.open(f"{url}/#operator=a-token-for-this-test")
        wait_for(browser, "!document.getElementById('chart').hidden")
        assert f"With k = {2 * 5} there would be" in words(browser, "answer")
        assert "Sign-ups\n31" in words(browser, "status")
        assert troubles(browser, url=url) == ([], [])
        browser.run("sessionStorage.clear()")


def test_what_if(browser, service):
    url, anonymizer = service
    open_page(browser, url, width=400)
    enter(browser, OPERATOR)
    wait_for(browser, "!document.getElementById('inside').hidden")
    assert "Sign-ups\n31" in words(browser, "status")
    browser.run(
        "document.getElementById('k-number').value = '30';"
        " document.getElementById('ask-button').click(); true"
    )
    wait_for(
        browser,
        "!document.getElementById('chart').hidden || document.querySelector('#answer .wrong')",
    )
    expected = anonymizer.what_if(30)
    message = words(browser, "answer")
    assert f"With k = 30 there would be {expected.cells} cells." in message
    assert f"devices would be {expected.mean:.1f} km from the location they use" in message
    assert re.search(r"[\d.]+ times the distance at the current k = 5", message)
    assert browser.run("document.querySelectorAll('#chart svg path').length") == 2
    assert (
        browser.run("document.querySelectorAll('#chart tr').length")
        == 1 + len(expected.quantiles) + 1
    )
    assert browser.run("document.documentElement.scrollWidth") <= 400
    assert troubles(browser, url=url) == ([], [])
    browser.run("document.getElementById('leave').click(); true")
    assert browser.run("sessionStorage.length") == 0
    assert browser.run("document.getElementById('inside').hidden")


def test_the_operator_rebuilds(browser, service):
    url, anonymizer = service
    open_page(browser, url)
    enter(browser, OPERATOR)
    wait_for(browser, "!document.getElementById('inside').hidden")
    browser.run("document.getElementById('rebuild').click(); true")
    wait_for(browser, "document.getElementById('rebuild-note').textContent.startsWith('All cells')")
    assert anonymizer.status().rebuild_requested
    assert troubles(browser, url=url) == ([], [])
