"""Column kinds: everything that differs between numbers, dates, categories, codes and locations.

:class:`~microcell.kinds.base.Kind` is the interface, with one module per kind and :data:`KINDS` as
the registry. To add a kind, write a module with a subclass and list an instance below.
"""

from microcell.kinds.base import Kind, Reading
from microcell.kinds.codes import CodeKind
from microcell.kinds.column import Column
from microcell.kinds.dates import DatetimeKind
from microcell.kinds.encoded import EncodedColumn, Layout
from microcell.kinds.groups import Groups
from microcell.kinds.location import LocationKind
from microcell.kinds.names import CategoricalKind
from microcell.kinds.nominal import NominalKind
from microcell.kinds.numeric import NumericKind
from microcell.kinds.ordinal import OrdinalKind
from microcell.kinds.registry import KINDS, kind_of
from microcell.kinds.values import Representatives, Storage, Values

__all__ = [
    "KINDS",
    "CategoricalKind",
    "Column",
    "EncodedColumn",
    "Groups",
    "Kind",
    "Layout",
    "Reading",
    "Representatives",
    "Storage",
    "Values",
    "detect_kind",
    "kind_of",
]

KINDS.update(
    (kind.name, kind)
    for kind in (
        NumericKind(),
        OrdinalKind(),
        NominalKind(),
        CodeKind(),
        DatetimeKind(),
        LocationKind(),
    )
)


def detect_kind(column: Column, values: Values) -> Kind:
    """Return the kind of a column: as declared, or else the default for its values.

    Examples
    --------
    >>> import numpy as np
    >>> detect_kind(Column("age"), Values("integer", np.array([30]), np.array([False]))).name
    'numeric'
    """
    if column.kind is not None:
        return KINDS[column.kind]
    if column.order is not None or values.ordered:
        return next(kind for kind in KINDS.values() if kind.takes_order)
    return next(kind for kind in KINDS.values() if values.storage in kind.default_for)
