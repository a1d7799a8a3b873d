"""The audit: measures of a release, computed from the two tables and the schema alone."""

from microcell.auditing.run import audit
from microcell.measures.classes import class_labels, class_sizes
from microcell.measures.utility import column_losses, information_loss

__all__ = ["audit", "class_labels", "class_sizes", "column_losses", "information_loss"]
