"""Hierarchies of categories, numbers and dates: which values belong to which groups."""

from microcell.hierarchies.bands import CALENDAR, Bands, check_widths
from microcell.hierarchies.files import (
    BUNDLED,
    Hierarchy,
    as_hierarchy,
    from_plain,
    is_plain_hierarchy,
    read_hierarchy,
    write_hierarchy,
)
from microcell.hierarchies.taxonomy import ROOT, Taxonomy, common_ancestor

__all__ = [
    "BUNDLED",
    "CALENDAR",
    "ROOT",
    "Bands",
    "Hierarchy",
    "Taxonomy",
    "as_hierarchy",
    "check_widths",
    "common_ancestor",
    "from_plain",
    "is_plain_hierarchy",
    "read_hierarchy",
    "write_hierarchy",
]
