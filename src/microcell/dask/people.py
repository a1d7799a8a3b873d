"""Persons of a data set: digests in place of their values, counted over all files.

The key of the digests is random; the key and the digests exist only in the temporary directory.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
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
from microcell.measures.people import digest_values, unify_spelling
from microcell.model import Integers, Values
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
    """Return up to ``most`` digests of the persons, the lowest ones.

    Applied to the concatenated results of several parts, it returns the result for the whole. This
    shows exactly, in little memory, whether the whole has ``most`` persons.

    Examples
    --------
    >>> some_persons(np.array([5, 3, 5, 9, 3]), 2)
    array([3, 5])
    """
    return np.unique(digests)[:most]


def some_persons_by_group(digests: Integers, groups: Integers, most: int) -> list[Integers]:
    """Return some persons of each group, in ascending order of the groups."""
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


def spill_identifier(
    columns: Any, key: bytes, buckets: int, work: Path, unify: bool, part: Part
) -> Spill:
    """Write the digests of the only column of an Arrow schema, in a part of the data set.

    ``unify`` ignores differences in case and white space.
    """
    (name,) = columns.names
    table = read(read_part(part.path, part.groups, columns, part.name))
    values = table.columns[name]
    if unify:
        digests = _digest_unified(values, key)
    else:
        digests = digest_values(table, [name], key)[~values.missing]
    return spill_digests(digests, buckets, work / f"identifier-{part.number:06d}.arrow")


def _digest_unified(values: Values, key: bytes) -> Integers:
    codes, names = values.factorize()
    texts = [unify_spelling(name).encode() for name in names]
    digests = b"".join(blake2b(text, key=key, digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype=np.dtype("<i8")).astype(np.int64)[codes[codes >= 0]]


def collect_buckets(spills: Sequence[Spill]) -> list[tuple[Batch, ...]]:
    """Return the batches of each bucket, as arguments of a task that counts them."""
    batches: dict[int, list[Batch]] = {}
    for spill in spills:
        for number, bucket in enumerate(spill.destinations):
            batches.setdefault(bucket, []).append(Batch(spill.path, number))
    return [tuple(batches[bucket]) for bucket in sorted(batches)]
