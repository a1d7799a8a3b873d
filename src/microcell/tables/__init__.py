"""Tables in and out: the only place that knows frames and file formats."""

from microcell.tables._adding import add_columns
from microcell.tables._cells import replace_by_cells, values_of_cells
from microcell.tables._digest import digest, file_digest
from microcell.tables._origin import Dialect, Origin
from microcell.tables._publishing import publish, take
from microcell.tables._reading import read
from microcell.tables._writing import check_suffix, check_writable, read_back, write

__all__ = [
    "Dialect",
    "Origin",
    "add_columns",
    "check_suffix",
    "check_writable",
    "digest",
    "file_digest",
    "publish",
    "read",
    "read_back",
    "replace_by_cells",
    "take",
    "values_of_cells",
    "write",
]
