"""Minimal unique combinations of columns, record by record.

A set of columns is a minimal unique of a record if no other person has the record's values in these
columns, but somebody has them in every proper subset (a "minimal sample unique" of SUDA2, Manning,
Haglin and Keane 2008).
"""

from typing import NamedTuple

import numpy as np

from microcell.kernels._jit import inner_kernel, kernel
from microcell.kernels.arrays import Integers, Seeds, ShortIntegers

__all__ = ["Uniques", "find_uniques"]


class Uniques(NamedTuple):
    """The minimal uniques, counted by record, by record and size, and by set of columns."""

    by_size: Integers
    """(n, largest + 1): number of minimal uniques of each record and size."""
    smallest: Integers
    """(n,): the first of the smallest minimal uniques of each record as a mask, 0 if none."""
    masks: Integers
    """(K,): every set of up to ``largest`` columns that was visited, as a mask."""
    counts: Integers
    """(K,): number of records of which the set is a minimal unique."""


class _Level(NamedTuple):
    """Records that share their values in a set of columns with others, group by group."""

    order: ShortIntegers
    starts: ShortIntegers
    """First position of each group, and the end of the last."""


class _Node(NamedTuple):
    """A set of columns that is being visited."""

    mask: int
    size: int
    number: int
    subsets: Integers
    """Numbers of the sets in which a record may be unique if this set is not minimal."""


@kernel
def find_uniques(codes: ShortIntegers, persons: Integers, largest: int, span: int) -> Uniques:
    """Count all minimal uniques of up to ``largest`` columns.

    The sets of columns are visited in the order of their masks, so that all subsets of a set come
    before it, by depth-first search: each set splits the groups of its parent, and a record that is
    alone in a group is marked and followed no further. A set is minimal for a record if none of its
    subsets was marked. With K sets, time O(n K) at worst, memory O(n (m + K / 8)).

    Parameters
    ----------
    codes
        (m, n): codes of each column's values, from 0, below ``span``.
    persons
        (n,): the person of each record; -1 if several people have these values in all columns, so
        that the record stands for all of them.
    """
    m, n = codes.shape
    binomials = _binomials(m)
    offsets = np.zeros(largest + 2, dtype=np.int64)
    for size in range(largest + 1):
        offsets[size + 1] = offsets[size] + binomials[m, size]
    n_sets = offsets[largest + 1]
    result = Uniques(
        np.zeros((n, largest + 1), dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros(n_sets, dtype=np.int64),
        np.zeros(n_sets, dtype=np.int64),
    )
    marked = np.zeros((n, n_sets // 64 + 1), dtype=np.uint64)
    orders = np.empty((largest + 1, n), dtype=np.int32)
    starts = np.empty((largest + 1, n + 1), dtype=np.int32)
    groups = np.zeros(largest + 1, dtype=np.int64)
    for i in range(n):
        orders[0, i] = i
    starts[0, 0], starts[0, 1], groups[0] = 0, n, 1
    counts, touched = np.zeros(span, dtype=np.int32), np.empty(span, dtype=np.int32)
    following, path = np.zeros(largest + 1, dtype=np.int64), np.full(largest + 1, m)
    depth = 0
    while depth >= 0:
        column = following[depth]
        if column >= path[depth] or depth == largest or groups[depth] == 0:
            depth -= 1
            continue
        following[depth] += 1
        depth += 1
        path[depth], following[depth] = column, 0
        node = _describe(path, depth, m, binomials, offsets)
        above = _Level(orders[depth - 1], starts[depth - 1])
        below = _Level(orders[depth], starts[depth])
        groups[depth] = _split(
            codes[column], persons, node, above, groups[depth - 1], below, counts, touched, marked,
            result,
        )  # fmt: skip
    return result


@inner_kernel
def _binomials(m: int) -> Integers:
    out = np.zeros((m + 1, m + 2), dtype=np.int64)
    for i in range(m + 1):
        out[i, 0] = 1
        for j in range(1, i + 1):
            out[i, j] = out[i - 1, j - 1] + out[i - 1, j]
    return out


@inner_kernel
def _describe(path: Integers, depth: int, m: int, binomials: Integers, offsets: Integers) -> _Node:
    """Describe the set of the columns ``path[1:depth + 1]``, which descend.

    Sets are numbered by size, then by the combinatorial number system of ``m - 1 - column``. A
    record that is unique in a proper subset was marked in the subset, or in a prefix of it after
    which it was followed no further. The prefixes of the set itself cannot be marked.
    """
    mask, number = np.int64(0), np.int64(0)
    for i in range(1, depth + 1):
        mask |= np.int64(1) << path[i]
        number += binomials[m - 1 - path[i], i]
    subsets = np.empty(depth * depth, dtype=np.int64)
    count = 0
    for without in range(1, depth):
        rank, size = np.int64(0), 0
        for i in range(1, depth + 1):
            if i == without:
                continue
            size += 1
            rank += binomials[m - 1 - path[i], size]
            if i > without:
                subsets[count] = offsets[size] + rank
                count += 1
    return _Node(mask, depth, offsets[depth] + number, subsets[:count])  # type: ignore[arg-type]


@inner_kernel
def _split(
    codes: ShortIntegers,
    persons: Integers,
    node: _Node,
    above: _Level,
    n_groups: int,
    below: _Level,
    counts: ShortIntegers,
    touched: ShortIntegers,
    marked: Seeds,
    result: Uniques,
) -> int:
    """Split each group by a column; count the uniques and keep the groups of several people."""
    kept, end = 0, 0
    below.starts[0] = 0
    result.masks[node.number] = node.mask
    for group in range(n_groups):
        first, stop = above.starts[group], above.starts[group + 1]
        n_codes = _sort_group(codes, above.order, first, stop, below.order, end, counts, touched)
        begin = end
        for t in range(n_codes):
            over = counts[touched[t]]
            counts[touched[t]] = 0
            person = persons[below.order[begin]]
            alone = True
            for i in range(begin + 1, over):
                if persons[below.order[i]] != person:
                    alone = False
                    break
            if alone:
                if person >= 0:
                    for i in range(begin, over):
                        _mark(below.order[i], node, marked, result)
            else:
                for i in range(begin, over):
                    below.order[end + i - begin] = below.order[i]
                end += over - begin
                kept += 1
                below.starts[kept] = end
            begin = over
    return kept


@inner_kernel
def _sort_group(
    codes: ShortIntegers,
    order: ShortIntegers,
    first: int,
    stop: int,
    out: ShortIntegers,
    end: int,
    counts: ShortIntegers,
    touched: ShortIntegers,
) -> int:
    """Sort a group by code (OUT: ``out`` from ``end`` on); return the number of codes.

    ``touched`` are the codes, and ``counts`` the ends of their parts.
    """
    n_codes = 0
    for i in range(first, stop):
        code = codes[order[i]]
        if counts[code] == 0:
            touched[n_codes] = code
            n_codes += 1
        counts[code] += 1
    start = end
    for t in range(n_codes):
        size = counts[touched[t]]
        counts[touched[t]] = start
        start += size
    for i in range(first, stop):
        code = codes[order[i]]
        out[counts[code]] = order[i]
        counts[code] += 1
    return n_codes


@inner_kernel
def _mark(record: int, node: _Node, marked: Seeds, result: Uniques) -> None:
    """Mark that the record is unique in the set, and count the set if it is minimal."""
    minimal = True
    for j in range(len(node.subsets)):
        number = node.subsets[j]
        if marked[record, number >> 6] >> np.uint64(number & 63) & np.uint64(1):
            minimal = False
            break
    number = node.number
    marked[record, number >> 6] |= np.uint64(1) << np.uint64(number & 63)
    if minimal:
        result.counts[number] += 1
        result.by_size[record, node.size] += 1
        best = result.smallest[record]
        if best == 0 or node.size < _size(best):
            result.smallest[record] = node.mask


@inner_kernel
def _size(mask: int) -> int:
    size = 0
    while mask:
        mask &= mask - 1
        size += 1
    return size
