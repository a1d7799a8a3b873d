"""What a report says in words: the guarantee and the facts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from microcell.model import Audit, Measure

__all__ = ["Fact", "amount", "counted", "decimals", "direction", "facts", "guarantee", "is_fit", "listing", "sampled"]

_COUNTED = ("records", "classes", "columns", "values", "statements")
"""Units of things that are counted."""


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


def is_fit(audit: Audit) -> bool:
    """True if the table may be published: it holds records, none is alone, and nothing is wrong with it."""
    return audit.rows_released > 0 and not any(_problems(audit))


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
    """A measure's value for people: counts with separators, all else with up to four decimals.

    Examples
    --------
    >>> amount(Measure("k", 2000, "records", False, "")), amount(Measure("linkage", 0.05, "share", True, ""))
    ('2,000', '0.05')
    """
    if measure.unit in _COUNTED and float(measure.value).is_integer():
        return f"{measure.value:,.12g}"
    return decimals(measure.value)


def decimals(value: float) -> str:
    """The value with up to four decimals; three digits where these would not tell it.

    Examples
    --------
    >>> decimals(0.25), decimals(1 / 3), decimals(0.0), decimals(1.5e-7)
    ('0.25', '0.3333', '0', '1.5e-07')
    """
    if value and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    return f"{value:.4f}".rstrip("0").rstrip(".")


def sampled(measure: Measure) -> str:
    """The interval of a measure that was sampled, in words; nothing for others.

    Examples
    --------
    >>> sampled(Measure("linkage", 0.05, "share", True, "", (0.04, 0.06)))
    '0.04 to 0.06, sampled'
    """
    if measure.interval is None:
        return ""
    return f"{decimals(measure.interval[0])} to {decimals(measure.interval[1])}, sampled"


def direction(measure: Measure) -> str:
    """Which way is better: "less" or "more"."""
    return "less" if measure.lower_is_better else "more"


@dataclass(frozen=True)
class _Problem:
    """How a count that must be 0 is told: the noun counted, and what is wrong with one or with several."""

    noun: str
    one: str
    several: str


_PROBLEMS: Mapping[str, _Problem] = {
    "identifiers_left": _Problem(
        "column", "to be removed is still in the table", "to be removed are still in the table"
    ),
    "records_unaccounted": _Problem(
        "published record", "cannot come from the original", "cannot come from the original"
    ),
    "columns_missing": _Problem("column", "to be published is missing", "to be published are missing"),
    "columns_unexpected": _Problem("column", "in the table has no role", "in the table have no role"),
    "values_changed": _Problem(
        "value", "to be published unchanged is not the original's", "to be published unchanged are not the original's"
    ),
    "manifest_contradictions": _Problem("statement", "of the manifest does not hold", "of the manifest do not hold"),
}


def _problems(audit: Audit) -> Iterator[str]:
    for name, problem in _PROBLEMS.items():
        count = int(audit[name]) if name in audit.measures else 0
        if count:
            yield f"{counted(count, problem.noun)} {problem.one if count == 1 else problem.several}"
    alone = int((audit.class_sizes == 1).sum())
    if alone:
        yield (
            f"{alone:,} of the {counted(audit.rows_released, 'published record')} "
            f"{'is' if alone == 1 else 'are'} alone with {'its' if alone == 1 else 'their'} "
            f"value{'s' * (len(audit.keys) != 1)} of {listing(audit.keys)}, so k is 1 and nothing protects "
            f"{'it' if alone == 1 else 'them'}"
        )


def _smallest(audit: Audit) -> int:
    return int(audit.class_sizes.min()) if len(audit.class_sizes) else 0


def _sizes_told(audit: Audit) -> str:
    low, high = int(audit.class_sizes.min()), int(audit.class_sizes.max())
    if low == high:
        return f"all of {counted(low, 'record')}"
    median = f"{float(np.median(audit.class_sizes)):,.1f}".removesuffix(".0")
    return f"{low:,} to {high:,}, median {median}"
