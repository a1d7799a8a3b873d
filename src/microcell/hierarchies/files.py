"""Hierarchy files: one row per value, from the value to its largest group, as ARX writes them."""

import csv
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Any

from microcell._files import read_bytes
from microcell.errors import SchemaError, TableError
from microcell.hierarchies.bands import Bands, check_widths
from microcell.hierarchies.prefixes import PREFIXES, Prefixes
from microcell.hierarchies.taxonomy import Taxonomy

__all__ = [
    "BUNDLED",
    "Hierarchy",
    "as_hierarchy",
    "from_plain",
    "is_plain_hierarchy",
    "read_hierarchy",
    "write_hierarchy",
]

Hierarchy = Taxonomy | Bands | Prefixes
"""Both have ``path``, ``share``, ``height`` and ``root``."""

BUNDLED = {
    "countries": "Countries by ISO 3166-1 name, in UN subregions and regions",
    "countries2": "Countries by ISO 3166-1 alpha-2 code, in UN subregions and regions",
    "countries3": "Countries by ISO 3166-1 alpha-3 code, in UN subregions and regions",
    "icd10": "ICD-10 (2019) codes such as E11.9, in categories, blocks and chapters",
    "isco08": "ISCO-08 occupations by code, in minor, sub-major and major groups",
    "nuts": "NUTS regions by code, in larger regions and countries",
}
"""Hierarchies that come with the package: name and content."""

_DELIMITERS = ";,\t|"


def as_hierarchy(source: Any) -> Hierarchy:
    """Return a hierarchy from a name or path, a mapping from groups to values, or rows.

    Examples
    --------
    >>> as_hierarchy({"vowel": ["a", "e"], "consonant": ["b"]}).path("b")
    ('b', 'consonant', '*')
    """
    if isinstance(source, Hierarchy):
        return source
    if isinstance(source, (str, Path)):
        return read_hierarchy(source)
    if isinstance(source, Mapping):
        return Taxonomy.from_mapping(source)
    if isinstance(source, Iterable):
        rows = [row for row in source if isinstance(row, Iterable) and not isinstance(row, str)]
        return Taxonomy(tuple(map(tuple, rows)))
    raise SchemaError(
        "A hierarchy must be a file, the name of a bundled hierarchy "
        f"({', '.join(BUNDLED)}), rows of labels, or a mapping from groups to values.",
        code="schema.bad_hierarchy",
    )


def read_hierarchy(source: str | Path, *, folder: Path | None = None) -> Hierarchy:
    """Read a hierarchy: the name of a bundled one, or a file with one row per value.

    The delimiter (semicolon, comma, tab or vertical bar) is detected. A file has no header. A
    relative path is looked up in ``folder`` if that is given.

    Raises
    ------
    TableError
        The file cannot be read.
    SchemaError
        It is not a hierarchy. The error names the row.
    """
    if isinstance(source, str) and source in BUNDLED:
        return _bundled(source)
    path = Path(source) if folder is None else folder / source
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(
            f"{str(source)!r} is not UTF-8 text at byte {error.start + 1}. Save it as UTF-8.",
            code="table.bad_encoding",
            path=str(source),
            byte=error.start + 1,
        ) from None
    try:
        return Taxonomy(_parse(text), str(source))
    except SchemaError as error:
        raise SchemaError(f"{str(source)!r}: {error}", code=error.code, **error.details) from None


def write_hierarchy(hierarchy: Taxonomy) -> str:
    """Return the text of a hierarchy file, with every path as long as the longest one.

    Examples
    --------
    >>> write_hierarchy(Taxonomy((("a", "vowel"), ("b", "consonant"))))
    'a;vowel;*\\nb;consonant;*\\n'
    """
    paths = [hierarchy.path(row[0]) or row for row in hierarchy.rows if row]
    longest = max(map(len, paths))
    out = StringIO()
    writer = csv.writer(out, delimiter=";", lineterminator="\n")
    for path in paths:
        # A value without a group at some level is its own group there.
        writer.writerow((*(path[0],) * (longest - len(path)), *path))
    return out.getvalue()


@cache
def _bundled(name: str) -> Taxonomy | Prefixes:
    if name in PREFIXES:
        return PREFIXES[name]
    text = (files("microcell.hierarchies") / "data" / f"{name}.csv").read_text(encoding="utf-8")
    return Taxonomy(_parse(text), name, bundled=True)


def _parse(text: str) -> tuple[tuple[str, ...], ...]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return ()
    delimiter = max(_DELIMITERS, key=lambda mark: _support(lines, mark))
    return tuple(tuple(row) for row in csv.reader(lines, delimiter=delimiter))


def _support(lines: Iterable[str], delimiter: str) -> tuple[int, int]:
    """Return in how many lines the delimiter occurs, and how often in all."""
    counts = [line.count(delimiter) for line in lines]
    return sum(count > 0 for count in counts), sum(counts)


def is_plain_hierarchy(data: Any) -> bool:
    """Return whether plain data are null or a hierarchy, as ``as_plain`` returns it."""
    try:
        return data is None or bool(from_plain(data))
    except (SchemaError, TypeError, KeyError, ValueError):
        return False


def from_plain(data: Any) -> Hierarchy:
    """Return the hierarchy from what ``as_plain`` returned."""
    if isinstance(data, str):
        if data not in BUNDLED:
            raise ValueError("There is no bundled hierarchy of this name.")
        return _bundled(data)
    if isinstance(data, Mapping):
        widths, span, whole = data["widths"], data["span"], data["whole"]
        if check_widths(widths) or not isfinite(span) or len(data) > 3:
            raise ValueError("The bands are not valid.")
        return Bands(tuple(widths), float(span), bool(whole))
    return Taxonomy(tuple(tuple(str(label) for label in row) for row in data))
