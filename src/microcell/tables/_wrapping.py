"""Frames as tables: the right adapter for each kind, and columns read when first asked for."""

from collections.abc import Iterator, Mapping
from typing import Any

import narwhals as nw
import polars as pl

from microcell.errors import TableError
from microcell.model import Table, Values
from microcell.tables._arrays import DictFrame
from microcell.tables._arrow import ArrowFrame
from microcell.tables._frames import Frame
from microcell.tables._names import check_names
from microcell.tables._origin import Origin
from microcell.tables._pandas import PandasFrame
from microcell.tables._polars import PolarsFrame
from microcell.tables._values import normalize

__all__ = ["frame_of", "to_polars", "wrap"]


class _Columns(Mapping[str, Values]):
    """Columns as plain arrays, each made when first asked for and then kept."""

    def __init__(self, native: Any, frame: Frame) -> None:
        self._native = native
        self._frame = frame
        self._names = dict.fromkeys(frame.names(native))
        self._known: dict[str, Values] = {}

    def __getitem__(self, name: str) -> Values:
        if name not in self._known:
            if name not in self._names:
                raise KeyError(name)
            column = self._frame.column(self._native, name)
            self._known[name] = normalize(name, self._frame.extract(name, column))
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def frame_of(native: Any) -> Frame:
    """The adapter for that kind of frame."""
    if isinstance(native, dict):
        return DictFrame()
    if isinstance(native, pl.DataFrame):
        return PolarsFrame()
    if nw.dependencies.is_pandas_dataframe(native):
        return PandasFrame()
    if nw.dependencies.is_pyarrow_table(native):
        return ArrowFrame()
    raise TableError(f"No table can be made of {type(native).__name__}.")


def wrap(native: Any, origin: Origin) -> Table:
    """The frame as a table, its names checked."""
    frame = frame_of(native)
    check_names(frame.names(native))
    return Table(_Columns(native, frame), frame.rows(native), native, origin)


def to_polars(table: Table) -> pl.DataFrame:
    """The table as a polars frame; an index of pandas stays out, for it may name people."""
    if isinstance(table.native, pl.DataFrame):
        return table.native
    frame = frame_of(table.native)
    columns = (frame.extract(name, frame.column(table.native, name)).series.alias(name) for name in table.names)
    # NaN is how NumPy and pandas say missing.
    return pl.DataFrame([column.fill_nan(None) if column.dtype.is_float() else column for column in columns])
