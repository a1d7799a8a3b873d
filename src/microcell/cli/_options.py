"""The options that commands share, each declared once, and how their texts are read."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from microcell.errors import OptionError

__all__ = [
    "Decimal",
    "Delimiter",
    "Encoding",
    "Force",
    "Json",
    "Na",
    "Quiet",
    "Quote",
    "SchemaFile",
    "epilog",
    "parse_settings",
    "reading_options",
]

_READING = "Reading .csv, .tsv and .txt files (found out where left out)"

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors; data are still printed.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]
SchemaFile = Annotated[
    Path, typer.Option("--schema", "-s", metavar="FILE.toml", help="The role and kind of each column.")
]
Delimiter = Annotated[
    str | None,
    typer.Option(metavar="CHARACTER", help="What separates fields; 'tab' for a tab.", rich_help_panel=_READING),
]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="For example utf-8 or latin-1.", rich_help_panel=_READING)
]
Quote = Annotated[
    str | None,
    typer.Option(metavar="CHARACTER", help="What encloses fields; '' for nothing.", rich_help_panel=_READING),
]
Decimal = Annotated[
    str | None, typer.Option(metavar="CHARACTER", help="The decimal mark, . or a comma.", rich_help_panel=_READING)
]
Na = Annotated[
    list[str] | None,
    typer.Option(metavar="WORD", help="A word that stands for a missing value; repeatable.", rich_help_panel=_READING),
]

_TABS = {"tab": "\t", "\\t": "\t"}
_SCALARS = (bool, int, float, str)


def epilog(examples: Sequence[str]) -> str:
    """The examples as help shows them, one a line."""
    return "\n\n".join(("Examples:", *(f"  {example}" for example in examples)))


def reading_options(
    *, delimiter: str | None, encoding: str | None, quote: str | None, decimal: str | None, na: Sequence[str] | None
) -> dict[str, Any]:
    """The options for reading that were given."""
    given = {
        "delimiter": None if delimiter is None else _TABS.get(delimiter, delimiter),
        "encoding": encoding,
        "quote": quote,
        "decimal": decimal,
        "na": tuple(na) if na else None,
    }
    return {name: value for name, value in given.items() if value is not None}


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
