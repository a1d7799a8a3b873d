"""What every form of a report tells, gathered once: trimmed to its readers, with the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from microcell.model import Audit, Integers
from microcell.reporting.audiences import check_audience, trim_audit, trim_manifest
from microcell.reporting.sentences import Fact, counted, listing
from microcell.reporting.verdicts import Verdict, reach

__all__ = ["Contents", "gather", "homogeneous", "tally"]

_SIZES = 12


@dataclass(frozen=True, eq=False)
class Contents:
    """A report before it has a form. ``audit`` and ``manifest`` hold no more than ``audience`` may know."""

    audit: Audit
    manifest: Mapping[str, Any] | None
    title: str
    verdict: Verdict
    audience: str
    picture: bytes | None = None

    @property
    def public(self) -> bool:
        """True if anyone may read it."""
        return self.audience == "public"


def gather(
    audit: Audit,
    *,
    manifest: Mapping[str, Any] | None,
    title: str,
    require: Mapping[str, float] | None,
    audience: str,
    picture: bytes | None = None,
) -> Contents:
    """The contents of a report for that audience."""
    check_audience(audience)
    if audience == "internal":
        return Contents(audit, manifest, title, reach(audit, require, audit), audience, picture)
    shown = trim_audit(audit)
    return Contents(shown, trim_manifest(manifest), title, reach(audit, require, shown), audience)


def tally(sizes: Integers) -> list[tuple[int, int]]:
    """Each size that occurs, from the least, and how often.

    Examples
    --------
    >>> tally(np.array([5, 7, 5]))
    [(5, 2), (7, 1)]
    """
    found, counts = np.unique(sizes, return_counts=True)
    return list(zip(found.tolist(), counts.tolist(), strict=True))


def homogeneous(audit: Audit) -> tuple[Fact, ...]:
    """The classes that share one value of a confidential column, by size; the value itself is not told.

    Examples
    --------
    >>> audit = Audit(("age",), 9, 9, {}, np.array([2, 2, 5]), homogeneous={"tsh": np.array([2, 2])})
    >>> homogeneous(audit)
    (Fact(label='tsh', text='2 classes of 2 records'),)
    """
    return tuple(Fact(name, _sizes_told(sizes)) for name, sizes in audit.homogeneous.items())


def _sizes_told(sizes: Integers) -> str:
    if not len(sizes):
        return "none"
    told = [f"{_classes(count)} of {counted(size, 'record')}" for size, count in tally(sizes)]
    rest = sum(count for _, count in tally(sizes)[_SIZES:])
    return listing([*told[:_SIZES], *([f"{_classes(rest)} of more records"] if rest else [])])


def _classes(count: int) -> str:
    return f"{count:,} class{'' if count == 1 else 'es'}"
