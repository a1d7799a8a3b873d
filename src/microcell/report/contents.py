"""What all report formats share: headlines, sections, verdict, and the audit for an audience."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, nan
from typing import Any

import numpy as np

from microcell.errors import OptionError
from microcell.findings import rules
from microcell.measures.registry import SECTIONS, Definition, base_name, label, measures
from microcell.model import Audit, Correlations, Finding, Integers, Measure
from microcell.model.audit import GroupMean, LeftOutGroup
from microcell.report.wording import CHANGE_STEPS, Fact, counted, format_with_unit, join_words

__all__ = [
    "AUDIENCES",
    "CheckRow",
    "Contents",
    "Headline",
    "Section",
    "Verdict",
    "arrange",
    "definitions",
    "gather",
    "headlines",
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
"""Number of decimals of public values that depend on the original data.

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
    "records": ("read", "released", "dropped", "suppressed", "imputed"),
    "person": ("count", "cells"),
    "rows_are_people": None,
    "cells": ("count", "smallest", "largest"),
    "blocks": ("k", "jointly_k_anonymous"),
    "output": ("rows", "columns", "sha256", "sha256_of"),
}
"""Entries of a manifest that may be public: whole, or only the named parts of a section."""

_PUBLIC_COLUMN_ENTRIES = (
    "role",
    "kind",
    "publish",
    "after",
    "difference_of",
    "sum_of",
    "hierarchy",
    "round",
    "top",
    "bottom",
    "noise",
    "swap",
    "most_false",
    "step",
)
_REMOVED_ROLES = ("identifier", "person", "drop")
_SOME_COLUMN = "an internal column"
_UNDECLARED = "Explained in the internal report."


def trim_audit(audit: Audit) -> Audit:
    """Return the parts of an audit that may be public.

    Measures that depend only on the published table stay exact; others are rounded to two
    significant digits and three decimals. If there are persons, fractions about confidential
    columns are rounded, too: they depend on which records are about the same person. Notes that are
    not public, figures of original values and the names of person columns are removed.

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
        measures={
            name: _trim_measure(measure, persons=bool(audit.person))
            for name, measure in audit.measures.items()
        },
        notes=audit.public_notes,
        findings=_trim_findings(audit),
        warning="",
        person=(_SOME_COLUMN,) if audit.person else (),
        comparisons=(),
        projection=None,
        categories=(),
        left_out=_trim_left_out(audit),
        masks=(),
        distances={name: (_round(a), _round(b)) for name, (a, b) in audit.distances.items()},
        moves={},
        analyses=(),
        groups=(),
        small_groups=tuple(_trim_groups(audit.small_groups)),
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
            name: {key: column[key] for key in _PUBLIC_COLUMN_ENTRIES if key in column}
            for name, column in columns.items()
            if isinstance(column, Mapping) and column.get("role") not in _REMOVED_ROLES
        }
    return trimmed


def _pick(section: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: section[name] for name in names if isinstance(section.get(name), (str, int))}


def _trim_measure(measure: Measure, *, persons: bool) -> Measure:
    definition = measures().get(base_name(measure.name))
    if definition is not None and definition.exact:
        tells_persons = persons and definition.scope == "confidential"
        if not tells_persons or float(measure.value).is_integer():
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


def _trim_findings(audit: Audit) -> tuple[Finding, ...]:
    """Return what the public may know of the findings; of those that look alike, the first."""
    trimmed = [_trim_finding(item, audit) for item in audit.findings]
    return tuple({(item.severity, item.sentence): item for item in trimmed[::-1]}.values())[::-1]


def _trim_finding(finding: Finding, audit: Audit) -> Finding:
    """Return a finding for the public: in full if the published table reveals it, or a title."""
    rule = rules().get(finding.code)
    if rule is None or not rule.published_only:
        return finding.public(f"{rule.title}." if rule is not None else _UNDECLARED)
    if not audit.person:
        return finding.public()
    # The numbers of persons cannot be derived from the published table, but the columns can.
    columns = f" ({', '.join(finding.columns)})" if finding.columns else ""
    return finding.public(f"{rule.title}{columns}.")


def _trim_groups(groups: Sequence[GroupMean]) -> list[GroupMean]:
    """Return the groups that are still published, in an order that reveals nothing else.

    A mean of a small group in the original, or its exact change, would give a person away to
    whoever knows all others in the group. So the change is one of a few steps.
    """
    trimmed = []
    for item in groups:
        if item.n_after:
            reached = [step for step in CHANGE_STEPS if abs(item.change) >= step]
            step = max(reached, default=0.0)
            trimmed.append(replace(item, n_before=0, before=nan, change=step))
    return sorted(trimmed, key=lambda item: (-item.change, item.by, item.group, item.response))


def _trim_left_out(audit: Audit) -> tuple[LeftOutGroup, ...]:
    """Return the groups by quasi-identifiers of whom at least k people were left out.

    What the others of a column add up to must not be a number below k either. Confidential columns
    would tell something about the people who are missing from the release.
    """
    k = int(audit.class_sizes.min()) if len(audit.class_sizes) else 0
    shown: list[LeftOutGroup] = []
    for name in dict.fromkeys(item.column for item in audit.left_out if item.quasi):
        groups = sorted(
            (item for item in audit.left_out if item.column == name),
            key=lambda item: item.left_out,
        )
        hidden = 0
        while groups and (groups[0].left_out < k or 0 < hidden < k):
            hidden += groups.pop(0).left_out
        shown += [
            replace(item, people=_round_up(item.people)) for item in sorted(groups, key=_name)
        ]
    return tuple(shown)


def _name(item: LeftOutGroup) -> str:
    return item.name


def _round_up(people: int) -> int:
    """Round up to two significant digits: the original's exact counts are not public."""
    step = int(10 ** max(0, len(str(people)) - _DIGITS))
    return -(-people // step) * step


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
    """Describe the classes with a single value, by confidential column, without the value.

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


@dataclass(frozen=True)
class Headline:
    """A measure at a glance: its value with unit, its label, and a short explanation."""

    name: str
    value: str
    label: str
    explanation: str


def headlines(audit: Audit) -> Mapping[str, tuple[Headline, ...]]:
    """Return the headline measures of the audit under "Risk" and "Utility".

    Examples
    --------
    >>> import numpy as np
    >>> from microcell.model import Measure
    >>> loss = Measure("information_loss", 0.125, "share", True, "Information loss.")
    >>> audit = Audit(("age",), 9, 9, {"information_loss": loss}, np.array([3, 3, 3]))
    >>> [(item.value, item.label) for item in headlines(audit)["Utility"]]
    [('12.5 %', 'Information loss')]
    """
    sides: dict[str, list[Headline]] = {"Risk": [], "Utility": []}
    shown = [
        definition
        for name, definition in measures().items()
        if definition.headline is not None and name in audit.measures
    ]
    values = [format_with_unit(audit.measures[definition.name]) for definition in shown]
    labels = [f"{definition.label}{_column_of(audit, definition)}" for definition in shown]
    for definition, value, text in zip(shown, values, labels, strict=True):
        side = "Utility" if definition.section == "utility" else "Risk"
        sides[side].append(Headline(definition.name, value, text, str(definition.headline)))
    return {side: tuple(items) for side, items in sides.items()}


def _column_of(audit: Audit, definition: Definition) -> str:
    """Return which column a figure is about, in parentheses; empty for the whole table."""
    if definition.scope == "table":
        return ""
    start = f"{definition.name}."
    by_column = {
        name.removeprefix(start): item.value
        for name, item in audit.measures.items()
        if name.startswith(start)
    }
    if definition.overall != "worst" and len(by_column) != 1:
        return " (all columns)" if by_column else ""
    overall = audit.measures[definition.name].value
    columns = [name for name, value in by_column.items() if value == overall]
    if not columns:
        return ""
    # Rounded for the public, several columns may have the same value: none is the worst.
    more = f" and {len(columns) - 1} more" if len(columns) > 1 else ""
    return f" ({columns[0]}{more})"


@dataclass(frozen=True)
class Section:
    """The measures of a section: those of the whole table, and those of single columns."""

    key: str
    heading: str
    overall: tuple[Measure, ...]
    by_column: tuple[Measure, ...]


def arrange(audit: Audit) -> tuple[Section, ...]:
    """Return all measures of an audit by section, undeclared ones under "Other"."""
    declared = measures()
    order = {name: place for place, name in enumerate(declared)}
    by_section: dict[str, list[Measure]] = {key: [] for key in SECTIONS}
    bases = [base_name(name) for name in audit.measures]
    items = zip(bases, audit.measures.values(), strict=True)
    for base, item in sorted(items, key=lambda pair: order.get(pair[0], len(order))):
        definition = declared.get(base)
        by_section["other" if definition is None else definition.section].append(item)
    return tuple(_split(key, items) for key, items in by_section.items() if items)


def definitions(items: Iterable[Measure]) -> Mapping[str, Definition]:
    """Return the definitions of these measures, in the order of reports."""
    names = {base_name(item.name) for item in items}
    return {name: item for name, item in measures().items() if name in names}


def _split(key: str, items: list[Measure]) -> Section:
    overall = tuple(item for item in items if "." not in item.name)
    by_column = tuple(item for item in items if "." in item.name)
    return Section(key, SECTIONS[key], overall, by_column)
