"""What a session refuses: by column and row, without a value, and without a change to what is there."""

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell.errors import (
    DataError,
    MicrocellError,
    OptionError,
    SchemaError,
    TableError,
    TooFewRecordsError,
)

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


def make_people(n=12, **changed):
    people = {
        "name": [f"{WORD}{i}" for i in range(n)],
        "grade": ["low", "high"] * (n // 2) + ["low"] * (n % 2),
        "x": [float(i) for i in range(n)],
        "lat": [10.0 + i for i in range(n)],
        "lon": [20.0] * n,
        "w": [1.0] * n,
        "day": np.array(["2024-05-01"] * n, dtype="M8[D]"),
    }
    return {name: column for name, column in {**people, **changed}.items() if column is not None}


BATCHES = {
    "no records": (
        make_people(0, x=np.empty(0), day=np.empty(0, "M8[D]")),
        DataError,
        "no records",
    ),
    "a column missing": (make_people(3, x=None), SchemaError, "lacks column 'x'"),
    "two columns missing": (make_people(3, x=None, w=None), SchemaError, "lacks columns 'x', 'w'"),
    "a column more": (make_people(3, extra=[1, 2, 3]), SchemaError, "has column 'extra'"),
    "text for numbers": (
        make_people(3, x=["a", WORD, "c"]),
        SchemaError,
        "'x' holds float values in the base and text",
    ),
    "numbers for text": (
        make_people(3, name=[1, 2, 3]),
        SchemaError,
        "'name' holds text values in the base and integer",
    ),
    "numbers for dates": (
        make_people(3, day=[1, 2, 3]),
        SchemaError,
        "'day' holds date values in the base and integer",
    ),
    "datetimes for dates": (
        make_people(3, day=np.array(["2024-05-01T10:00"] * 3, "M8[us]")),
        SchemaError,
        "'day' holds date values in the base and datetime",
    ),
    "booleans for numbers": (
        make_people(3, w=[True, False, True]),
        SchemaError,
        "'w' holds float values",
    ),
    "a category outside the order": (
        make_people(3, grade=["low", "high", WORD]),
        SchemaError,
        "'grade'.*row 3",
    ),
    "a missing value": (
        make_people(3, x=[1.0, None, NUMBER]),
        DataError,
        r"Missing values in 'x' \(1\)",
    ),
    "an infinite number": (
        make_people(3, x=[1.0, NUMBER, np.inf]),
        DataError,
        "'x' contains 1 infinite value.*row 3",
    ),
    "an impossible place": (
        make_people(3, lat=[NUMBER, 1.0, 2.0]),
        DataError,
        "'lat'.*not a latitude.*row 1",
    ),
    "a weight of 0": (
        make_people(3, w=[1.0, 0.0, 2.0]),
        DataError,
        "'w' must .* positive numbers.*row 2",
    ),
    "a weight that is missing": (make_people(3, w=[1.0, 1.0, None]), DataError, "'w'.*row 3"),
    "another kind of frame": (
        pl.DataFrame({"x": [NUMBER]}),
        TableError,
        "a dict of arrays, and these are a polars table",
    ),
    "no table": (17, TableError, "cannot be read from int"),
    "numbers too large to be floats": (
        make_people(3, x=[2**60, 2**60 + 1, 2**60 + 2]),
        SchemaError,
        "'x' holds float values in the base and integer",
    ),
}


@pytest.mark.parametrize("case", BATCHES)
@pytest.mark.parametrize("strategy", ["refined", "separate"])
def test_a_batch_that_does_not_fit_is_refused_and_changes_nothing(case, strategy):
    batch, kind, words = BATCHES[case]
    session = mc.increments.start(make_people(), SCHEMA, 3)
    before = session.state
    with pytest.raises(kind, match=words) as error:
        session.add(batch, strategy=strategy)
    assert WORD not in str(error.value)
    assert "918273" not in str(error.value)
    assert session.state is before
    session.add(make_people(4))
    assert len(session.finish().table["x"]) == 16


WRONG_WAYS = [
    ({"strategy": "best"}, "No strategy 'best'"),
    ({"strategy": None}, "No strategy None"),
    ({"inertial": "yes"}, "inertial must be true or false"),
]


@pytest.mark.parametrize(("way", "words"), WRONG_WAYS)
def test_an_unknown_way_of_adding_is_refused(way, words):
    with pytest.raises(OptionError, match=words):
        mc.increments.start(make_people(), SCHEMA, 3).add(make_people(3), **way)


STARTS = [
    ({"k": 13}, TooFewRecordsError, "12 records are too few to begin with"),
    ({"k": 1}, OptionError, "k must be 2 or more"),
    ({"k": 2.5}, OptionError, "k must be a whole number"),
    ({"method": "best"}, OptionError, "best"),
    ({"missing": "ignore"}, OptionError, "missing must be one of"),
    ({"seed": -1}, OptionError, "seed must be"),
    ({"gamma": 0.2}, OptionError, "gamma"),
    ({"refine": True}, OptionError, "'refined' instead"),
    ({"schema": mc.Schema(quasi=["y"], rest="drop")}, SchemaError, "'y'"),
    ({"schema": 5}, SchemaError, "must be a Schema"),
]


@pytest.mark.parametrize(("changed", "kind", "words"), STARTS)
def test_a_start_that_cannot_be_is_refused(changed, kind, words):
    given = {"base": make_people(), "schema": SCHEMA, "k": 3, **changed}
    with pytest.raises(kind, match=words):
        mc.increments.start(**given)


def test_a_base_that_has_too_few_complete_records_is_refused():
    with pytest.raises(TooFewRecordsError, match="2 records are too few"):
        mc.increments.start({"x": [1.0, 2.0, None]}, mc.Schema(quasi=["x"]), 3, missing="drop")


def test_refine_may_be_said_to_be_off():
    session = mc.increments.start(make_people(), SCHEMA, 3, refine=False)
    assert session.add(make_people(4), strategy="separate").records == 4


def test_categories_that_grow_too_many_are_refused_when_they_come_and_not_at_the_end():
    base = {"town": [f"{WORD}{i % 40}" for i in range(80)]}
    session = mc.increments.start(base, mc.Schema(quasi=["town"]), 3)
    with pytest.raises(SchemaError, match="'town' has") as error:
        session.add({"town": [f"{WORD}{i}" for i in range(100, 160)]})
    assert WORD not in str(error.value)
    assert len(session.finish().table["town"]) == 80


def test_time_zones_that_do_not_go_together_are_refused():
    times = pl.Series("t", [f"2024-05-0{day}" for day in range(1, 9)]).str.to_datetime()
    session = mc.increments.start(times.to_frame(), mc.Schema(quasi=["t"]), 2)
    with pytest.raises(MicrocellError, match="types"):
        session.add(times.dt.replace_time_zone("UTC").to_frame())
    assert session.records == 8


@pytest.mark.parametrize("scale", [1e-200, 1e-12, 1e12, 1e200])
def test_huge_and_tiny_scales(scale):
    random = np.random.default_rng(0)
    session = mc.increments.start({"x": random.normal(size=40) * scale}, mc.Schema(quasi=["x"]), 4)
    session.add({"x": random.normal(size=10) * scale})
    values, counts = np.unique(session.finish().table["x"], return_counts=True)
    assert np.isfinite(values).all()
    assert counts.min() >= 4
