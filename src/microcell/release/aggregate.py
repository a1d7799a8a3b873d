"""Aggregate cells: what each cell publishes for each column."""

from collections.abc import Mapping

import numpy as np

from microcell.kinds import Groups, kind_of
from microcell.model import Floats, Integers, Representatives, Schema, Table, Values

__all__ = ["represent"]


def represent(
    table: Table, schema: Schema, labels: Integers, weights: Floats | None = None
) -> Mapping[str, Representatives]:
    """Return what each cell publishes for the columns of quasi-identifiers and strata.

    Members without a value are ignored; a cell without any value publishes a missing one.
    ``weights`` apply to means, medians and modes. Ties go to the lowest value. Time O(n log n) per
    column.
    """
    weights = np.ones(table.rows) if weights is None else weights
    groups = Groups(labels, int(labels.max()) + 1, weights)
    out: dict[str, Representatives] = {}
    for column in schema.quasi:
        values = [table.columns[part] for part in column.parts]
        representatives = kind_of(column).represent(column, values, groups)
        out.update(zip(column.parts, representatives, strict=True))
    for name in schema.strata:
        out[name] = _shared_value(table.columns[name], groups)
    return out


def _shared_value(values: Values, groups: Groups) -> Representatives:
    """Publish one member's value for all, so that equal values (0 and -0) are written alike."""
    rows = np.zeros(groups.count, dtype=np.int64)
    rows[groups.labels] = np.arange(len(values))
    return Representatives("row", rows, values.missing[rows])
