"""The cells of a survey, as respondents and collectors get them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from microcell.cells import Cells, load_cells
from microcell.errors import OptionError
from microcell.model import Encoding

__all__ = ["SurveyCells", "read_cells"]


@dataclass(frozen=True, eq=False)
class SurveyCells:
    """Cells with all that a survey needs: how records become points, what cells publish, and what is promised."""

    cells: Cells
    encoding: Encoding
    representatives: Mapping[str, tuple[Any, ...]]
    survey: Mapping[str, Any]


def read_cells(given: Cells | str | Path) -> SurveyCells:
    """The cells, or those of the file at that path; refused if they are of no survey."""
    cells = load_cells(given) if isinstance(given, (str, Path)) else given
    if not isinstance(cells, Cells):
        raise OptionError(f"cells must be Cells or the path of their file, not {type(given).__name__}.")
    if cells.survey is None or cells.encoding is None or cells.representatives is None:
        raise OptionError("These cells were not designed for a survey. Give a file that 'survey design' wrote.")
    return SurveyCells(cells, cells.encoding, cells.representatives, cells.survey)
