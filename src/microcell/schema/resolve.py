"""Resolve a schema with a table: every column gets a role, and every declared column a kind."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np

from microcell._display import listing
from microcell.errors import OptionError, SchemaError
from microcell.kinds import detect_kind, kind_of
from microcell.model import Column, Schema, Table

__all__ = [
    "BLOCK_RULES",
    "as_block_rule",
    "as_blocks",
    "resolve",
    "resolve_columns",
    "without_absent",
]

BLOCK_RULES = ("correlation", "linkage")
"""Rules by which blocks are chosen from the data."""


def resolve(schema: Schema, table: Table) -> Schema:
    """Return the schema with a role for every column, and kinds and representatives filled in.

    Raises
    ------
    SchemaError
        The schema names a column that the table does not have, a column has no role (unless
        ``rest`` says what to do with it), or a kind does not suit the column's values.
    """
    _check_names(schema, table)
    if not schema.quasi:
        raise SchemaError(
            "The schema declares no quasi-identifier. List the columns that an outsider may know "
            "under quasi.",
            code="schema.no_quasi_identifier",
        )
    named = {name for name, _ in schema.roles()}
    rest = tuple(name for name in table.names if name not in named)
    if rest and schema.rest == "error":
        raise SchemaError(
            f"Column{'s' * (len(rest) > 1)} {listing(map(repr, rest))} "
            f"{'have' if len(rest) > 1 else 'has'} no role. List each under quasi, confidential, "
            "identifiers, keep or drop, or set rest = 'keep' or 'drop'.",
            code="schema.invalid",
            columns=rest,
        )
    quasi = resolve_columns(schema.quasi, table)
    kinds = [kind_of(column) for column in quasi]
    return replace(
        schema,
        quasi=[
            replace(column, publish=column.publish or kind.representatives[0])
            for kind, column in zip(kinds, quasi, strict=True)
        ],
        confidential=resolve_columns(schema.confidential, table),
        keep=(*schema.keep, *(rest if schema.rest == "keep" else ())),
        drop=(*schema.drop, *(rest if schema.rest == "drop" else ())),
    )


def without_absent(schema: Schema, table: Table) -> Schema:
    """Return the schema without the removed and confidential columns that the table lacks.

    A table that was published, or is about to be, has no identifiers any more.
    """
    absent = {name for name, _ in schema.roles() if name not in table.columns}
    return replace(
        schema,
        identifiers=[name for name in schema.identifiers if name not in absent],
        confidential=[column for column in schema.confidential if column.name not in absent],
        keep=[name for name in schema.keep if name not in absent],
        drop=[name for name in schema.drop if name not in absent],
    )


def as_block_rule(blocks: Any) -> tuple[str | None, int]:
    """Return the rule and the largest number of columns of a text such as "correlation:3".

    None for blocks that do not depend on the data.

    Examples
    --------
    >>> as_block_rule("linkage:2"), as_block_rule(2)
    (('linkage', 2), (None, 0))
    """
    if not isinstance(blocks, str):
        return None, 0
    rule, _, size = blocks.partition(":")
    if not size and rule not in BLOCK_RULES:
        return None, 0  # names must be in lists; as_blocks raises the error
    if rule not in BLOCK_RULES or not size.strip().isdecimal() or int(size) < 1:
        raise OptionError(
            "blocks must be a number of columns, lists of names of quasi-identifiers, or a rule "
            f"with a number of columns: {', '.join(f'{rule}:3' for rule in BLOCK_RULES)}.",
            code="option.invalid",
            option="blocks",
        )
    return rule, int(size)


def as_blocks(blocks: Any, columns: Sequence[Column]) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the quasi-identifiers in each block.

    ``blocks`` is the number of columns per block, or the names of the columns of each block.

    Examples
    --------
    >>> columns = [Column(name) for name in ("age", "sex", "home")]
    >>> as_blocks(2, columns), as_blocks([["sex"], ["home", "age"]], columns)
    (((0, 1), (2,)), ((1,), (2, 0)))
    """
    if isinstance(blocks, (int, np.integer)) and not isinstance(blocks, bool):
        if blocks < 1:
            raise OptionError(
                f"blocks must be at least 1 column, not {blocks}.",
                code="option.out_of_range",
                option="blocks",
            )
        size = int(blocks)
        return tuple(
            tuple(range(first, min(first + size, len(columns))))
            for first in range(0, len(columns), size)
        )
    if isinstance(blocks, str) or not isinstance(blocks, Iterable):
        raise OptionError(
            "blocks must be a number of columns, or lists of names of quasi-identifiers.",
            code="option.wrong_type",
            option="blocks",
        )
    names = [[block] if isinstance(block, str) else list(block) for block in blocks]
    return _named_blocks(names, columns)


def _check_names(schema: Schema, table: Table) -> None:
    unknown = [name for name, _ in schema.roles() if name not in table.columns]
    if unknown:
        hints = "".join(
            f" Did you mean {match!r} by {name!r}?"
            for name in unknown
            for match in get_close_matches(name, table.names, n=1)
        )
        raise SchemaError(
            f"The schema names column{'s' * (len(unknown) > 1)} {listing(map(repr, unknown))}, but "
            f"the table has no such column.{hints} Are the column names in the first row? "
            "'microcell inspect' lists them.",
            code="schema.unknown_column",
            columns=tuple(unknown),
        )


def resolve_columns(columns: Sequence[Column], table: Table) -> list[Column]:
    """Return the columns with their kinds filled in."""
    values = table.read(columns)
    kinds = [detect_kind(column, parts[0]) for column, parts in zip(columns, values, strict=True)]
    declared = list(zip(kinds, columns, values, strict=True))
    for kind, column, parts in declared:
        for item in parts:
            kind.check_values(column.name, item)
    return [kind.resolve(column, parts[0]) for kind, column, parts in declared]


def _named_blocks(
    blocks: Sequence[Sequence[Any]], columns: Sequence[Column]
) -> tuple[tuple[int, ...], ...]:
    position = {column.name: i for i, column in enumerate(columns)}
    names = list(chain.from_iterable(blocks))
    for name in names:
        if name not in position:
            raise OptionError(
                f"blocks contains {name!r}, which is not a quasi-identifier. Choose from "
                f"{listing(map(repr, position))}.",
                code="option.unknown",
                option="blocks",
                column=name,
            )
        if names.count(name) > 1:
            raise OptionError(
                f"blocks contains {name!r} twice. List each quasi-identifier in only one block.",
                code="option.invalid",
                option="blocks",
                column=name,
            )
    left_out = tuple(name for name in position if name not in names)
    if left_out:
        raise OptionError(
            f"blocks does not contain {listing(map(repr, left_out))}. Add every "
            "quasi-identifier to a block.",
            code="option.invalid",
            option="blocks",
            columns=tuple(left_out),
        )
    if not all(blocks):
        raise OptionError("A block is empty. Remove it.", code="option.invalid", option="blocks")
    return tuple(tuple(position[name] for name in block) for block in blocks)
