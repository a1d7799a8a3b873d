"""The organizer's questions on the page and the form, translated, saved or sent."""

import json
import re
from importlib.resources import files

import numpy as np
import pytest

import microcell as mc
from microcell.errors import OptionError, SchemaError, TableError
from microcell.surveys.forms import list_questions
from microcell.surveys.questionnaire import read_questionnaire

TEMPLATES = files("microcell.surveys") / "templates"
SCHEMA = mc.Schema(
    quasi=["age", mc.Column("home", kind="location", latitude="lat", longitude="lon")]
)
CONTENT = {
    "title": "Gesundheit <2030>",
    "language": "de",
    "intro": "Danke!",
    "labels": {"age": "Alter", "home": "Wohnort"},
    "texts": {"Find my cell": "Zelle finden", "{n} seconds": "{n} Sekunden"},
    "question": [
        {"name": "mood", "ask": "Wie geht es?", "type": "choice", "choices": ["gut", "schlecht"]},
        {"name": "tsh", "ask": "TSH", "type": "number", "first": 0, "last": 20},
        {"name": "pain", "ask": "Schmerz", "type": "scale", "first": 0, "last": 10, "low": "kein"},
        {"name": "note", "ask": "Sonst etwas?", "required": False},
    ],
    "map": {"places": {"Vic": [41.9, 2.2]}, "lines": [[[41.8, 2.0], [42.0, 2.4]]]},
}
ANSWERS = ["gut", "2.5", "7", ""]


@pytest.fixture(scope="module")
def design():
    rng = np.random.default_rng(0)
    people = {
        "age": rng.integers(18, 90, 200),
        "lat": rng.normal(41.9, 0.1, 200).round(4),
        "lon": rng.normal(2.2, 0.1, 200).round(4),
    }
    return mc.surveys.design(people, SCHEMA, 3, 0.75, 0.01, method="mdav")


def test_all_texts_can_be_translated():
    """Every text that a template or a script shows is in the list."""
    listed = set(mc.surveys.texts())
    used = set()
    for name in ("survey_page.html", "survey_page.js", "survey_form.html"):
        used |= set(re.findall(r"say\([\"']([^\"']+)[\"']", (TEMPLATES / name).read_text()))
    for name in ("words.py", "forms.py"):
        source = (TEMPLATES.parent / name).read_text()
        for call in re.findall(r"say\(([^=]*?)(?:, \w+=|\))", source):
            used |= set(re.findall(r'"([^"]+)"', call))
    for name in ("survey_cells.js", "survey_page.js"):
        text = (TEMPLATES / name).read_text()
        used |= set(re.findall(r'InputError\("([^"]+)"\)', text))
        used |= set(re.findall(r'problems\.push\("([^"]+)"\)', text))
    assert used | {"any"} == listed


@pytest.mark.parametrize(
    "change",
    [
        {"question": [{"name": "mood"}]},
        {"question": [{"name": "cell", "ask": "?"}]},
        {"question": [{"name": "a", "ask": "?"}, {"name": "a", "ask": "?"}]},
        {"question": [{"name": "a", "ask": "?", "type": "choice"}]},
        {"question": [{"name": "a", "ask": "?", "type": "scale", "first": 1}]},
        {"question": [{"name": "a", "ask": "?", "type": "number", "first": 2, "last": 1}]},
        {"question": [{"name": "a", "ask": "?", "type": "essay"}]},
        {"question": [{"name": "a", "ask": "?", "hint": "x"}]},
        {"texts": {"Find my sell": "x"}},
        {"texts": {"{n} seconds": "{m} Sekunden"}},
        {"send": "http://example.org"},
        {"send": "https://example.org; script-src *"},
        {"map": {"places": {"Vic": [2.2]}}},
        {"colour": "red"},
    ],
)
def test_invalid_questionnaires(change):
    with pytest.raises(OptionError) as caught:
        read_questionnaire({**CONTENT, **change})
    assert caught.value.details["option"] == "questionnaire"


def test_names_must_fit_the_cells(design, tmp_path):
    for change in ({"labels": {"size": "x"}}, {"question": [{"name": "age", "ask": "?"}]}):
        with pytest.raises(SchemaError):
            mc.surveys.page(
                design.cells, questionnaire=read_questionnaire({**CONTENT, "labels": {}, **change})
            )
    (tmp_path / "q.toml").write_text("title = ")
    with pytest.raises(TableError):
        mc.surveys.load_questionnaire(tmp_path / "q.toml")


def test_only_the_stated_address_is_allowed(design):
    page = mc.surveys.page(design.cells)
    assert "connect-src" not in page
    address = "https://survey.example.org/answers"
    page = mc.surveys.page(design.cells, questionnaire=read_questionnaire({"send": address}))
    assert f"connect-src {address};" in page


def test_the_form_asks_the_questions():
    people = {"age": np.arange(200) % 71 + 18}
    design = mc.surveys.design(people, mc.Schema(quasi=["age"]), 3, 0.75, 0.01, trust="none")
    content = {**CONTENT, "labels": {"age": "Alter"}, "texts": {"My code": "Mein Code"}}
    form = mc.surveys.form(design.cells, questionnaire=read_questionnaire(content))
    for text in ("Gesundheit &lt;2030&gt;", 'lang="de"', "Alter", "Mein Code", "schlecht", "kein"):
        assert text in form, text
    assert form.count('class="tick"') >= 2 + 11


GERMAN = {
    "under {high}": "unter {high}",
    "{low} and over": "ab {low}",
    "{low} to {high}": "{low} bis {high}",
    "anything else": "etwas anderes",
    "or anything else": "oder etwas anderes",
    "anything but {names}": "alles außer {names}",
}


def test_the_ranges_and_categories_of_the_form_speak_its_language():
    rng = np.random.default_rng(0)
    people = {"age": rng.integers(18, 90, 300), "sex": rng.choice(["f", "m", "x"], 300)}
    design = mc.surveys.design(
        people, mc.Schema(quasi=["age", "sex"]), 3, 0.75, 0.01, trust="none", max_boxes=12
    )
    names = {"f": "weiblich", "m": "männlich", "x": "divers"}
    content = {"language": "de", "values": {"sex": names}, "texts": GERMAN}
    plain = list_questions(design.cells)
    german = list_questions(design.cells, read_questionnaire(content))
    english = [choice.words for question in plain for choice in question.choices]
    words = [choice.words for question in german for choice in question.choices]
    assert not set(english) & set(words)
    assert not any(text in " ".join(words) for text in ("under", "over", " to ", "anything"))
    assert {"sex", "age"} == {question.name for question in german}
    assert any("weiblich" in text for text in words)
    assert any(re.fullmatch(r"unter \d+", text) for text in words)
    unknown = read_questionnaire({"values": {"gender": names}})
    with pytest.raises(SchemaError):
        mc.surveys.form(design.cells, questionnaire=unknown)
    with pytest.raises(OptionError):
        read_questionnaire({"values": {"sex": "f"}})


FILL = """answers => {
  const set = (id, value) => {
    const field = document.getElementById(id);
    field.value = value;
  };
  ['44', '41.91', '2.21'].forEach((value, i) => set(`q${i}`, value));
  answers.forEach((value, i) => set(`a${i}`, value));
  document.getElementById('form').requestSubmit();
  return document.getElementById('result').hidden;
}"""


@pytest.fixture
def page(design, tmp_path):
    path = tmp_path / "page.html"
    questionnaire = read_questionnaire(CONTENT)
    path.write_text(mc.surveys.page(design.cells, questionnaire=questionnaire), encoding="utf-8")
    return path


@pytest.mark.slow
def test_answers_are_saved_with_the_cell(browser, design, page, tmp_path):
    browser.open(page.as_uri())
    assert browser.run("document.title") == "Gesundheit <2030>"
    assert browser.run("document.querySelector('[type=submit]').textContent") == "Zelle finden"
    assert browser.run("document.querySelector('label').textContent") == "Alter"
    assert browser.page.evaluate(FILL, ANSWERS) is False
    with browser.page.expect_download() as download:
        browser.page.click("#save-button")
    download.value.save_as(tmp_path / "answer.json")
    saved = json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))
    expected = mc.surveys.answer(design.cells, {"age": 44, "lat": 41.91, "lon": 2.21})
    assert saved["cell"] == expected.cell
    assert [saved[each["name"]] for each in CONTENT["question"]] == ["gut", 2.5, 7, None]
    assert "44" not in json.dumps({**saved, **dict.fromkeys(("age", "lat", "lon", "design"))})
    assert browser.problems == []
    table = mc.surveys.gather([tmp_path / "answer.json"] * 3)
    found = mc.surveys.status(design.cells, table)
    assert (found.answers, found.rejected) == (3, ())
    for wrong, field in ((["", "1", "1", ""], "a0"), (["gut", "21", "1", ""], "a1")):
        assert browser.page.evaluate(FILL, wrong) is True
        assert browser.run(f"document.activeElement.id === '{field}'")


@pytest.mark.slow
def test_a_click_on_the_map_gives_degrees(browser, page):
    browser.open(page.as_uri(), width=390)
    assert "Vic" in browser.run("document.querySelector('.map').textContent")
    browser.page.locator(".map > circle").first.click(force=True)
    degrees = browser.run("[q1, q2].map(field => Number(field.value))")
    assert degrees == pytest.approx([41.9, 2.2], abs=0.005)
    assert browser.run("document.querySelector('.mark').getAttribute('visibility')") == "visible"


@pytest.mark.slow
def test_answers_are_sent_on_request_only(browser, design, tmp_path):
    address = "https://survey.example.org/answers"
    path = tmp_path / "page.html"
    questionnaire = read_questionnaire({**CONTENT, "send": address, "texts": {}})
    path.write_text(mc.surveys.page(design.cells, questionnaire=questionnaire), encoding="utf-8")
    browser.open(path.as_uri())
    sent = []

    def receive(route):
        if route.request.method == "POST":
            sent.append(route.request.post_data)
        headers = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*"}
        route.fulfill(status=200, headers=headers, body="")

    browser.page.route(address, receive)
    assert browser.page.evaluate(FILL, ANSWERS) is False
    assert sent == []
    browser.page.click("#send-button")
    browser.page.wait_for_function("document.getElementById('copied').textContent !== ''")
    assert browser.run("document.getElementById('copied').textContent") == "Sent. Thank you."
    assert [json.loads(text) for text in sent] == [
        json.loads(browser.run("document.getElementById('copy').value"))
    ]


def test_other_files_are_not_answers(tmp_path):
    (tmp_path / "a.json").write_text('{"age": 3}')
    with pytest.raises(TableError):
        mc.surveys.gather([tmp_path / "a.json"])
