"""What-if scenarios: exact for small populations, close for samples, and confidential."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import DataError, OptionError, TooFewRecordsError
from microcell.locations import scenarios
from microcell.locations.clustering import to_points
from microcell.locations.scenarios import what_if
from microcell.methods import pcl
from tests.raising import raises


def scatter(count, *, seed=0, kilometres=10.0, latitude=48.0, longitude=11.0):
    rng = np.random.default_rng(seed)
    north, east = rng.normal(size=(2, count)) * kilometres / 111.195
    return to_points(latitude + north, longitude + east / math.cos(math.radians(latitude)))


def plain_distances(points, labels):
    """Great-circle distances to the cell means, computed naively."""
    out = []
    for cell in range(max(labels) + 1):
        members = [point for point, label in zip(points, labels, strict=True) if label == cell]
        middle = sum(members) / len(members)
        middle = middle / math.sqrt(middle @ middle)
        out += [
            6371.0088 * math.acos(min(1.0, float(point @ middle) / math.sqrt(point @ point)))
            for point in members
        ]
    return sorted(out)


def check_histogram(result, count):
    assert sum(result.counts) == count
    assert len(result.edges) == len(result.counts) + 1
    assert result.edges[0] == 0.0
    assert all(a < b for a, b in zip(result.edges[:-1], result.edges[1:], strict=True))
    assert len(result.counts) == 1 or min(result.counts) >= result.k


def test_small_populations_are_measured_exactly():
    points = scatter(600)
    result = what_if(points, 20)
    distances = plain_distances(points, pcl(points, 20, shakes=0).labels)
    assert result.cells == 30
    assert result.mean == pytest.approx(sum(distances) / 600, abs=1e-4)
    assert result.root_mean_square == pytest.approx(
        math.sqrt(sum(d * d for d in distances) / 600), abs=1e-4
    )
    quantiles = dict(result.quantiles)
    assert quantiles[0.5] == pytest.approx(sum(distances[290:310]) / 20, abs=1e-4)
    assert quantiles[0.99] == pytest.approx(sum(distances[580:]) / 20, abs=1e-4)
    check_histogram(result, 600)
    for low, high, count in zip(
        result.edges[:-2], result.edges[1:-1], result.counts[:-1], strict=False
    ):
        assert sum(low <= d < high for d in distances) == count


def test_a_sample_is_close_to_the_exact_result(monkeypatch):
    monkeypatch.setattr(scenarios, "_UNSAMPLED", 1000)
    points = scatter(3000)
    truth = plain_distances(points, pcl(points, 100, adjust="newton", shakes=0).labels)
    result = what_if(points, 100)
    assert result.mean == pytest.approx(np.mean(truth), rel=0.08)
    assert dict(result.quantiles)[0.5] == pytest.approx(np.median(truth), rel=0.1)
    check_histogram(result, 3000)


def test_regions_are_close_to_the_exact_result(monkeypatch):
    """In a uniform square all regions are alike, so a few represent all."""
    rng = np.random.default_rng(0)
    points = to_points(rng.uniform(0, 1, 3000), rng.uniform(0, 1, 3000))
    everything = what_if(points, 5, seed=1)
    monkeypatch.setattr(scenarios, "_MAX_CELLS", 100)
    monkeypatch.setattr(scenarios, "_MAX_REGIONS", 8)
    some = what_if(points, 5, seed=1)
    assert some.mean == pytest.approx(everything.mean, rel=0.08)
    assert some.cells == everything.cells == 600
    check_histogram(some, 3000)


def test_distances_grow_with_k():
    points = scatter(600)
    means = [what_if(points, k).mean for k in (2, 10, 50, 300)]
    assert means == sorted(means)


def test_no_figure_describes_a_single_device():
    """No figure and no edge reveals the distance of a single remote device."""
    points = np.concatenate([scatter(199, kilometres=1.0), scatter(1, latitude=49.0)])
    result = what_if(points, 20)
    far = plain_distances(points, pcl(points, 20, shakes=0).labels)[-1]
    assert far > 50
    assert all(
        abs(figure - far) > 10 for figure in (*result.edges, *dict(result.quantiles).values())
    )


def test_all_devices_at_one_location():
    result = what_if(np.repeat(scatter(1), 100, axis=0), 10)
    assert result.mean < 1e-6
    assert result.counts == (100,)
    assert result.edges == (0.0, 0.001)


def test_devices_all_around_the_earth():
    points = to_points(np.zeros(4), np.array([0.0, 90.0, 180.0, -90.0]))
    result = what_if(points, 4)
    assert result.cells == 1
    assert 0 < result.mean < math.pi * 6371.01
    check_histogram(result, 4)


def test_antimeridian_and_pole():
    here = what_if(scatter(500, latitude=0.0, longitude=0.0), 25)
    there = what_if(scatter(500, latitude=0.0, longitude=180.0), 25)
    assert there.mean == pytest.approx(here.mean, rel=1e-6)
    turned = scatter(500, latitude=0.0, longitude=0.0)[:, [2, 1, 0]]  # about the pole
    assert what_if(turned, 25).mean == pytest.approx(here.mean, rel=0.05)


def test_the_same_seed_gives_the_same_result(monkeypatch):
    monkeypatch.setattr(scenarios, "_UNSAMPLED", 500)
    points = scatter(1000)
    assert what_if(points, 100, seed=3) == what_if(points, 100, seed=3)
    assert what_if(points, 100, seed=3) != what_if(points, 100, seed=4)


@pytest.mark.parametrize(
    ("points", "k", "error", "code"),
    [
        (scatter(10), 11, TooFewRecordsError, "guarantee.too_few_records"),
        (scatter(10), 1, OptionError, "option.out_of_range"),
        (scatter(10), 2.5, OptionError, "option.wrong_type"),
        (scatter(10), True, OptionError, "option.wrong_type"),
        (np.full((10, 3), np.nan), 2, DataError, "data.not_finite"),
        (np.full((10, 3), np.inf), 2, DataError, "data.not_finite"),
        (scatter(10)[:, :2], 2, DataError, "data.not_finite"),
        (np.empty((0, 3)), 2, TooFewRecordsError, "guarantee.too_few_records"),
    ],
)
def test_invalid_arguments_are_rejected_without_showing_values(points, k, error, code):
    with raises(error, code) as caught:
        what_if(points, k)
    assert "6371" not in str(caught.value)


@given(
    count=st.integers(2, 60),
    k=st.integers(2, 60),
    scale=st.sampled_from([1e-7, 1.0, 3000.0]),
    seed=st.integers(0, 99),
)
def test_histograms_count_every_device(count, k, scale, seed):
    points = scatter(count, seed=seed, kilometres=scale)
    if k > count:
        with raises(TooFewRecordsError, "guarantee.too_few_records"):
            what_if(points, k)
        return
    result = what_if(points, k)
    check_histogram(result, count)
    values = [km for _, km in result.quantiles]
    assert values == sorted(values)
    assert all(0 <= value <= 20_016 for value in (*values, result.mean, result.root_mean_square))
    assert result.root_mean_square >= result.mean * (1 - 1e-9)
