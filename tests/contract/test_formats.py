"""Every format: a published file contains every value, or is refused before it appears.

And the same table gives the same bytes at any time.
"""

import datetime as dt
import time
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell import tables
from microcell.errors import TableError
from microcell.release import manifest_path
from microcell.release.publish import read_written
from tests.raising import raises

TEXT = (".csv", ".tsv", ".txt")
JSON = (".jsonl", ".ndjson")
ARROW = (".parquet", ".arrow", ".feather", ".ipc")
STAT = (".sav", ".zsav", ".dta", ".xpt")
EVERY = (*TEXT, *JSON, *ARROW, ".xlsx", *STAT)
BLANKS_LOST = (".sav", ".zsav", ".xpt")

TEXTS = {
    "nul": ["b\0x", "a", "c"],
    "trailing": ["a ", "a", "c"],
    "blank": ["  ", "a", "c"],
    "leading": [" a", "a", "c"],
    "empty": ["", "a", None],
    "tab": ["\t", "a\tb", "a\t"],
    "line": ["a\rb", "a\r\nb", "\n"],
    "mark": ["\ufeff", "\ufeffa", "a\ufeff"],
    "control": ["\x01", "\x1f", "\x7f"],
    "escape": ["_x0041_", "_x000D_", "a"],
    "noncharacter": ["\ufffe", "\uffff", "a"],
    "astral": ["😀", "\U0001d4b3", "e\u0301"],
    "length": ["x" * 5000, "x" * 300, "a"],
    "space": ["\u00a0", "a\u3000", "a"],
    "quote": ['"', 'a"b', '"a"'],
    "delimiter": ["a,b", ";", "a\tb"],
    "none": ["NA", "null", "nan"],
    "code": ["007", "7", "1e5"],
    "number": [" 1", "2", "3"],
    "day": ["2020-01-01", "2021-01-01", "2022-01-01"],
    "truth": ["true", "false", "true"],
    "formula": ["=1+1", "+1", "@x"],
    "error": ["#N/A", "#REF!", "'a"],
}
OTHERS = {
    "real": [0.1 + 0.2, 1e-300, 1 / 3],
    "tiny": [5e-324, -0.0, 1.0],
    "huge": [1.7976931348623157e308, 1e75, 1.0],
    "infinite": [float("inf"), 1.0, None],
    "nan": [float("nan"), 1.0, None],
    "whole": [2**53 + 1, -(2**63) + 1, 2**63 - 1],
    "smallest": [-(2**63), 0, 1],
    "border": [2147483647, 32767, 127],
    "boolean": [True, False, None],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 14)],
    "moment": [dt.datetime(2020, 1, 1, 1, 2, 3, 456789), dt.datetime(1899, 1, 1, 5), None],
    "early": [dt.datetime(1600, 1, 1, 0, 0, 0, 1), dt.datetime(9999, 12, 31, 23, 59, 59), None],
    "time": [dt.time(1, 2, 3, 4), dt.time(23, 59, 59), None],
    "span": [dt.timedelta(days=1, microseconds=1), dt.timedelta(seconds=-1), None],
    "decimal": [Decimal("0.10"), Decimal("12345678.91"), None],
    "missing": [None, None, None],
    "unsigned": pl.Series([2**64 - 1, 2**63, 0], dtype=pl.UInt64),
    "single": pl.Series([0.1, 16777217.0, 1e-30], dtype=pl.Float32),
    "category": pl.Series(["a ", "b", "c"], dtype=pl.Categorical),
    "zone": pl.Series([dt.datetime(2020, 1, 1, 12)] * 3, dtype=pl.Datetime("us", "Europe/Berlin")),
    "ns": pl.Series([1, 2, 3]).cast(pl.Datetime("ns")),
}
COLUMNS = {
    name: values if isinstance(values, pl.Series) else pl.Series(values, strict=False)
    for name, values in {**TEXTS, **OTHERS}.items()
}
REFUSED = {
    "nul": (*TEXT, *STAT),
    "trailing": BLANKS_LOST,
    "blank": BLANKS_LOST,
    "category": BLANKS_LOST,
    "empty": (*TEXT, ".xlsx", *STAT),
    "noncharacter": (".xlsx",),
    "whole": STAT,
    "smallest": STAT,
    "tiny": (".xpt",),
    "infinite": (*JSON, ".xlsx", ".sav", ".zsav", ".dta", ".xpt"),
}
"""Columns that a format refuses before it writes anything."""


@pytest.mark.parametrize("suffix", EVERY)
def test_a_file_contains_every_value_or_is_refused(tmp_path, suffix):
    """What is not refused is equal when it is read back, and also for the audit."""
    path = tmp_path / f"table{suffix}"
    for name, values in COLUMNS.items():
        frame = pl.DataFrame({name: values, "other": [1, 2, 3]})
        table = tables.read(frame)
        if suffix in REFUSED.get(name, ()):
            with raises(TableError, "table.format_limit", column=name):
                tables.check_writable(table, suffix)
            continue
        try:
            tables.check_writable(table, suffix)
            tables.write(table, path)
            read_written(table, path)
        except TableError as error:
            refusal = error.code, error.details.get("column")
            if refusal != ("table.format_limit", name):
                raise
            continue
        schema = mc.Schema(quasi=["other"], keep=[name])
        assert mc.audit(frame, path, schema, brief=True)["values_changed"] == 0, name


@pytest.mark.parametrize("suffix", ARROW)
def test_arrow_formats_refuse_nothing(tmp_path, suffix):
    for name, values in COLUMNS.items():
        table = tables.read(pl.DataFrame({name: values}))
        tables.check_writable(table, suffix)
        tables.write(table, tmp_path / f"table{suffix}")
        read_written(table, tmp_path / f"table{suffix}")


@pytest.mark.parametrize(
    ("suffix", "value"),
    [(".sav", "b\0x"), (".dta", "b\0x"), (".sav", "zq "), (".sav", "  "), (".csv", ""),
     (".zsav", "zq "), (".xpt", "zq "), (".xlsx", "\uffff")],
)  # fmt: skip
def test_publish_refuses_what_the_format_alters(tmp_path, suffix, value):
    """Nothing is written, an earlier release stays, and the message does not show the value."""
    people = {"age": [31, 33, 35, 60, 62, 64], "note": ["abc", "abd", "abe", "abf", "abg", "abh"]}
    schema = mc.Schema(quasi=["age"], confidential=["note"])
    path = tmp_path / f"out{suffix}"
    mc.anonymize(people, schema, k=3, method="mdav").publish(path)
    before = {item.name: item.read_bytes() for item in tmp_path.iterdir()}
    release = mc.anonymize(
        {**people, "note": [*people["note"][:5], value]}, schema, k=3, method="mdav"
    )
    with raises(TableError, "table.format_limit", column="note") as caught:
        release.publish(path)
    assert not value.strip() or value not in str(caught.value)
    assert ".parquet" in str(caught.value)
    assert {item.name: item.read_bytes() for item in tmp_path.iterdir()} == before


def test_a_spreadsheet_refuses_rows_without_values(tmp_path):
    schema = mc.Schema(quasi=["age"])
    ages = np.array([31, 33, 35, np.nan, np.nan, np.nan])
    release = mc.anonymize({"age": ages}, schema, k=3, missing="impute", method="mdav")
    table = tables.read({"age": [1.0, None, 2.0]})
    with raises(TableError, "table.format_limit", row=2):
        tables.check_writable(table, ".xlsx")
    release.publish(tmp_path / "out.xlsx")
    assert tables.read(tmp_path / "out.xlsx").rows == 6


# ------------------------------------------------------------------------------ the same bytes

PLAIN = pl.DataFrame(
    {
        "whole": [1, -5, 7],
        "real": [1.5, None, 0.1],
        "text": ["a,b", None, "é"],
        "at": [dt.datetime(2024, 5, 1, 9, 30), None, dt.datetime(1999, 12, 31)],
    }
)


def test_the_same_table_gives_the_same_bytes_in_every_format(tmp_path):
    def write(folder):
        folder.mkdir()
        for suffix in EVERY:
            tables.write(tables.read(PLAIN), folder / f"table{suffix}")

    write(tmp_path / "first")
    time.sleep(2.1)  # zip archives have times of two seconds
    write(tmp_path / "second")
    for suffix in EVERY:
        first, second = (tmp_path / name / f"table{suffix}" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes(), suffix
    # Stata files contain minutes, which a test cannot wait for.
    assert b"<timestamp>\x1101 JAN 2000 00:00<" in (tmp_path / "first" / "table.dta").read_bytes()


@pytest.mark.parametrize("suffix", EVERY)
def test_the_same_release_gives_the_same_bytes(tmp_path, suffix):
    people, schema = mc.sample_survey(40), mc.sample_schema()
    first = mc.anonymize(people, schema, k=3, method="mdav").publish(tmp_path / f"first{suffix}")
    again = mc.anonymize(
        people, schema, k=3, method="mdav", order_key=manifest_path(tmp_path / f"first{suffix}")
    ).publish(tmp_path / f"again{suffix}")
    assert first.manifest.output == again.manifest.output
