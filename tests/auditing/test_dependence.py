"""Dependence: what classes tell of confidential columns, by hand and against plain computations."""

import datetime
import math
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import DataError
from microcell.measures.confidential import confidential_columns
from microcell.measures.evaluate import evaluate
from microcell.measures.registry import measures
from microcell.model import Column, Schema, Table, Values
from tests.raising import raises
from tests.small_tables import table, take


def schema_of(*columns):
    return Schema(quasi=["age"], confidential=columns)


NUMERIC, NOMINAL = Column("y", kind="numeric"), Column("y", kind="nominal")


def evaluate_dependence(released, schema, classes):
    columns = confidential_columns(released, schema, np.asarray(classes, dtype=np.int64))
    definitions = [measures()[name] for name in ("dependence_loss", "diversity_average")]
    return evaluate(SimpleNamespace(confidential=columns), definitions)


def measured(released, schema, classes):
    actual = evaluate_dependence(released, schema, classes)
    return {name: item.value for name, item in actual.items()}


def of_one(column, values, classes):
    return measured(table(y=values), schema_of(column), classes)


# ------------------------------------------------------------------------------------ plain oracle


def lose_plainly(values, classes, nominal):
    """Squared errors about class means and the overall mean; None for a constant column.

    Missing values are at the mean; categories are indicators of height sqrt(1/2).
    """
    known = [value for value in values if value is not None]
    if len(set(known)) < 2:
        return None
    names = sorted(set(known)) if nominal else [None]

    def coordinate(value, name):
        return float(value == name) / math.sqrt(2) if nominal else value

    lost = whole = 0.0
    for name in names:
        mean = math.fsum(coordinate(value, name) for value in known) / len(known)
        points = [mean if value is None else coordinate(value, name) for value in values]
        whole += math.fsum((point - mean) ** 2 for point in points)
        groups = defaultdict(list)
        for point, label in zip(points, classes, strict=True):
            groups[label].append(point)
        for group in groups.values():
            middle = math.fsum(group) / len(group)
            lost += math.fsum((point - middle) ** 2 for point in group)
    return lost / whole, whole if nominal else float(len(known))


def quantize_plainly(values):
    present = [value for value in values if value is not None]
    if len(set(present)) < 2:
        return [None if value is None else 0 for value in values]
    mean = math.fsum(present) / len(present)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in present) / len(present))
    return [
        None if value is None else math.floor((value - mean) / spread / 0.2 + 1e-9)
        for value in values
    ]


def diversify_plainly(columns, classes):
    labels = sorted(set(classes))
    counts = []
    for label in labels:
        rows = [row for row, row_label in enumerate(classes) if row_label == label]
        counts.append(min(len({column[row] for row in rows}) for column in columns))
    return sum(counts) / len(labels)


@st.composite
def tables(draw):
    """A numeric and a nominal column with ties, missing values and constants; classes with gaps."""
    n = draw(st.integers(1, 12))
    numbers = st.one_of(
        st.none(), st.integers(-4, 4).map(float), st.integers(-99, 99).map(lambda x: x / 8)
    )
    names = st.sampled_from([None, "a", "b", "c"])
    y = draw(st.lists(numbers, min_size=n, max_size=n))
    z = draw(st.lists(names, min_size=n, max_size=n))
    classes = draw(st.lists(st.sampled_from([0, 1, 5]), min_size=n, max_size=n))
    return y, z, classes


@given(tables())
def test_measures_match_a_plain_computation(release):
    y, z, classes = release
    schema = schema_of(Column("y", kind="numeric", weight=3.0), Column("z", kind="nominal"))
    actual = measured(table(y=y, z=z), schema, classes)
    losses = {"y": lose_plainly(y, classes, False), "z": lose_plainly(z, classes, True)}
    weights = {"y": 3.0, "z": 1.0}
    used = [name for name, loss in losses.items() if loss is not None]
    expected = {f"dependence_loss.{name}": losses[name][0] for name in used}
    if used:
        total = sum(weights[name] * losses[name][1] for name in used)
        expected["dependence_loss"] = (
            sum(weights[name] * losses[name][0] * losses[name][1] for name in used) / total
        )
    columns = {"y": quantize_plainly(y), "z": z}
    varying = [columns[name] for name in used] or list(columns.values())
    expected["diversity_average"] = diversify_plainly(varying, classes)
    assert actual == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert all(
        0 <= value <= 1 for name, value in actual.items() if name.startswith("dependence_loss")
    )


# ----------------------------------------------------------------------------------------- by hand


def test_the_worked_example():
    actual = of_one(NUMERIC, [1.0, 3.0, 5.0, 7.0], [0, 0, 1, 1])
    assert actual == pytest.approx(
        {"dependence_loss": 0.2, "dependence_loss.y": 0.2, "diversity_average": 2}
    )


def test_nominal_columns_count_squared_errors_of_indicators():
    # Of 6 records, 1 - (4 + 9 + 1) / 36 in the table; of the last 4, 1 - (9 + 1) / 16.
    actual = of_one(NOMINAL, ["a", "a", "b", "b", "b", "c"], [0, 0, 1, 1, 1, 1])
    assert actual["dependence_loss"] == pytest.approx((4 * 6 / 16) / (6 * 22 / 36))
    assert actual["diversity_average"] == 1.5


def test_singleton_classes_reveal_everything_and_one_class_reveals_nothing():
    values = [1.0, 4.0, 2.0, 8.0]
    assert of_one(NUMERIC, values, range(4))["dependence_loss"] == 0
    assert of_one(NUMERIC, values, [0] * 4)["dependence_loss"] == 1
    assert of_one(NOMINAL, ["a", "b", "a", "c"], range(4))["dependence_loss"] == 0
    assert of_one(NOMINAL, ["a", "b", "a", "c"], [0] * 4)["dependence_loss"] == 1


def test_dates_and_ranks_count_as_numbers():
    days = [datetime.date(2020, 1, day) for day in (1, 3, 5, 7)]
    classes = [0, 0, 1, 1]
    assert of_one(Column("y", kind="datetime"), days, classes)["dependence_loss"] == pytest.approx(
        0.2
    )
    order = ("none", "mild", "bad", "never")
    ranks = of_one(
        Column("y", kind="ordinal", order=order), ["none", "bad", "mild", "none"], classes
    )
    assert ranks["dependence_loss"] == pytest.approx(lose_plainly([0, 2, 1, 0], classes, False)[0])
    skipped = of_one(
        Column("y", kind="ordinal", order=order), ["none", "never", "mild", "none"], classes
    )
    assert skipped["dependence_loss"] == pytest.approx(
        lose_plainly([0, 3, 1, 0], classes, False)[0]
    )


def test_near_values_and_missing_values_each_count_as_one():
    values = [0.0, 0.01, 10.0, 10.01, None, 10.0]
    assert of_one(NUMERIC, values, [0, 0, 1, 1, 2, 2])["diversity_average"] == pytest.approx(
        (1 + 1 + 2) / 3
    )


def test_the_least_diverse_column_counts_in_each_class():
    released = table(y=["a", "b", "a", "a"], z=["a", "a", "b", "c"])
    schema = schema_of(NOMINAL, Column("z", kind="nominal"))
    assert measured(released, schema, [0, 0, 1, 1])["diversity_average"] == 1


def test_directions():
    actual = evaluate_dependence(table(y=[1.0, 2.0]), schema_of(NUMERIC), [0, 1])
    assert {name: item.lower_is_better for name, item in actual.items()} == {
        "dependence_loss": True,
        "dependence_loss.y": True,
        "diversity_average": False,
    }


# --------------------------------------------------------------------------------------- edge cases


def test_empty_input_gives_no_measures():
    assert measured(table(age=[1.0, 2.0]), Schema(quasi=["age"]), [0, 1]) == {}
    assert measured(table(age=[1.0, 2.0]), schema_of(NUMERIC), [0, 1]) == {}
    empty = Table({"y": Values("float", np.zeros(0), np.zeros(0, dtype=bool))}, rows=0, native=None)
    assert measured(empty, schema_of(NUMERIC), []) == {}


@pytest.mark.parametrize("values", [[5.0] * 4, [None] * 4, [None, 2.0, None, None]])
def test_columns_without_variation_have_no_loss_and_the_least_diversity(values):
    actual = of_one(NUMERIC, values, [0, 0, 1, 1])
    assert set(actual) == {"diversity_average"}
    assert actual["diversity_average"] == (1.5 if len(set(values)) > 1 else 1)


@pytest.mark.parametrize(
    "scale, shift",
    [(1.0, 1.7e9), (1e300, 0.0), (1e-300, 0.0), (8e307, 0.0), (-1.0, 0.0), (1e-320, 0.0)],
)
def test_scale_and_shift_do_not_matter(scale, shift):
    values = np.array([0.0, 0.5, 1.0, 2.0, 0.75])
    plain = of_one(NUMERIC, values, [0, 0, 1, 1, 1])
    assert of_one(NUMERIC, values * scale + shift, [0, 0, 1, 1, 1]) == pytest.approx(
        plain, rel=1e-3
    )


def test_large_whole_numbers_keep_their_spread():
    values = [2**60, 2**60 + 1, 2**60 + 2, 2**60 + 3]
    assert of_one(NUMERIC, values, [0, 0, 1, 1])["dependence_loss"] == pytest.approx(0.2)


def test_infinite_values_count_as_the_mean_like_missing_ones():
    classes = [0, 0, 1, 1, 1]
    infinite = of_one(NUMERIC, [1.0, 3.0, 5.0, 7.0, math.inf], classes)
    # About 2 and 16/3: 2 + 0.111 + 2.778 + 1.778 of 20.
    assert infinite["dependence_loss"] == pytest.approx((2 + 14 / 3) / 20)
    assert infinite == of_one(NUMERIC, [1.0, 3.0, 5.0, 7.0, None], classes)


def test_numbers_released_as_text_count_as_categories():
    values = ["1", "1", "about 3", "2"]
    assert of_one(NUMERIC, values, [0, 0, 1, 1]) == of_one(NOMINAL, values, [0, 0, 1, 1])


def test_a_category_outside_its_order_is_an_error_with_its_row():
    with raises(DataError, "data.unknown_category", column="y", row=2) as caught:
        of_one(Column("y", kind="ordinal", order=("none",)), ["none", "secret"], [0, 0])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("seed", range(5))
def test_order_of_rows_and_columns_and_signs_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    y, z, classes = rng.normal(size=60), rng.integers(0, 3, 60).astype(str), rng.integers(0, 9, 60)
    released, schema = table(y=y, z=z), schema_of(NUMERIC, Column("z", kind="nominal"))
    plain = measured(released, schema, classes)
    moved = rng.permutation(60)
    assert measured(take(released, moved), schema, classes[moved]) == pytest.approx(
        plain, abs=1e-12
    )
    assert measured(
        released, schema_of(Column("z", kind="nominal"), NUMERIC), classes
    ) == pytest.approx(plain)
    assert measured(released, schema, 8 - classes) == pytest.approx(plain)
    assert measured(table(y=-y, z=z), schema, classes) == pytest.approx(plain)


def test_rows_at_the_mean_are_the_same_value_in_any_order():
    """A rounding error in the mean must not move values across the border of an interval."""
    rng = np.random.default_rng(3)
    half = rng.integers(-9, 9, int(rng.integers(5, 12))) / 10
    values = np.concatenate([half, -half, [0.0, 0.0]]) + 0.3
    classes = rng.integers(0, 3, len(values))
    orders = [np.random.default_rng(seed).permutation(len(values)) for seed in range(6)]
    assert (
        len({of_one(NUMERIC, values[rows], classes[rows])["diversity_average"] for rows in orders})
        == 1
    )
