"""Propensity: how well a model distinguishes published from original records."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import DataError
from microcell.measures import propensity
from microcell.measures.evidence import Evidence
from microcell.measures.propensity import propensity_error
from microcell.model import Column, Schema, Table, Values
from tests.raising import raises
from tests.small_tables import table, take


def numeric(*names):
    return [Column(name, kind="numeric", publish="mean") for name in names]


def of(original, released, schema, pairs=None, **options):
    pairs = np.arange(released.rows) if pairs is None else pairs
    result = propensity_error(Evidence(original, released, schema, pairs=pairs), **options)
    return None if result is None else result.value


def fit_plainly(before, after, ridge=1e-4, steps=200_000):
    """4 mean (p - 1/2)^2 of a logistic regression, by accelerated gradient descent."""
    X = np.vstack((before, after))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X = np.hstack((np.ones((len(X), 1)), X))
    y = np.repeat([0.0, 1.0], len(before))
    penalty = np.array([0.0] + [ridge] * (X.shape[1] - 1))
    rate = 1 / (np.linalg.eigvalsh(X.T @ X / len(X)).max() / 4 + ridge)
    b = ahead = np.zeros(X.shape[1])
    momentum = (1 - math.sqrt(rate * ridge)) / (1 + math.sqrt(rate * ridge))
    for _ in range(steps):
        p = 1 / (1 + np.exp(-X @ ahead))
        slope = X.T @ (p - y) / len(X) + penalty * ahead
        following = ahead - rate * slope
        b, ahead = following, following + momentum * (following - b)
        if np.abs(slope).max() < 1e-11:
            break
    return 4 * np.mean((1 / (1 + np.exp(-X @ b)) - 0.5) ** 2)


def random_pair(seed, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3))
    cells = rng.integers(0, 12, n)
    Y = np.array([X[cells == cell].mean(axis=0) for cell in cells])
    Y[:, 2] = X[:, 2]
    return X, Y


def as_tables(X, Y):
    return table(**{f"c{j}": x for j, x in enumerate(X.T)}), table(
        **{f"c{j}": y for j, y in enumerate(Y.T)}
    )


SCHEMA = Schema(quasi=numeric("c0", "c1"), confidential=[Column("c2", kind="numeric")])


@pytest.mark.parametrize("seed", range(6))
def test_the_fit_equals_a_plain_logistic_regression(seed):
    X, Y = random_pair(seed)
    mean, spread = X.mean(axis=0), X.std(axis=0)

    def terms(points):
        Z = (points - mean) / spread
        return np.column_stack([Z, *(Z[:, i] * Z[:, j] for i in range(3) for j in range(i, 3))])

    assert of(*as_tables(X, Y), SCHEMA) == pytest.approx(fit_plainly(terms(X), terms(Y)), rel=1e-5)


def test_categories_count_by_their_indicators():
    before, after = list("aaabbbccdd"), list("aaaaaaccca")
    schema = Schema(quasi=[Column("x", kind="nominal")])
    actual = of(table(x=before), table(x=after), schema)
    indicators = [
        np.array([[float(item == name) for name in "abcd"] for item in side])
        for side in (before, after)
    ]
    assert actual == pytest.approx(fit_plainly(*indicators), rel=1e-5)
    assert 0.05 < actual < 0.5


@pytest.mark.parametrize("seed", range(3))
def test_an_unchanged_release_cannot_be_distinguished(seed):
    X, _ = random_pair(seed)
    assert of(*as_tables(X, X), SCHEMA) == pytest.approx(0, abs=1e-9)


def test_an_unchanged_release_of_all_kinds_cannot_be_distinguished():
    original = table(
        age=[30, 41, None, 22, 22],
        sex=["f", None, "m", "m", "f"],
        pain=["no", "yes", "no", "no", "yes"],
        zip=["94110", "94121", "10001", None, "94110"],
        lat=[1.0, 2.0, 3.0, None, 1.0],
        lon=[1.0, 5.0, 3.0, 4.0, 1.0],
        pay=[1.0, 2.0, 9.0, 4.0, math.inf],
        job=["a", "b", "c", "a", None],
    )
    schema = Schema(
        quasi=[
            *numeric("age"),
            Column("sex", kind="nominal"),
            Column("pain", kind="ordinal", order=("no", "yes")),
            Column("zip", kind="code"),
            Column("home", kind="location", latitude="lat", longitude="lon"),
        ],
        confidential=[Column("pay", kind="numeric"), Column("job", kind="nominal")],
    )
    assert of(original, original, schema) == pytest.approx(0, abs=1e-9)
    masked = Table(
        {
            **original.columns,
            "zip": table(x=["941**", "941**", "100**", None, "941**"]).columns["x"],
        },
        5,
        None,
    )
    assert 0 < of(original, masked, schema) < 1


def test_completely_different_tables_are_distinguished():
    n = 200
    x = np.random.default_rng(0).normal(size=n)
    assert of(table(x=x), table(x=x + 100), Schema(quasi=numeric("x"))) > 0.99
    assert of(table(x=[5.0] * n), table(x=[6.0] * n), Schema(quasi=numeric("x"))) > 0.99
    assert (
        of(table(x=["a"] * n), table(x=["b"] * n), Schema(quasi=[Column("x", kind="nominal")]))
        > 0.99
    )
    assert of(table(x=x), table(x=[None] * n), Schema(quasi=numeric("x"))) > 0.99


def test_a_coarser_release_is_easier_to_distinguish():
    x = np.sort(np.random.default_rng(0).normal(size=600))
    actual = [
        of(
            table(x=x),
            table(x=np.repeat(x.reshape(-1, k).mean(axis=1), k)),
            Schema(quasi=numeric("x")),
        )
        for k in (2, 60, 300, 600)
    ]
    assert actual == sorted(actual)
    assert actual[0] < 0.01
    # All at the mean: a curve in z^2 is the best that the model has.
    z, zero = (x - x.mean()) / x.std(), np.zeros(600)
    assert actual[-1] == pytest.approx(
        fit_plainly(*(np.column_stack((side, side**2)) for side in (z, zero))), rel=1e-5
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_any_release_gives_a_share(seed, n):
    rng = np.random.default_rng(seed)

    def column():
        return [
            None if rng.random() < 0.2 else float(x)
            for x in rng.choice([0, 1, -1e300, 1e300, 3.5], n)
        ]

    def names():
        return [None if rng.random() < 0.2 else str(x) for x in rng.choice(list("abc"), n)]

    original, released = (
        table(a=column(), b=column(), c=names()),
        table(a=column(), b=column(), c=names()),
    )
    actual = of(original, released, Schema(quasi=[*numeric("a", "b"), Column("c", kind="nominal")]))
    assert actual is None or 0 <= actual <= 1


def test_empty_input_gives_no_measure():
    empty = Table({"x": Values("float", np.zeros(0), np.zeros(0, dtype=bool))}, rows=0, native=None)
    assert of(empty, empty, Schema(quasi=numeric("x"))) is None
    assert of(table(x=[5.0, 5.0]), table(x=[5.0, 5.0]), Schema(quasi=numeric("x"))) is None


def test_infinite_quasi_identifiers_are_an_error():
    original = table(x=[1.0, math.inf])
    with raises(DataError, "data.not_finite", column="x", row=2):
        of(original, original, Schema(quasi=numeric("x")))


@pytest.mark.parametrize("seed", range(4))
def test_order_of_rows_and_columns_and_signs_do_not_matter(seed):
    X, Y = random_pair(seed)
    original, released = as_tables(X, Y)
    plain = of(original, released, SCHEMA)
    rng = np.random.default_rng(seed)
    moved, shuffled = rng.permutation(60), rng.permutation(60)
    pairs = np.argsort(moved)[shuffled]
    assert of(take(original, moved), take(released, shuffled), SCHEMA, pairs) == pytest.approx(
        plain, abs=1e-12
    )
    turned = Schema(quasi=numeric("c1", "c0"), confidential=[Column("c2", kind="numeric")])
    assert of(original, released, turned) == pytest.approx(plain, abs=1e-12)
    X[:, 0], Y[:, 0] = -X[:, 0], -Y[:, 0]
    assert of(*as_tables(X, Y), SCHEMA) == pytest.approx(plain, abs=1e-9)


def test_terms_are_limited_to_those_that_differ_most(monkeypatch):
    """With 3 terms, only the 3 columns remain; with 4, also the square that differs most."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 3))
    Y = X * [1.0, 0.3, 0.9]
    schema = Schema(quasi=numeric("c0", "c1", "c2"))
    Z = [(side - X.mean(axis=0)) / X.std(axis=0) for side in (X, Y)]
    monkeypatch.setattr(propensity, "_MAX_TERMS", 3)
    assert of(*as_tables(X, Y), schema) == pytest.approx(fit_plainly(*Z), rel=1e-4, abs=1e-9)
    monkeypatch.setattr(propensity, "_MAX_TERMS", 4)
    with_square = [np.column_stack((side, side[:, 1] ** 2)) for side in Z]
    assert of(*as_tables(X, Y), schema) == pytest.approx(fit_plainly(*with_square), rel=1e-4)


def test_ties_between_terms_are_broken_by_name_and_not_position(monkeypatch):
    """Both columns move by sqrt(2) deviations, one as a whole and the other into one point."""
    step = math.sqrt(0.5)
    before = {"a": [0.0, 0.0, 1.0, 1.0], "b": [-step, -step, step, step]}
    after = {"a": [1.0, 1.0, 2.0, 2.0], "b": [1.0, 1.0, 1.0, 1.0]}
    alone = [of(table(**before), table(**after), Schema(quasi=numeric(name))) for name in "ab"]
    assert alone[0] != pytest.approx(alone[1], rel=1e-2)
    monkeypatch.setattr(propensity, "_MAX_TERMS", 1)
    actual = [
        of(table(**before), table(**after), Schema(quasi=numeric(*names))) for names in ("ab", "ba")
    ]
    assert actual[0] == actual[1] == of(table(**before), table(**after), Schema(quasi=numeric("a")))


def test_many_columns_are_limited_too():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 260))
    names = [f"c{j}" for j in range(260)]
    assert 0 <= of(*as_tables(X, X + 0.1), Schema(quasi=numeric(*names))) <= 1


def test_a_sample_has_an_interval(monkeypatch):
    monkeypatch.setattr(propensity, "MAX_RECORDS", 400)
    rng = np.random.default_rng(2)
    x = rng.normal(size=3000)
    original, released = table(x=x), table(x=x * 0.7)
    schema = Schema(quasi=numeric("x"))

    def estimate(published, **options):
        evidence = Evidence(original, published, schema, pairs=np.arange(3000))
        return propensity_error(evidence, **options)

    sampled = estimate(released)
    assert sampled == estimate(released)
    low, high = sampled.interval
    assert 0 <= low < sampled.value < high <= 1
    assert estimate(released, seed=1).value != sampled.value
    same = estimate(original)
    assert (same.value, same.interval) == (0, (0, 0))
    monkeypatch.setattr(propensity, "MAX_RECORDS", 3000)
    assert estimate(released).interval is None
