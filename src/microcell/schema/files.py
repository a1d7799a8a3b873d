"""Schemas and whole runs as TOML text, and back."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from microcell.errors import MicrocellError, OptionError, SchemaError, TableError
from microcell.model import Column, Schema

__all__ = [
    "NUMBER",
    "OPTION",
    "TABLE",
    "TEXT",
    "WHOLE",
    "Place",
    "Run",
    "Type",
    "assign",
    "check_choice",
    "check_keys",
    "check_version",
    "frozen",
    "header",
    "key_text",
    "load_run",
    "load_schema",
    "parse",
    "read_text",
    "run_from_toml",
    "run_to_toml",
    "schema_from_toml",
    "schema_lines",
    "schema_of",
    "schema_to_toml",
    "value_text",
]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_POSITION = re.compile(r"at (line \d+, column \d+|end of document)")


@dataclass(frozen=True)
class Type:
    """What a key may hold: in words, as types, and as types of the items of a list."""

    words: str
    types: tuple[type, ...]
    items: tuple[type, ...] = ()

    def fits(self, value: Any) -> bool:
        """True if ``value``, as the parser gives it, may stand here; a truth value is no whole number."""
        if isinstance(value, list):
            return bool(self.items) and all(type(item) in self.items for item in value)
        return type(value) in self.types


TEXT = Type("text", (str,))
WHOLE = Type("a whole number", (int,))
NUMBER = Type("a number", (int, float))
TABLE = Type("a table", (dict,))
_PLAIN = (str, bool, int, float)
OPTION = Type("text, a number, true or false, or a list of these", _PLAIN, _PLAIN)
_TYPE_NAMES = {
    bool: "true or false",
    int: WHOLE.words,
    float: "a decimal number",
    str: "text",
    dict: TABLE.words,
}


@dataclass(frozen=True)
class Place:
    """A table of a file, for errors to name, and the error to raise about it."""

    source: str
    error: type[MicrocellError]
    path: tuple[str, ...] = ()

    def inside(self, name: str) -> "Place":
        """The table of that name in this one."""
        return replace(self, path=(*self.path, name))

    def key(self, name: str) -> str:
        """The key ``name`` of this table, with the tables it is in."""
        return ".".join(key_text(part) for part in (*self.path, name))

    def wrong(self, name: str, what: str) -> MicrocellError:
        """An error about the key ``name`` of this table."""
        return self.error(f"{self.source}: {self.key(name)} {what}.")


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file; :class:`TableError` if it cannot be read."""
    try:
        # The signature that some editors put first is no part of the text.
        return Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise TableError(f"No file {str(path)!r}. Check the path.") from None
    except OSError as error:
        raise TableError(f"Cannot read {str(path)!r}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise TableError(
            f"{str(path)!r} is not UTF-8 text at byte {error.start + 1}. Save it as UTF-8."
        ) from None


def parse(place: Place, text: str) -> dict[str, Any]:
    """The text as plain data; refused, without quoting it, if it is no TOML."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # The parser's own words may quote the file, and an order in it holds categories of the table.
        where = _POSITION.search(str(error))
        raise place.error(
            f"{place.source}: not valid TOML{' ' + where[0] if where else ''}. Check quotes and brackets there, and "
            "that no key or table stands twice."
        ) from None


def check_version(place: Place, table: Mapping[str, Any], name: str) -> None:
    """Refuse a table without a version, or with one that is not known yet."""
    if name not in table:
        raise place.wrong(name, f"is missing; write {name} = 1 as the first line")
    version = table[name]
    if not WHOLE.fits(version) or version < 1:
        raise place.wrong(name, "must be 1")
    if version > 1:
        raise place.wrong(
            name, f"is {version}, but this microcell reads version 1; install a newer microcell"
        )


def check_keys(place: Place, table: Mapping[str, Any], known: Mapping[str, Type]) -> None:
    """Refuse a key that is not known, and one that holds what it may not."""
    for name, value in table.items():
        if name not in known:
            near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}" if near else ""
            raise place.wrong(name, f"is not a known key{hint}; known are {', '.join(known)}")
        if not known[name].fits(value):
            given = (
                "this list"
                if isinstance(value, list)
                else _TYPE_NAMES.get(type(value), "a date or time")
            )
            raise place.wrong(name, f"must be {known[name].words}, not {given}")


def check_choice(place: Place, table: Mapping[str, Any], name: str, choices: Iterable[str]) -> None:
    """Refuse a word that is none of the choices."""
    if name in table and table[name] not in choices:
        raise place.wrong(name, f"must be one of {', '.join(choices)}, not {table[name]!r}")


def frozen(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with tuples for its lists."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in table.items()
    }


def header(*names: str) -> str:
    """The line above a table."""
    return f"[{'.'.join(key_text(name) for name in names)}]"


def assign(name: str, value: Any) -> str:
    """The line that gives a key its value."""
    return f"{key_text(name)} = {value_text(value)}"


def key_text(name: str) -> str:
    """The name as a key, in quotes where it needs them."""
    return name if _BARE_KEY.fullmatch(name) else value_text(name)


def value_text(value: Any) -> str:
    """The value as TOML has it."""
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    raise OptionError(
        f"A {type(value).__name__} cannot stand in a TOML file; use text, numbers, true, false or lists."
    )


def _quoted(text: str) -> str:
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise SchemaError(
            "A name or path holds half a surrogate pair, which no text file can hold. Rename it."
        )
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


_WRITERS: dict[type | tuple[type, ...], Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    float: float.__repr__,
    str: _quoted,
    Path: lambda value: _quoted(value.as_posix()),
    (tuple, list): lambda value: f"[{', '.join(map(value_text, value))}]",
}
"""How each type is written; the first that fits, so truth values come before the whole numbers they are in Python."""


_ROLES = ("quasi", "confidential", "strata", "keep", "drop", "weight")
_FIELD_OF_ROLE = {"identifier": "identifiers"} | {role: role for role in _ROLES}
"""The roles as a file names them, in the order of a schema's roles, and the field of :class:`Schema` for each."""

_DETAILED = ("quasi", "confidential")
"""The roles of which a schema tells more than the name."""

_Noun = TypeVar("_Noun", Schema, Column)

_SCHEMA_KEYS = {"schema_version": WHOLE, "rest": TEXT, "columns": TABLE}
_COLUMN_KEYS = {
    **dict.fromkeys(("role", "kind", "publish"), TEXT),
    "weight": NUMBER,
    "order": Type("a list of texts or whole numbers", (), (str, int)),
    **dict.fromkeys(("latitude", "longitude"), TEXT),
}


def load_schema(path: str | Path) -> Schema:
    """The schema that the file ``path`` holds.

    Raises :class:`TableError` if the file cannot be read, and :class:`SchemaError` if it is no schema.
    """
    return schema_from_toml(read_text(path), source=str(path))


def schema_from_toml(text: str, *, source: str = "schema") -> Schema:
    """The schema that ``text`` describes; errors call it ``source``.

    Examples
    --------
    >>> schema = schema_from_toml('''
    ... schema_version = 1
    ... [columns.age]
    ... role = "quasi"
    ... publish = "range"
    ... ''')
    >>> schema.quasi[0].publish
    'range'
    """
    place = Place(source, SchemaError)
    return schema_of(place, parse(place, text))


def schema_to_toml(schema: Schema, *, comments: Mapping[str, str] | None = None) -> str:
    """The schema as TOML text, columns in the order of their roles, with a comment above each that ``comments`` names.

    Examples
    --------
    >>> print(schema_to_toml(Schema(quasi=["age"]), comments={"age": "named like an age"}))
    schema_version = 1
    rest = "error"  # columns not named below: error, keep or drop
    <BLANKLINE>
    # named like an age
    [columns.age]
    role = "quasi"
    <BLANKLINE>
    """
    return "\n".join((*schema_lines(schema, comments or {}), ""))


def schema_of(place: Place, table: Mapping[str, Any]) -> Schema:
    """The schema that a table of a file describes."""
    check_version(place, table, "schema_version")
    check_keys(place, table, _SCHEMA_KEYS)
    check_choice(place, table, "rest", ("error", "keep", "drop"))
    columns = place.inside("columns")
    roles: dict[str, list[Any]] = {name: [] for name in _FIELD_OF_ROLE.values()}
    for name, entry in table.get("columns", {}).items():
        if not isinstance(entry, dict):
            raise columns.wrong(
                name,
                f'must be a table, such as [columns.{key_text(name)}] with role = "quasi" below',
            )
        role = _role_of(columns.inside(name), entry)
        roles[_FIELD_OF_ROLE[role]].append(
            _column_of(place, name, entry) if role in _DETAILED else name
        )
    weights = roles.pop("weight")
    if len(weights) > 1:
        raise columns.wrong(
            weights[1], f"is a second weight, after {columns.key(weights[0])}; a schema has one"
        )
    return _built(
        place, Schema, **roles, weight=next(iter(weights), None), rest=table.get("rest", "error")
    )


def _role_of(place: Place, entry: Mapping[str, Any]) -> str:
    check_keys(place, entry, _COLUMN_KEYS)
    if "role" not in entry:
        raise place.wrong("role", f"is missing; choose one of {', '.join(_FIELD_OF_ROLE)}")
    check_choice(place, entry, "role", _FIELD_OF_ROLE)
    role: str = entry["role"]
    more = [name for name in entry if name != "role"]
    if more and role not in _DETAILED:
        roles = " or ".join(_DETAILED)
        raise place.wrong(
            more[0], f"is for the role {roles}, and this column's role is {role}; leave it out"
        )
    return role


def _column_of(place: Place, name: str, entry: Mapping[str, Any]) -> Column:
    given = frozen({key: value for key, value in entry.items() if key != "role"})
    try:
        return _built(place, Column, name=name, **given)
    except OverflowError:
        raise (
            place.inside("columns").inside(name).wrong("weight", "is too large for a number")
        ) from None


def _built(place: Place, noun: Callable[..., _Noun], **given: Any) -> _Noun:
    try:
        return noun(**given)
    except SchemaError as error:
        raise SchemaError(f"{place.source}: {error}") from None


def schema_lines(
    schema: Schema, comments: Mapping[str, str], prefix: tuple[str, ...] = ()
) -> Iterator[str]:
    """The lines of a schema, the tables of its columns within those of ``prefix``."""
    yield "schema_version = 1"
    yield f"rest = {value_text(schema.rest)}  # columns not named below: error, keep or drop"
    for column, role in _entries(schema):
        yield ""
        for comment in dict.fromkeys(
            comments[name] for name in (column.name, *column.parts) if name in comments
        ):
            printable = (character if character.isprintable() else " " for character in comment)
            yield f"# {' '.join(''.join(printable).split())}"
        yield header(*prefix, "columns", column.name)
        yield assign("role", role)
        for item in fields(column)[1:]:
            value = getattr(column, item.name)
            if value != item.default:
                yield assign(item.name, float(value) if item.name == "weight" else value)


def _entries(schema: Schema) -> Iterator[tuple[Column, str]]:
    for role, name in _FIELD_OF_ROLE.items():
        given = getattr(schema, name)
        for item in (given,) if isinstance(given, str) else given or ():
            yield item if isinstance(item, Column) else Column(item), role


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
        given["schema"] = schema_of(
            Place(source, SchemaError, ("schema",)), {"schema_version": 1} | given["schema"]
        )
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
