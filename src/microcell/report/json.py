"""The report as JSON, for programs: measures, verdict, class sizes and notes."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from microcell.model import Audit, Finding, Floats, Integers, Measure
from microcell.model.audit import GroupMean
from microcell.report.contents import CheckRow, Contents, Verdict, tally
from microcell.report.wording import guarantee

__all__ = ["AUDIT_VERSION", "compose", "finding_entry"]

AUDIT_VERSION = 2
"""Version of the format; it increases when a field changes its name or meaning."""


def compose(contents: Contents) -> str:
    """Return the report as JSON text; ``audit_version`` is the first key."""
    audit = contents.audit
    report: dict[str, Any] = {
        "audit_version": AUDIT_VERSION,
        "audience": contents.audience,
        "title": contents.title,
        "guarantee": guarantee(audit),
        "findings": [finding_entry(item) for item in audit.findings],
        "keys": list(audit.keys),
        "person": list(audit.person),
        "rows": {"original": audit.rows_original, "released": audit.rows_released},
        "verdict": _verdict(contents.verdict),
        "measures": {name: _measure(measure) for name, measure in audit.measures.items()},
        "class_sizes": _sizes(audit.class_sizes),
        "homogeneous": {name: _sizes(sizes) for name, sizes in audit.homogeneous.items()},
        "distances_km": {
            name: {"median": _number(median), "p95": _number(high)}
            for name, (median, high) in audit.distances.items()
        },
        **_figures(audit),
    }
    if audit.small_groups:
        report["small_groups"] = _groups(audit.small_groups)
    if audit.left_out:
        report["left_out"] = [
            {
                "column": item.column,
                "group": item.name,
                "people": item.people,
                "left_out": item.left_out,
                "more": item.more,
            }
            for item in audit.left_out
        ]
    if not contents.public:
        report["notes"] = list(audit.notes)
        report |= _analyses(audit)
        report |= {"warning": audit.warning} if audit.warning else {}
    if contents.manifest is not None:
        report["manifest"] = dict(contents.manifest)
    text = json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False, default=_to_plain)
    return f"{text}\n"


def _figures(audit: Audit) -> dict[str, Any]:
    """Return the data of the figures about the whole table; null for what was not measured."""
    shares, correlations = audit.linkage_by_known, audit.correlations
    return {
        "linkage_by_known": None if shares is None else _numbers(shares),
        "correlations": None
        if correlations is None
        else {
            "columns": list(correlations.names),
            "before": [_numbers(row) for row in correlations.before],
            "after": [_numbers(row) for row in correlations.after],
        },
    }


def _analyses(audit: Audit) -> dict[str, Any]:
    """Return how categories were published, and the requested analyses; without empty parts."""
    out: dict[str, Any] = {}
    if audit.masks:
        out["masks"] = [
            {
                "column": item.column,
                "masks": list(item.masks),
                "changed": item.changed,
                "mean": item.mean,
                "deviation": item.deviation,
                "absolute": item.absolute,
                "correlation": item.correlation,
            }
            for item in audit.masks
        ]
    if audit.categories:
        out["categories"] = [
            {
                "column": item.column,
                "people": item.people,
                "kept": item.kept,
                **({"coarse": item.coarse} if item.coarse else {}),
                **({"withheld": item.withheld} if item.withheld else {}),
                "published": item.published,
            }
            for item in audit.categories
        ]
    if audit.analyses:
        out["analyses"] = [
            {
                "formula": item.formula,
                "kind": item.kind,
                "event": item.event or None,
                "coefficients": [
                    {
                        "term": coefficient.term,
                        "before": [_number(value) for value in coefficient.before],
                        "after": [_number(value) for value in coefficient.after],
                        "overlap": _number(coefficient.overlap),
                    }
                    for coefficient in item.coefficients
                ],
            }
            for item in audit.analyses
        ]
    if audit.groups:
        out["groups"] = _groups(audit.groups)
    return out


def _groups(groups: Sequence[GroupMean]) -> list[dict[str, Any]]:
    return [
        {
            "by": item.by,
            "group": item.group,
            "response": item.response,
            "records": [item.n_before or None, item.n_after],
            "before": _number(item.before),
            "after": _number(item.after),
            "change": _number(item.change),
        }
        for item in groups
    ]


def _verdict(verdict: Verdict) -> dict[str, Any]:
    rows = (*verdict.requirements, *verdict.basic_checks)
    return {
        "met": verdict.met,
        "dangers": verdict.n_dangers,
        "requirements": [_check(item) for item in rows],
    }


def _check(row: CheckRow) -> dict[str, Any]:
    return {
        "measure": row.measure.name,
        "bound": row.bound,
        "limit": row.limit,
        "value": _number(row.measure.value),
        "met": row.met,
    }


def finding_entry(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain data, without the details that contain original values."""
    return {
        "severity": finding.severity,
        "code": finding.code,
        "sentence": finding.sentence,
        "advice": finding.advice,
        "columns": list(finding.columns),
        "figures": {name: _number(value) for name, value in finding.figures.items()},
    }


def _measure(measure: Measure) -> dict[str, Any]:
    interval = None if measure.interval is None else [_number(bound) for bound in measure.interval]
    return {
        "name": measure.name,
        "value": _number(measure.value),
        "unit": measure.unit,
        "lower_is_better": measure.lower_is_better,
        "meaning": measure.meaning,
        "interval": interval,
    }


def _sizes(sizes: Integers) -> list[dict[str, int]]:
    return [{"size": size, "classes": count} for size, count in tally(sizes)]


def _numbers(values: Floats) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | None:
    """Return None for values that JSON cannot represent."""
    return value if isfinite(value) else None


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return value.item() if isinstance(value, np.generic) else str(value)
