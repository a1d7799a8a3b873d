"""Rules that cells must satisfy during a search, and the amount by which a cell violates them.

A rule has up to three parts, each of which is optional: a minimum number of distinct persons,
limits on confidential columns (:data:`DISTINCT` and the others), and a predicate on the traits of
the members. The violation of a cell is 0 if it satisfies the rule. It is computed from the values
of the members, in O(size) for columns with few values and in O(size log size) for others.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import ZERO, holds, inlined_kernel, inner_kernel, kernel
from microcell.kernels.arrays import Floats, Integers
from microcell.kernels.groups import Grouping

__all__ = [
    "CLOSENESS",
    "DISCLOSURE",
    "DISTINCT",
    "DIVERGENCE",
    "ENTROPY",
    "KINDS",
    "RECURSIVE",
    "Rule",
    "Values",
    "Workspace",
    "cell_violations",
    "counts_persons_only",
    "is_active",
    "is_neutral",
    "keeps_persons",
    "make_rule",
    "make_workspace",
    "no_rule",
    "take_rows",
    "trait_rule",
    "violation",
    "violations_of",
]

DISTINCT, ENTROPY, RECURSIVE, CLOSENESS, DIVERGENCE, DISCLOSURE = range(6)
"""Limits on a confidential column: minimum of distinct values, of effective values (exponential
of the entropy) and the recursive diversity; maximum of t-closeness, of the Kullback-Leibler
divergence and of delta-disclosure.
"""

KINDS = 6

RECURSIVE_C = 3.0
"""The constant c of recursive (c, l)-diversity."""

_FEW_VALUES = 64
"""Columns with at most this many values are counted in a histogram; others are sorted."""

_VETO = 1e30
"""Default penalty, so high that a violation never rises."""


class Rule(NamedTuple):
    """Conditions on cells, with the data of the records that they need."""

    traits: Floats
    """(n, t): traits of each record; no columns if there is no predicate."""
    allowed: int
    """Address returned by :func:`microcell.kernels._jit.predicate`; not used without traits."""
    persons: Integers
    """(n,): person of each record; empty if every record is a person."""
    least: int
    """Minimum number of distinct persons per cell; not used without persons."""
    keys: Integers
    """(q, n): code of each record's value in each confidential column; with persons, the code times
    ``people`` plus the person, so that each person counts once per value."""
    people: int
    """Number of persons; 0 if every record counts."""
    similar: Integers
    """(n,): group number; records of a group have the same or similar confidential values."""
    limits: Floats
    """(q, KINDS): limits on each confidential column. 0 as a minimum or infinity as a maximum means
    no limit.
    """
    ordered: Integers
    """(q,): 1 if the order of the column's values matters."""
    starts: Integers
    """(q + 1,): first value of each column in ``totals``."""
    totals: Floats
    """(V,): how often each value of each column occurs in the table."""
    cumulative: Floats
    """(V,): how often the value or a lower one of the same column occurs."""
    sums: Floats
    """(V + q,): prefix sums of ``cumulative`` by column, from 0; those of column c start at
    ``starts[c] + c``."""
    penalty: float
    """Penalty, in SSE, for one unit of violation."""


class Values(NamedTuple):
    """A confidential column: codes 0, 1, 2, ... by record, whether ordered, and its limits.

    ``totals`` is how often each value occurs, if the records are part of a larger table.
    """

    codes: Integers
    ordered: bool
    limits: Floats
    totals: Floats | None = None


class Workspace(NamedTuple):
    """Preallocated working memory for the values of one cell."""

    keys: Integers
    values: Integers
    counts: Integers
    histogram: Integers


def no_rule(rows: int) -> Rule:
    """Return a rule without conditions."""
    return make_rule(rows)


def trait_rule(traits: Floats, allowed: int) -> Rule:
    """Return the rule that the predicate at this address holds for the traits of the members."""
    return make_rule(len(traits))._replace(traits=traits, allowed=allowed)


def make_rule(
    rows: int,
    columns: Sequence[Values] = (),
    *,
    persons: Integers | None = None,
    least: int = 0,
    similar: Integers | None = None,
) -> Rule:
    """Return the rule that limits confidential columns and requires ``least`` distinct persons.

    ``persons`` are numbered from 0. With persons, a person counts once per value and cell, and
    once per value in the table.
    """
    people = 0 if persons is None else int(persons.max(initial=-1)) + 1
    keys = np.empty((len(columns), rows), dtype=np.int64)
    totals = []
    for c, column in enumerate(columns):
        keys[c] = column.codes if persons is None else column.codes * people + persons
        counted = keys[c] if persons is None else np.unique(keys[c]) // max(people, 1)
        totals.append(np.bincount(counted).astype(np.float64))
        if column.totals is not None:
            totals[c] = np.asarray(column.totals, dtype=np.float64)
    cumulative = [np.cumsum(part) for part in totals]
    return Rule(
        np.empty((rows, 0)),
        ZERO,
        np.zeros(0, dtype=np.int64) if persons is None else persons.astype(np.int64),
        np.int64(0 if persons is None else least),  # type: ignore[arg-type]
        keys,
        np.int64(people),  # type: ignore[arg-type]
        np.zeros(rows, dtype=np.int64) if similar is None else similar.astype(np.int64),
        np.array([column.limits for column in columns], dtype=np.float64).reshape(-1, KINDS),
        np.array([column.ordered for column in columns], dtype=np.int64),
        np.cumsum([0, *map(len, totals)]).astype(np.int64),
        np.concatenate([np.zeros(0), *totals]),
        np.concatenate([np.zeros(0), *cumulative]),
        np.concatenate([np.zeros(0), *(np.append(0.0, np.cumsum(part)) for part in cumulative)]),
        _VETO,
    )


def take_rows(rule: Rule, rows: Integers) -> Rule:
    """Return the rule restricted to some records; the distribution of the table is unchanged."""
    return rule._replace(
        traits=rule.traits[rows],
        persons=rule.persons[rows] if len(rule.persons) else rule.persons,
        keys=np.ascontiguousarray(rule.keys[:, rows]),
        similar=rule.similar[rows],
    )


@kernel
def cell_violations(cells: Grouping, rule: Rule) -> Floats:
    """Return the violation of each cell; 0 for cells that satisfy the rule. O(n log n)."""
    return violations_of(cells, rule, make_workspace(cells, rule))


@inner_kernel
def is_active(rule: Rule) -> bool:
    """Return whether the rule has any condition."""
    return rule.traits.shape[1] > 0 or rule.least > 0 or len(rule.keys) > 0


@inner_kernel
def counts_persons_only(rule: Rule) -> bool:
    """Return whether the only condition is the number of persons."""
    return rule.least > 0 and rule.traits.shape[1] == 0 and len(rule.keys) == 0


@inner_kernel
def keeps_persons(cells: Grouping, rule: Rule, leaves: int, joins: int) -> bool:
    """Return whether a cell has enough persons after one record leaves and one joins (-1: none)."""
    cell, person = cells.labels[leaves], rule.persons[leaves]
    joining = rule.persons[joins] if joins >= 0 else np.int64(-1)
    if joining == person:
        return True
    adds = joining >= 0
    members, size = cells.members[cell], cells.sizes[cell]
    for i in range(size):
        row = members[i]
        if row != leaves and rule.persons[row] == person:
            return True
        adds = adds and rule.persons[row] != joining
    if adds:
        return True
    others = ZERO
    for i in range(size):
        first = members[i] != leaves
        for j in range(i):
            first = first and rule.persons[members[j]] != rule.persons[members[i]]
        others += first
    return others >= rule.least


@inlined_kernel
def is_neutral(rule: Rule, x: int, y: int) -> bool:
    """Return whether exchanging x and y certainly changes no violation."""
    if rule.traits.shape[1] > 0 or len(rule.persons) > 0:
        return False
    same = True
    for c in range(len(rule.keys)):
        same = same and rule.keys[c, x] == rule.keys[c, y]
    return same


@inner_kernel
def make_workspace(cells: Grouping, rule: Rule) -> Workspace:
    """Allocate working memory for any cell."""
    size = cells.members.shape[1] + 1 if is_active(rule) else 1
    return Workspace(
        np.empty(size, dtype=np.int64),
        np.empty(max(size, _FEW_VALUES), dtype=np.int64),
        np.empty(max(size, _FEW_VALUES), dtype=np.int64),
        np.zeros(_FEW_VALUES, dtype=np.int64),
    )


@inner_kernel
def violations_of(cells: Grouping, rule: Rule, scratch: Workspace) -> Floats:
    """Return the violation of each cell."""
    violations = np.zeros(len(cells.sizes))
    if is_active(rule):
        for cell in range(len(violations)):
            violations[cell] = violation(cells, cell, rule, -1, -1, scratch)
    return violations


@inner_kernel
def violation(
    cells: Grouping, cell: int, rule: Rule, leaves: int, joins: int, scratch: Workspace
) -> float:
    """Return the violation of a cell after one record leaves and one joins (-1: none).

    An empty cell has none.
    """
    size = _gather(cells, cell, leaves, joins, scratch)
    if size == 0:
        return 0.0
    amount = 0.0
    if rule.traits.shape[1] > 0:
        amount += _trait_violation(rule, size, scratch)
    for c in range(len(rule.keys)):
        if rule.people == 0 and rule.starts[c + 1] - rule.starts[c] <= _FEW_VALUES:
            runs, total = _count(rule, c, size, scratch)
        else:
            runs, total = _sort(rule, c, size, scratch)
        amount += _column_violation(rule, c, runs, total, scratch)
    if rule.least > 0:
        amount += max(0, rule.least - _count_persons(rule, size, scratch))
    return amount


@inlined_kernel
def _gather(cells: Grouping, cell: int, leaves: int, joins: int, scratch: Workspace) -> int:
    """List the members of the cell after the exchange (OUT: ``scratch.keys``); return the count."""
    size = ZERO
    for i in range(cells.sizes[cell]):
        row = cells.members[cell, i]
        if row != leaves:
            scratch.keys[size] = row
            size += 1
    if joins >= 0:
        scratch.keys[size] = joins
        size += 1
    return size


@inner_kernel
def _trait_violation(rule: Rule, size: int, scratch: Workspace) -> float:
    columns = rule.traits.shape[1]
    values = np.empty((size, columns))
    for i in range(size):
        for j in range(columns):
            values[i, j] = rule.traits[scratch.keys[i], j]
    return 0.0 if holds(rule.allowed, values.ctypes.data, size, columns) != 0 else 1.0


@inner_kernel
def _count_persons(rule: Rule, size: int, scratch: Workspace) -> int:
    """Count the distinct persons among the members."""
    for i in range(size):
        scratch.values[i] = rule.persons[scratch.keys[i]]
    _sort_numbers(scratch.values, size)
    persons = 1
    for i in range(1, size):
        persons += scratch.values[i] != scratch.values[i - 1]
    return persons


@inlined_kernel
def _count(rule: Rule, c: int, size: int, scratch: Workspace) -> tuple[int, int]:
    """Count each value of column c that occurs (OUT: ``scratch.values``, ``scratch.counts``)."""
    codes, runs = rule.keys[c], ZERO
    for i in range(size):
        scratch.histogram[codes[scratch.keys[i]]] += 1
    for code in range(rule.starts[c + 1] - rule.starts[c]):
        if scratch.histogram[code] > 0:
            scratch.values[runs], scratch.counts[runs] = code, scratch.histogram[code]
            scratch.histogram[code] = 0
            runs += 1
    return runs, size


@inner_kernel
def _sort(rule: Rule, c: int, size: int, scratch: Workspace) -> tuple[int, int]:
    """Count like :func:`_count`, but by sorting; with persons, each counts once per value."""
    for i in range(size):
        scratch.values[i] = rule.keys[c, scratch.keys[i]]
    _sort_numbers(scratch.values, size)
    runs, total, last = ZERO, ZERO, np.int64(-1)
    for i in range(size):
        key = scratch.values[i]
        if rule.people > 0 and key == last:
            continue
        last = key
        value = key // rule.people if rule.people > 0 else key
        if runs > 0 and scratch.values[runs - 1] == value:
            scratch.counts[runs - 1] += 1
        else:
            scratch.values[runs], scratch.counts[runs] = value, 1
            runs += 1
        total += 1
    return runs, total


@inner_kernel
def _sort_numbers(numbers: Integers, size: int) -> None:
    """Sort the first ``size`` numbers (OUT) by Shell's method, the fastest for small cells."""
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            number, j = numbers[i], i
            while j >= gap and numbers[j - gap] > number:
                numbers[j] = numbers[j - gap]
                j -= gap
            numbers[j] = number
        gap //= 3


@inner_kernel
def _column_violation(rule: Rule, c: int, runs: int, total: int, scratch: Workspace) -> float:
    """Return the amount by which the counted values miss the limits on the column.

    Missing diversity is counted in values. The excess over a distance is multiplied by the number
    of records, so that joining two cells with the same distribution does not change the total.
    """
    limits, amount = rule.limits[c], max(0.0, rule.limits[c, DISTINCT] - runs)
    if limits[ENTROPY] > 0:
        entropy = 0.0
        for i in range(runs):
            share = scratch.counts[i] / total
            entropy -= share * np.log(share)
        amount += max(0.0, limits[ENTROPY] - np.exp(entropy))
    if limits[CLOSENESS] < np.inf:
        distance = (
            _ordered_distance(rule, c, runs, total, scratch)
            if rule.ordered[c]
            else _nominal_distance(rule, c, runs, total, scratch)
        )
        amount += total * max(0.0, distance - limits[CLOSENESS])
    if limits[DIVERGENCE] < np.inf or limits[DISCLOSURE] < np.inf:
        divergence, disclosure = _log_ratios(rule, c, runs, total, scratch)
        amount += total * max(0.0, divergence - limits[DIVERGENCE])
        amount += total * max(0.0, disclosure - limits[DISCLOSURE])
    if limits[RECURSIVE] > 0:
        amount += max(0.0, limits[RECURSIVE] - _recursive_diversity(runs, total, scratch))
    return amount  # type: ignore[no-any-return]


@inlined_kernel
def _nominal_distance(rule: Rule, c: int, runs: int, total: int, scratch: Workspace) -> float:
    """Return sum |p_c - p| / 2, the sum of the positive p_c - p."""
    distance, first = 0.0, rule.starts[c]
    records = rule.cumulative[rule.starts[c + 1] - 1]
    for i in range(runs):
        distance += max(
            0.0, scratch.counts[i] / total - rule.totals[first + scratch.values[i]] / records
        )
    return distance


@inner_kernel
def _ordered_distance(rule: Rule, c: int, runs: int, total: int, scratch: Workspace) -> float:
    """Return sum |F_c - F| / (v - 1), F the cumulative shares of the v values.

    F_c is constant from one value of the cell to the next, so F crosses it once in between.
    """
    first, values = rule.starts[c], rule.starts[c + 1] - rule.starts[c]
    if values == 1:
        return 0.0
    sums = rule.sums[first + c : first + c + values + 1]
    records = rule.cumulative[first + values - 1]
    distance, below = sums[scratch.values[0]], ZERO
    for i in range(runs):
        below += scratch.counts[i]
        level = below * records / total
        start = scratch.values[i]
        end = scratch.values[i + 1] if i + 1 < runs else values
        low, high = start, end
        while low < high:
            middle = (low + high) // 2
            if rule.cumulative[first + middle] < level:
                low = middle + 1
            else:
                high = middle
        distance += level * (low - start) - (sums[low] - sums[start])
        distance += (sums[end] - sums[low]) - level * (end - low)
    return distance / (records * (values - 1))  # type: ignore[no-any-return]


@inner_kernel
def _log_ratios(
    rule: Rule, c: int, runs: int, total: int, scratch: Workspace
) -> tuple[float, float]:
    """Return sum p_c log2(p_c / p) and the largest |log2(p_c / p)|."""
    first, divergence, largest = rule.starts[c], 0.0, 0.0
    records = rule.cumulative[rule.starts[c + 1] - 1]
    for i in range(runs):
        share = scratch.counts[i] / total
        ratio = np.log2(share * (records / rule.totals[first + scratch.values[i]]))
        divergence += share * ratio
        largest = max(largest, abs(ratio))
    return divergence, largest


@inner_kernel
def _recursive_diversity(runs: int, total: int, scratch: Workspace) -> int:
    """Return the largest l with r_1 < c (r_l + ... + r_m), at least 1; sorts the counts."""
    _sort_numbers(scratch.counts, runs)
    largest, remaining, diversity = scratch.counts[runs - 1], total, 0
    for i in range(runs - 1, -1, -1):
        diversity += RECURSIVE_C * remaining > largest
        remaining -= scratch.counts[i]
    return max(1, diversity)
