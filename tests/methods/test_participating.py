"""Cells of candidates: equal to the plain version, within the limit, and improved by refinement."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import DataError, GuaranteeError, OptionError, TooFewRecordsError
from microcell.kernels.exchange import Limits, find_near_cells
from microcell.kernels.groups import empty_blocks, fill_blocks
from microcell.kernels.within import exchange_within_limit, find_odds, make_odds
from microcell.methods import candidates
from microcell.methods.candidates import (
    expected_distortion,
    participating_cells,
    size_for_participation,
)
from microcell.surveys import cell_failures, effective_anonymity
from tests.raising import raises


def failure_of(participation, k):
    p = np.zeros(k + 1)
    p[0] = 1.0
    for q in participation:
        p[1:k] = (1 - q) * p[1:k] + q * p[: k - 1]
        p[0] *= 1 - q
    return p[1:k].sum()


def squared(X, point):
    total = np.zeros(len(X))
    for j in range(X.shape[1]):
        total += (X[:, j] - point[j]) ** 2
    return total


def weighted_mean(X, q):
    return (X * q[:, None]).sum(axis=0) / q.sum()


def grow(X, k, q, limit):
    """Plain version of growth; labels are -1 for records left over."""
    labels, cell, rows = np.full(len(X), -1), 0, np.arange(len(X))

    def farthest(point):
        return rows[squared(X[rows], point).argmax()]

    def make_cell(row):
        nonlocal rows, cell
        distance = squared(X[rows], X[row])
        distance[rows == row] = -1
        order = rows[np.argsort(distance, kind="stable")]
        for n in range(k, len(order) + 1):
            if failure_of(q[order[:n]], k) <= limit:
                labels[order[:n]] = cell
                cell += 1
                rows = rows[labels[rows] < 0]
                return True
        return False

    while len(rows):
        r = farthest(weighted_mean(X[rows], q[rows]))
        others = rows[rows != r]
        s = others[squared(X[others], X[r]).argmax()] if len(others) else r
        if not make_cell(r) or not len(rows):
            break
        if labels[s] >= 0:
            s = farthest(X[r])
        if not make_cell(s):
            break
    return labels


def join(X, k, q, limit, labels):
    """Plain version of joining records left over; None if they cannot be placed."""
    labels, count = labels.copy(), labels.max() + 1
    means = [weighted_mean(X[labels == cell], q[labels == cell]) for cell in range(count)]
    rest = np.flatnonzero(labels < 0)
    away = np.array([squared(np.array(means), X[row]) for row in rest])

    def alive(but=-1):
        return [cell for cell in range(count) if cell != but and (labels == cell).any()]

    for i in np.argsort(away.min(axis=1), kind="stable") if len(rest) else ():
        row = rest[i]
        order = [cell for cell in np.argsort(away[i], kind="stable")[:20] if cell in alive()]
        for cell in order:
            if failure_of(np.append(q[labels == cell], q[row]), k) <= limit:
                labels[row] = cell
                break
        else:
            target = order[0] if order else min(alive(), key=lambda cell: away[i][cell])
            labels[row] = target
            while failure_of(q[labels == target], k) > limit:
                if not alive(target):
                    return None
                mean = weighted_mean(X[labels == target], q[labels == target])
                other = min(
                    alive(target), key=lambda cell: squared(np.array([means[cell]]), mean)[0]
                )
                labels[labels == other] = target
    return np.unique(labels, return_inverse=True)[1]


def survey(n, m, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, m)), np.clip(rng.beta(2, 2, n), 0.05, 1)


@given(
    st.integers(0, 10**6),
    st.integers(5, 60),
    st.integers(1, 3),
    st.integers(2, 5),
    st.integers(1, 9),
)
def test_labels_match_the_plain_implementation(seed, n, m, k, tenths):
    """Coordinates of few whole numbers and eighths for chances: ties abound, and sums are exact."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (n, m)).astype(float)
    q = rng.integers(1, 9, n) / 8
    limit = tenths / 10 + 0.0123
    X[0], q[0], X[1], q[1] = 0, 0.5, 5, 0.25  # no constant column, no common participation
    grown = grow(X, k, q, limit)
    expected = join(X, k, q, limit, grown) if grown.max() >= 0 else None
    if expected is None:
        with raises(TooFewRecordsError, "guarantee.too_few_records", k=k, records=n):
            participating_cells(X, k, q, limit, refine=False)
        return
    labels = participating_cells(X, k, q, limit, refine=False)
    assert (labels == expected).all()


@pytest.mark.parametrize("seed", range(6))
def test_candidates_that_fit_no_cell_merge_cells(seed):
    """With rare participation, sizes 3 and very large ones meet the limit; size 4 does not."""
    rng = np.random.default_rng(seed)
    X, q = (
        rng.integers(0, 9, (100 + seed, 2)).astype(float),
        rng.choice([31 / 256, 1 / 8], 100 + seed),
    )
    limit = failure_of([1 / 8] * 3, 3) + 1e-3
    grown = grow(X, 3, q, limit)
    assert np.bincount(grown[grown >= 0]).max() == 3
    expected = join(X, 3, q, limit, grown)
    labels = participating_cells(X, 3, q, limit, refine=False)
    assert (labels == expected).all()
    assert (np.bincount(labels).max() > 20) == (grown < 0).any()
    assert cell_failures(labels, q, 3).max() <= limit


@given(
    st.integers(0, 10**6),
    st.integers(10, 120),
    st.integers(2, 6),
    st.sampled_from([0.5, 0.1, 1e-3, 1e-8]),
    st.sampled_from([0.002, 0.1, 0.5]),
)
def test_every_cell_meets_its_limit_or_an_error_is_raised(seed, n, k, limit, least):
    rng = np.random.default_rng(seed)
    X, q = rng.normal(size=(n, 2)).round(1), rng.uniform(least, 1, n)
    try:
        labels = participating_cells(X, k, q, limit, seed=seed)
    except GuaranteeError:
        return
    assert np.bincount(labels).min() >= k
    assert (np.unique(labels) == np.arange(labels.max() + 1)).all()
    for cell in range(labels.max() + 1):
        assert failure_of(q[labels == cell], k) <= limit * (1 + 1e-12)


def test_refinement_gains_more_than_five_percent():
    X, q = survey(3000, 5)
    start = participating_cells(X, 10, q, 1e-5, refine=False)
    labels = participating_cells(X, 10, q, 1e-5)
    assert expected_distortion(X, labels, q) < 0.95 * expected_distortion(X, start, q)
    assert cell_failures(labels, q, 10).max() <= 1e-5
    assert (labels == participating_cells(X, 10, q, 1e-5)).all()


def best_allowed(X, labels, q, k, limit):
    """Return how much the best allowed move or swap between any two cells lowers the SSE."""

    def sse(cells):
        return sum(
            (
                q[members] * ((X[members] - weighted_mean(X[members], q[members])) ** 2).sum(axis=1)
            ).sum()
            for members in (np.flatnonzero(cells == cell) for cell in np.unique(cells))
        )

    def fine(cells, *both):
        sizes = [(cells == cell).sum() for cell in both]
        return min(sizes) >= k and all(failure_of(q[cells == cell], k) <= limit for cell in both)

    now, best = sse(labels), 0.0
    for i in range(len(X)):
        for cell in np.unique(labels):
            if cell == labels[i]:
                continue
            for j in (-1, *np.flatnonzero(labels == cell)):
                tried = labels.copy()
                tried[i] = cell
                if j >= 0:
                    tried[j] = labels[i]
                if fine(tried, labels[i], cell):
                    best = max(best, now - sse(tried))
    return best, now


@pytest.mark.parametrize("k, limit", [(3, 0.05), (2, 0.35)])
@pytest.mark.parametrize("seed", range(3))
def test_after_refinement_no_single_exchange_helps(seed, k, limit):
    rng = np.random.default_rng(seed)
    X, q = rng.normal(size=(36, 2)), rng.uniform(0.3, 1, 36)
    X -= X.mean(axis=0)
    labels = participating_cells(X, k, q, limit, refine=False)
    count = int(labels.max()) + 1
    blocks = empty_blocks(count, 2, 40)
    fill_blocks(blocks, X, q, labels)
    near = np.empty((count, count - 1), dtype=np.int64)
    find_near_cells(blocks.sums, blocks.totals, near)
    gain, before = best_allowed(X, labels, q, k, limit)
    created = exchange_within_limit(blocks, near, Limits(k, 40), k, limit, 100)
    assert (created > 0) == (gain > 0)
    after = np.full(36, -1)
    for cell in range(count):
        after[blocks.members[cell, : blocks.sizes[cell]]] = cell
    gain, now = best_allowed(X, after, q, k, limit)
    assert gain <= 1e-9 * now
    assert now < before or created == 0


@given(st.lists(st.floats(0.001, 1.0), min_size=2, max_size=12), st.integers(2, 6))
def test_odds_exclude_the_candidate(participation, k):
    q, n = np.array(participation), len(participation)
    blocks, odds = empty_blocks(1, 1, 15), make_odds(1, 15, k)
    fill_blocks(blocks, np.zeros((n, 1)), q, np.zeros(n, dtype=np.int64))
    find_odds(blocks, 0, odds)
    assert odds.failures[0] == pytest.approx(failure_of(q, k), rel=1e-12, abs=1e-300)
    more = failure_of(np.append(q, 0.25), k)
    assert odds.failures[0] + 0.25 * odds.slopes[0] == pytest.approx(more, rel=1e-9, abs=1e-13)
    for i in range(n):
        others = np.delete(q, i)
        assert odds.absent[0, i] == pytest.approx(failure_of(others, k), rel=1e-12, abs=1e-300)
        assert odds.present[0, i] == pytest.approx(
            failure_of(np.append(others, 1.0), k), rel=1e-12, abs=1e-300
        )


def test_common_participation_is_a_method_with_a_larger_k():
    X = survey(2000, 3)[0]
    size = size_for_participation(10, 0.75, 1e-5)
    assert size == effective_anonymity(10, 0.75, 1e-5).size == 27
    start = participating_cells(X, 10, 0.75, 1e-5, refine=False)
    assert np.bincount(start).min() == size
    labels = participating_cells(X, 10, np.full(2000, 0.75), 1e-5)
    assert (labels == participating_cells(X, 10, 0.75, 1e-5)).all()
    assert expected_distortion(X, labels, 0.75) < expected_distortion(X, start, 0.75)
    assert np.bincount(labels).min() >= size
    assert cell_failures(labels, 0.75, 10).max() <= 1e-5


def test_cells_exactly_at_the_limit():
    """A limit that some size attains exactly must not fail by rounding or the order of a sum."""
    X = survey(300, 2)[0]
    for rng in (0.3, 0.55, 0.7):
        for size in (11, 14, 23):
            summed = cell_failures([0] * size, rng, 4)[0]
            closed = effective_anonymity(4, rng, 1e-290, available=size).cell_failure
            for limit, participation in product(
                (summed, closed), (rng, np.where(X[:, 0] > 0, rng, rng * (1 + 1e-15)))
            ):
                labels = participating_cells(X, 4, participation, limit, refine=False)
                assert cell_failures(labels, participation, 4).max() <= limit
                assert size <= np.bincount(labels).min() <= size + 1
    assert np.bincount(participating_cells(X, 2, 0.5, 0.375)).min() == 3


def test_certain_participation_is_plain_k_anonymity():
    X = survey(200, 2)[0]
    assert np.bincount(participating_cells(X, 5, 1.0, 0.01)).min() == 5


def test_small_cells_that_must_not_grow():
    """With rare participation size 10 is valid and 11 is not: 20 make two cells, 25 none."""
    X = np.arange(25.0)[:, None]
    labels = participating_cells(X[:20], 10, 0.01, 0.1)
    assert (np.bincount(labels) == 10).all()
    with raises(GuaranteeError, "guarantee.failed", k=10):
        participating_cells(X, 10, 0.01, 0.1)
    assert size_for_participation(10, 0.01, 0.1) > 1000
    assert (np.bincount(participating_cells(X[:20], 10, 0.01, 0.2)) == 10).all()


@pytest.mark.parametrize("least", [1e-3, 0.2])
def test_macrocells(least, monkeypatch):
    rng = np.random.default_rng(2)
    X, q = rng.normal(size=(3000, 3)), rng.uniform(least, 1, 3000)
    in_macrocells = participating_cells(X, 5, q, 1e-3, macrocells=400)
    assert cell_failures(in_macrocells, q, 5).max() <= 1e-3
    monkeypatch.setattr(candidates, "_MANY", 1000)
    monkeypatch.setattr(candidates, "_MACROCELL", 400)
    assert (participating_cells(X, 5, q, 1e-3) == in_macrocells).all()
    plain = participating_cells(X, 5, q, 1e-3, macrocells=3000)
    assert expected_distortion(X, in_macrocells, q) < 1.3 * expected_distortion(X, plain, q)


def test_macrocells_too_small_for_a_cell_are_all_left_over():
    X, q = survey(300, 2)
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=10, records=300):
        participating_cells(X, 10, q, 1e-5, macrocells=20)


def test_least_limits():
    rng = np.random.default_rng(0)
    X, q = rng.normal(size=(1200, 2)), rng.uniform(0.9, 0.999, 1200)
    start = participating_cells(X, 2, q, 1e-300, refine=False)
    labels = participating_cells(X, 2, q, 1e-300)
    assert cell_failures(labels, q, 2).max() <= 1e-300
    assert expected_distortion(X, labels, q) < expected_distortion(X, start, q)


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e200])
def test_scale_does_not_matter(scale):
    X, q = survey(400, 2)
    expected = participating_cells(X, 3, q, 0.01, refine=False)
    assert (participating_cells(X * scale, 3, q, 0.01, refine=False) == expected).mean() > 0.99
    if scale == 1e-3:
        D = expected_distortion(X, expected, q)
        assert expected_distortion(X * scale, expected, q) == pytest.approx(D * scale**2)


def test_duplicates_constants_and_one_column():
    q = survey(200, 1)[1]
    for X in (
        np.zeros((200, 2)),
        np.repeat([[0.0, 1.0], [2.0, 1.0]], 100, axis=0),
        np.arange(200.0),
    ):
        labels = participating_cells(X, 3, q, 0.01)
        assert cell_failures(labels, q, 3).max() <= 0.01


@pytest.mark.parametrize("tiny", [1e-18, 1e-200])
def test_certain_and_nearly_absent_candidates_together(tiny):
    rng = np.random.default_rng(4)
    X, q = rng.normal(size=(400, 2)), rng.choice([1.0, tiny, 0.5], 400)
    labels = participating_cells(X, 3, q, 0.01)
    assert cell_failures(labels, q, 3).max() <= 0.01
    start = participating_cells(X, 3, q, 0.01, refine=False)
    assert expected_distortion(X, labels, q) < expected_distortion(X, start, q)


def test_exceptionally_large_cells_do_not_hinder_the_search():
    X, q = survey(1500, 2)
    q[X[:, 0] > 1.2] = 0.01  # cells of a thousand there, of ten elsewhere
    labels = participating_cells(X, 3, q, 0.02)
    assert cell_failures(labels, q, 3).max() <= 0.02


def test_labels_do_not_depend_on_the_number_of_threads(monkeypatch):
    X, q = survey(4000, 2)
    expected = participating_cells(X, 2, q, 0.1)
    monkeypatch.setattr("microcell.methods.search.thread_count", lambda: 1)
    monkeypatch.setattr("microcell.methods.candidates.thread_count", lambda: 1)
    assert (participating_cells(X, 2, q, 0.1) == expected).all()


def test_expected_distortion_by_hand():
    assert expected_distortion([[0.0, 0.0], [2.0, 4.0]], [0, 0], 1.0) == pytest.approx(2.5)
    assert expected_distortion([[0.0], [2.0], [9.0]], [7, 7, 3], [0.5, 1.0, 1.0]) == pytest.approx(
        4 / 3 / 2.5
    )
    assert expected_distortion([[5.0], [5.0]], [0, 0], 0.5) == 0.0


def test_too_few_candidates():
    X, q = survey(30, 2)
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=31, records=30):
        participating_cells(X, 31, q, 0.1)
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=10, records=30):
        participating_cells(X, 10, q, 1e-9)
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=20, records=30):
        participating_cells(X, 20, 0.5, 0.1)


@pytest.mark.parametrize("participation", [0.0, 1.5, np.nan])
def test_participation_out_of_range_is_rejected(participation):
    with raises(OptionError, "option.out_of_range", option="participation"):
        participating_cells(survey(30, 2)[0], 3, participation, 0.1)


@pytest.mark.parametrize(
    "participation", [True, "0.25", None, [], [0.25] * 29, [[0.25]] * 30, [0.25, "a"]]
)
def test_invalid_participation_is_rejected(participation):
    code = "data.not_a_number" if participation == [0.25, "a"] else "data.invalid"
    with raises(DataError, code) as error:
        participating_cells(survey(30, 2)[0], 3, participation, 0.1)
    assert "0.25" not in str(error.value)


def test_invalid_participation_is_reported_with_its_row():
    X, q = survey(30, 2)
    q[4] = np.nan
    with raises(DataError, "data.out_of_range", row=5):
        participating_cells(X, 3, q, 0.1)


def test_other_invalid_arguments_are_rejected():
    X, q = survey(30, 2)
    for failure in (0, 1, 1e-301, np.nan):
        with raises(OptionError, "option.out_of_range", option="failure"):
            participating_cells(X, 3, q, failure)
    for failure in ("a", None, True):
        with raises(OptionError, "option.wrong_type", option="failure"):
            participating_cells(X, 3, q, failure)
    with raises(OptionError, "option.out_of_range", option="k", k=1):
        participating_cells(X, 1, q, 0.1)
    for k in (2.5, True):
        with raises(OptionError, "option.wrong_type", option="k"):
            participating_cells(X, k, q, 0.1)
    for macrocells in (3, 2.5, True, "all"):
        with raises(OptionError, "option.out_of_range", option="macrocells"):
            participating_cells(X, 3, q, 0.1, macrocells=macrocells)
    with raises(OptionError, "option.wrong_type", option="refine"):
        participating_cells(X, 3, q, 0.1, refine="yes")
    with raises(OptionError, "option.out_of_range", option="participation"):
        size_for_participation(3, 1e-310, 0.1)
    for seed in (-1, 0.5, True):
        with raises(OptionError, "option.out_of_range", option="seed"):
            participating_cells(X, 3, q, 0.1, seed=seed)
    with raises(DataError, "data.not_finite", row=1, column=1):
        participating_cells(np.full((30, 2), np.inf), 3, q, 0.1)
    with raises(DataError, "data.not_a_number"):
        participating_cells([["a"]] * 30, 3, q, 0.1)
    with raises(OptionError, "option.invalid", option="labels"):
        expected_distortion(X, [0] * 29, q)
    with raises(DataError, "data.empty"):
        expected_distortion(np.empty((0, 2)), [], 0.5)
