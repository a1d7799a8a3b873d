"""An audit put into words and pictures: text, JSON or a page in HTML; figures too."""

from microcell.report.contents import AUDIENCES
from microcell.report.formats import FORMS, certify, render
from microcell.report.plots import (
    FIGURE_FORMS,
    Allotment,
    CellMap,
    Mark,
    RiskMap,
    Scale,
    Spot,
    Tradeoff,
    draw_allocation,
    draw_cellmaps,
    draw_map,
    draw_marks,
    draw_tradeoffs,
)
from microcell.report.wording import guarantee

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
