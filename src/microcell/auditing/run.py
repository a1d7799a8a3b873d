"""The audit of a published table against its original."""

from collections.abc import Iterator, Sequence

import numpy as np

from microcell._files import TEXT_SUFFIXES
from microcell.auditing.alignment import align
from microcell.auditing.views import compare_columns, project
from microcell.errors import OptionError, SchemaError
from microcell.measures.checks import RoleProblems
from microcell.measures.classes import class_labels
from microcell.measures.evaluate import evaluate
from microcell.measures.evidence import Evidence
from microcell.measures.registry import measures
from microcell.measures.risk import check_population
from microcell.measures.utility import ColumnLoss
from microcell.model import Audit, Integers, Schema, Table, Values
from microcell.model.formulas import count_formulas, describe_formulas

__all__ = ["audit", "identifying_notes", "repetition_notes"]

_MIN_VALUES = 10
_UNMATCHED_PERSONS = (
    "The rows of the release could not be matched with the original, so the persons in a class "
    "could not be counted: k and the other figures on persons are the worst that is possible. Pass "
    "the manifest of the release (--manifest)."
)
_NEARLY_ALL = 0.9
"""A column with this many values may identify people if this share of them is distinct."""


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
    _check_columns(original, released, schema)
    check_population(population, released.rows)
    alignment = align(original, released, schema, pairs=pairs, key=key)
    rows = alignment.pairs if released.rows and not brief else None
    # Rows without a person count as one, since they may have been left out of the release.
    persons = class_labels(original, schema.person) if schema.person else None
    unmatched = persons is not None and alignment.pairs is None
    evidence = Evidence(
        original,
        released,
        schema,
        pairs=rows,
        persons=None if persons is None or unmatched else persons[alignment.pairs],
        values_changed=alignment.changed,
        population=population,
        target=None if rows is None else target,
        contradictions=contradictions,
    )
    results = evaluate(evidence, measures().values(), persons=bool(schema.person))
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
            *release_notes(original, released, schema),
            *(() if formulas_escaped else _formula_notes(released)),
            *(_unreadable_notes(evidence.losses) if compared else ()),
        ),
        comparisons=() if brief else compare_columns(evidence.columns),
        projection=project(evidence.columns, evidence.classes) if compared else None,
        quantiles=evidence.quantiles if compared else (),
        correlations=evidence.correlations if compared else None,
        linkage_by_known=evidence.links.by_known if compared else None,
        homogeneous=evidence.homogeneous,
    )


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


def release_notes(original: Table, released: Table, schema: Schema) -> tuple[str, ...]:
    """Report what to know before publishing: people with several records, unique values."""
    return (*repetition_notes(original, schema), *identifying_notes(released, schema))


def identifying_notes(released: Table, schema: Schema) -> Iterator[str]:
    """Report columns published unchanged whose values are nearly all distinct."""
    columns = released.columns
    for name in (*(column.name for column in schema.confidential), *schema.keep):
        if name in columns and columns[name].storage == "text" and _nearly_unique(columns[name]):
            yield _identifying_note(name, "it may identify people")
    weight = schema.weight
    if weight is not None and weight in columns and _nearly_unique(columns[weight]):
        if columns[weight].storage == "text":
            yield _identifying_note(weight, "it may identify people")
        else:
            yield _identifying_note(weight, "an outsider who knows the value finds the record")


def _nearly_unique(values: Values) -> bool:
    present = values.data[~values.missing]
    return len(present) >= _MIN_VALUES and len(np.unique(present)) >= _NEARLY_ALL * len(present)


def _identifying_note(name: str, risk: str) -> str:
    return (
        f"Column {name!r} is published unchanged and nearly all of its values are distinct: {risk}."
    )


def repetition_notes(original: Table, schema: Schema) -> Iterator[str]:
    """Report repeated identifiers: the k records of a class may be about fewer than k people."""
    if schema.person:
        yield from _spelling_notes(original, schema)
        return
    repeated = []
    for name in schema.identifiers:
        if name not in original.columns:
            continue
        values = original.columns[name]
        present = values.data[~values.missing]
        distinct = len(np.unique(present))
        if distinct < len(present):
            repeated.append(f"{name!r} ({distinct:,} distinct values in {len(present):,} records)")
    if repeated and schema.rows_are_people:
        yield (
            "The schema states that every row is about another person (rows_are_people), although "
            f"values repeat in {', '.join(repeated)}."
        )
    elif repeated:
        yield (
            "Some people may have several records, and k counts records, not people: values repeat "
            f"in {', '.join(repeated)}."
        )


def _spelling_notes(original: Table, schema: Schema) -> Iterator[str]:
    """Report person columns whose values differ in case or white space only."""
    for name in schema.person:
        values = original.columns.get(name)
        if values is None or values.storage != "text":
            continue
        used = np.unique(values.data[~values.missing])
        spellings = [values.categories[code] for code in used.tolist()]
        persons = len({" ".join(text.split()).casefold() for text in spellings})
        if persons < len(spellings):
            yield (
                f"{len(spellings) - persons:,} of {len(spellings):,} values of the person column "
                f"{name!r} differ from another one in upper and lower case or white space only: "
                "they count as different persons. Unify their spelling if they are the same person."
            )


def _formula_notes(released: Table) -> Iterator[str]:
    """Report values that a spreadsheet program may run; other file formats keep them as text."""
    path = released.origin.path
    if path is None or path.suffix.lower() in TEXT_SUFFIXES:
        counts = count_formulas(released)
        if counts:
            yield describe_formulas(counts)


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
