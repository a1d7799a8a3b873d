"""Escape values that spreadsheet programs would run as formulas."""

from collections.abc import Callable
from pathlib import Path

import polars as pl

from microcell._files import TEXT_SUFFIXES
from microcell.errors import OptionError, TableError
from microcell.model import Table
from microcell.model.formulas import escape_text, is_risky, unescape_text
from microcell.tables.frames import to_polars, wrap

__all__ = ["check_escaping", "escape_formulas", "unescape_formulas"]


def check_escaping(table: Table, path: str | Path) -> None:
    """Raise an error if formulas cannot be escaped in this file."""
    suffix = Path(path).suffix.lower()
    if suffix not in TEXT_SUFFIXES:
        raise OptionError(
            f"escape_formulas applies only to {', '.join(TEXT_SUFFIXES)} files: text in {suffix} "
            "files is never run as a formula. Leave it out.",
            code="option.conflict",
            option="escape_formulas",
        )
    risky = [name for name in table.names if is_risky(name)]
    if risky:
        raise TableError(
            f"The name of column {risky[0]!r} begins like a formula, and names are not escaped. "
            "Rename the column.",
            code="table.bad_names",
            column=risky[0],
        )


def escape_formulas(table: Table) -> Table:
    """Return the table with an apostrophe before every text that looks like a formula.

    Examples
    --------
    >>> from microcell.tables import read
    >>> escaped = escape_formulas(read({"note": ["=1+1", "fine"], "change": [-5, 5]}))
    >>> escaped.columns["note"].categories
    ("'=1+1", 'fine')
    >>> unescape_formulas(escaped).columns["note"].categories
    ('=1+1', 'fine')
    """
    return _map_texts(table, escape_text)


def unescape_formulas(table: Table) -> Table:
    """Undo :func:`escape_formulas`."""
    return _map_texts(table, unescape_text)


def _map_texts(table: Table, change: Callable[[str], str]) -> Table:
    """Replace texts; columns without any that changes, and their types, stay as they are."""
    columns = []
    for name, values in table.columns.items():
        texts = values.categories if values.storage == "text" else ()
        changed = {text: change(text) for text in texts if change(text) != text}
        if changed:
            columns.append(pl.col(name).cast(pl.String).replace(changed))
    if not columns:
        return table
    return wrap(to_polars(table).with_columns(columns), table.origin)
