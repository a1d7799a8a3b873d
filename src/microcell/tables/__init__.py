"""Tables: frames and files in and out. No other package knows frame types or file formats."""

from microcell.tables.digests import digest, file_digest
from microcell.tables.files import check_suffix, check_writable, read, read_back, write
from microcell.tables.snapshot import (
    as_stored,
    from_parquet,
    origin_from_dict,
    origin_to_dict,
    to_parquet,
)
from microcell.tables.transform import (
    add_columns,
    align,
    check_escaping,
    escape_formulas,
    publish,
    replace_by_cells,
    stack,
    take,
    unescape_formulas,
    values_of_cells,
    without_category_order,
)

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
    "without_category_order",
    "write",
]
