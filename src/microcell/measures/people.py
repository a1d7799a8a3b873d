"""People with several rows: the person of each row, and whether k can protect them.

k protects people. Where a person may have several rows, the schema names the column that identifies
people, and everything that k counts is then counted in distinct persons.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np

from microcell._display import count
from microcell.errors import DataError, SchemaError, TooFewRecordsError
from microcell.kernels.arrays import count_distinct
from microcell.kinds.values import count_in_unit
from microcell.measures.classes import class_labels
from microcell.model import Integers, Mask, Schema, Table, Values

__all__ = [
    "check_enough",
    "check_people",
    "check_repetition",
    "check_strata",
    "check_together",
    "count_people",
    "digest_persons",
    "digest_values",
    "incomplete_persons",
    "person_codes",
    "unify_spelling",
    "unit",
]

_STRATA_ADVICE = (
    "Merge strata, lower k, or declare the column a quasi-identifier so that cells can span its "
    "values."
)


def unit(schema: Schema) -> str:
    """Return what k counts: "person" if the schema names a person column, otherwise "record"."""
    return "person" if schema.person else "record"


def person_codes(table: Table, schema: Schema) -> Integers | None:
    """Number the persons of the rows 0, 1, 2, ...; None if every row counts as a person.

    Raises
    ------
    DataError
        A row has no person.
    """
    if not schema.person:
        return None
    _check_complete(table, schema)
    return class_labels(table, schema.person)


def digest_persons(table: Table, schema: Schema, key: bytes) -> Integers | None:
    """Return a keyed digest of each row's person; None if every row counts as a person.

    It recognizes a person in several tables without their values. Whoever has the key can find
    out who a digest belongs to, so the key must be random, and neither is ever published. If two
    persons have the same digest by chance, they count as one, which is safe.

    Raises
    ------
    DataError
        A row has no person.
    """
    if not schema.person:
        return None
    _check_complete(table, schema)
    return digest_values(table, schema.person, key)


def digest_values(table: Table, names: Sequence[str], key: bytes) -> Integers:
    """Return a 64-bit BLAKE2b digest of each row's values in the given columns."""
    labels = class_labels(table, names)
    _, rows = np.unique(labels, return_index=True)
    columns = [_texts(table.columns[name], rows) for name in names]
    digests = b"".join(
        blake2b(repr(values).encode(), key=key, digest_size=8).digest()
        for values in zip(*columns, strict=True)
    )
    return np.frombuffer(digests, dtype=np.dtype("<i8")).astype(np.int64)[labels]


def unify_spelling(text: str) -> str:
    """Normalize case and white space.

    Examples
    --------
    >>> unify_spelling(" Ada  LOVELACE")
    'ada lovelace'
    """
    return " ".join(text.split()).casefold()


def _texts(values: Values, rows: Integers) -> list[str | None]:
    codes, names = values.factorize()
    plain = ["0" if name in ("-0", "-0.0") else name for name in names]
    if values.is_time:
        plain = [count_in_unit(name, "ns") for name in names]  # units differ between files
    return [None if code < 0 else plain[code] for code in codes[rows].tolist()]


def _check_complete(table: Table, schema: Schema) -> None:
    rows = np.flatnonzero(incomplete_persons(table, schema))
    if len(rows):
        raise DataError(
            f"{count(len(rows), 'row')} {'has' if len(rows) == 1 else 'have'} no value in the "
            f"person column {', '.join(map(repr, schema.person))}, first row {rows[0] + 1}. "
            "Fill in the person, or leave such rows out with missing='drop' (--missing drop).",
            code="data.missing_values",
            columns=list(schema.person),
            row=int(rows[0]) + 1,
            count=len(rows),
        )


def incomplete_persons(table: Table, schema: Schema) -> Mask:
    """Return a mask of the rows with a missing value in a person column."""
    out: Mask = np.zeros(table.rows, dtype=np.bool_)
    for name in schema.person:
        out |= table.columns[name].missing
    return out


def count_people(groups: Integers, persons: Integers | None) -> Integers:
    """Return the number of distinct persons in each group; of rows if every row is a person."""
    if persons is None:
        return np.bincount(groups).astype(np.int64)
    return count_distinct(groups, persons)


def check_people(table: Table, schema: Schema) -> None:
    """Raise SchemaError if people seem to have several rows but the schema names no person column.

    That is the case if an identifier repeats and none is unique per row. Two people may share a
    name, so a name that repeats next to a unique client number is fine.
    """
    if schema.person or schema.rows_are_people:
        return
    counts = {}
    for name in schema.identifiers:
        values = table.columns[name]
        present = values.data[~values.missing]
        counts[name] = (len(np.unique(present)), len(present))
    check_repetition(counts, table.rows)


def check_repetition(counts: Mapping[str, tuple[int, int]], rows: int) -> None:
    """Raise SchemaError if an identifier repeats and none is unique per row.

    ``counts`` are the numbers of distinct and of all values of each identifier.
    """
    repeating = {
        name: distinct for name, (distinct, present) in counts.items() if distinct < present
    }
    if repeating and all(distinct < rows for distinct, _ in counts.values()):
        name, distinct = min(repeating.items(), key=lambda item: item[1])
        raise SchemaError(
            f"Some people seem to have several rows: {name!r} has {distinct:,} distinct values in "
            f"{count(rows, 'row')}, and no identifier is unique per row. k must count "
            f"people, so give the column that identifies people the role person (role = "
            f'"person" for {name!r}), or state that every row is about a different person with '
            "rows_are_people = true. Nothing was released.",
            code="schema.person_required",
            columns=list(repeating),
            rows=rows,
            distinct=distinct,
        )


def check_enough(n: int, k: int, noun: str = "record") -> None:
    """Raise TooFewRecordsError if there are fewer than k people."""
    if n < k:
        raise TooFewRecordsError(
            f"The table has {count(n, noun)}, fewer than k = {k}. Lower k or add {noun}s; nothing "
            "was released.",
            code="guarantee.too_few_records",
            k=k,
            records=n,
            unit=f"{noun}s",
        )


def check_strata(sizes: Integers, schema: Schema, k: int, advice: str = _STRATA_ADVICE) -> None:
    """Raise TooFewRecordsError if a stratum has fewer than k people."""
    small = sizes[sizes < k]
    if len(small):
        raise TooFewRecordsError(
            f"{len(small)} of {count(len(sizes), 'stratum', 'strata')} (by "
            f"{', '.join(map(repr, schema.strata))}) {'has' if len(small) == 1 else 'have'} fewer "
            f"than k = {k} {unit(schema)}s; the smallest has {small.min()}. {advice} Nothing was "
            "released.",
            code="guarantee.stratum_too_small",
            k=k,
            strata=len(small),
            smallest=int(small.min()),
            unit=f"{unit(schema)}s",
        )


def check_together(schema: Schema, persons: Integers | None, strata: Integers) -> None:
    """Raise SchemaError if the rows of a person must share a cell but lie in several strata."""
    if persons is None or schema.person_cells != "together" or not schema.strata:
        return
    n_split = int((count_distinct(persons, strata) > 1).sum())
    if n_split:
        raise SchemaError(
            f"{count(n_split, 'person')} {'has' if n_split == 1 else 'have'} rows in several "
            f"strata (by {', '.join(map(repr, schema.strata))}), so their rows cannot share a "
            'cell. Use person_cells = "rows", or remove the strata.',
            code="schema.invalid",
            field="person_cells",
            persons=n_split,
        )
