"""Paper form: people who follow it get the code of their box, and it fits on two pages."""

import re
from datetime import date, timedelta
from io import BytesIO

import numpy as np
import pytest
from pypdf import PdfReader
from typer.testing import CliRunner

import microcell as mc
from microcell import encoding, tables
from microcell.cells import BoxCells, PowerCells
from microcell.cells.boxes import Side
from microcell.cli import app
from microcell.errors import OptionError
from microcell.methods.boxes import make_boxes
from microcell.model import Column, EncodedColumn, Encoding, Schema
from microcell.schema import resolve
from microcell.surveys.forms import form, list_questions
from microcell.surveys.words import describe_boxes, describe_side
from tests.raising import raises

SCHEMA = Schema(
    quasi=[
        Column("age", kind="numeric"),
        Column("income", kind="numeric"),
        Column("born", kind="datetime"),
        Column("grade", kind="ordinal", order=("none", "some", "much", "most")),
        Column("level", kind="ordinal"),
        Column("town", kind="nominal"),
        Column("sex", kind="nominal"),
        Column("post", kind="code", weight=3.0),
    ]
)
CODES = [
    "0105",
    "0106",
    "1011",
    "1012",
    "2",
    "20",
    "201",
    "48143",
    "48145",
    "4815",
    "80331",
    "803",
    "99",
]


def draw_people(count, seed, *, unknown=False):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(0, 100, count),
        "income": rng.lognormal(10, 0.6, count).round(1),
        "born": [
            date(1940, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 25_000, count)
        ],
        "grade": rng.choice(["none", "some", "much", "most"], count),
        "level": rng.choice([1, 2, 3, 5, 8, *([-1, 4, 6, 99] if unknown else [])], count),
        "town": rng.choice(["Ulm", "Bonn", "Kiel", "Jena", *(["Rome"] if unknown else [])], count),
        "sex": rng.choice(["f", "m", *(["x"] if unknown else [])], count),
        "post": rng.choice(CODES, count)
        if not unknown
        else [str(code)[: rng.integers(1, 6)] for code in rng.integers(0, 10**5, count)],
    }


@pytest.fixture(scope="module")
def boxes():
    table = tables.read(draw_people(6000, 1))
    fitted = encoding.fit(table, resolve.resolve(SCHEMA, table)).published(5)
    X = encoding.place(table, fitted).matrix
    return make_boxes(X, fitted, 5, 0.7, 1e-3)


def number(text):
    return float(text.replace(",", ""))


def fits(words, value):
    """Return whether a person would tick these words for the value; None for "anything else"."""
    if words in ("anything else", "any"):
        return None
    if isinstance(value, date):
        if words.startswith("before "):
            return value.isoformat() < words.removeprefix("before ")
        first, last = words.removesuffix(" or later"), "9999"
        if " to " in words:
            first, last = words.split(" to ")
        elif not words.endswith(" or later"):
            last = first
        return first <= value.isoformat() <= last
    if words.startswith("starts with "):
        return any(
            value.startswith(start) for start in words.removeprefix("starts with ").split(", ")
        )
    if isinstance(value, str):
        names = words.split(", ")
        return True if value in names else None if names[-1] == "or anything else" else False
    if words.startswith(("over ", "up to ")):
        ends = dict(part.rsplit(" ", 1) for part in words.split(", "))
        return float(ends.get("over", "-inf")) < value <= float(ends.get("up to", "inf"))
    if words.startswith("under "):
        return value < number(words.removeprefix("under "))
    if words.endswith(" and over"):
        return value >= number(words.removesuffix(" and over"))
    if " to under " in words:
        low, high = map(number, words.split(" to under "))
        return low <= value < high
    if " to " in words:
        low, high = map(number, words.split(" to "))
        return low <= value <= high
    return value == number(words)


def follow(questions, record):
    """Return the code of a person who ticks the line that fits, or else "anything else"."""
    at, steps = questions[0], 0
    while True:
        steps += 1
        holds = [fits(choice.words, record[at.name]) for choice in at.choices]
        ticked = holds.index(True) if True in holds else holds.index(None)
        if not at.choices[0].words.startswith("starts") and True in holds:
            assert holds.count(True) == 1
        choice = at.choices[ticked]
        assert (choice.question is None) != (choice.code is None)
        if choice.code is not None:
            return choice.code, steps
        assert choice.question > at.number
        at = questions[choice.question - 1]


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_people_get_the_code_of_their_box(boxes, unknown):
    people = draw_people(1500, 7, unknown=unknown)
    labels = boxes.assign(encoding.place(tables.read(people), boxes.encoding).matrix)
    questions = list_questions(boxes)
    calls = {question.name for question in questions}
    assert calls >= {"age", "income", "born", "post", "town"}
    for row in range(1500):
        record = {name: values[row] for name, values in people.items()}
        record = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in record.items()
        }
        code, _ = follow(questions, record)
        assert code == labels[row], record


def test_every_code_appears_once_and_every_question_is_reached(boxes):
    choices = [choice for question in list_questions(boxes) for choice in question.choices]
    assert sorted(choice.code for choice in choices if choice.code is not None) == list(
        range(len(boxes))
    )
    reached = sorted(choice.question for choice in choices if choice.question is not None)
    assert reached == list(range(2, len(list_questions(boxes)) + 1))


def test_box_descriptions(boxes):
    described = describe_boxes(boxes)
    assert [box.number for box in described] == list(range(len(boxes)))
    assert all(set(box.columns) == set(described[0].columns) for box in described)
    people = draw_people(200, 9)
    labels = boxes.assign(encoding.place(tables.read(people), boxes.encoding).matrix)
    for row, label in enumerate(labels):
        for name in ("age", "born", "income"):
            value = people[name][row]
            assert fits(
                described[label].columns[name], value if name == "born" else float(value)
            ) in (True, None)


def test_side_descriptions():
    age = EncodedColumn(
        "age", "numeric", ("age",), "integer", origin=0, centre=np.zeros(1), scale=np.ones(1)
    )
    assert describe_side(age, Side()) == "any"
    assert describe_side(age, Side(high=34.5)) == "under 35"
    assert describe_side(age, Side(34.5, 49.5)) == "35 to 49"
    assert describe_side(age, Side(34.5, 35.5)) == "35"
    assert describe_side(age, Side(12499.5)) == "12,500 and over"
    real = EncodedColumn(
        "x", "numeric", ("x",), "float", origin=0.0, centre=np.zeros(1), scale=np.ones(1)
    )
    assert describe_side(real, Side(0.1, 1.25)) == "0.1 to under 1.25"
    born = EncodedColumn("b", "datetime", ("b",), "date", "D", centre=np.zeros(1), scale=np.ones(1))
    assert describe_side(born, Side(high=-0.5)) == "before 1970-01-01"
    assert describe_side(born, Side(-0.5, 364.5)) == "1970-01-01 to 1970-12-31"
    assert describe_side(born, Side(364.5)) == "1971-01-01 or later"
    seen = EncodedColumn(
        "s", "datetime", ("s",), "datetime", "us", centre=np.zeros(1), scale=np.ones(1)
    )
    assert (
        describe_side(seen, Side(-0.5, 36e8 - 0.5)) == "1970-01-01 00:00 to before 1970-01-01 01:00"
    )
    clock = EncodedColumn(
        "t", "datetime", ("t",), "time", "ns", centre=np.zeros(1), scale=np.ones(1)
    )
    assert describe_side(clock, Side(low=9 * 36e11 - 0.5)) == "09:00 or later"
    wait = EncodedColumn(
        "w", "datetime", ("w",), "duration", "ms", centre=np.zeros(1), scale=np.ones(1)
    )
    assert describe_side(wait, Side(high=1499.5)) == "under 1.5 seconds"
    code = EncodedColumn(
        "c",
        "code",
        ("c",),
        "text",
        names=("101", "20", "201", "43", "431"),
        places=np.arange(5.0),
        centre=np.zeros(1),
    )
    assert describe_side(code, Side(low=0.5, high=3.5)) == "starting with 2, 4, but not with 431"
    assert describe_side(code, Side(high=1.5)) == "not starting with 201, 4"
    town = EncodedColumn(
        "t", "nominal", ("t",), "text", names=("a", "b", "c", None), centre=np.zeros(4)
    )
    assert describe_side(town, Side(names=frozenset({0, 2}))) == "a, c"
    assert describe_side(town, Side(names=frozenset({0, 2}), others=True)) == "anything but b"
    assert describe_side(town, Side(names=frozenset({0}), others=True)) == "a, or anything else"


def test_too_many_boxes(boxes):
    with raises(OptionError, "option.out_of_range", option="max_boxes"):
        form(boxes)
    assert form(boxes, max_boxes=len(boxes))
    for invalid in (0, True, "many"):
        with raises(OptionError, "option.out_of_range", option="max_boxes"):
            form(boxes, max_boxes=invalid)
    with raises(OptionError, "option.wrong_type", option="ask"):
        form(boxes, max_boxes=1000, ask="How are you?")


def test_cells_that_are_not_boxes():
    cells = PowerCells(centroids=[[0.0], [4.0]], sizes=[3, 5], k=3, costs=[0.0, 8.0])
    with raises(OptionError, "option.unsupported", option="cells") as caught:
        form(cells)
    assert str(caught.value) == (
        "A paper form needs box-shaped cells, not 'power' cells: rerun 'microcell survey design' "
        "with --trust none."
    )
    with raises(OptionError, "option.unsupported", option="cells"):
        describe_boxes("cells.json")


def test_names_are_escaped_and_there_is_no_script():
    town = EncodedColumn(
        "<b>&",
        "nominal",
        ("t",),
        "text",
        names=("<script>", "b", "c"),
        centre=np.zeros(3),
        scale=np.ones(3),
    )
    cells = BoxCells(
        centroids=np.zeros((2, 3)), sizes=[3, 3], k=3, encoding=Encoding((town,), 3),
        columns=[0], bounds=[0.0], categories=[(0,)], lower=[1], upper=[2],
    )  # fmt: skip
    page = form(cells, title="<i>", ask=["<u>?"])
    assert not re.search(r"<(script|i>|u>|b>&)", page)
    assert "&lt;script&gt;" in page
    assert "http" not in page.replace("http-equiv", "")


def test_form_with_a_single_box():
    age = EncodedColumn("age", "numeric", ("age",), "integer", centre=np.zeros(1), scale=np.ones(1))
    empty = {"columns": [], "bounds": [], "categories": [], "lower": [], "upper": []}
    cells = BoxCells(centroids=[[0.0]], sizes=[30], k=3, encoding=Encoding((age,), 3), **empty)
    assert "Everyone has the same code" in form(cells)
    assert describe_boxes(cells)[0].columns == {}


def test_form_command(tmp_path):
    folder, run = tmp_path, CliRunner().invoke
    people, schema = mc.sample_survey(2000), mc.sample_schema()
    design = mc.surveys.design(
        people, schema, 5, participation=0.75, failure=1e-3, trust="none", max_boxes=20
    )
    design.cells.save(folder / "boxes.json")
    words = [
        "survey",
        "form",
        str(folder / "boxes.json"),
        "-o",
        str(folder / "form.html"),
        "--ask",
        "TSH?",
        "--ask",
        "Well?",
    ]
    result = run(app, words)
    assert result.exit_code == 0, result.output
    page = (folder / "form.html").read_text(encoding="utf-8")
    assert page.index("Cut here") < page.index("TSH?") < page.index("Well?")
    assert (
        "either nobody or at least 5 people take part, except with probability 0.001 at most"
        in page
    )
    assert design.cells.digest[:12] in page
    assert run(app, [*words, "--max-boxes", "3"]).exit_code != 0
    assert (
        run(
            app, ["survey", "form", str(folder / "form.html"), "-o", str(folder / "x.html")]
        ).exit_code
        != 0
    )
    assert not (folder / "x.html").exists()


def test_sixty_boxes_fit_on_two_a4_pages(browser, tmp_path):
    table = tables.read(draw_people(20_000, 1))
    fitted = encoding.fit(table, resolve.resolve(SCHEMA, table)).published(5)
    cells = make_boxes(encoding.place(table, fitted).matrix, fitted, 5, 0.7, 1e-3, most=60)
    path = tmp_path / "form.html"
    path.write_text(
        form(cells, title="Health", ask=["How are you?", "Do you smoke?"]), encoding="utf-8"
    )
    browser.open(path.as_uri(), width=390)
    assert browser.problems == []
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("document.scripts.length") == 0
    printed = PdfReader(BytesIO(browser.print()))
    assert len(printed.pages) <= 2
    for sheet in printed.pages:
        assert [float(side) for side in sheet.mediabox[2:]] == pytest.approx(
            [595.3, 841.9], abs=1.5
        )
    text = "\n".join(sheet.extract_text() for sheet in printed.pages)
    assert {int(code) for code in re.findall(r"code\s+(\d+)", text)} >= set(range(60))
    assert "How are you?" in printed.pages[-1].extract_text()
