"""Results as data frames: pandas if it is installed, otherwise polars."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["make_frame"]


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
