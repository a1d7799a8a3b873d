"""Utility: moments, correlations and quantiles against hand and plain computations."""

import datetime
import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from microcell.errors import DataError, SchemaError
from microcell.measures.evaluate import evaluate
from microcell.measures.evidence import Evidence
from microcell.measures.pairs import ColumnPairs
from microcell.measures.registry import measures
from microcell.measures.utility import compare_correlations, compare_quantiles
from microcell.model import Column, Schema, Table, Values
from tests.raising import raises
from tests.small_tables import table, take


def numeric(*names):
    return [Column(name, kind="numeric", publish="mean") for name in names]


NAMES = (
    *("il1s", "mean_change", "deviation_change"),
    *("correlation_change", "correlation_change_average", "eigenvalue_change"),
)


def evidence_of(original, released, schema, pairs=None):
    pairs = np.arange(released.rows) if pairs is None else pairs
    return Evidence(original, released, schema, pairs=pairs)


def evaluate_utility(*tables, **options):
    return evaluate(evidence_of(*tables, **options), [measures()[name] for name in NAMES])


def measured(*tables, **options):
    return {name: item.value for name, item in evaluate_utility(*tables, **options).items()}


def of_one(before, after, column=None, **more):
    schema = Schema(quasi=[column or numeric("x")[0]])
    return measured(table(x=before, **more), table(x=after, **more), schema)


# ------------------------------------------------------------------------------------ plain oracle


def moments(numbers, weights):
    """Mean and sample deviation, by loops."""
    total = math.fsum(weights)
    mean = math.fsum(w * x for x, w in zip(numbers, weights, strict=True)) / total
    squares = math.fsum(w * (x - mean) ** 2 for x, w in zip(numbers, weights, strict=True)) / total
    return mean, math.sqrt(squares * len(numbers) / max(len(numbers) - 1, 1))


def correlation(one, two, weights):
    both = [
        item for item in zip(one, two, weights, strict=True) if None not in item and item[2] > 0
    ]
    if len({x for x, _, _ in both}) < 2 or len({y for _, y, _ in both}) < 2:
        return 0.0
    total = sum(w for _, _, w in both)
    mx, my = sum(w * x for x, _, w in both) / total, sum(w * y for _, y, w in both) / total
    xy = sum(w * (x - mx) * (y - my) for x, y, w in both)
    xx, yy = sum(w * (x - mx) ** 2 for x, _, w in both), sum(w * (y - my) ** 2 for _, y, w in both)
    return xy / math.sqrt(xx * yy)


def measure_plainly(before, after, weights, confidential=()):
    """The measures from lists of numbers by column name, None where missing."""
    actual, steps = {}, []
    varying = {
        name
        for name, column in before.items()
        if len({x for x, w in zip(column, weights, strict=True) if x is not None and w > 0}) > 1
    }
    for name in before:
        if name not in varying or name in confidential:
            continue
        old = [
            (x, y, w)
            for x, y, w in zip(before[name], after[name], weights, strict=True)
            if x is not None and w > 0
        ]
        mean, spread = moments([x for x, _, _ in old], [w for _, _, w in old])
        new = [(y, w) for y, w in zip(after[name], weights, strict=True) if y is not None and w > 0]
        mean_after, spread_after = (
            moments([y for y, _ in new], [w for _, w in new]) if new else (mean, 0.0)
        )
        lost = sum(w * abs(x - (mean if y is None else y)) for x, y, w in old) / sum(
            w for _, _, w in old
        )
        actual[f"il1s.{name}"] = lost / spread / math.sqrt(2)
        actual[f"mean_change.{name}"] = abs(mean - mean_after) / spread
        actual[f"deviation_change.{name}"] = abs(spread - spread_after) / spread
        steps.append(actual[f"il1s.{name}"])
    if steps:
        actual["il1s"] = sum(steps) / len(steps)
        for base in ("mean_change", "deviation_change"):
            actual[base] = max(
                value for name, value in actual.items() if name.startswith(f"{base}.")
            )
    names = [name for name in before if name in varying]
    if len(names) > 1:
        matrices = [np.eye(len(names)), np.eye(len(names))]
        for matrix, side in zip(matrices, (before, after), strict=True):
            for i, j in combinations(range(len(names)), 2):
                matrix[i, j] = matrix[j, i] = correlation(side[names[i]], side[names[j]], weights)
        changes = [
            abs(matrices[0][i, j] - matrices[1][i, j])
            for i, j in combinations(range(len(names)), 2)
        ]
        actual["correlation_change"] = max(changes)
        actual["correlation_change_average"] = sum(changes) / len(changes)
        old, new = (sorted(np.linalg.eigvals(matrix).real) for matrix in matrices)
        actual["eigenvalue_change"] = sum(abs(a - b) for a, b in zip(old, new, strict=True)) / sum(
            map(abs, old)
        )
    return actual


entries = st.one_of(st.none(), st.integers(-3, 3), st.integers(-300, 300).map(lambda x: x / 16))


@st.composite
def releases(draw):
    """Columns with ties, gaps and constants: quasi-identifiers a and b, confidential c."""
    n = draw(st.integers(1, 9))
    column = st.one_of(st.lists(entries, min_size=n, max_size=n), entries.map(lambda x: [x] * n))
    before = {name: draw(column) for name in "abc"}
    after = {name: draw(column) for name in "ab"} | {"c": before["c"]}
    weights = draw(st.one_of(st.just([1] * n), st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    return before, after, weights


def as_table(columns):
    return table(
        **{
            name: [None if x is None else float(x) for x in column]
            for name, column in columns.items()
        }
    )


@given(releases())
def test_measures_match_a_plain_computation(release):
    before, after, weights = release
    original, released = as_table({**before, "w": weights}), as_table({**after, "w": weights})
    schema = Schema(quasi=numeric("a", "b"), confidential=numeric_confidential("c"), weight="w")
    actual = measured(original, released, schema)
    expected = measure_plainly(before, after, weights, confidential=("c",))
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert actual[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name


def numeric_confidential(*names):
    return [Column(name, kind="numeric") for name in names]


# ----------------------------------------------------------------------------------------- by hand


def test_the_worked_example():
    actual = of_one([1.0, 2.0, 3.0, 6.0], [1.5, 1.5, 4.5, 4.5])
    spread = math.sqrt(14 / 3)
    assert actual["il1s"] == pytest.approx((0.5 + 0.5 + 1.5 + 1.5) / 4 / math.sqrt(2) / spread)
    assert actual["mean_change"] == pytest.approx(0, abs=1e-15)
    assert actual["deviation_change"] == pytest.approx(1 - math.sqrt(3) / spread)
    assert "correlation_change" not in actual


def test_correlations_of_confidential_columns_count():
    x, y = [1.0, 2.0, 3.0, 4.0], [2.5] * 4
    schema = Schema(quasi=numeric("x"), confidential=numeric_confidential("pay"))
    actual = measured(table(x=x, pay=x), table(x=y, pay=x), schema)
    assert actual["correlation_change"] == actual["correlation_change_average"] == pytest.approx(1)
    assert actual["eigenvalue_change"] == pytest.approx(1)
    assert actual["deviation_change"] == pytest.approx(1)
    assert not [name for name in actual if name.endswith(".pay")]


def test_an_unchanged_release_changes_no_measure():
    rng = np.random.default_rng(3)
    original = table(a=rng.normal(size=50), b=rng.integers(0, 4, 50), c=rng.normal(size=50))
    schema = Schema(quasi=numeric("a", "b"), confidential=numeric_confidential("c"))
    assert set(measured(original, original, schema).values()) == {0.0}


def test_the_worst_column_and_pair_are_named():
    before = table(a=[1.0, 2, 3, 4], b=[1.0, 3, 2, 4], c=[1.0, 2, 4, 3])
    after = table(a=[1.0, 2, 3, 4], b=[2.5, 2.5, 2.5, 2.5], c=[1.0, 2, 4, 3])
    schema = Schema(quasi=numeric("a", "b", "c"))
    actual = evaluate_utility(before, after, schema)
    assert actual["deviation_change"].meaning.endswith("Worst column: b.")
    assert actual["correlation_change"].meaning.endswith("Largest change: a and b.")
    assert all(measure.lower_is_better for measure in actual.values())


def test_ordinal_columns_count_by_rank_and_ranges_by_midpoint():
    order = ("low", "middle", "high")
    ranked = of_one(
        ["low", "high", "middle", "high"], ["middle"] * 4, Column("x", kind="ordinal", order=order)
    )
    assert ranked == pytest.approx(of_one([0.0, 2.0, 1.0, 2.0], [1.0] * 4))
    ranges = of_one([20, 28, 41, 47], ["20-30", "20-30", "40 to 50", "40 to 50"])
    assert ranges == pytest.approx(of_one([20, 28, 41, 47], [25.0, 25.0, 45.0, 45.0]))


def test_dates_count_as_numbers():
    days = [datetime.date(2020, 1, day) for day in (1, 5, 9, 20)]
    middle = [datetime.date(2020, 1, day) for day in (3, 3, 14, 14)]
    actual = of_one(days, middle, Column("x", kind="datetime"))
    assert actual == pytest.approx(of_one([1.0, 5.0, 9.0, 20.0], [3.0, 3.0, 14.0, 14.0]))


def test_nominal_columns_codes_and_locations_are_ignored():
    before = table(x=["a", "b"], zip=["94110", "94121"], lat=[1.0, 2.0], lon=[3.0, 4.0])
    schema = Schema(
        quasi=[
            Column("x", kind="nominal"),
            Column("zip", kind="code"),
            Column("home", kind="location", latitude="lat", longitude="lon"),
        ]
    )
    assert measured(before, before, schema) == {}


@pytest.mark.parametrize(
    "scale, shift",
    [(1.0, 1.7e9), (1e300, 0.0), (1e-300, 0.0), (8e307, 0.0), (-1.0, 0.0), (1e-320, 0.0)],
)
def test_scale_and_shift_do_not_matter(scale, shift):
    x, y, c = np.array([0.0, 0.5, 1.0, 2.0]), np.array([0.25, 0.25, 1.5, 1.5]), [1.0, 0.0, 2.0, 3.0]
    schema = Schema(quasi=numeric("x"), confidential=numeric_confidential("c"))
    plain = measured(table(x=x, c=c), table(x=y, c=c), schema)
    moved = measured(table(x=x * scale + shift, c=c), table(x=y * scale + shift, c=c), schema)
    # Numbers of 1e-320 have few digits left to compare.
    assert moved == pytest.approx(plain, rel=1e-3)


def test_a_tiny_published_variation_is_not_constant():
    """What is published varies by 1e-300 of the original, and still goes along with it."""
    x, c = np.array([1.0, 2.0, 3.0, 4.0]), [1.0, 2.0, 3.0, 4.0]
    schema = Schema(quasi=numeric("x"), confidential=numeric_confidential("c"))
    actual = measured(table(x=x * 1e300, c=c), table(x=x, c=c), schema)
    assert actual["correlation_change"] == pytest.approx(0, abs=1e-12)
    assert actual["deviation_change"] == pytest.approx(1)


def test_wild_published_values_give_a_large_number():
    actual = of_one([1.0, 2.0, 3.0], [1e308, -1e308, 0.0])
    assert 1e100 < actual["il1s"] < np.inf
    assert 1e100 < actual["deviation_change"] < np.inf


def test_common_rows_of_two_columns_may_hardly_vary():
    """The one large value of a has no partner: among the others digits must not cancel."""
    a, b = [1e12, 1.0, 2.0, 3.0, 5.0], [None, 2.0, 1.0, 4.0, 3.0]
    schema = Schema(quasi=numeric("a", "b"))
    original = table(a=a, b=b)
    actual = compare_correlations(ColumnPairs(original, original, schema, np.arange(5)).quantities)
    assert actual.before[0, 1] == pytest.approx(correlation(a, b, [1] * 5), rel=1e-9)


# --------------------------------------------------------------------------------------- edge cases


def test_constant_columns_are_ignored():
    before, after = table(a=[5.0] * 4, b=[1.0, 2, 3, 4]), table(a=[6.0, 5, 5, 5], b=[1.0, 2, 3, 4])
    actual = measured(before, after, Schema(quasi=numeric("a", "b")))
    assert "il1s.a" not in actual
    assert "correlation_change" not in actual
    assert actual["il1s"] == 0


def test_a_single_record_and_no_record_have_no_measures():
    assert of_one([1.0], [1.0]) == {}
    empty = Table({"x": Values("float", np.zeros(0), np.zeros(0, dtype=bool))}, rows=0, native=None)
    assert measured(empty, empty, Schema(quasi=numeric("x"))) == {}
    evidence = evidence_of(empty, empty, Schema(quasi=numeric("x")))
    assert (evidence.correlations, evidence.quantiles) == (None, ())


def test_a_column_that_is_not_published_counts_as_its_mean():
    actual = of_one([1.0, 2.0, 3.0], [None, None, None])
    assert actual["mean_change"] == 0
    assert actual["deviation_change"] == 1
    assert actual["il1s"] == pytest.approx(of_one([1.0, 2.0, 3.0], [2.0, 2.0, 2.0])["il1s"])


def test_records_with_weight_0_are_ignored():
    schema = Schema(quasi=numeric("a", "b"), weight="w")
    before, after = (
        {"a": [1.0, 2, 4, 99], "b": [2.0, 1, 5, -7]},
        {"a": [1.5, 1.5, 4, 0], "b": [3.0, 1, 4, 1]},
    )
    weights = [1.0, 2.0, 1.0, 0.0]
    actual = measured(table(**before, w=weights), table(**after, w=weights), schema)
    fewer = [{name: column[:3] for name, column in side.items()} for side in (before, after)]
    assert actual == pytest.approx(
        measured(table(**fewer[0], w=weights[:3]), table(**fewer[1], w=weights[:3]), schema),
        rel=1e-12,
    )


def test_all_weights_0_give_no_measures():
    schema = Schema(quasi=numeric("a"), weight="w")
    assert (
        measured(table(a=[1.0, 2.0], w=[0.0, 0.0]), table(a=[1.0, 2.0], w=[0.0, 0.0]), schema) == {}
    )


@pytest.mark.parametrize("weight", [-1.0, None, math.inf])
def test_an_invalid_weight_is_an_error_with_its_row(weight):
    original = table(a=[1.0, 2.0], w=[1.0, weight])
    with raises(DataError, "data.bad_weight", column="w", row=2):
        measured(original, original, Schema(quasi=numeric("a"), weight="w"))


def test_infinities_are_an_error_in_quasi_identifiers_and_missing_in_confidential_columns():
    original = table(a=[1.0, 2.0, math.inf], c=[1.0, 2.0, 3.0])
    with raises(DataError, "data.not_finite", column="a", row=3, table="original"):
        measured(original, original, Schema(quasi=numeric("a")))
    swapped = Schema(quasi=numeric("c"), confidential=numeric_confidential("a"))
    assert measured(original, original, swapped)["correlation_change"] == 0


def test_storages_that_cannot_be_compared_are_an_error():
    with raises(SchemaError, "schema.wrong_kind", column="x"):
        of_one([1.0, 2.0], [datetime.date(2020, 1, 1)] * 2)


def test_an_unreleased_confidential_column_is_ignored():
    schema = Schema(quasi=numeric("x"), confidential=numeric_confidential("c"))
    actual = measured(table(x=[1.0, 2.0], c=[1.0, 2.0]), table(x=[1.0, 2.0]), schema)
    assert "correlation_change" not in actual


# -------------------------------------------------------------------------------------- symmetries


def random_release(seed, n=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) @ rng.normal(size=(4, 4))
    cells = rng.integers(0, 8, n)
    Y = np.array([X[cells == cell].mean(axis=0) for cell in cells])
    gap = rng.random((n, 4)) < 0.1
    before = {
        name: [None if g else x for x, g in zip(X[:, j], gap[:, j], strict=True)]
        for j, name in enumerate("abcd")
    }
    after = {name: list(Y[:, j]) for j, name in enumerate("abc")} | {"d": before["d"]}
    schema = Schema(quasi=numeric("a", "b", "c"), confidential=numeric_confidential("d"))
    return before, after, schema


@pytest.mark.parametrize("seed", range(5))
def test_order_of_rows_and_columns_does_not_matter(seed):
    before, after, schema = random_release(seed)
    original, released = table(**before), table(**after)
    plain = measured(original, released, schema)
    rng = np.random.default_rng(seed)
    moved, shuffled = rng.permutation(40), rng.permutation(40)
    pairs = np.argsort(moved)[shuffled]
    assert measured(
        take(original, moved), take(released, shuffled), schema, pairs
    ) == pytest.approx(plain, abs=1e-12)
    turned = Schema(quasi=numeric("c", "a", "b"), confidential=numeric_confidential("d"))
    assert measured(original, released, turned) == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_sign_of_a_column_does_not_matter(seed):
    before, after, schema = random_release(seed)
    plain = measured(table(**before), table(**after), schema)
    for side in (before, after):
        side["b"] = [None if x is None else -x for x in side["b"]]
    assert measured(table(**before), table(**after), schema) == pytest.approx(plain, abs=1e-12)


def test_fewer_published_rows_are_compared_with_their_own():
    before = table(x=[1.0, 50.0, 2.0, 3.0])
    actual = measured(
        before, table(x=[3.0, 1.0, 2.0]), Schema(quasi=numeric("x")), np.array([3, 0, 2])
    )
    assert set(actual.values()) == {0.0}


# ----------------------------------------------------------------------------------------- displays


def read(original, released, schema):
    return ColumnPairs(original, released, schema, np.arange(released.rows)).quantities


def test_correlations_include_only_varying_columns():
    before = table(a=[1.0, 2, 3], b=[5.0] * 3, c=[3.0, 1, 2])
    schema = Schema(quasi=numeric("a", "b"), confidential=numeric_confidential("c"))
    actual = compare_correlations(read(before, before, schema))
    assert actual.names == ("a", "c")
    assert actual.before == pytest.approx(np.array([[1, -0.5], [-0.5, 1]]))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
@example([1000000.0, 999999.9999999999])
def test_quantiles_equal_numpy(numbers):
    actual = compare_quantiles(
        read(table(x=numbers), table(x=numbers[:1] * len(numbers)), Schema(quasi=numeric("x")))
    )
    assert actual[0].shares == pytest.approx(np.linspace(0, 1, 101))
    assert actual[0].before == pytest.approx(
        np.quantile(numbers, np.linspace(0, 1, 101)), rel=1e-9, abs=1e-6
    )
    assert (np.diff(actual[0].before) >= 0).all()
    assert (actual[0].after == numbers[0]).all()


def test_quantiles_of_the_widest_floats_are_numbers():
    actual = compare_quantiles(
        read(table(x=[-1.7e308, 1.7e308]), table(x=[0.0, 0.0]), Schema(quasi=numeric("x")))
    )
    assert np.isfinite(actual[0].before).all()


def test_quantiles_are_on_the_axis_of_comparisons():
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 3)]
    dates = compare_quantiles(
        read(table(x=days), table(x=days), Schema(quasi=[Column("x", kind="datetime")]))
    )[0]
    assert (dates.unit, dates.before[0], dates.before[-1]) == ("D", 18262, 18264)
    span = Values("duration", np.array([1_000, 3_000]), np.zeros(2, dtype=bool), unit="ms")
    spans = compare_quantiles(
        read(table(x=span), table(x=span), Schema(quasi=[Column("x", kind="datetime")]))
    )[0]
    assert (spans.unit, spans.before[0], spans.before[-1]) == ("seconds", 1.0, 3.0)
    whole = compare_quantiles(
        read(table(x=[2**60, 2**60 + 8]), table(x=[2**60] * 2), Schema(quasi=numeric("x")))
    )[0]
    assert whole.unit is None
    assert whole.before[0] == float(2**60)


def test_quantiles_are_of_quasi_identifiers_that_have_values_on_both_sides():
    schema = Schema(quasi=numeric("a", "b"), confidential=numeric_confidential("c"))
    before, after = (
        table(a=[1.0, None], b=[1.0, 2.0], c=[1.0, 2.0]),
        table(a=[None, 2.0], b=[None, None], c=[1.0, 2.0]),
    )
    actual = compare_quantiles(read(before, after, schema))
    assert [item.name for item in actual] == ["a"]
    assert actual[0].before[0] == actual[0].before[-1] == 1


def test_displayed_correlations_are_those_measured():
    before, after, schema = random_release(1)
    evidence = evidence_of(table(**before), table(**after), schema)
    change = np.abs(evidence.correlations.before - evidence.correlations.after).max()
    assert change == measured(table(**before), table(**after), schema)["correlation_change"]
