"""Findings about people with several records, and about other releases of the same people."""

from collections.abc import Iterator, Mapping

import numpy as np

from microcell._display import count
from microcell._files import TEXT_SUFFIXES
from microcell.findings.registry import Case, Observation, rule
from microcell.measures.classes import combine, number_values
from microcell.measures.people import unify_spelling
from microcell.model import Integers, Values
from microcell.model.formulas import count_formulas

__all__ = ["earlier_release", "formulas", "persons_repeat", "persons_spelling"]

_MIN_PERSONS = 10
"""A column with fewer distinct values cannot identify people."""

_AGREEMENT = 0.9
"""Share of the values with several rows whose rows must agree in a quasi-identifier."""

_MAX_CHANCE = 0.05
"""Agreement means nothing in a column in which any two rows agree more often than this."""


@rule(
    "risk.persons_repeat",
    severity="danger",
    title="Some people seem to have several records",
    meaning="The values of a column that identifies people repeat, but the schema does not name it "
    "as the person. k then counts records: the k records of a class may all be about one person.",
    advice='Give the column `role = "person"` (or `--person COLUMN`). If its values repeat for '
    "another reason, set `rows_are_people = true`: the finding becomes a warning, because the "
    "table cannot confirm it.",
)
def persons_repeat(case: Case) -> Iterator[Observation]:
    schema, original = case.evidence.schema, case.evidence.original
    if schema.person:
        return
    counts = _count_identifiers(case)
    rows = original.rows if case.identifiers is None else case.people
    name = _repeating_identifier(counts, rows) or _hidden_person(case)
    if name is None:
        return
    distinct, present = counts[name] if name in counts else _count_values(original.columns[name])
    stated = ", although the schema states rows_are_people" if schema.rows_are_people else ""
    yield Observation(
        f"{name!r} has {distinct:,} distinct values in {count(present, 'record')}{stated}: people "
        "with several records count several times, so k does not count people.",
        f'[columns.{name}] role = "person" (--person {name}). If every row is about another '
        "person, set rows_are_people = true; a warning remains, because the table cannot "
        "confirm it",
        {"distinct": distinct, "records": present},
        (name,),
        severity="warning" if schema.rows_are_people else None,
    )


def _count_identifiers(case: Case) -> Mapping[str, tuple[int, int]]:
    """Return the numbers of distinct and of all values of each identifier."""
    if case.identifiers is not None:
        return case.identifiers
    columns = case.evidence.original.columns
    names = [name for name in case.evidence.schema.identifiers if name in columns]
    return {name: _count_values(columns[name]) for name in names}


def _repeating_identifier(counts: Mapping[str, tuple[int, int]], rows: int) -> str | None:
    """Return the identifier with the fewest distinct values, unless one is unique per row."""
    if any(distinct == rows for distinct, _ in counts.values()):
        return None
    repeating = [name for name, (distinct, present) in counts.items() if distinct < present]
    return min(repeating, key=lambda name: counts[name][0], default=None)


def _hidden_person(case: Case) -> str | None:
    """Return a column that seems to identify people, although it has another role.

    Rows with the same value in it agree in a quasi-identifier in which rows rarely agree.

    The visits of a patient agree in the date of birth; the patients of a ward do not.
    """
    schema, original = case.evidence.schema, case.evidence.original
    others = (*schema.drop, *schema.keep, *(column.name for column in schema.confidential))
    quasi = [number_values(original.columns[name]) for name in schema.keys]
    rare = [codes for codes in quasi if _agreement_by_chance(codes) <= _MAX_CHANCE]
    for name in others:
        values = original.columns.get(name)
        if values is None or values.storage == "float" or values.is_time:
            continue
        codes = number_values(values)
        if _distinct(values) >= _MIN_PERSONS and any(_agree(codes, item) for item in rare):
            return str(name)
    return None


def _agreement_by_chance(codes: Integers) -> float:
    shares = np.bincount(codes) / max(len(codes), 1)
    return float(np.square(shares).sum())


def _agree(codes: Integers, others: Integers) -> bool:
    """Return whether rows with the same code nearly always agree in another column."""
    rows = np.bincount(codes)
    several = np.flatnonzero(rows > 1)
    if len(several) < _MIN_PERSONS:
        return False
    pairs = combine(codes, others)
    code_of = np.zeros(int(pairs.max()) + 1, dtype=np.int64)
    code_of[pairs] = codes
    distinct = np.bincount(code_of, minlength=len(rows))
    return float((distinct[several] == 1).mean()) >= _AGREEMENT


@rule(
    "risk.persons_spelling",
    severity="warning",
    title="Values of the person column differ only in spelling",
    meaning="Values of the person column differ in upper and lower case or white space only. They "
    "count as different persons, so a class may have fewer than k people.",
    advice="Unify the spelling in the original table.",
)
def persons_spelling(case: Case) -> Iterator[Observation]:
    for name, (distinct, persons) in _count_spellings(case).items():
        n_doubtful = distinct - persons
        if n_doubtful:
            yield Observation(
                f"{n_doubtful:,} of {count(distinct, 'value')} of the person column {name!r} "
                "differ from another one in upper and lower case or white space only: they count "
                "as different persons.",
                f"Unify the spelling of {name!r} in the original table if they are the same person",
                {"values": n_doubtful, "distinct": distinct},
                (name,),
            )


def _count_spellings(case: Case) -> Mapping[str, tuple[int, int]]:
    """Return the numbers of distinct values of each person column, as they are and unified."""
    if case.spellings is not None:
        return case.spellings
    counts = {}
    for name in case.evidence.schema.person:
        values = case.evidence.original.columns.get(name)
        if values is not None and values.storage == "text":
            used = np.unique(values.data[~values.missing])
            spellings = [values.categories[code] for code in used.tolist()]
            counts[name] = len(spellings), len(set(map(unify_spelling, spellings)))
    return counts


@rule(
    "risk.earlier_release",
    severity="warning",
    title="Another release of the same people is in the same folder",
    meaning="Two releases of the same people can be compared: where their classes overlap in fewer "
    "than k people, the comparison may single someone out. k holds for each release, not for both.",
    advice="Publish only one of them: delete the other release, or write this one elsewhere if the "
    "other was never published. For tables that grow, use `microcell increment`.",
)
def earlier_release(case: Case) -> Iterator[Observation]:
    names = list(case.earlier)
    if names:
        more = f" and {count(len(names) - 1, 'more')}" if len(names) > 1 else ""
        yield Observation(
            f"The folder already has a release of the same people ({names[0]}{more}); anyone "
            "who has both can compare them.",
            "Publish only one of them: delete the other, or write this release to another folder "
            "(-o) if the other was never published; for tables that grow, use microcell increment",
            {"releases": len(names)},
        )


@rule(
    "file.formulas",
    severity="warning",
    title="Spreadsheet programs may run some texts as formulas",
    meaning="Texts begin with =, +, -, @, a tab or a carriage return. A spreadsheet program that "
    "opens the release as a text file may run them.",
    advice="Write the file with `--escape-formulas`, or as .xlsx.",
    published_only=True,
)
def formulas(case: Case) -> Iterator[Observation]:
    released = case.evidence.released
    path = released.origin.path
    if case.formulas_escaped or (path is not None and path.suffix.lower() not in TEXT_SUFFIXES):
        return
    counts = count_formulas(released)
    if counts:
        total = sum(counts.values())
        listing = ", ".join(f"{name!r} ({number:,})" for name, number in counts.items())
        yield Observation(
            f"{count(total, 'value')} in {listing} {'begins' if total == 1 else 'begin'} with =, "
            "+, -, @, a tab or a carriage return: a spreadsheet program that opens the release as "
            "a text file may run them as formulas.",
            "--escape-formulas, or write the release as .xlsx",
            {"values": total},
            tuple(counts),
        )


def _count_values(values: Values) -> tuple[int, int]:
    return _distinct(values), int((~values.missing).sum())


def _distinct(values: Values) -> int:
    return len(np.unique(values.data[~values.missing]))
