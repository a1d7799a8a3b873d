"""Dates and times: counts of a unit, encoded like numbers and published as means."""

from collections.abc import Iterator
from typing import ClassVar

from microcell.errors import SchemaError
from microcell.kinds.encoded import EncodedColumn
from microcell.kinds.numeric import NumericKind
from microcell.kinds.values import TIME_STORAGES, Storage, Values

__all__ = ["DatetimeKind"]


class DatetimeKind(NumericKind):
    """Dates, datetimes, durations and times of day."""

    name = "datetime"
    representatives: ClassVar[tuple[str, ...]] = ("mean",)
    storages: ClassVar[tuple[Storage, ...]] = TIME_STORAGES
    default_for: ClassVar[tuple[Storage, ...]] = TIME_STORAGES
    only_numbers = False

    def check_values(self, name: str, values: Values) -> None:
        if not values.is_time:
            raise SchemaError(
                f"Column {name!r} is declared datetime but contains {values.storage} values. "
                "Write dates as YYYY-MM-DD, or declare another kind.",
                code="schema.wrong_kind",
                column=name,
                kind=self.name,
            )

    def problems(self, fitted: EncodedColumn) -> Iterator[str]:
        yield from super().problems(fitted)
        if not isinstance(fitted.origin, int):
            yield "'origin' must be an integer for dates"
