"""Findings about the usefulness of the published table."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from microcell._display import count
from microcell.findings.registry import Case, Observation, percent, rule
from microcell.kinds.location import LocationPair
from microcell.measures.classes import combine, people_by_category
from microcell.measures.evidence import Evidence
from microcell.measures.left_out import left_out_groups
from microcell.measures.pairs import NamedCategories
from microcell.measures.utility import information_loss
from microcell.model import Floats, Integers
from microcell.model.audit import CategoryShare

__all__ = ["all_categories", "category_shares", "distances_km", "moved_km"]

_HALF = 0.5
_EARTH_KM = 6_371.0

FAR_KM = 10.0
"""A location is reported if one record in twenty moved farther than this."""

_FEW_IMPUTED = 0.05
"""Share of imputed values up to which the finding is only a note."""

_SHOWN = 20
"""Number of categories listed in the details of a finding."""

_DOMINANT = 0.5
"""Share of a cell's weight from which one member dominates its representative."""

_SLACK = 1e-9

_AMOUNT = re.compile(
    r"\s*(?:[$€£¥]|[A-Z]{3}\b|R\$)?\s*[+-]?(?:\d{1,3}(?:[ .,'\u00a0\u202f]\d{3})+|\d+)"
    r"(?:[.,]\d+)?\s*(?:[$€£¥%]|[A-Z]{3}|kr|k|K)?\s*"
)
_CODE = re.compile(r"0\d+|\d+")
"""Digits only, such as postal codes: these are names, not amounts."""

_MOSTLY = 0.9


# ------------------------------------------------------------------------------ the whole table


@rule(
    "utility.k_too_large",
    severity="danger",
    title="k is larger than half of the table",
    meaning="With k above half of the people there can be only one cell: every record is published "
    "with the same quasi-identifiers.",
    advice="Choose a k of at most half of the people (`-k`); useful values are far smaller.",
    published_only=True,
)
def k_too_large(case: Case) -> Iterator[Observation]:
    people = case.people
    if case.k is not None and case.classes == 1 and 2 * case.k > people:
        yield Observation(
            f"k = {case.k:,} is more than half of the {count(people, case.noun)}, so all of "
            "them share one class and the quasi-identifiers no longer carry information.",
            f"-k {_usual_k(people)} (at most {people // 2:,}; useful values are far smaller)",
            {"k": case.k, "people": people},
        )


@rule(
    "utility.one_class",
    severity="danger",
    title="All records share one class",
    meaning="Every record is published with the same quasi-identifiers. The table is k-anonymous "
    "and useless: the columns no longer tell records apart.",
    advice="Relax the requirements (`--require`), choose a smaller k (`-k`), or drop the "
    "quasi-identifiers.",
    published_only=True,
)
def one_class(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    people = case.people
    if case.classes != 1 or (case.k is not None and 2 * case.k > people):
        return
    if evidence.pairs is not None and not any(loss.loss.baseline for loss in evidence.losses):
        return  # The original has only one combination, too.
    yield Observation(
        f"All {count(evidence.released.rows, 'record')} share one class: the quasi-identifiers no "
        "longer tell them apart.",
        f"Relax the limits of --require, or -k {_usual_k(people)}",
        {"records": evidence.released.rows},
    )


def _usual_k(people: int) -> int:
    return max(2, min(5, people // 4))


@rule(
    "utility.information_loss",
    severity="warning",
    title="More than half of the information is lost",
    meaning="More than half of the variation between people, over all quasi-identifiers, is gone: "
    "most analyses of the release will miss what the original shows.",
    advice="Choose a smaller k, `--effort best`, a weaker requirement, or drop "
    "quasi-identifiers that nobody needs, especially long codes and exact dates.",
)
def high_information_loss(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    if evidence.pairs is None or case.classes < 2:
        return
    loss = information_loss(evidence.losses)
    if loss <= _HALF:
        return
    by_column = sorted(evidence.losses, key=lambda item: -item.share)
    worst = [item for item in by_column if item.share > _HALF]
    listing = ", ".join(f"{item.column.name!r} {percent(item.share)}" for item in worst[:3])
    smaller = "" if case.smallest <= 2 else f"-k {max(2, case.smallest // 2)}, "
    first = worst[0].column.name if worst else by_column[0].column.name
    yield Observation(
        f"The release loses {percent(loss)} of the information"
        f"{f'; most in {listing}' if listing else ''}.",
        f"{smaller}--effort best, weaker limits (--require), or drop a column that nobody needs: "
        f'[columns.{first}] role = "drop"',
        {"information_loss": loss},
        tuple(item.column.name for item in worst),
    )


@rule(
    "utility.imputed",
    severity="warning",
    title="Missing values were imputed",
    meaning="Records without a value of a quasi-identifier are published with the value of their "
    "cell, as if it had been observed. Cells in which nobody has a value stay missing.",
    advice="Leave such records out with `--missing drop`, or drop the column.",
)
def imputed_values(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    if evidence.pairs is None:
        return
    by_column: dict[str, tuple[int, int]] = {}
    for name in (part for column in evidence.schema.quasi for part in column.parts):
        before = evidence.original.columns[name].missing[evidence.pairs]
        after = evidence.released.columns[name].missing
        if before.any():
            by_column[name] = (int((before & ~after).sum()), int((before & after).sum()))
    imputed = sum(filled for filled, _ in by_column.values())
    left = sum(still for _, still in by_column.values())
    if not imputed and not left:
        return
    n_values = evidence.released.rows * max(len(by_column), 1)
    listing = ", ".join(f"{name!r} {sum(counts):,}" for name, counts in by_column.items())
    yield Observation(
        f"{imputed:,} of {count(imputed + left, 'missing value')} ({listing}) "
        f"{'was' if imputed == 1 else 'were'} filled with the value of the cell; {left:,} "
        f"{'is' if left == 1 else 'are'} still missing.",
        "--missing drop (records with missing values are left out)",
        {"imputed": imputed, "still_missing": left},
        tuple(by_column),
        severity="note" if imputed + left <= _FEW_IMPUTED * n_values else None,
    )


# ------------------------------------------------------------------------------ categories


def category_shares(column: NamedCategories, persons: Integers | None) -> tuple[CategoryShare, ...]:
    """Return how each category of the original was published, smallest categories first."""
    n_codes = len(column.names)
    right = np.where(column.before == column.after, column.before, -1)
    covered = column.covered if column.covered is not None else np.zeros(len(right), np.bool_)
    in_a_group = np.where(covered, column.before, -1)
    no_value = np.where(column.after < 0, column.before, -1)
    before, kept, after, coarse, withheld = (
        people_by_category(codes, persons, n_codes)
        for codes in (column.before, right, column.after, in_a_group, no_value)
    )
    return tuple(
        CategoryShare(
            column.name,
            column.names[code],
            int(before[code]),
            int(kept[code]),
            int(after[code]),
            int(coarse[code]),
            int(withheld[code]),
        )
        for code in np.argsort(before, kind="stable").tolist()
        if before[code]
    )


def all_categories(evidence: Evidence) -> tuple[CategoryShare, ...]:
    """Return how each category of the nominal quasi-identifiers was published."""
    quasi = {column.name for column in evidence.schema.quasi}
    return tuple(
        share
        for column in evidence.columns.categories
        if column.name in quasi
        for share in category_shares(column, evidence.persons)
    )


@rule(
    "utility.category_lost",
    severity="warning",
    title="Some categories vanish or are mostly wrong",
    meaning="A category of a quasi-identifier is no longer published, or most people who have it "
    "are published with another one. Small groups disappear from every analysis. A category of "
    "fewer than k people cannot be kept by any release.",
    advice="Give the column a larger `weight` in the schema (`microcell explore --weights` tries "
    'some), form cells within its values (`role = "strata"`), or combine small categories in the '
    "original table. Categories of fewer than k people can only be combined or lost.",
)
def categories_lost(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    if evidence.pairs is None or case.classes < 2:
        return
    weights = {column.name: column.weight for column in evidence.schema.quasi}
    for column in evidence.columns.categories:
        if column.name not in weights:
            continue
        shares = category_shares(column, evidence.persons)
        false = [item for item in shares if item.true_share < _HALF]
        vanished = [item for item in false if not item.published]
        wrong = [item for item in false if item.published]
        lost = [*vanished, *wrong]
        if not lost:
            continue
        possible = [item for item in lost if item.people >= case.smallest]
        n_lost = sum(item.people - item.kept for item in lost)
        yield Observation(
            f"{_describe_lost(vanished, wrong, case.noun)} of the {len(shares):,} in "
            f"{column.name!r}.",
            _category_advice(
                column.name, weights[column.name], len(possible), len(lost), case.smallest
            ),
            {
                "categories": len(shares),
                "vanished": len(vanished),
                "mostly_wrong": len(wrong),
                "people": n_lost,
                "below_k": len(lost) - len(possible),
            },
            (column.name,),
            tuple(
                f"{item.name}: {count(item.people, case.noun)}, {percent(item.share)} kept"
                for item in sorted(lost, key=lambda item: -item.people)[:_SHOWN]
            ),
            severity=None if possible else "note",
        )


def _describe_lost(
    vanished: Sequence[CategoryShare], wrong: Sequence[CategoryShare], noun: str
) -> str:
    """Return how many categories vanish and how many are mostly wrong, with their people."""
    parts = []
    for items, singular, plural in (
        (vanished, "vanishes", "vanish"),
        (wrong, "is published wrongly for most people", "are published wrongly for most people"),
    ):
        if items:
            people = count(sum(item.people for item in items), noun)
            verb = singular if len(items) == 1 else plural
            parts.append(f"{count(len(items), 'category', 'categories')} ({people}) {verb}")
    return " and ".join(parts)


def _category_advice(name: str, weight: float, n_possible: int, n_lost: int, k: int) -> str:
    below = (
        f"Categories of fewer than k = {k:,} people cannot be kept: combine them with similar ones "
        "in the original table"
    )
    if not n_possible:
        return f'{below}, or [columns.{name}] role = "drop"'
    return (
        f"[columns.{name}] weight = {4 * weight:g} (microcell explore --weights tries others), or "
        f'role = "strata"{f". {below}" if n_possible < n_lost else ""}'
    )


@rule(
    "utility.records_left_out",
    severity="warning",
    title="Records were left out",
    meaning="Complete records are missing from the release because they cost most (`suppress`). "
    "Results then hold for the people who remain. If people of one group are left out clearly more "
    "often than others, the finding is a warning, otherwise a note.",
    advice="Allow a smaller share (`--suppress`), or none.",
)
def records_left_out(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    if evidence.pairs is None or not len(evidence.columns.left_out):
        return
    n_out = len(evidence.columns.left_out)
    n_all = n_out + evidence.released.rows
    groups = [item for item in left_out_groups(evidence) if item.more]
    hit = [item for item in groups if item.quasi]
    names = tuple(dict.fromkeys(item.column for item in groups))
    clause = ""
    if groups:
        listing = ", ".join(map(repr, names))
        clause = f"; {count(len(groups), 'group')} by {listing} clearly more often than others"
    yield Observation(
        f"{count(n_out, 'record')} ({percent(n_out / n_all)}) {'was' if n_out == 1 else 'were'} "
        f"left out because of the cost of keeping {'it' if n_out == 1 else 'them'}{clause}.",
        "--suppress 0, or a smaller share",
        {"records": n_out, "share": n_out / n_all, "groups": len(groups)},
        names,
        tuple(
            f"{item.column} {item.name}: {item.left_out:,} of {count(item.people, case.noun)}"
            for item in groups[:_SHOWN]
        ),
        severity=None if hit else "note",
    )


# ------------------------------------------------------------------------------ single columns


def distances_km(pair: LocationPair, rows: Integers) -> Floats:
    """Return the distance of each published location from the original one, NaN if missing."""
    chord = np.linalg.norm(pair.before[rows] - pair.after, axis=1)
    distances: Floats = 2 * _EARTH_KM * np.arcsin(np.clip(chord / 2, 0, 1))
    return distances


def moved_km(evidence: Evidence) -> dict[str, Floats]:
    """Return the percentiles, from 0 to 100, of the distances that each location moved."""
    assert evidence.pairs is not None
    moved = {}
    for pair in evidence.columns.quasi:
        if isinstance(pair, LocationPair):
            distances = distances_km(pair, evidence.pairs)
            distances = distances[~np.isnan(distances)]
            if len(distances):
                moved[pair.column.name] = np.percentile(distances, np.arange(101))
    return moved


@rule(
    "utility.location_moved",
    severity="warning",
    title="Locations moved far",
    meaning=f"One location in twenty is published more than {FAR_KM:g} km away from its true "
    "position.",
    advice="Give the location a larger `weight` in the schema, choose a smaller k, or publish "
    "regions (a nominal column) in place of coordinates.",
)
def locations_moved(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    if evidence.pairs is None or case.classes < 2:
        return
    for pair in evidence.columns.quasi:
        if not isinstance(pair, LocationPair):
            continue
        distances = distances_km(pair, evidence.pairs)
        distances = distances[~np.isnan(distances)]
        if not len(distances):
            continue
        median, high = (float(np.percentile(distances, q)) for q in (50, 95))
        if high <= FAR_KM:
            continue
        n_far = int((distances > FAR_KM).sum())
        weight = pair.column.weight
        yield Observation(
            f"{count(n_far, 'record')} ({percent(n_far / len(distances))}) moved more than "
            f"{FAR_KM:g} km in {pair.column.name!r}; the median is {median:,.1f} km, one in twenty "
            f"moved more than {high:,.0f} km.",
            f"[columns.{pair.column.name}] weight = {4 * weight:g}, or -k "
            f"{max(2, case.smallest // 2)}; in thinly populated areas no weight brings k people "
            "closer together",
            {"median_km": median, "p95_km": high, "limit_km": FAR_KM, "records": n_far},
            (pair.column.name,),
        )


@rule(
    "utility.dominated_cells",
    severity="warning",
    title="One member dominates the representative of a cell",
    meaning="With sampling weights or several rows per person, one member has more than half of "
    "the weight of its class, and the dominance rule of the schema allows it: the published mean "
    "is close to that person's value.",
    advice="Set `dominance = [1, 0.5]` in the schema, or `--dominance 1,0.5`.",
)
def dominated_cells(case: Case) -> Iterator[Observation]:
    evidence = case.evidence
    schema = evidence.schema
    persons = evidence.persons
    if evidence.pairs is None or (schema.weight is None and persons is None):
        return
    n, p = schema.dominance
    if p <= _DOMINANT * (1 + _SLACK):
        return  # The rule has capped such weights.
    weights, classes = evidence.columns.weights, evidence.classes
    totals = np.bincount(classes, weights=weights)
    largest = np.zeros(len(totals))
    if persons is not None:
        members = combine(classes, persons)
        weights = np.bincount(members, weights=weights)[members].astype(np.float64)
    np.maximum.at(largest, classes, weights)
    shares = np.minimum(largest / np.where(totals > 0, totals, 1.0), p if n == 1 else 1.0)
    n_dominated = int((shares > _DOMINANT * (1 + _SLACK)).sum())
    if n_dominated:
        yield Observation(
            f"In {count(n_dominated, 'class', 'classes')} of {len(totals):,} one {case.noun} has "
            f"more than half of the weight (at most {percent(float(shares.max()))}), so the "
            f"published value is close to that of this {case.noun}.",
            "dominance = [1, 0.5] in the schema (--dominance 1,0.5)",
            {"classes": n_dominated, "largest_share": float(shares.max())},
            () if schema.weight is None else (schema.weight,),
        )


@rule(
    "data.amounts_as_text",
    severity="warning",
    title="Amounts are stored as text",
    meaning="A column has numbers with currency signs, units or thousands separators, so it was "
    "read as text. Each amount counts as a category of its own: it cannot be averaged, and an "
    "exact amount that is published unchanged may identify people.",
    advice="Read the file with `--thousands` or `--decimal`, or remove signs, so that the column "
    "is numeric.",
    published_only=True,
)
def amounts_as_text(case: Case) -> Iterator[Observation]:
    released, schema = case.evidence.released, case.evidence.schema
    kinds = {column.name: column.kind for column in (*schema.quasi, *schema.confidential)}
    for name, values in released.columns.items():
        if values.storage != "text" or kinds.get(name) in ("code", "ordinal", "numeric"):
            continue
        used = np.unique(values.data[~values.missing])
        texts = [values.categories[code] for code in used.tolist()]
        amounts = [text for text in texts if _AMOUNT.fullmatch(text)]
        codes = [text for text in amounts if _CODE.fullmatch(text)]
        if len(texts) < 3 or len(amounts) < _MOSTLY * len(texts) or len(codes) > len(amounts) / 2:
            continue
        rows = int(np.isin(values.data[~values.missing], used).sum())
        yield Observation(
            f"{name!r} has amounts stored as text ({len(amounts):,} of {len(texts):,} distinct "
            "values): each counts as a category of its own.",
            f"Read the file with --thousands (or --decimal), or remove signs from {name!r}, so "
            "that the column is numeric",
            {"amounts": len(amounts), "distinct": len(texts), "records": rows},
            (name,),
        )
