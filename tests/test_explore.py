"""Exploring risk and loss: points match releases and audits, and recommendations follow a rule."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell import sweeps, tables
from microcell.errors import DataError, GuaranteeError, OptionError, TooFewRecordsError
from microcell.release import partition
from microcell.sweeps.exploration import _find_frontier, _recommend
from tests.raising import raises

PEOPLE = mc.sample_survey(120)
SCHEMA = mc.sample_schema()
LINE = mc.Schema(quasi=["age"], rest="drop")


def values(measures):
    return {name: measure.value for name, measure in measures.items()}


def audited(source, schema, **options):
    """Return a release and its measures, made and audited by the public functions."""
    release = mc.anonymize(source, schema, **options)
    return release, values(mc.audit(source, release.table, schema).measures)


# ------------------------------------------------------------------------------------------- points


@pytest.mark.parametrize("method", ["auto", "mdav", "vmdav", "bisect"])
@pytest.mark.parametrize("schema", [SCHEMA, LINE], ids=["several columns", "one column"])
def test_point_matches_release_and_audit(method, schema):
    result = mc.explore(PEOPLE, schema, k=[4, 30], methods=method, seed=7)
    for point, k in zip(result.points, (4, 30), strict=True):
        release, measures = audited(PEOPLE, schema, k=k, method=method, seed=7)
        assert values(point.measures) == measures
        assert (point.method, point.k, point.measured_k) == (method, k, measures["k"])
        assert (point.used, point.reason) == (
            release.manifest.method.used,
            release.manifest.method.reason,
        )
        assert point["information_loss"] == release.manifest.information_loss
        assert point.seconds > 0


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_missing_values_strata_and_weights_are_handled_as_in_a_release(missing):
    rng = np.random.default_rng(3)
    table = {
        "x": np.where(np.arange(80) % 20 == 3, np.nan, rng.normal(size=80)),
        "y": rng.normal(size=80),
        "w": rng.uniform(1, 9, 80),
        "part": np.repeat(["a", "b"], [30, 50]),
        "pay": rng.integers(0, 9, 80),
    }
    schema = mc.Schema(quasi=["x", "y"], weight="w", strata=["part"], confidential=["pay"])
    with raises(DataError, "data.missing_values"):
        mc.explore(table, schema, k=3)
    (point,) = mc.explore(table, schema, k=4, methods="mdav", missing=missing).points
    _, measures = audited(table, schema, k=4, method="mdav", missing=missing)
    assert values(point.measures) == measures
    assert point["records_dropped"] == (4 if missing == "drop" else 0)
    assert point["l_diversity"] == point["l_diversity.pay"]


def test_points_are_ordered_by_method_and_k_with_auto_as_default():
    result = mc.explore(PEOPLE, SCHEMA, k=[5, 3], methods=["vmdav", "mdav", "vmdav"])
    assert [(point.method, point.k) for point in result.points] == [
        ("vmdav", 5),
        ("vmdav", 3),
        ("mdav", 5),
        ("mdav", 3),
    ]
    assert [point.method for point in mc.explore(PEOPLE, SCHEMA, k=20).points] == ["auto"]


def test_options_are_passed_to_methods_that_accept_them():
    plain = mc.explore(PEOPLE, SCHEMA, k=3, methods=["mdav", "vmdav"]).points
    set_ = mc.explore(PEOPLE, SCHEMA, k=3, methods=["mdav", "vmdav"], options={"gamma": 1.5}).points
    assert set_[0].measures == plain[0].measures
    assert values(set_[1].measures) == audited(PEOPLE, SCHEMA, k=3, method="vmdav", gamma=1.5)[1]
    assert set_[1]["information_loss"] != plain[1]["information_loss"]


def test_unsupported_method_is_skipped_with_a_reason():
    result = mc.explore(PEOPLE, SCHEMA, k=[3, 5], methods=["univariate", "mdav"])
    skipped = result.points[0]
    assert skipped.skipped
    assert "one dimension" in skipped.reason
    assert (skipped.used, skipped.measured_k, skipped.measures, skipped.seconds) == (
        None,
        None,
        {},
        None,
    )
    assert not result.meets(skipped)
    assert skipped not in result.frontier
    assert result.recommended in result.points[2:]


def test_table_is_read_once_and_not_changed(monkeypatch):
    calls, read = [], tables.read
    monkeypatch.setattr(tables, "read", lambda source: calls.append(source) or read(source))
    before = {name: column.copy() for name, column in PEOPLE.items()}
    mc.explore(PEOPLE, SCHEMA, k=[3, 5], methods=["mdav", "vmdav"])
    assert len(calls) == 1
    assert all((before[name] == column).all() for name, column in PEOPLE.items())


def test_progress_counts_the_points():
    heard = []
    with mc.listen(lambda *report: heard.append(report)):
        mc.explore(PEOPLE, SCHEMA, k=[3, 5], methods="mdav")
    assert [report for report in heard if ", k = " in report[0]] == [
        ("mdav, k = 3", 0, 2),
        ("mdav, k = 5", 1, 2),
    ]
    assert [report[0] for report in heard].count("auditing") == 2


def test_degenerate_tables():
    same = mc.explore(
        {"x": [4] * 9, "pay": [1] * 9}, mc.Schema(quasi=["x"], confidential=["pay"]), k=[2, 9]
    )
    assert (
        same.recommended.k == 9
    )  # nothing is lost and nobody is told apart for either: the larger k
    assert same.recommended["information_loss"] == 0
    (point,) = mc.explore({"x": [1.0, 3.0]}, mc.Schema(quasi=["x"]), k=2).points
    assert (point.measured_k, point["information_loss"]) == (2, 1)
    for scale in (1e-200, 1e150):
        huge = mc.explore({"x": np.arange(12.0) * scale}, mc.Schema(quasi=["x"]), k=[2, 4, 12])
        assert [point["information_loss"] for point in huge.points] == pytest.approx(
            [3 / 143, 15 / 143, 1]
        )


# -------------------------------------------------------------------------------------- invalid use


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"k": []}, {"code": "option.invalid", "option": "k"}),
        ({"k": [3, 1]}, {"code": "option.out_of_range"}),
        ({"k": [3, 2.5]}, {"code": "option.wrong_type"}),
        ({"k": True}, {"code": "option.wrong_type"}),
        ({"methods": ["mdav", "nonsense"]}, {"code": "option.unknown", "option": "method"}),
        ({"methods": []}, {"code": "option.invalid", "option": "methods"}),
        ({"methods": "univariate"}, {"code": "option.unsupported", "option": "methods"}),
        ({"options": {"nonsense": 1}}, {"code": "option.unsupported", "option": "nonsense"}),
        ({"missing": "nonsense"}, {"code": "option.unknown", "option": "missing"}),
        ({"seed": -1}, {"code": "option.out_of_range", "option": "seed"}),
        ({"risk": "nonsense"}, {"code": "option.unknown"}),
        ({"loss": "information_loss.tsh"}, {"code": "option.unknown"}),
        ({"require": {"nonsense": 1}}, {"code": "option.unknown"}),
        ({"require": {"k": float("nan")}}, {"code": "option.invalid"}),
        ({"require": {"k": float("inf")}}, {"code": "option.invalid"}),
        ({"require": {"k": True}}, {"code": "option.invalid"}),
        ({"require": {"k": "5"}}, {"code": "option.invalid"}),
        ({"require": [("k", 5)]}, {"code": "option.wrong_type"}),
    ],
)
def test_invalid_use_is_rejected(options, expected):
    with raises(OptionError, **expected):
        mc.explore(PEOPLE, SCHEMA, **({"k": [3, 5], "methods": "mdav"} | options))


def test_largest_k_is_checked_before_any_point(monkeypatch):
    monkeypatch.setattr(partition, "partition_records", lambda *_: pytest.fail("cells were made"))
    with raises(TooFewRecordsError, "guarantee.too_few_records"):
        mc.explore(PEOPLE, SCHEMA, k=[3, 121])


@pytest.mark.parametrize(
    ("options", "points"), [({"require": {"nonsense": 1}}, 0), ({"risk": "nonsense"}, 1)]
)
def test_unknown_measure_is_rejected_at_the_first_point_at_the_latest(monkeypatch, options, points):
    created, make = [], partition.partition_records
    monkeypatch.setattr(
        partition, "partition_records", lambda *options: created.append(1) or make(*options)
    )
    with raises(OptionError, "option.unknown", measure="nonsense"):
        mc.explore(PEOPLE, SCHEMA, k=[3, 5, 7], methods="mdav", **options)
    assert len(created) == points


def test_table_that_is_not_k_anonymous_is_rejected(monkeypatch):
    publish, lonely = tables.publish, np.repeat([0, 1, 2, 3], [1, 5, 3, 3])
    monkeypatch.setattr(tables, "publish", lambda table, _, *rest: publish(table, lonely, *rest))
    with raises(GuaranteeError, "guarantee.failed", k=3):
        mc.explore({"x": np.arange(12.0)}, mc.Schema(quasi=["x"]), k=3)


# ----------------------------------------------------------------------------------- recommendation


def point(k, method="mdav", **measures):
    """Return an artificial point: lower is better for risk and loss, higher for gain."""
    created = {
        name: mc.Measure(name, value, "share", not name.startswith("gain"), "")
        for name, value in measures.items()
    }
    return sweeps.Point(method, k, "requested", method, k, created, 0.1)


def advise(points, limits=None, axes=("risk", "loss")):
    frontier = _find_frontier(points, *axes)
    return _recommend(points, frontier, limits or {}, axes)


def test_frontier_has_the_points_that_no_other_beats():
    points = [
        point(3, risk=0.3, loss=0.1),
        point(5, risk=0.2, loss=0.2),
        point(6, risk=0.2, loss=0.2),
        point(7, risk=0.2, loss=0.3),
        point(9, risk=0.1, loss=0.4),
        point(10, risk=0.35, loss=0.1),
    ]
    assert [each.k for each in _find_frontier(points, "risk", "loss")] == [3, 5, 6, 9]


def test_best_balance_is_closest_to_the_best_corner_on_scaled_axes():
    points = [
        point(3, risk=300, loss=0.0),
        point(10, risk=60, loss=0.03),
        point(50, risk=0, loss=0.1),
    ]
    best, reason = advise(points)
    assert best.k == 10
    assert "best balance" in reason


def test_limits_select_the_least_loss_that_meets_them():
    points = [
        point(3, risk=0.3, loss=0.1),
        point(5, risk=0.2, loss=0.15),
        point(9, risk=0.1, loss=0.4),
    ]
    assert advise(points, {"risk": 0.2}) == (
        points[1],
        "lowest loss (15 %) of the 2 points (of 3) that meet all limits",
    )
    assert advise(points, {"risk": 0.2, "loss": 0.15})[0] == points[1]
    assert advise(points, {"risk": 0.1999})[0] == points[2]


def test_ties_go_to_the_larger_k_then_to_the_first():
    points = [point(k, method, risk=0.1, loss=0.1) for method in ("a", "b") for k in (3, 9, 5)]
    for limits in ({}, {"risk": 1}):
        best, _ = advise(points, limits)
        assert (best.method, best.k) == ("a", 9)


def test_more_can_be_better():
    points = [point(3, risk=0.3, gain=9), point(5, risk=0.2, gain=5), point(9, risk=0.1, gain=1)]
    best, reason = advise(points, {"gain": 5, "risk": 0.35}, ("risk", "gain"))
    assert best.k == 3
    assert "highest gain" in reason
    assert advise(points, {"gain": 5, "risk": 0.25}, ("risk", "gain"))[0].k == 5
    assert advise(points, {"gain": 6}, ("risk", "gain"))[0].k == 3


def test_closest_point_is_reported_with_its_failed_limits():
    points = [
        point(3, risk=0.3, loss=0.1),
        point(5, risk=0.2, loss=0.2),
        point(9, risk=0.1, loss=0.5),
    ]
    best, reason = advise(points, {"risk": 0.15, "loss": 0.18})
    assert best is None
    assert reason == (
        "No point of the map meets all limits. mdav with k = 5 comes closest: risk is 0.2, "
        "required at most 0.15 (off by 0.05); loss is 0.2, required at most 0.18 (off by 0.02)."
    )
    best, reason = advise([point(3, risk=1, loss=1, gain=2)], {"gain": 5})
    assert best is None
    assert "gain is 2, required at least 5 (off by 3)" in reason


def plain_advice(rows, limits):
    """Return the index of the recommended row and whether it meets the limits, by plain loops."""

    def misses(row):
        result = dict(zip(("k", "risk", "loss", "gain"), row, strict=True))
        out = {}
        for name, limit in limits.items():
            over = limit - result[name] if name == "gain" else result[name] - limit
            if over > 0:
                out[name] = over
        return out

    def spread(name):
        column = [row[("k", "risk", "loss", "gain").index(name)] for row in rows]
        return max(column) - min(column)

    def pick(indices, score):
        best = None
        for index in indices:
            mine = score(rows[index])
            if (
                best is None
                or mine < score(rows[best])
                or (mine == score(rows[best]) and rows[index][0] > rows[best][0])
            ):
                best = index
        return best

    everyone = range(len(rows))
    if limits:
        good = [index for index in everyone if not misses(rows[index])]
        if good:
            return pick(good, lambda row: row[1 if set(limits) == {"loss"} else 2]), True
        return pick(
            everyone,
            lambda row: sum(over / (spread(name) or 1) for name, over in misses(row).items()),
        ), False
    lows = [min(row[axis] for row in rows) for axis in (1, 2)]

    def away(row):
        x, y = (
            (row[axis] - low) / (spread(name) or 1)
            for axis, low, name in ((1, lows[0], "risk"), (2, lows[1], "loss"))
        )
        return np.hypot(x, y)

    return pick(everyone, away), True


amounts = st.integers(0, 8).map(lambda value: value / 8)
"""Few values, exact in binary, so that ties are frequent and real."""


@given(
    rows=st.lists(st.tuples(st.integers(2, 6), amounts, amounts, amounts), min_size=1, max_size=12),
    limits=st.dictionaries(st.sampled_from(["risk", "loss", "gain"]), amounts, max_size=3),
)
def test_advice_matches_plain_loops(rows, limits):
    points = [
        point(k, str(place), risk=a, loss=b, gain=c) for place, (k, a, b, c) in enumerate(rows)
    ]
    best, reason = advise(points, limits)
    place, meets = plain_advice(rows, limits)
    if meets:
        assert best == points[place]
    else:
        assert best is None
        assert f"{points[place]} comes closest" in reason
    frontier = _find_frontier(points, "risk", "loss")
    for each, (_, a, b, _) in zip(points, rows, strict=True):
        beaten = any(x <= a and y <= b and (x < a or y < b) for _, x, y, _ in rows)
        assert (each in frontier) == (not beaten)
    assert frontier


def test_limits_of_a_real_map():
    result = mc.explore(
        PEOPLE, SCHEMA, k=[3, 5, 10, 20], methods="mdav", require={"k": 5, "linkage": 0.1}
    )
    good = [each for each in result.points if each["k"] >= 5 and each["linkage"] <= 0.1]
    assert result.recommended == min(good, key=lambda each: each["information_loss"])
    assert [result.meets(each) for each in result.points] == [
        each in good for each in result.points
    ]
    assert result.limits == {"k": 5, "linkage": 0.1}
    assert (result.risk, result.loss) == ("linkage", "information_loss")
    none = mc.explore(PEOPLE, SCHEMA, k=[3, 5], methods="mdav", require={"information_loss": 0})
    assert none.recommended is None
    assert "comes closest" in none.reason


def test_axes_can_be_other_measures():
    result = mc.explore(
        PEOPLE, SCHEMA, k=[3, 20], methods="mdav", risk="t_closeness", loss="classes"
    )
    assert len(result.frontier) == 2  # fewer classes, less to tell them apart by
    few = mc.explore(PEOPLE, SCHEMA, k=[3, 20], methods="mdav", risk="k", loss="prosecutor_worst")
    assert few.frontier == (few.recommended,)
    assert few.recommended.k == 20


# ------------------------------------------------------------------------------------------- figure


def exploration(points, limits=None):
    frontier = tuple(_find_frontier([each for each in points if not each.skipped], "risk", "loss"))
    usable = [each for each in points if not each.skipped]
    best, reason = _recommend(usable, frontier, limits or {}, ("risk", "loss"))
    return sweeps.Exploration(tuple(points), best, reason, limits or {}, "risk", "loss", frontier)


POINTS = (
    point(3, "auto", risk=0.3, loss=0.03, gain=1),
    point(10, "auto", risk=0.1, loss=0.08, gain=3),
    point(3, "mdav", risk=0.31, loss=0.04, gain=1),
    point(10, "mdav", risk=0.11, loss=0.1, gain=4),
    sweeps.Point("univariate", 3, "not for it"),
)
LIMITED = exploration(POINTS, {"risk": 0.2, "gain": 3.5})


@pytest.mark.parametrize(
    ("form", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_figure_has_three_formats_and_is_reproducible(form, start):
    drawn = mc.plot.exploration(LIMITED, format=form)
    assert drawn.startswith(start)
    slower = replace(LIMITED, points=tuple(replace(each, seconds=9.0) for each in LIMITED.points))
    taken = next(each for each in slower.points if each.measures == LIMITED.recommended.measures)
    edge = tuple(replace(each, seconds=9.0) for each in LIMITED.frontier)
    assert drawn == mc.plot.exploration(
        replace(slower, recommended=taken, frontier=edge), format=form
    )


def test_figure_is_labelled():
    svg = mc.plot.exploration(LIMITED).decode()
    shown = (
        "auto",
        "mdav",
        "k = 3",
        "k = 10",
        "frontier",
        "recommended:",
        "misses a limit",
        "beyond a limit",
    )
    for text in (*shown, "Risk: risk (lower is better)", "Loss: loss (lower is better)"):
        assert f">{text}</text>" in svg
    assert ">mdav, k = 10</text>" in svg  # beneath "recommended:"
    assert "univariate" not in svg
    plain = mc.plot.exploration(exploration(POINTS)).decode()
    assert "a limit" not in plain
    none = mc.plot.exploration(exploration(POINTS, {"loss": 0.01})).decode()
    assert "recommended" not in none


def test_close_marks_of_the_same_k_share_a_label():
    far, near = point(5, "b", risk=0.9, loss=0.9), point(5, "b", risk=0.1, loss=0.11)
    for other, labels in ((far, 2), (near, 1)):
        others = [point(9, risk=0.0, loss=1.0), point(2, risk=1.0, loss=0.0)]
        svg = mc.plot.exploration(
            exploration([point(5, "a", risk=0.1, loss=0.1), other, *others])
        ).decode()
        assert svg.count(">k = 5</text>") == labels


@pytest.mark.parametrize("value, limit", [(0.0, -1e300), (1e-12, 0.0), (0.0, 1e-9), (0.5, 1e300)])
def test_figure_of_a_single_point_with_a_distant_limit(value, limit):
    created = exploration([point(3, risk=value, loss=value)], {"loss": limit})
    assert mc.plot.exploration(created).startswith(b"<?xml")


def test_better_is_always_at_the_origin():
    turned = mc.plot.exploration(replace(LIMITED, risk="gain", limits={"gain": 3.5})).decode()
    assert "Risk: gain (higher is better)" in turned


def test_figure_format_is_checked():
    with raises(OptionError, "option.unknown", option="format"):
        mc.plot.exploration(LIMITED, format="bmp")
