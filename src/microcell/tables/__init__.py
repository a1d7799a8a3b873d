"""Tables in and out: the only place that knows frames and file formats."""

from microcell.tables._adding import add_columns
from microcell.tables._cells import replace_by_cells, values_of_cells
from microcell.tables._digest import digest, file_digest
from microcell.tables._keeping import as_kept, from_parquet, origin_from_dict, origin_to_dict, to_parquet
from microcell.tables._origin import Dialect, Origin
from microcell.tables._publishing import publish, take
from microcell.tables._reading import read
from microcell.tables._stacking import align, stack
from microcell.tables._writing import check_suffix, check_writable, read_back, write

__all__ = [
    "Dialect",
    "Origin",
    "add_columns",
    "align",
    "as_kept",
    "check_suffix",
    "check_writable",
    "digest",
    "file_digest",
    "from_parquet",
    "origin_from_dict",
    "origin_to_dict",
    "publish",
    "read",
    "read_back",
    "replace_by_cells",
    "stack",
    "take",
    "to_parquet",
    "values_of_cells",
    "write",
]
