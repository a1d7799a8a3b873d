"""What the service is given, checked: options and places; refused without showing a value."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell.errors import DataError, OptionError
from microcell.model import Floats

__all__ = ["as_degrees", "check_options"]

MOST = 1_000_000_000
"""The largest k: more than there are devices anywhere, and a number that any database holds."""


def check_options(k: Any, share: Any, spare: Any) -> None:
    """Nothing, if the service can hold to them."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 2):
        raise OptionError("k must be a whole number of 2 or more.")
    if k is not None and k > MOST:
        raise OptionError(f"k must be at most {MOST:,}.")
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise OptionError("share must be a number above 0 and at most 1.")
    if isinstance(spare, bool) or not isinstance(spare, (int, float)) or not 0 <= spare <= 1:
        raise OptionError("spare must be a number of 0 or more and at most 1.")


def as_degrees(latitudes: ArrayLike, longitudes: ArrayLike) -> Floats:
    """Latitudes and longitudes as two rows of numbers, checked; refused without showing them."""
    rows = []
    for name, given, limit in (("latitude", latitudes, 90.0), ("longitude", longitudes, 180.0)):
        try:
            values = np.asarray(given)
        except ValueError:
            values = np.empty((0, 0))
        if values.ndim != 1 or (values.dtype.kind not in "iuf" and values.size > 0):
            raise DataError(f"{name} must be a number of degrees, from {-limit:g} to {limit:g}.")
        numbers = values.astype(np.float64)
        wrong = np.flatnonzero(~(np.abs(numbers) <= limit))
        if len(wrong):
            where = "" if len(numbers) == 1 else f" in row {wrong[0] + 1}, the first of {len(wrong)}"
            raise DataError(f"{name} must be a number of degrees, from {-limit:g} to {limit:g}: it is not{where}.")
        rows.append(numbers)
    if len(rows[0]) != len(rows[1]):
        raise DataError(f"There are {len(rows[0])} latitudes and {len(rows[1])} longitudes, expected as many.")
    return np.stack(rows)
