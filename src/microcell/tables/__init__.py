"""Tables: frames and files in and out. No other package knows frame types or file formats."""

from microcell.tables.digests import digest, file_digest
from microcell.tables.reading import read
from microcell.tables.snapshot import (
    as_stored,
    from_parquet,
    origin_from_dict,
    origin_to_dict,
    to_parquet,
)
from microcell.tables.stacking import align, stack
from microcell.tables.transform import (
    add_columns,
    publish,
    replace_by_cells,
    take,
    values_of_cells,
)
from microcell.tables.values import Dialect, Origin
from microcell.tables.writing import check_suffix, check_writable, read_back, write

__all__ = [
    "Dialect",
    "Origin",
    "add_columns",
    "align",
    "as_stored",
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
