"""Options that several commands share, and the parsers of their values."""

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
from microcell.measures.registry import lower_is_better

if TYPE_CHECKING:
    from microcell.sweeps import Point, Trial

__all__ = [
    "Audience",
    "Blocks",
    "CertificateFile",
    "Effort",
    "Force",
    "InputTable",
    "Json",
    "Missing",
    "Person",
    "PersonCells",
    "Quiet",
    "ReportFile",
    "Requirement",
    "RowsArePeople",
    "SchemaFile",
    "Seed",
    "Settings",
    "Sizes",
    "Strict",
    "Suppress",
    "SurveyCellsFile",
    "check_directions",
    "check_engine",
    "check_figure",
    "check_files",
    "epilog",
    "figure_format",
    "method_notes",
    "parse_blocks",
    "parse_dependence",
    "parse_dominance",
    "parse_effort",
    "parse_limits",
    "parse_person",
    "parse_range",
    "parse_requirements",
    "parse_settings",
    "parse_sizes",
    "split_names",
    "with_engine_options",
    "with_read_options",
]

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and results.")]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit with code 1 if there are findings of severity danger or warning."
    ),
]

Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Effort = Annotated[
    str | None,
    typer.Option(
        metavar="fast|balanced|best|SECONDS",
        help="Time that --method auto may spend on reducing information loss. Default: balanced.",
        show_default=False,
    ),
]
Audience = Annotated[
    Literal["internal", "public"],
    typer.Option(
        "--for",
        help="Audience of the report. A public report shows no original records and rounds results "
        "that depend on original values.",
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.html", help="Write an HTML report with figures.", show_default=False
    ),
]
CertificateFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.pdf",
        help="Write a one-page certificate to sign. It may be published.",
        show_default=False,
    ),
]
Blocks = Annotated[
    str | None,
    typer.Option(
        metavar="N|A,B;C|RULE:N",
        help="Group the records separately in each block of quasi-identifiers: blocks of N "
        "columns, the blocks listed, or blocks of N columns chosen from the data by a rule "
        "(correlation or linkage). The release is then k-anonymous within each block, not "
        "over all columns combined.",
        show_default=False,
    ),
]
SurveyCellsFile = Annotated[
    Path,
    typer.Argument(
        metavar="CELLS", help="Cells file written by 'survey design'.", show_default=False
    ),
]
SchemaFile = Annotated[
    Path,
    typer.Option(
        "--schema", "-s", metavar="FILE.toml", help="Schema: the role and kind of each column."
    ),
]
InputTable = Annotated[
    Path, typer.Argument(metavar="TABLE", help="Table to try methods on.", show_default=False)
]
Sizes = Annotated[
    str,
    typer.Option(
        "-k",
        metavar="K,K,...",
        help="Minimum number of records per cell; several values separated by commas.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Option for the methods that support it. Repeatable.",
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed.")]
OrderKey = Annotated[
    str | None,
    typer.Option(
        metavar="MANIFEST|HEX",
        help="Key of the row order, to write the same file again: the manifest of the earlier "
        "release, or 32 hexadecimal digits (other users of the machine may see those). Default: "
        "a new random key.",
        show_default=False,
    ),
]
Suppress = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Share of the records that may be left out, such as 2% or 0.02: those that cost most, "
        "chosen together with the cells. Default: none.",
        show_default=False,
    ),
]
Missing = Annotated[
    Literal["error", "drop", "impute"],
    typer.Option(
        help="Records with missing quasi-identifiers: stop with an error, drop the records, or "
        "keep them and publish their cell's representative."
    ),
]
_PERSON_PANEL = "People with several rows (docs/howto/persons.md); these override the schema"
Person = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...",
        help="Column that identifies a person, such as a patient number, or several columns that "
        "do so together. k then counts people, not rows. The columns are removed.",
        rich_help_panel=_PERSON_PANEL,
        show_default=False,
    ),
]
PersonCells = Annotated[
    Literal["rows", "together"] | None,
    typer.Option(
        help="Whether the rows of a person may be in different cells or must all be in one. "
        "Default: rows.",
        rich_help_panel=_PERSON_PANEL,
        show_default=False,
    ),
]
RowsArePeople = Annotated[
    bool | None,
    typer.Option(
        "--rows-are-people",
        help="Declare that every row is about a different person, although no identifier is "
        "unique. The manifest and the report state this.",
        rich_help_panel=_PERSON_PANEL,
        show_default=False,
    ),
]

_READ_PANEL = "Reading files (detected automatically if omitted)"
_READ_OPTIONS: dict[str, Any] = {
    "delimiter": Annotated[
        str | None,
        typer.Option(
            metavar="CHARACTER",
            help="Field delimiter; 'tab' for a tab.",
            rich_help_panel=_READ_PANEL,
        ),
    ],
    "encoding": Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Text encoding, such as utf-8 or latin-1.",
            rich_help_panel=_READ_PANEL,
        ),
    ],
    "quote": Annotated[
        str | None,
        typer.Option(
            metavar="CHARACTER",
            help="Quote character; '' if fields are never quoted.",
            rich_help_panel=_READ_PANEL,
        ),
    ],
    "decimal": Annotated[
        str | None,
        typer.Option(
            metavar="CHARACTER",
            help="Decimal separator: a point or a comma.",
            rich_help_panel=_READ_PANEL,
        ),
    ],
    "na": Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Text that marks a missing value. Repeatable.",
            rich_help_panel=_READ_PANEL,
        ),
    ],
    "thousands": Annotated[
        str | None,
        typer.Option(
            metavar="CHARACTER",
            help="Thousands separator of a text file: a point, comma, space or apostrophe.",
            rich_help_panel=_READ_PANEL,
        ),
    ],
    "sheet": Annotated[
        str | None,
        typer.Option(
            metavar="NAME|NUMBER",
            help="Sheet of a workbook.",
            rich_help_panel=_READ_PANEL,
        ),
    ],
    "skip_rows": Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Rows above the column names to skip, such as a title.",
            rich_help_panel=_READ_PANEL,
        ),
    ],
}

_ENGINE_PANEL = "Data sets larger than memory, on Dask (docs/scaling.md)"
_ENGINE_OPTIONS: dict[str, Any] = {
    "engine": Annotated[
        Literal["dask"] | None,
        typer.Option(
            help="Process a data set of many files: tables are then folders, quoted 'PATTERN's or "
            "several files, and a release is a folder.",
            rich_help_panel=_ENGINE_PANEL,
        ),
    ],
    "scheduler": Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Dask scheduler, such as tcp://host:8786, whose workers can access the same "
            "files. If omitted, workers are started on this machine.",
            rich_help_panel=_ENGINE_PANEL,
        ),
    ],
    "workers": Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Workers to start on this machine. Default: 2.",
            rich_help_panel=_ENGINE_PANEL,
        ),
    ],
    "memory": Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Memory per worker. Default: 2GB.", rich_help_panel=_ENGINE_PANEL
        ),
    ],
    "macrocell": Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Records per task. Default: 200000.", rich_help_panel=_ENGINE_PANEL
        ),
    ],
    "seams": Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Rounds of refinement across macrocell borders. Default: 2.",
            rich_help_panel=_ENGINE_PANEL,
        ),
    ],
    "scratch": Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Directory for temporary files (they contain original data). Default: next to "
            "the output.",
            rich_help_panel=_ENGINE_PANEL,
        ),
    ],
}
_TABS = {"tab": "\t", "\\t": "\t"}
_SCALARS = (bool, int, float, str)
_REQUIREMENT = re.compile(r"(?P<name>.*[^<>=\s])\s*(?P<operator><=|>=|=)\s*(?P<limit>[^<>=]+)")
_FIGURE_FORMATS = {".svg": "svg", ".png": "png", ".pdf": "pdf"}


def epilog(examples: Sequence[str]) -> str:
    """Format examples for a help page."""
    return "\n\n".join(("Examples:", *(f"  {example}" for example in examples)))


def with_read_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for text files to a command, which gets them as ``read_options``.

    The dict contains only the options that the user passed.
    """
    return _with_options(command, "read_options", _READ_OPTIONS)


def with_engine_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add engine options (by default all) to a command, which gets them as ``engine_options``."""
    options = {
        name: kind for name, kind in _ENGINE_OPTIONS.items() if name in (names or _ENGINE_OPTIONS)
    }
    return lambda command: _with_options(command, "engine_options", options)


def check_engine(engine_options: Mapping[str, Any], used: Iterable[str]) -> None:
    """Check that engine options come with an engine, and that it supports all options used.

    Parameters
    ----------
    engine_options
            As passed by :func:`with_engine_options`.
    used
        Names of the options in use that no engine supports.
    """
    if engine_options and "engine" not in engine_options:
        name = next(iter(engine_options))
        raise OptionError(
            f"--{name} applies only to data sets of many files. Add --engine dask or leave it out.",
            code="option.conflict",
            option=name,
        )
    for name in used if engine_options else ():
        raise OptionError(
            f"--{name.replace('_', '-')} is not supported with --engine "
            f"{engine_options['engine']}. Leave it out.",
            code="option.unsupported",
            option=name,
        )


def _with_options(
    command: Callable[..., None], parameter: str, options: Mapping[str, Any]
) -> Callable[..., None]:
    """Replace ``parameter`` in the signature, which typer reads, with one parameter per option."""

    @wraps(command)
    def run(**arguments: Any) -> None:
        values = {name: arguments.pop(name) for name in options}
        command(**{parameter: _without_defaults(values)}, **arguments)

    others = [item for item in signature(command).parameters.values() if item.name != parameter]
    added = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=None,
            annotation=kind,
        )
        for name, kind in options.items()
    ]
    parameters = [*others, *added]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters} | {"return": None}
    return run


def _without_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    values = {
        name: value
        for name, value in options.items()
        if not (value is None or value is False or value == [])
    }
    if "delimiter" in values:
        values["delimiter"] = _TABS.get(values["delimiter"], values["delimiter"])
    return values


def parse_blocks(text: str | None) -> int | str | list[list[str]] | None:
    """Parse ``--blocks``: a number of columns, a rule, or names separated by semicolons.

    Examples
    --------
    >>> parse_blocks("2"), parse_blocks("age,sex; home"), parse_blocks("linkage:2")
    (2, [['age', 'sex'], ['home']], 'linkage:2')
    """
    if text is None:
        return None
    if text.strip().isdecimal():
        return int(text)
    if re.fullmatch(r"\s*\w+:\s*\d+\s*", text):
        return text.strip()
    return [split_names(block) for block in text.split(";")]


def parse_dependence(text: str | None) -> float | dict[str, float] | None:
    """Parse ``--dependence``: one weight, or a weight per column.

    Examples
    --------
    >>> parse_dependence("0.1"), parse_dependence("income=0.1,bmi=0.05"), parse_dependence(None)
    (0.1, {'income': 0.1, 'bmi': 0.05}, None)
    """
    if text is None:
        return None
    try:
        if "=" not in text:
            return float(text)
        parts = [part.rpartition("=") for part in split_names(text)]
        weights = {name.strip(): float(weight) for name, _, weight in parts}
        if len(weights) == len(parts) and "" not in weights:
            return weights
    except ValueError:
        pass
    raise OptionError(
        "--dependence must be a number from 0 to 1, or one per column: income=0.1,bmi=0.05.",
        code="option.invalid",
        option="--dependence",
    )


def parse_dominance(text: str | None) -> tuple[int, float] | None:
    """Parse ``--dominance``: a number of records and a share.

    Examples
    --------
    >>> parse_dominance("2,0.8"), parse_dominance(None)
    ((2, 0.8), None)
    """
    if text is None:
        return None
    try:
        n, p = split_names(text)
        return int(n), float(p)
    except ValueError:
        raise OptionError(
            "--dominance must be a number of records and a share, such as 1,0.5.",
            code="option.invalid",
            option="--dominance",
        ) from None


def parse_person(text: str | None) -> list[str] | None:
    """Parse ``--person``: one or several column names.

    Examples
    --------
    >>> parse_person("first_name, surname"), parse_person(None)
    (['first_name', 'surname'], None)
    """
    if text is None:
        return None
    names = split_names(text)
    if not names:
        raise OptionError(
            "--person must name a column, or several separated by commas.",
            code="option.invalid",
            option="--person",
        )
    return names


def parse_effort(text: str | None) -> dict[str, Any]:
    """Parse ``--effort``: a level or a number of seconds.

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
    """Parse method options such as ``gamma=0.2``: TOML numbers and booleans, otherwise text.

    Examples
    --------
    >>> parse_settings(["gamma=0.2", "rounds=3", "start=best"])
    {'gamma': 0.2, 'rounds': 3, 'start': 'best'}
    """
    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not (name and equals):
            raise OptionError(
                "--set must have the form NAME=VALUE, for example gamma=0.2.",
                code="option.invalid",
                option="--set",
            )
        if name in settings:
            raise OptionError(
                f"--set sets {name!r} twice. Remove one of them.",
                code="option.conflict",
                option="--set",
                name=name,
            )
        settings[name] = _parse_scalar(value.strip())
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
    """Parse requirements such as ``k=5`` or ``information_loss<=0.1``.

    Examples
    --------
    >>> parse_requirements(["t_closeness<=0.3"])
    (Requirement(measure='t_closeness', operator='<=', limit=0.3),)
    """
    requirements = [_parse_requirement(text) for text in texts]
    names = [item.measure for item in requirements]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(
                f"--require sets two limits for {name!r}. Remove one of them.",
                code="option.conflict",
                option="--require",
                measure=name,
            )
    return tuple(requirements)


def parse_range(text: str) -> tuple[str, tuple[float, float]]:
    """Parse a range of limits.

    Examples
    --------
    >>> parse_range("t_closeness=0.05:0.3")
    ('t_closeness', (0.05, 0.3))
    """
    start, _, end = text.partition(":")
    first = _parse_requirement(start)
    last = _parse_requirement(f"{first.measure}={end}")
    return first.measure, (first.limit, last.limit)


def parse_limits(texts: Iterable[str]) -> dict[str, float]:
    """Parse requirements into limits by measure, checking the direction of each."""
    requirements = parse_requirements(texts)
    check_directions(requirements, lower_is_better)
    return {item.measure: item.limit for item in requirements}


def _parse_requirement(text: str) -> Requirement:
    match = _REQUIREMENT.fullmatch(text.strip())
    try:
        limit = float(match["limit"]) if match else float("nan")
    except ValueError:
        limit = float("nan")
    if match is None or not isfinite(limit):
        raise OptionError(
            f"--require {text!r} is not valid: write a measure, one of = >= <= and a number, "
            "such as k=5 or information_loss<=0.1.",
            code="option.invalid",
            option="--require",
        )
    return Requirement(match["name"].strip(), match["operator"], limit)


def check_directions(
    requirements: Iterable[Requirement], lower_is_better: Callable[[str], bool | None]
) -> None:
    """Reject a limit in the wrong direction, such as a maximum for k.

    ``lower_is_better`` returns None for unknown measures, which are not checked.
    """
    for item in requirements:
        lower = lower_is_better(item.measure)
        if lower is None:
            continue
        operator = "<=" if lower else ">="
        if item.operator not in ("=", operator):
            better = "lower" if lower else "higher"
            raise OptionError(
                f"--require {item.measure}{item.operator}{item.limit:g}: {better} values of "
                f"{item.measure} are better, so write {item.measure}{operator}{item.limit:g}.",
                code="option.invalid",
                option="--require",
                measure=item.measure,
            )


def split_names(text: str) -> list[str]:
    """Split a comma-separated list.

    Examples
    --------
    >>> split_names("age, sex,")
    ['age', 'sex']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_sizes(text: str) -> list[int]:
    """Parse a comma-separated list of values for k.

    Examples
    --------
    >>> parse_sizes("3, 5,10")
    [3, 5, 10]
    """
    try:
        return [int(part) for part in split_names(text)]
    except ValueError:
        raise OptionError(
            "-k must be whole numbers of at least 2, separated by commas, such as 3,5,10.",
            code="option.wrong_type",
            option="-k",
        ) from None


def figure_format(path: Path, flag: str) -> str:
    """Return the image format for the suffix of ``path``, the value of ``flag``."""
    suffix = path.suffix.lower()
    if suffix not in _FIGURE_FORMATS:
        raise OptionError(
            f"{flag} must be a file name ending in {', '.join(_FIGURE_FORMATS)}.",
            code="option.unsupported",
            option=flag,
        )
    mc.report.check_figure_format(_FIGURE_FORMATS[suffix])
    return _FIGURE_FORMATS[suffix]


def check_figure(figure: Path, *, sources: Sequence[Path]) -> None:
    """Check, before any work is done, that the figure can be written."""
    figure_format(figure, "--figure")
    check_target(figure, sources=sources)


def check_files(output: Path | None, figure: Path | None, *, sources: Sequence[Path]) -> None:
    """Check, before any work is done, that the table and the figure can be written."""
    if figure is not None:
        check_figure(figure, sources=sources)
    if output is not None:
        mc.api.check_outputs(output, companions=[] if figure is None else [figure], sources=sources)


def method_notes(results: "Iterable[Trial | Point]") -> Iterator[tuple[str, str]]:
    """Yield notes on the method that "auto" chose and on skipped methods, without repetition."""
    notes = {
        (
            item.method,
            f"skipped: {item.reason}" if item.skipped else f"{item.used}, {item.reason}",
        ): None
        for item in results
        if item.skipped or item.used != item.method
    }
    yield from notes
