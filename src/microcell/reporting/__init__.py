"""An audit put into words and pictures: text, JSON or a page in HTML; figures too."""

from microcell.reporting.allocations import Allotment, draw_allocation
from microcell.reporting.audiences import AUDIENCES
from microcell.reporting.cellmaps import CellMap, draw_cellmaps
from microcell.reporting.explorations import RiskMap, Scale, Spot, draw_map
from microcell.reporting.forms import FORMS, certify, render
from microcell.reporting.sentences import guarantee
from microcell.reporting.tradeoffs import Tradeoff, draw_tradeoffs
from microcell.reporting.trials import FIGURE_FORMS, Mark, draw_marks

__all__ = [
    "AUDIENCES",
    "FIGURE_FORMS",
    "FORMS",
    "Allotment",
    "CellMap",
    "Mark",
    "RiskMap",
    "Scale",
    "Spot",
    "Tradeoff",
    "certify",
    "draw_allocation",
    "draw_cellmaps",
    "draw_map",
    "draw_marks",
    "draw_tradeoffs",
    "guarantee",
    "render",
]
