"""The report as JSON, for machines: measures, verdict, class sizes and notes."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from typing import Any

import numpy as np

from microcell.model import Audit, Floats, Measure
from microcell.report.contents import Contents, Finding, Verdict, tally
from microcell.report.wording import guarantee

__all__ = ["AUDIT_VERSION", "compose"]

AUDIT_VERSION = 2
"""Raised when a field changes its name or meaning."""


def compose(contents: Contents) -> str:
    """The audit as JSON text, with ``audit_version`` first."""
    audit = contents.audit
    facts: dict[str, Any] = {
        "audit_version": AUDIT_VERSION,
        "audience": contents.audience,
        "title": contents.title,
        "guarantee": guarantee(audit),
        "keys": list(audit.keys),
        "rows": {"original": audit.rows_original, "released": audit.rows_released},
        "verdict": _verdict(contents.verdict),
        "measures": {name: _measure(measure) for name, measure in audit.measures.items()},
        "class_sizes": _tallied(audit.class_sizes),
        **_pictured(audit),
    }
    if not contents.public:
        facts["notes"] = list(audit.notes)
    if contents.manifest is not None:
        facts["manifest"] = dict(contents.manifest)
    return json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False, default=_plain) + "\n"


def _pictured(audit: Audit) -> dict[str, Any]:
    """What figures show of the whole table; None where it was not measured."""
    found, known = audit.correlations, audit.linkage_by_known
    return {
        "homogeneous": {name: _tallied(sizes) for name, sizes in audit.homogeneous.items()},
        "linkage_by_known": None if known is None else _numbers(known),
        "correlations": None
        if found is None
        else {
            "columns": list(found.names),
            "before": [_numbers(row) for row in found.before],
            "after": [_numbers(row) for row in found.after],
        },
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "met": verdict.met,
        "requirements": [_judged(item) for item in (*verdict.asked, *verdict.standing)],
    }


def _judged(item: Finding) -> dict[str, Any]:
    return {
        "measure": item.measure.name,
        "bound": item.bound,
        "limit": item.limit,
        "value": _number(item.measure.value),
        "met": item.met,
    }


def _measure(measure: Measure) -> dict[str, Any]:
    interval = None if measure.interval is None else [_number(bound) for bound in measure.interval]
    return asdict(measure) | {"value": _number(measure.value), "interval": interval}


def _tallied(sizes: Any) -> list[dict[str, int]]:
    return [{"size": size, "classes": count} for size, count in tally(sizes)]


def _numbers(values: Floats) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | None:
    """The value, or None for one that JSON cannot write."""
    return value if isfinite(value) else None


def _plain(value: Any) -> Any:
    """Mappings and NumPy numbers as JSON knows them."""
    return (
        dict(value)
        if isinstance(value, Mapping)
        else value.item()
        if isinstance(value, np.generic)
        else str(value)
    )
