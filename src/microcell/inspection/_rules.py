"""The rules that draft a role and a kind from clues, in tables: the first with an opinion is taken; and remarks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from microcell.inspection._clues import Clues, spell
from microcell.inspection._vocabulary import (
    CATEGORICAL,
    DEGREES,
    ENDING,
    EXPRESSIONS,
    IDENTIFYING,
    KNOWN,
    LOOSELY,
    NUMBERED,
    SENSITIVE,
    WEIGHTS,
)

__all__ = ["KIND_RULES", "ROLE_RULES", "Guess", "Role", "first_guess", "named", "remarks"]

Role = Literal["identifier", "quasi", "confidential", "weight", "drop"]

_FEW = 10  # in fewer rows, values that all differ tell nothing


@dataclass(frozen=True)
class Guess:
    """A role or kind, why, and the order of an ordinal column."""

    what: Any
    why: str
    order: tuple[str, ...] | None = None


Rule = Callable[[Clues], Guess | None]


def named(clues: Clues, hints: Iterable[str]) -> str | None:
    return next((meaning for meaning in hints if EXPRESSIONS[meaning].search(clues.spelled)), None)


def _by_name(role: Role, hints: Iterable[str], test: Callable[[Clues], bool] | None = None) -> Rule:
    def rule(clues: Clues) -> Guess | None:
        meaning = named(clues, hints)
        return Guess(role, f"named like {meaning}") if meaning and (test is None or test(clues)) else None

    return rule


def _is_prose(clues: Clues) -> bool:
    """True for text that is not numbers with some words for missing or signs between thousands, nor dates."""
    return clues.values.storage == "text" and not (clues.strangers or clues.separator or clues.dates)


def _all_differ(clues: Clues) -> bool:
    return clues.distinct == len(clues.present) >= _FEW and (clues.whole or clues.values.storage == "text")


def _identifier_if_mail(clues: Clues) -> Guess | None:
    mail = clues.words and all("@" in word for word in clues.words)
    return Guess("identifier", "text that looks like mail addresses") if mail else None


def _identifier_if_distinct_text(clues: Clues) -> Guess | None:
    rows = len(clues.present)
    if not _is_prose(clues) or rows < _FEW or clues.distinct < 0.9 * rows:
        return None
    every = "every value differs" if clues.distinct == rows else "nearly every value differs"
    return Guess("identifier", f"{every} and it is text: names a person")


def _identifier_if_sequence(clues: Clues) -> Guess | None:
    rows, (low, high) = len(clues.present), clues.used[[0, -1]].tolist()
    sequence = clues.whole and clues.distinct == rows >= _FEW and high - low == rows - 1
    return Guess("identifier", "whole numbers in sequence: numbers the records") if sequence else None


def _identifier_if_nearly_unique(clues: Clues) -> Guess | None:
    if not (clues.nearly_unique and _is_prose(clues)) or first_guess(KIND_RULES, clues).what != "nominal":
        return None
    counts = f"{_distinct_values(clues)} in {len(clues.present)} records"
    return Guess("identifier", f"text that hardly repeats, {counts}: may name a person")


def _quasi_in_doubt(clues: Clues) -> Guess:
    differs = "; every value differs, so it may be an identifier" if clues.distinct == len(clues.present) > 1 else ""
    return Guess("quasi", f"nothing tells its role, so the safe side: what an outsider may know{differs}")


# The first rule with an opinion is taken; the last one always has one.
ROLE_RULES: tuple[Rule, ...] = (
    _by_name("identifier", IDENTIFYING),
    _identifier_if_mail,
    _by_name("weight", WEIGHTS, lambda clues: clues.within(5e-324, np.finfo(np.float64).max)),
    _by_name("quasi", KNOWN),
    _identifier_if_distinct_text,
    _identifier_if_sequence,
    _by_name("confidential", SENSITIVE),
    _by_name("identifier", LOOSELY, lambda clues: clues.distinct > len(clues.present) / 2),
    _by_name("identifier", ENDING, _all_differ),
    _identifier_if_nearly_unique,
    _quasi_in_doubt,
)


def _datetime_if_time(clues: Clues) -> Guess | None:
    return Guess("datetime", f"a {clues.values.storage}") if clues.values.is_time else None


def _ordinal_if_declared(clues: Clues) -> Guess | None:
    return Guess("ordinal", "its categories have an order", clues.values.categories) if clues.values.ordered else None


def _ordinal_if_scale(clues: Clues) -> Guess | None:
    if clues.values.storage != "text" or not 2 <= clues.distinct <= 30:
        return None
    spelled = {word: spell(word) for word in clues.words}
    numbered = {text: int(found[1]) for text in spelled.values() if (found := NUMBERED.fullmatch(text))}
    for degrees in (*DEGREES, numbered):
        if all(text in degrees for text in spelled.values()):
            order = tuple(sorted(spelled, key=lambda word, degrees=degrees: degrees[spelled[word]]))  # type: ignore[misc]
            return Guess("ordinal", "words of a well-known scale; check the order", order)
    return None


def _code_if_digits(clues: Clues) -> Guess | None:
    lengths = {len(word) for word in clues.words}
    if len(lengths) == 1 and lengths != {1} and all(word.isdigit() for word in clues.words):
        return Guess("code", "text of equal length made of digits")
    if not named(clues, ["a postal code"]) or not (clues.words or (clues.whole and clues.within(1000, 1e10))):
        return None
    return Guess("code", "text" if clues.words else "whole numbers, leading zeros perhaps lost")


def _nominal_if_categories(clues: Clues) -> Guess | None:
    if clues.values.storage == "boolean":
        return Guess("nominal", "true or false")
    if clues.whole and clues.distinct <= 50 and named(clues, CATEGORICAL):
        return Guess("nominal", f"{clues.distinct} whole numbers that stand for categories")
    if clues.values.storage == "text" or (clues.whole and clues.distinct == 2):
        return Guess("nominal", _distinct_values(clues))
    return None


def _ordinal_if_grades(clues: Clues) -> Guess | None:
    few = clues.whole and 3 <= clues.distinct <= 7 and clues.within(0, 10) and not named(clues, ["an age or birth"])
    return Guess("ordinal", "a few whole-number grades") if few else None


KIND_RULES: tuple[Rule, ...] = (
    _datetime_if_time,
    _ordinal_if_declared,
    _ordinal_if_scale,
    _code_if_digits,
    _nominal_if_categories,
    _ordinal_if_grades,
    lambda clues: Guess("numeric", f"numbers with {_distinct_values(clues)}"),
)


def remarks(clues: Clues) -> Iterator[str]:
    """What a person should know of a column that is kept as text."""
    if clues.separator:
        decimal = ", decimal=','" if clues.separator == "." else ""
        yield (
            f"numbers with {clues.separator!r} between thousands: take it out, or read the file with pandas.read_csv("
            f"..., thousands={clues.separator!r}{decimal})"
        )
    if clues.strangers:
        yield f"numbers but for {_counted(clues.strangers, 'value')}: perhaps words for missing, see --na"
    elif clues.dates:
        yield _date_remark(clues)
    elif clues.nearly_unique and not clues.separator:
        yield f"hardly repeats in {len(clues.present)} records"


def _date_remark(clues: Clues) -> str:
    if clues.dates == "either way":
        return "looks like dates day/month/year that could be read either way: write them as YYYY-MM-DD"
    if not clues.undated:
        return "looks like dates, but is text: convert it to dates, or write them as YYYY-MM-DD"
    return (
        f"looks like dates, but is text because of {_counted(clues.undated, 'value')} not read as a date: write all as "
        "YYYY-MM-DD, or see --na"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _distinct_values(clues: Clues) -> str:
    return _counted(clues.distinct, "distinct value")


def first_guess(rules: Iterable[Rule], clues: Clues) -> Guess:
    return next(guess for rule in rules if (guess := rule(clues)))
