"""Survey page: the same cells as in Python, tamper-evident, offline and accessible."""

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
from microcell.surveys import forms
from tests.raising import raises
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


def draw_people(count, seed, *, unknown=False):
    """Return records with a column of every kind; ``unknown`` adds values that others lack."""
    rng = np.random.default_rng(seed)
    towns = ["Ulm", "Köln", "Łódź", "Рига", "a<b>", "</script>", 'quo"te', "😀 town", "\u2028"]
    far, weeks = (30, [0, 3, 7, 21, 99]) if unknown else (1, [0, 7, 21])
    return {
        "age": rng.integers(18, 95, count) * (rng.integers(-1, 2, count) if unknown else 1),
        "income": rng.lognormal(10, 0.6, count).round(2) * rng.choice([1.0, far], count),
        "small": rng.normal(0, 1e-290, count) * rng.choice([1.0, far], count),
        "account": 2**60 + rng.integers(0, 1000, count) * rng.choice([1, far], count),
        "born": [
            date(1940, 1, 1) + timedelta(days=int(day))
            for day in rng.integers(0, 20_000 * far // 10, count)
        ],
        "seen": [
            datetime(2020, 1, 1) + timedelta(microseconds=int(t))
            for t in rng.integers(0, 10**14, count)
        ],
        "rises": [
            (datetime.min + timedelta(seconds=int(t))).time()
            for t in rng.integers(0, 86_400, count)
        ],
        "wait": [timedelta(milliseconds=int(t)) for t in rng.integers(0, 10**7, count)],
        "grade": rng.choice([*GRADES, *(["unheard"] if unknown else [])], count),
        "level": rng.choice([1, 2, 3, 5, 8, *([0, 4, 6, 7, 10**6] if unknown else [])], count),
        "rate": rng.choice(
            [0.5, 1.0, 0.00001, 2.25, *([1.5, 1e-7, -3.0] if unknown else [])], count
        ),
        "week": [date(2024, 1, 1) + timedelta(days=int(day)) for day in rng.choice(weeks, count)],
        "town": rng.choice([*towns, *(["Elsewhere"] if unknown else [])], count),
        "sex": rng.choice(["f", "m", *(["x"] if unknown else [])], count),
        "smoker": rng.choice([True, False], count),
        "zone": rng.choice([10, 20, 30, *([40] if unknown else [])], count),
        "post": [
            f"{code:05d}"
            for code in rng.choice([1067, 1069, 10115, 10117, 80331, 80333, 99999], count)
        ]
        if not unknown
        else [f"{code}" for code in rng.integers(0, 100_000, count)],
        "lat": rng.uniform(-90, 90, count),
        "lon": rng.uniform(-180, 180, count),
        "same": np.full(count, 7) + (rng.integers(0, 2, count) if unknown else 0),
    }  # fmt: skip


def as_text(value):
    """Return what a person types or a form field contains."""
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
def cells_by_kind():
    """Return cells of each kind, including nested macrocells."""
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
def addresses(cells_by_kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for kind, cells in cells_by_kind.items():
        if kind != "lookup":
            (folder / f"{kind}.html").write_text(
                forms.page(cells, title="A survey"), encoding="utf-8"
            )
    return {kind: (folder / f"{kind}.html").as_uri() for kind in cells_by_kind}


FILE = "Microcell.load(document.getElementById('cells').textContent)"


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("kind", ["power", "nested", "balls", "boxes"])
def test_page_assigns_like_python(browser, addresses, cells_by_kind, kind, unknown):
    cells, people = cells_by_kind[kind], draw_people(2000, 2 if unknown else 3, unknown=unknown)
    placed = encoding.place(tables.read(people), cells.encoding)
    browser.open(addresses[kind])
    result = browser.run(
        f"(() => {{ const file = {FILE}; return {json.dumps(as_records(people))}.map(record => "
        "Microcell.answer(file, record)); })()"
    )
    points = np.array([answer["point"] for answer in result])
    exact = np.ones(points.shape[1], dtype=bool)
    home = next(column for column in cells.encoding.columns if column.kind == "location")
    exact[home.first : home.last] = False
    np.testing.assert_array_equal(points[:, exact], placed.matrix[:, exact])
    np.testing.assert_allclose(points[:, ~exact], placed.matrix[:, ~exact], rtol=0, atol=1e-14)
    np.testing.assert_array_equal(
        [answer["cell"] for answer in result], cells.assign(placed.matrix)
    )
    assert len(set(cells.assign(placed.matrix).tolist())) > 3
    for name, count in placed.unknown.items():
        assert sum(name in answer["unfamiliar"] for answer in result) == count, name


def test_columns_cover_every_kind_and_extreme_numbers(cells_by_kind):
    columns = {column.name: column for column in cells_by_kind["power"].encoding.columns}
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
    kinds = {
        cells_by_kind["boxes"].column_of(split).kind
        for split in range(cells_by_kind["boxes"].splits)
    }
    assert len(kinds) >= 4


def test_rare_categories_are_placed_like_in_python(browser, tmp_path):
    people = draw_people(600, 5)
    people["town"][:2], people["post"][:2], people["level"][:2] = "Rare", ["80332", "5"], 4
    table = tables.read(people)
    fitted = encoding.fit(table, resolve.resolve(SCHEMA, table)).published(K)
    X = encoding.place(table, fitted).matrix
    cells = PowerCells(centroids=X[::20], sizes=[20] * 30, k=K, costs=np.zeros(30), encoding=fitted)
    (tmp_path / "page.html").write_text(forms.page(cells), encoding="utf-8")
    assert "Rare" not in (tmp_path / "page.html").read_text(encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    result = browser.run(
        f"{json.dumps(as_records(people))}.map(record => Microcell.answer({FILE}, record).cell)"
    )
    assert result == cells.assign(X).tolist()


def test_ties_go_to_the_lowest_cell(browser, tmp_path):
    fitted = encoding.fit(
        tables.read({"x": [0.0, 2.0]}), Schema(quasi=[Column("x", kind="numeric")])
    ).published(1)
    cells = PowerCells(
        centroids=[[2.0], [-1.0], [1.0]], sizes=[1] * 3, k=1, costs=[1.0, 0.0, 0.0], encoding=fitted
    )
    (tmp_path / "page.html").write_text(forms.page(cells), encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    result = browser.run(f"['1', '2', '3'].map(x => Microcell.answer({FILE}, {{ x }}).cell)")
    assert result == cells.assign([[0.0], [1.0], [2.0]]).tolist() == [1, 2, 0]


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    """Return a design and the path of its page."""
    design = mc.surveys.design(
        mc.sample_survey(2000), mc.sample_schema(), 5, participation=0.75, failure=1e-3
    )
    path = tmp_path_factory.mktemp("design") / "page.html"
    path.write_text(forms.page(design.cells, title="Health <2030>"), encoding="utf-8")
    return design, path


FILL = """
(values => {
  for (const [name, value] of Object.entries(values))
    document.querySelector(`[name="${name}"]`).value = value;
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


def test_filling_in_the_page(browser, design):
    survey, path = design
    browser.open(path.as_uri(), width=390)
    assert browser.run("document.title") == "Health <2030>"
    assert "The cells on this page match their digest" in browser.run(
        "document.getElementById('integrity').textContent"
    )
    assert survey.cells.digest in browser.run("document.getElementById('integrity').textContent")
    browser.run(f"{FILL}({json.dumps(ME)})")
    record = {
        **ME,
        **{name: float(ME[name]) for name in ("bmi", "latitude", "longitude")},
        "age": 44,
        "sex": "female",
    }
    expected = mc.surveys.answer(survey.cells, record)
    assert browser.run("document.getElementById('cell').textContent") == str(expected.cell)
    submitted = json.loads(browser.run("document.getElementById('copy').value"))
    assert submitted == {
        "cell": expected.cell,
        "design": survey.cells.digest,
        **expected.representative,
    }
    assert browser.run("document.activeElement.id") == "heading"
    assert browser.run("document.getElementById('unfamiliar').textContent") == ""
    for name, value in (("sex", "other"), ("postal_code", "nowhere"), ("age", "300")):
        browser.run(f"{FILL}({json.dumps({**ME, name: value})})")
        message = browser.run("document.getElementById('unfamiliar').textContent")
        assert f"Your answer for {name} is unusual or not known to the survey." in message
    browser.run("document.querySelector('[type=reset]').click()")
    assert browser.run("document.getElementById('result').hidden")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("age", "", "Please answer this question."),
        ("age", "forty", "Enter a number, with a point before decimals."),
        ("bmi", "1e999", "Enter a number, with a point before decimals."),
        ("latitude", "91", "Enter a latitude between -90 and 90 degrees."),
        ("longitude", "-181", "Enter a longitude between -180 and 180 degrees."),
        ("sex", "", "Please answer this question."),
    ],
)
def test_invalid_answers_are_marked_at_the_field(browser, design, name, value, message):
    browser.open(design[1].as_uri())
    browser.run(f"{FILL}({json.dumps({**ME, name: value})})")
    assert browser.run("document.getElementById('result').hidden")
    at = (
        "latitude" if name == "longitude" else name
    )  # Errors of a location are shown at its first field.
    field = f"document.querySelector('[name=\"{at}\"]')"
    assert (
        browser.run(f"document.getElementById({field}.id.replace('q', 'e')).textContent") == message
    )
    assert browser.run(f"{field}.getAttribute('aria-invalid')") == "true"
    assert browser.run(f"document.activeElement === {field}")


def test_page_neither_fetches_nor_sends_anything(browser, design):
    browser.open(design[1].as_uri())
    browser.run(f"{FILL}({json.dumps(ME)})")
    assert browser.requests == [design[1].as_uri()]
    assert browser.problems == []
    browser.run(
        "window.sent = null;"
        "fetch('https://example.org').then(() => sent = true, () => sent = false); 0"
    )
    browser.run(
        "new Image().src = 'https://example.org/x.png';"
        "navigator.sendBeacon?.('https://example.org', 'x'); 0"
    )
    assert browser.run("sent") is not True
    blocked = [text for text in browser.problems if "Content Security Policy" in text]
    assert len(blocked) >= 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"sizes": [', '"sizes": [1000, '),
        ('"failure": 0.001', '"failure": 0.0001'),
        ('"names": ["female"', '"names": ["Female"'),
    ],
)
def test_an_altered_page_asks_nothing(browser, design, tmp_path, before, after):
    text = design[1].read_text(encoding="utf-8")
    assert before in text
    (tmp_path / "page.html").write_text(text.replace(before, after, 1), encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    assert "was altered or damaged" in browser.run(
        "document.getElementById('integrity').textContent"
    )
    assert browser.run("document.getElementById('form').hidden")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda file: file["survey"]["cell_failures"].__setitem__(0, 0.9),
            "higher than promised",
        ),
        (
            lambda file: file["survey"]["cell_failures"].__setitem__(0, 1e-9),
            "of a cell is wrong",
        ),
        (lambda file: file["cells"]["sizes"].__setitem__(0, 2), "A cell has fewer than"),
        (lambda file: file.__setitem__("count", 2), "number of cells is not as stated"),
        (len, ""),
    ],
    ids=["above limit", "wrong", "small", "fewer", "genuine"],
)
def test_a_valid_digest_does_not_hide_false_statements(browser, design, change, message):
    file = json.loads(design[0].cells.to_json())
    change(file)
    browser.open(design[1].as_uri())
    result = browser.run(f"Microcell.check({{ ...{json.dumps(file)}, intact: true }}).join(' ')")
    assert (message in result) if message else (result == "")


def test_digest_is_sha256_of_the_canonical_text(browser, cells_by_kind, addresses):
    for text in ("", "abc", "a" * 55, "b" * 56, "c" * 64, "d" * 1000):
        browser.open(addresses["power"])
        assert (
            browser.run(f"Microcell.digest({json.dumps(text)})")
            == sha256(text.encode()).hexdigest()
        )
    for kind in ("power", "nested", "balls", "boxes"):
        browser.open(addresses[kind])
        assert browser.run(f"{FILE}.digest") == cells_by_kind[kind].digest
        assert browser.run(f"{FILE}.intact")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_page_fits_phones_and_has_enough_contrast(browser, design, width, dark):
    browser.open(design[1].as_uri(), width=width, dark=dark)
    browser.run(f"{FILL}({json.dumps({**ME, 'postal_code': 'x' * 90})})")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run(OVERFLOWING) == []
    assert browser.run(CONTRAST.replace("h1, h2", "h1, label, button, h2")) >= 4.5
    heights = (
        "[...document.querySelectorAll('input, select, button')]"
        ".map(it => it.getBoundingClientRect().height)"
    )
    assert min(browser.run(heights)) >= 44


def test_every_field_has_a_label_and_is_reached_by_keyboard(browser, cells_by_kind, addresses):
    browser.open(addresses["power"])
    assert browser.run(
        "[...document.querySelectorAll('input, select, textarea')]"
        ".every(it => it.labels.length === 1)"
    )
    count = browser.run("document.querySelectorAll('#fields input, #fields select').length")
    assert count == sum(len(column.parts) for column in cells_by_kind["power"].encoding.columns)
    seen = []
    for _ in range(3 * count):  # Date fields have several tab stops.
        browser.page.keyboard.press("Tab")
        seen.append(browser.run("document.activeElement.id || document.activeElement.type"))
    assert {f"q{i}" for i in range(count)} <= set(seen)
    options = "[...document.querySelector('[name=town]').options].map(it => it.textContent)"
    assert "</script>" in browser.run(options)
    types = browser.run(
        "Object.fromEntries([...document.querySelectorAll('#fields input')]"
        ".map(it => [it.name, it.type]))"
    )
    assert (types["born"], types["seen"], types["rises"]) == ("date", "datetime-local", "time")


def test_dates_as_categories(browser, tmp_path):
    """Dates are shown as dates and chosen to the microsecond."""
    days = np.array(
        ["1969-12-31T10:00:00.123456", "2001-05-05", "2024-02-29T01:02"], dtype="M8[us]"
    )
    table = tables.read({"visit": np.repeat(days, [5, 6, 7])})
    fitted = encoding.fit(table, Schema(quasi=[Column("visit", kind="nominal")])).published(K)
    X = encoding.place(table, fitted).matrix
    cells = PowerCells(
        centroids=X[[0, 5, 11]], sizes=[5, 6, 7], k=K, costs=[0.0] * 3, encoding=fitted
    )
    (tmp_path / "page.html").write_text(forms.page(cells), encoding="utf-8")
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


def test_page_checks_uneven_participation(browser, tmp_path):
    people = mc.sample_survey(800)
    people["probability"] = np.random.default_rng(0).choice([0.4, 0.7, 1.0], 800)
    design = mc.surveys.design(
        people, mc.sample_schema(), 4, participation="probability", failure=1e-2, trust="none"
    )
    (tmp_path / "page.html").write_text(forms.page(design.cells), encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    assert "recomputed" in browser.run("document.getElementById('integrity').textContent")
    assert not browser.run("document.getElementById('form').hidden")
    file = json.loads(design.cells.to_json())
    cells = file["survey"]["participation"]["cells"]
    # A cell that could fall short; with k certain participants, the others do not matter.
    uncertain = next(groups for groups in cells if dict(groups).get(1.0, 0) < 4)
    uncertain[0][0] = 0.2
    assert "of a cell is wrong" in browser.run(
        f"Microcell.check({{ ...{json.dumps(file)}, intact: true }}).join(' ')"
    )


def test_cells_that_cannot_be_handed_out(cells_by_kind):
    with raises(OptionError, "option.unsupported", option="cells"):
        forms.page(cells_by_kind["lookup"])
    with raises(OptionError, "option.unsupported", option="cells"):
        forms.page(PowerCells(centroids=[[0.0]], sizes=[3], k=3, costs=[0.0]))
    with raises(OptionError, "option.wrong_type", option="cells"):
        forms.page("cells.json")


def test_page_command(design, tmp_path):
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
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == forms.page(
        design[0].cells, title="Mine"
    )
    assert (
        CliRunner()
        .invoke(app, ["survey", "page", str(tmp_path / "no.json"), "-o", "x.html"])
        .exit_code
        != 0
    )
