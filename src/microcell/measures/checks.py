"""Basic checks: counts that must be 0 for every release."""

from typing import TYPE_CHECKING

from microcell.measures.registry import measure
from microcell.model import Schema, Table

if TYPE_CHECKING:
    from microcell.measures.evidence import Evidence

__all__ = ["missing_columns", "surplus_columns", "unexpected_columns"]


def surplus_columns(released: Table, schema: Schema) -> list[str]:
    """Return the columns that should have been removed but are still in the release."""
    return [name for name in (*schema.identifiers, *schema.drop) if name in released.columns]


def missing_columns(released: Table, schema: Schema) -> list[str]:
    """Return the columns that should be published unchanged but are not in the release."""
    return [name for name in schema.unchanged if name not in released.columns]


def unexpected_columns(released: Table, schema: Schema) -> list[str]:
    """Return the columns of the release that have no role in the schema."""
    roles = {name for name, _ in schema.roles()}
    return [name for name in released.names if name not in roles]


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
    return len(surplus_columns(evidence.released, evidence.schema))


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
    return len(missing_columns(evidence.released, evidence.schema))


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
    return len(unexpected_columns(evidence.released, evidence.schema))


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
