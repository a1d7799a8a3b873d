"""Distortion per kind, by hand and against an independent computation."""

import datetime

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from microcell.errors import DataError
from microcell.measures.pairs import ColumnPairs
from microcell.measures.utility import column_losses, information_loss
from microcell.model import Column, Schema
from tests.raising import raises
from tests.small_tables import table, take


def distort(column, before, after, **more):
    schema = Schema(quasi=[column], **more.pop("schema", {}))
    original, released = table(x=before, **more), table(x=after, **more)
    return column_losses(ColumnPairs(original, released, schema, np.arange(original.rows)))[0].loss


NUMERIC = Column("x", kind="numeric", publish="mean")
NOMINAL = Column("x", kind="nominal")
CODE = Column("x", kind="code")


def test_the_worked_example():
    x, y = np.array([2.0, 3, 3, 20, 21]), np.array([8 / 3, 8 / 3, 8 / 3, 20.5, 20.5])
    expected = ((x - y) ** 2).sum() / ((x - x.mean()) ** 2).sum()
    assert distort(NUMERIC, x, y).share == pytest.approx(expected, rel=1e-12)


@given(
    arrays.arrays(np.float64, (12, 3), elements=st.floats(-100, 100).map(lambda x: round(x, 3))),
    st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_means_give_sse_over_sst_of_the_standardized_data(X, cells):
    assume(all(np.ptp(column) > 1e-2 for column in X.T))
    cells = np.array(cells)
    means = np.array([X[cells == cell].mean(axis=0) for cell in cells])
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    centroids = np.array([Z[cells == cell].mean(axis=0) for cell in cells])
    original = table(**{f"c{j}": X[:, j] for j in range(3)})
    released = table(**{f"c{j}": means[:, j] for j in range(3)})
    schema = Schema(quasi=[Column(f"c{j}", kind="numeric") for j in range(3)])
    actual = information_loss(column_losses(ColumnPairs(original, released, schema, np.arange(12))))
    assert actual == pytest.approx(((Z - centroids) ** 2).sum() / (Z**2).sum(), rel=1e-7, abs=1e-12)


@pytest.mark.parametrize(
    "scale, shift",
    [(1.0, 1.7e9), (1e300, 0.0), (1e-300, 0.0), (8e307, 0.0), (-1.0, 0.0), (1e-320, 0.0)],
)
def test_scale_and_shift_do_not_matter(scale, shift):
    x, y = np.array([0.0, 0.5, 1.0, 2.0]), np.array([0.25, 0.25, 1.5, 1.5])
    plain = distort(NUMERIC, x, y).share
    # Numbers of 1e-320 have few digits left to compare.
    assert distort(NUMERIC, x * scale + shift, y * scale + shift).share == pytest.approx(
        plain, rel=1e-3
    )


def test_large_integers_keep_their_spread():
    x, y = np.array([0, 1, 2, 3]), np.array([0, 0, 3, 3])
    assert distort(NUMERIC, x + 2**60, y + 2**60).share == pytest.approx(
        distort(NUMERIC, x, y).share
    )


def test_wild_published_values_give_a_large_number():
    share = distort(NUMERIC, [1.0, 2.0, 3.0], [1e308, -1e308, 0.0]).share
    assert 1e100 < share < np.inf


def test_ranges_count_as_their_midpoints():
    assert distort(
        NUMERIC, [20, 29, 40, 49], ["20-29", "20-29", "40-49", "40-49"]
    ).share == pytest.approx(distort(NUMERIC, [20, 29, 40, 49], [24.5, 24.5, 44.5, 44.5]).share)


def test_missing_originals_are_ignored_and_missing_releases_count_as_the_mean():
    whole = distort(NUMERIC, [1.0, 2.0, 6.0], [1.0, 2.0, 3.0])
    assert distort(NUMERIC, [1.0, 2.0, 6.0], [1.0, 2.0, None]).share == pytest.approx(whole.share)
    assert distort(NUMERIC, [1.0, 2.0, 6.0, None], [1.0, 2.0, 3.0, 99.0]).share == pytest.approx(
        whole.share
    )


@pytest.mark.parametrize(
    "column", [NUMERIC, NOMINAL, CODE, Column("x", kind="ordinal")], ids=lambda c: c.kind
)
def test_a_constant_column(column):
    assert distort(column, [7, 7, 7], [7, 7, 7]).constant
    assert distort(column, [None, None], [1, 1]).constant


@pytest.mark.parametrize("column", [NUMERIC, NOMINAL, CODE], ids=lambda c: c.kind)
def test_a_changed_constant_column_has_full_loss(column):
    loss = distort(column, [7, 7, 7], [7, 7, 8])
    assert (loss.share, loss.constant) == (1.0, False)


def test_dates():
    days = [datetime.date(2020, 1, day) for day in (1, 3, 11, 13)]
    means = [datetime.date(2020, 1, day) for day in (2, 2, 12, 12)]
    assert distort(Column("x", kind="datetime"), days, means).share == pytest.approx(
        4 / (36 + 16 + 16 + 36)
    )


def test_ordinal_counts_ranks():
    column = Column("x", kind="ordinal", order=("low", "mid", "high"))
    loss = distort(column, ["low", "low", "mid", "high"], ["low", "low", "high", "high"])
    ranks = np.array([0, 0, 1, 2])
    assert loss.share == pytest.approx(1 / ((ranks - ranks.mean()) ** 2).sum())


def test_nominal_counts_changes():
    assert distort(
        NOMINAL, ["a", "a", "a", "b", "c"], ["a", "a", "a", "a", "c"]
    ).share == pytest.approx(1 / 2)
    assert distort(NOMINAL, ["a", "a", "a", "b", "c"], ["a"] * 5).share == pytest.approx(1)
    assert distort(
        NOMINAL, ["a", "a", "a", "b", "c"], ["a", "a", "a", "b", "new"]
    ).share == pytest.approx(1 / 2)
    assert distort(
        NOMINAL, ["a", "a", "a", "b", "c"], [None, "a", "a", "b", None]
    ).share == pytest.approx(1 / 2)


def test_codes_count_masked_characters():
    before = ["94110", "94121", "93001", "93055"]
    after = ["941**", "941**", "930**", "930**"]
    assert distort(CODE, before, after).share == pytest.approx((4 * 2 / 5) / (4 * 4 / 5))
    assert distort(CODE, before, ["9****"] * 4).share == pytest.approx(1)
    assert distort(CODE, before, ["94***"] * 4).lost == pytest.approx(3 / 5 + 3 / 5 + 1 + 1)
    assert distort(CODE, before, [None, *before[1:]]).lost == pytest.approx(1)
    assert distort(CODE, before, ["94", *before[1:]]).lost == pytest.approx(3 / 5)


def test_codes_stored_as_numbers():
    assert distort(CODE, [94110, 94121], ["941**", "941**"]).share == pytest.approx(1)


def test_codes_of_several_lengths():
    loss = distort(CODE, ["AB1", "AB123"], ["AB1**", "AB1**"])
    assert loss.share == pytest.approx(1)
    assert loss.lost == pytest.approx(2 * 2 / 5)


def test_a_location_counts_squared_chords_and_counts_twice():
    home = Column("home", kind="location", latitude="lat", longitude="lon")
    schema = Schema(quasi=[home, Column("x", kind="numeric")])
    original = table(lat=[10.0, 11.0, 50.0, 51.0], lon=[179.5, -179.5, 0.0, 1.0], x=[1, 2, 3, 4])
    released = table(lat=[10.5, 10.5, 50.5, 50.5], lon=[180.0, -180.0, 0.5, 0.5], x=[1, 2, 3, 4])
    actual = column_losses(ColumnPairs(original, released, schema, np.arange(4)))
    assert 0 < actual[0].loss.share < 1e-3
    assert information_loss(actual) == pytest.approx(actual[0].loss.share * 2 / 3)


def test_a_location_published_as_one_point_has_full_loss():
    home = Column("home", kind="location", latitude="lat", longitude="lon")
    original = table(lat=[0.0, 0.0], lon=[10.0, 20.0])
    schema = Schema(quasi=[home])
    for released in (
        table(lat=[0.0, 0.0], lon=[15.0, 15.0]),
        table(lat=[None, None], lon=[15.0, 15.0]),
    ):
        actual = column_losses(ColumnPairs(original, released, schema, np.arange(2)))
        assert actual[0].loss.share == pytest.approx(1)


def test_column_weights_apply_and_constant_columns_are_ignored():
    schema = Schema(
        quasi=[
            Column("a", kind="numeric", weight=3),
            Column("b", kind="nominal"),
            Column("c", kind="numeric", weight=100),
        ]
    )
    original = table(a=[1, 2], b=["x", "y"], c=[5, 5])
    released = table(a=[1, 2], b=["x", "x"], c=[5, 5])
    actual = column_losses(ColumnPairs(original, released, schema, np.arange(2)))
    assert information_loss(actual) == pytest.approx(1 / 4)
    assert information_loss(actual[2:]) == 0


def test_a_sampling_weight_counts_like_repeated_records():
    x, y, w = [1.0, 2.0, 6.0], [1.5, 1.5, 6.0], [1, 2, 3]
    weighted = distort(NUMERIC, x, y, schema={"weight": "w"}, w=w)
    repeated = distort(NUMERIC, np.repeat(x, w), np.repeat(y, w))
    assert weighted.share == pytest.approx(repeated.share)


@pytest.mark.parametrize("weight", [-1.0, None, np.inf])
def test_an_invalid_weight_is_rejected_by_row(weight):
    with raises(DataError, "data.bad_weight", column="w", row=2):
        distort(NUMERIC, [1, 2], [1, 2], schema={"weight": "w"}, w=[1.0, weight])


CELLS = {
    "n": st.one_of(st.none(), st.integers(-5, 5)),
    "f": st.one_of(st.none(), st.floats(-1e6, 1e6)),
    "t": st.one_of(st.none(), st.sampled_from(["94110", "94121", "93", "8"])),
    "o": st.one_of(st.none(), st.sampled_from(["low", "mid", "high"])),
    "lat": st.floats(-90, 90),
    "lon": st.floats(-180, 180),
}
COLUMNS = [
    Column("n", kind="numeric"),
    Column("f", kind="numeric", weight=2),
    Column("t", kind="code"),
    Column("o", kind="ordinal", order=("low", "mid", "high")),
    Column("home", kind="location", latitude="lat", longitude="lon"),
]
ROWS = st.lists(
    st.fixed_dictionaries(
        {"before": st.fixed_dictionaries(CELLS), "after": st.fixed_dictionaries(CELLS)}
    )
)


def both(rows):
    return tuple(
        table(**{name: [row[side][name] for row in rows] for name in CELLS})
        for side in ("before", "after")
    )


@given(ROWS.filter(len), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_does_not_matter(rows, random):
    original, released = both(rows)
    pairs = np.arange(len(rows))
    straight = column_losses(ColumnPairs(original, released, Schema(quasi=COLUMNS), pairs))
    columns = random.sample(COLUMNS, len(COLUMNS))
    order = np.array(random.sample(range(len(rows)), len(rows)))
    shuffled = column_losses(
        ColumnPairs(original, take(released, order), Schema(quasi=columns), order)
    )
    other = {item.column.name: item.loss.share for item in shuffled}
    for item in straight:
        assert item.loss.share == pytest.approx(other[item.column.name], rel=1e-6, abs=1e-9)
    assert information_loss(straight) == pytest.approx(
        information_loss(shuffled), rel=1e-6, abs=1e-9
    )


@given(ROWS.filter(len))
def test_an_unchanged_table_has_no_loss(rows):
    original, _ = both(rows)
    actual = column_losses(
        ColumnPairs(original, original, Schema(quasi=COLUMNS), np.arange(len(rows)))
    )
    assert [item.loss.share for item in actual] == [0] * len(COLUMNS)
    assert information_loss(actual) == 0


@given(arrays.arrays(np.float64, (8, 2), elements=st.floats(-1e6, 1e6)))
def test_negating_a_column_does_not_matter(points):
    before, after = points.T
    assert distort(NUMERIC, -before, -after).share == pytest.approx(
        distort(NUMERIC, before, after).share, rel=1e-9
    )
