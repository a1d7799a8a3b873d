"""The options that commands share, each declared once, and how their texts are read."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from microcell.errors import OptionError

__all__ = [
    "Effort",
    "Force",
    "Json",
    "Quiet",
    "SchemaFile",
    "epilog",
    "figure_form",
    "parse_effort",
    "parse_settings",
    "split_names",
    "takes_reading",
]

_READING = "Reading .csv, .tsv and .txt files (found out where left out)"

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors; data are still printed.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]
Effort = Annotated[
    str | None,
    typer.Option(
        metavar="fast|balanced|best|SECONDS",
        help="How much time --method auto takes to lower the distortion. Default: balanced.",
        show_default=False,
    ),
]
SchemaFile = Annotated[
    Path, typer.Option("--schema", "-s", metavar="FILE.toml", help="The role and kind of each column.")
]
_Delimiter = Annotated[
    str | None,
    typer.Option(metavar="CHARACTER", help="What separates fields; 'tab' for a tab.", rich_help_panel=_READING),
]
_Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="For example utf-8 or latin-1.", rich_help_panel=_READING)
]
_Quote = Annotated[
    str | None,
    typer.Option(metavar="CHARACTER", help="What encloses fields; '' for nothing.", rich_help_panel=_READING),
]
_Decimal = Annotated[
    str | None, typer.Option(metavar="CHARACTER", help="The decimal mark, . or a comma.", rich_help_panel=_READING)
]
_Na = Annotated[
    list[str] | None,
    typer.Option(metavar="WORD", help="A word that stands for a missing value; repeatable.", rich_help_panel=_READING),
]

_READING_OPTIONS: dict[str, Any] = {
    "delimiter": _Delimiter,
    "encoding": _Encoding,
    "quote": _Quote,
    "decimal": _Decimal,
    "na": _Na,
}
_TABS = {"tab": "\t", "\\t": "\t"}
_SCALARS = (bool, int, float, str)


def epilog(examples: Sequence[str]) -> str:
    """The examples as help shows them, one a line."""
    return "\n\n".join(("Examples:", *(f"  {example}" for example in examples)))


def takes_reading(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options for reading text files in place of its parameter ``reading``: those that are given.

    Declared once for all commands; the signature tells typer of them.
    """

    @wraps(command)
    def run(**given: Any) -> None:
        options = {name: given.pop(name) for name in _READING_OPTIONS}
        command(reading=_given_options(options), **given)

    own = [item for item in signature(command).parameters.values() if item.name != "reading"]
    added = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _READING_OPTIONS.items()
    ]
    run.__signature__ = Signature([*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in (*own, *added)} | {"return": None}
    return run


def _given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in options.items() if value not in (None, [])}
    if "delimiter" in given:
        given["delimiter"] = _TABS.get(given["delimiter"], given["delimiter"])
    return given


def parse_effort(text: str | None) -> dict[str, Any]:
    """The option for ``auto``, if it was given: a word, or a number of seconds.

    Examples
    --------
    >>> parse_effort("30"), parse_effort("best"), parse_effort(None)
    ({'effort': 30.0}, {'effort': 'best'}, {})
    """
    if text is None:
        return {}
    try:
        return {"effort": float(text)}
    except ValueError:
        return {"effort": text}


def parse_settings(texts: Sequence[str]) -> Mapping[str, Any]:
    """Options of a method from texts such as ``gamma=0.2``: numbers and truth values as TOML has them, else text.

    Examples
    --------
    >>> parse_settings(["gamma=0.2", "rounds=3", "start=best"])
    {'gamma': 0.2, 'rounds': 3, 'start': 'best'}
    """
    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals):
            raise OptionError(f"--set takes NAME=VALUE, for example gamma=0.2, not {text!r}.")
        if name.strip() in settings:
            raise OptionError(f"--set gives {name.strip()!r} twice. Give it once.")
        settings[name.strip()] = _parse_scalar(value.strip())
    return settings


def _parse_scalar(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value = parsed["value"]
    return value if len(parsed) == 1 and isinstance(value, _SCALARS) else text


def split_names(text: str) -> list[str]:
    """The parts of a text with commas between them.

    Examples
    --------
    >>> split_names("age, sex,")
    ['age', 'sex']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def figure_form(path: Path, flag: str) -> str:
    """The form of a figure, by the suffix of its file; refused if it is none, naming the flag."""
    if path.suffix.lower() not in _FIGURES:
        raise OptionError(f"{flag} takes a name that ends in {', '.join(_FIGURES)}, not {path.name!r}.")
    return _FIGURES[path.suffix.lower()]


_FIGURES = {".svg": "svg", ".png": "png", ".pdf": "pdf"}
"""The forms that figures are drawn in."""
