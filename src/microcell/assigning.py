"""Further records to the cells of an earlier release: each gets its cell, and what that publishes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell import encoding, progress, tables
from microcell.cells import Cells, load_cells
from microcell.errors import DataError, OptionError
from microcell.model import Integers, Table

__all__ = ["Assigned", "assign"]


@dataclass(frozen=True, eq=False)
class Assigned:
    """Records with their cells.

    ``table`` is in the frame type that came in, rows in their order: the representatives of the cells in place of the
    quasi-identifiers, the columns that were to be kept, and ``cell``. It is not k-anonymous by itself: ``smallest`` is
    the least number of its records in a cell that has any. ``strange`` counts, by column, values that the cells do not
    know; these records were placed as near as can be told.
    """

    table: Any
    labels: Integers
    strange: Mapping[str, int]
    assigned: Table

    @property
    def used(self) -> int:
        """How many cells have records."""
        return len(np.unique(self.labels))

    @property
    def smallest(self) -> int:
        """The least number of records in a cell that has any."""
        sizes = np.bincount(self.labels)
        return int(sizes[sizes > 0].min(initial=len(self.labels)))


def assign(cells: Cells | str | Path, source: Any, *, keep: Sequence[str] = (), missing: str = "error") -> Assigned:
    """The records of a table with the cells that an earlier release has for them, and what these publish.

    Parameters
    ----------
    cells
        Cells of a release (``anonymize(..., cells=True).cells``), or the path of their file.
    source
        A table, as :func:`anonymize` takes it; it needs the quasi-identifiers alone.
    keep
        Further columns to keep. Others are left out: they might tell who is who.
    missing
        "error" refuses records without a quasi-identifier, "impute" places them at the mean.

    Examples
    --------
    >>> from microcell import Schema, anonymize
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 30, 40, 50, 60]}
    >>> release = anonymize(people, Schema(quasi=["age"], confidential=["income"]), k=3, cells=True)
    >>> assign(release.cells, {"age": [40, 70]}).table
    {'age': array([33, 62]), 'cell': array([0, 1])}
    """
    found = load_cells(cells) if isinstance(cells, (str, Path)) else cells
    if not isinstance(found, Cells):
        raise OptionError(f"cells must be Cells or the path of their file, not {type(cells).__name__}.")
    if found.encoding is None or found.representatives is None:
        raise OptionError("These cells were made of points, not of records. Use their own assign for points.")
    if missing not in ("error", "impute"):
        raise OptionError(f"missing must be error or impute, not {missing!r}.")
    if isinstance(keep, str) or not isinstance(keep, Sequence):
        raise OptionError("keep must be a list of column names.")
    progress.report("reading")
    table = tables.read(source)
    if table.rows == 0:
        raise DataError("The table has no records.")
    placed = encoding.place(table, found.encoding)
    if missing == "error":
        _check_missing(table, [part for column in found.encoding.columns for part in column.parts])
    progress.report("assigning")
    labels = found.assign(placed.matrix)
    out = tables.replace_by_cells(table, labels, found.representatives, keep)
    return Assigned(out.native, labels, placed.strange, out)


def _check_missing(table: Table, names: Sequence[str]) -> None:
    counts = {name: int(table.columns[name].missing.sum()) for name in names}
    if any(counts.values()):
        listing = ", ".join(f"{name!r} ({count})" for name, count in counts.items() if count)
        raise DataError(
            f"Missing values in {listing}. Complete them, or say missing='impute' to place them at the mean."
        )
