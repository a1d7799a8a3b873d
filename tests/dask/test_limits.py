"""Limits on confidential values in data sets: against the whole distribution, over all files."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import microcell as mc
from microcell.errors import OptionError
from microcell.model import Column, Schema
from tests.dask.running import pa, read_release, run, write_files
from tests.raising import raises

LIMITS = {"l_diversity.illness": 3, "t_closeness.pay": 0.2, "t_closeness.illness": 0.35}
SCHEMA = Schema(
    quasi=["age", Column("height", kind="numeric")],
    confidential=["illness", "pay"],
    rest="drop",
)


def table_of(rows, seed, persons=None):
    """Return people whose pay and illness follow their age, with missing pay."""
    rng = np.random.default_rng(seed)
    age = rng.normal(45, 15, rows).round()
    sick = np.clip((age / 30 + rng.normal(0, 1, rows)).astype(int), 0, 3)
    pay = (age * 10 + rng.normal(0, 90, rows)).round(-1)
    return {
        "person": [f"P{i}" for i in rng.integers(persons or 10**9, size=rows)],
        "age": age,
        "height": rng.normal(170, 9, rows).round(1),
        "region": rng.choice(["north", "south"], rows),
        "illness": np.array(["none", "flu", "ulcer", "gout"])[sick].tolist(),
        "pay": pa.array(pay, mask=rng.random(rows) < 0.03),
    }


def whole(source):
    return pa.concat_tables([pq.read_table(path) for path in sorted(source.iterdir())])


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_files(
        tmp_path_factory.mktemp("limits") / "in", [table_of(500, 1), table_of(400, 2)]
    )


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    tables = [table_of(500, seed, persons=300) for seed in (3, 4)]
    return write_files(tmp_path_factory.mktemp("visits") / "in", tables)


def check(released, limits, k, persons=None):
    """Check the classes of a release with plain sets and counts, from the definitions."""
    rows = read_release(released)
    if persons is not None:
        rows = [{**row, "person": person} for row, person in zip(rows, persons, strict=True)]
    pairs = {}
    for name in ("illness", "pay"):
        values = sorted({row[name] for row in rows}, key=lambda v: (v is not None, v))
        total = np.array([sum(row[name] == value for row in rows) for value in values])
        pairs[name] = values, total / total.sum()
    classes = {}
    for row in rows:
        classes.setdefault((row["age"], row["height"], row.get("region")), []).append(row)
    for members in classes.values():
        assert len(members) >= k
        for name, (values, q) in pairs.items():
            p = np.array([sum(row[name] == value for row in members) for value in values])
            difference = p / p.sum() - q
            ordered = np.abs(np.cumsum(difference)).sum() / (len(values) - 1)
            distance = ordered if name == "pay" else np.abs(difference).sum() / 2
            assert distance <= limits.get(f"t_closeness.{name}", 1) + 1e-9
            assert (p > 0).sum() >= limits.get(f"l_diversity.{name}", 1)
    return rows


@pytest.mark.parametrize("strata", [[], ["region"]])
@pytest.mark.parametrize("seams", [0, 1])
def test_every_class_of_many_macrocells_keeps_the_limits(source, tmp_path, strata, seams):
    schema = replace(SCHEMA, strata=strata)
    result = run(source, schema, tmp_path / "out", macrocell=200, seams=seams, require=LIMITS)
    assert result.manifest.cells.macrocells > 2
    rows = check(result.path, LIMITS, 5)
    assert sorted(str(row["pay"]) for row in rows) == sorted(
        str(value) for value in whole(source)["pay"].to_pylist()
    )
    section = result.manifest.requirements
    assert section.limits == LIMITS
    assert section.cells_after == result.manifest.cells.count < section.cells_before
    assert 0 < section.sse_ratio_before < result.manifest.cells.sse_ratio


def test_one_macrocell_equals_in_memory(source, tmp_path):
    table = whole(source)
    result = run(source, SCHEMA, tmp_path / "out", macrocell=10_000, require=LIMITS)
    expected = mc.anonymize(table, SCHEMA, k=5, effort="fast", require=LIMITS)
    # The same cells to start from, but the search may try swaps in another order.
    loss = expected.manifest.cells.sse_ratio
    assert result.manifest.cells.sse_ratio == pytest.approx(loss, rel=0.005)
    ours, theirs = (item.manifest.requirements for item in (result, expected))
    assert ours.way == theirs.way
    assert ours.sse_ratio_before == pytest.approx(theirs.sse_ratio_before)


def test_macrocells_cost_little(source, tmp_path):
    losses = [
        run(
            source, SCHEMA, tmp_path / str(size), macrocell=size, require=LIMITS
        ).manifest.cells.sse_ratio
        for size in (200, 10_000)
    ]
    assert losses[0] < 1.6 * losses[1]


def test_persons_count_once_per_value(visits, tmp_path):
    schema = replace(SCHEMA, person="person")
    limits = {"l_diversity.illness": 2, "t_closeness.pay": 0.25}
    result = run(visits, schema, tmp_path / "out", macrocell=300, require=limits)
    assert result.manifest.cells.macrocells > 1
    assert result.k >= 5
    # The rows of the release as a table whose persons are matched by their values.
    table = whole(visits)
    expected = mc.anonymize(table, schema, k=5, effort="fast", require=limits)
    assert result.manifest.person.count == expected.manifest.person.count
    assert result.manifest.requirements.limits == limits
    one = run(visits, schema, tmp_path / "one", macrocell=10_000, require=limits)
    assert one.manifest.cells.sse_ratio == pytest.approx(expected.manifest.cells.sse_ratio, rel=0.1)


@pytest.mark.parametrize(
    "limits",
    [
        {"k": 9},
        {"prosecutor_worst": 0.125},
        {"l_entropy.illness": 2.0},
        {"l_recursive.illness": 2},
        {"t_kullback.illness": 0.5},
        {"homogeneous_records.illness": 0},
        {"homogeneous_classes": 3},
        {"p_sensitivity.pay": 3},
    ],
)
def test_every_kind_of_limit(source, tmp_path, limits):
    result = run(source, SCHEMA, tmp_path / "out", macrocell=300, require=limits)
    table = pa.Table.from_pylist(read_release(result.path))
    mc.audit(table, table, SCHEMA).require(**{"k": 5, **limits})


def test_limits_that_cannot_be_met_are_refused_before_the_search(source, tmp_path):
    schema = replace(SCHEMA, strata=["region"])
    with raises(
        mc.RequirementError, "guarantee.requirement_not_met", nearest={"l_diversity.illness": 4}
    ):
        run(source, schema, tmp_path / "out", require={"l_diversity.illness": 5})
    assert not (tmp_path / "out").exists()


def test_limits_that_need_all_records_are_not_supported(source, tmp_path):
    with raises(OptionError, "option.unsupported", option="require", measure="linkage"):
        run(source, SCHEMA, tmp_path / "out", require={"linkage": 0.1})
    with raises(OptionError, "option.unknown", option="require", column="age"):
        run(source, SCHEMA, tmp_path / "out", require={"l_diversity.age": 2})


@pytest.mark.parametrize("suffix", [".csv"])
def test_limits_are_counted_in_text_files(tmp_path, suffix):
    folder = tmp_path / "in"
    folder.mkdir()
    for seed in (5, 6):
        table = {name: column for name, column in table_of(300, seed).items() if name != "person"}
        mc.write(pa.table(table), folder / f"part{seed}{suffix}")
    result = run(folder, SCHEMA, tmp_path / "out", macrocell=200, require=LIMITS)
    parts = [mc.read(path) for path in sorted(result.path.glob(f"part-*{suffix}"))]
    assert sum(part.rows for part in parts) == 600
    assert result.manifest.requirements.limits == LIMITS
