"""Type inference of text columns."""

import polars as pl

from microcell.tables.csv import convert_dates, find_decimal


def test_convert_dates_leaves_numbers_as_text() -> None:
    frame = pl.DataFrame(
        {
            "a": ["1", "2"],
            "b": ["2024-01-02"] * 2,
            "c": [1, 2],
            "d": ["31/12/2024"] * 2,
            "e": [[1], []],
        }
    )
    assert convert_dates(frame).dtypes == [
        pl.String,
        pl.Date,
        pl.Int64,
        pl.String,
        pl.List(pl.Int64),
    ]
    assert convert_dates(pl.DataFrame()).is_empty()


def test_find_decimal_prefers_the_separator_of_more_columns() -> None:
    assert find_decimal(pl.DataFrame({"a": ["1,5", "2"], "b": ["x", "1,5"]})) == ","
    assert find_decimal(pl.DataFrame({"a": ["1,5"], "b": ["1.5"]})) == "."
    assert find_decimal(pl.DataFrame({"a": ["1", "2"]})) == "."
