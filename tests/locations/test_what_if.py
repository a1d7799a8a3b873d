"""What another k would cost: true on small populations, near the truth on sampled ones, telling of no single device."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microcell.errors import DataError, MicrocellError, OptionError, TooFewRecordsError
from microcell.locations import scenarios
from microcell.locations.clustering import to_points
from microcell.locations.scenarios import what_if
from microcell.methods import pcl


def scatter(count, *, seed=0, kilometres=10.0, latitude=48.0, longitude=11.0):
    rng = np.random.default_rng(seed)
    north, east = rng.normal(size=(2, count)) * kilometres / 111.195
    return to_points(latitude + north, longitude + east / math.cos(math.radians(latitude)))


def plain_distances(points, labels):
    """Great-circle kilometres to the middles of the cells, one by one."""
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


def check_histogram(found, count):
    assert sum(found.counts) == count
    assert len(found.edges) == len(found.counts) + 1
    assert found.edges[0] == 0.0
    assert all(a < b for a, b in zip(found.edges[:-1], found.edges[1:], strict=True))
    assert len(found.counts) == 1 or min(found.counts) >= found.k


def test_small_populations_are_measured_as_they_are():
    points = scatter(600)
    found = what_if(points, 20)
    distances = plain_distances(points, pcl(points, 20, shakes=0).labels)
    assert found.cells == 30
    assert found.mean == pytest.approx(sum(distances) / 600, abs=1e-4)
    assert found.root_mean_square == pytest.approx(
        math.sqrt(sum(d * d for d in distances) / 600), abs=1e-4
    )
    quantiles = dict(found.quantiles)
    assert quantiles[0.5] == pytest.approx(sum(distances[290:310]) / 20, abs=1e-4)
    assert quantiles[0.99] == pytest.approx(sum(distances[580:]) / 20, abs=1e-4)
    check_histogram(found, 600)
    for low, high, count in zip(
        found.edges[:-2], found.edges[1:-1], found.counts[:-1], strict=False
    ):
        assert sum(low <= d < high for d in distances) == count


def test_a_sample_is_near_the_truth(monkeypatch):
    monkeypatch.setattr(scenarios, "_LARGE", 1000)
    points = scatter(3000)
    truth = plain_distances(points, pcl(points, 100, adjust="newton", shakes=0).labels)
    found = what_if(points, 100)
    assert found.mean == pytest.approx(np.mean(truth), rel=0.08)
    assert dict(found.quantiles)[0.5] == pytest.approx(np.median(truth), rel=0.1)
    check_histogram(found, 3000)


def test_regions_are_near_the_truth(monkeypatch):
    """An even square: all regions are alike, so that few of them tell of all."""
    rng = np.random.default_rng(0)
    points = to_points(rng.uniform(0, 1, 3000), rng.uniform(0, 1, 3000))
    everything = what_if(points, 5, seed=1)
    monkeypatch.setattr(scenarios, "_CELLS", 100)
    monkeypatch.setattr(scenarios, "_REGIONS", 8)
    some = what_if(points, 5, seed=1)
    assert some.mean == pytest.approx(everything.mean, rel=0.08)
    assert some.cells == everything.cells == 600
    check_histogram(some, 3000)


def test_distances_grow_with_k():
    points = scatter(600)
    means = [what_if(points, k).mean for k in (2, 10, 50, 300)]
    assert means == sorted(means)


def test_no_figure_is_that_of_a_single_device():
    """One device far away: no figure and no edge shows how far."""
    points = np.concatenate([scatter(199, kilometres=1.0), scatter(1, latitude=49.0)])
    found = what_if(points, 20)
    far = plain_distances(points, pcl(points, 20, shakes=0).labels)[-1]
    assert far > 50
    assert all(abs(figure - far) > 10 for figure in (*found.edges, *dict(found.quantiles).values()))


def test_all_at_one_spot():
    found = what_if(np.repeat(scatter(1), 100, axis=0), 10)
    assert found.mean < 1e-6
    assert found.counts == (100,)
    assert found.edges == (0.0, 0.001)


def test_devices_all_around_the_earth():
    points = to_points(np.zeros(4), np.array([0.0, 90.0, 180.0, -90.0]))
    found = what_if(points, 4)
    assert found.cells == 1
    assert 0 < found.mean < math.pi * 6371.01
    check_histogram(found, 4)


def test_across_the_antimeridian_and_a_pole_as_elsewhere():
    here = what_if(scatter(500, latitude=0.0, longitude=0.0), 25)
    there = what_if(scatter(500, latitude=0.0, longitude=180.0), 25)
    assert there.mean == pytest.approx(here.mean, rel=1e-6)
    turned = scatter(500, latitude=0.0, longitude=0.0)[:, [2, 1, 0]]  # about the pole
    assert what_if(turned, 25).mean == pytest.approx(here.mean, rel=0.05)


def test_the_same_seed_gives_the_same_answer(monkeypatch):
    monkeypatch.setattr(scenarios, "_LARGE", 500)
    points = scatter(1000)
    assert what_if(points, 100, seed=3) == what_if(points, 100, seed=3)
    assert what_if(points, 100, seed=3) != what_if(points, 100, seed=4)


@pytest.mark.parametrize(
    ("points", "k", "error"),
    [
        (scatter(10), 11, TooFewRecordsError),
        (scatter(10), 1, OptionError),
        (scatter(10), 2.5, OptionError),
        (scatter(10), True, OptionError),
        (np.full((10, 3), np.nan), 2, DataError),
        (np.full((10, 3), np.inf), 2, DataError),
        (scatter(10)[:, :2], 2, DataError),
        (np.empty((0, 3)), 2, TooFewRecordsError),
    ],
)
def test_what_makes_no_sense_is_refused_without_a_value(points, k, error):
    with pytest.raises(error) as caught:
        what_if(points, k)
    assert isinstance(caught.value, MicrocellError)
    assert "6371" not in str(caught.value)


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(2, 60),
    k=st.integers(2, 60),
    scale=st.sampled_from([1e-7, 1.0, 3000.0]),
    seed=st.integers(0, 99),
)
def test_histograms_hold_everyone(count, k, scale, seed):
    points = scatter(count, seed=seed, kilometres=scale)
    if k > count:
        with pytest.raises(TooFewRecordsError):
            what_if(points, k)
        return
    found = what_if(points, k)
    check_histogram(found, count)
    values = [km for _, km in found.quantiles]
    assert values == sorted(values)
    assert all(0 <= value <= 20_016 for value in (*values, found.mean, found.root_mean_square))
    assert found.root_mean_square >= found.mean * (1 - 1e-9)
