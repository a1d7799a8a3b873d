"""Schema files and run files: TOML, described and validated by pydantic models.

The models define the keys, their types and their documentation: the JSON Schemas in
``docs/reference`` and the tables in ``docs/reference/files.md`` are generated from them.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import tomlkit
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from microcell._display import record_html, record_repr
from microcell._files import read_bytes
from microcell.errors import MicrocellError, OptionError, SchemaError, TableError
from microcell.hierarchies import read_hierarchy
from microcell.kinds import KINDS
from microcell.model import Column, Schema
from microcell.model.manifest import ORDER_KEY_PATTERN
from microcell.model.schema import DOMINANCE

__all__ = [
    "ColumnEntry",
    "ReadOptions",
    "Run",
    "RunFile",
    "SchemaFile",
    "describe_type",
    "load_run",
    "load_schema",
    "run_from_toml",
    "run_to_toml",
    "schema_from_toml",
    "schema_to_toml",
]

Role = Literal["identifier", "person", "quasi", "confidential", "strata", "keep", "drop", "weight"]
_FIELD_OF_ROLE = {"identifier": "identifiers"} | {role: role for role in get_args(Role)[1:]}
"""The field of :class:`Schema` for each role, in the order of schema files."""

_DETAILED_ROLES = ("quasi", "confidential")
"""Roles whose columns may have keys other than ``role``."""

_Scalar = str | bool | int | float

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_POSITION = re.compile(r"at (line \d+, column \d+|end of document)")


class _FileModel(BaseModel):
    # Validators are built on first use, as most runs need few of them.
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


class ColumnEntry(_FileModel):
    """A column of a schema file: the table ``[columns.NAME]``."""

    role: Role = Field(description="Role of the column. Required.")
    kind: str | None = Field(
        default=None,
        description="Kind of the column; inferred from its type if omitted.",
        json_schema_extra={"enum": [*KINDS, None]},
    )
    publish: str | None = Field(
        default=None, description="Representative that a cell publishes; see the kinds."
    )
    weight: float = Field(
        default=1.0, description="Factor on the column's squared distances, above 0."
    )
    order: list[str | int] | None = Field(
        default=None, description="Categories of an ordinal column, lowest first."
    )
    latitude: str | None = Field(
        default=None, description="For a location: the column with the latitude in degrees."
    )
    longitude: str | None = Field(
        default=None, description="For a location: the column with the longitude in degrees."
    )
    hierarchy: str | list[list[str]] | dict[str, Any] | None = Field(
        default=None,
        description="Groups of the values: a file (value; group; larger group; …) relative to this "
        "one, the name of a bundled hierarchy, rows of labels, or a table from groups to values.",
    )
    bands: list[int | float | str] | None = Field(
        default=None,
        description='Groups of numbers, by width (`[5, 10, 20]`), or of dates (`["month", '
        '"year"]`).',
    )
    after: str | None = Field(
        default=None,
        description="For a date or number: the quasi-identifier that it must not precede when "
        "published, such as the admission for a discharge.",
    )
    difference_of: list[str] | None = Field(
        default=None,
        description="For a difference: the two quasi-identifiers, later and earlier, from whose "
        "published values it is computed. Differences of dates are in days.",
    )
    sum_of: list[str] | None = Field(
        default=None,
        description="For a total: the quasi-identifiers whose published values are added up.",
    )
    round: float | None = Field(
        default=None,
        description="For a confidential number: publish multiples of this step.",
    )
    top: float | None = Field(
        default=None, description="For a confidential number: publish larger values as this one."
    )
    bottom: float | None = Field(
        default=None, description="For a confidential number: publish smaller values as this one."
    )
    noise: float | None = Field(
        default=None,
        description="For a confidential number: add noise whose variance is this share of the "
        "column's; means, variances and covariances are kept.",
    )
    swap: float | None = Field(
        default=None,
        description="For a confidential number: exchange values whose ranks differ by at most this "
        "share of the records.",
    )
    most_false: float | None = Field(
        default=None,
        description="For a nominal quasi-identifier: largest share of a cell's members for whom "
        "its published mode may be false. Other cells publish a set, or a missing value.",
    )
    step: float | str | None = Field(
        default=None,
        description='With `publish = "range"`: resolution of the bounds, a number, or `"day"`, '
        '`"month"`, `"quarter"`, `"year"` or `"decade"` for dates.',
    )


class SchemaFile(_FileModel):
    """A schema file: the role and kind of each column of a table."""

    schema_version: Literal[1] = Field(description="Version of the file format: 1.")
    rest: Literal["error", "keep", "drop"] = Field(
        default="error", description="What to do with columns that are not listed."
    )
    dominance: list[int | float] = Field(
        default=list(DOMINANCE),
        description="Dominance rule `[n, p]`: the n heaviest members of a cell (by sampling "
        "weight, or by the rows of a person) count for at most the share p of its weight.",
    )
    person_cells: Literal["rows", "together"] = Field(
        default="rows",
        description="With a person column: whether the rows of a person may lie in different "
        "cells (`rows`) or share one (`together`).",
    )
    rows_are_people: bool = Field(
        default=False,
        description="States that every row is about a different person although no identifier is "
        "unique.",
    )
    columns: dict[str, ColumnEntry] = Field(
        default={},
        description="One table `[columns.NAME]` per column, or per pair of columns of a location.",
    )


class ReadOptions(_FileModel):
    """The table ``[read]`` of a run file: how to read a .csv, .tsv or .txt input."""

    delimiter: str | None = Field(default=None, description="Field delimiter.")
    encoding: str | None = Field(
        default=None, description="Text encoding, such as `utf-8` or `latin-1`."
    )
    quote: str | None = Field(
        default=None, description="Quote character; empty if fields are never quoted."
    )
    decimal: str | None = Field(default=None, description="Decimal separator: a point or a comma.")
    thousands: str | None = Field(
        default=None, description="Thousands separator: a point, comma, space or apostrophe."
    )
    sheet: str | int | None = Field(
        default=None, description="Name or number (from 1) of the sheet of a workbook."
    )
    skip_rows: int | None = Field(default=None, description="Rows above the column names to skip.")
    na: str | list[str] | None = Field(
        default=None, description="Texts that mark a missing value, besides the empty field."
    )


class RunFile(_FileModel):
    """A run file: all options of one ``microcell anonymize`` run."""

    config_version: Literal[1] = Field(description="Version of the file format: 1.")
    input: str | None = Field(
        default=None, description="Table to anonymize. Paths are relative to the run file."
    )
    output: str | None = Field(default=None, description="File to write the release to.")
    schema_: str | SchemaFile | None = Field(
        default=None,
        alias="schema",
        description="Path of a schema file, or a schema as table `[schema]`.",
    )
    k: int | None = Field(
        default=None, description="Minimum number of people per cell: of persons, or of records."
    )
    method: str | None = Field(default=None, description="Partitioning method.")
    seed: int | None = Field(default=None, description="Random seed.")
    order_key: str | None = Field(
        default=None,
        description="Key of the row order, to write the same file again: the path of an earlier "
        "manifest, or 32 hexadecimal digits. Keep it secret.",
    )
    missing: Literal["error", "drop", "impute"] | None = Field(
        default=None, description="How to handle records with missing quasi-identifiers."
    )
    suppress: float | str | None = Field(
        default=None,
        description="Share of the records that may be left out, those that cost most: `0.02` or "
        '`"2%"`.',
    )
    report: str | None = Field(default=None, description="File to write the report to.")
    cells: str | None = Field(default=None, description="File to write the cells to, for `assign`.")
    dependence: float | dict[str, float] | None = Field(
        default=None,
        description="Weight, from 0 to 1, of preserving the association between confidential "
        "columns and quasi-identifiers; or the weight of each column.",
    )
    regression: Literal["linear", "neighbours"] | None = Field(
        default=None,
        description="With dependence and cells: how confidential columns are predicted from "
        "quasi-identifiers.",
    )
    dominance: list[int | float] | None = Field(
        default=None, description="Dominance rule `[n, p]`; overrides that of the schema."
    )
    person: str | list[str] | None = Field(
        default=None,
        description="Column, or list of columns, that identifies people; overrides the schema.",
    )
    person_cells: Literal["rows", "together"] | None = Field(
        default=None,
        description="Whether the rows of a person may lie in different cells (`rows`) or share one "
        "(`together`); overrides the schema.",
    )
    rows_are_people: bool | None = Field(
        default=None,
        description="States that every row is about a different person; overrides the schema.",
    )
    blocks: int | str | None = Field(
        default=None,
        description='Blocks of quasi-identifiers: columns per block, or names: `"age,sex;home"`.',
    )
    keep_order: bool | None = Field(default=None, description="Keep the row order of the input.")
    escape_formulas: bool | None = Field(
        default=None,
        description="Put an apostrophe before texts that a spreadsheet program would run as "
        "formulas.",
    )
    options: dict[str, _Scalar | list[_Scalar]] = Field(
        default={}, description="Options of the method, as table `[options]`."
    )
    require: dict[str, float | dict[str, float]] = Field(
        default={},
        description="Limits that the release must meet, by measure, as table `[require]`.",
    )
    read: ReadOptions = Field(
        default_factory=ReadOptions, description="How to read the input, as table `[read]`."
    )


@dataclass(frozen=True)
class Run:
    """Options of one ``microcell anonymize`` run; None means not set.

    Parameters
    ----------
    input, output, report, cells
        Paths of files.
    schema
        A schema, or the path of a schema file.
    k, method, seed, order_key, missing, suppress, dependence, regression, dominance, keep_order
        As in :func:`microcell.anonymize`; ``keep_order`` keeps the row order of the input.
    person, person_cells, rows_are_people
        Override those of the schema.
    blocks
        Blocks of quasi-identifiers: columns per block, or names such as "age,sex;home".
    options
        Options of the method.
    require
        Limits that the release must meet, by measure.
    read
        Options for reading the input: delimiter, encoding, quote, decimal, na,
        thousands, sheet, skip_rows.
    """

    input: Path | None = None
    output: Path | None = None
    schema: Path | Schema | None = None
    k: int | None = None
    method: str | None = None
    seed: int | None = None
    order_key: str | Path | None = None
    missing: str | None = None
    suppress: float | str | None = None
    dependence: float | Mapping[str, float] | None = None
    regression: str | None = None
    dominance: Sequence[float] | None = None
    person: str | Sequence[str] | None = None
    person_cells: str | None = None
    rows_are_people: bool | None = None
    blocks: int | str | None = None
    report: Path | None = None
    cells: Path | None = None
    keep_order: bool | None = None
    escape_formulas: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    require: Mapping[str, float] = field(default_factory=dict)
    read: Mapping[str, Any] = field(default_factory=dict)

    __repr__ = record_repr
    _repr_html_ = record_html


def load_schema(path: str | Path) -> Schema:
    """Load a schema file.

    Raises :class:`TableError` if the file cannot be read, and :class:`SchemaError` if it is not a
    valid schema.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> text = 'schema_version = 1\\n[columns.age]\\nrole = "quasi"'
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "schema.toml")
    ...     _ = path.write_text(text)
    ...     load_schema(path).quasi[0].name
    'age'
    """
    return schema_from_toml(_read_text(path), source=str(path), folder=Path(path).parent)


def load_run(path: str | Path) -> Run:
    """Load a run file; paths in it are relative to its folder.

    Raises :class:`TableError` if the file cannot be read, :class:`OptionError` if it is not a valid
    run, and :class:`SchemaError` if its inline schema is not valid.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "run.toml")
    ...     _ = path.write_text('config_version = 1\\nk = 5\\ninput = "people.csv"')
    ...     run = load_run(path)
    >>> run.k, run.input.name
    (5, 'people.csv')
    """
    return run_from_toml(_read_text(path), source=str(path), folder=Path(path).parent)


def schema_from_toml(text: str, *, source: str = "schema", folder: Path = Path()) -> Schema:
    """Parse a schema; error messages call it ``source``, and files are relative to ``folder``.

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
    file = _File(source, SchemaError, folder=folder)
    return _schema(file, file.parse(text))


def schema_to_toml(schema: Schema, *, comments: Mapping[str, str] | None = None) -> str:
    """Format a schema as TOML, columns ordered by role, with an optional comment per column.

    Examples
    --------
    >>> print(schema_to_toml(Schema(quasi=["age"]), comments={"age": "Named like an age."}))
    schema_version = 1
    rest = "error" # columns that are not listed: error, keep or drop
    <BLANKLINE>
    [columns.age]
    # Named like an age.
    role = "quasi"
    <BLANKLINE>
    """
    document = tomlkit.document()
    document["schema_version"] = 1
    rest = tomlkit.item(schema.rest)
    document["rest"] = rest.comment("columns that are not listed: error, keep or drop")
    if schema.dominance != DOMINANCE:
        document["dominance"] = list(schema.dominance)
    for name in ("person_cells", "rows_are_people"):
        if getattr(schema, name) != getattr(Schema, name):
            document[name] = getattr(schema, name)
    tables = tomlkit.table(is_super_table=True)
    for column, role in _columns_with_roles(schema):
        table = tomlkit.table()
        for comment in _comments(column, comments or {}):
            table.add(tomlkit.comment(comment))
        table["role"] = role
        for key in fields(column)[1:]:
            value = getattr(column, key.name)
            if value != key.default and not (key.name == "hierarchy" and column.bands):
                table[key.name] = _as_toml(key.name, value)
        tables[column.name] = table
    if tables:
        document["columns"] = tables
    text = tomlkit.dumps(document)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SchemaError(
            "A column name or category contains an unpaired surrogate, which is not valid "
            "Unicode text. Rename it.",
            code="table.bad_names",
        ) from None
    return text.removesuffix("\n") + "\n"


def run_from_toml(text: str, *, source: str = "run", folder: Path = Path()) -> Run:
    """Parse a run file whose paths are relative to ``folder``; errors call it ``source``.

    Examples
    --------
    >>> text = 'config_version = 1\\nk = 5\\ninput = "people.csv"'
    >>> run = run_from_toml(text, folder=Path("study"))
    >>> run.k, run.input.as_posix(), run.method
    (5, 'study/people.csv', None)
    """
    file = _File(source, OptionError)
    content = file.parse(text)
    file.check_version(content, "config_version")
    schema: Any = content.get("schema")
    if isinstance(schema, dict):
        nested = _File(source, SchemaError, path=("schema",), folder=folder)
        schema = _schema(nested, {"schema_version": 1} | content.pop("schema"))
    parsed = file.validate(RunFile, content)
    values: dict[str, Any] = {item.name: getattr(parsed, item.name, None) for item in fields(Run)}
    values["schema"] = schema
    for name in ("input", "output", "schema", "report", "cells"):
        if isinstance(values[name], str):
            values[name] = folder / values[name]
    key = values["order_key"]
    if key is not None and not re.fullmatch(ORDER_KEY_PATTERN, key.lower()):
        values["order_key"] = folder / key
    read = parsed.read.model_dump(exclude_none=True)
    if isinstance(read.get("na"), str):
        read["na"] = [read["na"]]
    values["options"] = _with_tuples(parsed.options)
    values["require"] = _limits(file, parsed.require)
    values["read"] = _with_tuples(read)
    return Run(**values)


def run_to_toml(content: Mapping[str, Any]) -> str:
    """Format the content of a run file, as plain data, as TOML.

    Examples
    --------
    >>> print(run_to_toml({"k": 5, "input": "people.csv"}))
    config_version = 1
    k = 5
    input = "people.csv"
    <BLANKLINE>
    """
    return tomlkit.dumps({"config_version": 1, **content})


def describe_type(annotation: Any) -> str:
    """Describe the TOML values that a field accepts.

    Examples
    --------
    >>> describe_type(int | None), describe_type(str | list[str])
    ('a whole number', 'text or a list of texts')
    """
    if annotation in _PHRASES:
        return _PHRASES[annotation]
    if get_origin(annotation) is Literal:
        return _either([repr(item) for item in get_args(annotation)])
    if get_origin(annotation) in (Union, UnionType):
        members = [item for item in get_args(annotation) if item is not NoneType]
        return _either([describe_type(item) for item in members])
    return "a table"


_PHRASES: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list[str]: "a list of texts",
    list[int | float]: "a list of two numbers",
    list[str | int]: "a list of texts or whole numbers",
    list[int | float | str]: "a list of numbers or texts",
    list[list[str]]: "a list of rows of labels",
    _Scalar | list[_Scalar]: "text, a number, true or false, or a list of these",
    float | dict[str, float]: "a number",
}


def _either(choices: Sequence[str]) -> str:
    *first, last = choices
    return f"{', '.join(first)} or {last}" if first else last


@dataclass(frozen=True)
class _File:
    """A TOML file, or a table in it: its name for messages and the error class to raise."""

    source: str
    error: type[MicrocellError]
    path: tuple[str, ...] = ()
    folder: Path = Path()

    def invalid(self, key: Sequence[str], problem: str) -> MicrocellError:
        name = _key_text((*self.path, *key))
        message = f"{self.source}: {name} {problem}"
        return self.error(message, code="schema.bad_file", key=name, file=self.source)

    def parse(self, text: str) -> dict[str, Any]:
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            # The parser's message may quote the file, and an order contains values of the table.
            position = _POSITION.search(str(error))
            raise self.error(
                f"{self.source}: not valid TOML{' ' + position[0] if position else ''}. Check "
                "quotes and brackets there, and that no key or table appears twice.",
                code="schema.bad_file",
                file=self.source,
            ) from None

    def check_version(self, content: Mapping[str, Any], key: str) -> None:
        if key not in content:
            raise self.invalid([key], f"is missing. Add {key} = 1 as the first line.")
        version = content[key]
        if type(version) is int and version > 1:
            raise self.invalid(
                [key],
                f"is {version}, but this version of microcell supports only 1. Install a newer "
                "version.",
            )
        if type(version) is not int or version != 1:
            raise self.invalid([key], "must be 1.")

    def validate(self, model: type["_Model"], content: Mapping[str, Any]) -> "_Model":
        try:
            return model.model_validate(content)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
            unknown = (item for item in errors if item["type"] == "extra_forbidden")
            first = next(unknown, errors[0])  # A misspelled key explains a missing one.
            key = _existing_path(content, first["loc"])
            if first["type"] == "missing":
                key = (*key, str(first["loc"][-1]))
                problem = f"is missing. It must be {describe_type(_annotation(model, key))}."
            elif first["type"] == "extra_forbidden":
                problem = _unknown_key(key[-1], _known_keys(model, key[:-1]))
            else:
                problem = f"must be {describe_type(_annotation(model, key))}."
            raise self.invalid(key, problem) from None


_Model = TypeVar("_Model", bound=_FileModel)


def _existing_path(content: Any, location: Sequence[int | str]) -> tuple[str, ...]:
    """Return the part of the location that is in the file, without pydantic's union members."""
    path: list[str] = []
    for part in location:
        if not isinstance(content, Mapping) or part not in content:
            break
        path.append(str(part))
        content = content[part]
    return tuple(path)


def _annotation(annotation: Any, path: Sequence[str]) -> Any:
    """Return the annotation of the key at ``path``."""
    for part in path:
        is_union = get_origin(annotation) in (Union, UnionType)
        members = get_args(annotation) if is_union else (annotation,)
        models = [
            item for item in members if isinstance(item, type) and issubclass(item, BaseModel)
        ]
        if models:
            annotation = _fields_by_key(models[0])[part].annotation
        else:
            annotation = next(get_args(item)[1] for item in members if get_origin(item) is dict)
    return annotation


def _fields_by_key(model: type[BaseModel]) -> dict[str, Any]:
    return {item.alias or name: item for name, item in model.model_fields.items()}


def _known_keys(model: type[BaseModel], path: Sequence[str]) -> list[str]:
    annotation = _annotation(model, path)
    return list(_fields_by_key(annotation))


def _unknown_key(key: str, keys: Sequence[str]) -> str:
    near = get_close_matches(key.lower(), keys, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"is not a known key.{hint} Known keys: {', '.join(keys)}."


def _schema(file: _File, content: Mapping[str, Any]) -> Schema:
    file.check_version(content, "schema_version")
    parsed = file.validate(SchemaFile, content)
    roles: dict[str, list[str]] = {name: [] for name in _FIELD_OF_ROLE.values()}
    declared: dict[str, dict[str, Any]] = {}
    for name, entry in parsed.columns.items():
        details = {key: getattr(entry, key) for key in entry.model_fields_set if key != "role"}
        if details and entry.role not in _DETAILED_ROLES:
            raise file.invalid(
                ["columns", name, next(iter(details))],
                f"is not allowed for the role {entry.role}, only for "
                f"{' and '.join(_DETAILED_ROLES)}.",
            )
        if entry.role in _DETAILED_ROLES:
            declared[name] = _with_tuples(details)
        roles[_FIELD_OF_ROLE[entry.role]].append(name)
    weights = roles.pop("weight")
    if len(weights) > 1:
        raise file.invalid(
            ["columns", weights[1]],
            f"is a second weight column, after {_key_text(['columns', weights[0]])}. A schema can "
            "have only one.",
        )
    try:
        for details in declared.values():
            if isinstance(details.get("hierarchy"), str):
                details["hierarchy"] = read_hierarchy(details["hierarchy"], folder=file.folder)
        columns = {name: Column(name, **details) for name, details in declared.items()}
        fields: dict[str, Any] = {
            field: [columns.get(name, name) for name in names] for field, names in roles.items()
        }
        fields |= {
            name: getattr(parsed, name)
            for name in ("rest", "dominance", "person_cells", "rows_are_people")
        }
        return Schema(**fields, weight=weights[0] if weights else None)
    except SchemaError as error:
        message = f"{file.source}: {error}"
        raise SchemaError(message, code=error.code, **error.details) from None


def _limits(file: _File, table: Mapping[str, float | dict[str, float]]) -> dict[str, float]:
    """Return limits by measure; TOML parses keys such as ``t_closeness.disease`` as tables."""
    limits: dict[str, float] = {}
    for name, value in table.items():
        nested = value if isinstance(value, dict) else None
        added = (
            {name: value} if nested is None else {f"{name}.{key}": nested[key] for key in nested}
        )
        if limits.keys() & added.keys():
            raise file.invalid(["require", name], "sets a second limit for the same measure.")
        limits.update(added)  # type: ignore[arg-type]
    return limits


def _columns_with_roles(schema: Schema) -> Iterator[tuple[Column, str]]:
    for role, name in _FIELD_OF_ROLE.items():
        value = getattr(schema, name)
        for item in (value,) if isinstance(value, str) else value or ():
            yield item if isinstance(item, Column) else Column(item), role


def _comments(column: Column, comments: Mapping[str, str]) -> Iterator[str]:
    names = (column.name, *column.parts)
    for comment in dict.fromkeys(comments[name] for name in names if name in comments):
        printable = (character if character.isprintable() else " " for character in comment)
        yield " ".join("".join(printable).split())


def _with_tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in table.items()
    }


def _as_toml(key: str, value: Any) -> Any:
    if key in ("weight", "round", "top", "bottom", "noise", "swap", "most_false"):
        return float(value)
    if key == "hierarchy":
        return value.as_plain()
    return list(value) if isinstance(value, tuple) else value


def _key_text(path: Sequence[str]) -> str:
    return ".".join(part if _BARE_KEY.fullmatch(part) else f'"{part}"' for part in path)


def _read_text(path: str | Path) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig")  # Some editors add a signature.
    except UnicodeDecodeError as error:
        raise TableError(
            f"{str(path)!r} is not UTF-8 text at byte {error.start + 1}. Save it as UTF-8.",
            code="table.bad_encoding",
            path=str(path),
            byte=error.start + 1,
        ) from None
