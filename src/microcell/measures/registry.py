"""The registry of measures: each measure is declared once, next to the function that computes it.

To add a measure, write its function in one of the modules of :data:`FAMILIES` and decorate it with
:func:`measure`. The audit, the requirements, the reports and the reference documentation all read
this registry.

Importing this module is cheap: the measures, and NumPy with them, are loaded on first use.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeVar

__all__ = [
    "FAMILIES",
    "SECTIONS",
    "Definition",
    "Value",
    "base_name",
    "find",
    "label",
    "lower_is_better",
    "measure",
    "measures",
    "requirable",
]

FAMILIES = ("risk", "checks", "disclosure", "linkage", "utility", "propensity", "learning")
"""Modules of ``microcell.measures`` that declare measures, in the order of reports."""

SECTIONS: Mapping[str, str] = {
    "anonymity": "Anonymity",
    "checks": "Basic checks",
    "disclosure": "Attribute disclosure",
    "linkage": "Record linkage",
    "utility": "Utility",
    "other": "Other",
}
"""Sections of a report and their headings, in order. "other" is for undeclared measures."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Value:
    """A computed value with its details.

    ``detail`` is a sentence about this value that follows the meaning of the measure; ``interval``
    is a 95 % confidence interval; ``unit`` replaces the declared unit.
    """

    value: float
    detail: str = ""
    interval: tuple[float, float] | None = None
    unit: str | None = None


def _origin(function: Callable[..., Any]) -> tuple[str, str]:
    """Return where a function is defined. A reloaded module declares its functions again."""
    return function.__module__, function.__qualname__


def _nothing(*_: Any) -> None:
    """Do nothing; stands for the function until the definition decorates one."""


@dataclass(frozen=True)
class Definition:
    """A measure of the audit, declared by decorating the function that computes it.

    The function returns a number, a :class:`Value`, or None if there is nothing to measure. What it
    receives depends on ``scope`` and ``per_class``.

    Parameters
    ----------
    name
        Name in the audit; measures by column add the name of the column to it.
    label, meaning, unit
        Name, explanation and unit for people such as a data protection officer.
    section
        One of :data:`SECTIONS`.
    lower_is_better
        Direction of the measure, and so of the limits on it.
    scope
        "table": one value, computed from an :class:`~microcell.measures.evidence.Evidence`.
        "confidential" and "quasi": one value per confidential column or quasi-identifier, named
        ``NAME.COLUMN``, computed from a column of the evidence, and an overall value.
    overall
        How the overall value follows from those of the columns. A weighted mean uses the ``weight``
        of the columns.
    per_class
        The function instead returns an array with one number per class, from the class sizes
        (table) or the class counts of a column (confidential); the measure is their worst or sum.
        Requirements on such measures can be enforced by merging cells.
    total
        Function that returns the value of a column where the sum over classes is only an upper
        bound, because a person may be in several of them.
    if_empty
        Value for a release without records; by default the measure is left out.
    needs
        What the audit needs for this measure: rows matched with the original ("pairs"), the size of
        the population, a target column, or the manifest's contradictions.
    must_be_zero
        Every release must have the value 0.
    exact
        Safe to publish with all digits, because the value depends on the published table and on
        counts only. Public reports round all other measures and, if the schema names a person
        column, fractions about confidential columns.
    sizes_only
        Computed from the class sizes and the number of original records alone, so that an audit
        that never holds the whole tables can measure it too.
    counts_people
        Counts people, so that its unit is "persons" if the schema names a person column.
    headline
        A short line; measures that have one open the report.
    detail
        Function that returns a sentence about a column's class counts, shown after the meaning.
    compute
        The decorated function.
    """

    name: str
    _: KW_ONLY
    label: str
    unit: str
    meaning: str
    section: str
    lower_is_better: bool = True
    scope: Literal["table", "confidential", "quasi"] = "table"
    overall: Literal["worst", "mean", "weighted mean"] = "worst"
    per_class: Literal["worst", "sum"] | None = None
    total: Callable[[Any], int] | None = None
    if_empty: float | None = None
    needs: Literal["pairs", "population", "target", "contradictions"] | None = None
    must_be_zero: bool = False
    exact: bool = False
    sizes_only: bool = False
    counts_people: bool = False
    headline: str | None = None
    detail: Callable[[Any], str] | None = None
    compute: Callable[..., Any] = _nothing

    def __call__(self, function: Function) -> Function:
        """Declare the decorated function as this measure."""
        declared = _DECLARED.get(self.name)
        if declared is not None and _origin(declared.compute) != _origin(function):
            raise ValueError(f"The measure {self.name!r} is declared twice.")
        if self.section not in SECTIONS:
            raise ValueError(f"The measure {self.name!r} has the unknown section {self.section!r}.")
        _DECLARED[self.name] = replace(self, compute=function)
        return function

    @property
    def enforceable(self) -> bool:
        """True if merging cells can bring the measure within a limit."""
        return self.per_class is not None

    @property
    def requirable(self) -> bool:
        """True if every audit of a fresh release has this measure, so that it can be required."""
        return self.needs in (None, "pairs")


measure = Definition
"""The decorator: ``@measure("k", label="k", ...)`` above the function that computes it."""

_DECLARED: dict[str, Definition] = {}


@cache
def measures() -> Mapping[str, Definition]:
    """Return all declared measures by name, in the order of reports."""
    for family in FAMILIES:
        import_module(f"microcell.measures.{family}")
    # Other modules may have imported a family before, so the order of declaration is not fixed.
    sections, families = list(SECTIONS), [f"microcell.measures.{name}" for name in FAMILIES]
    ordered = sorted(
        _DECLARED.values(),
        key=lambda item: (
            sections.index(item.section),
            families.index(item.compute.__module__)
            if item.compute.__module__ in families
            else len(families),
        ),
    )
    return {item.name: item for item in ordered}


@cache
def requirable() -> Mapping[str, Definition]:
    """Return the measures that ``require=`` accepts."""
    return {name: item for name, item in measures().items() if item.requirable}


def base_name(name: str) -> str:
    """Return the name of a measure without its column.

    Examples
    --------
    >>> base_name("information_loss.body.mass"), base_name("k")
    ('information_loss', 'k')
    """
    return name.partition(".")[0]


def find(name: str) -> Definition | None:
    """Return the definition behind a name such as ``k`` or ``t_closeness.income``.

    None if there is no such measure, or if it is not measured by column.

    Examples
    --------
    >>> find("t_closeness.income").name, find("k").name, find("k.income")
    ('t_closeness', 'k', None)
    """
    base, dot, column = name.partition(".")
    definition = measures().get(base)
    if definition is None or (dot and (not column or definition.scope == "table")):
        return None
    return definition


def lower_is_better(name: str) -> bool | None:
    """Return the direction of a measure that can be required; None if there is no such measure."""
    definition = find(name)
    return None if definition is None or not definition.requirable else definition.lower_is_better


def label(name: str) -> str:
    """Return the label of a measure, with its column; the name itself if it is not declared.

    Examples
    --------
    >>> label("t_closeness.tsh"), label("novelty")
    ('t-closeness of tsh', 'novelty')
    """
    base, _, column = name.partition(".")
    definition = measures().get(base)
    if definition is None:
        return name
    return f"{definition.label} of {column}" if column else definition.label
