"""The verdict: each requirement beside what was found, in words."""

from collections.abc import Mapping
from dataclasses import dataclass

from microcell.model import Audit, Judgement, Measure
from microcell.reporting.glossary import label_of
from microcell.reporting.sentences import amount, counted, listing

__all__ = ["Finding", "Verdict", "reach"]


@dataclass(frozen=True)
class Finding:
    """A requirement: of which measure, what is asked for, what was found, and if that will do."""

    measure: Measure
    limit: float
    met: bool

    @property
    def label(self) -> str:
        """The measure's name for people."""
        return label_of(self.measure.name)

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
    found = {item.measure.name: _find(item, shown) for item in audit.judge(limits or {})}
    asked = {name: found[name] for name in limits or {}}
    return Verdict(tuple(asked.values()), tuple(item for name, item in found.items() if name not in asked))


def _find(item: Judgement, shown: Audit) -> Finding:
    return Finding(shown.measures[item.measure.name], item.limit, item.met)


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.3g}"
