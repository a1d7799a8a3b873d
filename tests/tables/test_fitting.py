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
from microcell.tables import check_writable, formats, read, write

WRITERS: dict[str, Callable[..., None]] = {
    ".sav": pyreadstat.write_sav,
    ".dta": pyreadstat.write_dta,
    ".xpt": pyreadstat.write_xport,
}


@pytest.mark.parametrize(
    "suffix, name, said",
    [
        (
            ".dta",
            "home town",
            "a Stata file: names there are at most 32 letters, digits and underscores",
        ),
        (".dta", "a" * 33, "a Stata file"),
        (".dta", "int", "no word of its language"),
        (".dta", "str12", "no word of its language"),
        (".dta", "2nd", "do not begin with a digit"),
        (".dta", "a.b", "a Stata file"),
        (".sav", "home town", "an SPSS file: names there are at most 64 bytes"),
        (".zsav", "_hidden", "begin with a letter"),
        (".sav", "with", "no word of its language"),
        (".sav", "é" * 33, "at most 64 bytes"),
        (
            ".xpt",
            "größe",
            "a SAS transport file: names there are at most 32 letters without accents",
        ),
        (".xpt", "_n_", "no word of its language"),
    ],
)
def test_names_that_a_format_does_not_allow(
    tmp_path: Path, suffix: str, name: str, said: str
) -> None:
    table = read({"age": [1], name: [2]})
    path = tmp_path / f"table{suffix}"
    for call in (lambda: check_writable(table, suffix), lambda: write(table, path)):
        with pytest.raises(TableError) as caught:
            call()
        assert str(caught.value).startswith(f"Column 2 ({name!r}) cannot be named so in")
        assert said in str(caught.value)
        assert str(caught.value).endswith("Rename the column, or write .parquet or .csv.")
    assert not path.exists()


def test_all_wrong_names_are_listed_up_to_some() -> None:
    with pytest.raises(
        TableError, match=r"^Columns 1 \('a b'\), 3 \('c d'\) cannot .* Rename the columns,"
    ):
        check_writable(read({"a b": [1], "x": [1], "c d": [1]}), ".dta")
    with pytest.raises(TableError, match=r"6 \('c 5'\) and 4 more cannot"):
        check_writable(read({f"c {at}": [1] for at in range(10)}), ".dta")


@pytest.mark.parametrize("suffix", [".sav", ".xpt"])
def test_names_that_differ_in_capitals_only(suffix: str) -> None:
    with pytest.raises(
        TableError, match=r"^Columns 1 \('sex'\), 3 \('SEX'\) have the same name in an? S"
    ):
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
def test_a_name_that_passes_can_be_written_and_comes_back(
    tmp_path: Path, suffix: str, name: str
) -> None:
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
def test_types_that_a_format_cannot_hold(suffix: str, value: object) -> None:
    table = read(pl.DataFrame({"age": [1], "things": [value]}))
    with pytest.raises(
        TableError, match=r"^Column 2 \('things'\) cannot be written to a.* or write \.parquet"
    ):
        check_writable(table, suffix)
    check_writable(table, ".parquet")


@pytest.mark.parametrize("suffix, most", [(".sav", 32_767), (".xpt", 32_767), (".xlsx", 32_767)])
def test_text_that_would_be_cut_is_refused(tmp_path: Path, suffix: str, most: int) -> None:
    write(read({"note": ["b", "x" * most]}), tmp_path / f"table{suffix}")
    assert read(tmp_path / f"table{suffix}").native["note"].to_list() == ["b", "x" * most]
    with pytest.raises(
        TableError, match=r"^Column 1 \('note'\) has text of more than 32767 \w+ in row 2"
    ) as caught:
        check_writable(read({"note": ["b", "x" * (most + 1)]}), suffix)
    assert "xxx" not in str(caught.value)


def test_a_spreadsheet_counts_characters_and_spss_bytes() -> None:
    table = read({"note": ["é" * 20_000]})
    check_writable(table, ".xlsx")
    with pytest.raises(TableError, match="32767 bytes"):
        check_writable(table, ".sav")


@pytest.mark.parametrize("suffix", [".dta", ".xpt", ".xlsx", ".jsonl"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinite_numbers_are_refused_where_they_would_be_lost(suffix: str, dtype: Any) -> None:
    table = read({"age": [1, 2, 3], "income": np.array([1.0, np.nan, -np.inf], dtype)})
    with pytest.raises(
        TableError, match=r"^Column 2 \('income'\) has a number that is infinite or .* in row 3"
    ):
        check_writable(table, suffix)
    check_writable(table, ".csv")
    check_writable(read({"income": [1.5, np.nan]}), suffix)


def test_numbers_beyond_those_of_sas_are_refused() -> None:
    check_writable(read({"x": [7e75, -7e75]}), ".xpt")
    with pytest.raises(TableError, match="beyond 7"):
        check_writable(read({"x": [8e75]}), ".xpt")


def test_a_table_too_large_for_a_spreadsheet() -> None:
    wide = read(pl.DataFrame({f"c{at}": [1] for at in range(16_385)}))
    with pytest.raises(TableError, match="16384 columns at most; the table has 1 and 16385"):
        formats.check_fits(wide.native, ".xlsx")
    with pytest.raises(TableError, match=r"^A spreadsheet holds 1048575 rows"):
        check_writable(read({"a": np.zeros(1_048_576)}), ".xlsx")


def test_columns_that_are_left_out_need_not_fit() -> None:
    table = read({"full name": ["Ann"], "age": [31]})
    check_writable(table, ".dta", drop=["full name"])
    with pytest.raises(TableError, match="full name"):
        check_writable(table, ".DTA")


@pytest.mark.parametrize("suffix", [".docx", "", ".sas7bdat", ".SAS7BDAT"])
def test_suffixes_are_checked_too(suffix: str) -> None:
    with pytest.raises(TableError, match="cannot be written"):
        check_writable(read({"a": [1]}), suffix)


def test_a_missing_extra_is_known_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(TableError, match="pip install"):
        check_writable(read({"a": [1]}), ".sav")
    check_writable(read({"a": [1]}), ".csv")
