"""A release and its manifest."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from microcell.kernels.arrays import Integers
from microcell.model.partition import Partition
from microcell.model.schema import Schema
from microcell.model.table import Table

__all__ = ["Manifest", "Release"]


@dataclass(frozen=True)
class Manifest:
    """How a release was made; holds no value of the table.

    ``distortion`` is that of the published table, as the audit finds it; ``cells["distortion"]``, that of the points
    that the cells were made of (SSE / SST). ``output`` describes the file that was written, if one was. ``dependence``
    tells the weight of confidential columns in the design, if they had one. Where cells were made of ``blocks`` of
    columns, ``k`` is that of all columns together.
    """

    microcell: str
    created: str
    k: int
    method: Mapping[str, Any]
    seed: int
    missing: str
    columns: Mapping[str, Mapping[str, Any]]
    input: Mapping[str, Any]
    records: Mapping[str, int]
    cells: Mapping[str, Any]
    distortion: float
    seconds: float
    dependence: Mapping[str, Any] | None = None
    blocks: Mapping[str, Any] | None = None
    row_order: str = "kept"
    output: Mapping[str, Any] | None = None
    manifest_version: int = 1

    def __getitem__(self, name: str) -> Any:
        """The entry of that name."""
        return self.as_dict()[name]

    def as_dict(self) -> dict[str, Any]:
        """The manifest as plain data, ready for JSON."""
        version = {"manifest_version": self.manifest_version}
        return version | {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, eq=False)
class Release:
    """A k-anonymous table, ready to publish, with the partition behind it and the account of its making.

    ``table`` is in the frame type that came in, rows in their order; ``published`` is the same as a :class:`Table`.
    ``row_order`` is the order in which rows go to a file, known only to who has the original; ``source`` the file read.
    ``cells`` are the cells as a function (:class:`microcell.Cells`), if they were asked for.
    """

    table: Any
    partition: Partition
    manifest: Manifest
    schema: Schema
    published: Table
    row_order: Integers
    source: Path | None = None
    cells: Any = None
