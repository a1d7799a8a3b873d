"""What every form of a report tells, gathered once: trimmed to its readers, with the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from microcell.errors import OptionError
from microcell.measures.registry import base_name, label, measures
from microcell.model import Audit, Check, Correlations, Integers, Measure
from microcell.report.wording import Fact, amount, counted, listing

__all__ = [
    "AUDIENCES",
    "Contents",
    "Finding",
    "Verdict",
    "check_audience",
    "gather",
    "homogeneous",
    "reach",
    "tally",
    "trim_audit",
    "trim_manifest",
]

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
    "method": ("requested", "used"),
    "missing": None,
    "records": ("read", "released", "dropped", "imputed"),
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
    >>> lost = Measure("distortion", 0.123456, "share", True, "Information loss.")
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
        linkage_by_known=None
        if known is None
        else np.array([_shorten(share) for share in known.tolist()]),
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
    entry = measures().get(base_name(measure.name))
    if entry is not None and entry.exact:
        return measure
    interval = measure.interval and (_shorten(measure.interval[0]), _shorten(measure.interval[1]))
    # The sentence of a measure may tell more than its number; that of the glossary tells of no table.
    column = measure.name.partition(".")[2]
    meaning = (
        _UNKNOWN if entry is None else f"The same, of {column} alone." if column else entry.meaning
    )
    return replace(measure, value=_shorten(measure.value), interval=interval, meaning=meaning)


def _trim_correlations(found: Correlations) -> Correlations:
    # Adding 0 makes -0 a 0.
    return replace(found, before=found.before.round(2) + 0.0, after=found.after.round(2) + 0.0)


def _shorten(value: float) -> float:
    return float(f"{round(value, _DECIMALS):.{_DIGITS}g}") + 0.0 if isfinite(value) else value


@dataclass(frozen=True)
class Finding:
    """A requirement: of which measure, what is asked for, what was found, and if that will do."""

    measure: Measure
    limit: float
    met: bool

    @property
    def label(self) -> str:
        """The measure's name for people."""
        return label(self.measure.name)

    @property
    def bound(self) -> str:
        """The side of the limit: "at most" or "at least"."""
        return "at most" if self.measure.lower_is_better else "at least"

    @property
    def required(self) -> str:
        """What is asked for: "at least 5"."""
        return f"{self.bound} {_number(self.limit)}"

    @property
    def found(self) -> str:
        """What was found."""
        return amount(self.measure)

    @property
    def sign(self) -> str:
        """A mark that is told apart without colour."""
        return "✓" if self.met else "✗"

    @property
    def words(self) -> str:
        """Met or missed, and by how much."""
        gap = abs(self.measure.value - self.limit)
        # What is shown may be rounded, and so lie on the other side of the limit.
        if not gap or self.measure.meets(self.limit) != self.met:
            return "met, just" if self.met else "missed, by less than is shown"
        return f"met, {_number(gap)} to spare" if self.met else f"missed by {_number(gap)}"


@dataclass(frozen=True)
class Verdict:
    """What was asked for, and what must be 0 in any case."""

    asked: tuple[Finding, ...]
    standing: tuple[Finding, ...]

    @property
    def met(self) -> bool:
        """True if nothing is missed."""
        return all(item.met for item in (*self.asked, *self.standing))

    @property
    def rows(self) -> tuple[Finding, ...]:
        """What a table shows: what was asked for, and what should be 0 and is not."""
        return (*self.asked, *(item for item in self.standing if not item.met))

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        missed = sum(not item.met for item in self.rows)
        if missed:
            return f"{missed} of {counted(len(self.rows), 'requirement')} {'is' if missed == 1 else 'are'} missed."
        if not self.asked:
            return "No requirement was given."
        few = {1: "The requirement is met.", 2: "Both requirements are met."}
        return few.get(len(self.asked), f"All {len(self.asked)} requirements are met.")

    @property
    def clean(self) -> str:
        """That all is 0 that must be, in a line; nothing if it is not."""
        if not self.standing or not all(item.met for item in self.standing):
            return ""
        names = [item.label.lower() for item in self.standing]
        return f"What must be 0 in any release is 0: {listing(names)}."


def reach(audit: Audit, limits: Mapping[str, float] | None, shown: Audit) -> Verdict:
    """The verdict on the audit, told with the measures of ``shown``, which may have fewer digits.

    Raises :class:`OptionError` for a limit of what was not measured.

    Examples
    --------
    >>> import numpy as np
    >>> k = Measure("k", 3, "records", False, "Records in the smallest class.")
    >>> audit = Audit(("age",), 9, 9, {"k": k}, np.array([3, 3, 3]))
    >>> verdict = reach(audit, {"k": 5}, audit)
    >>> verdict.sentence, verdict.asked[0].words
    ('1 of 1 requirement is missed.', 'missed by 2')
    """
    found = {item.measure.name: _find(item, shown) for item in audit.check(limits or {})}
    asked = {name: found[name] for name in limits or {}}
    return Verdict(
        tuple(asked.values()), tuple(item for name, item in found.items() if name not in asked)
    )


def _find(item: Check, shown: Audit) -> Finding:
    return Finding(shown.measures[item.measure.name], item.limit, item.met)


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.3g}"


_SIZES = 12


@dataclass(frozen=True, eq=False)
class Contents:
    """A report before it has a form. ``audit`` and ``manifest`` hold no more than ``audience`` may know."""

    audit: Audit
    manifest: Mapping[str, Any] | None
    title: str
    verdict: Verdict
    audience: str
    picture: bytes | None = None

    @property
    def public(self) -> bool:
        """True if anyone may read it."""
        return self.audience == "public"


def gather(
    audit: Audit,
    *,
    manifest: Mapping[str, Any] | None,
    title: str,
    require: Mapping[str, float] | None,
    audience: str,
    picture: bytes | None = None,
) -> Contents:
    """The contents of a report for that audience."""
    check_audience(audience)
    if audience == "internal":
        return Contents(audit, manifest, title, reach(audit, require, audit), audience, picture)
    shown = trim_audit(audit)
    return Contents(shown, trim_manifest(manifest), title, reach(audit, require, shown), audience)


def tally(sizes: Integers) -> list[tuple[int, int]]:
    """Each size that occurs, from the least, and how often.

    Examples
    --------
    >>> tally(np.array([5, 7, 5]))
    [(5, 2), (7, 1)]
    """
    found, counts = np.unique(sizes, return_counts=True)
    return list(zip(found.tolist(), counts.tolist(), strict=True))


def homogeneous(audit: Audit) -> tuple[Fact, ...]:
    """The classes that share one value of a confidential column, by size; the value itself is not told.

    Examples
    --------
    >>> audit = Audit(("age",), 9, 9, {}, np.array([2, 2, 5]), homogeneous={"tsh": np.array([2, 2])})
    >>> homogeneous(audit)
    (Fact(label='tsh', text='2 classes of 2 records'),)
    """
    return tuple(Fact(name, _sizes_told(sizes)) for name, sizes in audit.homogeneous.items())


def _sizes_told(sizes: Integers) -> str:
    if not len(sizes):
        return "none"
    told = [f"{_classes(count)} of {counted(size, 'record')}" for size, count in tally(sizes)]
    rest = sum(count for _, count in tally(sizes)[_SIZES:])
    return listing([*told[:_SIZES], *([f"{_classes(rest)} of more records"] if rest else [])])


def _classes(count: int) -> str:
    return f"{count:,} class{'' if count == 1 else 'es'}"
