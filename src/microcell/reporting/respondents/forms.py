"""The boxes of a survey as a form for paper: a few questions, each tick leading to the next or to a code."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell.cells import BoxCells, Cells
from microcell.cells.boxes import Side
from microcell.errors import OptionError
from microcell.model import EncodedColumn
from microcell.reporting.respondents.boxes import as_boxes, beginnings, side_in_words

__all__ = ["MOST_BOXES", "Choice", "Question", "questions_of", "survey_form"]

MOST_BOXES = 60
"""So many boxes fit on two pages."""


_NAMED = 2
"""So many categories are named on the line of all others."""


@dataclass(frozen=True)
class Choice:
    """A range or some categories to tick, and where that leads: to a question, or to a code."""

    words: str
    question: int | None
    code: int | None


@dataclass(frozen=True)
class Question:
    """What is asked of one attribute, from 1."""

    number: int
    name: str
    choices: tuple[Choice, ...]


def survey_form(cells: Cells, *, title: str = "Survey", ask: Sequence[str] = (), most: int = MOST_BOXES) -> str:
    """A form on A4, to be printed: the boxes as questions to tick, and a part to hand in with the code alone.

    Questions about one attribute that follow each other are asked as one, so that a person ticks a range or some
    categories a few times and reads a code. ``ask`` are further questions, the confidential ones, with room to write.
    :class:`OptionError` for cells that are no boxes, and for more than ``most`` boxes.

    Examples
    --------
    >>> import numpy as np
    >>> from microcell.model import EncodedColumn, Encoding
    >>> age = EncodedColumn("age", "numeric", ("age",), "integer", origin=40, centre=np.zeros(1), scale=np.ones(1))
    >>> cells = BoxCells(centroids=[[-9.0], [9.0]], sizes=[3, 5], k=3, encoding=Encoding((age,)),
    ...     columns=[0], bounds=[34.5], categories=[()], lower=[1], upper=[2])
    >>> "35 and over" in survey_form(cells, ask=["Are you well?"])
    True
    """
    boxes = as_boxes(cells)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise OptionError("most must be a whole number of boxes, 1 or more.")
    if isinstance(ask, str) or not all(isinstance(question, str) for question in ask):
        raise OptionError("ask must be a list of questions.")
    if len(boxes) > most:
        raise OptionError(
            f"There are {len(boxes)} boxes, more than the {most} that a form shall have. Design the survey with at "
            f"most {most} boxes, or allow a longer form."
        )
    templates = Environment(
        loader=PackageLoader("microcell.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    questions = questions_of(boxes)
    columns = [boxes.column_of(split) for split in range(boxes.splits)]
    asked = {column.storage if column.kind == "numeric" else column.kind for column in columns}
    return templates.get_template("survey_form.html").render(
        title=title,
        questions=questions,
        steps=_longest(questions),
        ask=list(ask),
        least=int(boxes.sizes.min()),
        count=len(boxes),
        digits=range(len(str(len(boxes) - 1))),
        digest=boxes.digest[:12],
        survey=boxes.survey,
        first="code" in asked,
        whole="integer" in asked,
    )


def questions_of(cells: BoxCells) -> tuple[Question, ...]:
    """The questions of the form, in order; every tick leads to a later one or to a code."""
    assert cells.encoding is not None
    columns, sides = cells.encoding.columns, cells.sides()
    asked = list(_asked(cells))
    number_of = {node: number for number, node in enumerate(asked, start=1)}
    out = []
    for node in asked:
        place, children = int(cells.columns[node]), _children(cells, node)
        held = [_side_of(cells, child, place, sides) for child in children]
        choices = [
            Choice(words, number_of.get(child), child - cells.splits if child >= cells.splits else None)
            for words, child in zip(_in_words(columns[place], held), children, strict=True)
        ]
        if columns[place].kind == "code":  # the first that fits is to be taken, and the least says "anything else"
            choices.reverse()
        out.append(Question(number_of[node], columns[place].name, tuple(choices)))
    return tuple(out)


def _in_words(column: EncodedColumn, held: Sequence[Side]) -> Iterator[str]:
    """The choices of one question, which share out what is left of a column, from the least to the greatest."""
    for at, side in enumerate(held):
        if column.kind == "code":
            yield f"begins with {', '.join(beginnings(column, side)[0])}" if at else "anything else"
        elif side.others and len(side.names or ()) > _NAMED:  # the lines before it list all that it is not
            yield "anything else"
        else:
            yield side_in_words(column, side)


def _asked(cells: BoxCells) -> Iterator[int]:
    """The questions of the tree that stay questions of the form, parents first."""
    waiting = [0] if cells.splits else []
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in reversed(_children(cells, node)) if child < cells.splits]


def _children(cells: BoxCells, node: int) -> list[int]:
    """Where a question leads, in order, if those about the same column that follow it are asked with it."""
    out = []
    for child in (int(cells.lower[node]), int(cells.upper[node])):
        same = child < cells.splits and cells.columns[child] == cells.columns[node]
        out += _children(cells, child) if same else [child]
    return out


def _side_of(cells: BoxCells, node: int, place: int, sides: Sequence[Mapping[int, Side]]) -> Side:
    """What the boxes under a node hold together of a column."""
    held = [sides[box][place] for box in _boxes_under(cells, node)]
    first = held[0]
    if first.names is not None:
        names = frozenset(name for side in held for name in side.names or ())
        return replace(first, names=names, others=any(side.others for side in held))
    return Side(min(side.low for side in held), max(side.high for side in held))


def _boxes_under(cells: BoxCells, node: int) -> Iterator[int]:
    if node >= cells.splits:
        yield node - cells.splits
        return
    for child in (int(cells.lower[node]), int(cells.upper[node])):
        yield from _boxes_under(cells, child)


def _longest(questions: Sequence[Question]) -> int:
    """The most questions that anybody has to answer."""
    need: dict[int, int] = {}
    for question in reversed(questions):
        need[question.number] = 1 + max(need.get(choice.question or 0, 0) for choice in question.choices)
    return need.get(1, 0)
