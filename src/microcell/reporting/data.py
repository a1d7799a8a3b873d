"""The report as JSON, for machines: measures, class sizes and notes, and no value of the table."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from microcell.model import Audit
from microcell.reporting.sentences import guarantee

__all__ = ["AUDIT_VERSION", "compose"]

AUDIT_VERSION = 1
"""Raised when a field changes its name or meaning."""


def compose(audit: Audit, manifest: Mapping[str, Any] | None, title: str) -> str:
    """The audit as JSON text, with ``audit_version`` first."""
    sizes, counts = np.unique(audit.class_sizes, return_counts=True)
    histogram = zip(sizes.tolist(), counts.tolist(), strict=True)
    facts: dict[str, Any] = {
        "audit_version": AUDIT_VERSION,
        "title": title,
        "guarantee": guarantee(audit),
        "keys": list(audit.keys),
        "rows": {"original": audit.rows_original, "released": audit.rows_released},
        "measures": {name: asdict(measure) for name, measure in audit.measures.items()},
        "class_sizes": [{"size": size, "classes": count} for size, count in histogram],
        "notes": list(audit.notes),
    }
    if manifest is not None:
        facts["manifest"] = dict(manifest)
    return json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """Mappings and NumPy numbers as JSON knows them."""
    return dict(value) if isinstance(value, Mapping) else value.item() if isinstance(value, np.generic) else str(value)
