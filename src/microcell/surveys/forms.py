"""Material for respondents: an HTML page that finds their cell, or a paper form."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell._display import count, listing
from microcell.cells import BoxCells, Cells
from microcell.cells.boxes import Side
from microcell.errors import OptionError
from microcell.kinds import kind_of
from microcell.model import EncodedColumn
from microcell.surveys.questionnaire import Ask, Questionnaire
from microcell.surveys.words import describe_side, prefixes, require_boxes

__all__ = [
    "MAX_BOXES",
    "PAGE_KINDS",
    "Choice",
    "Question",
    "form",
    "list_questions",
    "page",
    "render_page",
]

# ----------------------------------------------------------------------------------- paper form

MAX_BOXES = 60
"""Boxes that fit on two pages."""

_MAX_NAMED = 2
"""Maximum number of categories listed on the line for all other categories."""


@dataclass(frozen=True)
class Choice:
    """A line to tick, and the question or the code that it leads to."""

    words: str
    question: int | None
    code: int | None


@dataclass(frozen=True)
class Question:
    """A question about one attribute, numbered from 1."""

    number: int
    name: str
    choices: tuple[Choice, ...]


def form(
    cells: Cells,
    *,
    title: str | None = None,
    ask: Sequence[str] = (),
    questionnaire: Questionnaire | None = None,
    max_boxes: int = MAX_BOXES,
) -> str:
    """Return a paper form (A4, HTML) on which respondents find their code by ticking boxes.

    Only a slip with the code is handed in. Consecutive questions about one attribute are combined,
    so a respondent ticks a few ranges or categories and then reads a code.

    Parameters
    ----------
    cells
        Box-shaped cells, designed with ``trust="none"``.
    title
        Title of the form.
    ask
        Further questions, with room for an answer on the slip.
    questionnaire
        Questions with their types, labels of the columns, and translated texts.
    max_boxes
        Largest number of boxes allowed.

    Raises
    ------
    OptionError
        The cells are not boxes, or there are more than ``max_boxes``.

    Examples
    --------
    >>> import numpy as np
    >>> from microcell.model import EncodedColumn, Encoding
    >>> age = EncodedColumn("age", "numeric", ("age",), "integer", origin=40,
    ...     centre=np.zeros(1), scale=np.ones(1))
    >>> cells = BoxCells(centroids=[[-9.0], [9.0]], sizes=[3, 5], k=3, encoding=Encoding((age,)),
    ...     columns=[0], bounds=[34.5], categories=[()], lower=[1], upper=[2])
    >>> "35 and over" in form(cells, ask=["How are you?"])
    True
    """
    boxes = require_boxes(cells)
    if isinstance(max_boxes, bool) or not isinstance(max_boxes, int) or max_boxes < 1:
        raise OptionError(
            "max_boxes must be an integer of at least 1.",
            code="option.out_of_range",
            option="max_boxes",
        )
    if isinstance(ask, str) or not all(isinstance(question, str) for question in ask):
        raise OptionError(
            "ask must be a list of questions.", code="option.wrong_type", option="ask"
        )
    if len(boxes) > max_boxes:
        raise OptionError(
            f"The survey has {count(len(boxes), 'box', 'boxes')}, but the form allows at most "
            f"{max_boxes}. Design the survey with at most {max_boxes}, or allow a longer form.",
            code="option.out_of_range",
            option="max_boxes",
            boxes=len(boxes),
        )
    texts = questionnaire or Questionnaire()
    texts.check_columns(
        [column.name for column in boxes.encoding.columns] if boxes.encoding else []
    )
    asked = [*(Ask(f"question {at}", text) for at, text in enumerate(ask)), *texts.questions]
    questions = list_questions(boxes, texts)
    columns = [boxes.column_of(split) for split in range(boxes.splits)]
    templates = _templates(trim_blocks=True, lstrip_blocks=True)
    return templates.get_template("survey_form.html").render(
        title=title or texts.title or "Survey",
        intro=texts.intro,
        language=texts.language,
        say=texts.say,
        label=texts.label,
        questions=questions,
        steps=_longest_path(questions),
        ask=asked,
        smallest=int(boxes.sizes.min()),
        count=len(boxes),
        digits=range(len(str(len(boxes) - 1))),
        digest=boxes.digest[:12],
        survey=boxes.survey,
        has_codes=any(kind_of(column).matches_by_prefix for column in columns),
        has_integers=any(
            kind_of(column).only_numbers and column.storage == "integer" for column in columns
        ),
    )


def list_questions(cells: BoxCells, texts: Questionnaire | None = None) -> tuple[Question, ...]:
    """Return the questions of the form; every choice leads to a later question or to a code."""
    assert cells.encoding is not None
    texts = texts or Questionnaire()
    columns = cells.encoding.columns
    sides = cells.sides()
    nodes = list(_question_nodes(cells))
    numbers = {node: number for number, node in enumerate(nodes, start=1)}
    questions = []
    for node in nodes:
        place = int(cells.columns[node])
        column = columns[place]
        children = _children(cells, node)
        ranges = [_combined_side(cells, child, place, sides) for child in children]
        choices = [
            Choice(
                words,
                numbers.get(child),
                child - cells.splits if child >= cells.splits else None,
            )
            for words, child in zip(_describe_choices(column, ranges, texts), children, strict=True)
        ]
        # Respondents take the first line that matches, so "anything else" must come last.
        if kind_of(column).matches_by_prefix:
            choices.reverse()
        questions.append(Question(numbers[node], column.name, tuple(choices)))
    return tuple(questions)


def _describe_choices(
    column: EncodedColumn, sides: Sequence[Side], texts: Questionnaire
) -> Iterator[str]:
    """Describe the choices of one question, from the lowest to the highest."""
    for at, side in enumerate(sides):
        if kind_of(column).matches_by_prefix:
            included = ", ".join(prefixes(column, side)[0])
            yield texts.say("starts with {codes}" if at else "anything else", codes=included)
        elif side.others and len(side.names or ()) > _MAX_NAMED:
            yield texts.say("anything else")  # The lines before it list everything that it is not.
        else:
            yield describe_side(column, side, texts)


def _question_nodes(cells: BoxCells) -> Iterator[int]:
    """Yield the nodes of the tree that become questions, parents first."""
    stack = [0] if cells.splits else []
    while stack:
        node = stack.pop()
        yield node
        stack += [child for child in reversed(_children(cells, node)) if child < cells.splits]


def _children(cells: BoxCells, node: int) -> list[int]:
    """Return where a question leads, after combining splits of the same column that follow it."""
    children = []
    for child in (int(cells.lower[node]), int(cells.upper[node])):
        same_column = child < cells.splits and cells.columns[child] == cells.columns[node]
        children += _children(cells, child) if same_column else [child]
    return children


def _combined_side(
    cells: BoxCells, node: int, place: int, sides: Sequence[Mapping[int, Side]]
) -> Side:
    """Return the union of the values of a column that the boxes under a node contain."""
    parts = [sides[box][place] for box in _boxes_under(cells, node)]
    first = parts[0]
    if first.names is not None:
        names = frozenset(name for side in parts for name in side.names or ())
        return replace(first, names=names, others=any(side.others for side in parts))
    return Side(min(side.low for side in parts), max(side.high for side in parts))


def _boxes_under(cells: BoxCells, node: int) -> Iterator[int]:
    if node >= cells.splits:
        yield node - cells.splits
        return
    for child in (int(cells.lower[node]), int(cells.upper[node])):
        yield from _boxes_under(cells, child)


def _longest_path(questions: Sequence[Question]) -> int:
    """Return the largest number of questions that anyone has to answer."""
    lengths: dict[int, int] = {}
    for question in reversed(questions):
        following = max(lengths.get(choice.question or 0, 0) for choice in question.choices)
        lengths[question.number] = 1 + following
    return lengths.get(1, 0)


# ------------------------------------------------------------------------------------- web page

PAGE_KINDS = ("power", "balls", "boxes")
"""Kinds of cells that the page supports."""


def page(
    cells: Cells, *, title: str | None = None, questionnaire: Questionnaire | None = None
) -> str:
    """Return an HTML page that finds a respondent's cell in the browser.

    The page asks for each quasi-identifier and shows the cell and what it publishes, ready to copy.
    It is self-contained: it includes the cells file and scripts that encode a record and assign it
    exactly as this package does, to the last bit except for the sines of locations. It verifies the
    digest and the stated failure probabilities before it asks anything, and its content security
    policy forbids any connection. For unknown categories and far-out values it chooses the nearest
    cell and says so. Locations can be clicked on a map.

    A ``questionnaire`` adds the organizer's questions, labels and translated texts. Cell and
    answers are saved as a file, or sent to the address that it names, the only one that the policy
    then allows.

    Raises
    ------
    OptionError
        The cells contain records (lookup cells) or have no encoding.

    Examples
    --------
    >>> import microcell as mc
    >>> people = {"age": [31, 33, 35, 60, 62, 64]}
    >>> cells = mc.anonymize(people, mc.Schema(quasi=["age"]), k=3, cells=True).cells
    >>> html = page(cells)
    >>> "connect" in html, "default-src 'none'" in html
    (False, True)
    """
    if not isinstance(cells, Cells):
        raise OptionError(
            f"cells must be Cells, not {type(cells).__name__}. Load a file with load_cells first.",
            code="option.wrong_type",
            option="cells",
        )
    if cells.kind not in PAGE_KINDS:
        raise OptionError(
            f"Cells of kind {cells.kind!r} contain the records they were made from, so they must "
            f"not be handed out. Design the survey with one of {', '.join(PAGE_KINDS)}.",
            code="option.unsupported",
            option="cells",
        )
    if cells.encoding is None:
        raise OptionError(
            "These cells were made from points, so they have no columns that respondents could "
            "fill in. Design the survey from a table.",
            code="option.unsupported",
            option="cells",
        )
    grouped = [column.name for column in cells.encoding.columns if column.hierarchy is not None]
    if grouped:
        raise OptionError(
            f"The page cannot ask for {listing(map(repr, grouped))}, because it does not know "
            "hierarchies. Declare another kind, or let respondents use 'microcell survey answer'.",
            code="option.unsupported",
            option="cells",
            columns=tuple(grouped),
        )
    texts = questionnaire or Questionnaire()
    texts.check_columns(
        [name for column in cells.encoding.columns for name in (column.name, *column.parts)]
    )
    script = _resource("survey_cells.js") + _resource("survey_page.js")
    style = _resource("survey_page.css")
    return (
        _templates()
        .get_template("survey_page.html")
        .render(
            title=title or texts.title or texts.say("Find your cell"),
            intro=texts.intro,
            language=texts.language,
            say=texts.say,
            send_to=texts.send,
            # A column name could contain "</script>"; escaped, the JSON means the same.
            cells=cells.to_json().strip().replace("<", "\\u003c"),
            questionnaire=json.dumps(texts.as_dict()).replace("<", "\\u003c"),
            script=script,
            style=style,
            script_hash=_policy_hash(script),
            style_hash=_policy_hash(style),
        )
    )


def render_page(template: str, **values: Any) -> str:
    """Return a page made from one of the templates."""
    return _templates(trim_blocks=True, lstrip_blocks=True).get_template(template).render(**values)


def _templates(**options: bool) -> Environment:
    return Environment(
        loader=PackageLoader("microcell.surveys"),
        autoescape=True,
        undefined=StrictUndefined,
        **options,  # type: ignore[arg-type]
    )


def _resource(name: str) -> str:
    return (files("microcell.surveys") / "templates" / name).read_text(encoding="utf-8")


def _policy_hash(text: str) -> str:
    """Return the hash by which a content security policy allows one script or style."""
    return f"sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}"
