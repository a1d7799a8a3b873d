"""Findings: what a careful statistician would object to before a release is published."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from microcell._display import count, html_card, short_repr
from microcell.errors import GuaranteeError

__all__ = ["SEVERITIES", "Finding", "Severity", "check_strictly", "sort_findings"]

Severity = Literal["danger", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("danger", "warning", "note")
"""Severities, the most severe first."""


@dataclass(frozen=True)
class Finding:
    """A problem of a release, and what to do about it.

    Attributes
    ----------
    severity
        "danger" (do not publish), "warning" (publish only if you can explain it) or "note".
    code
        Stable code, such as ``risk.homogeneous_classes``; the reference lists all codes.
    sentence
        Description of the problem. It names columns and counts, never a value of the table.
    advice
        What to do, with the option to use or the line of the schema to change.
    figures
        The numbers behind the sentence, for programs.
    columns
        The columns concerned.
    details
        Lines with original values, such as the categories that are lost. For internal reports only:
        they are not part of the sentence, of ``repr`` or of public reports.

    Examples
    --------
    >>> Finding("danger", "utility.one_class", "All records share one class.", "Lower k.")
    <Finding danger, utility.one_class>
    """

    severity: Severity
    code: str
    sentence: str
    advice: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self, self.severity, self.code, *self.columns)

    def __str__(self) -> str:
        advice = f" Do: {self.advice}." if self.advice else ""
        return f"{self.severity.capitalize()}: {self.sentence}{advice}"

    def _repr_html_(self) -> str:
        rows = {"Finding": self.sentence, "What to do": self.advice}
        return html_card(f"{self.severity.capitalize()}: {self.code}", rows)

    def public(self, sentence: str | None = None) -> "Finding":
        """Return the finding without original values.

        ``sentence`` replaces everything that depends on the original: sentence, advice, figures and
        columns.
        """
        if sentence is None:
            return replace(self, details=())
        return Finding(self.severity, self.code, sentence)


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings with dangers first, otherwise in their order."""
    return tuple(sorted(findings, key=lambda item: SEVERITIES.index(item.severity)))


def check_strictly(findings: Iterable[Finding]) -> None:
    """Raise GuaranteeError if any finding is a danger or a warning.

    Examples
    --------
    >>> check_strictly([Finding("note", "utility.imputed", "1 missing value was filled.")])
    """
    severe = [item for item in findings if item.severity != "note"]
    if severe:
        listing = " ".join(f"{item} [{item.code}]" for item in severe)
        raise GuaranteeError(
            f"{count(len(severe), 'finding')} {'forbids' if len(severe) == 1 else 'forbid'} the "
            f"release. {listing} Follow the advice, or publish without strict (--strict).",
            code="guarantee.findings",
            findings=[item.code for item in severe],
        )
