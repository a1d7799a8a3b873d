"""What respondents of a survey get: a page that finds their cell in the browser, and a form to do it on paper."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from importlib.resources import files
from math import ceil, inf, isinf, nextafter

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell.cells import BoxCells, Cells
from microcell.cells.boxes import EXACT, Side
from microcell.errors import OptionError
from microcell.model import EncodedColumn

__all__ = [
    "ANY",
    "ASSIGNING",
    "MOST_BOXES",
    "BoxInWords",
    "Choice",
    "Question",
    "as_boxes",
    "beginnings",
    "describe_boxes",
    "questions_of",
    "side_in_words",
    "survey_form",
    "survey_page",
]

ANY = "any"


@dataclass(frozen=True)
class BoxInWords:
    """A box as a person reads it: by name of a column the range or the categories, "any" where it holds them all."""

    number: int
    holds: Mapping[str, str]


def describe_boxes(cells: Cells) -> tuple[BoxInWords, ...]:
    """Each box in words, by column; columns that no box asks for are left out.

    A bound belongs to the range above it: "under 35" ends before 35, "35 and over" begins with it, and "35 to 49" holds
    both, being whole numbers; "1.5 to under 2" holds 1.5 and not 2. Ranges of dates name the first and the last day.
    Ordinal columns have lists of names, or, where they are numbers, the known number that a range ends with. Codes have
    the signs that they begin with. The words hold for values that the boxes do not know, too.

    Examples
    --------
    >>> from microcell.model import EncodedColumn, Encoding
    >>> age = EncodedColumn("age", "numeric", ("age",), "integer", origin=40, centre=np.zeros(1), scale=np.ones(1))
    >>> cells = BoxCells(centroids=[[-9.0], [0.0], [20.0]], sizes=[3, 5, 4], k=3, encoding=Encoding((age,)),
    ...     columns=[0, 0], bounds=[34.5, 49.5], categories=[(), ()], lower=[2, 3], upper=[1, 4])
    >>> [box.holds["age"] for box in describe_boxes(cells)]
    ['under 35', '35 to 49', '50 and over']
    """
    boxes = as_boxes(cells)
    assert boxes.encoding is not None
    columns = boxes.encoding.columns
    return tuple(
        BoxInWords(
            number,
            {
                columns[place].name: side_in_words(columns[place], side)
                for place, side in sides.items()
            },
        )
        for number, sides in enumerate(boxes.sides())
    )


def as_boxes(cells: object) -> BoxCells:
    """The cells, if they are boxes."""
    if not isinstance(cells, BoxCells):
        what = f"cells of kind {cells.kind!r}" if hasattr(cells, "kind") else type(cells).__name__
        raise OptionError(
            f"Only boxes can be put into words, not {what}. Design the survey for no trust."
        )
    return cells


def side_in_words(column: EncodedColumn, side: Side) -> str:
    """What a box holds of a column, in words."""
    if side.names is not None:
        return _categories(column, side)
    if isinf(side.low) and isinf(side.high):
        return ANY
    if column.kind == "code":
        return _codes(column, side)
    if column.kind == "ordinal":
        return _ordered(column, side)
    if isinstance(column.origin, int):
        return _wholes(column, side)
    return _range("under {}", "{} and over", "{} to under {}", side, lambda value: f"{value:.15g}")


def _categories(column: EncodedColumn, side: Side) -> str:
    known = {at for at, name in enumerate(column.names) if name is not None}
    held = [_label(column, at) for at in sorted(side.names or ())]
    if not side.others:
        return ", ".join(held)
    lacking = [_label(column, at) for at in sorted(known - (side.names or frozenset()))]
    if not lacking:
        return ANY
    if len(lacking) < len(held):
        return f"anything but {', '.join(lacking)}"
    return ", ".join([*held, "or anything else"]) if held else "anything else"


def _label(column: EncodedColumn, at: int) -> str:
    """A name as a person writes it: dates and times are counts in an encoding."""
    name = str(column.names[at])
    count, _, unit = name.partition(" ")
    return _moment(column, int(count)) if column.unit is not None and unit == column.unit else name


def _ordered(column: EncodedColumn, side: Side) -> str:
    """Numbers and times by the known one that a range ends with; other names in full.

    An unknown number lies between its neighbours, where the bound between them is, and so above it; an unknown name is
    at the mean, which is 0.
    """
    places = column.places.tolist()
    if column.storage in ("integer", "float") or column.unit is not None:
        below = [_label(column, at) for at, place in enumerate(places) if place < side.low][-1:]
        held = [_label(column, at) for at, place in enumerate(places) if place < side.high][-1:]
        parts = [f"over {name}" for name in below] + [
            f"up to {name}" for name in held if not isinf(side.high)
        ]
        return ", ".join(parts)
    held = [_label(column, at) for at, place in enumerate(places) if side.low <= place < side.high]
    return ", ".join([*held, *(["or anything else"] if side.low <= 0 < side.high else [])])


def beginnings(column: EncodedColumn, side: Side) -> tuple[list[str], list[str]]:
    """How the codes of a range begin, and how those begin that must be left out of these again.

    An unknown code is placed with the first known one that shares its longest known beginning. So it is above a bound
    exactly if it begins with signs that only known codes above the bound begin with.
    """
    above, beyond = _beginnings_above(column, side.low), _beginnings_above(column, side.high)
    kept = [one for one in above if not any(one.startswith(other) for other in beyond)]
    return kept, [one for one in beyond if any(one.startswith(other) for other in kept)]


def _beginnings_above(column: EncodedColumn, bound: float) -> list[str]:
    """The shortest beginnings that only codes above the bound have."""
    names = [str(name) for name in column.names]
    first = sum(place < bound for place in column.places.tolist())
    if first in (0, len(names)):
        return []
    last = names[first - 1]  # the last code below
    out = set()
    for name in names[first:]:
        common = next((at for at, sign in enumerate(name) if last[at : at + 1] != sign), len(name))
        out.add(name[: common + 1])
    return sorted(out)


def _codes(column: EncodedColumn, side: Side) -> str:
    if isinf(side.low):
        return f"not beginning with {', '.join(_beginnings_above(column, side.high))}"
    kept, but = beginnings(column, side)
    return f"beginning with {', '.join(kept)}" + (f", but not with {', '.join(but)}" if but else "")


def _wholes(column: EncodedColumn, side: Side) -> str:
    """Bounds lie just before the number that they mean."""
    low, high = (_meant(value) for value in (side.low, side.high))
    if column.unit is None:
        if not isinf(low) and not isinf(high):
            return f"{_number(low)} to {_number(high - 1)}" if high - low > 1 else _number(low)
        return f"under {_number(high)}" if isinf(low) else f"{_number(low)} and over"
    first = "" if isinf(low) else _moment(column, int(low))
    if isinf(high):
        return f"{first} or later" if column.storage != "duration" else f"{first} and over"
    if isinf(low):
        return (
            f"{'under' if column.storage == 'duration' else 'before'} {_moment(column, int(high))}"
        )
    if column.unit == "D":
        return f"{first} to {_moment(column, int(high) - 1)}" if high - low > 1 else first
    return f"{first} to before {_moment(column, int(high))}"


def _meant(bound: float) -> float:
    if isinf(bound):
        return bound
    return ceil(bound) if abs(bound) < EXACT else nextafter(bound, inf)


def _range(under: str, over: str, between: str, side: Side, write: object) -> str:
    words = write if callable(write) else str
    if side.low == -inf:
        return under.format(words(side.high))
    return (
        over.format(words(side.low))
        if side.high == inf
        else between.format(words(side.low), words(side.high))
    )


def _number(value: float) -> str:
    return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))


def _moment(column: EncodedColumn, count: int) -> str:
    """A date, a time of day or a length of time from a count of the column's unit."""
    if column.storage in ("date", "datetime"):
        text = str(np.datetime64(count, column.unit)).replace("T", " ")  # type: ignore[call-overload]
        return (
            text.removesuffix(".000000000")
            .removesuffix(".000000")
            .removesuffix(".000")
            .removesuffix(":00")
        )
    seconds = (
        count * {"D": 86_400.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[str(column.unit)]
    )
    if column.storage == "duration":
        return f"{seconds:.15g} seconds"
    text = str(timedelta(seconds=round(seconds, 6)))
    return text.removesuffix(":00").rjust(5, "0") if text.endswith(":00") else text


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


def survey_form(
    cells: Cells, *, title: str = "Survey", ask: Sequence[str] = (), most: int = MOST_BOXES
) -> str:
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
        loader=PackageLoader("microcell.surveys"),
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
            Choice(
                words, number_of.get(child), child - cells.splits if child >= cells.splits else None
            )
            for words, child in zip(_in_words(columns[place], held), children, strict=True)
        ]
        if (
            columns[place].kind == "code"
        ):  # the first that fits is to be taken, and the least says "anything else"
            choices.reverse()
        out.append(Question(number_of[node], columns[place].name, tuple(choices)))
    return tuple(out)


def _in_words(column: EncodedColumn, held: Sequence[Side]) -> Iterator[str]:
    """The choices of one question, which share out what is left of a column, from the least to the greatest."""
    for at, side in enumerate(held):
        if column.kind == "code":
            yield f"begins with {', '.join(beginnings(column, side)[0])}" if at else "anything else"
        elif (
            side.others and len(side.names or ()) > _NAMED
        ):  # the lines before it list all that it is not
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
        need[question.number] = 1 + max(
            need.get(choice.question or 0, 0) for choice in question.choices
        )
    return need.get(1, 0)


ASSIGNING = ("power", "balls", "boxes")
"""The kinds of cells that the page can assign to."""


def survey_page(cells: Cells, *, title: str = "Find your cell") -> str:
    """An HTML page that asks for each quasi-identifier and shows the cell and what it publishes, ready to copy.

    All is in the page: the cells' file as it is, and functions that place a record as the encoding does and assign it
    as the cells do, to the last bit but for the sines of locations. The page checks the seal and the stated failures
    before it asks. A policy in it forbids any connection. Unknown categories and values far out get the nearest cell,
    and the page says so.

    Refused are cells that hold records (lookup), and cells of points, for which there is nothing to ask.

    Examples
    --------
    >>> import microcell as mc
    >>> people = {"age": [31, 33, 35, 60, 62, 64]}
    >>> cells = mc.anonymize(people, mc.Schema(quasi=["age"]), k=3, cells=True).cells
    >>> "connect" in survey_page(cells), "default-src 'none'" in survey_page(cells)
    (False, True)
    """
    if not isinstance(cells, Cells):
        raise OptionError(
            f"cells must be Cells, not {type(cells).__name__}. Load their file first."
        )
    if cells.kind not in ASSIGNING:
        raise OptionError(
            f"Cells of kind {cells.kind!r} hold the records that they were made of, and cannot be handed out. Design "
            f"the survey with cells of one of the kinds {', '.join(ASSIGNING)}."
        )
    if cells.encoding is None:
        raise OptionError(
            "These cells were made of points, not of records: there is nothing to ask for."
        )
    script = "".join(_part(name) for name in ("survey_cells.js", "survey_page.js"))
    style = _part("survey_page.css")
    templates = Environment(
        loader=PackageLoader("microcell.surveys"), autoescape=True, undefined=StrictUndefined
    )
    return templates.get_template("survey_page.html").render(
        title=title,
        # A name may hold what ends a script; as an escape it is the same JSON.
        cells=cells.to_json().strip().replace("<", "\\u003c"),
        script=script,
        style=style,
        script_hash=_hash_of(script),
        style_hash=_hash_of(style),
    )


def _part(name: str) -> str:
    return (files("microcell.surveys") / "templates" / name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    """How a page's policy names the one script or style that it allows."""
    return f"sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}"
