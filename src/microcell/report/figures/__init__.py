"""Every figure: of an audit, of a comparison, of cells, of an allocation. The only room to load matplotlib."""

from microcell.report.figures.audit import (
    draw_classes,
    draw_comparison,
    draw_correlations,
    draw_linkage,
    draw_projection,
    draw_quantiles,
)
from microcell.report.figures.base import Picture
from microcell.report.figures.cells import draw_allotment, draw_cellmaps
from microcell.report.figures.sweeps import draw_map, draw_marks

__all__ = [
    "Picture",
    "draw_allotment",
    "draw_cellmaps",
    "draw_classes",
    "draw_comparison",
    "draw_correlations",
    "draw_linkage",
    "draw_map",
    "draw_marks",
    "draw_projection",
    "draw_quantiles",
]
