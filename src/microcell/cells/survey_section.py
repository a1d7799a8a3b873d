"""The survey section of a cells file: expected participation and failure probabilities."""

import json
from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any

import numpy as np

from microcell.errors import DataError
from microcell.model import Integers

__all__ = ["FAILURE_OF", "FIGURES", "TRUST", "read_survey_section"]

TRUST = ("local", "none")
"""Whom respondents trust: their own device, or nobody."""

FIGURES = ("table_failure", "unprotected", "record_failure", "participant_failure")
"""Failure probabilities of the whole table, one number each."""

FAILURE_OF = ("cell", "participant")
"""What the failure limit applies to."""

_CONDITIONAL = {"failure_of", "conditional_failures"}
"""Entries of files that state failure probabilities given participation."""

_MOST = "most_participants"
"""Entry of designs for an interval: expected participants at its upper end."""

_WAVE = "wave"
"""Entry of the cells of a further wave: the digest of the cells before, and whether answers may
have to be suppressed."""

_FIELDS = {"k", "failure", "trust", "participation", "cell_failures", *FIGURES}


def read_survey_section(section: Any, sizes: Integers) -> Mapping[str, Any]:
    """Check the form of a survey section and return it as it would be read back from a file.

    Whether the figures are correct is checked elsewhere.

    Examples
    --------
    >>> section = {"k": 2, "failure": 0.6, "trust": "local", "participation": {"common": 0.5},
    ...     "cell_failures": [0.5], "table_failure": 0.5, "unprotected": 1.0,
    ...     "record_failure": 0.25, "participant_failure": 0.5}
    >>> read_survey_section(section, np.array([2]))["participation"]
    {'common': 0.5}
    """
    if not isinstance(section, Mapping) or set(section) - {_MOST, _WAVE} not in (
        _FIELDS,
        _FIELDS | _CONDITIONAL,
    ):
        raise DataError(
            f"The survey section of cells must have the entries {', '.join(sorted(_FIELDS))}.",
            code="data.invalid",
            entry="survey",
        )
    try:
        plain = json.loads(json.dumps(dict(section), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise DataError(
            "The survey section of cells may contain only finite numbers, text and lists.",
            code="data.invalid",
            entry="survey",
        ) from None
    for name, valid in _check_entries(plain, sizes).items():
        if not valid:
            raise DataError(
                f"Entry {name!r} of the survey section is invalid; docs/cells.md describes it.",
                code="data.invalid",
                entry=name,
            )
    return MappingProxyType(plain)


def _check_entries(section: Mapping[str, Any], sizes: Integers) -> dict[str, bool]:
    return {
        "k": type(section["k"]) is int and section["k"] >= 2,
        "failure": _is_real(section["failure"]) and 0 < section["failure"] < 1,
        "trust": section["trust"] in TRUST,
        "participation": _is_participation(section["participation"], sizes),
        "cell_failures": _is_failures(section["cell_failures"], sizes),
        "failure_of": section.get("failure_of", "cell") in FAILURE_OF,
        "conditional_failures": "failure_of" not in section
        or _is_failures(section["conditional_failures"], sizes),
        _WAVE: _WAVE not in section or _is_wave(section[_WAVE]),
        _MOST: _is_real(section.get(_MOST, 0)) and section.get(_MOST, 0) >= 0,
        **{name: _is_real(section[name]) and section[name] >= 0 for name in FIGURES},
    }


def _is_wave(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"after", "suppress"}
        and isinstance(value["after"], str)
        and isinstance(value["suppress"], bool)
    )


def _is_failures(value: Any, sizes: Integers) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(sizes)
        and all(_is_real(entry) and 0 <= entry <= 1 for entry in value)
    )


def _is_participation(value: Any, sizes: Integers) -> bool:
    """Return whether this is one common probability, or (probability, count) pairs per cell."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    if "common" in value:
        return _is_probability(value["common"])
    cells = value.get("cells")
    return (
        isinstance(cells, list)
        and len(cells) == len(sizes)
        and all(_is_counted(pairs, size) for pairs, size in zip(cells, sizes.tolist(), strict=True))
    )


def _is_counted(pairs: Any, size: int) -> bool:
    """Return whether these are ascending (probability, count) pairs that add up to the size."""
    if not isinstance(pairs, list):
        return False
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        return False
    if not all(_is_probability(p) and type(count) is int and count >= 1 for p, count in pairs):
        return False
    probabilities = np.array([p for p, _ in pairs], dtype=np.float64)
    ascending = bool((np.diff(probabilities) > 0).all())
    return ascending and sum(count for _, count in pairs) == size


def _is_probability(value: Any) -> bool:
    return _is_real(value) and 0 < value <= 1


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)
