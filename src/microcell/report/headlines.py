"""The few measures that a reader looks at first: the risk on one side, the utility on the other."""

from collections.abc import Mapping
from dataclasses import dataclass

from microcell.measures.glossary import label_of
from microcell.model import Audit, Measure
from microcell.report.wording import amount

__all__ = ["Headline", "headlines"]

_UNITS = ("records", "values", "bits")
"""Units that say something beside the measure's name."""


@dataclass(frozen=True)
class Headline:
    """A measure at a glance: how much, of what, and a short line on it."""

    name: str
    amount: str
    label: str
    line: str


_RISK: Mapping[str, str] = {
    "k": "At least so many records share each combination of quasi-identifiers.",
    "prosecutor_worst": "Chance of guessing a person's record in the smallest class.",
    "prosecutor_average": "The same, on average over records.",
    "journalist_worst": "Where only the population is known, in the smallest class.",
    "linkage": "By someone who knows all quasi-identifiers as they were.",
    "l_diversity": "Fewest different confidential values in a class; 1 gives the value away.",
    "t_closeness": "How far a class is from the table at worst: 0 alike, 1 apart.",
    "disclosed_bits": "What a class tells of a confidential value on average.",
    "homogeneous_records": "The class alone gives their confidential value away.",
}
_UTILITY: Mapping[str, str] = {
    "distortion": "0 % keeps every value, 100 % publishes all records alike.",
    "il1s": "How far values moved, in deviations times √2.",
    "mean_change": "Largest shift of a mean, in deviations.",
    "deviation_change": "Largest change of a deviation.",
    "correlation_change": "Largest change between two columns.",
    "dependence_loss": "What classes no longer tell of confidential columns.",
    "propensity_error": "0 if a model cannot tell release and original apart, 1 if always.",
    "task_loss": "What a model learned from the release does worse.",
}


def headlines(audit: Audit) -> Mapping[str, tuple[Headline, ...]]:
    """The headline measures that the audit has, under "Risk" and "Utility".

    Examples
    --------
    >>> import numpy as np
    >>> lost = Measure("distortion", 0.125, "share", True, "Information lost.")
    >>> found = headlines(Audit(("age",), 9, 9, {"distortion": lost}, np.array([3, 3, 3])))
    >>> [(item.amount, item.label) for item in found["Utility"]]
    [('12.5 %', 'Information lost')]
    """
    return {side: _told(audit, lines) for side, lines in (("Risk", _RISK), ("Utility", _UTILITY))}


def _told(audit: Audit, lines: Mapping[str, str]) -> tuple[Headline, ...]:
    found = ((audit.measures[name], line) for name, line in lines.items() if name in audit.measures)
    return tuple(
        Headline(item.name, _glance(item), label_of(item.name), line) for item, line in found
    )


def _glance(measure: Measure) -> str:
    """The value as briefly as can be: a share in per cent, a count with its noun."""
    if measure.unit in ("share", "probability"):
        return f"{100 * measure.value:.3g} %"
    unit = measure.unit if measure.unit in _UNITS else ""
    value = amount(measure) if float(measure.value).is_integer() else f"{measure.value:.3g}"
    return f"{value} {unit.removesuffix('s') if measure.value == 1 else unit}".strip()
