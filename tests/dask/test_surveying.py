"""One pass in parts against one fit of all records: the same encoding but for rounding."""

from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microcell import encoding, tables
from microcell.dask.first_pass import encode_survey, survey_table, unite
from microcell.errors import DataError, SchemaError
from microcell.model import Column, Schema
from microcell.schema import resolve
from tests.dask.running import pa

NEAR = 1e-12


def survey_in_parts(native, schema, cuts, share=0.5):
    bounds = [0, *sorted(cuts), native.num_rows]
    parts = [native.slice(a, b - a) for a, b in pairwise(bounds) if b > a]
    chance = [np.random.default_rng([0, number]) for number in range(len(parts))]
    return unite(
        [
            survey_table(tables.read(part), schema, part.num_rows, own, share)
            for part, own in zip(parts, chance, strict=True)
        ]
    )


def compare(native, schema, cuts=(3, 10)):
    table = tables.read(native)
    schema = resolve.resolve(schema, table)
    found = encode_survey(survey_in_parts(native, schema, cuts), schema)
    expected = encoding.fit(table, schema)
    for one, other in zip(found.columns, expected.columns, strict=True):
        for name in (
            "name",
            "kind",
            "parts",
            "storage",
            "unit",
            "weight",
            "first",
            "exponent",
            "names",
        ):
            assert getattr(one, name) == getattr(other, name), name
        assert type(one.origin) is type(other.origin)
        np.testing.assert_allclose(one.scale, other.scale, rtol=NEAR)
        slack = NEAR * (other.scale if one.kind != "location" and len(other.scale) else 1.0)
        if one.kind in ("numeric", "datetime") and len(one.centre):
            # Origins are the same but where the mean lies midway between two round numbers.
            midway = (np.abs(one.centre + other.centre) <= slack).all()
            assert midway or one.origin == pytest.approx(other.origin, rel=NEAR)
            assert (
                np.abs(float(one.origin - other.origin) + one.centre - other.centre) <= slack
            ).all()
        else:
            assert one.origin == other.origin
            assert (np.abs(one.centre - other.centre) <= slack).all()
        np.testing.assert_allclose(one.places, other.places, rtol=1e-11, atol=1e-11)
        assert (one.counts is None) == (other.counts is None)
        if one.counts is not None:
            np.testing.assert_array_equal(one.counts, other.counts)
    difference = encoding.place(table, found).matrix - encoding.place(table, expected).matrix
    assert np.abs(difference).max(initial=0.0) < 1e-11


numbers = st.one_of(
    st.floats(-1e6, 1e6),
    st.sampled_from([1e300, -1e300, 1e-300, 2e-300, 0.0, -0.0, 1.7e308, -1.7e308]),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.none(), numbers), min_size=1, max_size=30),
    st.sets(st.integers(1, 29), max_size=4),
)
def test_floats_of_all_sizes(values, cuts):
    native = pa.table({"x": pa.array(values, pa.float64())})
    compare(
        native,
        Schema(quasi=[Column("x", kind="numeric")]),
        [cut for cut in cuts if cut < len(values)],
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=30), st.integers(1, 29))
def test_whole_numbers_of_all_sizes(values, cut):
    compare(
        pa.table({"x": pa.array(values, pa.int64())}),
        Schema(quasi=["x"]),
        [cut] if cut < len(values) else [],
    )


def test_a_mean_midway_between_two_round_numbers():
    compare(pa.table({"x": [0, 0, -1, 55]}), Schema(quasi=["x"]), [1])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abcdefg"), min_size=2, max_size=60), st.integers(1, 59))
def test_categories(values, cut):
    cuts = [cut] if cut < len(values) else []
    native = pa.table({"x": values, "y": values, "z": [f"94{ord(value)}" for value in values]})
    quasi = ["x", Column("y", kind="ordinal", order=tuple("gfedcba")), Column("z", kind="code")]
    compare(native, Schema(quasi=quasi), cuts)


def test_every_kind_at_once():
    chance = np.random.default_rng(3)
    n = 500
    days = [date(2000, 1, 1) + timedelta(days=int(day)) for day in chance.integers(0, 9000, n)]
    native = pa.table(
        {
            "age": chance.integers(0, 90, n),
            "born": days,
            "seen": pa.array(chance.integers(0, 10**15, n), pa.timestamp("us")),
            "town": chance.choice(
                [f"{code:05d}" for code in chance.integers(10_000, 99_999, 80)], n
            ),
            "grade": chance.integers(1, 6, n),
            "job": chance.choice([f"job {number}" for number in range(90)], n),
            "member": chance.random(n) < 0.3,
            "lat": chance.normal(48.1, 0.01, n),
            "lon": chance.normal(11.5, 0.01, n),
            "same": np.ones(n),
            "none": pa.array([None] * n, pa.float64()),
        }
    )
    quasi = [
        "age",
        "born",
        "seen",
        Column("town", kind="code", weight=2.0),
        Column("grade", kind="ordinal"),
        "job",
        "member",
        Column("home", kind="location", latitude="lat", longitude="lon"),
        Column("same", kind="numeric"),
        Column("none", kind="numeric"),
    ]
    compare(native, Schema(quasi=quasi), (1, 77, 200, 201))


def test_the_order_of_parts_does_not_matter():
    native = pa.table({"x": np.random.default_rng(0).normal(size=300) * 1e9 + 1e15})
    schema = resolve.resolve(Schema(quasi=["x"]), tables.read(native))
    parts = [survey_in_parts(native.slice(at, 100), schema, []) for at in (0, 100, 200)]
    one, other = (encode_survey(unite(order), schema).columns[0] for order in (parts, parts[::-1]))
    assert (one.origin, one.centre[0], one.scale[0]) == (
        other.origin,
        other.centre[0],
        other.scale[0],
    )


def test_the_sample_is_a_share_of_the_rows():
    native = pa.table({"x": np.arange(10_000)})
    schema = resolve.resolve(Schema(quasi=["x"]), tables.read(native))
    sample = survey_in_parts(native, schema, [2000], share=0.1).sample
    assert 850 < sample.num_rows < 1150
    assert len(set(sample.column("x").to_pylist())) == sample.num_rows


def test_strata_are_counted():
    native = pa.table(
        {"x": [1.0, 2, 3, 4], "s": ["a", None, "a", None], "t": [1.0, 0.0, 1.0, -0.0]}
    )
    schema = resolve.resolve(Schema(quasi=["x"], strata=["s", "t"]), tables.read(native))
    assert survey_in_parts(native, schema, [1]).strata == {("a", "1"): 2, (None, "0"): 2}


def test_too_many_categories_are_refused():
    native = pa.table({"x": [f"word {number}" for number in range(80)] * 2})
    table = tables.read(native)
    schema = resolve.resolve(Schema(quasi=["x"]), table)
    encoding.fit(table, schema)
    encode_survey(survey_in_parts(native, schema, [40]), schema)
    native = native.slice(0, 159)
    for fit in (
        lambda: encoding.fit(tables.read(native), schema),
        lambda: encode_survey(survey_in_parts(native, schema, [40]), schema),
    ):
        with pytest.raises(SchemaError, match="80 categories in 159 records"):
            fit()


def test_bad_values_are_refused():
    for values, message in (([1.0, np.inf], "infinite"),):
        with pytest.raises(DataError, match=message):
            survey_in_parts(
                pa.table({"x": values}),
                Schema(quasi=[Column("x", kind="numeric", publish="mean")]),
                [],
            )
    weighted = resolve.resolve(
        Schema(quasi=["x"], weight="w"), tables.read(pa.table({"x": [1.0], "w": [1.0]}))
    )
    with pytest.raises(DataError, match="positive"):
        survey_in_parts(pa.table({"x": [1.0, 2.0], "w": [1.0, -1.0]}), weighted, [])
