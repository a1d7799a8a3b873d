"""Who a report is for, and what must be left out where anyone may read it.

What is public may be read by someone who has the published table, knows much of the original, and wants the rest. So
nothing goes out that shows an original value, or that would let one be worked out from the others: no picture of
records, no bounds of intervals (they begin and end at the original's extremes), no quantiles, no exact sum over
originals, no digest of the original to confirm guesses with, no word on the order of rows, and no free text.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from microcell.errors import OptionError
from microcell.model import Audit, Correlations, Measure
from microcell.reporting.glossary import GLOSSARY, base_of

__all__ = ["AUDIENCES", "check_audience", "trim_audit", "trim_manifest"]

AUDIENCES = ("internal", "public")

_DIGITS, _DECIMALS = 2, 3
"""Digits, and decimals at most, that the public sees of what rests on original values.

Digits alone would not do: two digits of a change of 0.0000012 tell an original mean to eight digits.
"""

_ENTRIES: Mapping[str, tuple[str, ...] | None] = {
    "manifest_version": None,
    "microcell": None,
    "created": None,
    "k": None,
    "method": ("asked", "used"),
    "missing": None,
    "records": ("in", "out", "dropped", "imputed"),
    "cells": ("count", "smallest", "largest"),
    "blocks": ("k", "jointly_k_anonymous"),
    "output": ("rows", "columns", "sha256", "sha256_of"),
}
"""What the public is told of a manifest: single entries, or the named ones of a part."""

_COLUMN = ("role", "kind", "publish")
_REMOVED = ("identifier", "drop")
_UNKNOWN = "The internal report says what this is."


def check_audience(audience: str) -> None:
    """Refuse an audience that is none."""
    if audience not in AUDIENCES:
        raise OptionError(f"No audience {audience!r}; choose one of {', '.join(AUDIENCES)}.")


def trim_audit(audit: Audit) -> Audit:
    """What the public may know of the audit: the release's own measures, and two digits of what rests on originals.

    Examples
    --------
    >>> from microcell.model import Measure
    >>> lost = Measure("distortion", 0.123456, "share", True, "Information lost.")
    >>> audit = Audit(("age",), 9, 9, {"distortion": lost}, np.array([3, 3, 3]), notes=("Row 7 was odd.",))
    >>> trim_audit(audit)["distortion"], trim_audit(audit).notes
    (0.12, ())
    """
    known = audit.linkage_by_known
    return replace(
        audit,
        measures={name: _trim_measure(measure) for name, measure in audit.measures.items()},
        notes=(),
        comparisons=(),
        projection=None,
        quantiles=(),
        correlations=None if audit.correlations is None else _trim_correlations(audit.correlations),
        linkage_by_known=None if known is None else np.array([_shorten(share) for share in known.tolist()]),
    )


def trim_manifest(manifest: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the public may know of the manifest: no seed, no digest of the original, no column that is not published.

    Examples
    --------
    >>> trim_manifest({"k": 5, "seed": 7, "input": {"sha256": "0f"}, "columns": {"name": {"role": "identifier"}}})
    {'k': 5, 'columns': {}}
    """
    if manifest is None:
        return None
    trimmed: dict[str, Any] = {}
    for name, parts in _ENTRIES.items():
        value = manifest.get(name)
        if parts is None and isinstance(value, (str, int)):
            trimmed[name] = value
        elif parts is not None and isinstance(value, Mapping):
            trimmed[name] = _pick(value, parts)
    columns = manifest.get("columns")
    if isinstance(columns, Mapping):
        trimmed["columns"] = {
            name: _pick(facts, _COLUMN)
            for name, facts in columns.items()
            if isinstance(facts, Mapping) and facts.get("role") not in _REMOVED
        }
    return trimmed


def _pick(part: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: part[name] for name in names if isinstance(part.get(name), (str, int))}


def _trim_measure(measure: Measure) -> Measure:
    entry = GLOSSARY.get(base_of(measure.name))
    if entry is not None and entry.exact:
        return measure
    interval = measure.interval and (_shorten(measure.interval[0]), _shorten(measure.interval[1]))
    # The sentence of a measure may tell more than its number; that of the glossary tells of no table.
    column = measure.name.partition(".")[2]
    meaning = _UNKNOWN if entry is None else f"The same, of {column} alone." if column else entry.definition
    return replace(measure, value=_shorten(measure.value), interval=interval, meaning=meaning)


def _trim_correlations(found: Correlations) -> Correlations:
    # Adding 0 makes -0 a 0.
    return replace(found, before=found.before.round(2) + 0.0, after=found.after.round(2) + 0.0)


def _shorten(value: float) -> float:
    return float(f"{round(value, _DECIMALS):.{_DIGITS}g}") + 0.0 if isfinite(value) else value
