"""Tables: frames and files in and out. No other package knows frame types or file formats."""

from microcell.tables.digests import digest, file_digest
from microcell.tables.formulas import check_escaping, escape_formulas, unescape_formulas
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
from microcell.tables.writing import check_suffix, check_writable, read_back, write

__all__ = [
    "add_columns",
    "align",
    "as_stored",
    "check_escaping",
    "check_suffix",
    "check_writable",
    "digest",
    "escape_formulas",
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
    "unescape_formulas",
    "values_of_cells",
    "write",
]
