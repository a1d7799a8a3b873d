"""The outsider's view: what two tables and a schema show, with nothing else known of how the release was made."""

from microcell.auditing.anonymity import class_labels, class_sizes
from microcell.auditing.dependence import measure_dependence
from microcell.auditing.distortion import average, distort_columns
from microcell.auditing.dld import find_originals
from microcell.auditing.measurement import audit

__all__ = [
    "audit",
    "average",
    "class_labels",
    "class_sizes",
    "distort_columns",
    "find_originals",
    "measure_dependence",
]
