"""Requirements on a release: merging against a reference implementation, and rejected limits."""

from collections import Counter
from math import exp, log, log2
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell import api
from microcell.kernels import rules
from microcell.kernels.merging import find_cheapest, lay_out_cells
from microcell.measures.registry import base_name, lower_is_better, requirable
from microcell.model import Column, Encoded, Partition, Schema
from microcell.release import enforce, requirements
from microcell.release import partition as partitioning
from tests.raising import raises
from tests.small_tables import table

SECRET = "S3CR3T"

# ------------------------------------------------------------------------ reference implementation


def nearest_rank(value):
    return (value is not None, value or 0)


def measure_cell(base, group, column, ordered):
    """Compute the measure of one cell from its definition."""
    support = sorted(set(column), key=nearest_rank)
    p = [group.count(value) / len(group) for value in support]
    q = [column.count(value) / len(column) for value in support]
    counts = sorted(Counter(group).values(), reverse=True)
    both = [(a, b) for a, b in zip(p, q, strict=True) if a]
    if base == "t_closeness" and ordered:
        gaps = [abs(sum(p[: i + 1]) - sum(q[: i + 1])) for i in range(len(p))]
        return sum(gaps) / (len(p) - 1) if len(p) > 1 else 0.0
    return {
        "k": lambda: len(group),
        "prosecutor_worst": lambda: 1 / len(group),
        "p_sensitivity": lambda: len(counts),
        "l_diversity": lambda: len(counts),
        "l_entropy": lambda: exp(-sum(a * log(a) for a, _ in both)),
        "l_recursive": lambda: max(
            [1, *(level + 1 for level in range(len(counts)) if counts[0] < 3 * sum(counts[level:]))]
        ),
        "t_closeness": lambda: sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2,
        "t_kullback": lambda: sum(a * log2(a / b) for a, b in both),
        "delta_disclosure": lambda: max(abs(log2(a / b)) for a, b in both),
    }[base]()


def failing_cells(cells, alone, limits, column, ordered):
    broken = set()
    for base, limit in limits.items():
        if base.startswith("homogeneous"):
            amounts = {
                cell: (1 if base == "homogeneous_classes" else len(rows))
                for cell, rows in cells.items()
                if len({column[row] for row in rows}) == 1
            }
            excess = sum(amounts.values()) - limit
            for cell in sorted(set(amounts) - alone, key=lambda cell: (len(cells[cell]), cell)):
                if excess > 0:
                    broken.add(cell)
                    excess -= amounts[cell]
            continue
        for cell, rows in cells.items():
            value = measure_cell(base, [column[row] for row in rows], column, ordered)
            value = value if base in ("k", "prosecutor_worst") else round(value, 12)
            if value > limit if lower_is_better(base) else value < limit:
                broken.add(cell)
    return broken


def ward(points, weights, one, other):
    def centre(rows):
        mass = sum(weights[row] for row in rows)
        return mass, [
            sum(weights[row] * points[row][j] for row in rows) / mass for j in range(len(points[0]))
        ]

    (v, a), (w, b) = centre(one), centre(other)
    return sum((y - x) ** 2 for x, y in zip(a, b, strict=True)) * (v * w / (v + w))


def reference_merge(points, weights, labels, strata, limits, column, ordered):
    """Return the labels after all rounds, and whether all cells then meet the limits."""
    cells = {
        cell: [row for row, label in enumerate(labels) if label == cell]
        for cell in sorted(set(labels))
    }
    while True:
        cells = dict(enumerate(cells.values()))
        where = {cell: strata[rows[0]] for cell, rows in cells.items()}
        alone = {cell for cell in cells if list(where.values()).count(where[cell]) == 1}
        failing = failing_cells(cells, alone, limits, column, ordered)
        proposals = []
        for cell in failing - alone:
            others = [
                (
                    ward(points, weights, cells[cell], cells[other]),
                    (other - cell - 1) % len(cells),
                    other,
                )
                for other in cells
                if other != cell and where[other] == where[cell]
            ]
            cost, _, other = min(others)
            proposals.append((cost, cell, other))
        if not proposals:
            actual = [
                next(cell for cell, rows in cells.items() if row in rows)
                for row in range(len(labels))
            ]
            return actual, not failing and not failing_cells(cells, set(), limits, column, ordered)
        taken = set()
        for _, cell, other in sorted(proposals):
            if not {cell, other} & taken:
                taken |= {cell, other}
                cells[min(cell, other)] = cells[min(cell, other)] + cells.pop(max(cell, other))


@st.composite
def tasks(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 14))
    labels = np.repeat(np.arange(count), rng.integers(1, 5, count))
    strata = np.sort(rng.integers(0, draw(st.integers(1, 3)), count))
    strata = np.unique(strata, return_inverse=True)[1][labels]
    order = rng.permutation(len(labels))
    dimensions = draw(st.integers(0, 3))
    return {
        "points": rng.integers(0, draw(st.sampled_from([2, 6, 1000])), (len(labels), dimensions)),
        "weights": rng.integers(1, 9, len(labels)) if draw(st.booleans()) else None,
        "labels": labels[order],
        "strata": strata[order],
        "column": rng.integers(0, draw(st.integers(1, 6)), len(labels)).tolist(),
        "ordered": draw(st.booleans()),
    }


LIMITS = {
    "k": st.integers(1, 12),
    "prosecutor_worst": st.sampled_from([1 / 3, 0.2, 0.11]),
    "p_sensitivity": st.integers(1, 4),
    "l_diversity": st.integers(1, 4),
    "l_entropy": st.floats(1, 3.5),
    "l_recursive": st.integers(1, 4),
    "t_closeness": st.floats(0, 0.6),
    "t_kullback": st.floats(0, 1.5),
    "delta_disclosure": st.floats(0, 2.5),
    "homogeneous_classes": st.integers(0, 4),
    "homogeneous_records": st.integers(0, 9),
}
REQUIREMENTS = st.sets(st.sampled_from(sorted(LIMITS)), min_size=1, max_size=2).flatmap(
    lambda names: st.fixed_dictionaries({name: LIMITS[name] for name in sorted(names)})
)


def merge(task, limits):
    kind = "numeric" if task["ordered"] else "nominal"
    source, schema = table(pay=task["column"]), Schema(confidential=[Column("pay", kind=kind)])
    read = requirements.resolve_limits(
        requirements.check_limits(limits), source, schema, task["strata"]
    )
    weights = None if task["weights"] is None else task["weights"].astype(float)
    encoded = Encoded(np.ascontiguousarray(task["points"], dtype=float), None, weights)
    return enforce.merge_cells(read, Partition(task["labels"], k=1), encoded)


@given(tasks(), REQUIREMENTS)
def test_merging_matches_the_reference_implementation(task, limits):
    weights = (
        np.ones(len(task["labels"]), dtype=int) if task["weights"] is None else task["weights"]
    )
    arguments = (
        task["points"].tolist(),
        weights.tolist(),
        task["labels"].tolist(),
        task["strata"].tolist(),
    )
    labels, met = reference_merge(*arguments, limits, task["column"], task["ordered"])
    if met:
        actual = merge(task, limits).partition
        assert actual.labels.tolist() == labels
        assert (actual.labels == task["labels"]).all() == (len(actual) == task["labels"].max() + 1)
    else:
        with raises(mc.RequirementError, "guarantee.requirement_not_met"):
            merge(task, limits)


def test_equal_cells_are_merged_in_a_few_rounds():
    labels = np.repeat(np.arange(1000), 2)
    task = {"points": np.ones((2000, 2)), "weights": None, "labels": labels, "strata": 0 * labels}
    actual = merge({**task, "column": [0] * 2000, "ordered": True}, {"k": 8})
    assert actual.rounds == 2
    assert set(actual.partition.sizes) == {8}


@pytest.mark.parametrize(
    ("scale", "weight"), [(1e150, 1.0), (1e-150, 1.0), (1.0, 1e200), (1.0, 1e-200)]
)
def test_the_scale_of_points_and_weights_does_not_matter(scale, weight):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 3)
    task = {
        "labels": labels,
        "strata": 0 * labels,
        "column": rng.integers(0, 3, 120).tolist(),
        "ordered": False,
    }
    points, weights = rng.normal(size=(120, 3)), rng.integers(1, 5, 120)
    plain = merge({**task, "points": points, "weights": weights}, {"l_diversity": 3})
    scaled = merge(
        {**task, "points": points * scale, "weights": weights * weight}, {"l_diversity": 3}
    )
    assert (plain.partition.labels == scaled.partition.labels).all()
    assert len(plain.partition) < 40


# ----------------------------------------------------------------------------------------- kernel


@pytest.mark.parametrize("spread", [1.0, 1e-9, 0.0])
@pytest.mark.parametrize(
    ("cells", "dimensions", "groups"), [(1, 2, 1), (40, 0, 2), (900, 1, 3), (1500, 7, 2)]
)
def test_the_cheapest_neighbour_matches_a_full_scan(spread, cells, dimensions, groups):
    rng = np.random.default_rng(cells)
    points = 0.7 + spread * rng.normal(size=(cells, dimensions))
    points[::7] = points[0]
    masses, where = rng.choice([2.0, 3.0, 500.0], cells), rng.integers(0, groups, cells)
    asking = rng.permutation(cells)[: cells // 2 + 1]
    partners, costs = np.empty(len(asking), dtype=np.int64), np.empty(len(asking))
    find_cheapest(lay_out_cells(points, masses, where), asking, partners, costs)
    for cell, partner, cost in zip(asking, partners, costs, strict=True):
        distances = np.zeros(cells)
        for j in range(dimensions):
            distances += (points[:, j] - points[cell, j]) ** 2
        expected = distances * (masses * masses[cell] / (masses + masses[cell]))
        others = np.flatnonzero((where == where[cell]) & (np.arange(cells) != cell))
        if not len(others):
            assert partner == -1
            continue
        least = expected[others].min()
        tied = others[expected[others] == least]
        assert (partner, cost) == (min(tied, key=lambda other: (other - cell - 1) % cells), least)


# --------------------------------------------------------------------------------------- releases


def people(n=120, seed=0, values=4):
    rng = np.random.default_rng(seed)
    return {
        "name": np.array([f"{SECRET}{i}" for i in range(n)], dtype=object),
        "age": rng.integers(18, 60, n),
        "bmi": np.round(rng.normal(25, 4, n), 1),
        "region": rng.choice(["north", "south"], n).astype(object),
        "weight": rng.uniform(0.5, 3, n),
        "disease": rng.choice(
            [f"{SECRET}{i}" for i in range(values)],
            n,
            p=np.arange(1, values + 1) / np.arange(1, values + 1).sum(),
        ).astype(object),
        "pay": np.round(rng.lognormal(3, 1, n)),
    }


def schema_of(*, strata=False, weight=False):
    return mc.Schema(
        identifiers=["name"],
        quasi=["age", "bmi"],
        confidential=[mc.Column("disease", kind="nominal"), "pay"],
        strata=["region"] if strata else [],
        weight="weight" if weight else None,
        rest="drop",
    )


RELEASE_LIMITS = {
    **LIMITS,
    "l_diversity.disease": st.integers(1, 4),
    "t_closeness.pay": st.floats(0.05, 0.5),
    "delta_disclosure": st.floats(0.2, 6),
    "linkage": st.just(1),
}


@given(
    st.integers(0, 10**6),
    st.integers(20, 120),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["mdav", "bisect", "vmdav"]),
    st.sets(st.sampled_from(sorted(RELEASE_LIMITS)), min_size=1, max_size=3).flatmap(
        lambda names: st.fixed_dictionaries({name: RELEASE_LIMITS[name] for name in sorted(names)})
    ),
)
def test_a_release_meets_its_requirements_or_is_rejected(seed, n, strata, weight, method, limits):
    columns, schema = people(n, seed), schema_of(strata=strata, weight=weight)
    if strata and min(Counter(columns["region"]).values()) < 2:
        return
    release, error = attempt(columns, schema, k=2, method=method, require=limits)
    if release is None:
        assert SECRET not in error
        assert "delta_disclosure" in limits or fails_as_one_cell(columns, schema, limits)
        return
    mc.audit(columns, release.table, schema).require(**limits)
    assert smallest_class(release.table, schema) >= 2
    merged = release.manifest.requirements
    assert merged.limits == limits
    plain = mc.anonymize(columns, schema, k=2, method=method)
    assert merged.cells_before == len(plain.partition)
    assert merged.cells_after == len(release.partition)
    assert merged.sse_ratio_before == plain.manifest.cells.sse_ratio
    with mock.patch.object(partitioning, "searching", return_value=None):
        by_merging, _ = attempt(columns, schema, k=2, method=method, require=limits)
    if by_merging is not None:
        loss = by_merging.manifest.cells.sse_ratio
        assert release.manifest.cells.sse_ratio <= loss * (1 + 1e-12)
    assert SECRET not in str(release.manifest.as_dict())


def attempt(*arguments, **options):
    try:
        return mc.anonymize(*arguments, **options), ""
    except mc.RequirementError as error:
        return None, str(error)


def smallest_class(released, schema):
    return min(Counter(zip(*(released[name] for name in schema.keys), strict=True)).values())


def fails_as_one_cell(columns, schema, limits):
    """Return True if the table misses a limit even with one cell per stratum."""
    flat = {**columns, "age": [0] * len(columns["age"]), "bmi": [0.0] * len(columns["age"])}
    released = {
        name: column for name, column in flat.items() if name in (*schema.keys, *schema.unchanged)
    }
    actual = mc.audit(flat, released, schema)
    return any(
        not item.met
        for item in actual.check({name: limits[name] for name in limits if name != "linkage"})
    )


def test_cells_that_meet_all_limits_are_not_merged():
    columns, limits = (
        people(),
        {"k": 3, "t_closeness": 1, "homogeneous_classes": 120, "information_loss": 1},
    )
    plain, release = (
        mc.anonymize(columns, schema_of(), k=3, require=require) for require in (None, limits)
    )
    assert (plain.partition.labels == release.partition.labels).all()
    assert plain.partition.reason == release.partition.reason
    assert plain.manifest.requirements is None
    merged = release.manifest.requirements
    assert (merged.cells_after, merged.rounds) == (len(plain.partition), 0)
    assert merged.way == enforce.AS_THEY_WERE
    assert merged.sse_ratio_before == release.manifest.cells.sse_ratio


def test_a_worked_example():
    """Four neighbours of two diagnoses form two diverse pairs; merging would join all four."""
    columns = {
        "age": [20, 21, 23, 24, 60, 61],
        "disease": ["flu", "flu", "ulcer", "ulcer", "flu", "ulcer"],
    }
    schema = mc.Schema(quasi=["age"], confidential=["disease"])
    release = mc.anonymize(columns, schema, k=2, method="mdav", require={"l_diversity": 2})
    assert release.table["age"].tolist() == [22, 23, 22, 23, 61, 61]
    met = release.manifest.requirements
    assert (met.cells_before, met.cells_after, met.rounds) == (3, 3, 0)
    assert met.way.startswith("search within the limits, from")
    assert met.way in release.partition.reason


def demands_on(codes, limits):
    """Return requirements on one confidential column with these codes."""
    column = requirements.Confidential("x", np.array(codes), ordered=False)
    strata = np.zeros(len(codes), dtype=np.int64)
    return requirements.require_of(limits, {"x": column}, strata, None)


@pytest.mark.parametrize("limit", [0.3, 1 / 3, 0.05])
def test_the_search_accepts_what_the_audit_rounds_to_the_limit(limit):
    largest = enforce.as_rule(demands_on([0, 1], {"t_closeness": limit}), 2, 2).limits[0]
    least = enforce.as_rule(demands_on([0, 1], {"l_entropy": 1 + limit}), 2, 2).limits[0]
    most = largest[rules.CLOSENESS]
    assert round(most, 12) <= round(limit, 12) < round(most + 2e-12, 12)
    fewest = least[rules.ENTROPY]
    assert round(fewest - 2e-12, 12) < round(1 + limit, 12) <= round(fewest, 12) + 1e-12
    assert np.isinf(np.delete(largest, rules.CLOSENESS)[3:]).all()
    assert (largest[:3] == 0).all()
    assert (np.delete(least, rules.ENTROPY)[:2] == 0).all()


def test_the_strictest_limit_on_distinct_values_holds():
    limits = {"l_diversity": 3, "p_sensitivity": 4, "homogeneous_records": 2}
    rule = enforce.as_rule(demands_on([0, 1, 2, 3], limits), 4, 2)
    assert rule.limits[0, rules.DISTINCT] == pytest.approx(4)
    rule = enforce.as_rule(demands_on([0, 1], {"homogeneous_records": 0}), 2, 2)
    assert rule.limits[0, rules.DISTINCT] == 2


@pytest.mark.parametrize(
    "limits, kept",
    [
        ({"homogeneous_records": 8}, {0, 1}),
        ({"homogeneous_records": 12}, {0, 1, 2}),
        ({"homogeneous_records": 6}, {0}),
        ({"homogeneous_records": 2}, set()),
        ({"homogeneous_records": 0}, set()),
        ({"homogeneous_classes": 1, "homogeneous_records": 12}, {0}),
        ({"homogeneous_records": 12, "l_diversity": 2}, set()),
        ({"l_diversity": 2}, set()),
    ],
)
def test_the_smallest_homogeneous_cells_stay_as_far_as_allowed(limits, kept):
    labels = np.repeat([0, 1, 2, 3], [3, 4, 5, 4])
    codes = [0] * 3 + [1] * 4 + [0] * 5 + [0, 1, 0, 1]
    exempt = enforce._exempt_records(demands_on(codes, limits), labels)
    assert exempt.tolist() == [label in kept for label in labels]


def test_merging_is_kept_where_it_is_better():
    """Two cells of two remain only by merging: four records of three equal diagnoses."""
    columns = {"age": [20, 21, 23, 24], "disease": ["flu", "flu", "flu", "ulcer"]}
    schema = mc.Schema(quasi=["age"], confidential=["disease"])
    release = mc.anonymize(columns, schema, k=2, method="mdav", require={"l_diversity": 2})
    assert release.table["age"].tolist() == [22] * 4
    assert (release.manifest.requirements.way, release.manifest.requirements.rounds) == (
        enforce.MERGED,
        1,
    )
    assert release.partition.reason.endswith("then merged to meet requirements")


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_records_without_a_quasi_identifier(missing):
    frame = pl.DataFrame(people(100)).with_columns(
        pl.when(pl.int_range(pl.len()) % 9 == 2).then(None).otherwise(pl.col("age")).alias("age")
    )
    limits = {"l_diversity.disease": 3, "t_closeness.disease": 0.3, "records_dropped": 11}
    release = mc.anonymize(frame, schema_of(strata=True), k=3, missing=missing, require=limits)
    mc.audit(frame, release.table, schema_of(strata=True)).require(**limits)
    with raises(mc.RequirementError, "guarantee.requirement_not_met"):
        mc.anonymize(
            frame, schema_of(strata=True), k=3, missing=missing, require={"information_loss": 0.001}
        )


def test_a_missing_confidential_value_is_a_value():
    columns = {"age": [20.0, 21.0, 60.0, 61.0], "pay": pl.Series([1, None, 1, 1], dtype=pl.Int64)}
    schema = mc.Schema(quasi=["age"], confidential=["pay"])
    release = mc.anonymize(pl.DataFrame(columns), schema, k=2, require={"l_diversity": 2})
    assert len(release.partition) == 1


def test_the_order_of_categories_matters():
    grades = ["low", "middle", "high"]
    columns = {"age": range(60), "grade": [grades[i // 20] for i in range(60)]}
    ordinal = mc.Schema(
        quasi=["age"], confidential=[mc.Column("grade", kind="ordinal", order=grades)]
    )
    nominal = mc.Schema(quasi=["age"], confidential=[mc.Column("grade", kind="nominal")])
    for schema in (ordinal, nominal):
        release = mc.anonymize(columns, schema, k=5, require={"t_closeness": 0.34})
        mc.audit(columns, release.table, schema).require(t_closeness=0.34)


def test_cells_that_publish_the_same_values_are_merged_if_their_class_misses_a_limit():
    """Each cell meets delta-disclosure, but the class of the two that publish the same does not."""
    cells = np.repeat(np.arange(4), 30)
    column = [int(row in (0, 60, 61, 90, 91)) for row in range(120)]
    limits = {"delta_disclosure": 1.0}
    schema = Schema(
        quasi=[Column("age", kind="numeric", publish="mean")],
        confidential=[Column("pay", kind="nominal")],
    )
    limits = requirements.resolve_limits(
        limits, table(age=[0] * 120, pay=column), schema, np.zeros(120, dtype=np.int64)
    )
    points = Encoded(np.ascontiguousarray(cells[:, np.newaxis].astype(float)), None)
    partition = Partition(cells, k=30)
    assert len(enforce.merge_cells(limits, partition, points).partition) == 4

    def publish(partition):
        names = np.array([7, 7, 8, 9]) if len(partition) == 4 else np.arange(len(partition))
        return table(age=names[partition.labels].tolist(), pay=column)

    actual = enforce.enforce(limits, partition, points, schema, publish)
    assert len(actual.partition) < 3
    assert not requirements.missed_limits(actual.published, schema, limits.limits)
    assert requirements.missed_limits(publish(partition), schema, limits.limits)

    unrelated = table(age=[value + 2 * (row % 2) for row, value in enumerate(column)], pay=column)
    with raises(
        mc.RequirementError, "guarantee.requirement_not_met", measures=["delta_disclosure"]
    ):
        enforce.enforce(limits, partition, points, schema, lambda _: unrelated)


def test_releases_under_different_limits_have_different_row_orders():
    first, second = (
        mc.anonymize(people(), schema_of(), k=3, require={"information_loss": limit}).row_order
        for limit in (0.9, 1.0)
    )
    assert not (first == second).all()


def test_requirements_are_verified_on_the_written_file(tmp_path, monkeypatch):
    pl.DataFrame(people()).write_csv(tmp_path / "people.csv")
    schema, limits = schema_of(), {"l_diversity.disease": 3, "t_closeness.pay": 0.4}
    release = mc.anonymize(tmp_path / "people.csv", schema, k=3, require=limits)
    output = tmp_path / "out.csv"
    mc.publish(release, output)
    actual = mc.audit(tmp_path / "people.csv", output, schema).require(**limits)
    assert actual["information_loss"] == pytest.approx(
        release.manifest.information_loss
    )  # the manifest gives the row order
    output.unlink()

    def flatten(source, path, **_):
        frame = source.native.with_columns(disease=pl.lit("x"))
        frame.write_csv(path)

    monkeypatch.setattr(api.tables, "write", flatten)
    with raises(mc.errors.TableError, "table.format_limit", column="disease"):
        mc.publish(release, output)
    assert not output.exists()


def test_merging_reports_progress():
    heard = []
    with mc.listen(lambda *report: heard.append(report)):
        mc.anonymize(people(), schema_of(), k=3, require={"k": 12})
    reports = [report[1:] for report in heard if report[0] == "merging cells"]
    assert len(reports) > 1
    assert reports[0][0] == 0
    assert reports[-1][0] == reports[-1][1] > 0


@pytest.mark.parametrize("require", [None, {}, {"information_loss": 1}])
def test_limits_that_merging_cannot_meet_do_not_merge_cells(require):
    heard = []
    with mc.listen(lambda *report: heard.append(report[0])):
        release = mc.anonymize(people(), schema_of(), k=3, require=require)
    assert "merging cells" not in heard
    assert (release.manifest.requirements is not None) is bool(require)


# --------------------------------------------------------------------------------------- rejected


def forbid_cells(monkeypatch):
    monkeypatch.setattr(
        api.partitioning, "make_grouping", lambda *_: pytest.fail("cells were formed")
    )


@pytest.mark.parametrize(
    ("require", "code", "details"),
    [
        ({"l_diversty": 3}, "option.unknown", {"measure": "l_diversty"}),
        ({"k.pay": 3}, "option.unknown", {"measure": "k.pay"}),
        ({"": 3}, "option.unknown", {"measure": ""}),
        ({3: 3}, "option.unknown", {"measure": 3}),
        ({"journalist_worst": 0.1}, "option.unknown", {"measure": "journalist_worst"}),
        ({"l_diversity": float("nan")}, "option.invalid", {"measure": "l_diversity"}),
        ({"l_diversity": float("inf")}, "option.invalid", {"measure": "l_diversity"}),
        ({"l_diversity": 10**400}, "option.invalid", {"measure": "l_diversity"}),
        ({"l_diversity": "3"}, "option.invalid", {"measure": "l_diversity"}),
        ({"l_diversity": True}, "option.invalid", {"measure": "l_diversity"}),
        ({"l_diversity": None}, "option.invalid", {"measure": "l_diversity"}),
        (["l_diversity"], "option.wrong_type", {}),
        ({"t_closeness.wage": 0.3}, "option.unknown", {"column": "wage"}),
        ({"t_closeness.age": 0.3}, "option.unknown", {"column": "age"}),
        ({"information_loss.pay": 0.3}, "option.unknown", {"column": "pay"}),
    ],
    ids=repr,
)
def test_invalid_requirements_are_rejected(monkeypatch, require, code, details):
    forbid_cells(monkeypatch)
    with raises(mc.errors.OptionError, code, option="require", **details):
        mc.anonymize(people(), schema_of(), k=3, require=require)


def test_a_similar_measure_is_suggested():
    with raises(mc.errors.OptionError, "option.unknown") as caught:
        requirements.check_limits({"l_diversty": 3})
    assert "Did you mean 'l_diversity'?" in str(caught.value)


def test_a_requirement_on_confidential_columns_needs_one(monkeypatch):
    forbid_cells(monkeypatch)
    with raises(mc.errors.OptionError, "option.unsupported", measure="l_entropy"):
        mc.anonymize(people(), mc.Schema(quasi=["age"], rest="drop"), k=3, require={"l_entropy": 2})


@pytest.mark.parametrize(
    "require",
    [
        {"l_diversity.disease": 5},
        {"l_diversity": 5},
        {"k": 121},
        {"prosecutor_worst": 0},
        {"t_closeness": -0.1},
        {"homogeneous_records": -1},
    ],
    ids=repr,
)
def test_impossible_requirements_are_rejected_before_cells_are_formed(monkeypatch, require):
    forbid_cells(monkeypatch)
    with raises(
        mc.RequirementError, "guarantee.requirement_not_met", measures=[*require]
    ) as caught:
        mc.anonymize(people(), schema_of(), k=3, require=require)
    assert SECRET not in str(caught.value)
    assert str(caught.value).endswith("Nothing was released.")


def test_the_message_of_an_impossible_requirement():
    with raises(
        mc.RequirementError, "guarantee.requirement_not_met", measures=["l_diversity.disease"]
    ) as caught:
        mc.anonymize(people(), schema_of(), k=3, require={"l_diversity.disease": 5})
    assert str(caught.value) == (
        "l_diversity.disease cannot be met: it is 4 for disease even if the whole table is one "
        "cell, required at least 5. 120 records in 1 cell stand in the way. The nearest limit that "
        "can be met is l_diversity.disease = 4, at an information loss of at most 100 %. Relax the "
        "limit. Nothing was released."
    )


def test_strata_that_differ_too_much_from_the_table_cannot_be_fixed(monkeypatch):
    columns = {
        "age": range(40),
        "region": [SECRET] * 20 + ["b"] * 20,
        "disease": ["x"] * 20 + ["y"] * 20,
    }
    schema = mc.Schema(quasi=["age"], strata=["region"], confidential=["disease"])
    forbid_cells(monkeypatch)
    for name, limit in (("t_closeness", 0.3), ("l_diversity", 2), ("homogeneous_classes", 1)):
        with raises(
            mc.RequirementError, "guarantee.requirement_not_met", measures=[name]
        ) as caught:
            mc.anonymize(columns, schema, k=5, require={name: limit})
        assert "each of the 2 strata is one cell" in str(caught.value)
        assert SECRET not in str(caught.value)
    monkeypatch.undo()
    with raises(
        mc.RequirementError, "guarantee.requirement_not_met", measures=["delta_disclosure"]
    ):
        mc.anonymize(columns, schema, k=5, require={"delta_disclosure": 0.5})
    release = mc.anonymize(columns, schema, k=5, require={"homogeneous_classes": 5})
    assert len(release.partition) == 5


def test_cells_as_a_function_cannot_be_combined_with_merging(monkeypatch):
    monkeypatch.setattr(api.tables, "read", lambda *_: pytest.fail("the table was read"))
    for cells in (True, "balls", "lookup"):
        with raises(
            mc.errors.OptionError, "option.conflict", option="cells", measure="l_diversity"
        ):
            mc.anonymize(
                people(),
                schema_of(),
                k=3,
                cells=cells,
                require={"information_loss": 1, "l_diversity": 2},
            )
    monkeypatch.undo()
    release = mc.anonymize(people(), schema_of(), k=3, cells=True, require={"information_loss": 1})
    assert release.cells is not None


def test_every_measure_of_an_audit_can_be_required():
    columns, schema = people(), schema_of(strata=True)
    release = mc.anonymize(columns, schema, k=3)
    measures = mc.audit(columns, release.table, schema).measures
    for name, measure in measures.items():
        assert lower_is_better(name) is measure.lower_is_better, name
    assert {base_name(name) for name in measures} == set(requirable())
    enforceable = {name for name, item in requirable().items() if item.enforceable}
    assert {"k", "l_diversity", "t_closeness"} < enforceable < set(requirable())
    again = mc.anonymize(
        columns, schema, k=3, require={name: measure.value for name, measure in measures.items()}
    )
    assert (again.partition.labels == release.partition.labels).all()
