"""Column names: text, each once."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from microcell.errors import TableError

__all__ = ["check_names"]


def check_names(names: Sequence[Any]) -> None:
    """Nothing, if the names are text, not empty and each there once; :class:`TableError` naming the wrong ones else."""
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
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        listing = ", ".join(repr(name) for name in twice)
        raise TableError(f"Named more than once: column{'s' if len(twice) > 1 else ''} {listing}. Rename all but one.")
