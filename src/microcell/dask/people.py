"""Persons of a data set: digests in place of their values, counted over all files.

The key of the digests is random; it and the digests exist in the temporary directory only.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from microcell.dask.arrow import (
    Batch,
    Spill,
    arrow,
    concatenate,
    read_batch,
    read_part,
    write_batches,
)
from microcell.dask.sources import Part
from microcell.measures.people import digest_values
from microcell.model import Integers
from microcell.tables import read

__all__ = [
    "collect_buckets",
    "count_digests",
    "some_persons",
    "some_persons_by_group",
    "spill_digests",
    "spill_identifier",
]


def some_persons(digests: Integers, most: int) -> Integers:
    """Return the ``most`` lowest digests of the persons, or all of them if there are fewer.

    Of the concatenated results of several parts, this is the result of the whole: so it tells
    exactly whether a whole has ``most`` persons, in little memory.

    Examples
    --------
    >>> some_persons(np.array([5, 3, 5, 9, 3]), 2)
    array([3, 5])
    """
    return np.unique(digests)[:most]


def some_persons_by_group(digests: Integers, groups: Integers, most: int) -> list[Integers]:
    """Return some persons of each group that has any, in ascending order of the groups."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    return [some_persons(part, most) for part in np.split(digests[order], starts) if len(part)]


def spill_digests(digests: Integers, buckets: int, target: Path) -> Spill:
    """Write the distinct digests with their numbers of rows, sorted by bucket."""
    pa = arrow()
    distinct, counts = np.unique(digests, return_counts=True)
    numbers = (distinct.view(np.uint64) % np.uint64(buckets)).astype(np.int64)
    return write_batches(
        pa.table({"digest": pa.array(distinct), "count": pa.array(counts)}), numbers, target
    )


def count_digests(batches: tuple[Batch, ...]) -> Counter[int]:
    """Return how many digests of a bucket have each number of rows, over all parts."""
    rows = concatenate([read_batch(batch.path, batch.number) for batch in batches])
    totals = rows.group_by(["digest"], use_threads=False).aggregate([("count", "sum")])
    return Counter(totals.column("count_sum").to_numpy().tolist())


def spill_identifier(columns: Any, key: bytes, buckets: int, work: Path, part: Part) -> Spill:
    """Write the digests of the only column of an Arrow schema, in a part of the data set."""
    (name,) = columns.names
    table = read(read_part(part.path, part.groups, columns, part.name))
    digests = digest_values(table, [name], key)[~table.columns[name].missing]
    return spill_digests(digests, buckets, work / f"identifier-{part.number:06d}.arrow")


def collect_buckets(spills: Sequence[Spill]) -> list[tuple[Batch, ...]]:
    """Return the batches of each bucket, as arguments of a task that counts them."""
    batches: dict[int, list[Batch]] = {}
    for spill in spills:
        for number, bucket in enumerate(spill.destinations):
            batches.setdefault(bucket, []).append(Batch(spill.path, number))
    return [tuple(batches[bucket]) for bucket in sorted(batches)]
