"""Check the options of the service and the locations of devices."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microcell.errors import DataError, OptionError
from microcell.model import Floats

__all__ = ["as_degrees", "check_options"]

MAX_K = 1_000_000_000
"""Largest k: more than any population of devices, and small enough for any database."""

_LIMITS: dict[str, tuple[float, float]] = {
    "share": (0.0, 10.0),
    "spare": (0.0, 1.0),
    "reach": (0.1, 20_000.0),
    "period": (0.05, 366 * 86_400.0),
}


def check_options(k: Any, colluders: Any, window: Any, **numbers: Any) -> None:
    """Raise OptionError if an option is invalid."""
    for name, value, low in (("k", k, 2), ("colluders", colluders, 0), ("window", window, 1)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise OptionError(f"{name} must be an integer.", code="option.wrong_type", option=name)
        if not low <= value <= MAX_K:
            raise OptionError(
                f"{name} must be between {low} and {MAX_K:,}.",
                code="option.out_of_range",
                option=name,
            )
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise OptionError(f"{name} must be a number.", code="option.wrong_type", option=name)
        low_end, high_end = _LIMITS[name]
        if not low_end <= value <= high_end or (name == "share" and value == 0):
            raise OptionError(
                f"{name} must be between {low_end:g} and {high_end:g}.",
                code="option.out_of_range",
                option=name,
            )


def as_degrees(latitudes: ArrayLike, longitudes: ArrayLike) -> Floats:
    """Return checked latitudes and longitudes as two rows. Errors do not show the values."""
    rows = [_check_degrees("latitude", latitudes, 90), _check_degrees("longitude", longitudes, 180)]
    if len(rows[0]) != len(rows[1]):
        raise DataError(
            f"There must be one longitude per latitude, not {len(rows[1])} for {len(rows[0])}.",
            code="data.invalid",
            column="longitude",
        )
    return np.stack(rows)


def _check_degrees(name: str, degrees: ArrayLike, limit: int) -> Floats:
    try:
        values = np.asarray(degrees)
    except ValueError:
        values = np.empty((0, 0))
    if values.ndim != 1 or (values.dtype.kind not in "iuf" and values.size > 0):
        raise DataError(
            f"{name} must be a number between -{limit} and {limit}.",
            code="data.not_a_number",
            column=name,
        )
    numbers = values.astype(np.float64)
    wrong = np.flatnonzero(~(np.abs(numbers) <= limit))
    if len(wrong):
        where = f" Row {wrong[0] + 1} is the first of {len(wrong)} outside that range."
        raise DataError(
            f"{name} must be between -{limit} and {limit}.{where if len(numbers) > 1 else ''}",
            code="data.out_of_range",
            column=name,
            row=int(wrong[0]) + 1,
        )
    return numbers
