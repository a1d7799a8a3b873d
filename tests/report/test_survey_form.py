"""The form for paper: whoever reads it gets the code that the boxes give, and it prints on a page or two."""

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
from microcell.surveys.forms import describe_boxes, questions_of, side_in_words, survey_form

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


def draw_people(count, seed, *, strange=False):
    chance = np.random.default_rng(seed)
    return {
        "age": chance.integers(0, 100, count),
        "income": chance.lognormal(10, 0.6, count).round(1),
        "born": [
            date(1940, 1, 1) + timedelta(days=int(day)) for day in chance.integers(0, 25_000, count)
        ],
        "grade": chance.choice(["none", "some", "much", "most"], count),
        "level": chance.choice([1, 2, 3, 5, 8, *([-1, 4, 6, 99] if strange else [])], count),
        "town": chance.choice(
            ["Ulm", "Bonn", "Kiel", "Jena", *(["Rome"] if strange else [])], count
        ),
        "sex": chance.choice(["f", "m", *(["x"] if strange else [])], count),
        "post": chance.choice(CODES, count)
        if not strange
        else [str(code)[: chance.integers(1, 6)] for code in chance.integers(0, 10**5, count)],
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
    """Whether the words hold for the value, as a person would read them; None for "anything else"."""
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
    if words.startswith("begins with "):
        return any(
            value.startswith(start) for start in words.removeprefix("begins with ").split(", ")
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
    """The code that a person gets who ticks what fits, or else what says "anything else"."""
    at, steps = questions[0], 0
    while True:
        steps += 1
        holds = [fits(choice.words, record[at.name]) for choice in at.choices]
        ticked = holds.index(True) if True in holds else holds.index(None)
        if not at.choices[0].words.startswith("begins") and True in holds:
            assert holds.count(True) == 1
        choice = at.choices[ticked]
        assert (choice.question is None) != (choice.code is None)
        if choice.code is not None:
            return choice.code, steps
        assert choice.question > at.number
        at = questions[choice.question - 1]


@pytest.mark.parametrize("strange", [False, True], ids=["known", "strange"])
def test_a_person_gets_the_code_that_the_boxes_give(boxes, strange):
    people = draw_people(1500, 7, strange=strange)
    labels = boxes.assign(encoding.place(tables.read(people), boxes.encoding).matrix)
    questions = questions_of(boxes)
    asked = {question.name for question in questions}
    assert asked >= {"age", "income", "born", "post", "town"}
    for row in range(1500):
        record = {name: values[row] for name, values in people.items()}
        record = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in record.items()
        }
        code, _ = follow(questions, record)
        assert code == labels[row], record


def test_every_code_is_on_the_form_once_and_every_question_is_reached(boxes):
    choices = [choice for question in questions_of(boxes) for choice in question.choices]
    assert sorted(choice.code for choice in choices if choice.code is not None) == list(
        range(len(boxes))
    )
    led = sorted(choice.question for choice in choices if choice.question is not None)
    assert led == list(range(2, len(questions_of(boxes)) + 1))


def test_boxes_in_words(boxes):
    described = describe_boxes(boxes)
    assert [box.number for box in described] == list(range(len(boxes)))
    assert all(set(box.holds) == set(described[0].holds) for box in described)
    people = draw_people(200, 9)
    labels = boxes.assign(encoding.place(tables.read(people), boxes.encoding).matrix)
    for row, label in enumerate(labels):
        for name in ("age", "born", "income"):
            value = people[name][row]
            assert fits(
                described[label].holds[name], value if name == "born" else float(value)
            ) in (True, None)


def test_words_of_sides():
    age = EncodedColumn(
        "age", "numeric", ("age",), "integer", origin=0, centre=np.zeros(1), scale=np.ones(1)
    )
    assert side_in_words(age, Side()) == "any"
    assert side_in_words(age, Side(high=34.5)) == "under 35"
    assert side_in_words(age, Side(34.5, 49.5)) == "35 to 49"
    assert side_in_words(age, Side(34.5, 35.5)) == "35"
    assert side_in_words(age, Side(12499.5)) == "12,500 and over"
    real = EncodedColumn(
        "x", "numeric", ("x",), "float", origin=0.0, centre=np.zeros(1), scale=np.ones(1)
    )
    assert side_in_words(real, Side(0.1, 1.25)) == "0.1 to under 1.25"
    born = EncodedColumn("b", "datetime", ("b",), "date", "D", centre=np.zeros(1), scale=np.ones(1))
    assert side_in_words(born, Side(high=-0.5)) == "before 1970-01-01"
    assert side_in_words(born, Side(-0.5, 364.5)) == "1970-01-01 to 1970-12-31"
    assert side_in_words(born, Side(364.5)) == "1971-01-01 or later"
    seen = EncodedColumn(
        "s", "datetime", ("s",), "datetime", "us", centre=np.zeros(1), scale=np.ones(1)
    )
    assert (
        side_in_words(seen, Side(-0.5, 36e8 - 0.5)) == "1970-01-01 00:00 to before 1970-01-01 01:00"
    )
    clock = EncodedColumn(
        "t", "datetime", ("t",), "time", "ns", centre=np.zeros(1), scale=np.ones(1)
    )
    assert side_in_words(clock, Side(low=9 * 36e11 - 0.5)) == "09:00 or later"
    wait = EncodedColumn(
        "w", "datetime", ("w",), "duration", "ms", centre=np.zeros(1), scale=np.ones(1)
    )
    assert side_in_words(wait, Side(high=1499.5)) == "under 1.5 seconds"
    code = EncodedColumn(
        "c",
        "code",
        ("c",),
        "text",
        names=("101", "20", "201", "43", "431"),
        places=np.arange(5.0),
        centre=np.zeros(1),
    )
    assert side_in_words(code, Side(low=0.5, high=3.5)) == "beginning with 2, 4, but not with 431"
    assert side_in_words(code, Side(high=1.5)) == "not beginning with 201, 4"
    town = EncodedColumn(
        "t", "nominal", ("t",), "text", names=("a", "b", "c", None), centre=np.zeros(4)
    )
    assert side_in_words(town, Side(names=frozenset({0, 2}))) == "a, c"
    assert side_in_words(town, Side(names=frozenset({0, 2}), others=True)) == "anything but b"
    assert side_in_words(town, Side(names=frozenset({0}), others=True)) == "a, or anything else"


def test_more_boxes_than_allowed_are_refused(boxes):
    with pytest.raises(OptionError, match=rf"{len(boxes)} boxes, more than the 60"):
        survey_form(boxes)
    assert survey_form(boxes, most=len(boxes))
    for most in (0, True, "many"):
        with pytest.raises(OptionError):
            survey_form(boxes, most=most)
    with pytest.raises(OptionError, match="list of questions"):
        survey_form(boxes, most=1000, ask="Are you well?")


def test_cells_that_are_no_boxes_are_refused():
    cells = PowerCells(centroids=[[0.0], [4.0]], sizes=[3, 5], k=3, costs=[0.0, 8.0])
    with pytest.raises(OptionError, match="'power'"):
        survey_form(cells)
    with pytest.raises(OptionError, match="str"):
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
    page = survey_form(cells, title="<i>", ask=["<u>?"])
    assert not re.search(r"<(script|i>|u>|b>&)", page)
    assert "&lt;script&gt;" in page
    assert "http" not in page.replace("http-equiv", "")


def test_one_box_is_a_form_without_questions():
    age = EncodedColumn("age", "numeric", ("age",), "integer", centre=np.zeros(1), scale=np.ones(1))
    empty = {"columns": [], "bounds": [], "categories": [], "lower": [], "upper": []}
    cells = BoxCells(centroids=[[0.0]], sizes=[30], k=3, encoding=Encoding((age,), 3), **empty)
    assert "Everyone has the code 0" in survey_form(cells)
    assert describe_boxes(cells)[0].holds == {}


def test_the_command_writes_it(tmp_path):
    folder, run = tmp_path, CliRunner().invoke
    people, schema = mc.sample_survey(2000), mc.sample_schema()
    design = mc.surveys.design_survey(
        people, schema, 5, participation=0.75, failure=1e-3, trust="none", boxes=20
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
    assert "by 5 people or more, but for a probability of at most 0.001" in page
    assert design.cells.digest[:12] in page
    assert run(app, [*words, "--most", "3"]).exit_code != 0
    assert (
        run(
            app, ["survey", "form", str(folder / "form.html"), "-o", str(folder / "x.html")]
        ).exit_code
        != 0
    )
    assert not (folder / "x.html").exists()


def test_sixty_boxes_print_on_two_pages_of_a4(browser, tmp_path):
    table = tables.read(draw_people(20_000, 1))
    fitted = encoding.fit(table, resolve.resolve(SCHEMA, table)).published(5)
    cells = make_boxes(encoding.place(table, fitted).matrix, fitted, 5, 0.7, 1e-3, most=60)
    path = tmp_path / "form.html"
    path.write_text(
        survey_form(cells, title="Health", ask=["Are you well?", "Do you smoke?"]), encoding="utf-8"
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
    assert "Are you well?" in printed.pages[-1].extract_text()
