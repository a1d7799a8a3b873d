"""Parts of one table put together: nothing is changed, and what does not go together is refused by name."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microcell import tables
from microcell.errors import SchemaError, TableError

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
def test_rows_follow_each_other_in_the_kind_of_the_first(kind, case):
    make = FRAMES[kind]
    parts = [make({"id": list(range(len(part))), "v": part}) for part in COLUMNS[case]]
    stacked = stack(*parts)
    assert type(stacked.native) is type(parts[0])
    expected = [listed(tables.read(part)) for part in parts]
    assert listed(stacked) == {name: expected[0][name] + expected[1][name] for name in ("id", "v")}


@settings(max_examples=60, deadline=None)
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
def test_numbers_of_several_parts_come_back(parts):
    frames = [pl.DataFrame({"v": pl.Series(part, dtype=pl.Float64)}) for part in parts]
    whole = [
        pl.DataFrame({"v": part["v"].cast(pl.Int64)}) if is_whole(part["v"]) else part
        for part in frames
    ]
    assert listed(stack(*whole))["v"] == listed(tables.read(pl.concat(frames)))["v"]


def is_whole(series):
    return bool(((series == series.round()) & (series.abs() <= 2**53)).fill_null(value=True).all())


def test_columns_in_another_order_are_put_right():
    assert stack({"a": [1], "b": ["x"]}, {"b": ["y"], "a": [2]}).native["b"].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("further", "words"),
    [
        ({"a": [1]}, "lacks column 'b'"),
        ({"a": [1], "b": ["x"], "c": [1], "d": [2]}, "has columns 'c', 'd'"),
        ({"a": ["Zqxwv"], "b": ["x"]}, "'a' holds integer values in the base and text"),
        ({"a": [1], "b": [True]}, "'b' holds text values in the base and boolean"),
        ({"a": [1.5], "b": ["x"]}, None),
    ],
)
@pytest.mark.parametrize("kind", FRAMES)
def test_what_does_not_go_together_is_refused_by_name(kind, further, words):
    make = FRAMES[kind]
    first = make({"a": [1, 2], "b": ["x", "y"]})
    if words is None:
        assert stack(first, make(further)).rows == 3
        return
    with pytest.raises(SchemaError, match=words) as error:
        stack(first, make(further))
    assert "Zqxwv" not in str(error.value)


def test_whole_numbers_beyond_floats_are_not_rounded():
    with pytest.raises(SchemaError, match="'a' holds integer"):
        stack({"a": [2**60 + 1]}, {"a": [0.5]})
    with pytest.raises(TableError, match="'a' has types"):  # NumPy would make floats of the two
        stack(*({"a": np.array([2**62 + 1], dtype=kind)} for kind in (np.int64, np.uint64)))
    wide = stack(
        *(pl.DataFrame({"a": pl.Series([2**62 + 1], dtype=kind)}) for kind in (pl.Int64, pl.UInt64))
    )
    assert wide.native["a"].to_list() == [2**62 + 1, 2**62 + 1]


def test_frames_of_two_kinds_are_refused():
    with pytest.raises(TableError, match="a polars table, and these are a pandas table"):
        stack(pl.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]}))


def test_ordered_categories_are_those_of_the_first_then_new_ones():
    first = pl.DataFrame({"o": pl.Series(["b", "a"], dtype=pl.Enum(["b", "unused", "a"]))})
    for further in (pl.Series(["z", "b"], dtype=pl.Enum(["z", "b"])), pl.Series(["z", "b"])):
        stacked = stack(first, further.to_frame("o"))
        assert stacked.native["o"].to_list() == ["b", "a", "z", "b"]
        assert stacked.columns["o"].categories == ("b", "unused", "a", "z")


def test_times_are_kept_in_the_finer_unit():
    moment = dt.datetime(2024, 1, 1, 1, 2, 3, 456_789)
    coarse = pl.DataFrame({"t": pl.Series([dt.datetime(2024, 1, 1)]).cast(pl.Datetime("ms"))})
    for one, other in (
        (coarse, pl.DataFrame({"t": [moment]})),
        (pl.DataFrame({"t": [moment]}), coarse),
    ):
        assert moment in stack(one, other).native["t"].to_list()
    spans = [pl.DataFrame({"t": pl.Series([5]).cast(pl.Duration(unit))}) for unit in ("ms", "ns")]
    assert stack(*spans).native["t"].to_physical().to_list() == [5_000_000, 5]


def test_an_index_of_pandas_is_kept():
    parts = [pd.DataFrame({"a": [1, 2]}, index=["p", "q"]), pd.DataFrame({"a": [3]}, index=["r"])]
    assert stack(*parts).native.index.tolist() == ["p", "q", "r"]


def test_one_part_is_itself():
    table = tables.read({"a": np.arange(3)})
    assert tables.stack([table]) is table


def test_what_is_kept_is_refused_where_it_would_be_lost(monkeypatch):
    digests = iter(["one", "another"])
    monkeypatch.setattr("microcell.tables.snapshot.digest", lambda _: next(digests))
    with pytest.raises(TableError, match="cannot be kept"):
        tables.to_parquet(tables.read({"a": [1]}))


def test_what_is_no_parquet_is_refused():
    with pytest.raises(TableError, match="damaged"):
        tables.from_parquet(b"PAR1 but not really")
