"""What a report says in words: the guarantee, the facts, the account of the making."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from microcell.model import Audit, Measure

__all__ = ["Fact", "amount", "counted", "direction", "facts", "guarantee", "listing", "making"]


@dataclass(frozen=True)
class Fact:
    """A short heading and what is to be said under it."""

    label: str
    text: str


def guarantee(audit: Audit) -> str:
    """The sentence that a data officer can sign: what each published record shares with others, or what is wrong.

    Examples
    --------
    >>> audit = Audit(keys=("sex", "age"), rows_original=9, rows_released=9, measures={},
    ...               class_sizes=np.array([3, 3, 3]))
    >>> guarantee(audit)
    'Each of the 9 published records shares its values of sex and age with at least 2 others: the table is
    3-anonymous in these columns.'
    """
    problems = list(_problems(audit))
    if problems:
        return f"Not fit to publish: {listing(problems)}."
    if not audit.rows_released:
        return "The published table is empty: it holds no record to protect."
    k = _smallest(audit)
    several = len(audit.keys) != 1
    return (
        f"Each of the {audit.rows_released:,} published records shares its value{'s' * several} of "
        f"{listing(audit.keys)} with at least "
        f"{counted(k - 1, 'other')}: the table is {k:,}-anonymous in {'these columns' if several else 'this column'}."
    )


def facts(audit: Audit) -> tuple[Fact, ...]:
    """What a reader looks for first: k, classes, records in and out."""
    sizes = audit.class_sizes
    found = [
        Fact("Smallest class", counted(_smallest(audit), "record")),
        Fact("Classes", f"{len(sizes):,}"),
    ]
    if len(sizes):
        found.append(Fact("Class sizes", _sizes_told(audit)))
    found.append(Fact("Records", f"{audit.rows_original:,} in the original, {audit.rows_released:,} published"))
    if "distortion" in audit.measures:
        found.append(Fact("Information lost", f"{100 * audit['distortion']:.3g} %"))
    return tuple(found)


def making(manifest: Mapping[str, Any] | None) -> tuple[Fact, ...]:
    """How the release was made, as the manifest tells it; nothing without one."""
    if manifest is None:
        return ()
    return tuple(
        Fact(label, text) for key, label in _MAKING.items() if (text := _told(manifest.get(key))) and key in manifest
    )


def listing(items: Sequence[str]) -> str:
    """The items in a row: "sex, age and home".

    Examples
    --------
    >>> listing(["sex", "age", "home"])
    'sex, age and home'
    """
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def counted(count: int, noun: str) -> str:
    """The number with its noun: "1 record", "2,000 records"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def amount(measure: Measure) -> str:
    """A measure's value for people: whole numbers with separators, shares with four digits behind the point."""
    if measure.unit == "share":
        return f"{measure.value:.4f}" if measure.value < 1e4 else f"{measure.value:.3g}"
    return f"{measure.value:,.12g}"


def direction(measure: Measure) -> str:
    """Which way is better: "less" or "more"."""
    return "less" if measure.lower_is_better else "more"


_MAKING: Mapping[str, str] = {
    "k": "k asked for",
    "method": "Method",
    "seed": "Seed",
    "missing": "Missing values",
    "records": "Records",
    "cells": "Cells",
    "row_order": "Order of rows",
    "input": "Input",
    "created": "Made",
    "seconds": "Duration in seconds",
    "microcell": "Version of microcell",
}


def _problems(audit: Audit) -> Iterator[str]:
    left = _count(audit, "identifiers_left")
    if left:
        yield f"{counted(left, 'column')} to be removed {'is' if left == 1 else 'are'} still in the table"
    strange = _count(audit, "records_unaccounted")
    if strange:
        yield f"{counted(strange, 'published record')} cannot come from the original"
    alone = int((audit.class_sizes == 1).sum())
    if alone:
        yield (
            f"{alone:,} of the {counted(audit.rows_released, 'published record')} "
            f"{'is' if alone == 1 else 'are'} alone with {'its' if alone == 1 else 'their'} "
            f"value{'s' * (len(audit.keys) != 1)} of {listing(audit.keys)}, so k is 1 and nothing protects "
            f"{'it' if alone == 1 else 'them'}"
        )


def _count(audit: Audit, name: str) -> int:
    return int(audit[name]) if name in audit.measures else 0


def _smallest(audit: Audit) -> int:
    return int(audit.class_sizes.min()) if len(audit.class_sizes) else 0


def _sizes_told(audit: Audit) -> str:
    low, middle, high = (int(size) for size in np.quantile(audit.class_sizes, (0, 0.5, 1), method="lower"))
    return f"all of {counted(low, 'record')}" if low == high else f"{low:,} to {high:,}, median {middle:,}"


def _told(value: Any) -> str:
    """Plain data as a phrase: mappings as "key value" pairs."""
    if isinstance(value, Mapping):
        return "; ".join(f"{str(key).replace('_', ' ')} {text}" for key, item in value.items() if (text := _told(item)))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_told, value))
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
