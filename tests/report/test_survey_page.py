"""The page that assigns in the browser: the same cells as in Python, sealed, silent, and usable by everybody."""

import json
from datetime import date, datetime, time, timedelta
from hashlib import sha256

import numpy as np
import pytest
from typer.testing import CliRunner

import microcell as mc
from microcell import encoding, tables
from microcell.cells import PowerCells, ball_cells, lookup_cells
from microcell.cli import app
from microcell.errors import OptionError
from microcell.methods.boxes import make_boxes
from microcell.model import Column, Schema
from microcell.schema import resolve
from microcell.surveys.forms import survey_page
from tests.report.test_browser import CONTRAST, OVERFLOWING

K = 4
GRADES = ("none", "some", "much", "most")
SCHEMA = Schema(
    quasi=[
        Column("age", kind="numeric"),
        Column("income", kind="numeric", weight=2.5),
        Column("small", kind="numeric"),
        Column("account", kind="numeric"),
        Column("born", kind="datetime"),
        Column("seen", kind="datetime", weight=0.3),
        Column("rises", kind="datetime"),
        Column("wait", kind="datetime"),
        Column("grade", kind="ordinal", order=GRADES),
        Column("level", kind="ordinal"),
        Column("rate", kind="ordinal"),
        Column("week", kind="ordinal"),
        Column("town", kind="nominal"),
        Column("sex", kind="nominal"),
        Column("smoker", kind="nominal"),
        Column("zone", kind="nominal", weight=0.7),
        Column("post", kind="code"),
        Column("home", kind="location", latitude="lat", longitude="lon"),
        Column("same", kind="numeric"),
    ]
)


def draw_people(count, seed, *, strange=False):
    """Records with a column of every kind and storage; strange ones have values that others do not."""
    chance = np.random.default_rng(seed)
    towns = ["Ulm", "Köln", "Łódź", "Рига", "a<b>", "</script>", 'quo"te', "😀 town", "\u2028"]
    far, weeks = (30, [0, 3, 7, 21, 99]) if strange else (1, [0, 7, 21])
    return {
        "age": chance.integers(18, 95, count) * (chance.integers(-1, 2, count) if strange else 1),
        "income": chance.lognormal(10, 0.6, count).round(2) * chance.choice([1.0, far], count),
        "small": chance.normal(0, 1e-290, count) * chance.choice([1.0, far], count),
        "account": 2**60 + chance.integers(0, 1000, count) * chance.choice([1, far], count),
        "born": [date(1940, 1, 1) + timedelta(days=int(day)) for day in chance.integers(0, 20_000 * far // 10, count)],
        "seen": [datetime(2020, 1, 1) + timedelta(microseconds=int(t)) for t in chance.integers(0, 10**14, count)],
        "rises": [(datetime.min + timedelta(seconds=int(t))).time() for t in chance.integers(0, 86_400, count)],
        "wait": [timedelta(milliseconds=int(t)) for t in chance.integers(0, 10**7, count)],
        "grade": chance.choice([*GRADES, *(["unheard"] if strange else [])], count),
        "level": chance.choice([1, 2, 3, 5, 8, *([0, 4, 6, 7, 10**6] if strange else [])], count),
        "rate": chance.choice([0.5, 1.0, 0.00001, 2.25, *([1.5, 1e-7, -3.0] if strange else [])], count),
        "week": [date(2024, 1, 1) + timedelta(days=int(day)) for day in chance.choice(weeks, count)],
        "town": chance.choice([*towns, *(["Elsewhere"] if strange else [])], count),
        "sex": chance.choice(["f", "m", *(["x"] if strange else [])], count),
        "smoker": chance.choice([True, False], count),
        "zone": chance.choice([10, 20, 30, *([40] if strange else [])], count),
        "post": [f"{code:05d}" for code in chance.choice([1067, 1069, 10115, 10117, 80331, 80333, 99999], count)]
        if not strange
        else [f"{code}" for code in chance.integers(0, 100_000, count)],
        "lat": chance.uniform(-90, 90, count),
        "lon": chance.uniform(-180, 180, count),
        "same": np.full(count, 7) + (chance.integers(0, 2, count) if strange else 0),
    }  # fmt: skip


def as_text(value):
    """What a person types, or a browser's field gives."""
    if isinstance(value, timedelta):
        return f"{value // timedelta(seconds=1)}.{value.microseconds:06d}"
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    return repr(value.item()) if isinstance(value, np.number) else str(value)


def as_records(people):
    columns = {name: [as_text(value) for value in values] for name, values in people.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.fixture(scope="module")
def made():
    """The cells of each kind, with a power diagram inside macrocells that are inside others."""
    table = tables.read(draw_people(600, 1))
    schema = resolve.resolve(SCHEMA, table)
    fitted = encoding.fit(table, schema).published(K)
    X = encoding.place(table, fitted).matrix
    flat = mc.pcl(X, 20).cells
    labels = flat.assign(X)
    halves = PowerCells(centroids=X[[0, 5, 9]] * 0.9, sizes=[200] * 3, k=K, costs=[0.5, 0.0, 0.25])
    inner = PowerCells(centroids=X[[1, 3]] * 0.8, sizes=[100] * 2, k=K, costs=[0.0, 1.0])
    parts = [
        PowerCells(centroids=X[i : i + 40 : 10] * 0.7, sizes=[50] * 4, k=K, costs=[0, 1, 0, 2])
        for i in (10, 60)
    ]
    nested = PowerCells.within(halves, [PowerCells.within(inner, parts), *parts])
    names = {
        "age": [int(cell) for cell in range(len(flat))],
        "town": [f"t{cell}" for cell in range(len(flat))],
    }
    blank = {"encoding": fitted}
    return {
        "power": PowerCells(**{**vars_of(flat), **blank, "k": K, "representatives": names}),
        "nested": PowerCells(**{**vars_of(nested), **blank}),
        "balls": ball_cells(X, mc.partition(X, 20, method="mdav").labels, K, encoding=fitted),
        "boxes": make_boxes(X, fitted, K, 0.7, 0.01),
        "lookup": lookup_cells(X, labels, K, encoding=fitted),
    }


def vars_of(cells):
    return {
        name: getattr(cells, name)
        for name in ("centroids", "sizes", "k", "costs", "group", "chooser")
    }


@pytest.fixture(scope="module")
def addresses(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for kind, cells in made.items():
        if kind != "lookup":
            (folder / f"{kind}.html").write_text(
                survey_page(cells, title="A survey"), encoding="utf-8"
            )
    return {kind: (folder / f"{kind}.html").as_uri() for kind in made}


FILE = "Microcell.load(document.getElementById('cells').textContent)"


@pytest.mark.parametrize("strange", [False, True], ids=["known", "strange"])
@pytest.mark.parametrize("kind", ["power", "nested", "balls", "boxes"])
def test_the_page_assigns_as_python_does(browser, addresses, made, kind, strange):
    cells, people = made[kind], draw_people(2000, 2 if strange else 3, strange=strange)
    placed = encoding.place(tables.read(people), cells.encoding)
    browser.open(addresses[kind])
    found = browser.run(
        f"(() => {{ const file = {FILE}; return {json.dumps(as_records(people))}.map(record => "
        "Microcell.answer(file, record)); })()"
    )
    points = np.array([answer["point"] for answer in found])
    exact = np.ones(points.shape[1], dtype=bool)
    home = next(column for column in cells.encoding.columns if column.kind == "location")
    exact[home.first : home.last] = False
    np.testing.assert_array_equal(points[:, exact], placed.matrix[:, exact])
    np.testing.assert_allclose(points[:, ~exact], placed.matrix[:, ~exact], rtol=0, atol=1e-14)
    np.testing.assert_array_equal([answer["cell"] for answer in found], cells.assign(placed.matrix))
    assert len(set(cells.assign(placed.matrix).tolist())) > 3
    for name, count in placed.strange.items():
        assert sum(name in answer["strange"] for answer in found) == count, name


def test_the_columns_are_of_every_kind_and_reach_the_ends_of_numbers(made):
    columns = {column.name: column for column in made["power"].encoding.columns}
    assert {column.kind for column in columns.values()} == {
        "numeric",
        "datetime",
        "ordinal",
        "nominal",
        "code",
        "location",
    }
    assert columns["small"].exponent > 0
    assert columns["account"].origin > 2**53
    assert {column.storage for column in columns.values()} >= {
        "integer", "float", "boolean", "text", "date", "datetime", "duration", "time"
    }  # fmt: skip
    assert columns["same"].constant
    kinds = {made["boxes"].column_of(split).kind for split in range(made["boxes"].splits)}
    assert len(kinds) >= 4


def test_rare_names_are_placed_as_python_places_them(browser, tmp_path):
    people = draw_people(600, 5)
    people["town"][:2], people["post"][:2], people["level"][:2] = "Rare", ["80332", "5"], 4
    table = tables.read(people)
    fitted = encoding.fit(table, resolve.resolve(SCHEMA, table)).published(K)
    X = encoding.place(table, fitted).matrix
    cells = PowerCells(centroids=X[::20], sizes=[20] * 30, k=K, costs=np.zeros(30), encoding=fitted)
    (tmp_path / "page.html").write_text(survey_page(cells), encoding="utf-8")
    assert "Rare" not in (tmp_path / "page.html").read_text(encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    found = browser.run(
        f"{json.dumps(as_records(people))}.map(record => Microcell.answer({FILE}, record).cell)"
    )
    assert found == cells.assign(X).tolist()


def test_points_that_tie_go_to_the_lowest_cell(browser, tmp_path):
    fitted = encoding.fit(
        tables.read({"x": [0.0, 2.0]}), Schema(quasi=[Column("x", kind="numeric")])
    ).published(1)
    cells = PowerCells(
        centroids=[[2.0], [-1.0], [1.0]], sizes=[1] * 3, k=1, costs=[1.0, 0.0, 0.0], encoding=fitted
    )
    (tmp_path / "page.html").write_text(survey_page(cells), encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    found = browser.run(f"['1', '2', '3'].map(x => Microcell.answer({FILE}, {{ x }}).cell)")
    assert found == cells.assign([[0.0], [1.0], [2.0]]).tolist() == [1, 2, 0]


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    """A survey as people get it: the design, and the address of its page."""
    made = mc.surveys.design_survey(
        mc.sample_survey(2000), mc.sample_schema(), 5, participation=0.75, failure=1e-3
    )
    path = tmp_path_factory.mktemp("design") / "page.html"
    path.write_text(survey_page(made.cells, title="Health <2030>"), encoding="utf-8")
    return made, path


FILL = """
(values => {
  for (const [name, value] of Object.entries(values)) document.querySelector(`[name="${name}"]`).value = value;
  document.getElementById("form").requestSubmit();
})
"""
ME = {
    "sex": "name female",
    "age": "44",
    "bmi": "24.5",
    "latitude": "41.4",
    "longitude": "2.1",
    "postal_code": "08724",
}


def test_a_person_fills_it_in_and_copies_the_cell(browser, design):
    made, path = design
    browser.open(path.as_uri(), width=390)
    assert browser.run("document.title") == "Health <2030>"
    assert "The seal is intact" in browser.run("document.getElementById('seal').textContent")
    assert made.cells.digest in browser.run("document.getElementById('seal').textContent")
    browser.run(f"{FILL}({json.dumps(ME)})")
    record = {
        **ME,
        **{name: float(ME[name]) for name in ("bmi", "latitude", "longitude")},
        "age": 44,
        "sex": "female",
    }
    expected = mc.surveys.answer_survey(made.cells, record)
    assert browser.run("document.getElementById('cell').textContent") == str(expected.cell)
    handed = json.loads(browser.run("document.getElementById('copy').value"))
    assert handed == {"cell": expected.cell, "design": made.cells.digest, **expected.representative}
    assert browser.run("document.activeElement.id") == "heading"
    assert browser.run("document.getElementById('strange').textContent") == ""
    for name, value in (("sex", "other"), ("postal_code", "nowhere"), ("age", "300")):
        browser.run(f"{FILL}({json.dumps({**ME, name: value})})")
        told = browser.run("document.getElementById('strange').textContent")
        assert f": {name}. The nearest cell was taken." in told
    browser.run("document.querySelector('[type=reset]').click()")
    assert browser.run("document.getElementById('result').hidden")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("age", "", "An answer is missing here."),
        ("age", "forty", "This must be a number, with a point before decimals."),
        ("bmi", "1e999", "This must be a number, with a point before decimals."),
        ("latitude", "91", "A latitude is within -90 and 90 degrees."),
        ("longitude", "-181", "A longitude is within -180 and 180 degrees."),
        ("sex", "", "An answer is missing here."),
    ],
)
def test_answers_that_are_none_are_told_where_they_stand(browser, design, name, value, words):
    browser.open(design[1].as_uri())
    browser.run(f"{FILL}({json.dumps({**ME, name: value})})")
    assert browser.run("document.getElementById('result').hidden")
    at = "latitude" if name == "longitude" else name  # of a place, the first field
    field = f"document.querySelector('[name=\"{at}\"]')"
    assert (
        browser.run(f"document.getElementById({field}.id.replace('q', 'e')).textContent") == words
    )
    assert browser.run(f"{field}.getAttribute('aria-invalid')") == "true"
    assert browser.run(f"document.activeElement === {field}")


def test_nothing_is_fetched_and_nothing_can_be_sent(browser, design):
    browser.open(design[1].as_uri())
    browser.run(f"{FILL}({json.dumps(ME)})")
    assert browser.requests == [design[1].as_uri()]
    assert browser.problems == []
    browser.run(
        "window.sent = null; fetch('https://example.org').then(() => sent = true, () => sent = false); 0"
    )
    browser.run(
        "new Image().src = 'https://example.org/x.png'; navigator.sendBeacon?.('https://example.org', 'x'); 0"
    )
    assert browser.run("sent") is not True
    refusals = [text for text in browser.problems if "Content Security Policy" in text]
    assert len(refusals) >= 2


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"sizes": [', '"sizes": [1000, ', "seal does not fit"),
        ('"failure": 0.001', '"failure": 0.0001', "seal does not fit"),
        ('"names": ["female"', '"names": ["Female"', "seal does not fit"),
    ],
)
def test_an_altered_page_asks_nothing(browser, design, tmp_path, before, after, words):
    text = design[1].read_text(encoding="utf-8")
    assert before in text
    (tmp_path / "page.html").write_text(text.replace(before, after, 1), encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    assert words in browser.run("document.getElementById('seal').textContent")
    assert browser.run("document.getElementById('form').hidden")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda file: file["survey"]["cell_failures"].__setitem__(0, 0.9),
            "more often than is promised",
        ),
        (
            lambda file: file["survey"]["cell_failures"].__setitem__(0, 1e-9),
            "does not follow from its candidates",
        ),
        (lambda file: file["cells"]["sizes"].__setitem__(0, 2), "A cell has fewer than"),
        (lambda file: file.__setitem__("count", 2), "number of cells is not as stated"),
        (len, ""),
    ],
    ids=["broken", "untrue", "small", "fewer", "whole"],
)
def test_a_new_seal_does_not_hide_untrue_statements(browser, design, change, words):
    file = json.loads(design[0].cells.to_json())
    change(file)
    browser.open(design[1].as_uri())
    found = browser.run(f"Microcell.check({{ ...{json.dumps(file)}, sealed: true }}).join(' ')")
    assert (words in found) if words else (found == "")


def test_the_digest_is_sha256_of_the_canonical_text(browser, made, addresses):
    for text in ("", "abc", "a" * 55, "b" * 56, "c" * 64, "d" * 1000):
        browser.open(addresses["power"])
        assert (
            browser.run(f"Microcell.digest({json.dumps(text)})")
            == sha256(text.encode()).hexdigest()
        )
    for kind in ("power", "nested", "balls", "boxes"):
        browser.open(addresses[kind])
        assert browser.run(f"{FILE}.found") == made[kind].digest
        assert browser.run(f"{FILE}.sealed")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_phones_and_stands_out(browser, design, width, dark):
    browser.open(design[1].as_uri(), width=width, dark=dark)
    browser.run(f"{FILL}({json.dumps({**ME, 'postal_code': 'x' * 90})})")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run(OVERFLOWING) == []
    assert browser.run(CONTRAST.replace("h1, h2", "h1, label, button, h2")) >= 4.5
    heights = "[...document.querySelectorAll('input, select, button')].map(it => it.getBoundingClientRect().height)"
    assert min(browser.run(heights)) >= 44


def test_every_field_has_a_label_and_the_keyboard_reaches_all(browser, made, addresses):
    browser.open(addresses["power"])
    assert browser.run(
        "[...document.querySelectorAll('input, select, textarea')].every(it => it.labels.length === 1)"
    )
    count = browser.run("document.querySelectorAll('#fields input, #fields select').length")
    assert count == sum(len(column.parts) for column in made["power"].encoding.columns)
    seen = []
    for _ in range(3 * count):  # dates have several stops
        browser.page.keyboard.press("Tab")
        seen.append(browser.run("document.activeElement.id || document.activeElement.type"))
    assert {f"q{i}" for i in range(count)} <= set(seen)
    options = "[...document.querySelector('[name=town]').options].map(it => it.textContent)"
    assert "</script>" in browser.run(options)
    types = browser.run(
        "Object.fromEntries([...document.querySelectorAll('#fields input')].map(it => [it.name, it.type]))"
    )
    assert (types["born"], types["seen"], types["rises"]) == ("date", "datetime-local", "time")


def test_dates_can_be_categories(browser, tmp_path):
    """They are shown as dates, and chosen to the last microsecond."""
    days = np.array(
        ["1969-12-31T10:00:00.123456", "2001-05-05", "2024-02-29T01:02"], dtype="M8[us]"
    )
    table = tables.read({"visit": np.repeat(days, [5, 6, 7])})
    fitted = encoding.fit(table, Schema(quasi=[Column("visit", kind="nominal")])).published(K)
    X = encoding.place(table, fitted).matrix
    cells = PowerCells(
        centroids=X[[0, 5, 11]], sizes=[5, 6, 7], k=K, costs=[0.0] * 3, encoding=fitted
    )
    (tmp_path / "page.html").write_text(survey_page(cells), encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    shown = browser.run(
        "[...document.querySelector('[name=visit]').options].map(it => it.textContent)"
    )
    assert shown == [
        "Choose …",
        "1969-12-31 10:00:00.123",
        "2001-05-05 00:00",
        "2024-02-29 01:02",
        "Something else",
    ]
    for cell in range(3):
        browser.run(f"document.querySelector('[name=visit]').selectedIndex = {cell + 1}")
        browser.run("document.getElementById('form').requestSubmit()")
        assert browser.run("document.getElementById('cell').textContent") == str(cell)


def test_a_design_with_uneven_participation_is_checked_too(browser, tmp_path):
    people = mc.sample_survey(800)
    people["chance"] = np.random.default_rng(0).choice([0.4, 0.7, 1.0], 800)
    made = mc.surveys.design_survey(
        people, mc.sample_schema(), 4, participation="chance", failure=1e-2, trust="none"
    )
    (tmp_path / "page.html").write_text(survey_page(made.cells), encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    assert "computed it again" in browser.run("document.getElementById('seal').textContent")
    assert not browser.run("document.getElementById('form').hidden")
    file = json.loads(made.cells.to_json())
    file["survey"]["participation"]["cells"][0][0][0] = 0.2
    assert "does not follow" in browser.run(
        f"Microcell.check({{ ...{json.dumps(file)}, sealed: true }}).join(' ')"
    )


def test_cells_that_cannot_be_handed_out_are_refused(made):
    with pytest.raises(OptionError, match="hold the records"):
        survey_page(made["lookup"])
    with pytest.raises(OptionError, match="made of points"):
        survey_page(PowerCells(centroids=[[0.0]], sizes=[3], k=3, costs=[0.0]))
    with pytest.raises(OptionError, match="not str"):
        survey_page("cells.json")


def test_the_command_writes_it(design, tmp_path):
    design[0].cells.save(tmp_path / "cells.json")
    words = [
        "survey",
        "page",
        str(tmp_path / "cells.json"),
        "--title",
        "Mine",
        "-o",
        str(tmp_path / "page.html"),
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == survey_page(
        design[0].cells, title="Mine"
    )
    assert (
        CliRunner()
        .invoke(app, ["survey", "page", str(tmp_path / "no.json"), "-o", "x.html"])
        .exit_code
        != 0
    )
