"""Numbers in text files with thousands separators and currency signs."""

import re

import polars as pl

from microcell._display import count

__all__ = ["ungroup"]

_CURRENCY = r"(?:[€$£¥]|EUR|USD|GBP|CHF|SEK|NOK|DKK|PLN|CZK)"
_DETECTED: tuple[tuple[str, str], ...] = ((".", ","), (",", "."), (" ", ","), ("'", "."))
"""Thousands separators and decimal separators that are recognized together."""

_SAMPLE_ROWS = 500


def ungroup(
    texts: pl.DataFrame, *, decimal: str, thousands: str | None
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Remove thousands separators and currency signs from columns in which all values are numbers.

    Without ``thousands`` (None), a column is changed only if it is unambiguous: some value has a
    thousands and a decimal separator. Other columns, such as dates and codes, are never changed.
    Returns the columns with ``decimal`` as the decimal separator, and a note on each change.

    Examples
    --------
    >>> table = pl.DataFrame({"cost": ["1.506,83", "12"], "day": ["12.05.2024", "1.234"]})
    >>> ungroup(table, decimal=".", thousands=None)[0].rows()
    [('1506.83', '12.05.2024'), ('12', '1.234')]
    """
    pairs = _DETECTED
    if thousands == "":
        return texts, ()
    if thousands is not None:
        pairs = (
            (thousands, "," if thousands == "." else decimal if decimal != thousands else "."),
        )
    changed: dict[str, pl.Series] = {}
    notes = []
    for separator, point in pairs:
        grouped = _pattern(separator, point, grouped=True)
        either = f"{grouped}|{_pattern(separator, point, grouped=False)}"
        shows = grouped
        if thousands is None:
            shows = rf"[0-9]{re.escape(separator)}[0-9]{{3}}{re.escape(point)}[0-9]"
        for named in texts:
            # Polars takes names such as ^a.*$ for patterns.
            name, column = named.name, named.alias("x")
            if name in changed or not _fits(column, either, shows):
                continue
            bare = column.str.replace_all(rf"{_CURRENCY}|\s|\x{{a0}}", "")
            bare = bare.str.replace_all(separator, "", literal=True)
            changed[name] = bare.str.replace(point, decimal, literal=True).alias(name)
            n_values = int(column.str.contains(grouped).sum())
            notes.append(
                f"Column {name!r}: {count(n_values, 'number')} with {separator!r} as the "
                "thousands separator."
            )
    return texts.with_columns(list(changed.values())), tuple(notes)


def _pattern(separator: str, point: str, *, grouped: bool) -> str:
    groups = rf"[1-9][0-9]{{0,2}}(?:{re.escape(separator)}[0-9]{{3}})+"
    whole = groups if grouped else r"(?:0|[1-9][0-9]*)"
    sign = rf"(?:{_CURRENCY}\s?)?"
    return rf"^\s*{sign}[-+]?{sign}{whole}(?:{re.escape(point)}[0-9]+)?(?:\s?{_CURRENCY})?\s*$"


def _fits(column: pl.Series, either: str, shows: str) -> bool:
    """Return whether all values are numbers and one of them shows the separators."""
    for part in (column.head(_SAMPLE_ROWS), column):
        if not part.str.contains(either).drop_nulls().all():
            return False
    return bool(column.str.contains(shows).any())
