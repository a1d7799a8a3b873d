"""The first pass over parts gives the same encoding as a fit of all records, up to rounding."""

from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell import encoding, tables
from microcell.dask.first_pass import combine, fit_encoding, summarize_table
from microcell.errors import DataError, SchemaError
from microcell.model import Column, Schema
from microcell.schema import resolve
from tests.dask.running import pa
from tests.raising import raises

NEAR = 1e-12


def summarize_in_parts(native, schema, cuts, share=0.5):
    bounds = [0, *sorted(cuts), native.num_rows]
    parts = [native.slice(a, b - a) for a, b in pairwise(bounds) if b > a]
    generators = [np.random.default_rng([0, number]) for number in range(len(parts))]
    return combine(
        [
            summarize_table(tables.read(part), schema, part.num_rows, rng, share)
            for part, rng in zip(parts, generators, strict=True)
        ]
    )


def compare(native, schema, cuts=(3, 10)):
    table = tables.read(native)
    schema = resolve.resolve(schema, table)
    result = fit_encoding(summarize_in_parts(native, schema, cuts), schema)
    expected = encoding.fit(table, schema)
    for one, other in zip(result.columns, expected.columns, strict=True):
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
            # Origins are equal unless the mean lies midway between two round numbers.
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
    difference = encoding.place(table, result).matrix - encoding.place(table, expected).matrix
    assert np.abs(difference).max(initial=0.0) < 1e-11


numbers = st.one_of(
    st.floats(-1e6, 1e6),
    st.sampled_from([1e300, -1e300, 1e-300, 2e-300, 0.0, -0.0, 1.7e308, -1.7e308]),
)


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


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=30), st.integers(1, 29))
def test_integers_of_all_sizes(values, cut):
    compare(
        pa.table({"x": pa.array(values, pa.int64())}),
        Schema(quasi=["x"]),
        [cut] if cut < len(values) else [],
    )


def test_a_mean_midway_between_two_round_numbers():
    compare(pa.table({"x": [0, 0, -1, 55]}), Schema(quasi=["x"]), [1])


@given(st.lists(st.sampled_from("abcdefg"), min_size=2, max_size=60), st.integers(1, 59))
def test_categories(values, cut):
    cuts = [cut] if cut < len(values) else []
    native = pa.table({"x": values, "y": values, "z": [f"94{ord(value)}" for value in values]})
    quasi = ["x", Column("y", kind="ordinal", order=tuple("gfedcba")), Column("z", kind="code")]
    compare(native, Schema(quasi=quasi), cuts)


def test_every_kind_at_once():
    rng = np.random.default_rng(3)
    n = 500
    days = [date(2000, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 9000, n)]
    native = pa.table(
        {
            "age": rng.integers(0, 90, n),
            "born": days,
            "seen": pa.array(rng.integers(0, 10**15, n), pa.timestamp("us")),
            "town": rng.choice([f"{code:05d}" for code in rng.integers(10_000, 99_999, 80)], n),
            "grade": rng.integers(1, 6, n),
            "job": rng.choice([f"job {number}" for number in range(90)], n),
            "member": rng.random(n) < 0.3,
            "lat": rng.normal(48.1, 0.01, n),
            "lon": rng.normal(11.5, 0.01, n),
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
    parts = [summarize_in_parts(native.slice(at, 100), schema, []) for at in (0, 100, 200)]
    one, other = (fit_encoding(combine(order), schema).columns[0] for order in (parts, parts[::-1]))
    assert (one.origin, one.centre[0], one.scale[0]) == (
        other.origin,
        other.centre[0],
        other.scale[0],
    )


def test_the_sample_is_a_share_of_the_rows():
    native = pa.table({"x": np.arange(10_000)})
    schema = resolve.resolve(Schema(quasi=["x"]), tables.read(native))
    sample = summarize_in_parts(native, schema, [2000], share=0.1).sample
    assert 850 < sample.num_rows < 1150
    assert len(set(sample.column("x").to_pylist())) == sample.num_rows


def test_strata_are_counted():
    native = pa.table(
        {"x": [1.0, 2, 3, 4], "s": ["a", None, "a", None], "t": [1.0, 0.0, 1.0, -0.0]}
    )
    schema = resolve.resolve(Schema(quasi=["x"], strata=["s", "t"]), tables.read(native))
    assert summarize_in_parts(native, schema, [1]).strata == {("a", "1"): 2, (None, "0"): 2}


def test_too_many_categories_are_rejected():
    native = pa.table({"x": [f"word {number}" for number in range(80)] * 2})
    table = tables.read(native)
    schema = resolve.resolve(Schema(quasi=["x"]), table)
    encoding.fit(table, schema)
    fit_encoding(summarize_in_parts(native, schema, [40]), schema)
    native = native.slice(0, 159)
    for fit in (
        lambda: encoding.fit(tables.read(native), schema),
        lambda: fit_encoding(summarize_in_parts(native, schema, [40]), schema),
    ):
        with raises(SchemaError, "schema.wrong_kind", column="x"):
            fit()


def test_invalid_values_are_rejected():
    numeric = Schema(quasi=[Column("x", kind="numeric", publish="mean")])
    with raises(DataError, "data.not_finite", column="x"):
        summarize_in_parts(pa.table({"x": [1.0, np.inf]}), numeric, [])
    weighted = resolve.resolve(
        Schema(quasi=["x"], weight="w"), tables.read(pa.table({"x": [1.0], "w": [1.0]}))
    )
    with raises(DataError, "data.bad_weight"):
        summarize_in_parts(pa.table({"x": [1.0, 2.0], "w": [1.0, -1.0]}), weighted, [])
