"""An audit put into words and pictures: text, JSON or a page in HTML; and the figure of a comparison."""

from microcell.reporting.forms import FORMS, render
from microcell.reporting.sentences import guarantee
from microcell.reporting.trials import FIGURE_FORMS, Mark, draw_marks

__all__ = ["FIGURE_FORMS", "FORMS", "Mark", "draw_marks", "guarantee", "render"]
