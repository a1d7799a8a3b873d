"""What a design is asked for: numbers, who takes part, and which columns count."""

from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np

from microcell.errors import DataError, OptionError, SchemaError
from microcell.model import Floats, Schema, Table

__all__ = ["Participation", "check_numbers", "reduce_schema"]

_LEAST = 1e-300


def check_numbers(k: object, failure: object) -> None:
    """Refuse a k below 2, and a failure that is no probability."""
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 2:
        raise OptionError("k must be a whole number of 2 or more.")
    if isinstance(failure, bool) or not isinstance(failure, Real) or not _LEAST <= float(failure) < 1:
        raise OptionError("failure must be a probability of 1e-300 or more, and under 1.")


def reduce_schema(schema: Schema, participation: object) -> Schema:
    """The schema with its quasi-identifiers alone: all that a design looks at; other columns are left out."""
    if schema.strata:
        raise SchemaError("A survey is designed without strata. Design one for each stratum, or leave strata out.")
    if schema.weight is not None:
        raise SchemaError("A design weighs candidates by participation: leave the weight column out of the schema.")
    if isinstance(participation, str) and participation in {part for item in schema.quasi for part in item.parts}:
        raise OptionError(f"The participation column {participation!r} is a quasi-identifier. Name another column.")
    taken = {"cell", "design"} & {part for item in schema.quasi for part in item.parts}
    if taken:
        raise OptionError(
            f"A quasi-identifier is named {min(taken)!r}, as a column that answers have. Rename it in frame and schema."
        )
    return replace(schema, identifiers=(), confidential=(), keep=(), drop=(), rest="drop")


@dataclass(frozen=True, eq=False)
class Participation:
    """The probability of each candidate to take part."""

    each: Floats
    common: float | None
    """The probability of all, where they have the same."""
    column: str | None
    """The column that it came from."""

    @classmethod
    def read(cls, given: object, original: Table, table: Table) -> "Participation":
        """From a number, or from a column; the table has the records of the original that are designed for."""
        if isinstance(given, str):
            _check_column(given, original)
            each = table.columns[given].reals()
            common = float(each[0]) if (each == each[0]).all() else None
            return cls(each, common, given)
        if isinstance(given, bool) or not isinstance(given, Real) or not _LEAST <= float(given) <= 1:
            raise OptionError(
                "participation must be a probability over 0 and up to 1, or the name of a column of the frame."
            )
        return cls(np.full(table.rows, float(given)), float(given), None)


def _check_column(name: str, table: Table) -> None:
    if name not in table.columns:
        raise SchemaError(f"The frame has no column {name!r} to take participation from. Check its name.")
    values = table.columns[name]
    if not values.is_number:
        raise DataError(f"Participation column {name!r} holds {values.storage} values, not probabilities.")
    reals = values.reals()
    wrong = np.flatnonzero(~((reals >= _LEAST) & (reals <= 1)))
    if len(wrong):
        raise DataError(
            f"Participation column {name!r} must be over 0 and up to 1 in every row; {len(wrong)} rows are not, the "
            f"first is row {wrong[0] + 1}. Leave out candidates who cannot take part."
        )
