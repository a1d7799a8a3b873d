"""The outsider's view: what two tables and a schema show, with nothing else known of how the release was made."""

from microcell.auditing.run import audit
from microcell.measures.disclosure import measure_dependence
from microcell.measures.linkage import find_originals
from microcell.measures.risk import class_labels, class_sizes
from microcell.measures.utility import average, distort_columns

__all__ = [
    "audit",
    "average",
    "class_labels",
    "class_sizes",
    "distort_columns",
    "find_originals",
    "measure_dependence",
]
