"""Where a table came from: what reading found out and writing may want to know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = ["Dialect", "Origin"]


@dataclass(frozen=True)
class Dialect:
    """How a file of the CSV family is written. ``quote`` is empty where quotes mean nothing."""

    delimiter: str = ","
    encoding: str = "utf-8"
    quote: str = '"'
    decimal: str = "."


@dataclass(frozen=True)
class Origin:
    """Where a table came from.

    ``path``, ``suffix`` and ``dialect`` are of the file; ``labels`` (column to label) and ``value_labels`` (column to
    value to label) come from statistical files; ``timed`` are published columns whose records had times of day.
    """

    source: Literal["dict", "frame", "file"]
    suffix: str | None = None
    dialect: Dialect | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    value_labels: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)
    path: Path | None = None
    timed: frozenset[str] = frozenset()
