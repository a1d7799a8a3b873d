"""How large cells shall be: a number of records each, from k, from sizes or from probabilities."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from microcell.errors import OptionError, TooFewRecordsError
from microcell.model import Integers
from microcell.partitioning._input import as_reals, check_k

__all__ = ["as_targets", "equal_sizes"]


def equal_sizes(n: int, count: int) -> Integers:
    """Sizes of so many cells of n records in all, as equal as possible, the larger ones first."""
    return np.full(count, n // count) + (np.arange(count) < n % count)


def as_targets(n: int, k: Any, sizes: Any, probabilities: Any) -> Integers:
    """The size of each cell, checked: they are 1 or more and add up to n. One of the three must be given.

    Examples
    --------
    >>> as_targets(11, 3, None, None)
    array([4, 4, 3])
    >>> as_targets(10, None, None, [0.25, 0.75])
    array([3, 7])
    """
    given = [
        name for name, value in (("k", k), ("sizes", sizes), ("probabilities", probabilities)) if value is not None
    ]
    if len(given) != 1:
        raise OptionError(f"Give one of k, sizes and probabilities; given: {', '.join(given) or 'none'}.")
    if k is not None:
        check_k(k)
        if n < k:
            raise TooFewRecordsError(f"{n} records cannot make a cell of k = {k}. Lower k, or add records.")
        return equal_sizes(n, n // int(k))
    return _from_sizes(n, sizes) if sizes is not None else _from_probabilities(n, probabilities)


def _from_sizes(n: int, sizes: Any) -> Integers:
    values = list(np.asarray(sizes).ravel()) if np.ndim(sizes) == 1 else []
    if not values or not all(_is_whole(value) for value in values):
        raise OptionError("sizes must be whole numbers, one a cell, such as [40, 40, 20].")
    if any(abs(int(value)) > 2**62 for value in values):
        raise OptionError(f"sizes must add up to the {n} points; one is far larger.")
    out = np.array([int(value) for value in values], dtype=np.int64)
    if (out < 1).any():
        place = int(np.argmax(out < 1))
        raise OptionError(f"sizes must be 1 or more: that of cell {place} is {out[place]}. Leave empty cells out.")
    if len(out) > n:
        raise OptionError(f"{len(out)} cells are more than the {n} points.")
    if out.sum() != n:
        raise OptionError(f"sizes must add up to the {n} points; they add up to {out.sum()}.")
    return out


def _is_whole(value: Any) -> bool:
    return not isinstance(value, (bool, np.bool_)) and (
        isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    )


def _from_probabilities(n: int, probabilities: Any) -> Integers:
    """The sizes nearest to n times the probabilities that add up to n: the largest remainders are rounded up."""
    shares = as_reals(probabilities, "probabilities must be numbers, one a cell, such as [0.4, 0.4, 0.2].")
    if shares.ndim != 1 or len(shares) == 0 or not np.isfinite(shares).all() or (shares <= 0).any():
        raise OptionError("probabilities must be positive numbers, one a cell, such as [0.4, 0.4, 0.2].")
    if abs(shares.sum() - 1.0) > 1e-9:
        raise OptionError(f"probabilities must add up to 1; they add up to {shares.sum():.9g}.")
    exact = shares * n
    out = np.floor(exact + 1e-9).astype(np.int64)
    short = n - int(out.sum())
    out[np.argsort(out - exact, kind="stable")[:short]] += 1
    if (out < 1).any():
        place = int(np.argmax(out < 1))
        raise OptionError(f"Cell {place} would have none of the {n} points. Raise its probability, or add points.")
    return out
