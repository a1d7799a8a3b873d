"""The registry of finding rules: each is declared once, next to the function that looks for it.

To add a finding, write its function in one of the modules of :data:`FAMILIES` and decorate it with
:func:`rule`. The audit, the reports and the reference read this registry.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import TypeVar

from microcell._display import record_html, record_repr
from microcell.measures.evidence import Evidence
from microcell.model import Finding
from microcell.model.findings import SEVERITIES, Severity, sort_findings

__all__ = [
    "FAMILIES",
    "Alone",
    "Case",
    "Observation",
    "Rule",
    "find_all",
    "percent",
    "rule",
    "rules",
]

FAMILIES = ("disclosure", "singling_out", "people", "quality", "relations")
"""Modules of ``microcell.findings`` that declare rules, in the order of reports."""


@dataclass(frozen=True)
class Alone:
    """Number and share of people with a value that nobody else has; an estimate has an interval."""

    people: int
    share: float
    interval: tuple[float, float] | None = None

    @property
    def figures(self) -> dict[str, float]:
        """The numbers for a finding."""
        figures: dict[str, float] = {"people": self.people, "share": self.share}
        if self.interval is not None:
            figures |= {"low": self.interval[0], "high": self.interval[1]}
        return figures

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True, eq=False)
class Case:
    """A release to be examined.

    Attributes
    ----------
    evidence
        The two tables, and what was derived from them.
    k
        The k that was requested; that of the classes if it is not known.
    earlier
        Names of the manifests, next to the release, of other releases of the same people.
    formulas_escaped
        Texts that look like formulas are escaped in the published file.
    n_people, n_classes, counted
        If the evidence is a sample of a larger data set: its numbers of people and classes, and of
        the people who are alone with their values in a combination of columns (sorted).
    identifiers
        If the identifiers are not in the original table of the evidence: the numbers of distinct
        and of all values of each, counted over ``n_people`` records.
    spellings
        If the persons are not in that table: for each of their text columns, the numbers of
        distinct values, and of distinct values apart from upper and lower case and white space.
    """

    evidence: Evidence
    k: int | None = None
    earlier: Sequence[str] = ()
    formulas_escaped: bool = False
    n_people: int | None = None
    n_classes: int | None = None
    counted: Mapping[tuple[str, ...], Alone] | None = None
    identifiers: Mapping[str, tuple[int, int]] | None = None
    spellings: Mapping[str, tuple[int, int]] | None = None

    @property
    def people(self) -> int:
        """Number of people in the release."""
        return int(self.evidence.class_people.sum()) if self.n_people is None else self.n_people

    @property
    def classes(self) -> int:
        """Number of classes of the release."""
        return len(self.evidence.class_sizes) if self.n_classes is None else self.n_classes

    @property
    def smallest(self) -> int:
        """The requested k, or the size of the smallest class."""
        sizes = self.evidence.class_people
        return self.k or (int(sizes.min()) if len(sizes) else 0)

    @property
    def noun(self) -> str:
        """What is counted: "person" or "record"."""
        return "person" if self.evidence.schema.person else "record"


@dataclass(frozen=True)
class Observation:
    """What a rule reports; the registry adds its code and, if it is None, its severity."""

    sentence: str
    advice: str
    figures: Mapping[str, float] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    severity: Severity | None = None

    __repr__ = record_repr
    _repr_html_ = record_html

    def finding(self, code: str, usual: Severity) -> Finding:
        """Return the finding with this code; ``usual`` is the severity if there is no other."""
        return Finding(**{**vars(self), "code": code, "severity": self.severity or usual})


Function = TypeVar("Function", bound=Callable[[Case], Iterator[Observation]])


def _origin(function: Callable[..., object]) -> tuple[str, str]:
    """Return where a function is defined. A reloaded module declares its functions again."""
    return function.__module__, function.__qualname__


def _nothing(_: Case) -> Iterator[Observation]:
    """Find nothing; stands for the function until the rule decorates one."""
    return iter(())


@dataclass(frozen=True)
class Rule:
    """A rule, declared by decorating the function that yields observations about a case.

    Parameters
    ----------
    code
        Stable code of the findings.
    severity
        The usual severity; single observations may have a lower one.
    title, meaning
        A heading and an explanation for people. Public reports show the title in place of the
        sentence of a finding that depends on the original.
    advice
        What to do, in general; the finding names the option or the line of the schema.
    published_only
        The finding can be derived from the published table alone, so that anyone may read it.
    find
        The decorated function.
    """

    code: str
    _: KW_ONLY
    severity: Severity
    title: str
    meaning: str
    advice: str
    published_only: bool = False
    find: Callable[[Case], Iterator[Observation]] = _nothing

    def __call__(self, function: Function) -> Function:
        """Declare the decorated function as this rule."""
        declared = _DECLARED.get(self.code)
        if declared is not None and _origin(declared.find) != _origin(function):
            raise ValueError(f"The finding {self.code!r} is declared twice.")
        if self.severity not in SEVERITIES:
            raise ValueError(
                f"The finding {self.code!r} has the unknown severity {self.severity!r}."
            )
        _DECLARED[self.code] = replace(self, find=function)
        return function


rule = Rule
"""The decorator: ``@rule("risk.code", severity="note", ...)`` above the function that looks."""

_DECLARED: dict[str, Rule] = {}


@cache
def rules() -> Mapping[str, Rule]:
    """Return all declared rules by code, in the order of reports."""
    for family in FAMILIES:
        import_module(f"microcell.findings.{family}")
    families = [f"microcell.findings.{name}" for name in FAMILIES]
    ordered = sorted(_DECLARED.values(), key=lambda item: families.index(item.find.__module__))
    return {item.code: item for item in ordered}


def find_all(case: Case) -> tuple[Finding, ...]:
    """Apply every rule; return the findings, the most severe first."""
    if not case.evidence.released.rows:
        return ()
    return sort_findings(
        observation.finding(item.code, item.severity)
        for item in rules().values()
        for observation in item.find(case)
    )


def percent(share: float) -> str:
    """Format a share as a percentage for a sentence.

    Examples
    --------
    >>> percent(0.09173), percent(1.0)
    ('9.2 %', '100 %')
    """
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"
