"""Probability-constrained Lloyd: the theorems, the published values, and all options."""

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import microcell as mc
from microcell.kernels.transport import balance_costs, choose_cells
from microcell.methods.lloyd import ADJUSTMENTS, adjust_exactly
from microcell.methods.pcl_options import as_targets
from tests.raising import raises

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the classic data sets are not beside the project"
)


def gaussian(n, m=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, m))


def uneven(n, count, seed=0):
    """Return sizes of at least 1 that add up to n."""
    cuts = np.sort(
        np.random.default_rng(seed).choice(np.arange(1, n), size=count - 1, replace=False)
    )
    return np.diff([0, *cuts, n])


def squares(X, sites):
    return ((X[:, np.newaxis] - sites[np.newaxis]) ** 2).sum(axis=2)


def loss_of(X, sites, labels):
    return squares(X, sites)[np.arange(len(X)), labels].sum()


def solved(X, sites, sizes, adjust="exact"):
    labels, costs = np.repeat(np.arange(len(sizes)), sizes), np.zeros(len(sizes))
    ADJUSTMENTS[adjust](X, sites, costs, np.asarray(sizes), labels)
    return labels, costs


def all_assignments(n, sizes):
    """Yield every assignment of n points to cells of these sizes."""
    if len(sizes) == 1:
        yield np.zeros(n, dtype=int)
        return
    for chosen in combinations(range(n), sizes[0]):
        rest = [i for i in range(n) if i not in chosen]
        for others in all_assignments(len(rest), sizes[1:]):
            labels = np.zeros(n, dtype=int)
            labels[rest] = others + 1
            yield labels


# ----------------------------------------------------------------------------------------- theorems


@pytest.mark.parametrize("seed", range(6))
def test_no_assignment_of_the_same_sizes_has_less_distortion_for_the_sites(seed):
    X, sites = gaussian(8, 2, seed), gaussian(3, 2, seed + 100)
    labels, _ = solved(X, sites, [2, 3, 3])
    least = min(loss_of(X, sites, other) for other in all_assignments(8, [2, 3, 3]))
    assert loss_of(X, sites, labels) == pytest.approx(least, rel=1e-12)


@pytest.mark.parametrize("adjust", ADJUSTMENTS)
@pytest.mark.parametrize("seed", range(4))
def test_assignment_equals_that_of_a_network_solver(seed, adjust):
    n, sizes = 150, uneven(150, 12, seed)
    X, sites = gaussian(n, 3, seed), gaussian(12, 3, seed + 100)
    labels, costs = solved(X, sites, sizes, adjust)
    rows, slots = linear_sum_assignment(np.repeat(squares(X, sites), sizes, axis=1))
    assert (np.bincount(labels, minlength=12) == sizes).all()
    assert loss_of(X, sites, labels) == pytest.approx(
        squares(X, sites)[rows, np.repeat(np.arange(12), sizes)[slots]].sum()
    )
    assert_minimal(X, sites, costs, labels)


def assert_minimal(X, sites, costs, labels):
    """Assert that every point's cell minimizes squared distance plus cost, up to rounding."""
    sums = squares(X, sites) + costs
    assigned = sums[np.arange(len(X)), labels]
    assert (assigned <= sums.min(axis=1) + 1e-9 * (1 + np.abs(assigned))).all()


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 80),
    m=st.integers(1, 4),
    grid=st.sampled_from([0, 1, 2, 5]),
    adjust=st.sampled_from(sorted(ADJUSTMENTS)),
)
def test_cells_minimize_distance_plus_cost_and_have_their_sizes(seed, n, m, grid, adjust):
    """Also where points tie, on a coarse grid."""
    rng = np.random.default_rng(seed)
    X = (
        rng.integers(-grid, grid + 1, size=(n, m)).astype(float)
        if grid
        else rng.normal(size=(n, m))
    )
    sizes = uneven(n, int(rng.integers(1, min(n, 12) + 1)), seed) if n > 1 else np.array([n])
    result = mc.pcl(
        X, sizes=sizes, start="random", adjust=adjust, iterations=20, shakes=2, seed=seed
    )
    assert (result.partition.sizes == sizes).all()
    assert_minimal(X, result.cells.centroids, result.cells.costs, result.labels)
    assert all(after <= before for before, after in pairwise(result.history))


def test_adding_a_constant_to_all_costs_does_not_matter():
    X = gaussian(200)
    result = mc.pcl(X, sizes=uneven(200, 9))
    sites, costs = result.cells.centroids.copy(), result.cells.costs + 1234.5
    assert (choose_cells(X, sites, costs) == result.labels).all()
    again = result.labels.copy()
    adjust_exactly(X, sites, costs, result.partition.sizes.copy(), again)
    assert (again == result.labels).all()


def test_cells_are_convex():
    """A point between two points of a cell is in that cell."""
    X = gaussian(400, 3)
    result = mc.pcl(X, 20)
    rng = np.random.default_rng(1)
    for cell in range(len(result.partition)):
        members = X[result.labels == cell]
        one, other = members[rng.integers(0, len(members), size=(2, 50))]
        between = one + rng.uniform(size=(50, 1)) * (other - one)
        assert (result.cells.assign(between) == cell).all()


def test_costs_leave_no_point_on_a_border():
    X = gaussian(1000, 4)
    result = mc.pcl(X, 10, shakes=0)
    assert (result.cells.assign(X) == result.labels).all()
    assert (result.cells.assign(X + 1e-12) == result.labels).all()


@pytest.mark.parametrize(
    "kw", [{}, {"shakes": 0}, {"speed": 1.0}, {"adjust": "newton"}, {"adjust": "noisy"}]
)
def test_history_never_rises(kw):
    X = gaussian(120, 3)
    result = mc.pcl(X, 8, **kw)
    assert len(result.history) >= 2
    assert all(after <= before for before, after in pairwise(result.history))
    assert result.history[-1] == pytest.approx(mc.distortion(X, result.labels), rel=0.01)


# -------------------------------------------------------------------------------------- adjustments


def test_newton_and_exact_agree_where_cells_are_large():
    X = gaussian(3000, 2)
    exact, newton = (
        mc.distortion(X, mc.pcl(X, 300, adjust=adjust).labels) for adjust in ("exact", "newton")
    )
    assert newton == pytest.approx(exact, rel=0.005)


@pytest.mark.parametrize("count", [2, 16, 450])
def test_newton_alone_reaches_sizes_near_the_targets(count):
    """Dense eigenvalues for few cells, conjugate gradients for many."""
    X, sites = gaussian(100 * count, 2), gaussian(count, 2, seed=1)
    targets = np.full(count, 100)
    costs = balance_costs(X, sites, np.zeros(count), targets)
    before, after = (
        np.abs(np.bincount(choose_cells(X, sites, c), minlength=count) - targets).sum()
        for c in (np.zeros(count), costs)
    )
    assert after < 0.3 * before


def test_newton_fills_cells_that_no_point_would_choose():
    X = gaussian(2000, 2)
    sites = np.array([[0.0, 0.0], [1.0, 0.0], [40.0, 40.0]])
    costs = balance_costs(X, sites, np.zeros(3), np.array([700, 700, 600]))
    assert (
        np.abs(np.bincount(choose_cells(X, sites, costs), minlength=3) - [700, 700, 600]).max()
        <= 15
    )


@pytest.mark.parametrize(("kind", "gain"), [("uniform", 0.26), ("gaussian", 0.15)])
def test_noisy_reaches_the_published_gains_for_small_cells(kind, gain):
    """Use a sample like the paper's: on some points even the optimum gains less over MDAV."""
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(250, 2)) if kind == "uniform" else rng.normal(size=(250, 2))
    mdav = mc.distortion(X, mc.partition(X, 10, method="mdav").labels)
    assert 1 - mc.distortion(X, mc.pcl(X, 10, adjust="noisy").labels) / mdav >= gain


# --------------------------------------------------------------------------------- published values


@pytest.mark.parametrize(
    ("kind", "count", "gain"),
    [
        ("correlated", 16, 0.11),
        ("gaussian", 64, 0.17),
        ("uniform", 3, 0.34),
        ("uniform", 7, 0.30),
        ("gaussian", 3, 0.20),
    ],
)
def test_gains_over_mdav_at_large_cells(kind, count, gain):
    n, rng = 10_000, np.random.default_rng(0)
    X = rng.uniform(size=(n, 2)) if kind == "uniform" else rng.normal(size=(n, 2))
    if kind == "correlated":
        X = X @ np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]]).T
        X = X / X.std(axis=0)
    mdav = mc.distortion(X, mc.partition(X, n // count, method="mdav").labels)
    result = mc.pcl(X, n // count)
    assert 1 - mc.distortion(X, result.labels) / mdav >= gain


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(("k", "published"), [(25, 0.182), (100, 0.331)])
def test_census_with_five_starts(k, published):
    X = np.loadtxt(DATA / "census.csv", delimiter=",", skiprows=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    cells = mc.partition(X, k, method="pcl", restarts=5, seed=1)
    assert mc.distortion(X, cells.labels) <= published
    assert cells.sizes.min() >= k


@needs_data
def test_adult_gains_over_mdav():
    X = np.loadtxt(DATA / "adult.csv", delimiter=",", skiprows=1, usecols=adult_columns())
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    mdav = mc.distortion(X, mc.partition(X, 2000, method="mdav").labels)
    assert 1 - mc.distortion(X, mc.pcl(X, 2000).labels) / mdav >= 0.22


def adult_columns():
    with (DATA / "adult.csv").open() as file:
        names = [name.strip().replace("-", "_") for name in file.readline().split(",")]
    return [names.index(name) for name in ("age", "education_num", "hours_per_week")]


# ------------------------------------------------------------------------------------------ options


@pytest.mark.parametrize("start", ["mdav", "vmdav", "auto", "bisect", "random"])
def test_every_start(start):
    X = gaussian(96, 3)
    result = mc.pcl(X, 8, start=start, shakes=0)
    assert result.partition.sizes.min() >= 8
    assert len(result.partition) == 12


def test_restarts_keep_the_best():
    X = gaussian(120, 3)
    one, four = (mc.pcl(X, 8, restarts=restarts, seed=2).history[-1] for restarts in (1, 4))
    assert four <= one


def test_initial_centroids_move_unless_fixed():
    X, sites = gaussian(120), gaussian(4, seed=5)
    fixed = mc.pcl(X, sizes=[30, 30, 30, 30], start=sites, fixed=True)
    free = mc.pcl(X, sizes=[30, 30, 30, 30], start=sites)
    assert (fixed.cells.centroids == sites).all()
    assert len(fixed.history) == 1
    assert free.history[-1] < fixed.history[-1]


def test_duplicate_and_distant_centroids_are_filled():
    X = gaussian(100)
    sites = np.array([[0.0, 0.0], [0.0, 0.0], [500.0, 0.0]])
    fixed = mc.pcl(X, sizes=[40, 40, 20], start=sites, fixed=True)
    assert fixed.partition.sizes.tolist() == [40, 40, 20]
    free = mc.pcl(X, sizes=[40, 40, 20], start=sites)
    assert free.partition.sizes.tolist() == [40, 40, 20]
    assert np.abs(free.cells.centroids).max() < 10


@pytest.mark.parametrize("macrocells", [2, 5])
def test_macrocells(macrocells):
    X = gaussian(1000, 3)
    whole, parts = mc.pcl(X, 10, shakes=0), mc.pcl(X, 10, shakes=0, prepartition=macrocells)
    assert parts.partition.sizes.tolist() == whole.partition.sizes.tolist()
    assert len(parts.cells.chooser) == macrocells
    assert (parts.cells.assign(X) == parts.labels).all()
    assert all(after <= before for before, after in pairwise(parts.history))
    assert parts.history[-1] < 1.25 * whole.history[-1]


def test_many_cells_are_formed_within_macrocells(monkeypatch):
    monkeypatch.setattr("microcell.methods.lloyd.MOST_AT_ONCE", 40)
    monkeypatch.setattr("microcell.methods.lloyd.WITHIN", 10)
    monkeypatch.setattr("microcell.methods.lloyd.MOST_MACROCELLS", 4)
    X = gaussian(3000, 2)
    result = mc.pcl(X, 10, shakes=0)
    assert result.partition.sizes.min() >= 10
    assert result.cells.chooser.chooser is not None
    assert (result.cells.assign(X) == result.labels).all()


def test_more_cells_than_arcs_reach(monkeypatch):
    """Arcs to few near cells are widened until the assignment is the least."""
    X, sites = gaussian(600, 2), gaussian(60, 2, seed=1)
    expected, _ = solved(X, sites, np.full(60, 10))
    monkeypatch.setattr("microcell.methods.lloyd.MANY_CELLS", 10)
    monkeypatch.setattr("microcell.methods.lloyd.NEAR", 2)
    labels, costs = solved(X, sites, np.full(60, 10))
    assert loss_of(X, sites, labels) == pytest.approx(loss_of(X, sites, expected), rel=1e-12)
    assert_minimal(X, sites, costs, labels)


def test_means_are_weighted():
    X, weights = gaussian(200), np.random.default_rng(1).uniform(1, 9, 200)
    result = mc.pcl(X, 20, weights=weights)
    assert (result.cells.assign(X) == result.labels).all()
    assert result.history[-1] == pytest.approx(
        mc.distortion(X, result.labels, weights=weights), rel=0.02
    )


def test_power_cells_never_raise_the_distortion():
    for seed, method in enumerate(["mdav", "vmdav", "auto", "bisect", "anneal"]):
        X = gaussian(240, 3, seed)
        start = mc.partition(X, 6, method=method)
        result = mc.methods.power_cells(X, start.labels)
        assert (result.partition.sizes == start.sizes).all()
        assert mc.distortion(X, result.labels) <= mc.distortion(X, start.labels) * (1 + 1e-12)
        assert (result.cells.assign(X) == result.labels).all()
        means = np.array([X[result.labels == cell].mean(axis=0) for cell in range(len(start))])
        assert result.cells.centroids == pytest.approx(means)


def test_power_cells_of_a_partition_that_is_already_one():
    X = gaussian(300)
    once = mc.methods.power_cells(X, mc.partition(X, 10).labels)
    assert (mc.methods.power_cells(X, once.labels).labels == once.labels).all()


# ------------------------------------------------------------------------ invalid and unusual input


def test_all_points_equal():
    result = mc.pcl(np.full((50, 3), 7.0), 5)
    assert result.partition.sizes.tolist() == [5] * 10
    assert result.history[-1] == 0


@pytest.mark.parametrize("start", ["mdav", "random"])
def test_duplicates_that_tie_everywhere(start):
    X = np.random.default_rng(0).integers(0, 3, size=(600, 2)).astype(float)
    assert mc.pcl(X, 20, start=start).partition.sizes.min() >= 20


def test_one_cell_and_cells_of_one():
    X = gaussian(12)
    assert mc.pcl(X, sizes=[12]).labels.tolist() == [0] * 12
    singles = mc.pcl(X, sizes=[1] * 12)
    assert sorted(singles.labels) == list(range(12))
    assert mc.distortion(X, singles.labels) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {"code": "option.conflict", "option": "k"}),
        ({"k": 3, "sizes": [10, 10]}, {"code": "option.conflict", "option": "k"}),
        ({"sizes": [10, 9]}, {"code": "option.invalid", "option": "sizes"}),
        ({"sizes": [20, 0]}, {"code": "option.invalid", "option": "sizes"}),
        ({"sizes": [25, -5]}, {"code": "option.invalid", "option": "sizes"}),
        ({"sizes": [1] * 21}, {"code": "option.invalid", "option": "sizes"}),
        ({"sizes": [10.5, 9.5]}, {"code": "option.invalid", "option": "sizes"}),
        ({"sizes": []}, {"code": "option.invalid", "option": "sizes"}),
        ({"sizes": "20"}, {"code": "option.invalid", "option": "sizes"}),
        ({"sizes": [True] * 20}, {"code": "option.invalid", "option": "sizes"}),
        ({"probabilities": [0.5, 0.4]}, {"code": "option.invalid", "option": "probabilities"}),
        ({"probabilities": [1.5, -0.5]}, {"code": "option.invalid", "option": "probabilities"}),
        ({"probabilities": [0.999, 0.001]}, {"code": "option.invalid", "option": "probabilities"}),
        ({"probabilities": [np.nan, 1.0]}, {"code": "option.invalid", "option": "probabilities"}),
        ({"k": 1}, {"code": "option.out_of_range", "option": "k"}),
        ({"k": 5, "start": "nonsense"}, {"code": "option.unknown", "option": "start"}),
        ({"k": 5, "start": "pcl"}, {"code": "option.unknown", "option": "start"}),
        ({"k": 5, "start": [[0.0, 0.0]]}, {"code": "option.invalid", "option": "start"}),
        (
            {"sizes": [20], "start": [[0.0, 0.0, 0.0]]},
            {"code": "option.invalid", "option": "start"},
        ),
        ({"k": 5, "fixed": True}, {"code": "option.conflict", "option": "fixed"}),
        ({"k": 5, "adjust": "guess"}, {"code": "option.unknown", "option": "adjust"}),
        ({"k": 5, "speed": 0}, {"code": "option.out_of_range", "option": "speed"}),
        ({"k": 5, "speed": 1.5}, {"code": "option.out_of_range", "option": "speed"}),
        ({"k": 5, "iterations": 0}, {"code": "option.out_of_range", "option": "iterations"}),
        ({"k": 5, "restarts": 0}, {"code": "option.out_of_range", "option": "restarts"}),
        ({"k": 5, "shakes": -1}, {"code": "option.out_of_range", "option": "shakes"}),
        ({"k": 5, "tolerance": 2}, {"code": "option.out_of_range", "option": "tolerance"}),
        ({"k": 5, "prepartition": 5}, {"code": "option.out_of_range", "option": "prepartition"}),
        (
            {"sizes": [20], "start": [[0.0, 0.0]], "fixed": True, "restarts": 2},
            {"code": "option.conflict", "option": "fixed"},
        ),
    ],
)
def test_invalid_options_are_rejected(arguments, expected):
    with raises(mc.errors.OptionError, **expected):
        mc.pcl(gaussian(20), **arguments)


def test_invalid_points_are_rejected():
    with raises(mc.errors.DataError, "data.not_finite", option="start"):
        mc.pcl(gaussian(20), sizes=[20], start=[[np.nan, 0.0]])
    with raises(mc.errors.DataError, "data.not_finite"):
        mc.pcl([[0.0, np.inf], [1.0, 2.0]], sizes=[1, 1])
    with raises(mc.errors.DataError, "data.not_finite"):
        mc.pcl([[1e200], [2e200]], sizes=[1, 1])
    with raises(mc.errors.TooFewRecordsError, "guarantee.too_few_records", k=5, records=4):
        mc.pcl(gaussian(4), 5)
    with raises(mc.errors.OptionError, "option.invalid", option="labels"):
        mc.methods.power_cells(gaussian(20), [0, 0, 1])


def test_probabilities_become_the_nearest_sizes():
    assert as_targets(10, None, None, [1 / 3, 1 / 3, 1 / 3]).tolist() == [4, 3, 3]
    assert as_targets(7, None, None, np.full(7, 1 / 7)).tolist() == [1] * 7
    assert as_targets(11, 3, None, None).tolist() == [4, 4, 3]


# --------------------------------------------------------------------------------- privacy of cells


def borders(cells):
    """Return where the cells of one dimension meet, in the units of the table."""
    order = np.argsort(cells.centroids[:, 0])
    sites, costs = cells.centroids[order, 0], cells.costs[order]
    middle = (np.diff(sites**2) + np.diff(costs)) / (2 * np.diff(sites))
    column = cells.encoding.columns[0]
    return middle * column.scale[0] + column.centre[0] + column.origin


@pytest.mark.parametrize("method", ["mdav", "pcl", "auto"])
@pytest.mark.parametrize("twins", [True, False])
def test_cell_borders_of_a_release_are_not_values_of_records(method, twins):
    rng = np.random.default_rng(3)
    income = np.round(np.exp(rng.normal(10, 1, 300)), 2)
    if twins:
        income[::7] = income[1::7][: len(income[::7])]
    release = mc.anonymize(
        {"income": income}, mc.Schema(quasi=["income"]), k=5, method=method, cells=True
    )
    assert not np.isin(np.round(borders(release.cells), 2), income).any()


def test_no_site_is_a_point_that_it_started_from():
    X = gaussian(500)
    for arguments in ({"k": 5}, {"k": 5, "restarts": 3}, {"sizes": [500]}):
        result = mc.pcl(X, **arguments, start="random", iterations=1, shakes=0)
        assert squares(X, result.cells.centroids).min() > 1e-12


def test_function_matches_labels_despite_an_outlier():
    X = gaussian(1000)
    X[0, 0] = 1e3
    result = mc.pcl(X, 5, shakes=5)
    assert (result.cells.assign(X) == result.labels).all()
