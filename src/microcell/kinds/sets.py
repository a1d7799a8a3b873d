"""Sets of values that a cell publishes, such as "asthma or diabetes"."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from microcell.errors import SchemaError
from microcell.kinds.base import Reading
from microcell.kinds.groups import Groups

__all__ = ["MAX_SET", "SEPARATOR", "check_separator", "join", "members", "names_by_cell"]

SEPARATOR = " or "

MAX_SET = 3
"""Largest number of values of a set that is published in place of a group or a false value."""


def join(names: Iterable[str]) -> str:
    """Return the text of a set, in alphabetical order.

    Examples
    --------
    >>> join(["diabetes", "asthma"])
    'asthma or diabetes'
    """
    return SEPARATOR.join(sorted(names))


def members(text: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the values of a published text: itself, or those of a set; none if one is unknown.

    Examples
    --------
    >>> members("asthma or diabetes", {"asthma", "diabetes"}.__contains__)
    ('asthma', 'diabetes')
    """
    if is_known(text):
        return (text,)
    names = tuple(text.split(SEPARATOR))
    return names if all(map(is_known, names)) else ()


def check_separator(name: str, names: Iterable[str]) -> None:
    """Raise SchemaError if a value could be mistaken for a set."""
    if any(SEPARATOR in text for text in names):
        raise SchemaError(
            f"Column {name!r} cannot publish sets, because one of its values contains "
            f"{SEPARATOR!r}. Reword the value, or publish something else.",
            code="schema.wrong_kind",
            column=name,
            field="publish",
        )


def names_by_cell(reading: Reading, groups: Groups) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each cell with a value, and its distinct values."""
    present = reading.codes >= 0
    if not present.any():
        return
    pairs = np.column_stack((groups.labels[present], reading.codes[present]))
    pairs = np.unique(pairs, axis=0)
    labels, starts = np.unique(pairs[:, 0], return_index=True)
    for label, codes in zip(labels.tolist(), np.split(pairs[:, 1], starts[1:]), strict=True):
        yield label, [reading.names[code] for code in codes.tolist()]
