"""What an audit says in words about columns, beside its measures. No value of a table is told."""

from collections.abc import Iterator, Sequence

import numpy as np

from microcell.auditing.distortion import ColumnDistortion
from microcell.model import Schema, Table, Values

__all__ = [
    "missing_columns",
    "naming_notes",
    "repetition_notes",
    "role_notes",
    "surplus_columns",
    "unexpected_columns",
    "unreadable_notes",
]

_FEW = 10
_NEARLY_ALL = 0.9


def surplus_columns(released: Table, schema: Schema) -> list[str]:
    """The columns to be removed that are still in the release."""
    return [name for name in (*schema.identifiers, *schema.drop) if name in released.columns]


def missing_columns(released: Table, schema: Schema) -> list[str]:
    """The columns to be published unchanged that are not in the release."""
    return [name for name in schema.unchanged if name not in released.columns]


def unexpected_columns(released: Table, schema: Schema) -> list[str]:
    """The columns of the release that have no role in the schema."""
    roles = {name for name, _ in schema.roles()}
    return [name for name in released.names if name not in roles]


def role_notes(released: Table, schema: Schema) -> Iterator[str]:
    """A sentence on the columns that should not be in the release, or should be."""
    for text, find in _OF_ROLES.items():
        names = find(released, schema)
        if names:
            yield f"{text}: column{'s' * (len(names) > 1)} {', '.join(map(repr, names))}."


def naming_notes(released: Table, schema: Schema) -> Iterator[str]:
    """A sentence on each column published unchanged whose values nearly all differ, so that they may name people."""
    for name in (*(column.name for column in schema.confidential), *schema.keep):
        if name in released.columns and released.columns[name].storage == "text" and _differs(released.columns[name]):
            yield _telling(name, "it may name people")
    if schema.weight is not None and schema.weight in released.columns and _differs(released.columns[schema.weight]):
        text = released.columns[schema.weight].storage == "text"
        yield _telling(schema.weight, "it may name people" if text else "an outsider who knows it finds the record")


def repetition_notes(original: Table, schema: Schema) -> Iterator[str]:
    """A sentence on the identifiers that repeat: a class of k records may be of fewer people, or of one."""
    told = []
    for name in (name for name in schema.identifiers if name in original.columns):
        values = original.columns[name]
        known, distinct = len(values) - int(values.missing.sum()), len(np.unique(values.data[~values.missing]))
        if distinct < known:
            told.append(f"{name!r} ({known:,} records with {distinct:,} values)")
    if told:
        yield (
            f"Identifiers that repeat: {', '.join(told)}. Unless different people share them, some people have several "
            "records: k counts records, not people."
        )


def unreadable_notes(columns: Sequence[ColumnDistortion]) -> Iterator[str]:
    """A sentence on each quasi-identifier with published values that could not be compared."""
    for item in columns:
        if item.unreadable:
            yield (
                f"Column {item.column.name!r}: {item.unreadable} published value"
                f"{'s' * (item.unreadable > 1)} could not be compared with the original and count"
                f"{'s' * (item.unreadable == 1)} as lost."
            )


_OF_ROLES = {
    "To be removed, but still in the release": surplus_columns,
    "To be published unchanged, but not in the release": missing_columns,
    "In the release without a role in the schema, and so not looked at": unexpected_columns,
}


def _differs(values: Values) -> bool:
    """True if nearly all of the column's values, missing ones aside, are different ones."""
    known = values.data[~values.missing]
    return len(known) >= _FEW and len(np.unique(known)) >= _NEARLY_ALL * len(known)


def _telling(name: str, why: str) -> str:
    return f"Column {name!r} is published unchanged and nearly every value differs: {why}."
