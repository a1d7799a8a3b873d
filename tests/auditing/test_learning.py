"""Learning a task from the published table: what it costs beside the original."""

import builtins
import datetime
import math

import numpy as np
import pytest

from microcell.errors import DataError, OptionError
from microcell.measures import learning
from microcell.measures.evaluate import evaluate
from microcell.measures.evidence import Evidence
from microcell.measures.learning import learn_task
from microcell.measures.registry import measures
from microcell.model import Column, Schema, Table, Values
from tests.raising import raises
from tests.small_tables import table

pytest.importorskip("sklearn", reason="learning needs the extra sklearn")

N = 300


@pytest.fixture(autouse=True)
def one_thread():
    """Models of some hundred records are quicker without threads that wait for each other."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def numeric(*names):
    return [Column(name, kind="numeric", publish="mean") for name in names]


def evaluate_task(original, released, schema, target="y", pairs=None, seed=0):
    pairs = np.arange(released.rows) if pairs is None else pairs
    evidence = Evidence(original, released, schema, pairs=pairs, target=target)
    vars(evidence)["learning"] = learn_task(evidence, seed=seed)
    return evaluate(evidence, [item for item in measures().values() if item.needs == "target"])


def measured(*tables, **options):
    return {name: item.value for name, item in evaluate_task(*tables, **options).items()}


def coarse(x, k):
    """Each number as the mean of the k that lie next to it."""
    order = np.argsort(x)
    out = np.empty(len(x))
    out[order] = np.repeat(x[order].reshape(-1, k).mean(axis=1), k)
    return out


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=N)


NOMINAL = Schema(quasi=numeric("x"), confidential=[Column("y", kind="nominal")])
NUMBER = Schema(quasi=numeric("x"), confidential=[Column("y", kind="numeric")])


def test_classes_that_columns_determine_are_learned(x):
    y = np.where(x > 0.3, "up", "down")
    actual = measured(table(x=x, y=y), table(x=coarse(x, 3), y=y), NOMINAL)
    assert actual["task_original"] > 0.95
    assert actual["task_released"] > 0.9
    assert actual["task_loss"] == actual["task_original"] - actual["task_released"]
    assert actual["task_baseline"] < 0.8


def test_a_release_without_information_scores_the_baseline(x):
    y = np.where(x > 0.3, "up", "down")
    actual = measured(table(x=x, y=y), table(x=[float(x.mean())] * N, y=y), NOMINAL)
    assert actual["task_released"] == actual["task_baseline"]
    assert actual["task_loss"] > 0.2


def test_numeric_targets_are_scored_by_r2(x):
    y = 3 * x + 1
    actual = evaluate_task(table(x=x, y=y), table(x=coarse(x, 60), y=y), NUMBER)
    assert actual["task_original"].value > 0.95
    assert 0.3 < actual["task_released"].value < actual["task_original"].value
    assert actual["task_baseline"].value <= 0
    assert actual["task_original"].unit == "R²"
    assert [m.lower_is_better for m in actual.values()] == [False, False, False, True]


def test_an_unchanged_release_loses_nothing(x):
    y = np.round(x * 2 + np.random.default_rng(1).normal(size=N)).astype(int)
    original = table(x=x, y=y, s=["a", "b", None] * 100)
    schema = Schema(
        quasi=[*numeric("x"), Column("s", kind="nominal")],
        confidential=[Column("y", kind="numeric")],
    )
    assert measured(original, original, schema)["task_loss"] == 0


def test_the_baseline_is_the_most_frequent_class_of_the_training_set():
    """Computed by hand from the permutation of the seed, trained on its first 70 %."""
    x, y = np.random.default_rng(3).normal(size=40), np.array(list("aab") * 13 + ["b"])
    order = np.random.default_rng(7).permutation(40)
    trained, held = y[order[:28]], y[order[28:]]
    most = max("ab", key=lambda name: (trained == name).sum())
    actual = measured(table(x=x, y=y), table(x=x, y=y), NOMINAL, seed=7)
    assert actual["task_baseline"] == pytest.approx((held == most).mean())


def test_training_uses_the_release_and_testing_the_original(x):
    """Published with the other sign: what was learned is wrong on the originals."""
    y = np.where(x > 0, "up", "down")
    actual = measured(table(x=x, y=y), table(x=-x, y=y), NOMINAL)
    assert actual["task_released"] < 0.1
    assert actual["task_original"] > 0.9


def test_pairs_are_followed(x):
    y = np.where(x > 0.3, "up", "down")
    moved = np.random.default_rng(4).permutation(N)
    original, released = table(x=x, y=y), table(x=x[moved], y=y[moved])
    assert measured(original, released, NOMINAL, pairs=moved)["task_loss"] == 0


def test_the_same_seed_gives_the_same_result(x):
    y = np.where(x + np.random.default_rng(5).normal(size=N) > 0, "up", "down")
    original, released = table(x=x, y=y), table(x=coarse(x, 30), y=y)
    assert measured(original, released, NOMINAL, seed=2) == measured(
        original, released, NOMINAL, seed=2
    )
    assert measured(original, released, NOMINAL, seed=2) != measured(
        original, released, NOMINAL, seed=3
    )


def test_all_kinds_of_columns_are_features():
    rng = np.random.default_rng(6)
    codes = rng.choice(["94110", "94121", "10001", "10455"], N)
    days = [
        datetime.date(2020, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 300, N)
    ]
    many = [f"n{j}" for j in rng.integers(0, 400, N)]
    common = {
        "day": days,
        "many": many,
        "pain": list(rng.choice(["no", "yes"], N)),
        "lat": rng.normal(size=N),
        "lon": rng.normal(size=N),
        "pay": [math.inf, *rng.normal(size=N - 1)],
        "huge": rng.normal(size=N) * 1e307,
        "y": np.where(codes < "5", "east", "west"),
    }
    original = table(zip=codes, **common)
    released = table(zip=[code[:2] + "***" for code in codes], **common)
    schema = Schema(
        quasi=[
            Column("zip", kind="code"),
            Column("day", kind="datetime"),
            Column("many", kind="nominal"),
            Column("pain", kind="ordinal", order=("no", "yes")),
            Column("home", kind="location", latitude="lat", longitude="lon"),
            *numeric("huge"),
        ],
        confidential=[Column("pay", kind="numeric")],
        keep=["y"],
    )
    actual = measured(original, released, schema)
    assert actual["task_released"] > 0.95
    assert actual["task_original"] > 0.95


def test_missing_values_and_unpublished_columns_are_handled(x):
    y = [None if j % 7 == 0 else ("up" if v > 0 else "down") for j, v in enumerate(x)]
    gaps = [None if j % 5 == 0 else v for j, v in enumerate(x)]
    schema = Schema(quasi=numeric("x", "z"), confidential=[Column("y", kind="nominal")])
    actual = measured(table(x=gaps, z=x, y=y), table(x=gaps, z=[None] * N, y=y), schema)
    assert actual["task_original"] > actual["task_released"] > 0.7


def test_a_release_without_any_value_scores_the_baseline(x):
    y = np.where(x > 0.3, "up", "down")
    actual = measured(table(x=x, y=y), table(x=[None] * N, y=y), NOMINAL)
    assert actual["task_released"] == actual["task_baseline"] < actual["task_original"]


def test_few_numbers_are_classes_and_many_are_not(x):
    few, many = np.round(x).astype(int), np.round(x * 10).astype(int)
    assert len(set(few.tolist())) <= 10 < len(set(many.tolist()))
    units = [
        evaluate_task(table(x=x, y=y), table(x=x, y=y), NUMBER)["task_released"].unit
        for y in (few, many)
    ]
    assert units == ["share", "R²"]


def test_rare_classes_are_combined(x):
    y = [f"n{int(v)}" for v in np.random.default_rng(8).integers(0, 60, N)]
    actual = measured(table(x=x, y=y), table(x=x, y=y), NOMINAL)
    # Two thirds of the records are in the class of the rare ones.
    assert actual["task_baseline"] > 0.4


def test_a_kept_target_and_one_of_dates_are_learned(x):
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(v * 50)) for v in x]
    actual = measured(
        table(x=x, y=days), table(x=x, y=days), Schema(quasi=numeric("x"), keep=["y"])
    )
    assert actual["task_original"] > 0.9


@pytest.mark.parametrize("scale, shift", [(1e300, 0.0), (1e-300, 0.0), (1.0, 1.7e9)])
def test_the_scale_of_the_target_changes_little(x, scale, shift):
    y = np.round(x * 16) * scale + shift
    assert measured(table(x=x, y=y), table(x=x, y=y), NUMBER)["task_original"] > 0.9


def test_the_number_of_records_is_limited(x, monkeypatch):
    monkeypatch.setattr(learning, "MAX_RECORDS", 50)
    y = np.where(x > 0, "up", "down")
    actual = measured(table(x=x, y=y), table(x=x, y=y), NOMINAL)
    # 15 records are held back.
    assert actual["task_baseline"] * 15 == pytest.approx(round(actual["task_baseline"] * 15))


def test_a_class_absent_from_the_training_set_is_never_predicted():
    y = ["a"] * 39 + ["b"]
    seed = next(s for s in range(99) if 39 in np.random.default_rng(s).permutation(40)[28:])
    original = table(x=np.arange(40.0), y=y)
    actual = measured(original, original, NOMINAL, seed=seed)
    assert (
        actual["task_original"]
        == actual["task_released"]
        == actual["task_baseline"]
        == pytest.approx(11 / 12)
    )


# ------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    "target, schema",
    [
        ("x", NOMINAL),
        ("z", NOMINAL),
        ("i", Schema(identifiers=["i"], quasi=numeric("x"))),
        ("w", Schema(quasi=numeric("x"), weight="w")),
        ("d", Schema(quasi=numeric("x"), drop=["d"])),
    ],
)
def test_a_target_that_is_not_published_unchanged_is_an_error(target, schema):
    columns = {name: [1.0, 2.0] * 10 for name in "xyiwd"}
    code = "option.unknown" if target == "z" else "option.invalid"
    with raises(OptionError, code, option="target", column=target):
        measured(table(**columns), table(**columns), schema, target)


def test_a_target_that_is_not_released_is_an_error():
    with raises(OptionError, "option.unknown", column="y", table="released"):
        measured(table(x=[1.0] * 20, y=["a", "b"] * 10), table(x=[1.0] * 20), NOMINAL)


@pytest.mark.parametrize(
    "values, code",
    [
        (["a"] * 20, "data.invalid"),
        ([None] * 20, "data.missing_values"),
        (["a", "b", None, None] * 4, "data.missing_values"),
    ],
)
def test_a_target_that_cannot_be_learned_is_an_error(values, code):
    original = table(x=np.arange(float(len(values))), y=values)
    with raises(DataError, code, column="y"):
        measured(original, original, NOMINAL)


def test_a_target_without_features_is_an_error():
    original = table(x=[1.0] * 20, y=["a", "b"] * 10)
    with raises(DataError, "data.invalid", column="y"):
        measured(original, original, NOMINAL)


def test_a_table_without_rows_is_an_error():
    none = np.zeros(0, dtype=bool)
    empty = Table(
        {"x": Values("float", np.zeros(0), none), "y": Values("float", np.zeros(0), none)}, 0, None
    )
    with raises(DataError, "data.missing_values", column="y"):
        measured(empty, empty, NUMBER)


def test_without_scikit_learn_the_error_says_what_to_install(x, monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", refuse)
    y = np.where(x > 0, "up", "down")
    with raises(OptionError, "option.extra_missing", extra="sklearn"):
        measured(table(x=x, y=y), table(x=x, y=y), NOMINAL)
