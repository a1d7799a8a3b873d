import polars as pl

from microcell.tables.csv import convert_dates, find_decimal


def test_text_that_looks_like_numbers_stays_text_where_only_dates_are_sought() -> None:
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


def test_the_decimal_sign_of_more_columns_is_taken() -> None:
    assert find_decimal(pl.DataFrame({"a": ["1,5", "2"], "b": ["x", "1,5"]})) == ","
    assert find_decimal(pl.DataFrame({"a": ["1,5"], "b": ["1.5"]})) == "."
    assert find_decimal(pl.DataFrame({"a": ["1", "2"]})) == "."
