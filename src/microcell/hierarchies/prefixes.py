"""Hierarchies of codes whose beginnings are the codes of larger groups: NUTS and ISCO-08."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from microcell._display import record_repr
from microcell.hierarchies.taxonomy import ROOT

__all__ = ["PREFIXES", "Prefixes"]


@dataclass(frozen=True)
class Prefixes:
    """Codes that end at one of several lengths; the shorter ones are groups of the longer ones.

    Parameters
    ----------
    source
        Name of the bundled hierarchy.
    pattern
        Regular expression of a code.
    groups
        How many groups there are at each length, by length of the code.

    Examples
    --------
    >>> PREFIXES["nuts"].path("DE212")
    ('DE212', 'DE21', 'DE2', 'DE', '*')
    >>> PREFIXES["isco08"].path("25")
    ('25', '2', '*')
    """

    source: str
    pattern: str
    groups: tuple[tuple[int, int], ...]

    root = ROOT

    __repr__ = record_repr

    def describe(self) -> str:
        """Return a phrase for manifests and reports."""
        return self.source

    def as_plain(self) -> str:
        """Return the name, for JSON."""
        return self.source

    def path(self, label: str) -> tuple[str, ...] | None:
        """Return the labels from this one to the root; None if it is not a code."""
        if label == ROOT:
            return (ROOT,)
        if not re.fullmatch(self.pattern, label) or len(label) not in dict(self.groups):
            return None
        above = [label[:length] for length, _ in reversed(self.groups) if length < len(label)]
        return (label, *above, ROOT)

    def share(self, label: str) -> float:
        """Return the share of all codes that an average group of this length covers."""
        if label == ROOT:
            return 1.0
        return 0.0 if len(label) == self.groups[-1][0] else 1 / dict(self.groups)[len(label)]

    @property
    def share_of_one(self) -> float:
        """Increase of a share per additional possible value."""
        return 1 / self.groups[-1][1]

    def height(self, label: str) -> float:
        """Return the squared distance of two codes whose smallest common group this is."""
        level = len(self.path(label) or (ROOT,)) - 1
        return ((1 - level / len(self.groups)) + self.share(label)) / 2


def _named(items: Sequence[Prefixes]) -> dict[str, Prefixes]:
    return {item.source: item for item in items}


PREFIXES = _named(
    (
        # The numbers of groups are those of NUTS 2021 and ISCO-08.
        Prefixes("nuts", r"[A-Z]{2}[0-9A-Z]{0,3}", ((2, 27), (3, 92), (4, 242), (5, 1166))),
        Prefixes("isco08", r"[0-9]{1,4}", ((1, 10), (2, 43), (3, 130), (4, 436))),
    )
)
