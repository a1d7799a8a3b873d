"""Published values that are true for every member: ranges, and limits on false categories."""

import re
from fractions import Fraction

import numpy as np
import pytest

import microcell as mc
from microcell.errors import SchemaError
from tests.raising import raises


def release_of(values, k=4, **fields):
    table = {"x": values, "y": np.arange(len(values)) % 7}
    schema = mc.Schema(quasi=[mc.Column("x", **fields), "y"])
    release = mc.anonymize(table, schema, k=k, method="mdav")
    return table, schema, release


@pytest.mark.parametrize("step", [1, 2.5, 0.1, 10, 1000])
@pytest.mark.parametrize("scale", [1, 40.0])
def test_ranges_contain_every_member_at_the_chosen_resolution(step, scale):
    rng = np.random.default_rng(int(step * 10))
    values = np.round(rng.normal(scale=scale, size=60), 2)
    values = values.astype(np.int64) if scale == 40.0 else values
    table, schema, release = release_of(values, publish="range", step=step)
    for value, text in zip(values.tolist(), release.table["x"], strict=True):
        numbers = re.fullmatch(r"(-?[\d.]+)(?:-| to )(-?[\d.]+)", text).groups()
        low, high = map(Fraction, numbers)
        assert low <= Fraction(str(value)) <= high
        assert low < high
        assert (low / Fraction(str(step))).denominator == 1
        assert (high / Fraction(str(step))).denominator == 1
    audit = mc.audit(table, release.table, schema)
    assert audit["k"] >= 4
    assert audit["information_loss"] > 0
    assert not audit.notes or "could not be compared" not in " ".join(audit.notes)


@pytest.mark.parametrize(
    ("step", "length"), [("day", 1), ("month", 28), ("quarter", 90), ("year", 365), (None, 28)]
)
@pytest.mark.parametrize("unit", ["D", "s"])
def test_ranges_of_dates_are_whole_periods(step, length, unit, tmp_path):
    rng = np.random.default_rng(3)
    days = np.datetime64("1965-03-01", "D") + rng.integers(0, 9_000, 60)
    table, schema, release = release_of(
        days.astype(f"datetime64[{unit}]"), kind="datetime", publish="range", step=step
    )
    release.publish(tmp_path / "out.csv")
    audit = mc.audit(table, tmp_path / "out.csv", schema)
    assert audit["manifest_contradictions"] == 0
    assert 0 < audit["information_loss"] < 1
    for day, text in zip(days, release.table["x"], strict=True):
        low, high = (np.datetime64(part) for part in text.split(" to "))
        assert low <= day <= high
        assert (high - low).astype(int) + 1 >= length
        if step != "day":
            assert str(low).endswith("-01")
            assert str(high + 1).endswith("-01")
    spread = mc.audit(table, release.table, schema).measures["il1s"].value
    assert np.isfinite(spread)


@pytest.mark.parametrize(
    "fields",
    [
        {"step": 5},
        {"publish": "range", "step": 0},
        {"publish": "range", "step": "week"},
        {"publish": "range", "step": True},
        {"kind": "numeric", "publish": "range", "step": "year"},
        {"kind": "datetime", "publish": "range", "step": 30},
        {"most_false": 1.0},
        {"most_false": "0.1"},
        {"kind": "nominal", "publish": "set", "most_false": 0.1},
        {"kind": "numeric", "most_false": 0.1},
    ],
)
def test_impossible_settings_are_refused(fields):
    with raises(SchemaError, "schema.invalid", column="x"):
        mc.Column("x", **fields)


def test_times_of_day_have_no_ranges():
    times = np.arange(60).astype("timedelta64[s]")
    with raises(SchemaError, "schema.wrong_kind", column="x", field="publish"):
        release_of(times, kind="datetime", publish="range")


@pytest.mark.parametrize("most", [0.0, 0.1, 0.3])
def test_no_cell_publishes_a_mode_that_is_false_for_too_many(most, tmp_path):
    rng = np.random.default_rng(1)
    letters = rng.choice(5, 200, p=[0.6, 0.2, 0.1, 0.05, 0.05])
    letters[:60] = 0
    names = np.array(list("abcde"))[letters]
    names = np.where(rng.random(200) < 0.05, None, names)
    table = {"x": names, "y": np.arange(200.0)}
    schema = mc.Schema(quasi=[mc.Column("x", kind="nominal", weight=1e-4, most_false=most), "y"])
    release = mc.anonymize(table, schema, k=6, method="mdav", missing="impute")
    release.publish(tmp_path / "out.csv")
    labels, published = release.partition.labels, release.table["x"]
    kinds = set()
    for cell in range(len(release.partition)):
        members = [name for name in names[labels == cell] if name is not None]
        (text,) = set(published[labels == cell])
        distinct = sorted(set(members))
        mode = max(distinct, key=members.count)
        false = 1 - members.count(mode) / len(members)
        if false <= most:
            assert text in distinct
            assert members.count(text) == members.count(mode)
            kinds.add("mode")
        elif len(distinct) <= 3:
            assert text == " or ".join(distinct)
            kinds.add("set")
        else:
            assert text is None or text == ""
            kinds.add("missing")
    assert kinds == {"mode", "set", "missing"}
    audit = mc.audit(table, tmp_path / "out.csv", schema)
    assert audit["manifest_contradictions"] == 0
    false = sum(item.false for item in audit.categories)
    assert false <= most * 200
    assert (false > 0) == (most > 0.2)
    assert sum(item.withheld for item in audit.categories) > 0
    text = mc.render(audit, "text", title="Audit")
    assert f"{false:,} of {sum(item.people for item in audit.categories):,} people" in text


def test_the_schema_file_declares_the_same():
    columns = [
        mc.Column("x", kind="nominal", most_false=0.1),
        mc.Column("y", kind="numeric", publish="range", step=5.0),
        mc.Column("z", kind="datetime", publish="range", step="quarter"),
    ]
    pay = mc.Column("pay", noise=0.1)
    schema = mc.Schema(quasi=columns, confidential=[pay, mc.Column("fee", swap=0.1)])
    text = mc.schema.schema_to_toml(schema)
    for line in ("most_false = 0.1", "step = 5.0", 'step = "quarter"', "noise = 0.1", "swap = 0.1"):
        assert line in text
