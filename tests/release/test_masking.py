"""Rounding and bounding of confidential numbers."""

from fractions import Fraction

import pytest

import microcell as mc
from microcell.errors import SchemaError
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
