"""Groups of values, computed from the schema alone: what a cell must publish for its members."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import microcell as mc
from microcell.hierarchies import Taxonomy

__all__ = ["is_grouped", "smallest_groups"]

MAX_SET = 3


def is_grouped(column: mc.Column) -> bool:
    """Return whether the column has a hierarchy or bands."""
    return column.hierarchy is not None or column.bands is not None


def smallest_groups(column: mc.Column, members: Sequence[Any]) -> set[str]:
    """Return the smallest group of the members of a cell, or the set of their values.

    Bands of numbers have two names: a column of whole numbers that was read as one of decimals has
    bands without their upper ends.
    """
    return {_smallest_group(column, members, whole=whole) for whole in (True, False)}


def _smallest_group(column: mc.Column, members: Sequence[Any], *, whole: bool) -> str:
    distinct = {_plain(value) for value in members}
    if not is_grouped(column):
        return " or ".join(sorted(distinct))
    paths = [_path(column, value, whole=whole) for value in members]
    if column.publish == "set" and len(distinct) > 1:
        lowest = {path[1] for path in paths} if column.bands else distinct
        if len(lowest) <= MAX_SET and "*" not in lowest:
            return " or ".join(sorted(lowest))
    shared = set(paths[0]).intersection(*paths)
    return next(label for label in paths[0] if label in shared)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _path(column: mc.Column, value: Any, *, whole: bool) -> list[str]:
    """Return a value and its groups, the smallest first."""
    if column.bands:
        bands = [_band(value, width, whole=whole) for width in column.bands]
        return [str(value), *(label for label in bands if label != str(value)), "*"]
    assert isinstance(column.hierarchy, Taxonomy)
    rows = column.hierarchy.rows
    row = next(row for row in rows if row[0] == value)
    tops = {path[-1] for path in rows}
    return [*row, *(["*"] if len(tops) > 1 else [])]


def _band(value: Any, width: Any, *, whole: bool) -> str:
    if isinstance(value, date):
        quarter = (value.month + 2) // 3
        return {
            "month": f"{value:%Y-%m}",
            "quarter": f"{value.year}-Q{quarter}",
            "year": f"{value.year}",
            "decade": f"{value.year // 10}0s",
        }[str(width)]
    low = value - value % width
    high = low + width - 1 if whole else low + width
    return str(low) if low == high else f"{low}{' to ' if low < 0 else '-'}{high}"
