"""Limits of file formats: names, types, sizes; checked before anything is written."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyreadstat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from microcell.errors import TableError
from microcell.tables import check_writable, read, write
from microcell.tables.files import FORMATS
from microcell.tables.fits import check_fits
from tests.raising import raises

WRITERS: dict[str, Callable[..., None]] = {
    ".sav": pyreadstat.write_sav,
    ".dta": pyreadstat.write_dta,
    ".xpt": pyreadstat.write_xport,
}


@pytest.mark.parametrize(
    ("suffix", "name"),
    [
        (".dta", "home town"),
        (".dta", "a" * 33),
        (".dta", "int"),
        (".dta", "str12"),
        (".dta", "2nd"),
        (".dta", "a.b"),
        (".sav", "home town"),
        (".zsav", "_hidden"),
        (".sav", "with"),
        (".sav", "é" * 33),
        (".xpt", "größe"),
        (".xpt", "_n_"),
    ],
)
def test_rejects_names_that_a_format_does_not_allow(tmp_path: Path, suffix: str, name: str) -> None:
    table = read({"age": [1], name: [2]})
    path = tmp_path / f"table{suffix}"
    for call in (lambda: check_writable(table, suffix), lambda: write(table, path)):
        with raises(TableError, "table.format_limit", columns=[name]):
            call()
    assert not path.exists()


def test_messages_say_what_a_format_allows() -> None:
    with raises(TableError, "table.format_limit") as caught:
        check_writable(read({"age": [1], "home town": [2]}), ".dta")
    assert str(caught.value) == (
        "Column 2 ('home town'): a Stata file requires names of at most 32 letters, digits and "
        "underscores that do not start with a digit and are not reserved (such as if or int). "
        "Rename the column, or write .parquet or .csv."
    )


def test_all_invalid_names_are_reported() -> None:
    with raises(TableError, "table.format_limit", columns=["a b", "c d"]):
        check_writable(read({"a b": [1], "x": [1], "c d": [1]}), ".dta")
    with raises(TableError, "table.format_limit", columns=[f"c {at}" for at in range(10)]):
        check_writable(read({f"c {at}": [1] for at in range(10)}), ".dta")


@pytest.mark.parametrize("suffix", [".sav", ".xpt"])
def test_rejects_names_that_differ_only_in_case(suffix: str) -> None:
    with raises(TableError, "table.format_limit", columns=["sex", "SEX"]):
        check_writable(read({"sex": [1], "age": [1], "SEX": [1]}), suffix)
    check_writable(read({"sex": [1], "SEX": [1]}), ".dta")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from(sorted(WRITERS)),
    st.one_of(
        st.text(st.sampled_from("aZ1_.@#$ -é数İß"), min_size=1, max_size=6),
        st.sampled_from(
            [
                "if",
                "IN",
                "_N",
                "strL",
                "str7",
                "ALL",
                "By",
                "_ERROR_",
                "_all",
                "a" * 32,
                "a" * 64,
                "é" * 32,
            ]
        ),
    ),
)
def test_accepted_names_round_trip(tmp_path: Path, suffix: str, name: str) -> None:
    frame, path = pl.DataFrame({name: [1.0]}), tmp_path / f"table{suffix}"
    try:
        check_writable(read(frame), suffix)
    except TableError:
        return
    WRITERS[suffix](frame, path)
    assert read(path).names == (name,)


@pytest.mark.parametrize(
    "suffix", [".csv", ".tsv", ".txt", ".xlsx", ".sav", ".zsav", ".dta", ".xpt"]
)
@pytest.mark.parametrize("value", [[1], {"a": 1}, b"secret"])
def test_rejects_types_that_a_format_cannot_store(suffix: str, value: object) -> None:
    table = read(pl.DataFrame({"age": [1], "things": [value]}))
    with raises(TableError, "table.format_limit", columns=["things"]):
        check_writable(table, suffix)
    check_writable(table, ".parquet")


@pytest.mark.parametrize(
    ("suffix", "limit"), [(".sav", 32_767), (".xpt", 32_767), (".xlsx", 32_767)]
)
def test_rejects_text_that_would_be_truncated(tmp_path: Path, suffix: str, limit: int) -> None:
    write(read({"note": ["b", "x" * limit]}), tmp_path / f"table{suffix}")
    assert read(tmp_path / f"table{suffix}").native["note"].to_list() == ["b", "x" * limit]
    with raises(TableError, "table.format_limit", column="note", row=2) as caught:
        check_writable(read({"note": ["b", "x" * (limit + 1)]}), suffix)
    assert "xxx" not in str(caught.value)


def test_a_spreadsheet_counts_characters_and_spss_bytes() -> None:
    table = read({"note": ["é" * 20_000]})
    check_writable(table, ".xlsx")
    with raises(TableError, "table.format_limit", column="note", row=1):
        check_writable(table, ".sav")


@pytest.mark.parametrize("suffix", [".dta", ".xpt", ".xlsx", ".jsonl"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rejects_infinite_numbers_where_they_would_be_lost(suffix: str, dtype: Any) -> None:
    table = read({"age": [1, 2, 3], "income": np.array([1.0, np.nan, -np.inf], dtype)})
    with raises(TableError, "table.format_limit", column="income", row=3):
        check_writable(table, suffix)
    check_writable(table, ".csv")
    check_writable(read({"age": [1, 2], "income": [1.5, np.nan]}), suffix)


def test_rejects_numbers_too_large_for_sas() -> None:
    check_writable(read({"x": [7e75, -7e75]}), ".xpt")
    with raises(TableError, "table.format_limit", column="x", row=1):
        check_writable(read({"x": [8e75]}), ".xpt")


def test_rejects_tables_too_large_for_a_spreadsheet() -> None:
    wide = read(pl.DataFrame({f"c{at}": [1] for at in range(16_385)}))
    with raises(TableError, "table.format_limit"):
        check_fits(wide.native, FORMATS[".xlsx"].limits)
    with raises(TableError, "table.format_limit"):
        check_writable(read({"a": np.zeros(1_048_576)}), ".xlsx")


def test_dropped_columns_need_not_fit() -> None:
    table = read({"full name": ["Ann"], "age": [31]})
    check_writable(table, ".dta", drop=["full name"])
    with raises(TableError, "table.format_limit", columns=["full name"]):
        check_writable(table, ".DTA")


@pytest.mark.parametrize("suffix", [".docx", "", ".sas7bdat", ".SAS7BDAT"])
def test_rejects_unknown_suffixes(suffix: str) -> None:
    with raises(TableError, "table.unknown_format"):
        check_writable(read({"a": [1]}), suffix)


def test_a_missing_extra_is_reported_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with raises(TableError, "option.extra_missing", package="pyreadstat"):
        check_writable(read({"a": [1]}), ".sav")
    check_writable(read({"a": [1]}), ".csv")
