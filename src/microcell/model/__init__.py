"""Frozen records that the stages pass to each other; building one checks its guarantees."""

from microcell.kernels.arrays import Floats, Integers, Mask
from microcell.kinds import Column, EncodedColumn, Representatives, Storage, Values
from microcell.model.audit import (
    Audit,
    Check,
    Comparison,
    Correlations,
    Measure,
    Projection,
    Quantiles,
    find_measure,
)
from microcell.model.encoding import Encoding
from microcell.model.findings import Finding
from microcell.model.partition import Encoded, Partition, Placed
from microcell.model.risk import TableRisk
from microcell.model.schema import Schema
from microcell.model.table import Dialect, Origin, Table

__all__ = [
    "Audit",
    "Check",
    "Column",
    "Comparison",
    "Correlations",
    "Dialect",
    "Encoded",
    "EncodedColumn",
    "Encoding",
    "Finding",
    "Floats",
    "Integers",
    "Mask",
    "Measure",
    "Origin",
    "Partition",
    "Placed",
    "Projection",
    "Quantiles",
    "Representatives",
    "Schema",
    "Storage",
    "Table",
    "TableRisk",
    "Values",
    "find_measure",
]
