"""Results as data frames: pandas if it is installed, otherwise polars."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["frame_of_rows", "make_frame"]


def make_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Build a data frame from columns.

    Examples
    --------
    >>> make_frame({"name": ["k"], "value": [5]}).shape
    (1, 2)
    """
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError:
        import polars as pl  # noqa: PLC0415

        return pl.DataFrame(dict(columns), strict=False)
    return pd.DataFrame(dict(columns))


def frame_of_rows(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Build a data frame from rows with the same names.

    Examples
    --------
    >>> frame_of_rows([{"k": 5, "loss": 0.1}, {"k": 10, "loss": 0.2}]).shape
    (2, 2)
    """
    return make_frame({name: [row[name] for row in rows] for name in (rows[0] if rows else ())})
