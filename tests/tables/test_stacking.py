"""Concatenating tables: values are unchanged, and mismatches are reported by column."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell import tables
from microcell.errors import SchemaError, TableError
from tests.raising import raises

FRAMES = {"dict": dict, "pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def stack(*natives):
    first, *others = map(tables.read, natives)
    return tables.stack([first, *(tables.align(first, other) for other in others)])


def listed(table):
    """Each column as a list of names, None where missing, whatever its type."""
    out = {}
    for name, values in table.columns.items():
        codes, names = values.factorize()
        out[name] = [None if code < 0 else names[code] for code in codes.tolist()]
    return out


COLUMNS = {
    "integers": ([1, 2, 3], [4, 5]),
    "floats": ([1.5, None, 3.0], [4.25, 5.0]),
    "integers then floats": ([1, 2, 3], [4.5, 5.0]),
    "floats then integers": ([1.5, 2.0, 3.0], [4, 5]),
    "text": (["a", None, "c"], ["d", "a"]),
    "nothing then text": ([None, None, None], ["d", "a"]),
    "text then nothing": (["a", "b", "c"], [None, None]),
    "nothing then integers": ([None, None, None], [1, 2]),
    "integers then nothing": ([1, 2, 3], [None, None]),
    "booleans": ([True, False, None], [True, True]),
    "dates": ([dt.date(2024, 1, 1), None, dt.date(2024, 1, 3)], [dt.date(1999, 1, 1), None]),
    "datetimes": ([dt.datetime(2024, 1, 1, 1), None, None], [dt.datetime(1999, 1, 1), None]),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("case", COLUMNS)
def test_rows_are_concatenated_in_the_frame_type_of_the_first(kind, case):
    make = FRAMES[kind]
    parts = [make({"id": list(range(len(part))), "v": part}) for part in COLUMNS[case]]
    stacked = stack(*parts)
    assert type(stacked.native) is type(parts[0])
    expected = [listed(tables.read(part)) for part in parts]
    assert listed(stacked) == {name: expected[0][name] + expected[1][name] for name in ("id", "v")}


@given(
    parts=st.lists(
        st.lists(
            st.one_of(st.none(), st.integers(-(2**53), 2**53), st.floats(-1e300, 1e300)),
            min_size=1,
            max_size=6,
        ),
        min_size=2,
        max_size=4,
    )
)
def test_numbers_of_several_parts_are_unchanged(parts):
    frames = [pl.DataFrame({"v": pl.Series(part, dtype=pl.Float64)}) for part in parts]
    whole = [
        pl.DataFrame({"v": part["v"].cast(pl.Int64)}) if is_whole(part["v"]) else part
        for part in frames
    ]
    assert listed(stack(*whole))["v"] == listed(tables.read(pl.concat(frames)))["v"]


def is_whole(series):
    return bool(((series == series.round()) & (series.abs() <= 2**53)).fill_null(value=True).all())


def test_columns_are_reordered():
    assert stack({"a": [1], "b": ["x"]}, {"b": ["y"], "a": [2]}).native["b"].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("further", "details"),
    [
        ({"a": [1]}, {"columns": ["b"]}),
        ({"a": [1], "b": ["x"], "c": [1], "d": [2]}, {"columns": ["c", "d"]}),
        ({"a": ["Zqxwv"], "b": ["x"]}, {"column": "a", "row": 1}),
        ({"a": [1], "b": [True]}, {"column": "b", "row": 1}),
        ({"a": [1.5], "b": ["x"]}, None),
    ],
)
@pytest.mark.parametrize("kind", FRAMES)
def test_rejects_columns_that_do_not_match(kind, further, details):
    make = FRAMES[kind]
    first = make({"a": [1, 2], "b": ["x", "y"]})
    if details is None:
        assert stack(first, make(further)).rows == 3
        return
    with raises(SchemaError, "table.mismatch", **details) as caught:
        stack(first, make(further))
    assert "Zqxwv" not in str(caught.value)


def test_whole_numbers_beyond_floats_are_not_rounded():
    with raises(SchemaError, "table.mismatch", column="a"):
        stack({"a": [2**60 + 1]}, {"a": [0.5]})
    with raises(TableError, "table.mismatch", column="a"):  # NumPy would convert both to floats.
        stack(*({"a": np.array([2**62 + 1], dtype=kind)} for kind in (np.int64, np.uint64)))
    wide = stack(
        *(pl.DataFrame({"a": pl.Series([2**62 + 1], dtype=kind)}) for kind in (pl.Int64, pl.UInt64))
    )
    assert wide.native["a"].to_list() == [2**62 + 1, 2**62 + 1]


def test_rejects_two_types_of_frames():
    with raises(TableError, "table.mismatch"):
        stack(pl.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]}))


def test_new_ordered_categories_follow_those_of_the_first():
    first = pl.DataFrame({"o": pl.Series(["b", "a"], dtype=pl.Enum(["b", "unused", "a"]))})
    for further in (pl.Series(["z", "b"], dtype=pl.Enum(["z", "b"])), pl.Series(["z", "b"])):
        stacked = stack(first, further.to_frame("o"))
        assert stacked.native["o"].to_list() == ["b", "a", "z", "b"]
        assert stacked.columns["o"].categories == ("b", "unused", "a", "z")


def test_times_keep_the_finer_unit():
    moment = dt.datetime(2024, 1, 1, 1, 2, 3, 456_789)
    coarse = pl.DataFrame({"t": pl.Series([dt.datetime(2024, 1, 1)]).cast(pl.Datetime("ms"))})
    for one, other in (
        (coarse, pl.DataFrame({"t": [moment]})),
        (pl.DataFrame({"t": [moment]}), coarse),
    ):
        assert moment in stack(one, other).native["t"].to_list()
    spans = [pl.DataFrame({"t": pl.Series([5]).cast(pl.Duration(unit))}) for unit in ("ms", "ns")]
    assert stack(*spans).native["t"].to_physical().to_list() == [5_000_000, 5]


def test_a_pandas_index_is_kept():
    parts = [pd.DataFrame({"a": [1, 2]}, index=["p", "q"]), pd.DataFrame({"a": [3]}, index=["r"])]
    assert stack(*parts).native.index.tolist() == ["p", "q", "r"]


def test_a_single_part_is_returned_unchanged():
    table = tables.read({"a": np.arange(3)})
    assert tables.stack([table]) is table


def test_rejects_storage_that_would_lose_information(monkeypatch):
    digests = iter(["one", "another"])
    monkeypatch.setattr("microcell.tables.snapshot.digest", lambda _: next(digests))
    with raises(TableError, "table.format_limit"):
        tables.to_parquet(tables.read({"a": [1]}))


def test_rejects_damaged_parquet():
    with raises(TableError, "table.malformed"):
        tables.from_parquet(b"PAR1 but not really")
