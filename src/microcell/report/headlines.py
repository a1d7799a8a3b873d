"""The few measures that a reader looks at first: risk on one side, utility on the other."""

from collections.abc import Mapping
from dataclasses import dataclass

from microcell.measures.registry import Definition, measures
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
    for definition, value, label in zip(shown, values, labels, strict=True):
        side = "Utility" if definition.section == "utility" else "Risk"
        sides[side].append(Headline(definition.name, value, label, str(definition.headline)))
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
    column = next((name for name, value in by_column.items() if value == overall), "")
    return f" ({column})" if column else ""
