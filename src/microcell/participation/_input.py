"""What the numbers of participation are given, checked in one place; values are never shown, rows are."""

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from microcell.errors import DataError, OptionError
from microcell.model import Floats, Integers

__all__ = ["as_chances", "as_labels", "check_chance", "check_count", "check_failure", "check_k", "is_number"]


def is_number(given: object) -> bool:
    """Whether one number was given and not several."""
    return isinstance(given, (Real, str, bytes)) or not hasattr(given, "__len__") or getattr(given, "ndim", 1) == 0


def check_k(k: object) -> int:
    """K, a whole number of 2 or more."""
    return check_count(k, "k", 2)


def check_count(given: object, name: str, least: int) -> int:
    """A whole number of ``least`` or more."""
    if isinstance(given, bool) or not isinstance(given, Integral) or int(given) < least:
        raise OptionError(f"{name} must be a whole number of {least} or more.")
    return int(given)


def check_chance(given: object) -> float:
    """One probability of taking part, for all: over 0, up to 1; sizes of cells must stay within floats."""
    given = given.item() if isinstance(given, np.ndarray) and given.ndim == 0 else given
    if isinstance(given, bool) or not isinstance(given, Real) or not 1e-300 <= float(given) <= 1:
        raise OptionError("participation must be a probability over 0 (1e-300) and up to 1, or one a candidate.")
    return float(given)


def check_failure(given: object) -> float:
    """The failure probability that is accepted: below 1, and so large that floats hold its digits."""
    if isinstance(given, bool) or not isinstance(given, Real) or not 1e-300 <= float(given) < 1:
        raise OptionError("failure must be a probability of 1e-300 or more, and under 1.")
    return float(given)


def as_chances(given: ArrayLike, name: str = "participation") -> Floats:
    """The probabilities of the candidates in float64, one each, each over 0 and up to 1."""
    message = f"{name} must be probabilities, one a candidate."
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):
        raise DataError(message) from None
    if array.size == 0 and array.ndim == 1:
        raise DataError(f"{name} must have at least one candidate.")
    if array.dtype.kind not in "fiu" or array.ndim != 1:
        raise DataError(message)
    out = np.ascontiguousarray(array, dtype=np.float64)
    wrong = ~((out > 0) & (out <= 1))
    if wrong.any():
        raise DataError(
            f"{name} must be over 0 and up to 1: row {int(wrong.argmax()) + 1} is not, the first of "
            f"{int(wrong.sum())} such. Leave out candidates who cannot take part."
        )
    return out


def as_labels(given: ArrayLike, rows: int) -> Integers:
    """Cell numbers of 0 or more, one a candidate."""
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or array.shape != (rows,) or (array < 0).any():
        raise OptionError(f"labels must be {rows} cell numbers of 0 or more, one a candidate.")
    return np.ascontiguousarray(array, dtype=np.int64)
