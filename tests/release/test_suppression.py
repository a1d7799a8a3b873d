"""Records left out because they cost most."""

import json
from contextlib import chdir
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from typer.testing import CliRunner

import microcell as mc
from microcell import methods
from microcell.cli import app
from microcell.errors import OptionError
from microcell.kernels.univariate import best_cuts_left_out
from microcell.report import render
from microcell.schema.files import load_run
from tests.raising import raises

FAST = {"k": 5, "method": "mdav"}


def with_outliers(n=200, few=4, seed=0, **columns):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, n))
    x[:few] *= 40
    pay = rng.integers(100, 900, n)
    return {
        "x": x,
        "y": y,
        "sex": np.array(["f", "m"])[rng.integers(0, 2, n)],
        "pay": pay,
        **columns,
    }


SCHEMA = mc.Schema(quasi=["x", "y", "sex"], confidential=["pay"])


def least_sse(values, k):
    """Least SSE of sorted values in cells of at least k."""
    best = [0.0] + [np.inf] * len(values)
    for end in range(k, len(values) + 1):
        for size in range(k, end + 1):
            cell = values[end - size : end]
            best[end] = min(best[end], best[end - size] + np.square(cell - cell.mean()).sum())
    return best[-1]


@pytest.mark.parametrize("seed", range(25))
def test_one_dimension_is_as_good_as_brute_force(seed):
    rng = np.random.default_rng(seed)
    n, k, most = int(rng.integers(4, 11)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    x = rng.integers(0, 30, n).astype(float)
    result = methods.leave_out(x[:, None], k, most, lambda rows: rows)
    every = [
        least_sse(np.sort(np.delete(x, out)), k)
        for count in range(most + 1)
        for out in combinations(range(n), count)
        if n - count >= k
    ]
    if len(set(x)) > 1:
        assert result.exact
        assert result.sse == pytest.approx(min(every), abs=1e-9)
        assert least_sse(np.sort(x[~result.out]), k) == pytest.approx(result.sse, abs=1e-9)
    assert result.out.sum() <= most


def test_the_kernel_matches_plain_python():
    x, ones = np.sort(np.random.default_rng(3).integers(0, 50, 30)).astype(float), np.ones(30)
    costs, sizes = best_cuts_left_out(x, ones, 3, 4)
    plain_costs, plain_sizes = best_cuts_left_out.py_func(x, ones, 3, 4)
    np.testing.assert_allclose(costs, plain_costs)
    assert (sizes == plain_sizes).all()
    assert (np.diff(costs) <= 1e-12).all()


@pytest.mark.parametrize("dimensions", [2, 4])
def test_little_is_lost_once_the_far_records_are_left_out(dimensions):
    rng = np.random.default_rng(dimensions)
    X = rng.normal(size=(300, dimensions))
    X[:3] += 100 * np.array([[1], [-1], [2]])
    cells = lambda rows: methods.partition(X[rows], 5, method="mdav").labels  # noqa: E731
    result = methods.leave_out(X, 5, 6, cells)
    assert result.out[:3].all()
    assert 3 <= result.out.sum() <= 6
    assert result.saved > 0.5


def test_the_release_is_that_of_a_table_without_the_records():
    table = with_outliers()
    release = mc.anonymize(table, SCHEMA, suppress=0.02, **FAST)
    rows = np.delete(np.arange(200), np.array(release.manifest.suppression.rows) - 1)
    assert set(range(4)).isdisjoint(rows)
    others = mc.anonymize({name: values[rows] for name, values in table.items()}, SCHEMA, **FAST)
    for name in others.table:
        assert (release.table[name] == others.table[name]).all()
    records = release.manifest.records
    assert (records.read, records.released, records.suppressed) == (200, 196, 4)
    assert records.dropped == 0


def test_confidential_values_of_those_left_out_change_nothing_that_is_public(tmp_path):
    tables = [with_outliers(), with_outliers()]
    tables[1]["pay"][:4] = 10**6
    public = []
    for number, table in enumerate(tables):
        release = mc.anonymize(table, SCHEMA, suppress="2%", order_key="0" * 32, **FAST)
        path = tmp_path / f"{number}.csv"
        release.publish(path)
        audit = mc.audit(table, path, SCHEMA)
        document = render(audit, "json", audience="public", title="Audit")
        public.append((path.read_bytes(), document))
    assert public[0] == public[1]


def test_an_audit_accounts_for_the_records(tmp_path):
    table = with_outliers()
    release = mc.anonymize(table, SCHEMA, suppress=0.02, **FAST).publish(tmp_path / "out.csv")
    audit = mc.audit(table, tmp_path / "out.csv", SCHEMA)
    assert audit["manifest_contradictions"] == 0
    assert audit["records_dropped"] == 4
    assert audit["information_loss"] == pytest.approx(release.manifest.information_loss)
    part = release.manifest.suppression
    for rows in (part.rows[1:], (*part.rows[1:], part.rows[1]), (0, *part.rows[1:])):
        edited = release.manifest.updated(suppression=part.model_copy(update={"rows": rows}))
        false = mc.audit(table, tmp_path / "out.csv", SCHEMA, manifest=edited)
        assert false["manifest_contradictions"] >= 1
    shown = release.manifest.without_secrets()
    assert shown.order_key is None
    assert shown.suppression.rows is None
    kept = mc.anonymize(table, SCHEMA, suppress=0.02, **FAST)
    kept.publish(tmp_path / "kept.csv", keep_order=True)
    assert mc.audit(table, tmp_path / "kept.csv", SCHEMA)["manifest_contradictions"] == 0


def test_the_loss_is_relative_to_all_records():
    table = with_outliers()
    full, less = (mc.anonymize(table, SCHEMA, suppress=share, **FAST) for share in (None, 0.02))
    assert less.manifest.information_loss < 0.7 * full.manifest.information_loss


@pytest.mark.parametrize(
    ("columns", "roles", "options"),
    [
        ({"site": np.arange(200) % 3}, {"strata": ["site"]}, {}),
        ({"w": 1.0 + np.arange(200) % 7}, {"weight": "w"}, {}),
        ({"who": np.arange(200) // 2}, {"person": "who"}, {}),
        ({"who": np.arange(200) // 2}, {"person": "who", "person_cells": "together"}, {}),
        ({}, {}, {"require": {"l_diversity": 3}}),
        ({}, {}, {"dependence": 0.2}),
        ({}, {}, {"blocks": 2}),
        ({}, {}, {"method": "auto", "effort": "fast", "cells": True}),
        ({}, {}, {"missing": "drop"}),
        ({}, {}, {"missing": "impute"}),
    ],
)
def test_every_other_option_keeps_its_promise(columns, roles, options, tmp_path):
    table = with_outliers(**columns)
    if "missing" in options:
        table["y"] = np.where(np.arange(200) % 50 == 7, np.nan, table["y"])
    schema = mc.Schema(quasi=["x", "y", "sex"], confidential=["pay"], **roles)
    release = mc.anonymize(table, schema, **(FAST | {"suppress": 0.03} | options))
    assert 0 < release.manifest.suppression.records <= 6
    if "blocks" not in options:
        assert release.class_sizes.min() >= 5
    if "site" in columns:
        assert set(release.table["site"]) == {0, 1, 2}
    release.publish(tmp_path / "out.csv")
    audit = mc.audit(table, tmp_path / "out.csv", schema)
    assert audit["manifest_contradictions"] == 0
    assert audit["values_changed"] == 0


def test_a_small_stratum_is_never_left_out():
    table = with_outliers(n=100, few=5, site=np.where(np.arange(100) < 5, "far", "near"))
    schema = mc.Schema(quasi=["x", "y"], strata=["site"], confidential=["pay"], drop=["sex"])
    release = mc.anonymize(table, schema, suppress=0.05, **FAST)
    assert (release.table["site"] == "far").sum() == 5


def test_public_groups_cover_k_people_and_so_do_the_others():
    n = 400
    site = np.where(np.arange(n) < 9, "rare", np.array(["a", "b"])[np.arange(n) % 2])
    table = with_outliers(n=n, few=12, site=site)
    schema = mc.Schema(quasi=["x", "y", "sex", "site"], confidential=["pay"])
    release = mc.anonymize(table, schema, suppress=0.03, **FAST)
    audit = release.audit()
    assert any(item.more and item.name == "rare" for item in audit.left_out)
    assert {"utility.records_left_out"} <= {item.code for item in audit.findings}
    document = render(audit, "json", audience="public", title="Audit")
    shown = mc.report.contents.trim_audit(audit).left_out
    assert shown
    for name in {item.column for item in shown}:
        counts = [item.left_out for item in shown if item.column == name]
        rest = release.manifest.suppression.records - sum(counts)
        assert min(counts) >= 5
        assert rest == 0 or rest >= 5
    assert "pay" not in {item.column for item in shown}
    assert '"left_out"' in document


@pytest.mark.parametrize("share", [-0.1, 0.6, "2 percent", "nan", True, float("nan"), [0.1]])
def test_impossible_shares_are_refused(share):
    with raises(OptionError, "option.out_of_range", option="suppress"):
        mc.anonymize(with_outliers(), SCHEMA, suppress=share, **FAST)


def test_nothing_is_left_out_if_all_records_are_alike():
    table = {"x": np.ones(50), "pay": np.arange(50)}
    release = mc.anonymize(table, mc.Schema(quasi=["x"], confidential=["pay"]), k=5, suppress=0.1)
    assert release.manifest.suppression.records == 0
    assert len(release.table["x"]) == 50


def test_the_run_file_declares_the_same(tmp_path):
    sections = []
    for value in ('"2%"', "0.02"):
        path = tmp_path / "run.toml"
        path.write_text(f"config_version = 1\nsuppress = {value}")
        run = load_run(path)
        release = mc.anonymize(with_outliers(), SCHEMA, suppress=run.suppress, **FAST)
        sections.append(release.manifest.suppression)
    assert sections[0] == sections[1]


def test_the_command_line_states_what_is_left_out(tmp_path):
    mc.write(with_outliers(), tmp_path / "in.csv")
    schema = mc.schema.schema_to_toml(replace(SCHEMA, rows_are_people=True))
    (tmp_path / "schema.toml").write_text(schema)
    words = ["anonymize", "in.csv", "-s", "schema.toml", "-k", "5", "--method", "mdav"]
    words += ["--suppress", "2%", "-o", "out.csv", "--json"]
    with chdir(tmp_path):
        result = CliRunner().invoke(app, words)
    shown = json.loads(result.stdout)
    assert shown["records"]["suppressed"] == 4
    assert "rows" not in shown["suppression"]
    assert "suppressed" in result.stderr


def test_data_sets_on_dask_are_refused(tmp_path):
    source, out = tmp_path / "in.parquet", tmp_path / "out"
    mc.write(with_outliers(), source)
    with raises(OptionError, "option.unsupported", option="suppress"):
        mc.anonymize(source, SCHEMA, k=5, suppress=0.1, engine="dask", output=out)
