"""Draft a hierarchy from a column, and check that a hierarchy has all values of a column."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from microcell._display import record_repr
from microcell.errors import SchemaError
from microcell.hierarchies import BUNDLED, Hierarchy, Taxonomy, read_hierarchy
from microcell.kinds.hierarchical import value_labels
from microcell.kinds.values import Values
from microcell.model import Table

__all__ = ["HierarchyCheck", "check_hierarchy", "draft_hierarchy", "suggest_hierarchy"]

OTHER = "other"
"""Group of the values that the base hierarchy lacks."""

_WORD = re.compile(r"[\w']+")
_MANY = 0.95
"""A bundled hierarchy fits if it has this share of a column's values."""

_BANDS = 4
"""Number of narrowest bands in the middle half of a column of numbers, approximately."""


@dataclass(frozen=True)
class HierarchyCheck:
    """How a hierarchy fits a column.

    ``unknown`` is the number of different values that the hierarchy lacks; ``rows`` are the numbers
    of the rows with such a value, and ``unused`` counts values of the hierarchy that do not occur.
    """

    values: int
    unknown: int
    rows: tuple[int, ...]
    unused: int | None

    __repr__ = record_repr

    @property
    def complete(self) -> bool:
        """True if the hierarchy has every value."""
        return not self.rows


def check_hierarchy(hierarchy: Hierarchy, table: Table, column: str) -> HierarchyCheck:
    """Compare a hierarchy with the values of a column.

    Examples
    --------
    >>> import microcell as mc
    >>> table = mc.read({"town": ["Rome", "Bonn", "Oslo"]})
    >>> towns = Taxonomy.from_mapping({"south": ["Rome"], "north": ["Bonn", "Kiel"]})
    >>> check_hierarchy(towns, table, "town")
    <HierarchyCheck values=3, unknown=1, rows[1], unused=1>
    """
    values = _column(table, column)
    codes, _ = values.factorize()
    labels = value_labels(values)
    unknown = np.array([*(hierarchy.path(label) is None for label in labels), False])
    rows = np.flatnonzero(unknown[codes]) + 1
    used = {labels[code] for code in np.unique(codes[codes >= 0]).tolist()}
    unused = len(hierarchy.leaves - used) if isinstance(hierarchy, Taxonomy) else None
    return HierarchyCheck(len(used), int(unknown.sum()), tuple(rows.tolist()), unused)


def draft_hierarchy(table: Table, column: str, *, base: Taxonomy | None = None) -> Taxonomy:
    """Propose a hierarchy for the values of a column, to review and correct.

    Values are grouped by their first word, or codes of equal length by their beginnings. With
    ``base``, its groups are kept, and values that it lacks are added to a group "other".

    Examples
    --------
    >>> import microcell as mc
    >>> status = ["Married, spouse absent", "Married", "Never married", "Widowed"]
    >>> draft = draft_hierarchy(mc.read({"status": status}), "status")
    >>> draft.path("Married, spouse absent")
    ('Married, spouse absent', 'Married', '*')
    """
    values = _column(table, column)
    labels = sorted({label for label in _used(values) if label.strip() == label and label})
    if not labels:
        raise SchemaError(
            f"Column {column!r} has no values to group.", code="schema.bad_hierarchy", column=column
        )
    if base is not None:
        lacking = [label for label in labels if base.path(label) is None]
        return Taxonomy((*base.rows, *((label, OTHER) for label in lacking)))
    if _are_codes(labels):
        return Taxonomy(tuple(_code_path(label) for label in labels))
    return Taxonomy(tuple(_group_by_word(labels)))


def suggest_hierarchy(table: Table, column: str) -> str | None:
    """Propose schema lines that need no file: bands, or a bundled hierarchy; None if none fits.

    Examples
    --------
    >>> import microcell as mc
    >>> print(suggest_hierarchy(mc.read(mc.sample_survey(500)), "age"))
    role = "quasi"
    kind = "hierarchy"
    bands = [10, 20]
    """
    values = _column(table, column)
    bundled = None if values.is_time else _find_bundled(values)
    if bundled is not None:
        line = f'hierarchy = "{bundled}"'
    elif values.is_time:
        line = 'bands = ["month", "quarter", "year"]'
    elif values.is_number and not values.missing.all():
        low, high = np.quantile(values.data[~values.missing], [0.25, 0.75]).tolist()
        width = _nice((high - low) / _BANDS)
        line = f"bands = [{width}, {2 * width}]"
    else:
        return None
    return f'role = "quasi"\nkind = "hierarchy"\n{line}'


def _find_bundled(values: Values) -> str | None:
    """Return the name of a bundled hierarchy that has nearly all values of a column."""
    labels = set(_used(values))
    for name in BUNDLED:
        hierarchy = read_hierarchy(name)
        known = sum(hierarchy.path(label) is not None for label in labels)
        # Small numbers look like occupations, too.
        if len(labels) > 1 and known >= _MANY * len(labels) and not values.is_number:
            return name
    return None


def _column(table: Table, column: str) -> Values:
    if column not in table.columns:
        raise SchemaError(
            f"The table has no column {column!r}. 'microcell inspect' lists its columns.",
            code="schema.unknown_column",
            columns=(column,),
        )
    return table.columns[column]


def _used(values: Values) -> list[str]:
    codes, _ = values.factorize()
    labels = value_labels(values)
    return [labels[code] for code in np.unique(codes[codes >= 0]).tolist()]


def _are_codes(labels: Sequence[str]) -> bool:
    """Return whether the values are words without spaces, of one length, that contain digits."""
    lengths = {len(label) for label in labels}
    return len(lengths) == 1 and all(
        label.isalnum() and any(map(str.isdigit, label)) for label in labels
    )


def _code_path(code: str) -> tuple[str, ...]:
    lengths = range(len(code) - 1, 0, -2 if len(code) > 3 else -1)
    return (code, *(code[:length].ljust(len(code), "*") for length in lengths))


def _group_by_word(labels: Iterable[str]) -> list[tuple[str, ...]]:
    labels = list(labels)
    first = {label: (_WORD.findall(label.replace("-", " ")) or [label])[0] for label in labels}
    counts = Counter(first.values())
    return [(label, first[label]) if counts[first[label]] > 1 else (label,) for label in labels]


def _nice(width: float) -> float:
    """Return 1, 2 or 5 times a power of ten that is at least the width."""
    if width <= 0:
        return 1
    power = 10.0 ** np.floor(np.log10(width))
    step = next(lead * power for lead in (1, 2, 5, 10) if lead * power >= width)
    return int(step) if float(step).is_integer() else float(step)
