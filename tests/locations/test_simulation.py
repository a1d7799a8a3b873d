"""The simulated city: plausible, reproducible and correctly summarized."""

import dataclasses
import itertools

import numpy as np
import pytest

import microcell as mc
from microcell.errors import GuaranteeError, OptionError, ServiceError
from microcell.locations import Client, make_city, simulate, simulation
from microcell.locations.clustering import great_circle, to_points
from microcell.locations.records import Place
from tests.locations.serving import OPERATOR, make_app, open_anonymizer, running
from tests.raising import raises


@pytest.fixture
def anonymizer():
    opened = open_anonymizer(k=10, share=0.2)
    yield opened
    opened.close()


def kilometres_from_centre(latitude, longitude):
    points = to_points(latitude, longitude)
    centre = to_points(np.array([simulation.CENTRE[0]]), np.array([simulation.CENTRE[1]]))
    return great_circle(points, np.repeat(centre, len(points), axis=0))


def test_the_city_has_a_dense_centre_and_suburbs():
    distance = kilometres_from_centre(*make_city(20_000))
    assert 0.35 < np.mean(distance < 4) < 0.6
    assert np.mean((distance > 4) & (distance < 30)) > 0.35
    assert distance.max() < 40
    within, ring = np.mean(distance < 2) / 4, np.mean((distance > 20) & (distance < 22)) / 84
    assert within > 20 * ring  # people per square kilometre


def test_the_same_seed_gives_the_same_city():
    assert np.array_equal(make_city(50, seed=4), make_city(50, seed=4))
    assert not np.array_equal(make_city(50, seed=4), make_city(50, seed=5))
    assert make_city(0)[0].shape == (0,)


def test_the_result_matches_the_service(anonymizer):
    result = simulate(anonymizer, 300, days=2, changes=0.3, seed=1)
    status, view = anonymizer.status(), anonymizer.overview()
    assert (result.sign_ups, result.moves, result.cancellations) == (360, 60, 60)
    assert (status.sign_ups, status.moves, status.cancellations) == (360, 60, 60)
    assert result.devices == status.devices == 300
    assert (result.cells, result.smallest_cell) == (len(view.cells), view.smallest_cell)
    assert result.smallest_shared >= result.k == 10
    assert result.smallest_history >= 10
    assert (result.rebuilds, result.merges) == (status.rebuilds, status.merges)
    assert 0 < result.mean <= result.root_mean_square
    assert result.distortion_ratio == pytest.approx(
        (result.root_mean_square / result.mdav_root_mean_square) ** 2
    )


def test_distances_are_those_of_the_devices(anonymizer, monkeypatch):
    """Compare with distances computed naively from the recorded requests."""
    homes = {}
    real_many, real_cancel, real_move, real_up = (
        anonymizer.sign_up_many, anonymizer.cancel, anonymizer.move, anonymizer.sign_up,
    )  # fmt: skip

    def many(latitudes, longitudes):
        accounts = real_many(latitudes, longitudes)
        homes.update(
            {
                a.pseudonym: (a, p)
                for a, p in zip(accounts, np.stack([latitudes, longitudes], axis=1), strict=True)
            }
        )
        return accounts

    def up(latitude, longitude):
        account = real_up(latitude, longitude)
        homes[account.pseudonym] = (account, (latitude, longitude))
        return account

    def move(pseudonym, token, latitude, longitude):
        homes[pseudonym] = (homes[pseudonym][0], (latitude, longitude))
        return real_move(pseudonym, token, latitude, longitude)

    def cancel(pseudonym, token):
        del homes[pseudonym]
        real_cancel(pseudonym, token)

    for name, work in (("sign_up_many", many), ("sign_up", up), ("move", move), ("cancel", cancel)):
        monkeypatch.setattr(anonymizer, name, work)
    result = simulate(anonymizer, 100, days=1, changes=0.3, seed=2, compare=False)
    distances = []
    for account, home in homes.values():
        place = anonymizer.look_up(account.pseudonym, account.token).location
        a, b = np.radians(home[0]), np.radians(place.latitude)
        turn = np.radians(home[1] - place.longitude)
        half = np.sin((a - b) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(turn / 2) ** 2  # haversine
        distances.append(2 * 6371.0088 * np.arcsin(np.sqrt(half)))
    assert result.devices == len(homes)
    assert result.mean == pytest.approx(np.mean(distances), rel=1e-6)
    assert result.root_mean_square == pytest.approx(
        np.sqrt(np.mean(np.square(distances))), rel=1e-6
    )
    assert result.mdav_mean is None


def test_mdav_distances_match_the_library(anonymizer):
    points = to_points(*make_city(200))
    labels = mc.partition(points, 10, method="mdav").labels
    expected = np.empty(200)
    for cell in np.unique(labels):
        mean = points[labels == cell].mean(axis=0)
        expected[labels == cell] = np.linalg.norm(points[labels == cell] - mean, axis=1)
    assert simulation.mdav_distances(points, 10) == pytest.approx(expected, rel=1e-3)


def test_too_few_devices_wait(anonymizer):
    result = simulate(anonymizer, 5, days=1, changes=0.0)
    assert (result.cells, result.smallest_cell, result.smallest_shared, result.mean) == (
        0,
        None,
        None,
        None,
    )
    assert result.distortion_ratio is None


def test_all_devices_may_cancel(anonymizer):
    result = simulate(anonymizer, 3, days=4, changes=1.0)
    assert result.devices >= 0
    assert result.sign_ups - result.cancellations == result.devices


def test_a_location_shared_by_fewer_than_k_raises(anonymizer, monkeypatch):
    real, numbers = anonymizer.look_up, itertools.count()

    def look_up(*words):
        wrong = {"location": Place(1.0, 2.0)} if next(numbers) == 60 else {}
        return dataclasses.replace(real(*words), **wrong)

    monkeypatch.setattr(anonymizer, "look_up", look_up)
    with raises(GuaranteeError, "guarantee.failed", k=10):
        simulate(anonymizer, 50, days=0)


def let_the_clock_strike(client, service, monkeypatch):
    """Publish when the simulation starts to wait, so that nothing depends on time."""
    timeline = client.timeline

    def strike():
        service.publish()
        return timeline()

    monkeypatch.setattr(client, "timeline", strike)


def test_a_remote_service_gives_the_same_city(monkeypatch):
    inside = open_anonymizer(k=10, share=0.2)
    outside = open_anonymizer(k=10, share=0.2)
    try:
        expected = simulate(inside, 120, days=1, changes=0.3, seed=3)
        with running(make_app(outside)) as url, Client(url, operator=OPERATOR) as client:
            let_the_clock_strike(client, outside, monkeypatch)
            result = simulate(client, 120, days=1, changes=0.3, seed=3)
        for name in ("k", "devices", "sign_ups", "moves", "cancellations", "mdav_mean", "cells"):
            assert getattr(result, name) == getattr(expected, name), name
        assert result.smallest_shared >= 10
        assert result.rebuilds == outside.status().rebuilds == expected.rebuilds
    finally:
        inside.close()
        outside.close()


def test_without_the_operator_token_some_figures_are_missing(monkeypatch):
    outside = open_anonymizer(k=10)
    try:
        with running(make_app(outside)) as url, Client(url) as client:
            let_the_clock_strike(client, outside, monkeypatch)
            result = simulate(client, 30, days=0)
        assert result.cells == 3
        assert (result.rebuilds, result.merges) == (None, None)
        assert result.smallest_shared >= 10
    finally:
        outside.close()


@pytest.mark.parametrize(
    "wrong", [{"devices": 0}, {"days": -1}, {"changes": 1.5}, {"changes": float("nan")}]
)
def test_invalid_options_are_rejected(anonymizer, wrong):
    with raises(OptionError, "option.out_of_range", option=next(iter(wrong))):
        simulate(anonymizer, **{"devices": 5, **wrong})


def test_the_result_is_plain_data(anonymizer):
    result = simulate(anonymizer, 40, days=0)
    assert all(isinstance(value, (int, float)) for value in dataclasses.asdict(result).values())


def test_a_service_that_does_not_publish_raises(monkeypatch):
    monkeypatch.setattr(simulation, "PATIENCE", 0.1)  # and it has no clock
    outside = open_anonymizer(k=10)
    try:
        with running(make_app(outside)) as url, Client(url) as client:  # noqa: SIM117
            with raises(ServiceError, "service.unavailable"):
                simulate(client, 30, days=0)
    finally:
        outside.close()
