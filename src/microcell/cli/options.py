"""What the commands that try several methods for several k share: options, how they are read, and remarks."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell._atomic import check_target
from microcell.errors import OptionError
from microcell.measures.requirements import LOWER_IS_BETTER, base_of

if TYPE_CHECKING:
    from microcell.sweeps import Point, Trial

__all__ = [
    "Audience",
    "Blocks",
    "Effort",
    "Force",
    "Json",
    "Missing",
    "Quiet",
    "Requirement",
    "SchemaFile",
    "Seed",
    "Settings",
    "Sizes",
    "TriedTable",
    "check_figure",
    "check_files",
    "check_sides",
    "epilog",
    "figure_form",
    "parse_blocks",
    "parse_effort",
    "parse_limits",
    "parse_requirements",
    "parse_settings",
    "parse_sizes",
    "remarks",
    "split_names",
    "takes_engine",
    "takes_reading",
]

_READING = "Reading .csv, .tsv and .txt files (found out where left out)"

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say nothing but errors; data are still printed.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]
Effort = Annotated[
    str | None,
    typer.Option(
        metavar="fast|balanced|best|SECONDS",
        help="How much time --method auto takes to lower the distortion. Default: balanced.",
        show_default=False,
    ),
]
Audience = Annotated[
    Literal["internal", "public"],
    typer.Option(
        "--for", help="Who reads the report: the public is shown nothing of the original."
    ),
]
Blocks = Annotated[
    str | None,
    typer.Option(
        metavar="N|A,B;C",
        help="Make cells of blocks of quasi-identifiers, each on its own: of N columns, or as named. What is published "
        "is then k-anonymous in each block, and not as a whole.",
        show_default=False,
    ),
]
SchemaFile = Annotated[
    Path,
    typer.Option("--schema", "-s", metavar="FILE.toml", help="The role and kind of each column."),
]
_Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="What separates fields; 'tab' for a tab.",
        rich_help_panel=_READING,
    ),
]
_Encoding = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="For example utf-8 or latin-1.", rich_help_panel=_READING),
]
_Quote = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER", help="What encloses fields; '' for nothing.", rich_help_panel=_READING
    ),
]
_Decimal = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER", help="The decimal mark, . or a comma.", rich_help_panel=_READING
    ),
]
_Na = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORD",
        help="A word that stands for a missing value; repeatable.",
        rich_help_panel=_READING,
    ),
]

_READING_OPTIONS: dict[str, Any] = {
    "delimiter": _Delimiter,
    "encoding": _Encoding,
    "quote": _Quote,
    "decimal": _Decimal,
    "na": _Na,
}
_ENGINE = "Data sets beyond memory, on Dask (docs/scaling.md)"
_ENGINE_OPTIONS: dict[str, Any] = {
    "engine": Annotated[
        Literal["dask"] | None,
        typer.Option(
            help="Make a data set of many files k-anonymous: a folder, a 'PATTERN' in quotes, or several files. The "
            "output is a folder.",
            rich_help_panel=_ENGINE,
        ),
    ],
    "scheduler": Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A Dask scheduler, such as tcp://host:8786, whose workers reach the same files. Left out, workers "
            "are started on this machine.",
            rich_help_panel=_ENGINE,
        ),
    ],
    "workers": Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Workers to start here. Default: 2.", rich_help_panel=_ENGINE
        ),
    ],
    "memory": Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="The memory of each worker. Default: 2GB.", rich_help_panel=_ENGINE
        ),
    ],
    "macrocell": Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Records that a task makes cells of. Default: 200000.",
            rich_help_panel=_ENGINE,
        ),
    ],
    "seams": Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Rounds across the borders of macrocells. Default: 2.",
            rich_help_panel=_ENGINE,
        ),
    ],
    "scratch": Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="For what is under way, which holds original values. Default: beside the output.",
            rich_help_panel=_ENGINE,
        ),
    ],
    "force": Annotated[
        bool,
        typer.Option("--force", help="Replace a release that is there.", rich_help_panel=_ENGINE),
    ],
}
_TABS = {"tab": "\t", "\\t": "\t"}
_SCALARS = (bool, int, float, str)
_REQUIREMENT = re.compile(r"(?P<name>.*[^<>=\s])\s*(?P<operator><=|>=|=)\s*(?P<limit>[^<>=]+)")


def epilog(examples: Sequence[str]) -> str:
    """The examples as help shows them, one a line."""
    return "\n\n".join(("Examples:", *(f"  {example}" for example in examples)))


def takes_reading(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options for reading text files in place of its parameter ``reading``: those that are given.

    Declared once for all commands; the signature tells typer of them.
    """
    return _takes(command, "reading", _READING_OPTIONS)


def takes_engine(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The command with options of the engine (all, or those named) in place of its parameter ``on``: those given."""
    options = {
        name: kind for name, kind in _ENGINE_OPTIONS.items() if name in (names or _ENGINE_OPTIONS)
    }
    return lambda command: _takes(command, "on", options)


def _takes(
    command: Callable[..., None], parameter: str, options: Mapping[str, Any]
) -> Callable[..., None]:
    @wraps(command)
    def run(**given: Any) -> None:
        found = {name: given.pop(name) for name in options}
        command(**{parameter: _given_options(found)}, **given)

    own = [item for item in signature(command).parameters.values() if item.name != parameter]
    added = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=False if name == "force" else None,
            annotation=kind,
        )
        for name, kind in options.items()
    ]
    run.__signature__ = Signature([*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in (*own, *added)} | {"return": None}
    return run


def _given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    given = {
        name: value
        for name, value in options.items()
        if not (value is None or value is False or value == [])
    }
    if "delimiter" in given:
        given["delimiter"] = _TABS.get(given["delimiter"], given["delimiter"])
    return given


def parse_blocks(text: str | None) -> int | list[list[str]] | None:
    """Blocks of columns: a number, or names with commas between them and semicolons between blocks.

    Examples
    --------
    >>> parse_blocks("2"), parse_blocks("age,sex; home"), parse_blocks(None)
    (2, [['age', 'sex'], ['home']], None)
    """
    if text is None:
        return None
    return (
        int(text) if text.strip().isdecimal() else [split_names(block) for block in text.split(";")]
    )


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


@dataclass(frozen=True)
class Requirement:
    """A limit for a measure, as the user wrote it."""

    measure: str
    operator: str
    limit: float


def parse_requirements(texts: Iterable[str]) -> tuple[Requirement, ...]:
    """Limits from texts such as ``k=5`` or ``distortion<=0.1``.

    Examples
    --------
    >>> parse_requirements(["t_closeness<=0.3"])
    (Requirement(measure='t_closeness', operator='<=', limit=0.3),)
    """
    requirements = [_parse_requirement(text) for text in texts]
    names = [item.measure for item in requirements]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise OptionError(f"--require gives two limits for {twice[0]!r}. Give one.")
    return tuple(requirements)


def parse_limits(texts: Iterable[str]) -> dict[str, float]:
    """The limits by measure, refused if one is on the wrong side."""
    requirements = parse_requirements(texts)
    check_sides(requirements, lambda name: LOWER_IS_BETTER.get(base_of(name) or ""))
    return {item.measure: item.limit for item in requirements}


def _parse_requirement(text: str) -> Requirement:
    found = _REQUIREMENT.fullmatch(text.strip())
    try:
        limit = float(found["limit"]) if found else float("nan")
    except ValueError:
        limit = float("nan")
    if found is None or not isfinite(limit):
        raise OptionError(
            f"--require takes a measure, one of = >= <=, and a number, such as k=5 or distortion<=0.1, not {text!r}."
        )
    return Requirement(found["name"].strip(), found["operator"], limit)


def check_sides(
    requirements: Iterable[Requirement], lower_is_better: Callable[[str], bool | None]
) -> None:
    """Refuse a limit on the wrong side, which a release could meet by being bad; None is of measures not known."""
    for item in requirements:
        lower = lower_is_better(item.measure)
        right = None if lower is None else "<=" if lower else ">="
        if right is not None and item.operator not in ("=", right):
            better = "less" if right == "<=" else "more"
            raise OptionError(
                f"--require {item.measure}{item.operator}{item.limit:g}: of {item.measure}, {better} is better. Write "
                f"{item.measure}{right}{item.limit:g}."
            )


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
        raise OptionError(
            f"{flag} takes a name that ends in {', '.join(_FIGURES)}, not {path.name!r}."
        )
    return _FIGURES[path.suffix.lower()]


_FIGURES = {".svg": "svg", ".png": "png", ".pdf": "pdf"}
"""The forms that figures are drawn in."""


TriedTable = Annotated[
    Path, typer.Argument(metavar="TABLE", help="The file to try methods on.", show_default=False)
]
Sizes = Annotated[
    str,
    typer.Option(
        "-k", metavar="K,K,...", help="The least number of records in a cell; several with commas."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="An option, for the methods that have it; repeatable."
    ),
]
Seed = Annotated[int, typer.Option(help="For what chance decides.")]
Missing = Annotated[
    Literal["error", "drop", "impute"],
    typer.Option(help="What to do with records that lack a quasi-identifier."),
]


def parse_sizes(text: str) -> list[int]:
    """The numbers of a text with commas between them.

    Examples
    --------
    >>> parse_sizes("3, 5,10")
    [3, 5, 10]
    """
    try:
        return [int(part) for part in split_names(text)]
    except ValueError:
        raise OptionError(
            f"-k takes whole numbers with commas between them, such as 3,5,10, not {text!r}."
        ) from None


def check_figure(figure: Path, *, sources: Sequence[Path]) -> None:
    """Refuse, before any work, a figure of no form or in a place where it cannot be written."""
    figure_form(figure, "--figure")
    check_target(figure, sources=sources)


def check_files(output: Path | None, figure: Path | None, *, sources: Sequence[Path]) -> None:
    """Refuse, before any work, a table or a figure that could not be written, or both under one name."""
    if figure is not None:
        check_figure(figure, sources=sources)
    if output is not None:
        mc.api.check_outputs(output, companions=[] if figure is None else [figure], sources=sources)


def remarks(tried: "Iterable[Trial | Point]") -> Iterator[tuple[str, str]]:
    """What "auto" chose, and why a method was skipped, each told once."""
    told = {
        (item.method, f"skipped: {item.why}" if item.skipped else f"{item.used}, {item.why}"): None
        for item in tried
        if item.skipped or item.used != item.method
    }
    yield from told
