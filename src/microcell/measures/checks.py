"""Basic checks: counts that must be 0 for every release."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from microcell.measures.registry import measure
from microcell.model import Schema, Table

if TYPE_CHECKING:
    from microcell.measures.evidence import Evidence

__all__ = ["RoleProblems", "check_roles"]


@dataclass(frozen=True)
class RoleProblems:
    """Columns of a release that contradict the schema.

    ``surplus`` columns should have been removed but are still there, ``missing`` ones should be
    published unchanged but are not there, and ``unexpected`` ones have no role in the schema.
    """

    surplus: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


def check_roles(released: Table, schema: Schema) -> RoleProblems:
    """Compare the columns of a release with the roles in the schema."""
    names, roles = set(released.names), {name for name, _ in schema.roles()}
    return RoleProblems(
        surplus=tuple(name for name in schema.removed if name in names),
        missing=tuple(name for name in schema.unchanged if name not in names),
        unexpected=tuple(name for name in released.names if name not in roles),
    )


@measure(
    "identifiers_left",
    label="Identifiers left",
    unit="columns",
    section="checks",
    must_be_zero=True,
    exact=True,
    meaning="Identifiers and other columns to be removed that are still in the release. Must be 0.",
)
def identifiers_left(evidence: "Evidence") -> float:
    return len(evidence.role_problems.surplus)


@measure(
    "records_unaccounted",
    label="Records unaccounted for",
    unit="records",
    section="checks",
    must_be_zero=True,
    exact=True,
    meaning="Published records in excess of the original, so they cannot come from it. Must be 0.",
)
def records_unaccounted(evidence: "Evidence") -> float:
    return max(0, evidence.released.rows - evidence.original.rows)


@measure(
    "columns_missing",
    label="Missing columns",
    unit="columns",
    section="checks",
    must_be_zero=True,
    exact=True,
    meaning="Columns to be published unchanged that are missing from the release. Must be 0.",
)
def columns_missing(evidence: "Evidence") -> float:
    return len(evidence.role_problems.missing)


@measure(
    "columns_unexpected",
    label="Unexpected columns",
    unit="columns",
    section="checks",
    must_be_zero=True,
    exact=True,
    meaning="Columns of the release that have no role in the schema, so that they were not "
    "audited. Must be 0.",
)
def columns_unexpected(evidence: "Evidence") -> float:
    return len(evidence.role_problems.unexpected)


@measure(
    "values_changed",
    label="Changed values",
    unit="values",
    section="checks",
    must_be_zero=True,
    exact=True,
    meaning="Values to be published unchanged that differ from the original. Must be 0.",
)
def values_changed(evidence: "Evidence") -> float:
    return evidence.values_changed


@measure(
    "manifest_contradictions",
    label="False statements in the manifest",
    unit="statements",
    section="checks",
    needs="contradictions",
    must_be_zero=True,
    exact=True,
    meaning="Statements of the manifest that are not true of these tables. Must be 0.",
)
def manifest_contradictions(evidence: "Evidence") -> float:
    return len(evidence.contradictions or ())
