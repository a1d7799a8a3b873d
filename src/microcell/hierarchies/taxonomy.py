"""A hierarchy of categories: every value belongs to a group, and every group to a larger one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Any

from microcell._display import count
from microcell.errors import SchemaError

__all__ = ["ROOT", "Taxonomy", "common_ancestor"]

ROOT = "*"
"""Label of the root, which covers all values, if the hierarchy does not name it."""


@dataclass(frozen=True)
class Taxonomy:
    """A tree of categories, given by the path of each leaf.

    Parameters
    ----------
    rows
        The path of each leaf, from the leaf to its largest group. Labels that repeat the one
        before, and empty ones, are skipped. A label stands for the same group wherever it occurs,
        so it must always lie in the same larger group.
    source
        Name of the file, or of the hierarchy if it is ``bundled`` with microcell.

    Examples
    --------
    >>> places = Taxonomy((("Rome", "Italy", "Europe"), ("Bonn", "Germany", "Europe"),
    ...                    ("Cairo", "Egypt", "Africa")))
    >>> places.path("Rome")
    ('Rome', 'Italy', 'Europe', '*')
    >>> places.share("Italy"), places.share("Europe"), places.share("*")
    (0.0, 0.5, 1.0)
    """

    rows: tuple[tuple[str, ...], ...]
    source: str | None = field(default=None, compare=False)
    bundled: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(_clean(row) for row in self.rows))
        if not any(self.rows):
            raise SchemaError("The hierarchy is empty. Add a row for each value.", code=_CODE)
        for problem, row in self._conflicts():
            raise SchemaError(f"Row {row + 1} of the hierarchy {problem}.", code=_CODE, row=row + 1)

    def __repr__(self) -> str:
        return f"Taxonomy({len(self.leaves)} values, {self.levels} levels)"

    @classmethod
    def from_mapping(cls, groups: Mapping[str, Any]) -> "Taxonomy":
        """Build a hierarchy from groups: each maps its label to its values or to smaller groups.

        Examples
        --------
        >>> Taxonomy.from_mapping({"north": ["a", "b"], "south": {"east": ["c"], "west": ["d"]}})
        Taxonomy(4 values, 3 levels)
        """
        return cls(tuple(_paths(groups, ())))

    def describe(self) -> str:
        """Return a phrase for manifests and reports."""
        if self.bundled or self.source:
            return PurePath(str(self.source)).name
        return f"{count(len(self.leaves), 'value')} in {count(self.levels, 'level')}"

    def as_plain(self) -> str | list[list[str]]:
        """Return the name of a bundled hierarchy, or else the rows, for JSON."""
        return str(self.source) if self.bundled else [list(row) for row in self.rows]

    @cached_property
    def parents(self) -> Mapping[str, str]:
        """The next larger group of every label but the root."""
        parents: dict[str, str] = {}
        for row in self.rows:
            parents.update(zip(row, (*row[1:], self.root), strict=True))
        parents.pop(self.root, None)
        return parents

    @cached_property
    def root(self) -> str:
        """Label of the root, which covers all values."""
        tops = {row[-1] for row in self.rows if row}
        return tops.pop() if len(tops) == 1 and any(len(row) > 1 for row in self.rows) else ROOT

    @cached_property
    def leaves(self) -> frozenset[str]:
        """The values: labels that begin a row."""
        return frozenset(row[0] for row in self.rows if row and row[0] != self.root)

    @cached_property
    def levels(self) -> int:
        """Length of the longest path, without the root."""
        return max((len(self.path(leaf) or ()) for leaf in self.leaves), default=1) - 1

    def path(self, label: str) -> tuple[str, ...] | None:
        """Return the labels from this one to the root; None if the label is unknown."""
        if label != self.root and label not in self.parents:
            return None
        path = [label]
        while path[-1] != self.root:
            path.append(self.parents[path[-1]])
        return tuple(path)

    def restricted(self, labels: Set[str]) -> "Taxonomy":
        """Return the hierarchy of these values and groups, which include all their groups.

        A bundled hierarchy is public and stays as it is.

        Examples
        --------
        >>> places = Taxonomy((("Rome", "Italy"), ("Bonn", "Germany"), ("Kiel", "Germany")))
        >>> places.restricted({"Rome", "Italy", "Germany"}).rows
        (('Rome', 'Italy', '*'), ('Germany', '*'))
        """
        if self.bundled:
            return self
        paths = (self.path(row[0]) or () for row in self.rows if row)
        rows = (tuple(label for label in path if label in labels) for path in paths)
        # A larger group that is not the root must not become it.
        kept = dict.fromkeys((*row, self.root) for row in rows)
        longer = tuple(row for row in kept if len(row) > 1)
        return Taxonomy(longer or ((self.root,),), self.source)

    def share(self, label: str) -> float:
        """Return the share of the other values that a label covers: 0 for a value, 1 for all."""
        others = len(self.leaves) - 1
        return (max(self._counts[label], 1) - 1) / others if others else 0.0

    @cached_property
    def share_of_one(self) -> float:
        """Increase of a share per additional possible value."""
        return 1.0 / max(len(self.leaves) - 1, 1)

    def height(self, label: str) -> float:
        """Return the squared distance of two values whose smallest common group this is.

        The mean of the group's share of levels and its share of values: 0 for a value, 1 for the
        root. Groups have a larger height than what they contain.
        """
        return (self._levels_below[label] / self._levels_below[self.root] + self.share(label)) / 2

    @cached_property
    def _counts(self) -> Mapping[str, int]:
        counts = dict.fromkeys((*self.parents, self.root), 0)
        for leaf in self.leaves:
            for label in self.path(leaf) or ():
                counts[label] += 1
        return counts

    @cached_property
    def _levels_below(self) -> Mapping[str, int]:
        levels = dict.fromkeys((*self.parents, self.root), 0)
        for label in self.parents:
            for level, above in enumerate(self.path(label) or ()):
                levels[above] = max(levels[above], level)
        return levels

    def _conflicts(self) -> Iterator[tuple[str, int]]:
        """Yield the row and a description of each problem.

        Paths cannot form a cycle: each ends at the root, and each label has one larger group.
        """
        parents: dict[str, str] = {}
        for number, row in enumerate(self.rows):
            if len(set(row)) < len(row):
                yield "returns to a group that it left", number
            for label, above in zip(row, (*row[1:], self.root), strict=True):
                if label != self.root and parents.setdefault(label, above) != above:
                    yield "puts a label into another group than an earlier row does", number


def common_ancestor(path: Sequence[str], other: Sequence[str]) -> str:
    """Return the smallest group that contains the beginnings of both paths.

    Examples
    --------
    >>> common_ancestor(("Rome", "Italy", "Europe", "*"), ("Bonn", "Germany", "Europe", "*"))
    'Europe'
    """
    seen = set(other)
    return next(label for label in path if label in seen)


_CODE = "schema.bad_hierarchy"


def _clean(row: Iterable[object]) -> tuple[str, ...]:
    labels = [text for item in row if (text := str(item).strip())]
    return tuple(label for i, label in enumerate(labels) if i == 0 or label != labels[i - 1])


def _paths(groups: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(groups, Mapping):
        for label, inner in groups.items():
            yield from _paths(inner, (str(label), *above))
        return
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise SchemaError(
            "A group of the hierarchy must map to a list of values, or to smaller groups.",
            code=_CODE,
        )
    yield from ((str(leaf), *above) for leaf in groups)
