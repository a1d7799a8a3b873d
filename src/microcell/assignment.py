"""Assign further records to the cells of an earlier release."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell import encoding, progress, tables
from microcell._display import count, html_card, short_repr
from microcell.cells import Cells, load_cells
from microcell.errors import DataError, OptionError
from microcell.methods.quantization import Attained
from microcell.model import Integers, Table

__all__ = ["Assigned", "assign"]


@dataclass(frozen=True, eq=False, repr=False)
class Assigned:
    """Further records assigned to the cells of an earlier release.

    The table is not k-anonymous by itself.

    Attributes
    ----------
    table
        Same type and row order as the source: representatives in place of the quasi-identifiers,
        the columns to keep, and ``cell``.
    labels
        Cell of each record.
    unknown
        Number of values per column that were unknown when the cells were made. Their records are
        assigned to the closest cell.
    assigned
        The same table as a :class:`~microcell.model.Table`.
    attained
        Share of these records in each cell, with 95 % confidence intervals, and the share for which
        the cell was designed: its share of the records of the release.
    """

    table: Any
    labels: Integers
    unknown: Mapping[str, int]
    assigned: Table
    attained: Attained

    @property
    def used(self) -> int:
        """Number of non-empty cells."""
        return len(np.unique(self.labels))

    @property
    def smallest(self) -> int:
        """Size of the smallest non-empty cell."""
        sizes = np.bincount(self.labels)
        return int(sizes[sizes > 0].min(initial=len(self.labels)))

    def __repr__(self) -> str:
        return short_repr(
            self, count(len(self.labels), "record"), cells=self.used, smallest=self.smallest
        )

    def _repr_html_(self) -> str:
        return html_card(
            f"{count(len(self.labels), 'record')} assigned to existing cells",
            {
                "Cells": f"{self.used:,}",
                "Smallest cell": count(self.smallest, "record"),
                "Unknown values": f"{sum(self.unknown.values()):,}",
            },
            notes=["This table is not k-anonymous by itself."],
            next_steps={"assigned.table": "the table with representatives and cells"},
        )


def assign(
    cells: Cells | str | Path, source: Any, *, keep: Sequence[str] = (), missing: str = "error"
) -> Assigned:
    """Assign further records to the cells of an earlier release.

    Parameters
    ----------
    cells
        Cells of a release (``anonymize(..., cells=True).cells``) or the path of their file.
    source
        A table, as for :func:`anonymize`; only the quasi-identifiers are needed.
    keep
        Further columns to keep. All others are removed, because they could identify someone.
    missing
        "error" rejects records with a missing quasi-identifier; "impute" places them at the mean.

    Examples
    --------
    >>> from microcell import Schema, anonymize
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> release = anonymize(people, Schema(quasi=["age"], confidential=["income"]), k=3, cells=True)
    >>> assign(release.cells, {"age": [40, 70]}).table
    {'age': array([33, 62]), 'cell': array([0, 1])}
    """
    function = load_cells(cells) if isinstance(cells, (str, Path)) else cells
    _check_assignment(function, keep, missing)
    assert function.encoding is not None
    assert function.representatives is not None
    progress.report("reading")
    table = tables.read(source)
    if table.rows == 0:
        raise DataError(
            "The table has no records to assign. Pass at least one.",
            code="data.empty",
        )
    placed = encoding.place(table, function.encoding)
    if missing == "error":
        parts = [part for column in function.encoding.columns for part in column.parts]
        _check_complete(table, parts)
    progress.report("assigning")
    labels = function.assign(placed.matrix)
    out = tables.replace_by_cells(table, labels, function.representatives, keep)
    attained = Attained.of(labels, function.sizes / function.sizes.sum())
    return Assigned(out.native, labels, placed.unknown, out, attained)


def _check_assignment(cells: Any, keep: Any, missing: str) -> None:
    if not isinstance(cells, Cells):
        raise OptionError(
            f"cells must be Cells or the path of a cells file, not {type(cells).__name__}.",
            code="option.wrong_type",
            option="cells",
        )
    if cells.encoding is None or cells.representatives is None:
        raise OptionError(
            "These cells were fitted on points, not on a table. Use cells.assign(points).",
            code="option.unsupported",
            option="cells",
        )
    if missing not in ("error", "impute"):
        raise OptionError(
            f"missing must be 'error' or 'impute', not {missing!r}.",
            code="option.unknown",
            option="missing",
        )
    if isinstance(keep, str) or not isinstance(keep, Sequence):
        raise OptionError(
            "keep must be a list of column names.", code="option.wrong_type", option="keep"
        )


def _check_complete(table: Table, names: Sequence[str]) -> None:
    counts = {name: int(table.columns[name].missing.sum()) for name in names}
    incomplete = {name: number for name, number in counts.items() if number}
    if incomplete:
        listing = ", ".join(f"{name!r} ({number})" for name, number in incomplete.items())
        raise DataError(
            f"Missing values in {listing}. Fill them in, or use missing='impute' to place these "
            "records at the mean.",
            code="data.missing_values",
            columns=list(incomplete),
        )
