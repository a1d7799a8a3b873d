"""Adding a batch to a partition: what each strategy makes, and that k holds whatever comes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import DataError, GuaranteeError, OptionError
from microcell.kernels import _jit
from microcell.methods.increments import STRATEGIES, _changed, add_batch, order_by_hash, varying
from tests.increments import oracles
from tests.raising import raises
from tests.reference import oracles as plain

EACH = pytest.mark.parametrize("strategy", STRATEGIES)
SPLITTING = ("split-early", "split-late", "refined")


def small_case(seed):
    """Return points with ties and constant columns, the size of the base, k and labels."""
    rng = np.random.default_rng(seed)
    k, m = int(rng.integers(2, 5)), int(rng.choice([1, 2, 3, 12]))
    base, new = int(rng.integers(k, 40)), int(rng.integers(0, 40))
    X = rng.integers(0, rng.integers(1, 7) + 1, size=(base + new, m)).astype(float)
    X[:, rng.random(m) < 0.2] = 3.0
    return X, base, k, plain.mdav(X[:base], k)


def hashed(points, weights):
    """Return the order in which "split-early" adds records."""
    return order_by_hash(np.asarray(points), np.asarray(weights))


def prepared(X, base, weights=None, in_order=oracles.in_order):
    """Return points and weights in canonical order, the rows of the batch, the inverse order."""
    each = np.ones(len(X)) if weights is None else weights
    order = [*range(base), *(base + i for i in in_order(X[base:], each[base:]))]
    return X[order], each[order], range(base, len(X)), np.argsort(order)


@pytest.mark.parametrize("inertial", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_labels_equal_the_reference(seed, inertial):
    X, base, k, start = small_case(seed)
    points, each, rows, back = prepared(X, base)
    joined = oracles.join(points, start, each, rows, inertial=inertial)
    expected = {
        "nearest": joined,
        "split-late": oracles.split(points, joined, k),
        "separate": joined
        if len(rows) < k
        else [*start, *(max(start) + 1 + plain.mdav(points[base:], k))],
    }
    for strategy, labels in expected.items():
        result = add_batch(X[:base], start, X[base:], k, strategy=strategy, inertial=inertial)
        assert (result.labels == np.array(labels)[back]).all(), strategy
    points, each, rows, back = prepared(varying(np.asarray(X, dtype=float)), base, in_order=hashed)
    early = oracles.split_early(points, start, each, rows, k, inertial=inertial)
    result = add_batch(X[:base], start, X[base:], k, strategy="split-early", inertial=inertial)
    assert (result.labels == np.array(early)[back]).all()


def test_weights_affect_centroids_and_splits():
    for seed, inertial in product(range(40), (False, True)):
        X, base, k, start = small_case(seed)
        weights = np.random.default_rng(seed).integers(1, 5, size=len(X)).astype(float)
        points, each, rows, back = prepared(X, base, weights)
        joined = oracles.join(points, start, each, rows, inertial=inertial)
        result = add_batch(
            X[:base], start, X[base:], k, strategy="nearest", inertial=inertial, weights=weights
        )
        assert (result.labels == np.array(joined)[back]).all()
        late = add_batch(
            X[:base], start, X[base:], k, strategy="split-late", inertial=inertial, weights=weights
        )
        sizes = np.bincount(joined)
        large = next((cell for cell in range(len(sizes)) if sizes[cell] >= 2 * k), None)
        if large is not None:
            members = np.flatnonzero(np.array(joined) == large)
            parts = mc.partition(points[members], k, method="mdav", weights=each[members]).labels
            assert same_cells(late.labels[np.argsort(back)][members], parts)


def same_cells(one, other):
    """Return True if two labelings have the same cells."""
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(other.tolist()))


def cells_as_records(X, base, labels):
    """Return the cells with base records as rows and new ones as values, as equal ones may swap."""
    cells = {}
    for row, label in enumerate(labels.tolist()):
        cells.setdefault(label, []).append((0, row) if row < base else (1, *X[row]))
    return sorted(sorted(cell) for cell in cells.values())


@pytest.mark.parametrize("inertial", [False, True])
@EACH
def test_order_of_a_batch_does_not_matter(strategy, inertial):
    for seed in range(25):
        X, base, k, start = small_case(seed)
        if seed % 2:
            X = X + np.random.default_rng(seed).normal(size=X.shape).round(1)
        first = add_batch(X[:base], start, X[base:], k, strategy=strategy, inertial=inertial)
        order = np.r_[:base, base + np.random.default_rng(seed).permutation(len(X) - base)]
        other = add_batch(X[:base], start, X[order[base:]], k, strategy=strategy, inertial=inertial)
        assert cells_as_records(X, base, first.labels) == cells_as_records(
            X[order], base, other.labels
        )


@given(
    k=st.integers(2, 5),
    m=st.integers(1, 3),
    sizes=st.lists(st.integers(0, 15), min_size=1, max_size=4),
    values=st.integers(0, 6),
    seed=st.integers(0, 10**6),
    strategy=st.sampled_from(list(STRATEGIES)),
    inertial=st.booleans(),
)
def test_k_holds_after_every_batch(k, m, sizes, values, seed, strategy, inertial):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, values + 1, size=(rng.integers(k, 4 * k), m)).astype(float)
    labels = mc.partition(X, k, method="mdav").labels
    for size in sizes:
        batch = rng.integers(0, values + 1, size=(size, m)).astype(float)
        result = add_batch(X, labels, batch, k, strategy=strategy, inertial=inertial, seed=seed)
        X, labels = np.concatenate([X, batch]), result.labels
        assert len(labels) == len(X)
        assert result.sizes.min() >= k
        if strategy in SPLITTING:
            assert result.sizes.max() < 2 * k


def test_split_early_splits_full_cells_at_once():
    base, batch = [[0.0], [2.0], [50.0], [51.0]], [[-3.0], [3.0]]
    early = add_batch(base, [0, 0, 1, 1], batch, 2, strategy="split-early")
    # -3 and 3 fill the cell around 1, and MDAV separates {-3, 0} from {2, 3}.
    assert early.labels.tolist() == [0, 2, 1, 1, 0, 2]


def test_inertia_prefers_the_smaller_cell():
    base = [[-1.0], [-1.0], [-1.0], [-1.0], [-1.0], [1.1], [1.1]]
    # Squared distances are 1 and 1.21; multiplied by 5/6 and 2/3 they are 0.833 and 0.807.
    for inertial, cell in ((False, 0), (True, 1)):
        result = add_batch(
            base, [0, 0, 0, 0, 0, 1, 1], [[0.0]], 2, strategy="nearest", inertial=inertial
        )
        assert result.labels[-1] == cell


def test_refinement_lowers_the_distortion_and_leaves_far_cells_alone():
    rng = np.random.default_rng(1)
    base, batch = rng.normal(size=(3000, 2)), rng.normal(loc=(2.5, 0), scale=0.1, size=(15, 2))
    start = mc.partition(base, 5, method="mdav").labels
    late, refined = (
        add_batch(base, start, batch, 5, strategy=name) for name in ("split-late", "refined")
    )
    X = np.concatenate([base, batch])
    assert mc.distortion(X, refined.labels) < mc.distortion(X, late.labels)
    left = base[:, 0] < 0
    assert same_cells(refined.labels[:3000][left], start[left])
    assert not same_cells(refined.labels[:3000], start)


def test_more_rounds_lower_the_distortion_further():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(2000, 3))
    start = mc.partition(X[:1800], 4, method="mdav").labels
    losses = [
        mc.distortion(
            X, add_batch(X[:1800], start, X[1800:], 4, strategy="refined", rounds=rounds).labels
        )
        for rounds in (1, 2, 6)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[2] < losses[0]


def test_result_does_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 13)).round(1)
    start = mc.partition(X[:1000], 4, method="mdav").labels
    for strategy in STRATEGIES:
        many = add_batch(X[:1000], start, X[1000:], 4, strategy=strategy)
        with _jit.one_thread():
            one = add_batch(X[:1000], start, X[1000:], 4, strategy=strategy)
        assert (one.labels == many.labels).all()


@EACH
def test_an_empty_batch_changes_no_cell(strategy):
    start = [0, 0, 1, 1, 1]
    result = add_batch([[1.0], [2.0], [8.0], [9.0], [9.0]], start, [], 2, strategy=strategy)
    assert result.labels.tolist() == start


@EACH
def test_large_cells_of_the_base_are_split(strategy):
    base = np.arange(12.0)[:, None]
    result = add_batch(base, [0] * 12, [[100.0]], 3, strategy=strategy)
    assert (result.sizes.max() < 6) == (strategy in SPLITTING)


@EACH
@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e200])
def test_scale_does_not_matter(strategy, scale):
    rng = np.random.default_rng(4)
    X = rng.integers(0, 50, size=(60, 2)).astype(float)
    start = mc.partition(X[:40], 3, method="mdav").labels
    one = add_batch(X[:40], start, X[40:], 3, strategy=strategy)
    other = add_batch(X[:40] * scale, start, X[40:] * scale, 3, strategy=strategy)
    if strategy != "split-early":  # its order of records is a hash of their exact coordinates
        assert same_cells(one.labels, other.labels)
    assert sorted(other.sizes)[0] >= 3


def test_base_and_batch_are_scaled_together():
    base = [[0.0], [1e199], [1e200], [1e200]]
    assert add_batch(base, [0, 0, 1, 1], [[1.0]], 2, strategy="nearest").labels[-1] == 0


@pytest.mark.parametrize(
    ("strategy", "inertial"), [("nearest", False), ("nearest", True), ("split-early", False)]
)
@pytest.mark.parametrize("columns", [1, 12])
def test_ties_go_to_the_lowest_cell(strategy, inertial, columns):
    places = np.tile(np.arange(300.0), 2)  # 600 cells of two, each place twice.
    base = np.repeat(places, 2)[:, None] * np.ones(columns)
    result = add_batch(
        base,
        np.repeat(np.arange(600), 2),
        [[7.0] * columns, [299.0] * columns],
        2,
        strategy=strategy,
        inertial=inertial,
    )
    assert result.labels[-2:].tolist() == [7, 299]


def test_changed_cells_of_constant_size():
    assert _changed(np.array([0, 0, 1, 1]), np.array([0, 2, 1, 1, 0, 2])).tolist() == [0, 2]


@EACH
def test_equal_points(strategy):
    result = add_batch(np.ones((6, 2)), [0, 0, 0, 1, 1, 1], np.ones((7, 2)), 3, strategy=strategy)
    assert result.sizes.min() >= 3
    assert len(result.labels) == 13


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("new", [1, 2, 7])
def test_records_without_columns(strategy, new):
    labels = add_batch(
        np.empty((6, 0)), [0, 0, 0, 1, 1, 1], np.empty((new, 0)), 3, strategy=strategy
    ).labels
    assert len(labels) == 6 + new
    assert np.bincount(labels).min() >= 3


def test_separate_with_another_method():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 2))
    start = mc.partition(X[:50], 3, method="mdav").labels
    result = add_batch(X[:50], start, X[50:], 3, strategy="separate", method="vmdav", gamma=0.5)
    order = oracles.in_order(X[50:], np.ones(40))
    alone = mc.partition(X[50:][order], 3, method="vmdav", gamma=0.5).labels
    assert same_cells(result.labels[50:][order], alone)
    assert (result.labels[:50] == start).all()
    assert (
        add_batch(
            X[:50], start, X[50:], 3, strategy="separate", method="auto", effort="fast"
        ).sizes.min()
        >= 3
    )


@pytest.mark.parametrize(
    ("change", "error", "code"),
    [
        ({"strategy": "best"}, OptionError, "option.unknown"),
        ({"inertial": 1}, OptionError, "option.wrong_type"),
        ({"strategy": "nearest", "method": "mdav"}, OptionError, "option.unsupported"),
        ({"strategy": "nearest", "gamma": 0.2}, OptionError, "option.unsupported"),
        ({"strategy": "separate", "gamma": 0.2}, OptionError, "option.unsupported"),
        ({"strategy": "separate", "method": "auto", "gamma": 1}, OptionError, "option.unsupported"),
        ({"strategy": "separate", "method": "magic"}, OptionError, "option.unknown"),
        ({"strategy": "nearest", "rounds": 2}, OptionError, "option.unsupported"),
        ({"strategy": "refined", "rounds": 0}, OptionError, "option.out_of_range"),
        ({"k": 1}, OptionError, "option.out_of_range"),
        ({"k": 3}, GuaranteeError, "guarantee.failed"),
        ({"labels": [0, 0, 1]}, OptionError, "option.invalid"),
        ({"labels": [0, 0]}, OptionError, "option.invalid"),
        ({"batch": [[1.0, np.nan]]}, DataError, "data.not_finite"),
        ({"base": [[1.0, 2.0], [np.inf, 1.0], [1, 1], [1, 1]]}, DataError, "data.not_finite"),
        ({"batch": [[1.0]]}, DataError, "table.mismatch"),
        ({"batch": [["secret", "value"]]}, DataError, "data.not_a_number"),
        ({"weights": [1.0] * 4}, DataError, "data.bad_weight"),
        ({"weights": [1.0, 1.0, 1.0, 1.0, 0.0]}, DataError, "data.bad_weight"),
    ],
)
def test_invalid_arguments(change, error, code):
    arguments = {
        "base": [[0.0, 1.0], [1.0, 1.0], [8.0, 9.0], [9.0, 9.0]],
        "labels": [0, 0, 1, 1],
        "batch": [[3.0, 3.0]],
        "k": 2,
        **change,
    }
    positional = [arguments.pop(name) for name in ("base", "labels", "batch", "k")]
    with raises(error, code) as caught:
        add_batch(*positional, **arguments)
    assert "secret" not in str(caught.value)


def test_split_early_does_not_depend_on_the_order_and_is_not_sorted():
    """Sorted arrivals would fill one region after the other and bias the cells."""
    X = np.random.default_rng(0).normal(size=(900, 2))
    base, batch = X[:500], X[500:]
    labels = mc.partition(base, 5, method="mdav").labels
    weights = np.ones(len(batch))
    order = order_by_hash(batch, weights)
    ranks = np.argsort(np.argsort(batch[:, 0]))[order]
    assert abs(np.corrcoef(ranks, np.arange(400))[0, 1]) < 0.2
    parts = []
    for seed in range(2):
        moved = np.random.default_rng(seed).permutation(400)
        result = add_batch(base, labels, batch[moved], 5, strategy="split-early").labels
        back = np.empty(400, dtype=int)
        back[moved] = result[500:]
        parts.append(np.concatenate([result[:500], back]))
    pairs = set(zip(*[part.tolist() for part in parts], strict=True))
    assert len(pairs) == len(set(parts[0].tolist())) == len(set(parts[1].tolist()))
