"""Values that a spreadsheet program would run as formulas when it opens a text file."""

import re

import numpy as np

from microcell.model.table import Table

__all__ = ["count_formulas", "escape_text", "is_risky", "unescape_text"]

_STARTS = ("=", "+", "-", "@", "\t", "\r")
_SIGNED = r"[+-]?(?:\d[\d.,]*|[.,]\d+)(?:[eE][+-]?\d+)?"
_NUMBER = re.compile(rf"{_SIGNED}(?: to {_SIGNED})?")
"""A number, or a published range of numbers: neither is a formula."""


def is_risky(text: str) -> bool:
    """Return True if a spreadsheet program may interpret the text as a formula.

    Examples
    --------
    >>> [is_risky(text) for text in ("=1+1", "@SUM(A1)", "-2+3", "-5", "-5 to -1", "a=b")]
    [True, True, True, False, False, False]
    """
    return text.startswith(_STARTS) and _NUMBER.fullmatch(text) is None


def escape_text(text: str) -> str:
    """Put an apostrophe before a risky text, even if it already has apostrophes.

    Examples
    --------
    >>> escape_text("=1+1"), escape_text("'=1+1"), escape_text("a")
    ("'=1+1", "''=1+1", 'a')
    """
    return f"'{text}" if is_risky(text.lstrip("'")) else text


def unescape_text(text: str) -> str:
    """Undo :func:`escape_text`."""
    return text[1:] if text.startswith("'") and is_risky(text.lstrip("'")) else text


def count_formulas(table: Table) -> dict[str, int]:
    """Return the number of risky values of each column that has any; its name counts as one."""
    counts = {name: int(is_risky(name)) for name in table.names}
    texts = {name: item for name, item in table.columns.items() if item.storage == "text"}
    for name, values in texts.items():
        risky = np.array([is_risky(text) for text in values.categories], dtype=np.bool_)
        if risky.any():
            counts[name] += int(risky[values.data[~values.missing]].sum())
    return {name: count for name, count in counts.items() if count}
