"""What can be told of a column: its name in plain words, its distinct values, their shape."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microcell.model import Values

__all__ = ["Clues", "spell"]

_LOOKED_AT = 1000  # so many categories of a text column are looked at for their shape


@dataclass(frozen=True)
class Clues:
    """A column and what can be told of it; found out when first asked for."""

    name: str
    values: Values

    @cached_property
    def spelled(self) -> str:
        return spell(self.name)

    @cached_property
    def present(self) -> NDArray[Any]:
        missing = self.values.missing
        return self.values.data[~missing] if missing.any() else self.values.data

    @cached_property
    def used(self) -> NDArray[Any]:
        """The distinct values, or codes of them."""
        if self.values.storage in ("text", "boolean"):
            return np.flatnonzero(np.bincount(self.present.astype(np.int64)))
        # Counting makes NumPy sort, which is ten times as fast here as its hashing.
        return np.unique(self.present, return_counts=True)[0]

    @property
    def distinct(self) -> int:
        return len(self.used)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Some of the categories that occur in a text column, evenly taken; all if they are few."""
        some = self.used[:: self.distinct // _LOOKED_AT + 1].tolist() if self.values.storage == "text" else ()
        return tuple(self.values.categories[code] for code in some)

    @cached_property
    def whole(self) -> bool:
        """True for numbers without a fraction."""
        return self.values.is_number and bool((self.used == np.floor(self.used)).all())

    def within(self, low: float, high: float) -> bool:
        """True for numbers from ``low`` to ``high``."""
        return self.values.is_number and self.distinct > 0 and bool(low <= self.used[0] and self.used[-1] <= high)


def spell(text: str) -> str:
    """The words of a name or category, in plain small letters, apart by one blank: "NoteÄrztin_2" is note arztin 2."""
    apart = re.sub(r"(?<=[a-zß-ÿ0-9])(?=[A-ZÀ-Þ])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    letters = (letter for letter in unicodedata.normalize("NFKD", apart) if not unicodedata.combining(letter))
    return " ".join(re.findall(r"[^\W\d_]+|\d+", "".join(letters).casefold()))
