"""k counts persons: every registered method, alone and with strata, weights and requirements."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import GuaranteeError, OptionError, TooFewRecordsError
from microcell.methods import METHODS
from microcell.model import Partition
from tests.raising import raises
from tests.reference import oracles

NAMES = [*METHODS, "auto"]


def persons_of_rows(rng, n, most):
    """Return a person for each of about ``n`` rows, with 1 to ``most`` rows each."""
    counts = rng.integers(1, most + 1, size=n)
    return rng.permutation(np.repeat(np.arange(n), counts)[:n])


def people_per_group(groups, persons):
    """Count distinct persons by plain sets."""
    members = {}
    for group, person in zip(list(groups), list(persons), strict=True):
        members.setdefault(group, set()).add(person)
    return [len(each) for each in members.values()]


def points_for(name, rng, persons, m=2):
    """Return points of which those of one person are near each other, as visits are."""
    m = 1 if name in METHODS and METHODS[name].dimensions == "1" else m
    homes = rng.normal(size=(int(persons.max()) + 1, m))
    return homes[persons] + 0.2 * rng.normal(size=(len(persons), m))


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.mark.parametrize("most", [1, 3, 12])
@pytest.mark.parametrize("together", [False, True])
def test_every_cell_has_k_distinct_persons(name, most, together):
    rng = np.random.default_rng(most)
    for k, n in ((2, 30), (5, 90)):
        persons = persons_of_rows(rng, n, most)
        points = points_for(name, rng, persons)
        for weights, refine in ((None, False), (rng.uniform(0.5, 2, n), True)):
            cells = mc.partition(
                points,
                k,
                method=name,
                persons=persons,
                together=together,
                weights=weights,
                refine=refine,
            )
            assert min(people_per_group(cells.labels, persons)) >= k
            assert len(cells.labels) == n
            if together:
                assert max(people_per_group(persons, cells.labels)) == 1
            np.testing.assert_array_equal(
                sorted(cells.people), sorted(people_per_group(cells.labels, persons))
            )


def test_one_row_per_person_changes_nothing(name):
    rng = np.random.default_rng(5)
    points = points_for(name, rng, np.arange(60))
    plain = mc.partition(points, 4, method=name)
    for together in (False, True):
        cells = mc.partition(points, 4, method=name, persons=rng.permutation(60), together=together)
        assert cells.sizes.min() >= 4
        loss = mc.distortion(points, plain.labels)
        assert mc.distortion(points, cells.labels) <= 1.15 * loss


def test_labels_are_reproducible(name):
    rng = np.random.default_rng(9)
    persons = persons_of_rows(rng, 80, 4)
    points = points_for(name, rng, persons)
    first, second = (mc.partition(points, 3, method=name, persons=persons) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)


def test_too_few_persons(name):
    points = points_for(name, np.random.default_rng(0), np.arange(20))
    persons = np.arange(20) % 4
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=5, records=4, unit="persons"):
        mc.partition(points, 5, method=name, persons=persons)
    cells = mc.partition(points, 4, method=name, persons=persons)
    assert min(people_per_group(cells.labels, persons)) >= 4


@pytest.mark.parametrize(
    "strata, weight, require",
    [
        ((), None, None),
        (("region",), "w", None),
        ((), "w", {"l_diversity": 2}),
        (("region",), None, {"l_diversity": 2}),
        (("region",), "w", {"t_closeness": 0.4}),
    ],
)
def test_every_published_class_has_k_persons(name, strata, weight, require):
    rng = np.random.default_rng(len(strata) + 2 * bool(weight))
    n, k = 120, 4
    persons = persons_of_rows(rng, n, 6)
    points = points_for(name, rng, persons)
    frame = {f"q{j}": np.round(points[:, j], 2) for j in range(points.shape[1])}
    frame |= {
        "patient": [f"P{person:04}" for person in persons],
        "region": np.where(persons % 2, "north", "south"),
        "w": rng.uniform(0.5, 2, n),
        "disease": rng.choice(["flu", "asthma", "diabetes", "cancer"], n),
    }
    schema = mc.Schema(
        quasi=[f"q{j}" for j in range(points.shape[1])],
        person="patient",
        confidential=["disease"],
        strata=strata,
        weight=weight,
        rest="drop",
    )
    for person_cells in ("rows", "together"):
        release = mc.anonymize(
            pl.DataFrame(frame),
            replace(schema, person_cells=person_cells),
            k=k,
            method=name,
            require=require,
        )
        classes = list(release.table.select([*schema.keys]).iter_rows())
        counts = people_per_group(classes, persons)
        assert min(counts) >= k
        assert sorted(release.class_sizes) == sorted(counts)
        assert "patient" not in release.table.columns


# ------------------------------------------------------------------------------------- oracles


@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 5))
def test_mdav_matches_the_plain_oracle(seed, k, most):
    rng = np.random.default_rng(seed)
    persons = persons_of_rows(rng, 40, most)
    points = rng.normal(size=(40, 2))
    if len(set(persons)) < k:
        return
    expected = oracles.mdav_of_persons(points, k, persons)
    actual = mc.partition(points, k, method="mdav", persons=persons)
    assert {tuple(np.flatnonzero(actual.labels == c)) for c in set(actual.labels)} == {
        tuple(np.flatnonzero(expected == c)) for c in set(expected)
    }


@given(st.integers(0, 10**6), st.integers(2, 3), st.integers(1, 4))
def test_univariate_is_optimal_among_runs(seed, k, most):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 12))
    persons = persons_of_rows(rng, n, most)
    if len(set(persons)) < k:
        return
    x = rng.normal(size=n)
    labels = METHODS["univariate"].function(
        x[:, None], k, weights=None, seed=0, persons=np.unique(persons, return_inverse=True)[1]
    )
    assert min(people_per_group(labels, persons)) >= k
    assert oracles.sse(x[:, None], labels) == pytest.approx(
        oracles.best_runs_of_persons(x, k, persons)
    )


def test_one_dimension_is_not_called_exact_with_persons():
    x = np.random.default_rng(0).normal(size=(40, 1))
    persons = np.arange(40) // 2
    assert "exact" in mc.partition(x, 3).reason
    assert "exact" not in mc.partition(x, 3, persons=persons).reason


def test_macrocells_have_k_persons():
    rng = np.random.default_rng(1)
    persons = persons_of_rows(rng, 400, 12)
    points = points_for("mdav", rng, persons)
    cells = mc.partition(points, 5, method="mdav", persons=persons, macrocells=20)
    assert min(people_per_group(cells.labels, persons)) >= 5


# ---------------------------------------------------------------------------------- the record


def test_a_partition_is_proof_of_k_persons():
    persons = np.array([0, 0, 1, 1])
    with raises(GuaranteeError, "guarantee.failed", k=2, smallest=1, cells=2):
        Partition([0, 0, 1, 1], k=2, persons=persons)
    assert Partition([0, 1, 0, 1], k=2, persons=persons).people.tolist() == [2, 2]


@pytest.mark.parametrize("persons", [[1, 2], [1.0, float("nan"), 2.0], ["a", None, "b"]])
def test_persons_that_cannot_be_used(persons):
    with raises(OptionError, "option.invalid", option="persons"):
        mc.partition(np.eye(3), 2, persons=persons)
