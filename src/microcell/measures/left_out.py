"""Complete records that were left out of a release: from which groups they are."""

from collections.abc import Iterator
from math import exp, lgamma

import numpy as np

from microcell.kinds import kind_of
from microcell.measures.classes import class_labels
from microcell.measures.evidence import Evidence
from microcell.model import Column, Integers, Mask, Table, Values
from microcell.model.audit import LeftOutGroup

__all__ = ["left_out_groups"]

_QUARTERS = ("lowest quarter", "second quarter", "third quarter", "highest quarter")

_MOST_VALUES = 20
"""Number of values of a column that are groups; the rarer ones form one group."""

_OTHERS = "other values"

_TIMES = 2.0
"""A group is hit more than others if its share left out is at least this many times as large ..."""

_PROBABILITY = 0.001
"""... and chance would do that with at most this probability, over all groups together."""


def left_out_groups(evidence: Evidence) -> tuple[LeftOutGroup, ...]:
    """Return the groups by quasi-identifier, stratum or confidential column with records left out.

    Numbers and dates are divided into quarters. Records with a missing quasi-identifier do not
    count, because they may have been dropped for that reason.
    """
    if evidence.pairs is None or not len(evidence.columns.left_out):
        return ()
    original, schema = evidence.original, evidence.schema
    rows = np.concatenate((evidence.pairs, evidence.columns.left_out))
    out = np.arange(len(rows)) >= len(evidence.pairs)
    people = class_labels(original, schema.person)[rows] if schema.person else np.arange(len(rows))
    columns = [(column, True) for column in schema.quasi if len(column.parts) == 1]
    columns += [(Column(name), True) for name in schema.strata]
    columns += [(column, False) for column in schema.confidential]
    counted = [
        (column.name, quasi, name, *counts)
        for column, quasi in columns
        for name, *counts in _count_groups(original, column, rows, people, out)
    ]
    n_all, n_out = len(np.unique(people)), len(np.unique(people[out]))
    limit = _PROBABILITY / max(len(counted), 1)
    return tuple(
        LeftOutGroup(
            column,
            name,
            n,
            n_left_out,
            n_left_out * n_all >= _TIMES * n * n_out
            and _tail(n_left_out, n, n_out, n_all) <= limit,
            quasi,
        )
        for column, quasi, name, n, n_left_out in counted
        if n_left_out
    )


def _count_groups(
    table: Table, column: Column, rows: Integers, people: Integers, out: Mask
) -> Iterator[tuple[str, int, int]]:
    """Yield the groups of a column: name, and number of people in all and left out."""
    labels, names = _divide(column, table.columns[column.name], rows)
    for group, name in enumerate(names):
        members = labels == group
        if members.any():
            yield name, len(np.unique(people[members])), len(np.unique(people[members & out]))


def _divide(column: Column, values: Values, rows: Integers) -> tuple[Integers, tuple[str, ...]]:
    """Return the group of each row, -1 without a value, and the names of the groups."""
    ordered = values.is_time or values.is_number
    if ordered and (column.kind is None or kind_of(column).ordered):
        present = ~values.missing[rows]
        numbers = values.data[rows]
        labels = np.full(len(rows), -1, dtype=np.int64)
        if present.any():
            bounds = np.quantile(numbers[present], [0.25, 0.5, 0.75])
            labels[present] = np.searchsorted(bounds, numbers[present], side="left")
        return labels, _QUARTERS
    codes, names = values.factorize()
    codes = codes[rows]
    sizes = np.bincount(codes[codes >= 0], minlength=len(names))
    common = np.argsort(-sizes, kind="stable")[:_MOST_VALUES]
    place = np.full(len(names) + 1, len(common), dtype=np.int64)
    place[common] = np.arange(len(common))
    place[-1] = -1
    return place[codes], (*(names[code] for code in common.tolist()), _OTHERS)


def _tail(drawn: int, marked: int, draws: int, total: int) -> float:
    """Return the probability of drawing at least that many of the marked ones (hypergeometric)."""
    whole = _log_choose(total, draws)
    terms = (
        exp(_log_choose(marked, x) + _log_choose(total - marked, draws - x) - whole)
        for x in range(drawn, min(marked, draws) + 1)
        if draws - x <= total - marked
    )
    return min(1.0, sum(terms))


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
