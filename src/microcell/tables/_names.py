"""Column names: text, each once."""

from collections.abc import Iterable, Sequence
from typing import Any

from microcell.errors import TableError

__all__ = ["check_names", "positions_of_twins"]

_SHOWN = 6


def check_names(names: Sequence[Any]) -> None:
    """Nothing, if the names are text, not empty and each there once; :class:`TableError` else.

    The error gives positions and no names: in a file without a header the names are the first record's values.
    """
    if not names:
        raise TableError("The table has no columns. Give one with a column for each attribute.")
    for position, name in enumerate(names, start=1):
        if not isinstance(name, str):
            raise TableError(f"Column {position} has a name of type {type(name).__name__}. Give it a text name.")
        if not name.strip():
            raise TableError(
                f"Column {position} of {len(names)} has no name. Name it in the header, or remove it (a header that "
                "ends in a delimiter has one name too many)."
            )
    twins = positions_of_twins(names)
    if twins:
        each = "each " if len(twins) > 1 else ""
        raise TableError(
            f"{_listing(twins)} {each}have the same name. Rename all but one; if the file has no header, begin it with "
            "a line of column names."
        )


def positions_of_twins(names: Iterable[str]) -> list[list[int]]:
    """The positions, from 1, of each name that is there more than once.

    Examples
    --------
    >>> positions_of_twins(["age", "sex", "age"])
    [[1, 3]]
    """
    found: dict[str, list[int]] = {}
    for position, name in enumerate(names, start=1):
        found.setdefault(name, []).append(position)
    return [positions for positions in found.values() if len(positions) > 1]


def _listing(twins: list[list[int]]) -> str:
    """Columns 1 and 3, columns 2, 4 and 5."""
    groups = [f"columns {', '.join(map(str, positions[:-1]))} and {positions[-1]}" for positions in twins[:_SHOWN]]
    more = [f"{len(twins) - _SHOWN} more such groups"] if len(twins) > _SHOWN else []
    return "; ".join([*groups, *more]).capitalize()
