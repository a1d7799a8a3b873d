"""Registry of column kinds."""

from typing import TYPE_CHECKING, Protocol

from microcell.errors import SchemaError

if TYPE_CHECKING:
    from microcell.kinds.base import Kind

__all__ = ["KINDS", "kind_of"]

KINDS: dict[str, "Kind"] = {}
"""Every kind of column by its name, filled when :mod:`microcell.kinds` is imported."""


class _HasKind(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str | None: ...


def kind_of(column: _HasKind) -> "Kind":
    """Return the kind of a resolved column, or of an encoded one.

    Examples
    --------
    >>> from microcell.kinds import Column
    >>> kind_of(Column("age", kind="numeric")).representatives
    ('mean', 'median', 'range')
    """
    if column.kind is None:
        raise SchemaError(
            f"Column {column.name!r} has no kind yet. Resolve the schema with the table first.",
            code="schema.invalid",
            column=column.name,
        )
    return KINDS[column.kind]
