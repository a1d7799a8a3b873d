"""Schemas as TOML text, and back."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from microcell.configuration._toml import (
    NUMBER,
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
    key_text,
    parse,
    read_text,
    value_text,
)
from microcell.errors import SchemaError
from microcell.model import Column, Schema

__all__ = ["load_schema", "schema_from_toml", "schema_lines", "schema_of", "schema_to_toml"]

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
            raise columns.wrong(name, f'must be a table, such as [columns.{key_text(name)}] with role = "quasi" below')
        role = _role_of(columns.inside(name), entry)
        roles[_FIELD_OF_ROLE[role]].append(_column_of(place, name, entry) if role in _DETAILED else name)
    weights = roles.pop("weight")
    if len(weights) > 1:
        raise columns.wrong(weights[1], f"is a second weight, after {columns.key(weights[0])}; a schema has one")
    return _built(place, Schema, **roles, weight=next(iter(weights), None), rest=table.get("rest", "error"))


def _role_of(place: Place, entry: Mapping[str, Any]) -> str:
    check_keys(place, entry, _COLUMN_KEYS)
    if "role" not in entry:
        raise place.wrong("role", f"is missing; choose one of {', '.join(_FIELD_OF_ROLE)}")
    check_choice(place, entry, "role", _FIELD_OF_ROLE)
    role: str = entry["role"]
    more = [name for name in entry if name != "role"]
    if more and role not in _DETAILED:
        roles = " or ".join(_DETAILED)
        raise place.wrong(more[0], f"is for the role {roles}, and this column's role is {role}; leave it out")
    return role


def _column_of(place: Place, name: str, entry: Mapping[str, Any]) -> Column:
    given = frozen({key: value for key, value in entry.items() if key != "role"})
    try:
        return _built(place, Column, name=name, **given)
    except OverflowError:
        raise place.inside("columns").inside(name).wrong("weight", "is too large for a number") from None


def _built(place: Place, noun: Callable[..., _Noun], **given: Any) -> _Noun:
    try:
        return noun(**given)
    except SchemaError as error:
        raise SchemaError(f"{place.source}: {error}") from None


def schema_lines(schema: Schema, comments: Mapping[str, str], prefix: tuple[str, ...] = ()) -> Iterator[str]:
    """The lines of a schema, the tables of its columns within those of ``prefix``."""
    yield "schema_version = 1"
    yield f"rest = {value_text(schema.rest)}  # columns not named below: error, keep or drop"
    for column, role in _entries(schema):
        yield ""
        for comment in dict.fromkeys(comments[name] for name in (column.name, *column.parts) if name in comments):
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
