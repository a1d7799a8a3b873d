"""Columns of random tables, and the values in them."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

import microcell as mc

__all__ = [
    "TAME_TEXTS",
    "UNCHANGED",
    "Field",
    "booleans",
    "dates",
    "datetimes",
    "floats",
    "is_missing",
    "many_texts",
    "nasty_texts",
    "singles",
    "small_integers",
    "token",
    "with_missing",
]

Maker = Callable[[random.Random, int], list[Any]]

_LETTERS = "bcdfghjklmnpqrstvwxz"


@dataclass(frozen=True)
class Field:
    """A column: its role, the type of its values, and the values (None where missing)."""

    name: str
    role: str
    type: str
    values: Sequence[Any]
    column: mc.Column | None = None

    def take(self, rows: Sequence[int]) -> "Field":
        """Return the field with these rows."""
        return replace(self, values=[self.values[row] for row in rows])


def is_missing(value: Any) -> bool:
    """Return True for None and NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def token(rng: random.Random, start: str) -> str:
    """Return a text that appears nowhere by accident."""
    return start + "".join(rng.choices(_LETTERS, k=10))


_NASTY_TEXTS = (
    *("a ", " a", "  ", "a\tb", "a,b", "a;b", 'a"b', '"a"', "'a'", "''", "a\nb", "a\r\nb", "\r"),
    *("NA", "null", "None", "nan", "NaN", "inf", "-", "--", "TRUE", "false", "N/A", "#N/A"),
    *("1", "1.0", "007", "1e5", "0x10", "1,5", "-5", "+5", "1_000", "٣", "2020-01-01", "12:30"),
    *("=1+1", "+1+1", "-1+1", "@a", "\ta", "\ra", "'=1+1", "''=1", "=", "@", "'", "'-5"),
    *("\ufeff", "\ufeffa", "é", "e\u0301", "日本", "😀", "\u202eabc", "\u200b", "a\u2028b", "\x7f"),
    *("a\0", "b\0x", "\0", "\x01", "\x1b[0m", "_x0041_", "<a>&amp;", "]]>", "\ufffe", "\ud7ff"),
    *("", "#", "#comment", "\\", "\\n", "\\N", "{", "[1]", "x" * 300, "é" * 130, " \u00a0"),
)
TAME_TEXTS = ("alpha", "beta", "gamma", "delta", "a b", "ö", "A-1", "x_y")


def nasty_texts(rng: random.Random, n: int) -> list[Any]:
    pool = rng.sample(_NASTY_TEXTS, rng.randint(1, 6)) + rng.sample(TAME_TEXTS, rng.randint(0, 3))
    return rng.choices(pool, k=n)


def _tame_texts(rng: random.Random, n: int) -> list[Any]:
    return rng.choices(rng.sample(TAME_TEXTS, rng.randint(1, 5)), k=n)


def many_texts(rng: random.Random, n: int) -> list[Any]:
    return [f"v{row}-{rng.randrange(10**6)}" for row in range(n)]


def small_integers(rng: random.Random, n: int) -> list[Any]:
    low = rng.choice([-3, 0, 18, 10**6])
    width = rng.choice([0, 1, 5, 80])
    return [rng.randint(low, low + width) for _ in range(n)]


def _large_integers(rng: random.Random, n: int) -> list[Any]:
    edges = [0, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**62 + 1]
    return [rng.choice(edges) for _ in range(n)]


def floats(rng: random.Random, n: int) -> list[Any]:
    digits = rng.choice([0, 1, 2, 17])
    scale = 10.0 ** rng.choice([-5, 0, 0, 0, 3, 9])
    return [round(rng.gauss(0, 1) * scale, digits) for _ in range(n)]


def _nasty_floats(rng: random.Random, n: int) -> list[Any]:
    pool = [0.0, -0.0, 0.1, 1 / 3, 5e-324, 2.2e-308, 1e-100, 1e16, 1e22, 1.7e308, -1e300, 123456.7]
    if rng.random() < 0.2:
        pool += [math.inf, -math.inf]
    return [rng.choice(pool) for _ in range(n)]


def singles(rng: random.Random, n: int) -> list[Any]:
    return [rng.choice([0.5, 0.1, 1e-30, 3e38, 16777217.0, rng.gauss(0, 1)]) for _ in range(n)]


def booleans(rng: random.Random, n: int) -> list[Any]:
    return [rng.random() < 0.4 for _ in range(n)]


def dates(rng: random.Random, n: int) -> list[Any]:
    first = rng.choice([date(1950, 1, 1), date(2020, 2, 27), date(1899, 12, 20), date(1600, 1, 1)])
    return [first + timedelta(days=rng.randint(0, rng.choice([1, 400, 20_000]))) for _ in range(n)]


def _recent_dates(rng: random.Random, n: int) -> list[Any]:
    return [date(2000, 1, 1) + timedelta(days=rng.randrange(999)) for _ in range(n)]


def datetimes(rng: random.Random, n: int) -> list[Any]:
    step = rng.choice([86_400_000_000, 1_000_000, 1_000, 1])
    start = datetime(rng.choice([1925, 1970, 2024]), 5, 1)
    return [start + timedelta(microseconds=step * rng.randint(0, 10**5)) for _ in range(n)]


UNCHANGED: dict[str, tuple[tuple[str, Maker], ...]] = {
    "nasty": (
        ("text", nasty_texts),
        ("text", nasty_texts),
        ("integer", _large_integers),
        ("float", _nasty_floats),
        ("single", singles),
        ("date", dates),
        ("datetime", datetimes),
    ),
    "tame": (
        ("text", _tame_texts),
        ("text", many_texts),
        ("integer", small_integers),
        ("float", floats),
        ("boolean", booleans),
        ("date", _recent_dates),
    ),
}


def with_missing(rng: random.Random, values: list[Any], share: float) -> list[Any]:
    return [None if rng.random() < share else value for value in values]
