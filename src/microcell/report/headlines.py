"""The few measures that a reader looks at first: the risk on one side, the utility on the other."""

from collections.abc import Mapping
from dataclasses import dataclass

from microcell.measures.registry import Definition, measures
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


def headlines(audit: Audit) -> Mapping[str, tuple[Headline, ...]]:
    """The headline measures that the audit has, under "Risk" and "Utility".

    Examples
    --------
    >>> import numpy as np
    >>> lost = Measure("distortion", 0.125, "share", True, "Information loss.")
    >>> found = headlines(Audit(("age",), 9, 9, {"distortion": lost}, np.array([3, 3, 3])))
    >>> [(item.amount, item.label) for item in found["Utility"]]
    [('12.5 %', 'Information loss')]
    """
    sides: dict[str, list[Headline]] = {"Risk": [], "Utility": []}
    for definition in measures().values():
        if definition.headline is not None and definition.name in audit.measures:
            side = "Utility" if definition.section == "utility" else "Risk"
            sides[side].append(_headline(definition, audit.measures[definition.name]))
    return {side: tuple(items) for side, items in sides.items()}


def _headline(definition: Definition, measure: Measure) -> Headline:
    line = definition.headline or ""
    return Headline(definition.name, _glance(measure), definition.label, line)


def _glance(measure: Measure) -> str:
    """The value as briefly as can be: a share in per cent, a count with its noun."""
    if measure.unit in ("share", "probability"):
        return f"{100 * measure.value:.3g} %"
    unit = measure.unit if measure.unit in _UNITS else ""
    value = amount(measure) if float(measure.value).is_integer() else f"{measure.value:.3g}"
    return f"{value} {unit.removesuffix('s') if measure.value == 1 else unit}".strip()
