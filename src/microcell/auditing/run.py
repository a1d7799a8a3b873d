"""The audit of a published table against its original."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from microcell.auditing.alignment import align
from microcell.auditing.views import compare_columns, project
from microcell.errors import OptionError, SchemaError
from microcell.findings import Case, find_all
from microcell.findings.quality import all_categories, moved_km
from microcell.measures.analysis import (
    compare_groups,
    compare_small_groups,
    fit_analysis,
    parse_formula,
)
from microcell.measures.checks import RoleProblems
from microcell.measures.classes import class_labels
from microcell.measures.evaluate import evaluate
from microcell.measures.evidence import Evidence
from microcell.measures.left_out import left_out_groups
from microcell.measures.registry import measures
from microcell.measures.risk import check_population
from microcell.measures.utility import ColumnLoss
from microcell.model import Audit, Finding, Integers, Schema, Table

__all__ = ["audit", "examine"]

_UNMATCHED_PERSONS = (
    "The rows of the release could not be matched with the original, so the persons in each "
    "class could not be counted: k and the other counts of persons are worst-case values. Pass "
    "the manifest of the release (--manifest)."
)


def audit(
    original: Table,
    released: Table,
    schema: Schema,
    *,
    pairs: Integers | None = None,
    key: str | None = None,
    population: int | None = None,
    target: str | None = None,
    brief: bool = False,
    contradictions: Sequence[str] | None = None,
    formulas_escaped: bool = False,
    k: int | None = None,
    earlier: Sequence[str] = (),
    analyses: Sequence[str] = (),
    by: Sequence[str] = (),
) -> Audit:
    """Compute all measures of a release by comparing the two tables, as an outsider would.

    Parameters
    ----------
    schema
        A resolved schema: each quasi-identifier has its kind.
    pairs
        The original row (from 0) of each published row, if known. Otherwise rows are matched by
        position. If the columns published unchanged contradict that, measures that compare records
        are left out, and a note says so.
    key
        A column of both tables, with a unique value in every row, by which rows are matched.
    population
        Size of the population that the records were sampled from, for the journalist risk.
    target
        A column published unchanged, to be predicted from the others on the release and on the
        original.
    brief
        Skip everything that compares records: linkage, utility and the data for figures.
    contradictions
        A sentence on each false statement of the manifest; None without a manifest.
    formulas_escaped
        Texts that look like formulas are escaped in the published file, though not in ``released``.
    k
        The k that was requested, for the findings; that of the classes if omitted.
    earlier
        Names of the manifests of other releases of the same people.
    analyses
        Formulas such as "hours ~ age + education", to be fitted on both tables.
    by
        Columns by whose values means and rates are compared.

    Raises
    ------
    SchemaError
        A quasi-identifier or stratum is missing from a table, or its storage cannot be compared.
    DataError
        A value is invalid (infinite, a negative weight, a category outside its order), or the key
        is missing, repeated or not in the original.
    OptionError
        A table has no such key, the population is smaller than the release, or the target cannot be
        learned.

    Examples
    --------
    >>> from microcell.model import Column, Values
    >>> import numpy as np
    >>> none = np.zeros(4, dtype=bool)
    >>> ages, means = np.array([20, 22, 40, 42]), np.array([21, 21, 41, 41])
    >>> before = Table({"age": Values("integer", ages, none)}, rows=4, native=None)
    >>> after = Table({"age": Values("integer", means, none)}, rows=4, native=None)
    >>> result = audit(before, after, Schema(quasi=[Column("age", kind="numeric")]))
    >>> result["k"], round(result["information_loss"], 4)
    (2, 0.0099)
    """
    if brief and target is not None:
        raise OptionError(
            "A brief audit does not compare records, so it cannot learn a target. Omit one of the "
            "two.",
            code="option.conflict",
            option="target",
        )
    for text in analyses:
        parse_formula(text)
    _check_columns(original, released, schema)
    alignment = align(original, released, schema, pairs=pairs, key=key)
    rows = alignment.pairs if released.rows and not brief else None
    persons = _persons(original, schema)
    unmatched = persons is not None and alignment.pairs is None
    published = None if persons is None or unmatched else persons[alignment.pairs]
    check_population(population, _count_people(released, persons, published))
    evidence = Evidence(
        original,
        released,
        schema,
        pairs=rows,
        persons=published,
        values_changed=alignment.changed,
        population=population,
        target=None if rows is None else target,
        contradictions=contradictions,
    )
    results = evaluate(evidence, measures().values(), persons=bool(schema.person))
    case = Case(evidence, k, tuple(earlier), formulas_escaped)
    compared = rows is not None
    return Audit(
        keys=(*(column.name for column in schema.quasi), *schema.strata),
        rows_original=original.rows,
        rows_released=released.rows,
        measures=results,
        class_sizes=evidence.class_people,
        person=tuple(schema.person),
        notes=(
            *((_UNMATCHED_PERSONS,) if unmatched and released.rows else ()),
            *(contradictions or ()),
            *alignment.notes,
            *_role_notes(evidence.role_problems),
            *(_unreadable_notes(evidence.losses) if compared else ()),
        ),
        comparisons=() if brief else compare_columns(evidence.columns),
        projection=project(evidence.columns, evidence.classes) if compared else None,
        quantiles=evidence.quantiles if compared else (),
        correlations=evidence.correlations if compared else None,
        linkage_by_known=evidence.links.by_known if compared else None,
        homogeneous=evidence.homogeneous,
        findings=find_all(case),
        **(_for_people(evidence, case, analyses, by) if compared else {}),
    )


def _for_people(
    evidence: Evidence, case: Case, analyses: Sequence[str], by: Sequence[str]
) -> dict[str, Any]:
    """Return what the release does to categories, places, analyses and groups, by field."""
    moves = moved_km(evidence)
    return {
        "categories": all_categories(evidence),
        "left_out": left_out_groups(evidence),
        "distances": {name: (float(km[50]), float(km[95])) for name, km in moves.items()},
        "moves": moves,
        "analyses": tuple(fit_analysis(evidence, text) for text in analyses),
        "groups": tuple(chain.from_iterable(compare_groups(evidence, name) for name in by)),
        "small_groups": compare_small_groups(evidence, case.smallest),
    }


def examine(
    original: Table,
    released: Table,
    schema: Schema,
    *,
    pairs: Integers,
    k: int | None = None,
    earlier: Sequence[str] = (),
    formulas_escaped: bool = False,
) -> tuple[Finding, ...]:
    """Return the findings of a release whose rows are matched, without computing all measures."""
    persons = _persons(original, schema)
    evidence = Evidence(
        original,
        released,
        schema,
        pairs=pairs if released.rows else None,
        persons=None if persons is None else persons[pairs],
    )
    return find_all(Case(evidence, k, tuple(earlier), formulas_escaped))


def _persons(original: Table, schema: Schema) -> Integers | None:
    """Return the person of each row.

    Rows without a person count as one person, because they may have been dropped.
    """
    return class_labels(original, schema.person) if schema.person else None


def _count_people(released: Table, persons: Integers | None, published: Integers | None) -> int:
    """Return an upper bound on the number of people in a release whose rows are not matched."""
    if persons is None:
        return released.rows
    return min(released.rows, len(np.unique(persons if published is None else published)))


def _check_columns(original: Table, released: Table, schema: Schema) -> None:
    for which, table in (("original", original), ("released", released)):
        absent = [name for name in schema.keys if name not in table.columns]
        if absent:
            raise SchemaError(
                f"The {which} table has no column{'s' * (len(absent) > 1)} "
                f"{', '.join(map(repr, absent))}, which the schema names as a quasi-identifier or "
                "stratum. Pass the complete table, or correct the schema.",
                code="schema.unknown_column",
                columns=absent,
                table=which,
            )
    absent = [name for name in schema.person if name not in original.columns]
    if absent:
        raise SchemaError(
            f"The original table has no column {', '.join(map(repr, absent))}, which the schema "
            "names as the person. Pass the complete table, or correct the schema.",
            code="schema.unknown_column",
            columns=absent,
            table="original",
        )
    if schema.weight is not None and schema.weight not in original.columns:
        raise SchemaError(
            f"The original table has no column {schema.weight!r}, which the schema names as the "
            "weight. Pass the complete table, or correct the schema.",
            code="schema.unknown_column",
            columns=[schema.weight],
            table="original",
        )


# ----------------------------------------------------------------------------------------- notes


def _role_notes(problems: RoleProblems) -> Iterator[str]:
    """Report columns that should not be in the release, and columns missing from it."""
    for text, names in (
        ("Should have been removed but still in the release", problems.surplus),
        ("Should be published unchanged but not in the release", problems.missing),
        ("In the release without a role in the schema, so not audited", problems.unexpected),
    ):
        if names:
            yield f"{text}: column{'s' * (len(names) > 1)} {', '.join(map(repr, names))}."


def _unreadable_notes(columns: Sequence[ColumnLoss]) -> Iterator[str]:
    """Report quasi-identifiers with published values that could not be compared."""
    for item in columns:
        if item.unreadable:
            one = item.unreadable == 1
            yield (
                f"Column {item.column.name!r}: {item.unreadable:,} published "
                f"value{'' if one else 's'} could not be compared with the original and "
                f"count{'s' if one else ''} as lost."
            )
