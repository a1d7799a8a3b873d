"""An audit put into words and pictures: text, JSON or a page in HTML."""

from microcell.reporting.forms import FORMS, render
from microcell.reporting.sentences import guarantee

__all__ = ["FORMS", "guarantee", "render"]
