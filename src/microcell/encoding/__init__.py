"""From quasi-identifiers to points: each kind of column becomes one or more standardized dimensions."""

from microcell.encoding._points import encode, encode_confidential, fit, place
from microcell.encoding._reading import check_missing, count_missing, missing_rows

__all__ = ["check_missing", "count_missing", "encode", "encode_confidential", "fit", "missing_rows", "place"]
