"""Options for reading files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from microcell.errors import OptionError

__all__ = ["THOUSANDS", "ReadOptions"]

THOUSANDS = (".", ",", " ", "'")
"""Thousands separators."""


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a file; None means that an option is detected automatically.

    ``na`` lists the texts that mark a missing value, ``skip_rows`` counts the rows above the column
    names, and ``sheet`` is the name or the number (from 1) of a sheet. ``thousands=""`` recognizes
    no separators.
    """

    delimiter: str | None = None
    encoding: str | None = None
    quote: str | None = None
    decimal: str | None = None
    na: Sequence[str] = ()
    thousands: str | None = None
    sheet: str | int | None = None
    skip_rows: int = 0

    def __post_init__(self) -> None:
        _check_character("delimiter", self.delimiter, empty_allowed=False)
        _check_character("quote", self.quote, empty_allowed=True)
        if self.delimiter is not None and self.delimiter == self.quote:
            raise OptionError(
                "delimiter and quote must be different characters.",
                code="option.conflict",
                option="delimiter",
            )
        if self.decimal not in (None, ".", ","):
            raise OptionError(
                "decimal must be '.' or ','.",
                code="option.invalid",
                option="decimal",
            )
        if isinstance(self.na, str) or not all(isinstance(word, str) for word in self.na):
            raise OptionError(
                "na must be a list of texts that mark a missing value, for example ['NA', '-'].",
                code="option.wrong_type",
                option="na",
            )
        object.__setattr__(self, "na", tuple(self.na))
        self._check_thousands()
        _check_whole("skip_rows", self.skip_rows, 0)
        if not isinstance(self.sheet, str) and self.sheet is not None:
            _check_whole("sheet", self.sheet, 1)

    def _check_thousands(self) -> None:
        if not self.thousands:
            return
        if self.thousands not in THOUSANDS:
            raise OptionError(
                "thousands must be one of '.', ',', ' ' and \"'\".",
                code="option.invalid",
                option="thousands",
            )
        if self.thousands == self.decimal:
            raise OptionError(
                "thousands and decimal must be different characters.",
                code="option.conflict",
                option="thousands",
            )

    def used(self) -> Mapping[str, Any]:
        """Return the options that differ from their defaults, as plain data.

        Examples
        --------
        >>> ReadOptions(delimiter=";", na=["-"]).used()
        {'delimiter': ';', 'na': ['-']}
        """
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value != getattr(ReadOptions, name)
        }


def _check_whole(option: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(
            f"{option} must be a whole number of at least {least}"
            f"{', or the name of a sheet' if option == 'sheet' else ''}.",
            code="option.invalid",
            option=option,
        )


def _check_character(option: str, value: str | None, *, empty_allowed: bool) -> None:
    if value is None or (empty_allowed and value == ""):
        return
    if not (
        isinstance(value, str) and len(value) == 1 and value.isascii() and value not in "\r\n\0"
    ):
        empty = ", or '' for none" if empty_allowed else ""
        raise OptionError(
            f"{option} must be one ASCII character{empty}.",
            code="option.invalid",
            option=option,
        )
