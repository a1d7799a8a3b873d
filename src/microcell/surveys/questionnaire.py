"""The organizer's questionnaire: labels, questions, texts in any language, and where answers go."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from microcell._display import record_html, short_repr
from microcell._files import parse_json, unreadable
from microcell.errors import OptionError, SchemaError, TableError

__all__ = ["Ask", "Questionnaire", "gather", "load_questionnaire", "texts"]

_PLACEHOLDER = re.compile(r"\{\w+\}|[{}]")

TYPES = ("text", "choice", "number", "scale")

_RESERVED = ("cell", "design")

_ENTRIES = ("title", "intro", "language", "labels", "values", "texts", "question", "send", "map")


@dataclass(frozen=True, repr=False)
class Ask:
    """One question to the respondent. The answer is confidential and published by cell."""

    name: str
    """Column of the answers."""
    ask: str
    """The question."""
    type: str = "text"
    choices: tuple[str, ...] = ()
    """Answers to choose from, for "choice"."""
    first: float | None = None
    """Smallest number, for "number" and "scale"."""
    last: float | None = None
    """Largest number."""
    low: str = ""
    """Meaning of the smallest number of a scale."""
    high: str = ""
    """Meaning of the largest number of a scale."""
    required: bool = True

    _repr_html_ = record_html

    def __repr__(self) -> str:
        return short_repr(self, repr(self.name), type=self.type)


@dataclass(frozen=True, repr=False)
class Questionnaire:
    """What the page and the form ask, and in which words."""

    title: str | None = None
    intro: str = ""
    language: str = "en"
    """Language of the texts, as in HTML."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What to call the columns of the cells file."""
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What to call the categories of a column, by column and category."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Translations of the built-in texts, by English text."""
    questions: tuple[Ask, ...] = ()
    send: str | None = None
    """Address that the page sends answers to. None if respondents save a file."""
    map: Mapping[str, Any] = field(default_factory=dict)
    """Background of the map: ``places`` (name to latitude and longitude), ``lines`` (lists of
    points)."""

    _repr_html_ = record_html

    def __repr__(self) -> str:
        return short_repr(self, questions=len(self.questions), language=self.language)

    def as_dict(self) -> dict[str, Any]:
        """Return the questionnaire as a dictionary ready for JSON."""
        return asdict(self)

    def say(self, text: str, **values: object) -> str:
        """Return a built-in text in the language of the questionnaire."""
        return self.texts.get(text, text).format(**values)

    def label(self, column: str) -> str:
        """Return what to call a column."""
        return self.labels.get(column, column)

    def value(self, column: str, category: str) -> str:
        """Return what to call a category of a column."""
        return self.values.get(column, {}).get(category, category)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise SchemaError if a question or a label does not fit the columns of the cells."""
        taken = [question.name for question in self.questions if question.name in columns]
        if taken:
            raise SchemaError(
                f"Question {taken[0]!r} has the name of a quasi-identifier, whose value must not "
                "be handed in. Rename the question.",
                code="schema.duplicate_role",
                column=taken[0],
            )
        unknown = [name for name in (*self.labels, *self.values) if name not in columns]
        if unknown:
            raise SchemaError(
                f"The cells have no column {unknown[0]!r} to be labelled. Check labels and values.",
                code="schema.unknown_column",
                column=unknown[0],
            )


def load_questionnaire(path: str | Path) -> Questionnaire:
    """Read a questionnaire from a TOML file.

    Raises
    ------
    TableError
        The file cannot be read or is not TOML.
    OptionError
        An entry is unknown or invalid.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "questions.toml"
    ...     _ = path.write_text('[[question]]\\nname = "mood"\\nask = "How are you?"\\n')
    ...     load_questionnaire(path).questions[0].ask
    'How are you?'
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable(path, error) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise TableError(
            f"{path} is not valid TOML.", code="table.malformed", path=str(path)
        ) from None
    return read_questionnaire(content)


def read_questionnaire(content: Mapping[str, Any]) -> Questionnaire:
    """Return the questionnaire with this content, or raise :class:`OptionError`."""
    _check_names(content, _ENTRIES, "the questionnaire")
    for name in ("title", "intro", "language"):
        _require(isinstance(content.get(name, ""), str), name, "must be text")
    for name in ("labels", "texts"):
        _require(_is_texts(content.get(name, {})), name, "must be a table of texts")
    values = content.get("values", {})
    _require(
        isinstance(values, Mapping) and all(_is_texts(names) for names in values.values()),
        "values",
        "must be a table of texts per column",
    )
    unknown = [text for text in content.get("texts", {}) if text not in texts()]
    _require(not unknown, "texts", "may only contain built-in texts ('survey texts' lists them)")
    for text, translation in content.get("texts", {}).items():
        same = sorted(_PLACEHOLDER.findall(text)) == sorted(_PLACEHOLDER.findall(translation))
        _require(same, "texts", "must keep the names in braces")
    questions = content.get("question", [])
    _require(isinstance(questions, list), "question", "must be a list of questions")
    asked = tuple(_read_question(each, number) for number, each in enumerate(questions, start=1))
    names = [each.name for each in asked]
    _require(len(set(names)) == len(names), "question", "must not repeat a name")
    return Questionnaire(
        title=content.get("title"),
        intro=content.get("intro", ""),
        language=content.get("language", "en"),
        labels=content.get("labels", {}),
        values=values,
        texts=content.get("texts", {}),
        questions=asked,
        send=_read_address(content.get("send")),
        map=_read_map(content.get("map", {})),
    )


def _read_question(entry: Any, number: int) -> Ask:
    place = f"question {number}"
    _require(isinstance(entry, Mapping), place, "must be a table")
    _check_names(entry, Ask.__dataclass_fields__, place)
    for name in ("name", "ask"):
        _require(
            isinstance(entry.get(name), str) and entry[name].strip(),
            place,
            f"needs {name!r}, a text",
        )
    _require(
        entry["name"] not in _RESERVED, place, "must not use the reserved names 'cell' and 'design'"
    )
    kind = entry.get("type", "text")
    _require(kind in TYPES, place, f"needs a 'type': {', '.join(TYPES)}")
    choices = entry.get("choices", [])
    _require(
        isinstance(choices, list) and all(isinstance(choice, str) for choice in choices),
        place,
        "must have a list of texts as 'choices'",
    )
    _require(
        (kind == "choice") == (len(set(choices)) >= 2),
        place,
        "needs two 'choices' if it is a choice, else none",
    )
    for name in ("first", "last"):
        _require(
            name not in entry or _is_number(entry[name]), place, f"must have a number as {name!r}"
        )
    first, last = entry.get("first"), entry.get("last")
    if kind == "scale":
        whole = isinstance(first, int) and isinstance(last, int)
        _require(
            whole and 0 < last - first <= 20,
            place,
            "needs whole numbers 'first' and 'last', at most 20 apart",
        )
    elif kind == "number":
        _require(
            first is None or last is None or first <= last,
            place,
            "must not have a 'first' above its 'last'",
        )
    else:
        _require(first is None and last is None, place, "must not have 'first' or 'last'")
    _require(
        isinstance(entry.get("required", True), bool),
        place,
        "must have true or false as 'required'",
    )
    return Ask(**{**entry, "choices": tuple(choices)})


def _read_address(address: Any) -> str | None:
    if address is None:
        return None
    parts = urlsplit(address) if isinstance(address, str) else None
    secure = parts is not None and bool(parts.hostname) and parts.scheme == "https"
    local = (
        parts is not None
        and parts.scheme == "http"
        and parts.hostname in ("localhost", "127.0.0.1")
    )
    plain = isinstance(address, str) and not set(address) & set("'\";, \t\r\n")
    _require((secure or local) and plain, "send", "must be an address that starts with https://")
    return str(address)


def _read_map(content: Any) -> Mapping[str, Any]:
    _require(isinstance(content, Mapping), "map", "must be a table")
    _check_names(content, ("places", "lines"), "map")
    places, lines = content.get("places", {}), content.get("lines", [])
    valid = isinstance(places, Mapping) and isinstance(lines, list)
    points = [*places.values(), *(point for line in lines for point in line)] if valid else []
    _require(
        valid and all(_is_point(point) for point in points),
        "map",
        "must consist of [latitude, longitude]",
    )
    return dict(content)


def _is_point(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(_is_number(part) for part in value)
        and abs(value[0]) <= 90
        and abs(value[1]) <= 360
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values())


def _check_names(content: Mapping[str, Any], known: Any, place: str) -> None:
    unknown = [name for name in content if name not in known]
    if unknown:
        raise OptionError(
            f"Unknown entry {unknown[0]!r} in {place}. Choose from {', '.join(known)}.",
            code="option.unknown",
            option="questionnaire",
        )


def _require(valid: object, place: str, needed: str) -> None:
    if not valid:
        raise OptionError(
            f"The questionnaire is invalid: {place} {needed}.",
            code="option.invalid",
            option="questionnaire",
        )


def texts() -> tuple[str, ...]:
    """Return all built-in texts of the page and of the paper form, to be translated.

    Examples
    --------
    >>> "Find my cell" in texts()
    True
    """
    path = files("microcell.surveys") / "templates" / "survey_texts.json"
    return tuple(json.loads(path.read_text(encoding="utf-8")))


def gather(paths: Sequence[str | Path]) -> dict[str, list[Any]]:
    """Return the answers that respondents saved as files, as columns for :func:`collect`.

    Raises
    ------
    TableError
        A file is not an answer that the page saved.
    """
    answers = []
    for path in paths:
        try:
            answer = parse_json(Path(path).read_bytes())
        except OSError as error:
            raise unreadable(path, error) from None
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or "cell" not in answer:
            raise TableError(
                f"{path} is not an answer saved by the page of a survey. Remove it.",
                code="table.malformed",
                path=str(path),
            )
        answers.append(answer)
    names = list(dict.fromkeys(name for answer in answers for name in answer))
    return {name: [answer.get(name) for answer in answers] for name in names}
