"""The audit: measures of a release, computed from the two tables and the schema alone."""

from microcell.auditing.alignment import align
from microcell.auditing.run import audit, examine
from microcell.measures.classes import class_labels, class_sizes
from microcell.measures.utility import column_losses, information_loss

__all__ = [
    "align",
    "audit",
    "class_labels",
    "class_sizes",
    "column_losses",
    "examine",
    "information_loss",
]
