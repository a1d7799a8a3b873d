"""Findings about columns published unchanged that single people out: alone, combined, in a class.

Every row gets a hash per column; the hash of a combination is computed from those. On a large table
a random sample of the people is looked up among all of them, and the estimate has a confidence
interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from microcell._display import count
from microcell.findings.registry import Alone, Case, Observation, percent, rule
from microcell.kernels.arrays import count_distinct
from microcell.kinds.nominal import has_too_many
from microcell.measures.classes import combine, number_values
from microcell.measures.confidential import ConfidentialColumn
from microcell.model import Integers, Mask, Table, Values
from microcell.model.findings import Severity

__all__ = [
    "SIZES",
    "Uniqueness",
    "alone_in_class",
    "alone_with",
    "combine_hashes",
    "count_alone",
    "describe_alone",
    "estimate_alone",
    "singled_out",
    "wilson_interval",
]

_EXACT_ROWS = 100_000
"""Number of rows up to which combinations are counted exactly."""

_SAMPLED_ROWS = 50_000
"""Approximate number of rows of the people that are sampled from a larger table."""

_TABLE_BITS = 23
"""Bits of the hashes in the look-up table that rules out most rows outside the sample."""

_TELLING = 8
"""Number of columns with the most distinct values whose combinations are examined."""

_DANGER, _WARNING = 0.05, 0.001
"""Shares of people singled out at which the finding becomes a danger or a warning."""

SIZES = (1, 2, 3)
"""Numbers of columns in a combination."""

_WORSE = 1.5
"""A larger combination is reported if it singles out this many times as many people."""

_MIN_TEXTS, _NEARLY_ALL = 10, 0.9
"""A confidential text may name people if nearly all of at least this many values differ."""

Hashes = NDArray[np.uint64]

_MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15)
_SHIFT = np.uint64(32)


def count_alone(codes: Integers, present: Mask, persons: Integers | None) -> Alone:
    """Count the people with a unique value; rows that are not present do not count.

    Examples
    --------
    >>> count_alone(np.array([0, 0, 1, 2]), np.ones(4, dtype=bool), None)
    <Alone people=2, share=0.5>
    """
    if persons is None:
        total = len(codes)
        n_people = int((np.bincount(codes[present]) == 1).sum())
    else:
        total = len(np.unique(persons))
        groups, rows = np.unique(codes[present], return_inverse=True)
        holders = count_distinct(rows.reshape(-1), persons[present]) if len(groups) else groups
        n_people = len(np.unique(persons[present][holders[rows] == 1])) if len(groups) else 0
    return Alone(n_people, n_people / max(total, 1))


@rule(
    "risk.singled_out",
    severity="danger",
    title="Columns published unchanged single people out",
    meaning="Columns outside the quasi-identifiers are published unchanged, and people are alone "
    "with their value, or with their combination of two or three of them. Anyone who knows these "
    "values finds the record, whatever k is. Published sampling weights count too. Combinations "
    f"are sought among the {_TELLING} columns with the most distinct values; on more than "
    f"{_EXACT_ROWS:,} rows the number of people is an estimate with an interval.",
    advice='Make the columns quasi-identifiers (`role = "quasi"`), so that k protects them, or '
    'drop them (`role = "drop"`). The finding names all columns for which this is necessary.',
    published_only=True,
)
def singled_out(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    released, schema = evidence.released, evidence.schema
    weight = () if schema.weight is None else (schema.weight,)
    names = [name for name in (*schema.keep, *weight) if name in released.columns]
    yield from _identifying_texts(case)
    unique = Uniqueness(
        {name: _hash(released.columns[name]) for name in names}, evidence.persons, case.counted
    )
    severe = [name for name in names if unique.alone((name,)).share >= _WARNING]
    for name in severe:
        yield _found(case, (name,), unique.alone((name,)), [name])
    # Columns that already identify people alone would do so in every combination.
    others = sorted(
        (name for name in names if name not in severe),
        key=lambda name: -_distinct(released.columns[name]),
    )
    remedy = unique.columns_to_protect(others)
    if remedy:
        key = unique.worst(others[:_TELLING])
        yield _found(case, key, unique.alone(key), remedy)


@rule(
    "risk.alone_in_class",
    severity="warning",
    title="Columns published unchanged tell the members of a class apart",
    meaning="Columns outside the quasi-identifiers are published unchanged, and many people are "
    "alone in their class with their value. Anyone who knows this value besides the "
    "quasi-identifiers finds the record, whatever k is. Columns with whose value people are alone "
    "in the whole table have a finding of their own.",
    advice='Make the columns quasi-identifiers (`role = "quasi"`). If no outsider can know them, '
    'state it (`role = "confidential"`); otherwise drop them.',
    published_only=True,
)
def alone_in_class(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    shares = {}
    for name in evidence.schema.keep:
        if name not in evidence.released.columns:
            continue
        codes = number_values(evidence.released.columns[name])
        rows = np.ones(len(codes), dtype=np.bool_)
        within = count_alone(combine(evidence.classes, codes), rows, evidence.persons)
        if within.share >= _DANGER and _share_alone(case, name, codes) < _WARNING:
            shares[name] = within.share
    if not shares:
        return
    lines = "; ".join(_protect(evidence.released, name) for name in shares)
    each = "" if len(shares) == 1 else " for each of them"
    listing = ", ".join(f"{name!r} ({percent(share)})" for name, share in shares.items())
    yield Observation(
        f"Many {case.noun}s are alone in their class with their value of {listing}, published "
        "unchanged: an outsider who knows it finds the record.",
        f'{lines}, or role = "confidential"{each} if no outsider can know it',
        {"share": max(shares.values())},
        tuple(shares),
    )


def _share_alone(case: Case, name: str, codes: Integers) -> float:
    """Return the share of people who are alone in the whole table with their value of a column."""
    if case.counted is not None:
        return case.counted.get((name,), Alone(0, 0.0)).share
    return count_alone(codes, np.ones(len(codes), dtype=np.bool_), case.evidence.persons).share


@dataclass(frozen=True, eq=False)
class Sample:
    """A random sample of people.

    ``persons`` is the person of each row, ``chosen`` a mask of the persons in the sample, ``rows``
    are their rows and ``size`` is their number, out of ``n_people``.
    """

    persons: Integers
    chosen: Mask
    rows: Integers
    size: int
    n_people: int


def draw_sample(persons: Integers) -> Sample:
    """Draw a random sample of at least one person, with about ``_SAMPLED_ROWS`` rows in total."""
    numbers = np.unique(persons)
    chosen = np.zeros(int(numbers[-1]) + 1, dtype=np.bool_)
    chosen[numbers] = np.random.default_rng(0).random(len(numbers)) < _SAMPLED_ROWS / len(persons)
    chosen[numbers[0]] |= not chosen.any()
    rows = np.flatnonzero(chosen[persons])
    return Sample(persons, chosen, rows, int(chosen.sum()), len(numbers))


class Uniqueness:
    """Numbers of people who are alone with their values in one, two or three columns.

    ``counted`` are the numbers of combinations, if they were counted in a larger data set; nobody
    is known to be alone with other combinations.
    """

    def __init__(
        self,
        hashes: Mapping[str, Hashes],
        persons: Integers | None,
        counted: Mapping[tuple[str, ...], Alone] | None = None,
    ) -> None:
        self._counted = counted
        self._hashes, self._persons = hashes, persons
        self._rows = len(next(iter(hashes.values()), ()))
        self._results: dict[tuple[str, ...], Alone] = {}

    def alone(self, names: tuple[str, ...]) -> Alone:
        """Count the people who are alone with their combination of values; each is counted once."""
        key = tuple(sorted(names))
        if self._counted is not None:
            return self._counted.get(key, Alone(0, 0.0))
        if key not in self._results:
            self._results[key] = self._count([self._hashes[name] for name in key])
        return self._results[key]

    def _count(self, columns: Sequence[Hashes]) -> Alone:
        if self._rows > _EXACT_ROWS:
            return estimate_alone(columns, self._sample)
        codes = np.unique(combine_hashes(columns), return_inverse=True)[1].reshape(-1)
        return count_alone(codes, np.ones(self._rows, dtype=np.bool_), self._persons)

    @cached_property
    def _sample(self) -> "Sample":
        persons = np.arange(self._rows) if self._persons is None else self._persons
        return draw_sample(persons)

    def worst(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the combination that singles out most people; a larger one only if much worse."""
        worst: tuple[str, ...] = ()
        people = 0.0
        for size in SIZES:
            keys = list(combinations(names, size))
            key = max(keys, key=lambda key: self.alone(key).people, default=())
            if key and self.alone(key).people > _WORSE * people:
                worst, people = key, self.alone(key).people
        return worst

    def columns_to_protect(self, names: Sequence[str]) -> list[str]:
        """Return the columns without which no combination of the others singles anyone out.

        They are chosen greedily: always the column with most people in its combinations. Once a
        column is chosen, the column with the next most distinct values is examined, too.
        """
        left, chosen = list(names), list[str]()
        while left:
            examined = left[:_TELLING]
            totals = dict.fromkeys(examined, 0)
            for size in SIZES:
                for key in combinations(examined, size):
                    for name in key:
                        totals[name] += self.alone(key).people
            name = max(examined, key=lambda name: totals[name])
            if not totals[name]:
                break
            left.remove(name)
            chosen.append(name)
        return chosen


def _identifying_texts(case: Case) -> Iterator[Observation]:
    """Report confidential texts that nearly all differ: they may be names."""
    for column in case.evidence.confidential:
        values = column.values
        present = ~values.missing
        if values.storage != "text" or int(present.sum()) < _MIN_TEXTS:
            continue
        if _distinct(values) >= _NEARLY_ALL * int(present.sum()):
            alone = alone_with(case, column)
            yield _found(case, (column.name,), alone, [column.name])


def _found(case: Case, names: tuple[str, ...], alone: Alone, remedy: Sequence[str]) -> Observation:
    noun = "their value of" if len(names) == 1 else "their combination of"
    severity: Severity = (
        "danger" if alone.share >= _DANGER else "warning" if alone.share >= _WARNING else "note"
    )
    lines = "; ".join(_protect(case.evidence.released, name) for name in remedy)
    each = "" if len(remedy) == 1 else " for each of them"
    alternative = f', or role = "drop"{each}' if '"quasi"' in lines else ""
    return Observation(
        f"{describe_alone(alone, case.noun)} alone with {noun} {_listing(names)}, published "
        "unchanged.",
        f"{lines}{alternative}",
        alone.figures,
        names,
        severity=severity,
    )


def alone_with(case: Case, column: ConfidentialColumn) -> Alone:
    """Return how many people are alone with their value in a confidential column."""
    if case.counted is not None:
        return case.counted.get((column.name,), Alone(0, 0.0))
    return count_alone(number_values(column.values), ~column.values.missing, column.persons)


def describe_alone(alone: Alone, noun: str) -> str:
    """Return how many people are alone, with the interval of an estimate.

    Examples
    --------
    >>> describe_alone(Alone(1, 0.01), "person")
    '1 person (1 %) is'
    """
    about, between = "", ""
    if alone.interval is not None:
        low, high = (percent(bound) for bound in alone.interval)
        about, between = "About ", f", 95 % interval {low} to {high}"
    verb = "is" if alone.people == 1 else "are"
    return f"{about}{count(alone.people, noun)} ({percent(alone.share)}{between}) {verb}"


def _protect(released: Table, name: str) -> str:
    """Return the schema line that protects a column; texts that nearly all differ are dropped."""
    values = released.columns[name]
    is_name = values.storage == "text" and has_too_many(_distinct(values), released.rows)
    return f'[columns.{name}] role = "{"drop" if is_name else "quasi"}"'


def _listing(names: Sequence[str]) -> str:
    """Return quoted names as in a sentence."""
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last


def combine_hashes(columns: Sequence[Hashes]) -> Hashes:
    """Return a hash of the combination of several columns' hashes in each row."""
    hashes = columns[0].copy()
    for column in columns[1:]:
        hashes *= _MULTIPLIER
        hashes ^= hashes >> _SHIFT
        hashes ^= column
    return hashes


def estimate_alone(columns: Sequence[Hashes], sample: "Sample") -> Alone:
    """Estimate how many people are alone with a combination of values, from a sample of people.

    Whether they are alone is exact: combinations that only one of them has are looked up in all
    rows.
    """
    hashes = combine_hashes([column[sample.rows] for column in columns])
    codes = np.unique(hashes, return_inverse=True)[1].reshape(-1)
    persons = sample.persons[sample.rows]
    single = count_distinct(codes, persons)[codes] == 1
    share = 0.0
    if single.any():
        candidates = np.zeros(1 << _TABLE_BITS, dtype=np.bool_)
        shift = np.uint64(64 - _TABLE_BITS)
        candidates[(hashes[single] * _MULTIPLIER) >> shift] = True
        hashes = combine_hashes(columns)
        rows = np.flatnonzero(candidates[(hashes * _MULTIPLIER) >> shift])
        codes = np.unique(hashes[rows], return_inverse=True)[1].reshape(-1)
        alone = rows[count_distinct(codes, sample.persons[rows])[codes] == 1]
        alone = alone[sample.chosen[sample.persons[alone]]]
        share = len(np.unique(sample.persons[alone])) / sample.size
    return Alone(round(share * sample.n_people), share, wilson_interval(share, sample.size))


def wilson_interval(share: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's 95 % confidence interval of a share among n."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def _hash(values: Values) -> Hashes:
    """Return a well-mixed number per row, equal where values are equal or both missing."""
    if values.storage == "empty":
        return np.zeros(len(values), dtype=np.uint64)
    data = values.data + 0.0 if values.storage == "float" else values.data.astype(np.int64)
    hashes = np.where(values.missing, np.uint64(0x5BF0_3635_DCA5_9A1F), data.view(np.uint64))
    for factor, shift in ((0x9E37_79B9_7F4A_7C15, 32), (0xBF58_476D_1CE4_E5B9, 29)):
        hashes *= np.uint64(factor)
        hashes ^= hashes >> np.uint64(shift)
    return hashes


def _distinct(values: Values) -> int:
    return len(np.unique(values.data[~values.missing]))
