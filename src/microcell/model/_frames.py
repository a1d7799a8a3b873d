"""Results as data frames: pandas if it is installed, otherwise polars."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["to_frame"]


def to_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a data frame with these rows, which must have the same keys.

    Examples
    --------
    >>> to_frame([{"k": 3, "loss": 0.1}, {"k": 5, "loss": 0.2}]).shape
    (2, 2)
    """
    names = list(rows[0]) if rows else []
    columns = {name: [row[name] for row in rows] for name in names}
    try:
        library = import_module("pandas")
    except ImportError:
        library = import_module("polars")
    return library.DataFrame(columns)
