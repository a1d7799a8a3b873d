"""Fast methods equal plain ones, record for record, and reach the published figures."""

import numpy as np
import pytest

import microcell as mc
from microcell.kernels import _jit
from microcell.methods.vmdav import GAMMAS
from tests.raising import raises
from tests.reference import oracles

MDAV_LOSS = {
    "census": {3: 5.6922, 5: 9.0884, 10: 14.1559},
    "tarragona": {3: 16.9326, 5: 22.46, 10: 33.19},
    "eia": {3: 0.4829, 5: 1.6667, 10: 3.8397},
}
VMDAV_LOSS = {
    ("tarragona", 3, 0.2): 16.96,
    ("tarragona", 5, 0.2): 22.88,
    ("tarragona", 10, 0.2): 33.26,
    ("census", 3, 0.2): 5.69,
    ("census", 5, 0.2): 8.98,
    ("census", 10, 0.2): 14.07,
    ("eia", 3, 0.2): 0.53,
    ("eia", 5, 1.1): 1.30,
    ("eia", 10, 1.1): 2.82,
}


def digits(value):
    return len(str(value).split(".")[1])


def random_table(seed):
    """Small table of integers with ties, duplicates and constant columns; sums are exact."""
    rng = np.random.default_rng(seed)
    n, m, values = rng.integers(2, 70), rng.integers(1, 5), rng.integers(1, 8)
    X = rng.integers(0, values + 1, size=(n, m)).astype(float)
    X[:, rng.random(m) < 0.2] = 3.0
    return X, int(rng.integers(2, max(3, min(7, n + 1))))


@pytest.mark.parametrize("seed", range(25))
def test_labels_equal_the_oracle_on_tables_with_ties(seed):
    X, k = random_table(seed)
    if len(X) < k:
        k = 2
    gamma = float(np.random.default_rng(seed).choice([0.0, 0.2, 1.0, 1.7]))
    assert (mc.partition(X, k, method="mdav").labels == oracles.mdav(X, k)).all()
    assert (
        mc.partition(X, k, method="vmdav", gamma=gamma).labels == oracles.vmdav(X, k, gamma)
    ).all()


@pytest.mark.parametrize("k", [3, 5, 10])
@pytest.mark.parametrize("data", ["census", "tarragona", "eia"])
def test_mdav_on_the_classic_sets(load_standardized, data, k):
    X = load_standardized(data)
    labels = mc.partition(X, k, method="mdav").labels
    assert (labels == oracles.mdav(X, k)).all()
    loss = 100 * mc.distortion(X, labels)
    assert loss == pytest.approx(100 * oracles.sse(X, labels) / X.size, rel=1e-9)
    assert round(loss, digits(MDAV_LOSS[data][k])) == MDAV_LOSS[data][k]


@pytest.mark.parametrize(("data", "k", "gamma"), VMDAV_LOSS)
def test_vmdav_on_the_classic_sets(load_standardized, data, k, gamma):
    X = load_standardized(data)
    labels = mc.partition(X, k, method="vmdav", gamma=gamma).labels
    if data != "eia":  # the plain version takes minutes there
        assert (labels == oracles.vmdav(X, k, gamma)).all()
    assert round(100 * mc.distortion(X, labels), 2) == VMDAV_LOSS[data, k, gamma]


def test_vmdav_best_keeps_the_least_distortion():
    rng = np.random.default_rng(0)  # clumps of 5 records: cells of exactly 4 break them up
    X = np.repeat(rng.normal(size=(24, 2)), 5, axis=0) + rng.normal(scale=0.01, size=(120, 2))
    losses = [
        mc.distortion(X, mc.partition(X, 4, method="vmdav", gamma=gamma).labels) for gamma in GAMMAS
    ]
    best = mc.partition(X, 4, method="vmdav", gamma="best")
    assert mc.distortion(X, best.labels) == min(losses)
    assert min(losses) < losses[0]


@pytest.mark.parametrize("gamma", [-0.1, np.nan, np.inf, "most", None, [1]])
def test_vmdav_rejects_invalid_gamma(gamma):
    with raises(mc.errors.OptionError, "option.out_of_range", option="gamma"):
        mc.partition(np.eye(9), 3, method="vmdav", gamma=gamma)


def test_univariate_on_the_known_example():
    x = np.array([8, 21, 28, 36, 39, 71, 86, 89, 96, 96.0])
    labels = mc.partition(x, 3, method="univariate").labels
    assert oracles.sse(x[:, None], labels) == pytest.approx(1035.4167, abs=5e-5)


@pytest.mark.parametrize("seed", range(20))
def test_univariate_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 13)), int(rng.integers(2, 5))
    n = max(n, k)
    x = np.round(rng.normal(size=n), 1) if seed % 2 else rng.integers(0, 100, n).astype(float)
    cells = mc.partition(x, k, method="univariate")
    result = oracles.sse(x[:, None], cells.labels)
    assert result == pytest.approx(oracles.best_univariate_sse(x, k), abs=1e-9)
    assert cells.sizes.max() <= 2 * k - 1 or n < 2 * k
    if n <= 9:
        assert result == pytest.approx(oracles.best_sse(x[:, None], k), abs=1e-9)


@pytest.mark.parametrize("k", [2, 5, 11])
def test_univariate_is_never_worse_than_another_method(k):
    for seed in range(5):
        x = np.random.default_rng(seed).lognormal(size=(400, 1))
        best = mc.distortion(x, mc.partition(x, k, method="univariate").labels)
        for method in ("mdav", "vmdav"):
            assert best <= mc.distortion(x, mc.partition(x, k, method=method).labels) + 1e-15


def test_univariate_with_tiny_spacing_far_from_zero():
    """A difference of sums of squares would lose everything here."""
    x = 1.7e9 + np.random.default_rng(0).permutation(np.arange(300) / 1024)
    cells = mc.partition(x, 3, method="univariate")
    assert (cells.sizes == 3).all()
    assert (
        np.ptp(x[np.argsort(cells.labels, kind="stable")].reshape(-1, 3), axis=1) == 2 / 1024
    ).all()


def test_univariate_rejects_two_dimensions():
    with raises(mc.errors.OptionError, "option.unsupported", option="method", method="univariate"):
        mc.partition(np.random.default_rng(0).normal(size=(9, 2)), 3, method="univariate")


def test_worked_example():
    X = np.array([[2, 1], [3, 2], [3, 2], [20, 19], [21, 20.0]])
    for method in ("mdav", "vmdav", "auto"):
        labels = mc.partition(X, 2, method=method).labels
        means = np.array([X[labels == labels[i]].mean(axis=0) for i in range(5)])
        assert means[:3] == pytest.approx(np.array([[2.6667, 1.6667]] * 3), abs=5e-5)
        assert means[3:] == pytest.approx(np.array([[20.5, 19.5]] * 2))


def test_auto_is_exact_in_one_dimension_and_explains_it():
    line = mc.partition(np.arange(20.0), 3)
    plane = mc.partition(np.random.default_rng(0).normal(size=(20, 2)), 3)
    assert (line.method, plane.method) == ("univariate", "anneal")
    assert "one dimension" in line.reason
    assert 'at effort "balanced" (20 records): MDAV start, then' in plane.reason
    X = np.random.default_rng(0).normal(size=(200, 3))
    plain, result = (
        mc.distortion(X, mc.partition(X, 5, method=method).labels) for method in ("mdav", "auto")
    )
    assert result < 0.95 * plain


def test_auto_takes_macrocells_for_large_tables():
    X = np.random.default_rng(0).normal(size=(60_010, 2))
    cells = mc.partition(X, 30, effort="fast")
    assert "macrocells" in cells.reason
    assert cells.sizes.min() >= 30


@pytest.mark.parametrize("macrocells", [5, 2.5, True, "many"])
def test_invalid_macrocells_are_rejected(macrocells):
    with raises(mc.errors.OptionError, "option.out_of_range", option="macrocells"):
        mc.partition(np.eye(9), 3, method="mdav", macrocells=macrocells)


def test_distant_records_do_not_affect_other_means():
    """Once the far ones are in cells, the mean of the others must be exact again."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 50, size=(60, 2)).astype(float)
    X[[5, 17, 40, 41]] = [[1e17, 3e17], [1e17, -2e17], [-1e17, 1e17], [1e17, 1e17]]
    assert (mc.partition(X, 2, method="mdav").labels == oracles.mdav(X, 2)).all()


def test_macrocells_have_k_records_and_lose_little():
    X = np.random.default_rng(0).normal(size=(4000, 3))
    whole, parts = (mc.partition(X, 7, method="mdav", macrocells=size) for size in (None, 500))
    assert parts.sizes.min() >= 7
    assert mc.distortion(X, parts.labels) < 1.2 * mc.distortion(X, whole.labels)


def test_unknown_method_is_rejected_with_a_list_of_methods():
    with raises(mc.errors.OptionError, "option.unknown", option="method"):
        mc.partition(np.eye(9), 3, method="magic")


@pytest.mark.parametrize("method", ["mdav", "vmdav"])
def test_labels_do_not_depend_on_the_number_of_threads(method):
    X = np.random.default_rng(0).normal(size=(40_000, 6))
    threads = _jit.thread_count()
    try:
        labels = []
        for count in {1, threads}:
            _jit.numba.set_num_threads(count)
            labels.append(
                mc.partition(
                    X, 2000, method=method, **({"gamma": 0.5} if method == "vmdav" else {})
                ).labels
            )
    finally:
        _jit.numba.set_num_threads(threads)
    assert (labels[0] == labels[-1]).all()


def test_ties_across_chunks_go_to_the_lowest_row():
    X = np.random.default_rng(0).integers(0, 4, size=(90_000, 3)).astype(float)
    X[:, 0] *= 3
    few = mc.partition(X, 9_000, method="mdav").labels
    assert (few == oracles.mdav(X, 9_000)).all()


def test_weights_pull_the_mean():
    """With nearly all weight on one side, the farthest record from the mean is on the other."""
    X = np.array([[0.0, 0], [1, 0], [2, 0], [10, 0], [11, 0.0], [12.5, 0.1]])
    weights = np.array([1e6, 1e6, 1e6, 1, 1, 1])
    labels = mc.partition(X, 2, method="mdav", weights=weights).labels
    assert labels[5] == 0
    assert mc.partition(X, 2, method="mdav", weights=weights[::-1].copy()).labels[0] == 0


def test_distortion_by_hand():
    X = [[0.0, 0.0], [2.0, 0.0], [10.0, 4.0], [12.0, 4.0]]
    assert mc.distortion(X, [0, 0, 1, 1]) == pytest.approx(4 / 120)
    assert mc.distortion(X, [0, 0, 0, 0]) == pytest.approx(1)
    assert mc.distortion(X, [0, 1, 2, 3]) == 0
    assert mc.distortion([[1.0], [1.0]], [0, 0]) == 0
    assert mc.distortion([0.0, 1.0], [0, 0], weights=[3.0, 1.0]) == pytest.approx(1)


def test_distortion_takes_a_partition_and_any_numbers_of_cells():
    X = [0.0, 2.0, 10.0, 12.0]
    result = mc.partition(X, 2)
    assert (
        mc.distortion(X, result)
        == mc.distortion(X, result.labels)
        == mc.distortion(X, [7, 7, 10**15, 10**15])
    )
    assert mc.distortion(X, [2**53, 2**53, 2**53 + 1, 2**53 + 1]) == mc.distortion(X, result)


def test_distortion_rejects_text_without_showing_it():
    for labels in (["secret", "secret"], [["secret"], ["secret", "secret"]], [None, "secret"]):
        with raises(mc.errors.OptionError, "option.invalid", option="labels") as shown:
            mc.distortion([1.0, 2.0], labels)
        assert "secret" not in str(shown.value)


@pytest.mark.parametrize(
    "labels", [[0, 0], [0, 0, -1], [[0, 0, 0]], [0, 0, 0.5], [0, 0, np.nan], [0, 0, np.inf]]
)
def test_distortion_rejects_mismatched_labels(labels):
    with raises(mc.errors.OptionError, "option.invalid", option="labels"):
        mc.distortion([1.0, 2.0, 3.0], labels)
