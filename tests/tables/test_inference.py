import polars as pl

from microcell.tables._inference import convert_dates, find_decimal


def test_text_that_looks_like_numbers_stays_text_where_only_dates_are_sought() -> None:
    assert convert_dates(pl.Series(["1", "2"])).dtype == pl.String
    assert convert_dates(pl.Series(["2024-01-02"])).dtype == pl.Date
    assert convert_dates(pl.Series([1, 2])).dtype == pl.Int64


def test_the_decimal_sign_of_more_columns_is_taken() -> None:
    assert find_decimal(pl.DataFrame({"a": ["1,5", "2"], "b": ["x", "1,5"]})) == ","
    assert find_decimal(pl.DataFrame({"a": ["1,5"], "b": ["1.5"]})) == "."
    assert find_decimal(pl.DataFrame({"a": ["1", "2"]})) == "."
