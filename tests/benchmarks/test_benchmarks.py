"""Benchmarks run on tiny tables and report results; the page matches the stored results."""

import importlib
import json
import re
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from benchmarks import equal_records, page, requirements
from benchmarks.__main__ import run_again, run_cases, run_profile
from benchmarks.apart import not_run, run_apart
from benchmarks.cases import Case, Memory, digest, gaussian, loss, measure, warm_up_peers
from benchmarks.command import PHASES
from benchmarks.contenders import CONTENDERS, OURS, PEERS
from benchmarks.figures import FIGURES, draw
from benchmarks.profiles import OVER, PROFILES, Profile
from benchmarks.roofline import place
from benchmarks.scaling import exponents, fit

import microcell as mc

TINY = Profile(
    minutes=5,
    cases=(
        Case("distortion and time", "mdav", 90, 3, 5, limit=250.0),
        Case("distortion and time", "anonypyx, MDAV", 90, 3, 5, limit=250.0),
        Case("over k", "bisect", 60, 2, 6, limit=250.0),
        Case("over n", "bisect", 40, 2, 10, limit=250.0),
        Case("over n", "bisect", 80, 2, 10, limit=250.0),
    ),
    roof=((400, 3, 10),),
    large_mb=1.0,
    audit=2_000,
    anonymity=200,
)


@pytest.fixture(scope="module")
def here():
    """Run what needs a process of its own in this one, where everything is loaded already."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("auditing", "cases"):
            patch.setattr(f"benchmarks.{module}.run_apart", run_here)
        yield


@pytest.fixture(scope="module")
def results(here):
    """Run all benchmarks on tiny tables; what compiles or takes long is replaced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.roofline.run_apart", stand_in)
        patch.setattr(
            "benchmarks.__main__.start_up", lambda: [{"case": "import microcell", "seconds": 0.01}]
        )
        patch.setattr("benchmarks.roofline.os.cpu_count", lambda: 1)
        output = run_profile("tiny", TINY, None)
    return json.loads(json.dumps(output))  # as a reader of the file gets it


def run_here(function, options, **_):
    module, _, name = function.partition(":")
    return json.loads(json.dumps(getattr(importlib.import_module(module), name)(**options)))


def stand_in(function, options, **_):
    if function.endswith("peaks"):
        return {"fused": 40.0, "unfused": 20.0}
    return {"megabytes": options["megabytes"], "triad": 10.0, "read": 12.0}


def test_every_measurement_has_its_figures(results):
    measured = [row for row in results["measurements"] if row["status"] == "measured"]
    assert [row["contender"] for row in measured] == ["mdav", "bisect", "bisect", "bisect"]
    for row in measured:
        assert row["seconds"] == min(row["runs"]) > 0
        assert row["peak_mb"] > row["beyond_mb"] >= 0
        assert row["matrix_mb"] == pytest.approx(8e-6 * row["n"] * row["m"])
        assert row["smallest"] >= row["k"]
        assert 0 < row["D"] < 1


def test_measuring_one_question_again_leaves_the_rest_and_is_recorded(here, results):
    again = run_again("over n", TINY, None, results)
    for before, after in zip(results["measurements"], again["measurements"], strict=True):
        assert (before == after) == (before["question"] != "over n")
        assert before.get("D") == after.get("D")
    assert page.about(again).startswith(
        page.about(results).rstrip() + " Measured later, in a separate run: over n."
    )
    with pytest.raises(SystemExit, match="No such question"):
        run_again("over the rainbow", TINY, None, results)


def test_a_question_measured_again_has_all_cases_of_the_profile_in_their_place(
    results, monkeypatch
):
    monkeypatch.setattr(
        "benchmarks.__main__.run_case", lambda case, _: {**vars(case), **not_run("left out")}
    )
    more = Case("over k", "bisect", 60, 2, 3)
    again = run_again("over k", replace(TINY, cases=(*TINY.cases, more)), None, results)
    assert [(row["question"], row["k"]) for row in again["measurements"]] == [
        *[("distortion and time", 5)] * 2,
        *[("over k", 6), ("over k", 3)],
        *[("over n", 10)] * 2,
    ]


def test_a_whole_run_is_not_described_as_several(results):
    assert "Measured later" not in page.make_page(results)


def test_every_other_package_is_run_once_before_it_is_measured(monkeypatch):
    run = []
    monkeypatch.setattr(
        "benchmarks.cases.run_apart",
        lambda _, options, python: run.append((options["contender"], python)),
    )
    warm_up_peers("their Python")
    assert run == [(name, "their Python") for name in PEERS]


def test_what_other_packages_compile_beforehand_is_not_on_the_clock(monkeypatch):
    seconds = [0.0]
    stand_ins = {
        "perf_counter": lambda: seconds[0],
        "warm_up_peers": lambda _: seconds.append(seconds.pop() + 1000),
        "run_apart": lambda *_, **__: {},
        "roofline": lambda *_: {"mdav": []},
        "run_audits": lambda *_: {},
        "start_up": list,
        "run_case": lambda case, _: {**vars(case), **not_run("left out")},
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(f"benchmarks.__main__.{name}", stand_in)
    output = run_profile("tiny", TINY, "their Python")
    assert seconds == [1000]
    assert {row["why"] for row in output["measurements"]} == {"left out"}


def test_what_cannot_run_is_listed_with_the_reason(results):
    missing = [row for row in results["measurements"] if row["status"] != "measured"]
    assert [(row["contender"], row["why"]) for row in missing] == [
        ("anonypyx, MDAV", "anonypyx is not installed (make peers)")
    ]
    assert (
        results["audit"]["anonymity"]["pyCANON"]["why"] == "pycanon is not installed (make peers)"
    )
    assert results["peers"] is None


def test_a_run_tells_the_machine_the_audit_and_the_exponents(results):
    assert results["machine"]["cores"] >= 1
    assert results["versions"]["microcell"] == results["machine"]["microcell"] == mc.__version__
    assert [row["case"] for row in results["audit"]["parts"]["rows"]][-2:] == [
        "whole audit",
        "all but linkage",
    ]
    assert results["audit"]["memory"]["tables"] >= 0
    assert results["audit"]["anonymity"]["microcell"]["values"]["k"] == 10
    assert [(row["contender"], row["over"], row["points"]) for row in results["exponents"]] == [
        ("bisect", "n", 2)
    ]
    assert results["roofline"]["mdav"][0]["bandwidth"] == 12.0


def test_the_page_of_a_run_shows_it(results):
    output = page.make_page(results)
    assert "anonypyx is not installed (make peers)" in output
    assert "Profile tiny" in output
    for name in FIGURES:
        assert f"(benchmarks/{name}.svg)" in output
    for row in results["measurements"]:
        if row["status"] == "measured":
            assert f"| {page.show(row['seconds'])} | {page.show(row['peak_mb'])} |" in output
    widths = [
        {line.count(" | ") for line in block.splitlines()}
        for block in re.findall(r"(?:^\|.*\n)+", output, re.M)
    ]
    assert len(widths) > 8
    assert all(len(width) == 1 for width in widths)


def test_the_page_warns_of_a_busy_machine(results):
    cores = results["machine"]["cores"]
    assert "times are not reliable" in page.make_page({**results, "load": [cores, cores]})
    assert "times are not reliable" not in page.make_page({**results, "load": [0.1, cores]})


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_the_same_every_time(results, name):
    first = draw(name, results["measurements"])
    assert first == draw(name, results["measurements"])
    assert b"<dc:date>" not in first
    assert b"D = SSE / SST" in first or b"seconds" in first


def test_figures_of_a_run_in_which_nothing_was_measured_are_empty_and_no_error():
    for name in FIGURES:
        assert draw(name, []).startswith(b"<?xml")


def test_the_page_is_up_to_date():
    results = page.read()
    assert page.PAGE.read_text(encoding="utf-8") == page.make_page(results)
    for name in FIGURES:
        assert len((page.FOLDER / f"{name}.svg").read_bytes()) < 200_000


def test_the_generated_census_has_many_equal_records():
    X = equal_records.generate_census()
    assert X.shape == (66_666, 5)
    assert 4_000 <= len(np.unique(X, axis=0)) <= 5_000
    assert np.allclose(X.mean(axis=0), 0)
    assert np.allclose(X.std(axis=0), 1)


def test_equal_records_are_measured_by_every_method_and_shown(monkeypatch, tmp_path):
    monkeypatch.setattr(equal_records, "RESULTS", tmp_path / "equal_records.json")
    assert page.many_equal_records() == ""
    X = np.random.default_rng(0).integers(0, 3, size=(200, 3)).astype(float)
    rows = equal_records.measure("three values", X, 5)
    assert [row["method"] for row in rows] == list(equal_records.METHODS)
    assert {(row["n"], row["k"], row["distinct"]) for row in rows} == {(200, 5, 27)}
    by_method = {row["method"]: row["loss"] for row in rows}
    assert by_method["auto, balanced"] <= by_method["mdav"]
    equal_records.RESULTS.write_text(json.dumps(rows), encoding="utf-8")
    shown = page.many_equal_records()
    assert "## Equal records" in shown
    assert f"| mdav | {by_method['mdav']:.4f} | 1.00 |" in shown


def test_exponents_are_the_slopes_on_logarithmic_axes():
    sizes = np.array([10.0, 30.0, 100.0, 500.0])
    noise = np.array([1.1, 0.9, 1.05, 0.97])
    output = fit(sizes, 3e-7 * sizes**1.7 * noise)
    coefficients, covariance = np.polyfit(np.log(sizes), np.log(sizes**1.7 * noise), 1, cov=True)
    assert output["exponent"] == pytest.approx(coefficients[0])
    assert output["error"] == pytest.approx(np.sqrt(covariance[0, 0]))
    assert output["least"] < output["exponent"] < output["most"]
    assert output["points"] == 4


def test_exponents_do_not_depend_on_the_order_of_the_sizes_nor_on_the_unit_of_time():
    one, other = fit([1, 2, 4], [1, 5, 17]), fit([4, 1, 2], [17e3, 1e3, 5e3])
    assert one == pytest.approx(other)


def test_two_points_have_a_slope_and_no_error_and_one_has_none():
    assert fit([10, 100], [1, 1000]) == {
        **{"exponent": pytest.approx(3), "least": pytest.approx(3), "most": pytest.approx(3)},
        **{"error": None, "points": 2},
    }
    with pytest.raises(ValueError, match="two different sizes"):
        fit([10, 10], [1, 2])


def test_exponents_leave_out_what_was_not_measured_and_what_does_not_vary():
    def row(question, n, seconds, status="measured"):
        return {
            "question": question,
            "contender": "mdav",
            "n": n,
            "seconds": seconds,
            "status": status,
        }

    rows = [
        row("over n", 1, 1.0),
        row("over n", 2, 4.0),
        row("over n", 4, None, "not run"),
        row("memory", 9, 1.0),
    ]
    output = exponents(rows, OVER)
    assert [(actual["from"], actual["to"], actual["points"]) for actual in output] == [(1, 2, 2)]
    assert output[0]["exponent"] == pytest.approx(2)
    assert exponents([row("over n", 5, 1.0)], OVER) == []


@pytest.mark.parametrize(
    ("peak", "read", "bound", "of_roof"),
    [(1000.0, 80.0, "bandwidth", 0.75), (45.0, 800.0, "arithmetic", 0.5)],
)
def test_a_scan_is_bound_by_bandwidth_or_by_arithmetic(peak, read, bound, of_roof):
    # 0.75 * 1e8 / 10 = 7.5e6 distances of 10 columns: 0.225 GFLOP and 0.6 GB, in 0.01 seconds
    row = {"n": 10_000, "m": 10, "k": 10, "seconds": 0.01, "threads": 1}
    output = place(row, {"fused": peak, "unfused": peak / 2}, {"triad": 1.0, "read": read})
    assert (output["gflops"], output["gbps"]) == pytest.approx((22.5, 60.0))
    assert output["bound"] == bound
    assert output["of_roof"] == pytest.approx(of_roof)


def test_the_distortion_of_the_benchmarks_is_that_of_the_package():
    X, labels = gaussian(50, 3), np.arange(50) // 5
    assert loss(X, labels) == pytest.approx(mc.distortion(X, labels))
    assert loss(np.ones((4, 2)), np.zeros(4, dtype=int)) == 0


def test_plain_numpy_makes_the_same_cells():
    ours, plain = (measure(name, 120, 4, 5) for name in ("mdav", "mdav, plain NumPy"))
    assert ours["digest"] == plain["digest"]
    assert digest(np.array([0, 0, 1])) != digest(np.array([0, 1, 1]))


def test_memory_is_measured_from_the_start_of_the_run():
    memory = Memory()
    if memory.held is None:
        pytest.skip("this system does not tell what a process holds")
    taken = np.ones(8_000_000)
    assert memory.row()["beyond_mb"] > 0.9 * taken.nbytes / 1e6


def test_a_function_that_fails_or_takes_too_long_stops_nothing():
    failed = run_apart("benchmarks.cases:measure", {"contender": "no such", "n": 1, "m": 1, "k": 1})
    assert failed == {"status": "not run", "why": "KeyError: 'no such'"}
    assert run_apart("time:sleep", {}, limit=0.01)["why"] == "stopped after 0.01 s"
    assert run_apart("time:time", {}, python=sys.executable + "-not-there")["why"].startswith(
        "no such Python"
    )


def test_a_contender_that_was_stopped_is_not_tried_on_what_takes_longer(monkeypatch):
    tried = []

    def stop(case, _):
        tried.append(case.n)
        return {**vars(case), "status": "not run", "why": "stopped after 1 s"}

    monkeypatch.setattr("benchmarks.__main__.run_case", stop)
    cases = [Case("over n", "mdav", n, 2, 10) for n in (10, 20, 40)]
    rows = run_cases(cases, None)
    assert tried == [10]
    assert [row["why"].split(":")[0] for row in rows] == [
        "stopped after 1 s",
        "not tried",
        "not tried",
    ]
    assert {row["why"] for row in run_cases(cases, None, deadline=0.0)} == {
        "not tried: the time for the whole run was up"
    }


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_profiles_name_contenders_and_sizes_that_exist(profile):
    assert len(set(profile.cases)) == len(profile.cases)
    for case in profile.cases:
        assert case.contender in CONTENDERS
        assert case.n >= 2 * case.k
        assert (case.m == 1) == (case.contender in ("univariate", "microagg1d"))
    used = {case.contender for case in profile.cases}
    assert set(PEERS) <= used
    assert profile is PROFILES["quick"] or set(OURS) <= used


def test_a_case_is_measured_in_a_process_of_its_own():
    case = run_apart("benchmarks.cases:measure", {"contender": "mdav", "n": 90, "m": 3, "k": 5})
    assert case["digest"] == measure("mdav", 90, 3, 5)["digest"]


def test_the_command_is_timed_by_phase():
    row = run_apart("benchmarks.command:time_phases", {"n": 60, "k": 3, "effort": "fast"})
    assert list(row["phases"]) == list(PHASES)
    assert all(processor >= 0 <= elapsed for processor, elapsed in row["phases"].values())


def test_classes_of_other_packages_are_published_and_audited():
    rng, n = np.random.default_rng(0), 42
    numbers = {name: rng.integers(1, 90, n) for name in requirements.ADULT_QUASI[:3]}
    texts = {name: rng.choice(["a", "b"], n) for name in requirements.ADULT_QUASI[3:]}
    income = np.arange(n) % 2
    frame = pl.DataFrame({**numbers, **texts, "income": income.astype(str)})
    classes = [-1, -1, *np.repeat(np.arange(5), 8).tolist()]
    row = requirements.audited(frame, "income", classes, "t_closeness")
    assert (row["audited_k"], row["classes"], row["suppressed"], row["reached"]) == (8, 5, 2, 0)
    assert 0 < row["loss"] < 100
