"""PCL beyond equal sizes and squared distances: bounds, demand, other distances, samplers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog

import microcell as mc
from microcell.errors import DataError, OptionError
from microcell.kernels.transport import choose_scaled
from microcell.methods.distortions import fit_distortion
from microcell.methods.lloyd import Cloud, adjust_exactly
from tests.raising import raises

TAXONOMY = {"a": "vowel", "e": "vowel", "x": "rare", "q": "rare", "rare": "consonant"}


def gaussian(n, m=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, m))


def categories(n, seed=0, letters="aexq"):
    return np.random.default_rng(seed).choice(list(letters), size=(n, 3))


def plain_distances(X, sites, distance):
    """Distances from the definitions, for every record and site."""
    if distance in ("hamming", "taxonomic"):
        tree = TAXONOMY if distance == "taxonomic" else {}
        return np.array([[sum(map(lambda a, b: path(a, b, tree), x, s)) for s in sites] for x in X])
    X, sites = np.asarray(X, dtype=float), np.asarray(sites, dtype=float)
    gaps = X[:, None, :] - sites[None, :, :]
    if distance == "absolute":
        return np.abs(gaps).sum(axis=2)
    if distance == "spherical":
        units = X / np.linalg.norm(X, axis=1, keepdims=True)
        return 2 - 2 * units @ (sites / np.linalg.norm(sites, axis=1, keepdims=True)).T
    inverse = np.linalg.inv(np.cov(X.T, bias=True)) if distance == "mahalanobis" else np.eye(2)
    return np.einsum("nqi,ij,nqj->nq", gaps, inverse, gaps)


def path(a, b, tree):
    """Edges between two categories, relative to the longest path; flat without a tree."""
    ways = []
    for name in (a, b):
        way = [name]
        while way[-1] in tree:
            way.append(tree[way[-1]])
        ways.append(set(way))
    return len(ways[0] ^ ways[1]) / (5 if tree else 2)


# ----------------------------------------------------------------------------------- bounds


@given(
    seed=st.integers(0, 1000),
    n=st.integers(4, 24),
    count=st.integers(1, 4),
    absolute=st.booleans(),
)
def test_bounded_assignment_is_optimal(seed, n, count, absolute):
    """Against linear programming, from random costs and labels, with random bounds and scales."""
    rng = np.random.default_rng(seed)
    X, sites = rng.integers(-4, 5, size=(n, 2)) / 2.0, rng.normal(size=(count, 2))
    lows = rng.integers(0, n // count + 1, size=count)
    highs = np.maximum(lows, rng.integers(-(-n // count), n + 1, size=count))
    scales = rng.uniform(0.5, 2.0, size=n)
    costs, labels = rng.normal(size=count), rng.integers(0, count, size=n)
    adjust_exactly(X, sites, costs, highs, labels, lows=lows, scales=scales, absolute=absolute)
    sizes = np.bincount(labels, minlength=count)
    assert (sizes >= lows).all()
    assert (sizes <= highs).all()
    gaps = X[:, None, :] - sites[None]
    distances = scales[:, None] * (np.abs(gaps) if absolute else gaps**2).sum(axis=2)
    rows = np.repeat(np.eye(n), count, axis=1)
    columns = np.tile(np.eye(count), n)
    best = linprog(
        distances.ravel(),
        A_eq=rows,
        b_eq=np.ones(n),
        A_ub=np.vstack([columns, -columns]),
        b_ub=np.concatenate([highs, -lows]),
    )
    assert distances[np.arange(n), labels].sum() == pytest.approx(best.fun, abs=1e-7)
    sums = distances + costs
    assert (sums[np.arange(n), labels] <= sums.min(axis=1) + 1e-9).all()
    if n not in (lows.sum(), highs.sum()):
        assert (sizes[costs > 0] == highs[costs > 0]).all()
        assert (sizes[costs < 0] == lows[costs < 0]).all()


@pytest.mark.parametrize("start", ["mdav", "random", "vmdav"])
@pytest.mark.parametrize("k", [3, 7])
def test_variable_sizes_are_between_k_and_2k_and_cells_stay_a_function(start, k):
    X = gaussian(150, 3, seed=k)
    result = mc.pcl(X, k, sizes="variable", start=start, shakes=10)
    sizes = result.partition.sizes
    assert k <= sizes.min()
    assert sizes.max() <= 2 * k - 1
    assert (result.cells.assign(X) == result.labels).all()
    assert all(after <= before for before, after in pairwise(result.history))


def test_variable_sizes_never_lose_to_their_start():
    X = np.concatenate([gaussian(40, seed=1), 9 + 0.1 * gaussian(13, seed=2)])
    for method in ("vmdav", "anneal"):
        start = mc.partition(X, 5, method=method)
        result = mc.pcl(X, 5, sizes="variable", start=method, shakes=5)
        assert mc.distortion(X, result.labels) <= mc.distortion(X, start.labels) + 1e-12


def test_variable_sizes_suit_clusters_that_equal_sizes_divide():
    """Clusters of 5, 7 and 9: three cells of 7 would cut them."""
    parts = [center + 0.01 * gaussian(n, seed=n) for center, n in ((0, 5), (10, 7), (30, 9))]
    X = np.concatenate(parts)
    result = mc.pcl(X, 5, sizes="variable", shakes=20)
    assert sorted(result.partition.sizes) == [5, 7, 9]
    assert mc.distortion(X, result.labels) < 0.01 * mc.distortion(X, mc.pcl(X, 5, shakes=20).labels)


def test_variable_sizes_accept_sites_and_macrocells_and_the_command_line_option():
    X = gaussian(90)
    result = mc.pcl(X, 5, sizes="variable", start=X[:12], shakes=0)
    assert result.partition.sizes.min() >= 5
    inner = mc.pcl(X, 5, sizes="variable", prepartition=2, shakes=0)
    assert inner.partition.sizes.min() >= 5
    assert (inner.cells.assign(X) == inner.labels).all()
    cells = mc.partition(X, 5, method="pcl", sizes="variable", shakes=0)
    assert 5 <= cells.sizes.min() <= cells.sizes.max() <= 9
    with raises(OptionError, "option.invalid", option="start"):
        mc.pcl(X, 5, sizes="variable", start=X[:40])


# -------------------------------------------------------------------------------- distances


@pytest.mark.parametrize(
    "distance", ["squared", "absolute", "spherical", "mahalanobis", "hamming", "taxonomic"]
)
@pytest.mark.parametrize("seed", range(3))
def test_every_distance_descends_with_exact_sizes_and_its_own_sites(distance, seed):
    is_named = distance in ("hamming", "taxonomic")
    X = categories(60, seed) if is_named else gaussian(60, 2, seed) @ np.array([[1, 0.5], [0, 2]])
    taxonomy = TAXONOMY if distance == "taxonomic" else None
    sizes = [25, 20, 15]
    result = mc.pcl(
        X, sizes=sizes, distance=distance, taxonomy=taxonomy, start="random", shakes=0, seed=seed
    )
    assert result.partition.sizes.tolist() == sizes
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(result.history))
    distances = plain_distances(X, result.sites, distance)
    sums = distances + result.cells.costs
    if not is_named:
        assert (result.assign(X) == result.labels).all()
        chosen = sums[np.arange(len(X)), result.labels]
        assert (chosen <= sums.min(axis=1) + 1e-9).all()
    # No other assignment with these sizes is closer to the sites.
    places = np.repeat(np.arange(3), sizes)
    rows, columns = linear_sum_assignment(distances[:, places])
    best = distances[rows, places[columns]].sum()
    assert distances[np.arange(len(X)), result.labels].sum() == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("distance", ["absolute", "spherical", "hamming", "taxonomic"])
def test_sites_minimize_the_distances_of_their_cell(distance):
    rng = np.random.default_rng(0)
    is_named = distance in ("hamming", "taxonomic")
    X = categories(40) if is_named else gaussian(40)
    taxonomy = TAXONOMY if distance == "taxonomic" else None
    distortion = fit_distortion(X, distance, taxonomy)
    labels = rng.integers(0, 3, size=40)
    weights = rng.uniform(0.5, 2, size=40)
    sites = distortion.decode(distortion.sites(distortion.embed(X), labels, weights))
    for cell in range(3):
        members, masses = X[labels == cell], weights[labels == cell]
        others = [sites[cell], *(categories(200, 1) if is_named else 2 * gaussian(200, seed=1))]
        totals = masses @ plain_distances(members, np.array(others, dtype=members.dtype), distance)
        assert totals[0] <= totals.min() + 1e-9


def test_mahalanobis_does_not_depend_on_linear_maps():
    X = gaussian(80, 3)
    moved = X @ np.array([[2.0, 1, 0], [0, 3, 1], [1, 0, 5]]) + 7
    plain, mapped = (mc.pcl(Z, 10, distance="mahalanobis", start="random") for Z in (X, moved))
    assert plain.history[-1] == pytest.approx(mapped.history[-1], rel=0.2)
    assert mapped.sites.mean(axis=0) == pytest.approx(moved.mean(axis=0), abs=0.5)


def test_distances_are_reachable_by_method_and_saved_with_a_table(tmp_path):
    people = mc.sample_survey(80)
    release = mc.anonymize(
        people, mc.sample_schema(), k=4, method="pcl", distance="absolute", shakes=0, cells=True
    )
    assert release.cells.kind == "absolute"
    release.cells.save(tmp_path / "cells.json")
    assigned = mc.assign(tmp_path / "cells.json", people)
    assert (assigned.labels == release.partition.labels).mean() > 0.95
    with raises(OptionError, "option.unsupported", option="cells"):
        mc.anonymize(people, mc.sample_schema(), k=4, method="pcl", distance="hamming", cells=True)


@pytest.mark.parametrize(
    "options, code",
    [
        ({"distance": "manhattan"}, "option.unknown"),
        ({"distance": "taxonomic"}, "option.conflict"),
        ({"taxonomy": {}}, "option.conflict"),
        ({"distance": "absolute", "adjust": "newton"}, "option.conflict"),
        ({"distance": "spherical", "speed": 0.5}, "option.conflict"),
        ({"copies": 100}, "option.conflict"),
        ({"adjust": "noisy", "copies": 1}, "option.out_of_range"),
        ({"adjust": "noisy", "decay": 1.5}, "option.out_of_range"),
        ({"adjust": "noisy", "variance": 0}, "option.out_of_range"),
        ({"adjust": "noisy", "rounds": 0}, "option.out_of_range"),
        ({"adjust": "noisy", "copies": 10**7}, "option.out_of_range"),
        ({"sizes": "variable", "adjust": "noisy"}, "option.conflict"),
    ],
)
def test_invalid_variants_are_rejected(options, code):
    with raises(OptionError, code):
        mc.pcl(gaussian(40), 5, **options)


def test_bad_categories_and_directions_are_rejected_without_their_values():
    with raises(DataError, "data.invalid", row=2):
        mc.pcl([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]], 2, distance="spherical")
    with raises(DataError, "data.invalid"):
        mc.pcl([["a"], [float("nan")], ["b"]], 2, distance="hamming")
    with raises(OptionError, "option.invalid", option="taxonomy"):
        mc.pcl([["a"], ["b"]] * 3, 2, distance="taxonomic", taxonomy={"a": "b", "b": "a"})
    result = mc.pcl([["a"], ["b"]] * 3, 2, distance="hamming")
    with raises(DataError, "data.unknown_category", row=1) as caught:
        result.assign([["secret"]])
    assert "secret" not in str(caught.value)


# -------------------------------------------------------------------------------- noisy copies


def test_the_settings_of_noisy_copies_matter_and_repeat():
    X = gaussian(60)
    settings = {"copies": 50, "variance": 2.0, "decay": 0.6, "rounds": 8}
    first, again = (mc.pcl(X, 5, adjust="noisy", shakes=0, **settings) for _ in range(2))
    assert (first.labels == again.labels).all()
    assert first.partition.sizes.min() == 5
    cells = mc.partition(X, 5, method="pcl", adjust="noisy", shakes=0, speed=0.5, iterations=5,
                         restarts=2, **settings)  # fmt: skip
    assert cells.sizes.min() == 5


def test_the_variance_of_noise_falls_geometrically():
    assert Cloud(variance=4.0, decay=0.5, rounds=3).shares() == pytest.approx([4, 2, 1])
    default = Cloud().shares()
    assert (len(default), default[0]) == (24, 1)
    assert default[-1] == pytest.approx(0.0009)


# -------------------------------------------------------------------------------- two measures


def test_demand_and_weights_count_separately():
    rng = np.random.default_rng(3)
    X, demand, weights = gaussian(50), rng.integers(1, 5, 50), rng.uniform(0.5, 3, 50)
    result = mc.pcl(X, probabilities=[0.5, 0.3, 0.2], weights=weights, demand=demand, shakes=0)
    assert result.loads.sum() == demand.sum()
    assert np.abs(result.loads - result.cells.sizes).max() <= demand.max()
    assert result.cells.sizes.sum() == demand.sum()
    same = result.assign(X, weights=weights, demand=demand) == result.labels
    assert same.sum() >= 48  # all but those that would have to be divided
    assert all(after <= before for before, after in pairwise(result.history))
    # Per unit of demand: w / v d(x, site) + cost.
    sums = (weights / demand)[:, None] * ((X[:, None] - result.sites) ** 2).sum(axis=2)
    assert (np.argmin(sums + result.cells.costs, axis=1) == result.labels).sum() >= 48


def test_equal_weights_and_demand_repeat_the_points():
    X, demand = gaussian(30), np.arange(30) % 3 + 1
    result = mc.pcl(X, sizes=[20, 40], demand=demand, start=X[:2], shakes=0)
    repeated = mc.pcl(np.repeat(X, demand, axis=0), sizes=[20, 40], start=X[:2], shakes=0)
    assert result.history == pytest.approx(repeated.history)


@pytest.mark.parametrize("demand", [[0, 1, 1], [1.5, 1, 1], [1, 1], [float("nan"), 1, 1]])
def test_invalid_demand_is_rejected(demand):
    with raises(DataError, "data.bad_weight", option="demand"):
        mc.pcl([[0.0], [1.0], [2.0]], sizes=[1, 2], demand=demand)


# ------------------------------------------------------------------------------------- samplers


def test_cells_for_a_sampler_tell_the_shares_of_fresh_points():
    result = mc.pcl(
        lambda n, rng: rng.normal(size=(n, 2)), probabilities=[0.5, 0.3, 0.2], draws=4000, shakes=0
    )
    attained = result.attained
    assert attained.points == 4000
    assert attained.designed == pytest.approx([0.5, 0.3, 0.2])
    assert (attained.low < attained.shares).all()
    assert (attained.shares < attained.high).all()
    assert attained.shares == pytest.approx(attained.designed, abs=0.05)
    again = result.measure(gaussian(2000, seed=9))
    assert again.shares.sum() == pytest.approx(1)


def test_distributions_and_densities_are_samplers():
    from scipy import stats

    normal = stats.multivariate_normal([0, 0])
    density = stats.gaussian_kde(gaussian(100).T)
    for sampler in (normal, density):
        result = mc.pcl(sampler, probabilities=[0.25] * 4, draws=400, shakes=0)
        assert result.partition.sizes.tolist() == [100] * 4
    with raises(OptionError, "option.out_of_range", option="draws"):
        mc.pcl(normal, probabilities=[0.5, 0.5], draws=0)


# --------------------------------------------------------------------------------- far outliers


@pytest.mark.parametrize("far", [1e6, 1e8, -1e10])
@pytest.mark.parametrize("seed", range(3))
def test_far_outliers_leave_the_digits_of_the_other_costs(far, seed):
    X = gaussian(120, 2, seed)
    X[seed] = far
    result = mc.pcl(X, 5, seed=seed, shakes=20)
    assert result.partition.sizes.min() == 5
    assert (result.cells.assign(X) == result.labels).all()
    ones = np.ones(len(X))
    sites, costs = result.cells.centroids.copy(), result.cells.costs.copy()
    assert (choose_scaled(X, ones, False, sites, costs) == result.labels).all()
