"""Contents common to all report formats: the audit trimmed to its audience, and the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from microcell.errors import OptionError
from microcell.findings import rules
from microcell.measures.registry import base_name, label, measures
from microcell.model import Audit, Correlations, Finding, Integers, Measure
from microcell.report.wording import Fact, counted, join_words

__all__ = [
    "AUDIENCES",
    "CheckRow",
    "Contents",
    "Verdict",
    "gather",
    "homogeneous_classes",
    "reach_verdict",
    "tally",
    "trim_audit",
    "trim_manifest",
]

AUDIENCES = ("internal", "public")

# ------------------------------------------------------------------------------ what is public

_DIGITS = 2
_DECIMALS = 3
"""Precision of public values that depend on the original data.

Significant digits alone would not protect: two digits of a change of 0.0000012 determine an
original mean to eight digits.
"""

_PUBLIC_ENTRIES: Mapping[str, tuple[str, ...] | None] = {
    "manifest_version": None,
    "microcell": None,
    "created": None,
    "k": None,
    "method": ("requested", "used"),
    "missing": None,
    "records": ("read", "released", "dropped", "imputed"),
    "person": ("count", "cells"),
    "rows_are_people": None,
    "cells": ("count", "smallest", "largest"),
    "blocks": ("k", "jointly_k_anonymous"),
    "output": ("rows", "columns", "sha256", "sha256_of"),
}
"""Entries of a manifest that may be public: whole, or only the named parts of a section."""

_PUBLIC_COLUMN_ENTRIES = ("role", "kind", "publish")
_REMOVED_ROLES = ("identifier", "person", "drop")
_SOME_COLUMN = "an internal column"
_UNDECLARED = "Explained in the internal report."


def trim_audit(audit: Audit) -> Audit:
    """Return the parts of an audit that may be public.

    Measures that depend only on the published table stay exact; others are rounded to two
    significant digits and three decimals. Notes, figures of original values and the names of person
    columns are removed.

    Examples
    --------
    >>> loss = Measure("information_loss", 0.123456, "share", True, "Information loss.")
    >>> audit = Audit(("age",), 9, 9, {"information_loss": loss}, np.array([3, 3, 3]),
    ...               notes=("A note.",))
    >>> trim_audit(audit)["information_loss"], trim_audit(audit).notes
    (0.12, ())
    """
    shares, correlations = audit.linkage_by_known, audit.correlations
    return replace(
        audit,
        measures={name: _trim_measure(measure) for name, measure in audit.measures.items()},
        notes=(),
        findings=tuple(_trim_finding(item, audit) for item in audit.findings),
        warning="",
        person=(_SOME_COLUMN,) if audit.person else (),
        comparisons=(),
        projection=None,
        categories=(),
        distances={name: (_round(a), _round(b)) for name, (a, b) in audit.distances.items()},
        analyses=(),
        groups=(),
        quantiles=(),
        correlations=None if correlations is None else _trim_correlations(correlations),
        linkage_by_known=None
        if shares is None
        else np.array([_round(share) for share in shares.tolist()]),
    )


def trim_manifest(manifest: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the entries of a manifest that may be public.

    The random seed, the digest of the original and the columns that were removed stay internal.

    Examples
    --------
    >>> columns = {"name": {"role": "identifier"}}
    >>> trim_manifest({"k": 5, "seed": 7, "input": {"sha256": "0f"}, "columns": columns})
    {'k': 5, 'columns': {}}
    """
    if manifest is None:
        return None
    trimmed: dict[str, Any] = {}
    for name, parts in _PUBLIC_ENTRIES.items():
        value = manifest.get(name)
        if parts is None and isinstance(value, (str, int)):
            trimmed[name] = value
        elif parts is not None and isinstance(value, Mapping):
            trimmed[name] = _pick(value, parts)
    columns = manifest.get("columns")
    if isinstance(columns, Mapping):
        trimmed["columns"] = {
            name: _pick(column, _PUBLIC_COLUMN_ENTRIES)
            for name, column in columns.items()
            if isinstance(column, Mapping) and column.get("role") not in _REMOVED_ROLES
        }
    return trimmed


def _pick(section: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: section[name] for name in names if isinstance(section.get(name), (str, int))}


def _trim_measure(measure: Measure) -> Measure:
    definition = measures().get(base_name(measure.name))
    if definition is not None and definition.exact:
        return measure
    interval = measure.interval and (_round(measure.interval[0]), _round(measure.interval[1]))
    # The meaning of a computed measure may contain details; the declared one never does.
    if definition is None:
        meaning = _UNDECLARED
    elif measure.name == definition.name:
        meaning = definition.meaning
    else:
        meaning = f"{label(measure.name)}."
    return replace(measure, value=_round(measure.value), interval=interval, meaning=meaning)


def _trim_finding(finding: Finding, audit: Audit) -> Finding:
    """Return what the public may know: all that the published table itself tells, or the title."""
    rule = rules().get(finding.code)
    if rule is not None and rule.published_only and not audit.person:
        return finding.public()
    return finding.public(f"{rule.title}." if rule is not None else _UNDECLARED)


def _trim_correlations(correlations: Correlations) -> Correlations:
    # Adding 0 turns -0 into 0.
    before = correlations.before.round(2) + 0.0
    after = correlations.after.round(2) + 0.0
    return replace(correlations, before=before, after=after)


def _round(value: float) -> float:
    return float(f"{round(value, _DECIMALS):.{_DIGITS}g}") + 0.0 if isfinite(value) else value


# ------------------------------------------------------------------------------ the verdict


@dataclass(frozen=True)
class CheckRow:
    """A requirement or basic check: the measure as shown, its limit, and whether it is met."""

    measure: Measure
    label: str
    limit: float
    met: bool

    @property
    def bound(self) -> str:
        """Direction of the limit: "at most" or "at least"."""
        return "at most" if self.measure.lower_is_better else "at least"

    @property
    def required(self) -> str:
        """The limit in words, such as "at least 5"."""
        return f"{self.bound} {self.measure.format(self.limit)}"

    @property
    def value(self) -> str:
        """The value of the measure."""
        return self.measure.format()

    @property
    def sign(self) -> str:
        """A mark that does not depend on colour."""
        return "✓" if self.met else "✗"

    @property
    def outcome(self) -> str:
        """Whether the limit is met, and by how much."""
        gap = abs(self.measure.value - self.limit)
        # The shown value may be rounded, and so lie on the other side of the limit.
        if not gap or self.measure.meets(self.limit) != self.met:
            return "met (exactly at the limit)" if self.met else "not met (by a narrow margin)"
        margin = self.measure.format(gap)
        if margin.endswith(" %"):
            margin = f"{margin.removesuffix(' %')} percentage points"
        return f"met by {margin}" if self.met else f"missed by {margin}"


@dataclass(frozen=True)
class Verdict:
    """The requirements, and the basic checks that every release has to pass."""

    requirements: tuple[CheckRow, ...]
    basic_checks: tuple[CheckRow, ...]
    n_dangers: int = 0

    @property
    def colour(self) -> str:
        """Name of the style: good only if all is met and no danger was found."""
        if not self.met:
            return "bad"
        return "caution" if self.n_dangers else "good"

    @property
    def met(self) -> bool:
        """True if every requirement and basic check is met."""
        return all(item.met for item in (*self.requirements, *self.basic_checks))

    @property
    def rows(self) -> tuple[CheckRow, ...]:
        """Checks to show in a table: all requirements, and the basic checks that failed."""
        return (*self.requirements, *(item for item in self.basic_checks if not item.met))

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        count, n_missed = len(self.rows), sum(not item.met for item in self.rows)
        dangers = self._danger_clause
        if not count:
            return f"No requirements were set{dangers}."
        if n_missed == 0:
            every = {1: "The requirement is met", 2: "Both requirements are met"}
            return f"{every.get(count, f'All {count} requirements are met')}{dangers}."
        if n_missed == count:
            none = {1: "The requirement is not met.", 2: "Neither requirement is met."}
            return none.get(count, f"None of the {count} requirements is met.")
        verb = "is" if n_missed == 1 else "are"
        return f"{n_missed} of {count} requirements {verb} not met."

    @property
    def _danger_clause(self) -> str:
        if not self.n_dangers:
            return ""
        subject = "a danger was" if self.n_dangers == 1 else f"{self.n_dangers} dangers were"
        return f", but {subject} found: do not publish the table before the findings are resolved"

    @cached_property
    def basic_sentence(self) -> str:
        """A sentence that lists the basic checks, if all of them passed; otherwise empty."""
        if not self.basic_checks or not all(item.met for item in self.basic_checks):
            return ""
        names = [f"no {item.label[:1].lower()}{item.label[1:]}" for item in self.basic_checks]
        return f"Basic checks passed: {join_words(names)}."


def reach_verdict(audit: Audit, limits: Mapping[str, float] | None, shown: Audit) -> Verdict:
    """Check an audit against limits, and describe the result with the measures of ``shown``.

    ``shown`` is the same audit, possibly rounded for the public. Limits on measures that the audit
    does not have raise :class:`OptionError`.

    Examples
    --------
    >>> k = Measure("k", 3, "records", False, "Size of the smallest class.")
    >>> audit = Audit(("age",), 9, 9, {"k": k}, np.array([3, 3, 3]))
    >>> verdict = reach_verdict(audit, {"k": 5}, audit)
    >>> verdict.sentence, verdict.requirements[0].outcome
    ('The requirement is not met.', 'missed by 2')
    """
    required = limits or {}
    checks = {check.measure.name: (check.limit, check.met) for check in audit.check(required)}
    labels = [label(name) for name in checks]
    rows = {
        name: CheckRow(shown.measures[name], text, limit, met)
        for text, (name, (limit, met)) in zip(labels, checks.items(), strict=True)
    }
    return Verdict(
        tuple(rows[name] for name in required),
        tuple(row for name, row in rows.items() if name not in required),
        len(audit.dangers),
    )


# ------------------------------------------------------------------------------ contents


@dataclass(frozen=True, eq=False)
class Contents:
    """A report before it is formatted; ``audit`` and ``manifest`` are trimmed to ``audience``."""

    audit: Audit
    manifest: Mapping[str, Any] | None
    title: str
    verdict: Verdict
    audience: str
    picture: bytes | None = None

    @property
    def public(self) -> bool:
        """True if anyone may read the report."""
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
    """Return the contents of a report for this audience."""
    if audience not in AUDIENCES:
        raise OptionError(
            f"Unknown audience {audience!r}. Choose one of {', '.join(AUDIENCES)}.",
            code="option.unknown",
            option="audience",
        )
    if audience == "internal":
        verdict = reach_verdict(audit, require, audit)
        # Internal reports are passed on, so the key that undoes the shuffling is not in them.
        manifest = {n: v for n, v in manifest.items() if n != "order_key"} if manifest else manifest
        return Contents(audit, manifest, title, verdict, audience, picture)
    shown = trim_audit(audit)
    verdict = reach_verdict(audit, require, shown)
    return Contents(shown, trim_manifest(manifest), title, verdict, audience)


# ------------------------------------------------------------------------------ class sizes

_MAX_SIZES = 12


def tally(sizes: Integers) -> list[tuple[int, int]]:
    """Return the distinct sizes in ascending order, each with its frequency.

    Examples
    --------
    >>> tally(np.array([5, 7, 5]))
    [(5, 2), (7, 1)]
    """
    distinct, counts = np.unique(sizes, return_counts=True)
    return list(zip(distinct.tolist(), counts.tolist(), strict=True))


def homogeneous_classes(audit: Audit) -> tuple[Fact, ...]:
    """Describe, per confidential column, the classes with a single value, but not the value.

    Examples
    --------
    >>> sizes = {"tsh": np.array([2, 2])}
    >>> audit = Audit(("age",), 9, 9, {}, np.array([2, 2, 5]), homogeneous=sizes)
    >>> homogeneous_classes(audit)
    (Fact(label='tsh', text='2 classes of 2 records'),)
    """
    texts = {name: _describe_sizes(sizes, audit.unit) for name, sizes in audit.homogeneous.items()}
    return tuple([Fact(name, text) for name, text in texts.items()])


def _describe_sizes(sizes: Integers, noun: str) -> str:
    if not len(sizes):
        return "none"
    counts = tally(sizes)
    parts = [
        f"{counted(count, 'class')} of {counted(size, noun)}" for size, count in counts[:_MAX_SIZES]
    ]
    n_others = sum(count for _, count in counts[_MAX_SIZES:])
    if n_others:
        parts.append(f"{counted(n_others, 'class')} of more {noun}s")
    return join_words(parts)
