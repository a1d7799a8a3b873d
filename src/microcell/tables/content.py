"""The content of a file, and constants shared by all file formats."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from microcell.model import Dialect

__all__ = ["CREATED", "LARGEST_EXACT", "Content"]

CREATED = datetime(2000, 1, 1)
"""Time of creation in files that contain one, so that the same table gives the same bytes."""

LARGEST_EXACT = 2**53
"""Whole numbers up to this are exact as floats."""


@dataclass(frozen=True, eq=False)
class Content:
    """The content of a file: a frame, and further information that its format stores."""

    frame: pl.DataFrame
    dialect: Dialect | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    value_labels: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """How values were read, by name of column and count; never a value."""
