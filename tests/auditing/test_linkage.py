"""Linkage: what an attacker finds again who knows the original quasi-identifiers."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import DataError
from microcell.kernels.arrays import distinct_rows
from microcell.kinds.pairs import ColumnPoints
from microcell.measures import attacks
from microcell.measures.attacks import (
    LinkagePoints,
    link_records,
    read_linkage_points,
)
from microcell.measures.classes import class_labels
from microcell.measures.evaluate import evaluate
from microcell.measures.pairs import ColumnPairs
from microcell.measures.registry import measures
from microcell.model import Column, Schema
from tests.raising import raises
from tests.small_tables import table


def single(dimensions):
    return [slice(j, j + 1) for j in range(dimensions)]


def linked(before, after, blocks=None, classes=None, unchanged=(), names=None, **options):
    blocks = single(before.shape[1]) if blocks is None else blocks
    classes = distinct_rows(after).place if classes is None else classes
    names = tuple(f"q{at}" for at in range(len(blocks))) if names is None else tuple(names)
    rows = np.arange(len(before))
    columns = [
        ColumnPoints(np.vstack((before[:, block], after[:, block])), rows, len(before) + rows)
        for block in blocks
    ]
    return link_records(LinkagePoints(names, tuple(columns), tuple(unchanged)), classes, **options)


def evaluate_links(links):
    definitions = [item for item in measures().values() if item.section == "linkage"]
    return evaluate(SimpleNamespace(links=links, pairs=()), definitions)


def measured(*points, **options):
    return evaluate_links(linked(*points, **options))


def cells(n, dimensions, k, seed=0):
    """Points and the means of k of them that lie together on a line."""
    before = np.random.default_rng(seed).normal(size=(n, dimensions))
    before = before[np.argsort(before.sum(axis=1))]
    return before, np.repeat(before.reshape(n // k, k, dimensions).mean(axis=1), k, axis=0)


def link_plainly(before, after):
    """The expected share of right links, by a loop over all pairs of records."""
    total = 0.0
    for at, record in enumerate(before):
        distances = np.sqrt(((after - record) ** 2).sum(axis=1))
        nearest = distances <= distances.min() * (1 + 1e-12)
        total += nearest[at] / nearest.sum()
    return total / len(before)


@st.composite
def releases(draw):
    """Records on a grid and any classes, each published at some point of the grid."""
    n, dimensions = draw(st.integers(1, 25)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    before = rng.integers(0, 4, size=(n, dimensions)).astype(float)
    classes = rng.integers(0, draw(st.integers(1, n)), size=n)
    return before, rng.integers(0, 7, size=(n, dimensions))[classes] / 2, classes


def test_an_unchanged_release_links_every_record():
    before, _ = cells(60, 3, 3)
    actual = measured(before, before)
    assert {name: measure.value for name, measure in actual.items()} == dict.fromkeys(
        ["linkage", "linkage_one", "linkage_two", "linkage_some", "dld", "interval_disclosure"], 1.0
    )
    assert all(measure.lower_is_better and measure.unit == "share" for measure in actual.values())


def test_identical_records_link_one_in_n():
    before, _ = cells(60, 3, 3)
    actual = measured(before, np.zeros_like(before))
    for name in ("linkage", "linkage_one", "linkage_two", "linkage_some"):
        assert actual[name].value == pytest.approx(1 / 60)


@given(releases())
def test_linkage_matches_a_plain_loop(release):
    before, after, classes = release
    actual = measured(before, after, classes=classes)
    m = before.shape[1]
    assert actual["linkage"].value == pytest.approx(link_plainly(before, after))
    assert actual["linkage_one"].value == pytest.approx(
        max(link_plainly(before[:, [j]], after[:, [j]]) for j in range(m))
    )
    if m > 1:
        pairs = [list(pair) for pair in combinations(range(m), 2)]
        assert actual["linkage_two"].value == pytest.approx(
            max(link_plainly(before[:, pair], after[:, pair]) for pair in pairs)
        )


@given(releases())
def test_linkage_is_at_most_classes_over_records(release):
    before, after, classes = release
    sizes = np.unique(classes, return_counts=True)[1]
    for name, measure in measured(before, after, classes=classes).items():
        if name.startswith("linkage"):
            assert measure.value <= len(sizes) / len(before) + 1e-12 <= 1 / sizes.min() + 1e-9


@given(releases(), st.randoms(use_true_random=False))
def test_order_of_rows_and_columns_does_not_matter(release, random):
    before, after, classes = release
    rows, columns = list(range(len(before))), list(range(before.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    plain = measured(before, after, classes=classes)
    moved = measured(
        before[np.ix_(rows, columns)],
        after[np.ix_(rows, columns)],
        classes=classes[rows],
        names=[f"q{at}" for at in columns],
    )
    for name in plain:
        assert moved[name].value == pytest.approx(plain[name].value)


@pytest.mark.parametrize("dimensions", [2, 12])
def test_interval_of_a_sample_covers_the_whole(dimensions):
    before, after = cells(2_000, dimensions, 2)
    blocks = [slice(0, 1), slice(1, dimensions)]
    exact = measured(before, after, blocks)
    covered = 0
    for seed in range(20):
        actual = measured(before, after, blocks, seed=seed, max_records=250)
        low, high = actual["linkage"].interval
        covered += low <= exact["linkage"].value <= high
        assert 0 <= low <= actual["linkage"].value <= high <= 1
    assert exact["linkage"].interval is None
    assert covered >= 18


def test_a_sample_is_reported_as_such():
    before, after = cells(4_000, 2, 2)
    assert "sample" not in measured(before, after)["linkage"].meaning
    assert measured(before, after, max_records=500)["linkage"].meaning.endswith(
        "Estimated from a sample of 500 records."
    )


def test_no_set_of_columns_is_tried_twice(monkeypatch):
    tried = []
    link = attacks._link_by_subset
    monkeypatch.setattr(
        attacks,
        "_link_by_subset",
        lambda attack, subset, *rest: tried.append(subset) or link(attack, subset, *rest),
    )
    linked(*cells(60, 6, 3))
    assert len(tried) == len(set(tried))
    assert all(subset == tuple(sorted(subset)) for subset in tried)


def test_averaged_column_sets_share_the_sample_of_one(monkeypatch):
    """Ten subsets each of 11 to 13 columns may together cost no more than all 14 columns."""
    n, columns, most = 600, 14, 300
    tried, link = [], attacks._link_by_subset

    def spy(attack, subset, *rest):
        estimate = link(attack, subset, *rest)
        tried.append((len(subset), estimate.records))
        return estimate

    before, after = cells(n, columns, 2)
    points = len(np.unique(after, axis=0))
    monkeypatch.setattr(attacks, "_link_by_subset", spy)
    monkeypatch.setattr(attacks, "_MAX_COMPARISONS", points * columns * most)
    monkeypatch.setattr(attacks, "_MIN_RECORDS", 1)
    monkeypatch.setattr(attacks, "_draw_any_size", lambda *_: [(0,)])
    linked(before, after)
    work = dict.fromkeys(range(1, columns + 1), 0)
    for n_known, records in tried:
        work[n_known] += n_known * records
    assert (columns, most) in tried
    assert all(0 < work[n_known] <= columns * most for n_known in (11, 12, 13, 14))
    assert work[10] >= n * 10  # as many as a tree can search are all searched


def test_the_same_seed_gives_the_same_measures():
    before, after = cells(600, 5, 3)
    assert measured(before, after, seed=3, max_records=100) == measured(
        before, after, seed=3, max_records=100
    )


def test_linkage_by_known_ends_in_linkage():
    before, after = cells(300, 6, 3)
    by_known = linked(before, after).by_known
    assert len(by_known) == 6
    assert by_known[-1] == measured(before, after)["linkage"].value
    ones = [link_plainly(before[:, [j]], after[:, [j]]) for j in range(6)]
    assert by_known[0] == pytest.approx(np.mean(ones))


def test_interval_disclosure_counts_ranks():
    before = np.arange(200.0)[:, None]
    after = before + np.where(np.arange(200) % 2, 2, 3)[:, None]
    assert measured(before, after)["interval_disclosure"].value == pytest.approx(
        103 / 200, abs=0.02
    )
    assert measured(before, before * 0 - 1)["interval_disclosure"].value == pytest.approx(2 / 200)


@given(releases())
def test_interval_disclosure_matches_a_plain_loop(release):
    before, after, classes = release
    n, shares = len(before), []
    for j in range(before.shape[1]):
        places = [
            [np.sum(before[:, j] < x) + np.sum(before[:, j] <= x) for x in side[:, j]]
            for side in (before, after)
        ]
        shares.append(sum(abs(a - b) / 2 <= 0.01 * n for a, b in zip(*places, strict=True)) / n)
    actual = measured(before, after, classes=classes)["interval_disclosure"].value
    assert actual == pytest.approx(sum(shares) / len(shares))


def test_interval_disclosure_ignores_columns_published_unchanged():
    before, after = cells(90, 2, 3)
    after[:, 1] = before[:, 1]
    options = {"classes": np.arange(90)}
    kept = measured(before, after, unchanged=["q1"], **options)["interval_disclosure"].value
    assert measured(before, after, **options)["interval_disclosure"].value == pytest.approx(
        (kept + 1) / 2
    )


def test_classes_that_do_not_match_the_points_are_rejected():
    before, after = cells(6, 1, 3)
    with raises(DataError, "data.invalid"):
        measured(before, after, classes=np.zeros(6, dtype=int))


def test_no_records_give_no_measures():
    nothing = np.zeros((0, 1))
    assert measured(nothing, nothing) == {}
    assert not len(linked(nothing, nothing).by_known)


def test_points_of_each_kind():
    original = table(
        age=[20, 30, 40, 50, None],
        sex=["f", "m", "f", "m", "f"],
        job=["a", "b", "c", "a", None],
        grade=["low", "mid", "high", "mid", "low"],
        zip=["94110", "94121", "93001", "93002", "10000"],
        lat=[10.0, 20.0, 30.0, 40.0, 50.0],
        lon=[0.0, 10.0, 20.0, 30.0, 40.0],
        same=[1, 1, 1, 1, 1],
        state=["x", "x", "y", "y", "y"],
    )
    released = table(
        age=["20-30", "20-30", "40-50", "40-50", "?"],
        sex=["f", "f", "m", "m", "*"],
        job=["a", "a", "c", "c", "c"],
        grade=["low", "mid", "mid", "mid", "low"],
        zip=["941**", "941**", "9300*", "9300*", "*****"],
        lat=[15.0, 15.0, 35.0, 35.0, None],
        lon=[5.0, 5.0, 25.0, 25.0, None],
        same=[1, 1, 1, 1, 1],
        state=["x", "x", "y", "y", "y"],
    )
    quasi = [
        Column("age", kind="numeric"),
        Column("sex", kind="nominal"),
        Column("job", kind="nominal"),
        Column("grade", kind="ordinal", order=("low", "mid", "high")),
        Column("zip", kind="code"),
        Column("place", kind="location", latitude="lat", longitude="lon"),
        Column("same", kind="numeric"),
    ]
    schema = Schema(quasi=quasi, strata=["state"])
    points = read_linkage_points(ColumnPairs(original, released, schema, np.arange(5)))
    assert points.names == ("age", "sex", "job", "grade", "zip", "place", "same", "state")
    assert [column.places.shape[1] for column in points.columns] == [1, 1, 3, 1, 1, 3, 0, 1]
    age, sex, job, grade, codes, place, _, state = (
        (points.before(np.arange(5), [at]), points.after(np.arange(5), [at])) for at in range(8)
    )
    assert age[0][:4].std() == pytest.approx(1)
    np.testing.assert_allclose(age[1][:2], age[0][:2].mean())
    assert age[0][4] == age[1][4] == sex[1][4] == 0
    assert np.linalg.norm(job[0][0] - job[0][1]) == pytest.approx(1)
    assert abs(sex[0][0] - sex[0][1])[0] == pytest.approx(1)
    assert (job[0][4] == 0).all()
    assert grade[1][2] == grade[0][1]
    np.testing.assert_allclose(codes[1][0], codes[0][:2].mean())
    np.testing.assert_allclose(codes[1][4], 0, atol=1e-12)
    assert np.square(place[0]).sum() / 5 == pytest.approx(2)
    assert (state[0] == state[1]).all()
    np.testing.assert_array_equal(
        points.before(np.arange(5)), np.hstack([points.before(np.arange(5), range(8))])
    )
    links = link_records(points, class_labels(released, schema.keys))
    assert links.all_columns.share <= 5 / 5


def test_the_order_of_published_rows_does_not_matter():
    rng = np.random.default_rng(4)
    before, after = cells(30, 1, 3)
    jobs = rng.choice(["a", "b", "c"], size=30)
    original, schema = (
        table(x=before[:, 0], job=jobs),
        Schema(quasi=[Column("x", kind="numeric"), Column("job", kind="nominal")]),
    )
    actual = []
    for order in (np.arange(30), rng.permutation(30)):
        released = table(x=after[order, 0], job=jobs[order])
        points = read_linkage_points(ColumnPairs(original, released, schema, order))
        links = link_records(points, class_labels(released, schema.keys))
        actual.append({name: item.value for name, item in evaluate_links(links).items()})
    assert actual[0] == pytest.approx(actual[1])


def test_records_are_linked_within_their_stratum():
    original = table(x=[0.0, 1.0, 0.1, 1.1], state=["a", "a", "b", "b"])
    released = table(x=[0.5, 0.5, 0.6, 0.6], state=["a", "a", "b", "b"])
    schema = Schema(quasi=[Column("x", kind="numeric")], strata=["state"])
    points = read_linkage_points(ColumnPairs(original, released, schema, np.arange(4)))
    links = link_records(points, class_labels(released, schema.keys))
    assert links.all_columns.share == 0.5
    assert links.one_column.share < 0.5 + 1e-12


def test_more_categories_than_indicators():
    names = [f"c{at:03d}" for at in range(80)]
    original = table(job=[*names, *names[:70]])
    points = read_linkage_points(
        ColumnPairs(
            original, original, Schema(quasi=[Column("job", kind="nominal")]), np.arange(150)
        )
    )
    rows = np.arange(150)
    assert points.before(rows).shape == (150, 50)
    assert (points.before(rows) == points.after(rows)).all()
    # The 50 most frequent are 1 from each other; the others share one point.
    assert len(np.unique(points.before(rows), axis=0)) == 51
