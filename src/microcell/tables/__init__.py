"""Tables in and out: the only place that knows frames and file formats."""

from microcell.tables.digests import digest, file_digest
from microcell.tables.reading import read
from microcell.tables.snapshot import (
    as_kept,
    from_parquet,
    origin_from_dict,
    origin_to_dict,
    to_parquet,
)
from microcell.tables.transform import (
    add_columns,
    align,
    publish,
    replace_by_cells,
    stack,
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
