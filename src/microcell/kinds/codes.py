"""Codes such as postal codes: the longer the common prefix, the closer two codes are.

They are published as the common prefix of each cell, padded with asterisks.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from os.path import commonprefix
from typing import ClassVar

import numpy as np

from microcell.errors import SchemaError
from microcell.kernels.arrays import Floats, Integers
from microcell.kinds.base import Reading, register
from microcell.kinds.column import Column, EncodedColumn, Layout
from microcell.kinds.groups import Groups
from microcell.kinds.losses import Loss, code_loss
from microcell.kinds.names import (
    CategoricalKind,
    CategoryPair,
    fit_places,
    place_names,
    round_places,
)
from microcell.kinds.pairs import (
    HISTOGRAM_CATEGORIES,
    Categories,
    ColumnPair,
    ColumnPoints,
    Histogram,
    Quantity,
    count_names,
    line_points,
    read_categories,
)
from microcell.kinds.values import Representatives, Storage, Values

__all__ = ["CodeKind", "shared_length"]

_BASE = 10.0
"""Factor on the gap between neighbouring codes per character less in their common prefix."""


@register
class CodeKind(CategoricalKind):
    """Codes in which earlier characters matter more."""

    name = "code"
    representatives: ClassVar[tuple[str, ...]] = ("prefix",)
    layout: ClassVar[Layout] = "places"
    storages: ClassVar[tuple[Storage, ...]] = ("integer", "float", "text", "empty")
    can_be_confidential = False
    matches_by_prefix = True

    def check_values(self, name: str, values: Values) -> None:
        if values.is_time or values.storage == "boolean":
            suggestion = "datetime" if values.is_time else "nominal"
            raise SchemaError(
                f"Column {name!r} is declared code but contains {values.storage} values. "
                f"Declare it {suggestion}.",
                code="schema.wrong_kind",
                column=name,
                kind=self.name,
            )

    def fit(self, blank: EncodedColumn, column: Column, reading: Reading) -> EncodedColumn:
        order = sorted(range(len(reading.names)), key=reading.names.__getitem__)
        names = tuple(reading.names[code] for code in order)
        rank = np.empty(len(names), dtype=np.int64)
        rank[order] = np.arange(len(names))
        ranks = rank[reading.codes[~reading.missing]]
        counts = np.bincount(ranks, minlength=len(names))
        return fit_places(replace(blank, names=names, counts=counts), _places(names), ranks)

    def round_fit(self, fitted: EncodedColumn) -> EncodedColumn:
        return round_places(fitted)

    def place(self, fitted: EncodedColumn, reading: Reading, out: Floats) -> int:
        return place_names(fitted, reading, out, _by_prefix)

    def loss(
        self,
        column: Column,
        before: Integers,
        after: Integers,
        weights: Floats,
        *,
        names: Sequence[str],
    ) -> Loss:
        return code_loss(before, after, weights, names=names)

    def represent(
        self, column: Column, values: Sequence[Values], groups: Groups
    ) -> list[Representatives]:
        codes, names = values[0].factorize()
        _, missing = groups.totals(values[0].missing)
        by_name = sorted(range(len(names)), key=names.__getitem__)
        rank = np.zeros(len(names) + 1, dtype=np.int64)
        rank[by_name] = np.arange(len(names))
        length = np.array([*map(len, names), 0], dtype=np.int64)
        # The common prefix of all names is that of the first and the last in sorted order.
        first, last = groups.extremes(rank[codes], codes < 0)
        _, longest = groups.extremes(length[codes], codes < 0)
        ordered = [names[code] for code in by_name] or [""]
        texts = [
            commonprefix([ordered[a], ordered[b]]).ljust(int(n), "*")
            for a, b, n in zip(first.tolist(), last.tolist(), longest.tolist(), strict=True)
        ]
        return [Representatives("text", np.array(texts, dtype=object), missing)]

    def pair(
        self, column: Column, original: Sequence[Values], released: Sequence[Values]
    ) -> ColumnPair:
        return _CodePair(column, self, read_categories(column.name, original[0], released[0]))

    def _name_problems(self, fitted: EncodedColumn) -> Iterator[str]:
        yield from super()._name_problems(fitted)
        names = [name for name in fitted.names if name is not None]
        if any(before > after for before, after in pairwise(names)):
            yield "'names' must be sorted"


class _CodePair(CategoryPair):
    """Codes; models use their ranks among the original's sorted codes."""

    @property
    def categories(self) -> Categories | None:
        return None

    def quantities(self, rows: Integers) -> Iterator[Quantity]:
        before, after = self._ranks()
        yield Quantity(self.column.name, True, before[rows], after)

    def histograms(self) -> Iterator[Histogram]:
        """Compare codes by the longest prefix that gives at most 12 groups."""
        reading = self.reading
        seen = self._original_names()
        longest = max(map(len, seen), default=0)
        length = next(
            (
                n
                for n in range(longest, 0, -1)
                if len({text[:n] for text in seen}) <= HISTOGRAM_CATEGORIES
            ),
            1,
        )
        short = [_shorten(text, length) for text in reading.names]
        position = {text: i for i, text in enumerate(dict.fromkeys(short))}
        codes = np.array([*(position[text] for text in short), -1], dtype=np.int64)
        shortened = Categories(codes[reading.before], codes[reading.after], tuple(position))
        return count_names(self.column.name, shortened, sorted(position))

    def points(self) -> ColumnPoints:
        return line_points(*self._ranks())

    def _original_names(self) -> list[str]:
        codes = np.unique(self.reading.before[self.reading.before >= 0])
        return [self.reading.names[code] for code in codes.tolist()]

    def _ranks(self) -> tuple[Floats, Floats]:
        """Return ranks among the original's codes; a prefix gets the middle rank of its codes."""
        codes = sorted(self._original_names())
        ranks = np.array([*(_middle_rank(name, codes) for name in self.reading.names), np.nan])
        return ranks[self.reading.before], ranks[self.reading.after]


def shared_length(one: str, other: str) -> int:
    """Return the length of the common prefix.

    Examples
    --------
    >>> shared_length("94110", "94200")
    2
    """
    return len(commonprefix([one, other]))


def _places(names: Sequence[str]) -> Floats:
    """Place the sorted codes on a line; neighbours that differ early are far apart."""
    longest = max(map(len, names), default=0)
    places = np.zeros(len(names))
    place = 0.0
    for i, (before, after) in enumerate(pairwise(names), start=1):
        place += _BASE ** min(longest - shared_length(before, after), 100)
        places[i] = place
    return places


def _by_prefix(fitted: EncodedColumn, names: Sequence[str]) -> list[float]:
    """Place each name at the known code with the longest common prefix, or the first of several."""
    codes = [str(name) for name in fitted.names]
    if not codes:
        return [0.0] * len(names)
    return [float(fitted.places[_nearest(codes, name)]) for name in names]


def _nearest(codes: list[str], name: str) -> int:
    # The codes with the longest common prefix are next to the position in sorted order.
    position = bisect_left(codes, name)
    neighbours = codes[max(position - 1, 0) : position + 1]
    shared = max(shared_length(name, other) for other in neighbours)
    return bisect_left(codes, name[:shared])


def _shorten(code: str, length: int) -> str:
    return code[:length].rstrip("*").ljust(len(code), "*")


def _middle_rank(name: str, codes: Sequence[str]) -> float:
    """Return the rank of a code, or the middle rank of those with its prefix; NaN if none."""
    position = bisect_left(codes, name)
    if codes[position : position + 1] == [name]:
        return float(position)
    prefix = name.rstrip("*")
    first = bisect_left(codes, prefix)
    last = bisect_left(codes, prefix + "\U0010ffff")
    return (first + last - 1) / 2 if first < last else np.nan
