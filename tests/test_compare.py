"""Comparing methods: the same cells and distortion as a release, and nothing is released."""

import subprocess
import sys

import numpy as np
import pytest

import microcell as mc
from microcell import tables
from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.release import partition, prepare
from microcell.sweeps import Trial
from tests.raising import raises

PEOPLE = mc.sample_survey(120)
SCHEMA = mc.sample_schema()
LINE = mc.Schema(quasi=["age"], rest="drop")


def points(rows=60, dimensions=2, seed=0):
    X = np.random.default_rng(seed).normal(size=(rows, dimensions))
    return {f"x{place}": X[:, place] for place in range(dimensions)}


def plain_distortion(X, labels, weights):
    """SSE / SST, cell by cell."""
    mean = np.average(X, axis=0, weights=weights)
    total = sum(w * ((x - mean) ** 2).sum() for x, w in zip(X, weights, strict=True))
    lost = 0.0
    for cell in set(labels.tolist()):
        inside = labels == cell
        centre = np.average(X[inside], axis=0, weights=weights[inside])
        lost += sum(
            w * ((x - centre) ** 2).sum() for x, w in zip(X[inside], weights[inside], strict=True)
        )
    return lost / total


def test_trials_are_ordered_by_method_and_k():
    trials = mc.compare(PEOPLE, SCHEMA, k=[5, 3], methods=["vmdav", "mdav"])
    assert [(trial.method, trial.k) for trial in trials] == [
        ("vmdav", 5),
        ("vmdav", 3),
        ("mdav", 5),
        ("mdav", 3),
    ]


@pytest.mark.parametrize("method", ["auto", *mc.methods.METHODS])
@pytest.mark.parametrize("schema", [SCHEMA, LINE], ids=["several dimensions", "one dimension"])
def test_trial_matches_release(method, schema):
    (trial,) = mc.compare(PEOPLE, schema, k=4, methods=method, seed=7)
    if (
        method in mc.methods.METHODS
        and mc.methods.METHODS[method].dimensions == "1"
        and schema is SCHEMA
    ):
        assert trial.skipped
        return
    manifest = mc.anonymize(PEOPLE, schema, k=4, method=method, seed=7).manifest
    cells = manifest.cells
    assert (trial.distortion, trial.cells, trial.smallest) == (
        cells.sse_ratio,
        cells.count,
        cells.smallest,
    )
    assert (trial.used, trial.reason) == (manifest.method.used, manifest.method.reason)
    assert trial.seconds > 0
    assert not trial.skipped


def test_distortion_matches_plain_sums_with_weights_and_strata():
    table = points(80) | {
        "w": np.random.default_rng(1).uniform(1, 9, 80),
        "part": np.repeat(["a", "b"], [30, 50]),
    }
    schema = mc.Schema(quasi=["x0", "x1"], weight="w", strata=["part"])
    (trial,) = mc.compare(table, schema, k=4, methods="mdav")
    prepared = prepare.prepare(table, schema, k=4, missing="error")
    labels = partition.partition_records(prepared, partition.Request(4, "mdav", 0, {})).labels
    assert not set(labels[:30]) & set(labels[30:])
    assert trial.distortion == pytest.approx(
        plain_distortion(prepared.encoded.matrix, labels, table["w"])
    )
    free = mc.compare(
        table, mc.Schema(quasi=["x0", "x1"], weight="w", rest="drop"), k=4, methods="mdav"
    )[0]
    assert free.distortion != trial.distortion


def test_all_methods_and_auto_if_none_is_named():
    trials = mc.compare(PEOPLE, SCHEMA, k=10)
    assert [trial.method for trial in trials] == ["auto", *mc.methods.METHODS]


def test_univariate_method_is_skipped_with_a_reason_for_several_dimensions():
    trials = {
        trial.method: trial
        for trial in mc.compare(PEOPLE, SCHEMA, k=5, methods=["univariate", "mdav"])
    }
    skipped = trials["univariate"]
    assert skipped.skipped
    assert "one dimension" in skipped.reason
    assert (skipped.used, skipped.distortion, skipped.cells, skipped.smallest, skipped.seconds) == (
        None,
    ) * 5
    assert not trials["mdav"].skipped


def test_options_are_passed_to_methods_that_accept_them():
    plain = {
        trial.method: trial for trial in mc.compare(PEOPLE, SCHEMA, k=3, methods=["mdav", "vmdav"])
    }
    options = mc.compare(PEOPLE, SCHEMA, k=3, methods=["mdav", "vmdav"], options={"gamma": 1.5})
    set_ = {trial.method: trial for trial in options}
    assert set_["mdav"].distortion == plain["mdav"].distortion
    assert (
        set_["vmdav"].distortion
        == mc.anonymize(PEOPLE, SCHEMA, k=3, method="vmdav", gamma=1.5).manifest.cells.sse_ratio
    )
    assert set_["vmdav"].distortion != plain["vmdav"].distortion


def test_refine_is_passed_to_all_methods():
    for plain, refined in zip(
        mc.compare(PEOPLE, SCHEMA, k=5, methods=["mdav", "bisect"]),
        mc.compare(PEOPLE, SCHEMA, k=5, methods=["mdav", "bisect"], options={"refine": True}),
        strict=True,
    ):
        assert refined.distortion < plain.distortion


def test_bounds_are_below_every_method_of_the_same_k():
    trials = mc.compare(PEOPLE, SCHEMA, k=[3, 5], methods=["mdav", "auto"], bound="balanced")
    bounds = {trial.k: trial.bound for trial in trials}
    assert all(0 < bounds[trial.k] <= trial.distortion for trial in trials)
    assert bounds[3] < bounds[5]
    assert all(trial.bound is None for trial in mc.compare(PEOPLE, SCHEMA, k=3, methods="mdav"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"bound": "most"}, {"code": "option.invalid", "option": "effort"}),
        ({"options": {"nonsense": 1}}, {"code": "option.unsupported", "option": "nonsense"}),
        ({"options": {"steps": 3}}, {"code": "option.unsupported", "option": "steps"}),
        ({"options": {"seed": 3}}, {"code": "option.unsupported", "option": "seed"}),
        ({"options": {"refine": 3}}, {"code": "option.wrong_type", "option": "refine"}),
        ({"options": {"gamma": -1}}, {"code": "option.out_of_range", "option": "gamma"}),
        ({"methods": ["mdav", "nonsense"]}, {"code": "option.unknown", "option": "method"}),
        ({"methods": []}, {"code": "option.invalid", "option": "methods"}),
        ({"k": []}, {"code": "option.invalid", "option": "k"}),
        ({"k": [3, 1]}, {"code": "option.out_of_range"}),
        ({"k": [3, 2.5]}, {"code": "option.wrong_type"}),
        ({"k": "35"}, {"code": "option.wrong_type"}),
        ({"missing": "nonsense"}, {"code": "option.unknown", "option": "missing"}),
        ({"seed": -1}, {"code": "option.out_of_range", "option": "seed"}),
    ],
)
def test_invalid_use_is_rejected(options, expected):
    with raises(OptionError, **expected):
        mc.compare(PEOPLE, SCHEMA, **({"k": 3, "methods": ["mdav", "vmdav"]} | options))


def test_largest_k_is_checked_before_any_trial(monkeypatch):
    monkeypatch.setattr(partition, "partition_records", lambda *_: pytest.fail("a trial was made"))
    with raises(TooFewRecordsError, "guarantee.too_few_records"):
        mc.compare(PEOPLE, SCHEMA, k=[3, 121])
    strata = mc.Schema(quasi=["x0"], strata=["part"])
    with raises(TooFewRecordsError, "guarantee.stratum_too_small"):
        mc.compare(points(20, 1) | {"part": ["a"] * 15 + ["b"] * 5}, strata, k=[3, 6])


def test_missing_values_are_handled_as_in_a_release():
    table = points() | {"x0": np.where(np.arange(60) < 4, np.nan, np.arange(60.0))}
    schema = mc.Schema(quasi=["x0", "x1"])
    with raises(DataError, "data.missing_values"):
        mc.compare(table, schema, k=3, methods="mdav")
    for missing in ("drop", "impute"):
        (trial,) = mc.compare(table, schema, k=3, methods="mdav", missing=missing)
        release = mc.anonymize(table, schema, k=3, method="mdav", missing=missing)
        assert trial.distortion == release.manifest.cells.sse_ratio


def test_table_is_read_once_and_not_changed(monkeypatch):
    calls, read = [], tables.read
    monkeypatch.setattr(tables, "read", lambda source: calls.append(source) or read(source))
    before = {name: column.copy() for name, column in PEOPLE.items()}
    mc.compare(PEOPLE, SCHEMA, k=[3, 5], methods=["mdav", "vmdav"])
    assert len(calls) == 1
    assert all((before[name] == column).all() for name, column in PEOPLE.items())


def test_progress_counts_the_trials():
    heard = []
    with mc.listen(lambda *report: heard.append(report)):
        mc.compare(PEOPLE, SCHEMA, k=[3, 5], methods=["mdav", "vmdav"])
    shown = [report for report in heard if ", k = " in report[0]]
    assert shown == [
        ("mdav, k = 3", 0, 4),
        ("mdav, k = 5", 1, 4),
        ("vmdav, k = 3", 2, 4),
        ("vmdav, k = 5", 3, 4),
    ]


TRIALS = (
    Trial("mdav", 3, "requested", "mdav", 0.05, 40, 3, 0.2),
    Trial("mdav", 10, "requested", "mdav", 0.14, 12, 10, 0.1),
    Trial("anneal", 3, "requested", "anneal", 0.04, 40, 3, 20.0),
    Trial("anneal", 10, "requested", "anneal", 0.11, 12, 10, 0.0),
    Trial("univariate", 3, "unsupported"),
)


@pytest.mark.parametrize(
    ("form", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_figure_has_three_formats_and_is_reproducible(form, start):
    drawn = mc.plot.comparison(TRIALS, format=form)
    assert drawn.startswith(start)
    assert drawn == mc.plot.comparison(TRIALS, format=form)


def test_figure_names_methods_and_k_without_skipped_ones():
    svg = mc.plot.comparison(TRIALS).decode()
    for text in ("mdav", "anneal", "k = 3", "k = 10", "Seconds", "Distortion (SSE / SST)"):
        assert f">{text}</text>" in svg
    assert "univariate" not in svg
    assert "mathdefault" not in svg


@pytest.mark.parametrize("seconds", [1e-9, 0.3, 5000.0])
def test_single_trial_has_a_figure_with_a_number_on_its_axis(seconds):
    svg = mc.plot.comparison([Trial("mdav", 3, "", "mdav", 0.0, 1, 3, seconds)]).decode()
    assert '<g id="xtick_1">' in svg


def test_impossible_figures_are_rejected():
    with raises(OptionError, "option.unknown", option="format"):
        mc.plot.comparison(TRIALS, format="bmp")
    with raises(OptionError, "option.invalid", option="trials"):
        mc.plot.comparison(TRIALS[-1:])


def test_sweeps_and_allocations_do_not_load_matplotlib():
    code = (
        "import sys, microcell as mc;"
        "table, schema = {'a': [1, 2, 3, 4]}, mc.Schema(quasi=['a']);"
        "mc.compare(table, schema, k=2, methods='mdav');"
        "mc.explore(table, schema, k=2, methods='mdav');"
        "mc.allocate({'a': [1, 2]}, {'a': [1, 2]});"
        "print(sorted({'matplotlib', 'pandas', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
