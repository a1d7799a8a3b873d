"""Invalid input of a session: named by column and row, without a value, changing nothing."""

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell.errors import (
    DataError,
    OptionError,
    SchemaError,
    TableError,
    TooFewRecordsError,
)
from tests.raising import raises

WORD, NUMBER = "Zqxwv", 918273.5
SCHEMA = mc.Schema(
    identifiers=["name"],
    quasi=[
        mc.Column("grade", order=["low", "high"]),
        "x",
        mc.Column("place", latitude="lat", longitude="lon", kind="location"),
    ],
    weight="w",
    keep=["day"],
)


def make_people(n=12, **changes):
    people = {
        "name": [f"{WORD}{i}" for i in range(n)],
        "grade": ["low", "high"] * (n // 2) + ["low"] * (n % 2),
        "x": [float(i) for i in range(n)],
        "lat": [10.0 + i for i in range(n)],
        "lon": [20.0] * n,
        "w": [1.0] * n,
        "day": np.array(["2024-05-01"] * n, dtype="M8[D]"),
    }
    return {name: column for name, column in {**people, **changes}.items() if column is not None}


BATCHES = {
    "no records": (make_people(0, x=np.empty(0), day=np.empty(0, "M8[D]")), DataError, {}),
    "one column missing": (make_people(3, x=None), SchemaError, {}),
    "two columns missing": (make_people(3, x=None, w=None), SchemaError, {}),
    "an extra column": (make_people(3, extra=[1, 2, 3]), SchemaError, {}),
    "text instead of numbers": (make_people(3, x=["a", WORD, "c"]), SchemaError, {}),
    "numbers instead of text": (make_people(3, name=[1, 2, 3]), SchemaError, {}),
    "numbers instead of dates": (make_people(3, day=[1, 2, 3]), SchemaError, {}),
    "datetimes instead of dates": (
        make_people(3, day=np.array(["2024-05-01T10:00"] * 3, "M8[us]")),
        SchemaError,
        {},
    ),
    "booleans instead of numbers": (make_people(3, w=[True, False, True]), SchemaError, {}),
    "a category outside the order": (
        make_people(3, grade=["low", "high", WORD]),
        SchemaError,
        {"column": "grade", "row": 3},
    ),
    "a missing value": (make_people(3, x=[1.0, None, NUMBER]), DataError, {"columns": ("x",)}),
    "an infinite number": (
        make_people(3, x=[1.0, NUMBER, np.inf]),
        DataError,
        {"column": "x", "row": 3},
    ),
    "an impossible location": (
        make_people(3, lat=[NUMBER, 1.0, 2.0]),
        DataError,
        {"column": "lat", "row": 1},
    ),
    "a weight of 0": (
        make_people(3, w=[1.0, 0.0, 2.0]),
        DataError,
        {"column": "w", "row": 2},
    ),
    "a missing weight": (make_people(3, w=[1.0, 1.0, None]), DataError, {"column": "w", "row": 3}),
    "another type of data frame": (pl.DataFrame({"x": [NUMBER]}), TableError, {}),
    "not a table": (17, TableError, {}),
    "integers too large for floats": (
        make_people(3, x=[2**60, 2**60 + 1, 2**60 + 2]),
        SchemaError,
        {},
    ),
}


@pytest.mark.parametrize("case", BATCHES)
@pytest.mark.parametrize("strategy", ["refined", "separate"])
def test_an_invalid_batch_changes_nothing(case, strategy):
    batch, error, details = BATCHES[case]
    session = mc.increments.start(make_people(), SCHEMA, 3)
    before = session.state
    with pytest.raises(error) as caught:
        session.add(batch, strategy=strategy)
    assert details.items() <= caught.value.details.items()
    assert WORD not in str(caught.value)
    assert "918273" not in str(caught.value)
    assert session.state is before
    session.add(make_people(4), repeated="keep")
    assert len(session.finish().table["x"]) == 16


@pytest.mark.parametrize("options", [{"strategy": "best"}, {"strategy": None}, {"inertial": "yes"}])
def test_invalid_strategies(options):
    with pytest.raises(OptionError) as caught:
        mc.increments.start(make_people(), SCHEMA, 3).add(make_people(3), **options)
    assert caught.value.details["option"] in options


@pytest.mark.parametrize(
    ("change", "error", "code"),
    [
        ({"k": 1}, OptionError, "option.out_of_range"),
        ({"k": 2.5}, OptionError, "option.wrong_type"),
        ({"method": "best"}, OptionError, "option.unknown"),
        ({"missing": "ignore"}, OptionError, "option.unknown"),
        ({"seed": -1}, OptionError, "option.out_of_range"),
        ({"gamma": 0.2}, OptionError, "option.unsupported"),
        ({"schema": mc.Schema(quasi=["y"], rest="drop")}, SchemaError, "schema.unknown_column"),
        ({"schema": 5}, SchemaError, "schema.invalid"),
    ],
)
def test_invalid_starts(change, error, code):
    with raises(error, code):
        mc.increments.start(**{"base": make_people(), "schema": SCHEMA, "k": 3, **change})


def test_refine_is_not_supported():
    with raises(OptionError, "option.unsupported", option="refine"):
        mc.increments.start(make_people(), SCHEMA, 3, refine=True)


def test_base_smaller_than_k():
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=13, records=12):
        mc.increments.start(make_people(), SCHEMA, 13)


def test_base_with_too_few_complete_records():
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=3, records=2):
        mc.increments.start({"x": [1.0, 2.0, None]}, mc.Schema(quasi=["x"]), 3, missing="drop")


def test_refine_may_be_false():
    session = mc.increments.start(make_people(), SCHEMA, 3, refine=False)
    assert session.add(make_people(4), strategy="separate", repeated="keep").records == 4


def test_too_many_categories_are_rejected_when_they_arrive():
    base = {"town": [f"{WORD}{i % 40}" for i in range(80)]}
    session = mc.increments.start(base, mc.Schema(quasi=["town"]), 3)
    with raises(SchemaError, "schema.wrong_kind", column="town") as caught:
        session.add({"town": [f"{WORD}{i}" for i in range(100, 160)]})
    assert WORD not in str(caught.value)
    assert len(session.finish().table["town"]) == 80


def test_incompatible_time_zones():
    times = pl.Series("t", [f"2024-05-0{day}" for day in range(1, 9)]).str.to_datetime()
    session = mc.increments.start(times.to_frame(), mc.Schema(quasi=["t"]), 2)
    with raises(TableError, "table.mismatch"):
        session.add(times.dt.replace_time_zone("UTC").to_frame()[:5], repeated="keep")
    assert session.records == 8


@pytest.mark.parametrize("scale", [1e-200, 1e-12, 1e12, 1e200])
def test_huge_and_tiny_scales(scale):
    rng = np.random.default_rng(0)
    session = mc.increments.start({"x": rng.normal(size=40) * scale}, mc.Schema(quasi=["x"]), 4)
    session.add({"x": rng.normal(size=10) * scale})
    values, counts = np.unique(session.finish().table["x"], return_counts=True)
    assert np.isfinite(values).all()
    assert counts.min() >= 4


def test_a_batch_without_records_or_with_gaps_is_explained(tmp_path):
    """The advice must fit a batch: what to do about missing values was chosen with the base."""
    base = pl.DataFrame({"x": [1.0, 2.0, 3.0], "s": ["a", "b", "c"]})
    base.write_csv(tmp_path / "base.csv")
    base[:0].write_csv(tmp_path / "empty.csv")
    schema = mc.Schema(quasi=["x"], confidential=["s"])
    session = mc.increments.start(tmp_path / "base.csv", schema, 3)
    with pytest.raises(DataError) as caught:
        session.add(tmp_path / "empty.csv")
    assert caught.value.code == "data.empty"
    (tmp_path / "gap.csv").write_text("x,s\n,a\n5.0,b\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        session.add(tmp_path / "gap.csv")
    assert caught.value.code == "data.missing_values"
    assert caught.value.details["columns"] == ("x",)
    assert "increment start" in str(caught.value)
