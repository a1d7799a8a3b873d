"""Prove the guarantee on a finished table, the way an outsider would measure it."""

from collections.abc import Mapping
from itertools import chain

import numpy as np

from microcell import auditing, progress
from microcell._display import count
from microcell.auditing.equality import match_rows
from microcell.errors import GuaranteeError, RequirementError, TableError
from microcell.measures import people
from microcell.measures.pairs import ColumnPairs
from microcell.model import Integers, Schema, Table
from microcell.model.manifest import BlocksSection
from microcell.release import requirements
from microcell.release.prepare import Prepared

__all__ = ["check_audited_limits", "check_written", "measure_information_loss", "prove"]

_ALTERED = "Write .parquet instead. Nothing was released."
_BUG = "Nothing was released. This is a bug in microcell; please report it."


def prove(
    published: Table,
    schema: Schema,
    *,
    k: int,
    n_rows: int,
    limits: Mapping[str, float] | None = None,
    blocks: BlocksSection | None = None,
    persons: Integers | None = None,
) -> Integers:
    """Check the columns, the number of records, k and the limits of a table to be published.

    Parameters
    ----------
    published
        The finished table, or the published file read back.
    schema
        Resolved schema.
    k
        Minimum class size over all quasi-identifiers and strata.
    n_rows
        Expected number of records.
    limits
        Required measures; those that only an audit can measure are ignored.
    blocks
        Blocks of quasi-identifiers, each of which must be k-anonymous.
    persons
        Person of each row, if the schema names a person column.

    Returns
    -------
    Integers
        Number of people in each equivalence class.

    Raises
    ------
    GuaranteeError
        The table does not have these columns, records or class sizes.
    RequirementError
        A limit is not met.
    """
    progress.report("checking")
    _check_shape(published, schema, n_rows)
    if (persons is None) != (not schema.person):
        raise GuaranteeError(
            f"The persons of the finished table are not known. {_BUG}", code="guarantee.failed"
        )
    sizes = _check_classes(published, schema.keys, k, "", persons)
    missed = requirements.missed_limits(published, schema, limits or {}, persons)
    if missed:
        raise RequirementError(
            f"The finished table does not meet a requirement: {' '.join(map(str, missed))} "
            "Nothing was released.",
            code="guarantee.requirement_not_met",
            measures=[item.measure.name for item in missed],
        )
    if blocks is not None:
        parts = {column.name: column.parts for column in schema.quasi}
        for names in blocks.columns:
            keys = (*chain.from_iterable(parts[name] for name in names), *schema.strata)
            _check_classes(published, keys, blocks.k, " in a block of columns", persons)
    return sizes


def _check_shape(published: Table, schema: Schema, n_rows: int) -> None:
    unexpected = set(published.names) ^ {*schema.keys, *schema.unchanged}
    if unexpected:
        raise GuaranteeError(
            f"The columns of the finished table do not match the schema: {sorted(unexpected)}. "
            f"{_BUG}",
            code="guarantee.failed",
            columns=sorted(unexpected),
        )
    if published.rows != n_rows:
        raise GuaranteeError(
            f"The finished table has {count(published.rows, 'record')} instead of {n_rows:,}. "
            f"{_BUG}",
            code="guarantee.failed",
            records=published.rows,
        )


def _check_classes(
    published: Table, keys: tuple[str, ...], k: int, where: str, persons: Integers | None
) -> Integers:
    sizes = people.count_people(auditing.class_labels(published, keys), persons)
    smallest = int(sizes.min(initial=published.rows))
    if smallest < k:
        noun = "record" if persons is None else "person"
        raise GuaranteeError(
            f"The finished table has a class of {count(smallest, noun)}{where}, fewer than k "
            f"= {k}. {_BUG}",
            code="guarantee.failed",
            k=k,
            smallest=smallest,
        )
    return sizes


def check_written(table: Table, written: Table, suffix: str) -> None:
    """Compare a file that was read back with the table it was written from, value by value.

    Values are compared as in an audit, so a file that passes has no changed values there either.

    Raises
    ------
    TableError
        The file does not contain the same records; the error names the column.
    """
    if written.rows != table.rows or written.names != table.names:
        raise TableError(
            f"The {suffix} file, when read back, does not have the same columns and "
            f"{count(table.rows, 'record')} as the table. {_ALTERED}",
            code="table.format_limit",
            suffix=suffix,
            rows=written.rows,
        )
    rows = np.arange(table.rows)
    for name in table.names:
        changed = match_rows(name, table.columns[name], written.columns[name], rows).changed
        if changed:
            raise TableError(
                f"A {suffix} file cannot store {count(changed, 'value')} of column {name!r} "
                f"unchanged. {_ALTERED}",
                code="table.format_limit",
                suffix=suffix,
                column=name,
                count=changed,
            )


def check_audited_limits(prepared: Prepared, published: Table, limits: Mapping[str, float]) -> None:
    """Check the limits that are not met by the choice of cells, by auditing the finished table.

    Raises
    ------
    RequirementError
        A limit is not met.
    """
    if not limits:
        return
    audit = auditing.audit(prepared.original, published, prepared.schema, pairs=prepared.rows)
    missed = [item for item in audit.check(limits) if not item.met]
    if missed:
        raise RequirementError(
            f"{' '.join(map(str, missed))} Relax the limit, or change k or the method. "
            "Nothing was released.",
            code="guarantee.requirement_not_met",
            measures=[item.measure.name for item in missed],
        )


def measure_information_loss(
    original: Table, published: Table, schema: Schema, rows: Integers
) -> float:
    """Return the information loss of a published table, given the original row of each row."""
    columns = ColumnPairs(original, published, schema, rows)
    losses = auditing.column_losses(columns)
    return auditing.information_loss(losses)
