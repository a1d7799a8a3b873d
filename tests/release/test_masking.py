"""Rounding and bounding of confidential numbers."""

from fractions import Fraction

import numpy as np
import pytest

import microcell as mc
from microcell.errors import OptionError, SchemaError
from tests.raising import raises


@pytest.mark.parametrize("step", [0.1, 0.3, 2, 100.0, 1e-9])
def test_confidential_numbers_are_the_floats_nearest_to_multiples_of_the_step(step):
    values = [-385492489.0, 0.30000000000000004, -0.05, 1e15, 0.0, 7.77]
    table = {"age": [30.0] * len(values), "income": values}
    schema = mc.Schema(
        quasi=["age"], confidential=[mc.Column("income", kind="numeric", round=step)]
    )
    release = mc.anonymize(table, schema, k=2, method="mdav")
    exact = Fraction(repr(step))
    nearest = [float(round(value / step) * exact) for value in values]
    assert release.table["income"].tolist() == pytest.approx(nearest, rel=3e-16, abs=0)
    assert release.table["income"].tolist()[0] == nearest[0]


def pay(values, **masks):
    schema = mc.Schema(quasi=["age"], confidential=[mc.Column("pay", **masks)])
    table = {"age": [30.0] * len(values), "pay": values}
    release = mc.anonymize(table, schema, k=2, method="mdav")
    audit = mc.audit(table, release.table, schema, manifest=release.manifest)
    assert audit["values_changed"] == 0
    return release


def test_extreme_numbers_are_replaced_by_the_bounds():
    release = pay([10, 990, 5_000, 123_456], bottom=100, top=10_000.5)
    assert release.table["pay"].tolist() == [100, 990, 5_000, 10_000]
    column = release.manifest.columns["pay"]
    assert (column.bottom, column.top, column.round) == (100, 10_000.5, None)
    assert pay([0.5, 7.5, 99.0], top=8, round=2).table["pay"].tolist() == [0, 8, 8]
    assert pay([-1.5, 2.0, 3.0], bottom=0).table["pay"].tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("masks", "field"),
    [
        ({"top": float("nan")}, "top"),
        ({"top": True}, "top"),
        ({"bottom": "1"}, "bottom"),
        ({"top": 5, "bottom": 5}, "top"),
        ({"round": 0}, "round"),
        ({"round": float("inf")}, "round"),
    ],
)
def test_impossible_bounds_are_refused(masks, field):
    with raises(SchemaError, "schema.invalid", column="pay", field=field):
        mc.Column("pay", **masks)


def test_only_confidential_numbers_have_bounds():
    with raises(SchemaError, "schema.invalid", column="pay", field="top"):
        mc.Schema(quasi=[mc.Column("pay", top=5)])
    with raises(SchemaError, "schema.wrong_kind", column="pay", field="top"):
        pay(["low", "high", "low"], top=5)


KEY = "0123456789abcdef" * 2


def salaries(n=400, missing=()):
    rng = np.random.default_rng(4)
    age = rng.integers(20, 70, n)
    pay = rng.gamma(2.0, 15_000, n) + 300 * age
    bonus = 0.1 * pay + rng.normal(scale=2_000, size=n)
    pay[list(missing)] = np.nan
    return {"age": age, "pay": pay, "bonus": bonus, "days": rng.integers(0, 200, n)}


def release_of(table, k=5, key=KEY, **masks):
    schema = mc.Schema(
        quasi=["age"], confidential=[mc.Column(name, **fields) for name, fields in masks.items()]
    )
    options = {"k": k, "method": "mdav", "order_key": key}
    return mc.anonymize({name: table[name] for name in ("age", *masks)}, schema, **options)


def test_noise_keeps_means_and_covariances():
    table = salaries()
    published = release_of(table, pay={"noise": 0.1}, bonus={"noise": 0.1}).table
    before = np.column_stack([table["pay"], table["bonus"]])
    after = np.column_stack([published["pay"], published["bonus"]])
    np.testing.assert_allclose(after.mean(axis=0), before.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(np.cov(after.T), np.cov(before.T), rtol=1e-9)
    assert (after != before).all()
    # (x - mean + e) / sqrt(1 + a): the correlation of a column with itself before.
    expected = 1 / np.sqrt(1.1)
    assert np.corrcoef(before[:, 0], after[:, 0])[0, 1] == pytest.approx(expected, abs=1e-9)


def test_noise_keeps_the_moments_of_columns_with_gaps_and_of_whole_numbers():
    table = salaries(missing=range(0, 400, 9))
    published = release_of(table, pay={"noise": 0.2}, days={"noise": 0.2}).table
    there = ~np.isnan(table["pay"])
    assert (np.isnan(published["pay"]) == ~there).all()
    assert published["pay"][there].mean() == pytest.approx(table["pay"][there].mean())
    assert published["pay"][there].std() == pytest.approx(table["pay"][there].std())
    assert published["days"].dtype.kind == "i"
    assert published["days"].mean() == pytest.approx(table["days"].mean(), abs=0.1)
    constant = release_of({"age": np.arange(20), "pay": np.full(20, 7.0)}, pay={"noise": 0.5})
    assert (constant.table["pay"] == 7.0).all()


@pytest.mark.parametrize("share", [0.01, 0.1, 1.0])
def test_swapped_values_stay_within_reach_and_all_occur(share):
    table = salaries()
    published = release_of(table, pay={"swap": share}).table["pay"]
    assert sorted(published) == sorted(table["pay"])
    ranks = {value: rank for rank, value in enumerate(sorted(table["pay"]))}
    moves = [abs(ranks[old] - ranks[new]) for old, new in zip(table["pay"], published, strict=True)]
    assert max(moves) <= share * 400
    assert np.mean(np.array(moves) > 0) > 0.9


@pytest.mark.parametrize("masks", [{"noise": 0.1}, {"swap": 0.1}])
def test_masks_depend_on_the_secret_key_only(masks, tmp_path):
    table = salaries()
    first, again, other_k = (release_of(table, k=k, pay=masks) for k in (5, 5, 7))
    other_key = release_of(table, key="f" * 32, pay=masks)
    assert (first.table["pay"] == again.table["pay"]).all()
    assert (first.table["pay"] == other_k.table["pay"]).all()
    assert (first.table["pay"] != other_key.table["pay"]).mean() > 0.8
    data = {name: table[name] for name in ("age", "pay")}
    schema = mc.Schema(quasi=["age"], confidential=[mc.Column("pay", **masks)])
    for keep_order in (False, True):
        path = tmp_path / f"{keep_order}.csv"
        first.publish(path, keep_order=keep_order)
        audit = mc.audit(data, path, schema)
        assert audit["values_changed"] == 0
        assert audit["manifest_contradictions"] == 0
        (effect,) = audit.masks
        assert effect.changed > 0.9
        assert abs(effect.mean) < 1e-6
    with raises(OptionError, "option.missing", option="manifest"):
        mc.audit(data, first.table, schema)
    assert first.audit().masks == (effect,)
    public = mc.render(audit, "json", audience="public", title="Audit")
    assert '"masks"' not in public


def test_values_of_records_left_out_have_no_influence_on_the_noise():
    tables = [salaries(), salaries()]
    for table in tables:
        table["age"] = np.where(np.arange(400) < 2, 1000 + np.arange(400), table["age"])
    tables[1]["pay"][:2] = 1e9
    schema = mc.Schema(quasi=["age"], confidential=[mc.Column("pay", noise=0.1)])
    published = [
        mc.anonymize(
            {name: table[name] for name in ("age", "pay")},
            schema, k=5, method="mdav", suppress=0.005, order_key=KEY,
        )
        for table in tables
    ]  # fmt: skip
    assert published[0].manifest.suppression.rows == (1, 2)
    assert (published[0].table["pay"] == published[1].table["pay"]).all()


@pytest.mark.parametrize(
    "masks", [{"noise": 0}, {"noise": 1.5}, {"swap": -1}, {"noise": 0.1, "swap": 0.1}]
)
def test_impossible_noise_and_swaps_are_refused(masks):
    with raises(SchemaError, "schema.invalid", column="pay"):
        mc.Column("pay", **masks)


def test_one_person_more_changes_the_noise_of_everybody():
    """With equal draws, the difference of two releases with one key would show who was added."""
    values = np.random.default_rng(0).normal(50, 10, 40).round(3)
    schema = mc.Schema(quasi=["age"], confidential=[mc.Column("pay", noise=0.2)])
    people = {"age": np.arange(40) % 10, "pay": values}
    fewer = {name: column[:-1] for name, column in people.items()}
    key = "00112233445566778899aabbccddeeff"
    first, second, again = (
        mc.anonymize(table, schema, k=3, method="mdav", order_key=key).table["pay"]
        for table in (people, fewer, people)
    )
    assert (first == again).all()
    noise = [first[:-1] - values[:-1], second - values[:-1]]
    assert abs(np.corrcoef(noise)[0, 1]) < 0.5


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
@pytest.mark.parametrize("mask", [{"noise": 0.2}, {"swap": 0.3}, {"round": 1.0}, {"top": 1.0}])
def test_effects_of_huge_and_tiny_numbers(scale, mask):
    values = np.random.default_rng(1).normal(5, 1, 30) * scale
    people = {"age": np.arange(30) % 7, "pay": values, "other": values[::-1]}
    schema = mc.Schema(quasi=["age"], confidential=[mc.Column("pay", **mask), "other"])
    release = mc.anonymize(people, schema, k=3, method="mdav")
    (effect,) = mc.audit(people, release.table, schema, manifest=release.manifest).masks
    assert np.isfinite([effect.mean, effect.deviation, effect.absolute, effect.correlation]).all()
