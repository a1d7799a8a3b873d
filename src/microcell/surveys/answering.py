"""A respondent's own record to its cell, on the respondent's own device."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell import encoding
from microcell.cells import Cells
from microcell.errors import TableError
from microcell.model import Encoding, Floats
from microcell.surveys._records import as_table
from microcell.surveys._survey_cells import read_cells

__all__ = ["Answer", "answer_survey"]

_ROOM = 0.5
"""A number this part of the range of all cells' means beyond it is told to be far out."""


@dataclass(frozen=True)
class Answer:
    """What a respondent submits in place of the record, and of which columns the value was strange.

    ``strange`` is for the respondent: it names columns whose category the cells do not know, or whose number lies far
    from all cells. The nearest cell was taken.
    """

    cell: int
    representative: Mapping[str, Any]
    strange: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """What is submitted: the cell and its representative, and nothing else."""
        return {"cell": self.cell, "representative": dict(self.representative)}


def answer_survey(cells: Cells | str | Path, record: Mapping[str, Any] | str | Path) -> Answer:
    """The cell of one record and what it publishes; the record itself goes nowhere.

    Parameters
    ----------
    cells
        Cells of a survey, or the path of their file.
    record
        The quasi-identifiers by name, or the path of a JSON file with them: numbers, text, true or false; dates and
        times as ISO text, durations in seconds. Entries that the cells do not ask for are not looked at.

    Examples
    --------
    >>> from microcell import Schema, design_survey
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> design = design_survey(people, Schema(quasi=["age"]), 5, participation=0.5, failure=1e-3, method="mdav")
    >>> sorted(answer_survey(design.cells, {"age": 44}).as_dict())
    ['cell', 'representative']
    """
    found = read_cells(cells)
    table = as_table(_read(record) if isinstance(record, (str, Path)) else record, found.encoding)
    placed = encoding.place(table, found.encoding)
    cell = int(found.cells.assign(placed.matrix)[0])
    told = {name: values[cell] for name, values in found.representatives.items()}
    return Answer(cell, told, (*placed.strange, *_far_out(found.encoding, placed.matrix[0], found.cells.centroids)))


def _far_out(encoding: Encoding, point: Floats, centroids: Floats) -> tuple[str, ...]:
    """The numbers and dates that lie well beyond the means of all cells. More is not known: files tell no extremes."""
    low, high = centroids.min(axis=0), centroids.max(axis=0)
    beyond = (high > low) & (np.maximum(low - point, point - high) > _ROOM * (high - low))
    return tuple(
        column.name
        for column in encoding.columns
        if column.kind in ("numeric", "datetime") and beyond[column.first : column.last].any()
    )


def _read(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_bytes(), object_pairs_hook=_without_repeats)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or 'unknown reason'}. Check its name.") from None
    except (ValueError, RecursionError):
        raise TableError(
            f'{path} is not JSON, or has a name twice. Write the record as {{"age": 44, "sex": "female"}}.'
        ) from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):  # which of the two values is meant cannot be told
        raise ValueError
    return out
