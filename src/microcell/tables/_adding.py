"""Tables with further columns."""

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
from numpy.typing import NDArray

from microcell.errors import TableError
from microcell.model import Table
from microcell.tables._arrays import DictFrame
from microcell.tables._arrow import ArrowFrame
from microcell.tables._pandas import PandasFrame
from microcell.tables._polars import PolarsFrame
from microcell.tables._wrapping import frame_of, wrap

__all__ = ["add_columns"]

_New = Mapping[str, NDArray[Any]]


def add_columns(table: Table, columns: _New) -> Table:
    """The table with the arrays as further columns, in the same kind of frame; what came in is not changed.

    Examples
    --------
    >>> import numpy as np
    >>> from microcell.tables import read
    >>> add_columns(read({"age": [20, 30]}), {"far": np.array([1.5, 2.0])}).native
    {'age': array([20, 30]), 'far': array([1.5, 2. ])}
    """
    for name, column in columns.items():
        if name in table.columns:
            raise TableError(f"The table has a column {name!r} already. Rename it.")
        if len(column) != table.rows:
            raise TableError(f"{len(column)} values of {name!r} for {table.rows} rows. Give one a row.")
    return wrap(_ADDERS[type(frame_of(table.native))](table.native, columns), table.origin)


def _add_to_dict(native: dict[str, NDArray[Any]], columns: _New) -> dict[str, NDArray[Any]]:
    return {**native, **columns}


def _add_to_polars(native: pl.DataFrame, columns: _New) -> pl.DataFrame:
    return native.with_columns(pl.Series(name, column) for name, column in columns.items())


def _add_to_pandas(native: Any, columns: _New) -> Any:
    # As lists, texts get the type that pandas gives to text.
    return native.assign(
        **{name: column.tolist() if column.dtype.kind in "UO" else column for name, column in columns.items()}
    )


def _add_to_arrow(native: Any, columns: _New) -> Any:
    for name, column in columns.items():
        array = pl.Series(name, column).to_arrow()
        native = native.append_column(name, array.cast("string") if column.dtype.kind in "UO" else array)
    return native


_ADDERS: dict[type, Callable[[Any, _New], Any]] = {
    DictFrame: _add_to_dict,
    PolarsFrame: _add_to_polars,
    PandasFrame: _add_to_pandas,
    ArrowFrame: _add_to_arrow,
}
