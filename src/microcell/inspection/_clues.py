"""What can be told of a column: its name in plain words, its distinct values, their shape."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from time import strptime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from microcell.model import Values

__all__ = ["Clues", "spell"]

_LOOKED_AT = 1000  # so many categories of a text column are looked at for their shape
_FEW_WORDS = 5
_MANY = 50
_ISO = len("YYYY-MM-DD")
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?\s*")
_THOUSANDS = {",": "[.]", "'": "[.,]", ".": ",", " ": "[.,]"}  # signs between thousands, and those before decimals
_CERTAIN = (",", "'")  # between groups of digits without decimals, other signs may be those of a code
_GROUPED = {
    sign: re.compile(
        rf"\s*[+-]?(?:[0-9]{{1,3}}(?P<groups>(?:{re.escape(sign)}[0-9]{{3}})+)|[0-9]+)(?P<decimals>{point}[0-9]+)?\s*"
    )
    for sign, point in _THOUSANDS.items()
}
# A point is written between day and month in this order only.
_DATE = re.compile(
    r"\s*(?:(?P<first>[0-9]{1,2})(?P<sign>[/-])(?P<second>[0-9]{1,2})(?P=sign)[0-9]{4}"
    r"|[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}|[0-9]{4}([/-])[0-9]{1,2}\4[0-9]{1,2})\s*"
)
_DATE_FORMS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")


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
    def strangers(self) -> int:
        """How many values of a text column are a few words among numbers; 0 if it does not hold numbers mostly."""
        number = _GROUPED[self.separator] if self.separator else _NUMBER
        if not self._mostly(number):
            return 0
        strange = [code for code in self.used.tolist() if not number.fullmatch(self.values.categories[code])]
        many = self._count(strange)
        return many if len(strange) <= _FEW_WORDS and 2 * many <= len(self.present) else 0

    @cached_property
    def separator(self) -> str | None:
        """The sign between the thousands of a text column's numbers; None if it does not hold such numbers mostly."""
        return next((sign for sign in _GROUPED if self._is_grouped(sign)), None)

    @cached_property
    def dates(self) -> Literal["certain", "either way"] | None:
        """Whether a text column holds dates mostly, and if so, whether day and month can be told apart."""
        if not self._mostly(_DATE):
            return None
        found = [_DATE.fullmatch(word) for word in self.words]
        numbers = [int(match[part] or 0) for match in found if match for part in ("first", "second")]
        return "either way" if all(1 <= number <= 12 for number in numbers) else "certain"

    @cached_property
    def undated(self) -> int:
        """How many values of a text column of dates are not of the form that most of them have, or no day there is."""
        form = max(_DATE_FORMS, key=lambda form: sum(_is_day(word, form) for word in self.words))
        return self._count([code for code in self.used.tolist() if not _is_day(self.values.categories[code], form)])

    @property
    def nearly_unique(self) -> bool:
        """True for text of many values, of which more than half of the records have their own."""
        return self.values.storage == "text" and self.distinct >= _MANY and 2 * self.distinct > len(self.present)

    @cached_property
    def whole(self) -> bool:
        """True for numbers without a fraction."""
        return self.values.is_number and bool((self.used == np.floor(self.used)).all())

    def within(self, low: float, high: float) -> bool:
        """True for numbers from ``low`` to ``high``."""
        return self.values.is_number and self.distinct > 0 and bool(low <= self.used[0] and self.used[-1] <= high)

    def _mostly(self, pattern: re.Pattern[str]) -> bool:
        """True for a text column of such words, but for a few."""
        odd = sum(pattern.fullmatch(word) is None for word in self.words)
        return odd <= _FEW_WORDS and 2 * odd < len(self.words)

    def _is_grouped(self, sign: str) -> bool:
        found = {word: _GROUPED[sign].fullmatch(word) for word in self.words}
        # A number that the sign does not group, such as 1,5, tells that it stands before decimals.
        if not self._mostly(_GROUPED[sign]) or any(_NUMBER.fullmatch(word) for word in found if not found[word]):
            return False
        grouped = [match for match in found.values() if match and match["groups"]]
        return any(match["decimals"] or sign in _CERTAIN for match in grouped)

    def _count(self, codes: list[int]) -> int:
        """The number of values that are these categories."""
        return int(np.bincount(self.present.astype(np.int64))[codes].sum())


def _is_day(text: str, form: str) -> bool:
    """True if the text is read as a date of that form."""
    try:
        strptime(text.strip(), form)
    except ValueError:
        return False
    return form != "%Y-%m-%d" or len(text.strip()) == _ISO


def spell(text: str) -> str:
    """The words of a name or category, in plain small letters, apart by one blank: "NoteÄrztin_2" is note arztin 2."""
    apart = re.sub(r"(?<=[a-zß-ÿ0-9])(?=[A-ZÀ-Þ])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    letters = (letter for letter in unicodedata.normalize("NFKD", apart) if not unicodedata.combining(letter))
    return " ".join(re.findall(r"[^\W\d_]+|\d+", "".join(letters).casefold()))
