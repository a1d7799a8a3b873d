"""Whole runs as TOML text, and back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from microcell.configuration._schemas import schema_lines, schema_of
from microcell.configuration._toml import (
    NUMBER,
    OPTION,
    TABLE,
    TEXT,
    WHOLE,
    Place,
    Type,
    assign,
    check_choice,
    check_keys,
    check_version,
    frozen,
    header,
    parse,
    read_text,
)
from microcell.errors import OptionError, SchemaError
from microcell.model import Schema

__all__ = ["Run", "load_run", "run_from_toml", "run_to_toml"]

_RUN_KEYS = {
    "config_version": WHOLE,
    **dict.fromkeys(("input", "output"), TEXT),
    "schema": Type("a path or a table", (str, dict)),
    "k": WHOLE,
    "method": TEXT,
    "seed": WHOLE,
    **dict.fromkeys(("missing", "report", "cells"), TEXT),
    "dependence": Type("a number", (int, float)),
    "blocks": Type("a whole number or text", (int, str)),
    "keep_order": Type("true or false", (bool,)),
    **dict.fromkeys(("options", "require", "read"), TABLE),
}
_READ_KEYS = {
    **dict.fromkeys(("delimiter", "encoding", "quote", "decimal"), TEXT),
    "na": Type("text or a list of texts", (str,), (str,)),
}


@dataclass(frozen=True)
class Run:
    """A whole run of ``microcell anonymize``; what is None was not given, and is left to the command line.

    Parameters
    ----------
    input, output, report, cells
        Files.
    schema
        A schema, or the file that holds one.
    k, method, seed, missing, dependence, keep_order
        As :func:`microcell.anonymize` takes them; ``keep_order`` leaves the rows of the output in their order.
    blocks
        Blocks of quasi-identifiers: how many columns each, or names such as "age,sex;home".
    options
        Options of the method.
    require
        Limits that the release is to meet, by measure, as :func:`microcell.anonymize` takes them.
    read
        How to read the input: delimiter, encoding, quote, decimal, na; only what was given.
    """

    input: Path | None = None
    output: Path | None = None
    schema: Path | Schema | None = None
    k: int | None = None
    method: str | None = None
    seed: int | None = None
    missing: str | None = None
    dependence: float | None = None
    blocks: int | str | None = None
    report: Path | None = None
    cells: Path | None = None
    keep_order: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    require: Mapping[str, float] = field(default_factory=dict)
    read: Mapping[str, Any] = field(default_factory=dict)


def load_run(path: str | Path) -> Run:
    """The run that the file ``path`` holds, its paths taken from the file's folder.

    Raises :class:`TableError` if the file cannot be read, :class:`OptionError` if it is no run, and
    :class:`SchemaError` if its inline schema is wrong.
    """
    return run_from_toml(read_text(path), source=str(path), folder=Path(path).parent)


def run_from_toml(text: str, *, source: str = "run", folder: Path = Path()) -> Run:
    """The run that ``text`` describes, its paths taken from ``folder``; errors call it ``source``.

    Examples
    --------
    >>> run = run_from_toml('config_version = 1\\nk = 5\\ninput = "people.csv"', folder=Path("study"))
    >>> run.k, run.input.as_posix(), run.method
    (5, 'study/people.csv', None)
    """
    place = Place(source, OptionError)
    given = parse(place, text)
    check_version(place, given, "config_version")
    check_keys(place, given, _RUN_KEYS)
    check_choice(place, given, "missing", ("error", "drop", "impute"))
    del given["config_version"]
    if isinstance(given.get("schema"), dict):
        given["schema"] = schema_of(Place(source, SchemaError, ("schema",)), {"schema_version": 1} | given["schema"])
    for name in ("input", "output", "schema", "report", "cells"):
        if isinstance(given.get(name), str):
            given[name] = folder / given[name]
    options, read = given.get("options", {}), given.get("read", {})
    require = _limits(place.inside("require"), given.get("require", {}))
    check_keys(place.inside("options"), options, dict.fromkeys(options, OPTION))
    check_keys(place.inside("read"), read, _READ_KEYS)
    if isinstance(read.get("na"), str):
        read["na"] = [read["na"]]
    return Run(**{**given, "options": frozen(options), "require": require, "read": frozen(read)})


def _limits(place: Place, table: Mapping[str, Any]) -> dict[str, float]:
    """The limits by measure. Bare keys such as t_closeness.disease are tables to TOML, and come apart again here."""
    out: dict[str, float] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            check_keys(place.inside(name), value, dict.fromkeys(value, NUMBER))
            limits = {f"{name}.{column}": limit for column, limit in value.items()}
        else:
            check_keys(place, {name: value}, {name: NUMBER})
            limits = {name: value}
        if out.keys() & limits.keys():
            raise place.wrong(name, "gives a second limit for the same measure; give one")
        out |= limits
    return out


def run_to_toml(run: Run) -> str:
    """The run as TOML text: what is given of it, paths as they are.

    Examples
    --------
    >>> print(run_to_toml(Run(k=5, method="vmdav", options={"gamma": 0.2})))
    config_version = 1
    k = 5
    method = "vmdav"
    <BLANKLINE>
    [options]
    gamma = 0.2
    <BLANKLINE>
    """
    return "\n".join((*_run_lines(run), ""))


def _run_lines(run: Run) -> Iterator[str]:
    yield "config_version = 1"
    tables = {"options": run.options, "require": run.require, "read": run.read}
    for item in fields(run):
        value = getattr(run, item.name)
        if item.name not in tables and value is not None and not isinstance(value, Schema):
            yield assign(item.name, value)
    for name, table in tables.items():
        if table:
            yield from ("", header(name), *(assign(key, value) for key, value in table.items()))
    if isinstance(run.schema, Schema):
        yield from ("", header("schema"), *schema_lines(run.schema, {}, ("schema",)))
