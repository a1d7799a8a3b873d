"""TOML with a form: what a key may hold, errors that name the key, and text that reads back as it was."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from microcell.errors import MicrocellError, OptionError, SchemaError, TableError

__all__ = [
    "NUMBER",
    "OPTION",
    "TABLE",
    "TEXT",
    "WHOLE",
    "Place",
    "Type",
    "assign",
    "check_choice",
    "check_keys",
    "check_version",
    "frozen",
    "header",
    "key_text",
    "parse",
    "read_text",
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
_TYPE_NAMES = {bool: "true or false", int: WHOLE.words, float: "a decimal number", str: "text", dict: TABLE.words}


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
        raise TableError(f"{str(path)!r} is not UTF-8 text at byte {error.start + 1}. Save it as UTF-8.") from None


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
        raise place.wrong(name, f"is {version}, but this microcell reads version 1; install a newer microcell")


def check_keys(place: Place, table: Mapping[str, Any], known: Mapping[str, Type]) -> None:
    """Refuse a key that is not known, and one that holds what it may not."""
    for name, value in table.items():
        if name not in known:
            near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}" if near else ""
            raise place.wrong(name, f"is not a known key{hint}; known are {', '.join(known)}")
        if not known[name].fits(value):
            given = "this list" if isinstance(value, list) else _TYPE_NAMES.get(type(value), "a date or time")
            raise place.wrong(name, f"must be {known[name].words}, not {given}")


def check_choice(place: Place, table: Mapping[str, Any], name: str, choices: Iterable[str]) -> None:
    """Refuse a word that is none of the choices."""
    if name in table and table[name] not in choices:
        raise place.wrong(name, f"must be one of {', '.join(choices)}, not {table[name]!r}")


def frozen(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with tuples for its lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}


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
    raise OptionError(f"A {type(value).__name__} cannot stand in a TOML file; use text, numbers, true, false or lists.")


def _quoted(text: str) -> str:
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise SchemaError("A name or path holds half a surrogate pair, which no text file can hold. Rename it.")
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
