"""Frozen records that the stages pass to each other; building one checks its guarantees."""

from microcell.kernels.arrays import Floats, Integers, Mask
from microcell.model.audit import (
    Audit,
    Check,
    Comparison,
    Correlations,
    Measure,
    Projection,
    Quantiles,
)
from microcell.model.encoding import EncodedColumn, Encoding
from microcell.model.partition import Encoded, Partition, Placed
from microcell.model.schema import PUBLISHED, Column, Kind, Schema
from microcell.model.table import Representatives, Storage, Table, Values

__all__ = [
    "PUBLISHED",
    "Audit",
    "Check",
    "Column",
    "Comparison",
    "Correlations",
    "Encoded",
    "EncodedColumn",
    "Encoding",
    "Floats",
    "Integers",
    "Kind",
    "Mask",
    "Measure",
    "Partition",
    "Placed",
    "Projection",
    "Quantiles",
    "Representatives",
    "Schema",
    "Storage",
    "Table",
    "Values",
]
