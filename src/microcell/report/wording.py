"""Numbers and sentences about an audit, shared by all report formats."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from microcell._display import format_number, format_quantity, percent
from microcell.measures.registry import label
from microcell.model import Audit, Measure
from microcell.model.audit import Analysis, GroupMean, LeftOutGroup, MaskEffect

__all__ = [
    "CHANGE_STEPS",
    "Fact",
    "MeasureRow",
    "coefficient_rows",
    "counted",
    "describe_distances",
    "false_categories",
    "format_interval",
    "format_number",
    "format_with_unit",
    "group_rows",
    "guarantee",
    "is_publishable",
    "join_words",
    "key_facts",
    "left_out_rows",
    "mask_rows",
    "measure_rows",
]

CHANGE_STEPS = (0.1, 0.5)
"""Public reports state only which of these steps the change of a group's mean reaches."""

_SHOWN_UNITS = ("records", "persons", "values", "bits")
"""Units worth showing next to a value; others repeat the label of the measure."""


@dataclass(frozen=True)
class Fact:
    """A short label and its text."""

    label: str
    text: str


# ------------------------------------------------------------------------------ the guarantee


def guarantee(audit: Audit) -> str:
    """Return a sentence that a data protection officer can sign, or a description of the problem.

    Examples
    --------
    >>> audit = Audit(keys=("sex", "age"), rows_original=9, rows_released=9, measures={},
    ...               class_sizes=np.array([3, 3, 3]))
    >>> guarantee(audit)
    'Each of the 9 published records shares its values of sex and age with at least 2 others: the
    table is 3-anonymous in these columns.'
    """
    problems = list(_problems(audit))
    if problems:
        return f"Not fit to publish: {join_words(problems)}."
    if not audit.rows_released:
        return "The published table is empty: there are no records to protect."
    k = _smallest_class(audit)
    several = len(audit.keys) != 1
    if audit.person:
        return (
            f"Every published {'combination' if several else 'value'} of {join_words(audit.keys)} "
            f"belongs to at least {counted(k, 'different person')} (identified by "
            f"{join_words(audit.person)}): the table is {k:,}-anonymous in "
            f"{'these columns' if several else 'this column'}.{_one_class_warning(audit, several)}"
        )
    return (
        f"Each of the {audit.rows_released:,} published records shares its "
        f"value{'s' * several} of {join_words(audit.keys)} with at least "
        f"{counted(k - 1, 'other')}: the table is {k:,}-anonymous in "
        f"{'these columns' if several else 'this column'}.{_one_class_warning(audit, several)}"
    )


def _one_class_warning(audit: Audit, several: bool) -> str:
    if len(audit.class_sizes) != 1:
        return ""
    subject = "these columns no longer tell" if several else "the column no longer tells"
    return (
        f" WARNING: all records share one class, so {subject} records apart. Relax the "
        "requirements, or choose a smaller k."
    )


def is_publishable(audit: Audit) -> bool:
    """Return True if the table has records, none of them is unique, and no basic check fails."""
    return audit.rows_released > 0 and not any(_problems(audit))


@dataclass(frozen=True)
class _Problem:
    """How to describe a basic check that fails once, or several times."""

    noun: str
    singular: str
    plural: str


_PROBLEMS: Mapping[str, _Problem] = {
    "identifiers_left": _Problem(
        "column",
        "that should have been removed is still in the table",
        "that should have been removed are still in the table",
    ),
    "records_unaccounted": _Problem(
        "published record",
        "has no counterpart in the original",
        "have no counterpart in the original",
    ),
    "columns_missing": _Problem(
        "column", "that should be published is missing", "that should be published are missing"
    ),
    "columns_unexpected": _Problem(
        "published column", "has no role in the schema", "have no role in the schema"
    ),
    "values_changed": _Problem(
        "value",
        "that should be unchanged differs from the original",
        "that should be unchanged differ from the original",
    ),
    "manifest_contradictions": _Problem(
        "statement", "in the manifest is wrong", "in the manifest are wrong"
    ),
}


def _problems(audit: Audit) -> Iterator[str]:
    names = dict.fromkeys([*_PROBLEMS, *audit.measures])
    for name in (name for name in names if name in audit.measures):
        item = audit.measures[name]
        if not item.must_be_zero or not item.value:
            continue
        problem = _PROBLEMS.get(name)
        if problem is None:
            yield f"{name} is {item.value:g} and must be 0"
        else:
            predicate = problem.singular if item.value == 1 else problem.plural
            yield f"{counted(int(item.value), problem.noun)} {predicate}"
    n_unique = int((audit.class_sizes == 1).sum())
    if n_unique and audit.person:
        yield (
            # If rows could not be matched, the persons in a class are the fewest possible.
            f"{n_unique:,} of {counted(len(audit.class_sizes), 'class')} cannot be shown to have "
            "the records of more than one person (k = 1)"
        )
    elif n_unique:
        combination = "combination" if len(audit.keys) != 1 else "value"
        yield (
            f"{n_unique:,} of {counted(audit.rows_released, 'published record')} "
            f"{'has' if n_unique == 1 else 'have'} a unique {combination} of "
            f"{join_words(audit.keys)} (k = 1)"
        )


def key_facts(audit: Audit) -> tuple[Fact, ...]:
    """Return the facts that readers look for first: class sizes, records, information loss."""
    facts = [
        Fact("Smallest class", counted(_smallest_class(audit), audit.unit)),
        Fact("Classes", f"{len(audit.class_sizes):,}"),
    ]
    if len(audit.class_sizes):
        facts.append(Fact("Class sizes", _describe_sizes(audit)))
    records = f"{audit.rows_original:,} in the original, {audit.rows_released:,} published"
    facts.append(Fact("Records", records))
    if "information_loss" in audit.measures:
        facts.append(Fact("Information loss", audit.measures["information_loss"].format()))
    return (*facts, *describe_distances(audit))


def _smallest_class(audit: Audit) -> int:
    return int(audit.class_sizes.min()) if len(audit.class_sizes) else 0


def _describe_sizes(audit: Audit) -> str:
    low, high = int(audit.class_sizes.min()), int(audit.class_sizes.max())
    if low == high:
        return f"{counted(low, audit.unit)} each"
    median = f"{float(np.median(audit.class_sizes)):,.1f}".removesuffix(".0")
    return f"{low:,} to {high:,} {audit.unit}s, median {median}"


# ------------------------------------------------------------------------------ words and numbers


def join_words(items: Sequence[str]) -> str:
    """Join items as in a sentence.

    Examples
    --------
    >>> join_words(["sex", "age", "home"])
    'sex, age and home'
    """
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def counted(count: int, noun: str) -> str:
    """Return the number with its noun in singular or plural.

    Examples
    --------
    >>> counted(1, "record"), counted(2000, "record"), counted(2, "class")
    ('1 record', '2,000 records', '2 classes')
    """
    plural = f"{noun}{'es' if noun.endswith(('s', 'ch')) else 's'}"
    return f"{count:,} {noun if count == 1 else plural}"


def format_with_unit(measure: Measure) -> str:
    """Return the value of a measure with its unit, if that adds something.

    Examples
    --------
    >>> format_with_unit(Measure("k", 5, "records", False, ""))
    '5 records'
    """
    value = measure.format()
    if measure.unit not in _SHOWN_UNITS:
        return value
    return f"{value} {measure.unit.removesuffix('s') if measure.value == 1 else measure.unit}"


def format_interval(measure: Measure) -> str:
    """Return the confidence interval of an estimated measure, or an empty string.

    Examples
    --------
    >>> format_interval(Measure("linkage", 0.05, "share", True, "", (0.04, 0.06)))
    'estimate, 95 % CI 4 % to 6 %'
    """
    if measure.interval is None:
        return ""
    low, high = (format_quantity(bound, measure.unit) for bound in measure.interval)
    return f"estimate, 95 % CI {low} to {high}"


@dataclass(frozen=True)
class MeasureRow:
    """A measure as a row of a table; ``better`` is "lower" or "higher"."""

    name: str
    label: str
    value: str
    interval: str
    unit: str
    better: str
    meaning: str


def measure_rows(measures: Collection[Measure]) -> list[MeasureRow]:
    """Format measures as the rows of a table.

    Examples
    --------
    >>> row, = measure_rows([Measure("k", 2000, "records", False, "Smallest class.")])
    >>> row.value, row.better
    ('2,000', 'higher')
    """
    labels = [label(measure.name) for measure in measures]
    values = [format_quantity(measure.value, measure.unit) for measure in measures]
    intervals = [format_interval(measure) for measure in measures]
    return [
        MeasureRow(
            name=measure.name,
            label=text,
            value=value,
            interval=interval,
            unit=measure.unit,
            better="lower" if measure.lower_is_better else "higher",
            meaning=measure.meaning,
        )
        for measure, text, value, interval in zip(measures, labels, values, intervals, strict=True)
    ]


# ------------------------------------------------------------------------------ analyses


def coefficient_rows(analysis: Analysis) -> list[tuple[str, str, str, str]]:
    """Return rows of text: term, coefficient with its interval before and after, and overlap."""
    return [
        (
            item.term,
            _with_interval(item.before),
            _with_interval(item.after),
            "" if np.isnan(item.overlap) else f"{100 * item.overlap:.0f} %",
        )
        for item in analysis.coefficients
    ]


def _with_interval(values: Sequence[float]) -> str:
    estimate, low, high = values
    if not np.isfinite(estimate):
        return "not estimable"
    return f"{estimate:.3g} ({low:.3g} to {high:.3g})"


_GROUPS = ("Group", "Mean or rate of", "Records", "Original", "Published", "Change")
_PUBLIC_GROUPS = ("Group", "Mean or rate of", "Records", "Published", "Change")


def group_rows(groups: Sequence[GroupMean]) -> list[tuple[str, ...]]:
    """Return the texts of a table of groups, below its header; no rows without groups.

    Of a public audit, what the group was in the original is left out, and the change is a step.
    """
    if not groups:
        return []
    public = not any(item.n_before for item in groups)
    return [_PUBLIC_GROUPS if public else _GROUPS, *map(_group_row, groups)]


def _group_row(item: GroupMean) -> tuple[str, ...]:
    after = "none published" if np.isnan(item.after) else f"{item.after:.4g}"
    group = f"{item.by} = {item.group}"
    if not item.n_before:
        step = (
            f"at least {item.change:g} SD" if item.change else f"less than {CHANGE_STEPS[0]:g} SD"
        )
        return group, item.response, f"{item.n_after:,}", after, step
    change = "" if np.isnan(item.change) else f"{round(item.change, 2) + 0.0:+.2f} SD"
    records = f"{item.n_before:,} → {item.n_after:,}"
    return group, item.response, records, f"{item.before:.4g}", after, change


def left_out_rows(audit: Audit) -> list[tuple[str, ...]]:
    """Return the texts of a table of the groups with records left out; no rows without any."""
    if not audit.left_out:
        return []
    ordered = sorted(audit.left_out, key=lambda item: (not item.more, -item.share))
    return [("Group", "Left out", "Of", "Share"), *map(_left_out_row, ordered)]


def _left_out_row(item: LeftOutGroup) -> tuple[str, ...]:
    share = f"{percent(item.share)}{', clearly more than others' * item.more}"
    return f"{item.column}: {item.name}", f"{item.left_out:,}", f"{item.people:,}", share


def false_categories(audit: Audit) -> tuple[Fact, ...]:
    """Return how many people are published with a false category, column by column."""
    facts = []
    for column in dict.fromkeys(item.column for item in audit.categories):
        items = [item for item in audit.categories if item.column == column]
        false, people = sum(item.false for item in items), sum(item.people for item in items)
        facts.append(Fact(column, f"{false:,} of {people:,} people ({percent(false / people)})"))
    return tuple(facts)


def mask_rows(audit: Audit) -> list[tuple[str, ...]]:
    """Return the texts of a table of the masked columns; no rows without any."""
    if not audit.masks:
        return []
    header = ("Column", "Masks", "Changed", "Mean", "Deviation", "Value", "Correlation")
    return [header, *map(_mask_row, audit.masks)]


def _mask_row(item: MaskEffect) -> tuple[str, ...]:
    return (
        item.column,
        ", ".join(item.masks),
        percent(item.changed),
        f"{item.mean + 0.0:+.3f} SD",
        f"{100 * item.deviation + 0.0:+.2f} %",
        f"{item.absolute:.3f} SD",
        f"{item.correlation:.3f}",
    )


def describe_distances(audit: Audit) -> tuple[Fact, ...]:
    """Return how far each location moved, in kilometres."""
    return tuple(
        Fact(f"Distance moved ({name})", f"median {median:,.1f} km, 5 % more than {high:,.1f} km")
        for name, (median, high) in audit.distances.items()
    )
