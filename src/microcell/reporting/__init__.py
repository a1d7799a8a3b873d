"""An audit put into words and pictures: text, JSON or a page in HTML; figures too."""

from microcell.reporting.allocations import Allotment, draw_allocation
from microcell.reporting.cellmaps import CellMap, draw_cellmaps
from microcell.reporting.forms import FORMS, render
from microcell.reporting.sentences import guarantee
from microcell.reporting.trials import FIGURE_FORMS, Mark, draw_marks

__all__ = [
    "FIGURE_FORMS",
    "FORMS",
    "Allotment",
    "CellMap",
    "Mark",
    "draw_allocation",
    "draw_cellmaps",
    "draw_marks",
    "guarantee",
    "render",
]
