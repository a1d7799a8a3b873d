"""Requirements for every registered method. New methods are picked up by name."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import microcell as mc
from microcell.methods import METHODS
from tests.raising import raises
from tests.reference import oracles

NAMES = [*METHODS, "auto"]


def shape_for(name, n, m):
    """Return ``n`` by ``m``, or by 1 for one-dimensional methods."""
    return (n, 1 if name in METHODS and METHODS[name].dimensions == "1" else m)


def gaussian(name, n, m=3, seed=0):
    return np.random.default_rng(seed).normal(size=shape_for(name, n, m))


def same_partition(a, b):
    """Return whether the cells are the same, however they are numbered."""
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist()))


def assert_as_good(name, points, cells, others):
    """Assert the same cells or, for a randomized method, about the same loss."""
    if name == "auto" or METHODS[name].randomized:
        assert mc.distortion(points, others) == pytest.approx(mc.distortion(points, cells), rel=0.1)
    else:
        assert same_partition(cells, others)


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.mark.parametrize("k", [2, 5])
def test_every_cell_has_at_least_k_records(name, k):
    for n in (k, k + 1, 2 * k - 1, 2 * k, 2 * k + 1, 3 * k, 3 * k + 1, 60):
        check_cells(name, k, n)


def check_cells(name, k, n):
    cells = mc.partition(gaussian(name, n), k, method=name)
    assert len(cells.labels) == n
    assert cells.sizes.min() >= k
    assert cells.sizes.sum() == n
    assert set(cells.labels) == set(range(len(cells)))


def test_fewer_records_than_k_are_rejected(name):
    with raises(mc.errors.TooFewRecordsError, "guarantee.too_few_records", k=5, records=4):
        mc.partition(gaussian(name, 4), 5, method=name)
    with raises(mc.errors.TooFewRecordsError, "guarantee.too_few_records", k=5, records=0):
        mc.partition(np.empty(shape_for(name, 0, 2)), 5, method=name)


def test_equal_records_are_grouped(name):
    points = np.full(shape_for(name, 23, 4), 7.25)
    cells = mc.partition(points, 5, method=name)
    assert cells.sizes.min() >= 5
    assert mc.distortion(points, cells.labels) == 0


def test_two_distinct_records(name):
    points = np.zeros(shape_for(name, 40, 2))
    points[::2] = 1.0
    cells = mc.partition(points, 5, method=name)
    assert cells.sizes.min() >= 5
    assert mc.distortion(points, cells.labels) == pytest.approx(0, abs=1e-12)


def test_heavy_duplicates(name):
    points = np.random.default_rng(0).integers(0, 3, size=shape_for(name, 200, 2)).astype(float)
    assert mc.partition(points, 7, method=name).sizes.min() >= 7


def test_constant_column_does_not_matter(name):
    points = gaussian(name, 90)
    wider = np.column_stack([points, np.full(90, 1e6)])
    assert (
        mc.partition(points, 4, method=name).labels == mc.partition(wider, 4, method=name).labels
    ).all()


def test_single_column_as_list_or_matrix(name):
    column = gaussian("univariate", 50)
    flat = mc.partition(column[:, 0], 3, method=name)
    assert (flat.labels == mc.partition(column, 3, method=name).labels).all()


def test_permuting_rows_permutes_labels(name):
    points = gaussian(name, 150)
    order = np.random.default_rng(1).permutation(150)
    cells, permuted = (mc.partition(x, 4, method=name).labels for x in (points, points[order]))
    assert_as_good(name, points[order], cells[order], permuted)


@pytest.mark.parametrize("factor", [1e-200, -3.0, 1e200])
def test_scale_does_not_matter(name, factor):
    points = gaussian(name, 120)
    cells, scaled = (mc.partition(x, 5, method=name).labels for x in (points, points * factor))
    assert_as_good(name, points, cells, scaled)


def test_shift_does_not_matter(name):
    points = gaussian(name, 120)
    points = np.round(points * 1024) / 1024  # what a shift by 2^31 leaves exact
    cells, shifted = (mc.partition(x, 5, method=name).labels for x in (points, points + 2.0**31))
    assert_as_good(name, points, cells, shifted)


def test_same_seed_gives_the_same_labels(name):
    points = gaussian(name, 200)
    first, second = (mc.partition(points, 5, method=name, seed=3).labels for _ in range(2))
    assert (first == second).all()


def test_outlier_a_million_deviations_away(name):
    points = gaussian(name, 60)
    points[17] = 1e6
    assert mc.partition(points, 4, method=name).sizes.min() >= 4


def test_input_is_not_changed(name):
    points = gaussian(name, 60)
    before = points.copy()
    mc.partition(points, 4, method=name)
    assert (points == before).all()


def test_weights_of_one_do_not_matter(name):
    points = gaussian(name, 100)
    plain = mc.partition(points, 5, method=name).labels
    assert (plain == mc.partition(points, 5, method=name, weights=np.ones(100)).labels).all()
    weighted = mc.partition(
        points, 5, method=name, weights=np.random.default_rng(0).uniform(1, 9, 100)
    )
    assert weighted.sizes.min() >= 5


def test_invalid_weights_are_rejected(name):
    for weights in ([1.0] * 9, [0.0] * 10, [-1.0] * 10, [np.nan] * 10):
        with raises(mc.errors.DataError, "data.bad_weight"):
            mc.partition(gaussian(name, 10), 2, method=name, weights=weights)


def test_unknown_options_are_rejected(name):
    with raises(mc.errors.OptionError, "option.unsupported", option="nonsense"):
        mc.partition(gaussian(name, 20), 2, method=name, nonsense=1)


def test_invalid_k_is_rejected(name):
    for k in (1, 0, -3, 2.5, 5.0, "5", True, None):
        is_whole = isinstance(k, int) and not isinstance(k, bool)
        code = "option.out_of_range" if is_whole else "option.wrong_type"
        with raises(mc.errors.OptionError, code, option="k"):
            mc.partition(gaussian(name, 20), k, method=name)


def test_points_must_be_finite(name):
    for value in (np.nan, np.inf, -np.inf):
        points = gaussian(name, 20)
        points[3, 0] = value
        with raises(mc.errors.DataError, "data.not_finite"):
            mc.partition(points, 2, method=name)


@cache
def best_sse(m, seed):
    return oracles.best_sse(np.random.default_rng(seed).normal(size=(9, m)), 2)


def test_no_worse_than_one_cell_and_no_better_than_the_optimum(name):
    """The SSE is at least the optimum, known on tiny inputs, and at most that of a single cell."""
    for seed in range(3):
        points = gaussian(name, 9, 2, seed)
        sse = oracles.sse(points, mc.partition(points, 2, method=name).labels)
        assert (
            best_sse(points.shape[1], seed) - 1e-9
            <= sse
            <= ((points - points.mean(axis=0)) ** 2).sum() + 1e-9
        )


@given(
    points=arrays(
        np.float64,
        st.tuples(st.integers(2, 40), st.integers(1, 3)),
        elements=st.floats(-1e6, 1e6, width=32),
    ),
    k=st.integers(2, 8),
)
@pytest.mark.parametrize("method", NAMES)
def test_any_table_gives_cells_of_k_or_an_error(method, points, k):
    points = points[:, :1] if shape_for(method, 1, 2)[1] == 1 else points
    if len(points) < k:
        with raises(mc.errors.TooFewRecordsError, "guarantee.too_few_records"):
            mc.partition(points, k, method=method)
    else:
        cells = mc.partition(points, k, method=method)
        assert cells.sizes.min() >= k
        assert 0 <= mc.distortion(points, cells.labels) <= 1 + 1e-9


def test_refinement_never_raises_the_distortion(name):
    for seed in range(2):
        points = gaussian(name, 80, 3, seed)
        start, refined = (
            mc.partition(points, 5, method=name, refine=refine) for refine in (False, True)
        )
        assert mc.distortion(points, refined.labels) <= mc.distortion(points, start.labels) * (
            1 + 1e-12
        )
        assert refined.sizes.min() >= 5
        assert refined.sizes.max() <= 9


def test_facts_are_complete(name):
    if name == "auto":
        return
    method = METHODS[name]
    assert method.summary
    assert method.sizes
    assert method.cost
    assert method.source
    assert method.function.__doc__
