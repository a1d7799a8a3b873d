"""The nouns: frozen records that the stages hand to each other. Building one checks what it guarantees."""

from microcell.kernels.arrays import Floats, Integers, Mask
from microcell.model.encoding import EncodedColumn, Encoding
from microcell.model.partition import Encoded, Partition, Placed
from microcell.model.results import (
    Audit,
    Comparison,
    Correlations,
    Judgement,
    Manifest,
    Measure,
    Projection,
    Quantiles,
    Release,
)
from microcell.model.schema import PUBLISHED, Column, Kind, Schema
from microcell.model.table import Representatives, Storage, Table, Values

__all__ = [
    "PUBLISHED",
    "Audit",
    "Column",
    "Comparison",
    "Correlations",
    "Encoded",
    "EncodedColumn",
    "Encoding",
    "Floats",
    "Integers",
    "Judgement",
    "Kind",
    "Manifest",
    "Mask",
    "Measure",
    "Partition",
    "Placed",
    "Projection",
    "Quantiles",
    "Release",
    "Representatives",
    "Schema",
    "Storage",
    "Table",
    "Values",
]
