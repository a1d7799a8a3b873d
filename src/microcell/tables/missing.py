"""Texts that mark missing values, in formats that do not store text only."""

from collections.abc import Sequence

import polars as pl

from microcell.tables.csv import convert

__all__ = ["replace_missing"]


def replace_missing(frame: pl.DataFrame, words: Sequence[str]) -> pl.DataFrame:
    """Replace the marks of missing values by null in text and number columns.

    A text column that contains only numbers or dates without its marks is converted to these.

    Examples
    --------
    >>> replace_missing(pl.DataFrame({"a": ["1", "-"], "b": [7, 999]}), ["-", "999"]).rows()
    [(1, 7), (None, None)]
    """
    numbers = [float(word) for word in words if _is_number(word)]
    changed = []
    for named in frame:
        column = named.alias("x")  # polars takes names such as ^a.*$ for patterns
        if column.dtype == pl.String:
            marked = column.is_in(pl.Series(list(words), dtype=pl.String).implode())
        elif column.dtype.is_numeric() and numbers:
            marked = column.cast(pl.Float64).is_in(pl.Series(numbers).implode())
        else:
            continue
        if marked.any():
            cleared = column.to_frame().select(
                pl.when(~pl.lit(marked).fill_null(value=False)).then(pl.col("x"))
            )
            read = convert(cleared) if column.dtype == pl.String else cleared
            changed.append(read.to_series().alias(named.name))
    return frame.with_columns(changed)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
