"""What cells of a survey state beside the cells: who is expected to take part, and how each cell may fail."""

import json
from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any

import numpy as np

from microcell.errors import DataError
from microcell.model import Integers

__all__ = ["FIGURES", "TRUST", "read_survey"]

TRUST = ("local", "none")
"""Whom respondents trust: their own device, or nobody."""

FIGURES = ("table_failure", "unprotected", "record_failure", "participant_failure")
"""The figures of the table, one number each."""

_FIELDS = {"k", "failure", "trust", "participation", "cell_failures", *FIGURES}


def read_survey(given: Any, sizes: Integers) -> Mapping[str, Any]:
    """The survey part as a file gives it back, if it has the right form; whether it is true is checked elsewhere.

    Examples
    --------
    >>> part = {"k": 2, "failure": 0.6, "trust": "local", "participation": {"common": 0.5}, "cell_failures": [0.5],
    ...     "table_failure": 0.5, "unprotected": 1.0, "record_failure": 0.25, "participant_failure": 0.5}
    >>> read_survey(part, np.array([2]))["participation"]
    {'common': 0.5}
    """
    if not isinstance(given, Mapping) or set(given) != _FIELDS:
        raise DataError(f"The survey part of cells has the entries {', '.join(sorted(_FIELDS))}.")
    try:
        plain = json.loads(json.dumps(dict(given), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise DataError("The survey part of cells must hold plain numbers, text and lists.") from None
    wrong = [name for name, holds in _holds(plain, sizes).items() if not holds]
    if wrong:
        raise DataError(f"In the survey part of cells, {wrong[0]!r} is not as it must be; docs/cells.md tells how.")
    return MappingProxyType(plain)


def _holds(plain: Mapping[str, Any], sizes: Integers) -> dict[str, bool]:
    """Whether each entry has its form."""
    failures = plain["cell_failures"]
    return {
        "k": type(plain["k"]) is int and plain["k"] >= 2,
        "failure": _is_real(plain["failure"]) and 0 < plain["failure"] < 1,
        "trust": plain["trust"] in TRUST,
        "participation": _is_participation(plain["participation"], sizes),
        "cell_failures": isinstance(failures, list)
        and len(failures) == len(sizes)
        and all(_is_real(value) and 0 <= value <= 1 for value in failures),
        **{name: _is_real(plain[name]) and plain[name] >= 0 for name in FIGURES},
    }


def _is_participation(given: Any, sizes: Integers) -> bool:
    """One number for all, or for each cell its values in ascending order with how many candidates have each."""
    if not isinstance(given, dict) or len(given) != 1:
        return False
    if "common" in given:
        return _is_chance(given["common"])
    cells = given.get("cells")
    return (
        isinstance(cells, list)
        and len(cells) == len(sizes)
        and all(_is_counted(pairs, size) for pairs, size in zip(cells, sizes.tolist(), strict=True))
    )


def _is_counted(pairs: Any, size: int) -> bool:
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        return False
    if not all(_is_chance(value) and type(count) is int and count >= 1 for value, count in pairs):
        return False
    values = np.array([value for value, _ in pairs], dtype=np.float64)
    return bool((np.diff(values) > 0).all()) and sum(count for _, count in pairs) == size


def _is_chance(value: Any) -> bool:
    return _is_real(value) and 0 < value <= 1


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)
