"""Distributions of columns and the projection of records."""

import datetime

import numpy as np
import pytest

from microcell.auditing.views import compare_columns, project
from microcell.measures.pairs import ColumnPairs
from microcell.model import Column, Schema, Values
from tests.small_tables import table


def compare(column, before, after):
    result = compare_columns(ColumnPairs(table(x=before), table(x=after), Schema(quasi=[column])))
    assert len(result) <= 1
    return result[0] if result else None


def test_every_number_is_counted_once():
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    result = compare(Column("x", kind="numeric"), x, np.full(500, x.mean()))
    assert len(result.before) == len(result.edges) - 1 == 20
    assert result.before.sum() == result.after.sum() == 500
    assert result.before.tolist() == np.histogram(x, 20)[0].tolist()


def test_intervals_of_whole_numbers_start_at_whole_numbers():
    result = compare(Column("x", kind="numeric"), list(range(18, 90)), ["18-53"] * 72)
    assert result.edges[0] == 18
    assert set(np.diff(result.edges)) == {4}
    assert result.after.tolist().index(72) == (35 - 18) // 4
    few = compare(Column("x", kind="numeric"), [1, 2, 2, 4], [2, 2, 2, None])
    assert few.before.tolist() == [1, 2, 0, 1]
    assert few.after.tolist() == [0, 3, 0, 0]


@pytest.mark.parametrize(
    "before",
    [[5.0, 5.0], [-1.7e308, 1.7e308], [1.7e9, 1.7e9 + 1], [1e300, 1e300], [2**62 - 1, -(2**62)]],
)
def test_extreme_numbers_are_counted(before):
    result = compare(Column("x", kind="numeric"), before, before)
    assert result.before.sum() == result.after.sum() == 2
    assert np.isfinite(result.edges).all()


def test_dates_keep_their_unit():
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 12, 31)]
    result = compare(Column("x", kind="datetime"), days, days)
    assert result.unit == "D"
    assert result.edges[0] == np.datetime64("2020-01-01").astype(int)


def test_times_of_day_are_in_seconds():
    noon = Values("time", np.array([43_200_000_000_000, 0]), np.zeros(2, dtype=bool), unit="ns")
    result = compare(Column("x", kind="datetime"), noon, noon)
    assert result.unit == "seconds"
    assert result.edges[0] == 0
    assert result.edges[-1] >= 43_200


def test_categories_are_sorted_by_frequency_with_others_and_missing_last():
    before = [
        letter for place, letter in enumerate("abcdefghijklmnop") for _ in range(20 - place)
    ] + [None]
    result = compare(Column("x", kind="nominal"), before, ["b"] * len(before))
    assert result.labels[:3] == ("a", "b", "c")
    assert result.labels[-2:] == ("other", "(missing)")
    assert len(result.labels) == 14
    assert result.before.sum() == result.after.sum() == len(before)


def test_ordered_categories_stay_in_order():
    column = Column("x", kind="ordinal", order=("low", "mid", "high"))
    result = compare(column, ["high", "high", "low", "mid"], ["high", "high", "mid", "mid"])
    assert result.labels == ("low", "mid", "high")
    assert result.after.tolist() == [0, 2, 2]


def test_codes_are_counted_by_their_first_characters():
    before = [f"08{number:03d}" for number in range(40)]
    result = compare(Column("x", kind="code"), before, ["080**"] * 40)
    assert dict(zip(result.labels, result.before.tolist(), strict=True)) == {
        "0800*": 10, "0801*": 10, "0802*": 10, "0803*": 10, "080**": 0
    }  # fmt: skip
    assert result.after.sum() == 40
    assert result.labels == tuple(sorted(result.labels))
    missing = compare(Column("x", kind="code"), ["94110", None], [None, "94110"])
    assert missing.labels == ("94110", "(missing)")


def test_columns_without_values_are_omitted_and_locations_have_two_distributions():
    schema = Schema(
        quasi=[
            Column("e", kind="numeric"),
            Column("home", kind="location", latitude="lat", longitude="lon"),
        ]
    )
    source = table(e=[None, None], lat=[1.0, 2.0], lon=[3, 4])
    assert [item.name for item in compare_columns(ColumnPairs(source, source, schema))] == [
        "lat",
        "lon",
    ]
    assert compare(Column("x", kind="nominal"), [None], [None]) is None


MIXED = Schema(
    quasi=[
        Column("a", kind="numeric"),
        Column("b", kind="nominal"),
        Column("o", kind="ordinal", order=("low", "high")),
        Column("z", kind="code"),
        Column("home", kind="location", latitude="lat", longitude="lon"),
    ]
)


def mixed(rows):
    rng = np.random.default_rng(2)
    return table(
        a=[None, *rng.normal(size=rows - 1).tolist()],
        b=[None, *rng.choice(["x", "y", "z"], rows - 1).tolist()],
        o=rng.choice(["low", "high"], rows),
        z=rng.choice(["94110", "94121"], rows),
        lat=rng.uniform(-80, 80, rows),
        lon=rng.uniform(-180, 180, rows),
    )


def test_unchanged_records_are_projected_to_the_same_points():
    source = mixed(50)
    result = project(ColumnPairs(source, source, MIXED, np.arange(50)), np.arange(50))
    np.testing.assert_allclose(result.before, result.after)
    assert result.before.shape == (50, 2)
    assert result.records == 50
    assert 1 >= result.explained[0] >= result.explained[1] > 0


def test_numbers_are_projected_on_their_principal_components():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3))
    source = table(a=X[:, 0], b=X[:, 1], c=X[:, 2])
    schema = Schema(quasi=[Column(name, kind="numeric") for name in "abc"])
    result = project(
        ColumnPairs(source, source, schema, np.arange(300)), np.zeros(300, dtype=np.int64)
    )
    U, S, _ = np.linalg.svd((X - X.mean(axis=0)) / X.std(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.abs(result.before), np.abs(U[:, :2] * S[:2]), atol=1e-9)
    np.testing.assert_allclose(result.explained, (S**2 / (S**2).sum())[:2])


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_loading_of_each_component_is_positive(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3))
    source = table(a=X[:, 0], b=X[:, 1], c=X[:, 2])
    schema = Schema(quasi=[Column(name, kind="numeric") for name in "abc"])
    result = project(
        ColumnPairs(source, source, schema, np.arange(60)), np.zeros(60, dtype=np.int64)
    )
    for component in (0, 1):
        loadings = np.corrcoef(result.before[:, component], X.T)[0, 1:]
        assert loadings[np.abs(loadings).argmax()] > 0


def test_at_most_2000_records_are_shown():
    source = table(a=np.arange(45_000.0))
    schema = Schema(quasi=[Column("a", kind="numeric")])
    result = project(ColumnPairs(source, source, schema, np.arange(45_000)), np.arange(45_000))
    assert result.before.shape == (2000, 2)
    assert (result.before[:, 1] == 0).all()
    assert result.explained == (1.0, 0.0)
    assert result.records == 45_000
    assert result.classes[0] == 0
    assert result.classes[-1] == 44_999


def test_identical_records_have_no_projection():
    source = table(a=[1, 1], b=["x", "x"])
    schema = Schema(quasi=[Column("a", kind="numeric"), Column("b", kind="nominal")])
    assert (
        project(ColumnPairs(source, source, schema, np.arange(2)), np.zeros(2, dtype=np.int64))
        is None
    )
