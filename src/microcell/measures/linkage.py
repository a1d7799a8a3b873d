"""Record linkage: how many records an outsider re-identifies by comparing the two tables.

The attacks themselves are in :mod:`microcell.measures.attacks`, which loads compiled code; names of
measures are checked without it.
"""

from typing import TYPE_CHECKING

from microcell.measures.registry import Value, measure

if TYPE_CHECKING:
    from microcell.measures.attacks import Estimate
    from microcell.measures.evidence import Evidence

__all__ = ["dld", "interval_disclosure", "linkage", "linkage_one", "linkage_some", "linkage_two"]


@measure(
    "linkage",
    label="Records re-identified",
    unit="share",
    section="linkage",
    needs="pairs",
    meaning="Expected share of records re-identified by an outsider who knows all original "
    "quasi-identifiers and picks the nearest published record.",
    headline="Expected share of records found by an outsider who knows all quasi-identifiers.",
)
def linkage(evidence: "Evidence") -> Value | None:
    return _as_value(evidence.links.all_columns)


@measure(
    "linkage_one",
    label="Re-identified by one column",
    unit="share",
    section="linkage",
    needs="pairs",
    meaning="Expected share of records re-identified by an outsider who knows only the most "
    "revealing column.",
)
def linkage_one(evidence: "Evidence") -> Value | None:
    return _as_value(evidence.links.one_column)


@measure(
    "linkage_two",
    label="Re-identified by two columns",
    unit="share",
    section="linkage",
    needs="pairs",
    meaning="Expected share of records re-identified by an outsider who knows only the two most "
    "revealing columns.",
)
def linkage_two(evidence: "Evidence") -> Value | None:
    return _as_value(evidence.links.two_columns)


@measure(
    "linkage_some",
    label="Re-identified by some columns",
    unit="share",
    section="linkage",
    needs="pairs",
    meaning="Expected share of records re-identified by an outsider who knows some of the columns, "
    "averaged over sets of columns.",
)
def linkage_some(evidence: "Evidence") -> Value | None:
    return _as_value(evidence.links.some_columns)


@measure(
    "dld",
    label="Distance-based linkage disclosure",
    unit="share",
    section="linkage",
    needs="pairs",
    meaning="Share of published records whose nearest original record is their own, with both "
    "tables standardized.",
)
def dld(evidence: "Evidence") -> Value | None:
    return _as_value(evidence.links.reverse)


@measure(
    "interval_disclosure",
    label="Interval disclosure",
    unit="share",
    section="linkage",
    needs="pairs",
    meaning="Share of original values that remain close to their published value: their ranks "
    "differ by at most 1 % of the records.",
)
def interval_disclosure(evidence: "Evidence") -> float | None:
    return evidence.links.interval_disclosure


def _as_value(estimate: "Estimate | None") -> Value | None:
    if estimate is None:
        return None
    details = []
    if estimate.columns:
        details.append(f"Most revealing: {' and '.join(estimate.columns)}.")
    if estimate.sampled:
        details.append(f"Estimated from a sample of {estimate.records:,} records.")
    return Value(estimate.share, " ".join(details), estimate.interval)
