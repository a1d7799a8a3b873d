"""Findings about what the published table is still good for."""

import re
from collections.abc import Iterator

import numpy as np

from microcell._display import count
from microcell.findings.registry import Case, Found, percent, rule
from microcell.kernels.arrays import count_distinct
from microcell.kinds.location import LocationPair
from microcell.measures.evidence import Evidence
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
"""Up to this share of imputed values the finding is only a note."""

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
def k_too_large(case: Case) -> Iterator[Found]:
    people = int(case.evidence.class_people.sum())
    if case.k is not None and len(case.evidence.class_sizes) == 1 and 2 * case.k > people:
        yield Found(
            f"k = {case.k:,} is more than half of the {count(people, case.noun)}, so all of them "
            "share one class and the quasi-identifiers no longer tell anything.",
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
def one_class(case: Case) -> Iterator[Found]:
    evidence = case.evidence
    people = int(evidence.class_people.sum())
    if len(evidence.class_sizes) != 1 or (case.k is not None and 2 * case.k > people):
        return
    if evidence.pairs is not None and not any(loss.loss.baseline for loss in evidence.losses):
        return  # The original has only one combination, too.
    yield Found(
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
    "most analyses of the release will not find what is in the original.",
    advice="Choose a smaller k, `--effort best`, a milder requirement, or drop the "
    "quasi-identifiers that nobody needs, above all long codes and exact dates.",
)
def high_information_loss(case: Case) -> Iterator[Found]:
    evidence = case.evidence
    if evidence.pairs is None or len(evidence.class_sizes) < 2:
        return
    loss = information_loss(evidence.losses)
    if loss <= _HALF:
        return
    by_column = sorted(evidence.losses, key=lambda item: -item.share)
    worst = [item for item in by_column if item.share > _HALF]
    listing = ", ".join(f"{item.column.name!r} {percent(item.share)}" for item in worst[:3])
    smaller = "" if case.smallest <= 2 else f"-k {max(2, case.smallest // 2)}, "
    first = worst[0].column.name if worst else by_column[0].column.name
    yield Found(
        f"The release loses {percent(loss)} of the information"
        f"{f'; most in {listing}' if listing else ''}.",
        f"{smaller}--effort best, milder limits of --require, or drop a column that nobody needs: "
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
def imputed_values(case: Case) -> Iterator[Found]:
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
    listing = ", ".join(f"{name!r} ({sum(counts):,})" for name, counts in by_column.items())
    yield Found(
        f"{count(imputed, 'missing value')} of {listing} "
        f"{'was' if imputed == 1 else 'were'} filled with the value of the cell; {left:,} "
        f"{'is' if left == 1 else 'are'} still missing.",
        "--missing drop (records with missing values are left out)",
        {"imputed": imputed, "still_missing": left},
        tuple(by_column),
        severity="note" if imputed + left <= _FEW_IMPUTED * n_values else None,
    )


# ------------------------------------------------------------------------------ categories


def people_by_category(codes: Integers, persons: Integers | None, n_codes: int) -> Integers:
    """Count the people with each category; missing categories do not count."""
    present = codes >= 0
    if persons is None:
        return np.bincount(codes[present], minlength=n_codes).astype(np.int64)
    out = np.zeros(n_codes, dtype=np.int64)
    counts = count_distinct(codes[present], persons[present])
    out[: len(counts)] = counts
    return out


def category_shares(column: NamedCategories, persons: Integers | None) -> tuple[CategoryShare, ...]:
    """Return what became of each category that occurs in the original, the smallest first."""
    n_codes = len(column.names)
    right = np.where(column.before == column.after, column.before, -1)
    before, kept, after = (
        people_by_category(codes, persons, n_codes)
        for codes in (column.before, right, column.after)
    )
    return tuple(
        CategoryShare(
            column.name, column.names[code], int(before[code]), int(kept[code]), int(after[code])
        )
        for code in np.argsort(before, kind="stable").tolist()
        if before[code]
    )


def all_categories(evidence: Evidence) -> tuple[CategoryShare, ...]:
    """Return what became of each category of the nominal quasi-identifiers."""
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
def categories_lost(case: Case) -> Iterator[Found]:
    evidence = case.evidence
    if evidence.pairs is None or len(evidence.class_sizes) < 2:
        return
    weights = {column.name: column.weight for column in evidence.schema.quasi}
    for column in evidence.columns.categories:
        if column.name not in weights:
            continue
        shares = category_shares(column, evidence.persons)
        vanished = [item for item in shares if not item.published]
        wrong = [item for item in shares if item.published and item.share < _HALF]
        lost = [*vanished, *wrong]
        if not lost:
            continue
        possible = [item for item in lost if item.people >= case.smallest]
        n_lost = sum(item.people - item.kept for item in lost)
        yield Found(
            f"{column.name!r}: {count(len(vanished), 'category', 'categories')} of "
            f"{len(shares):,} {'vanishes' if len(vanished) == 1 else 'vanish'} "
            f"({count(sum(item.people for item in vanished), case.noun)}) and {len(wrong):,} "
            f"{'is' if len(wrong) == 1 else 'are'} published wrongly for most of "
            f"{count(sum(item.people for item in wrong), case.noun)}.",
            _category_advice(column.name, weights[column.name], bool(possible), case.smallest),
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


def _category_advice(name: str, weight: float, possible: bool, k: int) -> str:
    below = (
        f"Categories of fewer than k = {k:,} people cannot be kept: combine them with similar ones "
        "in the original table"
    )
    if not possible:
        return f'{below}, or [columns.{name}] role = "drop"'
    return (
        f"[columns.{name}] weight = {4 * weight:g} (microcell explore --weights tries others), or "
        f'role = "strata". {below}'
    )


# ------------------------------------------------------------------------------ single columns


def distances_km(pair: LocationPair, rows: Integers) -> Floats:
    """Return the distance of each published location from the original one, NaN if missing."""
    chord = np.linalg.norm(pair.before[rows] - pair.after, axis=1)
    distances: Floats = 2 * _EARTH_KM * np.arcsin(np.clip(chord / 2, 0, 1))
    return distances


def moved_km(evidence: Evidence) -> dict[str, tuple[float, float]]:
    """Return the median and 95th percentile of the distances, for each location."""
    assert evidence.pairs is not None
    moved = {}
    for pair in evidence.columns.quasi:
        if isinstance(pair, LocationPair):
            distances = distances_km(pair, evidence.pairs)
            distances = distances[~np.isnan(distances)]
            if len(distances):
                median, high = np.percentile(distances, (50, 95)).tolist()
                moved[pair.column.name] = (median, high)
    return moved


@rule(
    "utility.location_moved",
    severity="warning",
    title="Locations moved far",
    meaning=f"One location in twenty is published more than {FAR_KM:g} km away from where it was.",
    advice="Give the location a larger `weight` in the schema, choose a smaller k, or publish "
    "regions (a nominal column) in place of coordinates.",
)
def locations_moved(case: Case) -> Iterator[Found]:
    evidence = case.evidence
    if evidence.pairs is None:
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
        yield Found(
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
    meaning="With sampling weights, one record has more than half of the weight of its class, and "
    "the dominance rule of the schema allows it: the published mean is close to that person's "
    "value.",
    advice="Set `dominance = [1, 0.5]` in the schema, or `--dominance 1,0.5`.",
)
def dominated_cells(case: Case) -> Iterator[Found]:
    evidence = case.evidence
    schema = evidence.schema
    if schema.weight is None or evidence.pairs is None:
        return
    n, p = schema.dominance
    if p <= _DOMINANT * (1 + _SLACK):
        return  # The rule has capped such weights.
    weights, classes = evidence.columns.weights, evidence.classes
    totals = np.bincount(classes, weights=weights)
    largest = np.zeros(len(totals))
    np.maximum.at(largest, classes, weights)
    shares = np.minimum(largest / np.where(totals > 0, totals, 1.0), p if n == 1 else 1.0)
    n_dominated = int((shares > _DOMINANT * (1 + _SLACK)).sum())
    if n_dominated:
        yield Found(
            f"In {count(n_dominated, 'class', 'classes')} of {len(totals):,} one record has more "
            f"than half of the weight (at most {percent(float(shares.max()))}), so the published "
            "value is close to its own.",
            "dominance = [1, 0.5] in the schema (--dominance 1,0.5)",
            {"classes": n_dominated, "largest_share": float(shares.max())},
            (schema.weight,),
        )


@rule(
    "data.amounts_as_text",
    severity="warning",
    title="Amounts are stored as text",
    meaning="A column has numbers with currency signs, units or thousands separators, so it was "
    "read as text. Each amount counts as a category of its own: it cannot be averaged, and an "
    "exact amount that is published unchanged may identify people.",
    advice="Remove signs and separators, or read the file with `--decimal`, so that the column is "
    "numeric.",
    published_only=True,
)
def amounts_as_text(case: Case) -> Iterator[Found]:
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
        yield Found(
            f"{name!r} has amounts stored as text ({len(amounts):,} of {len(texts):,} distinct "
            "values): each counts as a category of its own.",
            f"Remove currency signs and thousands separators from {name!r}, or read the file with "
            "--decimal, so that the column is numeric",
            {"amounts": len(amounts), "distinct": len(texts), "records": rows},
            (name,),
        )
