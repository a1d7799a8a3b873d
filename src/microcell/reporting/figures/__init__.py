"""Every figure: of an audit, of a comparison, of cells, of an allocation. The only room to load matplotlib."""

from microcell.reporting.figures._sheets import Picture
from microcell.reporting.figures.allotments import draw_allotment
from microcell.reporting.figures.audits import draw_classes, draw_comparison, draw_projection
from microcell.reporting.figures.cellmaps import draw_cellmaps
from microcell.reporting.figures.certificates import draw_certificate
from microcell.reporting.figures.explorations import draw_map
from microcell.reporting.figures.relations import draw_correlations, draw_linkage, draw_quantiles
from microcell.reporting.figures.trials import draw_marks

__all__ = [
    "Picture",
    "draw_allotment",
    "draw_cellmaps",
    "draw_certificate",
    "draw_classes",
    "draw_comparison",
    "draw_correlations",
    "draw_linkage",
    "draw_map",
    "draw_marks",
    "draw_projection",
    "draw_quantiles",
]
