"""The few measures that a reader looks at first: risk on one side, utility on the other."""

from collections.abc import Mapping
from dataclasses import dataclass

from microcell.measures.registry import measures
from microcell.model import Audit
from microcell.report.wording import format_with_unit

__all__ = ["Headline", "headlines"]


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
    >>> loss = Measure("distortion", 0.125, "share", True, "Information loss.")
    >>> audit = Audit(("age",), 9, 9, {"distortion": loss}, np.array([3, 3, 3]))
    >>> [(item.value, item.label) for item in headlines(audit)["Utility"]]
    [('12.5 %', 'Information loss')]
    """
    sides: dict[str, list[Headline]] = {"Risk": [], "Utility": []}
    for name, definition in measures().items():
        if definition.headline is not None and name in audit.measures:
            side = "Utility" if definition.section == "utility" else "Risk"
            value = format_with_unit(audit.measures[name])
            sides[side].append(Headline(name, value, definition.label, definition.headline))
    return {side: tuple(items) for side, items in sides.items()}
