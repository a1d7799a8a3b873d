"""Column kinds: everything that differs between numbers, dates, categories, codes and so on.

:class:`~microcell.kinds.base.Kind` is the interface, with one module per kind and :data:`KINDS` as
the registry. To add a kind, write a module with a subclass decorated with
:func:`~microcell.kinds.base.register`.
"""

from importlib import import_module
from pkgutil import iter_modules

from microcell.kinds.base import Kind, Reading
from microcell.kinds.column import KINDS, Column, EncodedColumn, Layout, kind_of
from microcell.kinds.groups import Groups
from microcell.kinds.names import CategoricalKind
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

# Importing a module registers its kinds, so a new one needs no other line of code.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
for _name in sorted(KINDS):  # messages and the reference list them in this order
    KINDS[_name] = KINDS.pop(_name)


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
    if column.hierarchy is not None or column.bands is not None:
        return next(kind for kind in KINDS.values() if kind.takes_hierarchy)
    if column.order is not None or values.ordered:
        return next(kind for kind in KINDS.values() if kind.takes_order)
    return next(kind for kind in KINDS.values() if values.storage in kind.default_for)
