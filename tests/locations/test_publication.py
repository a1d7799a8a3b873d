"""Publications: places, bands, aliases, small and large cells, remote devices."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.locations.clustering import EARTH_RADIUS, cluster, great_circle, to_points
from microcell.locations.publication import (
    GRID,
    lower_band,
    next_band,
    radius_band,
    snap,
)
from microcell.locations.vault import grid_offsets
from tests.locations.serving import open_anonymizer, scatter, sign_up, where


@pytest.fixture
def service():
    opened = open_anonymizer(k=5, colluders=1, reach=100.0, spare=0.1)
    yield opened
    opened.close()


def aliases(service, accounts):
    return [service.look_up(account.pseudonym, account.token).alias for account in accounts]


def cancel(service, account):
    service.cancel(account.pseudonym, account.token)


# -------------------------------------------------------------------------------- bands and grids


@given(st.floats(0.0, 20_000.0))
def test_radius_bands(radius):
    band = radius_band(radius)
    assert band >= radius * (1 - 1e-9)
    assert band <= max(0.01, 2 * radius)
    assert radius_band(band) == band


@given(st.integers(2, 1000), st.integers(0, 100_000))
def test_size_bands(k, size):
    lower = lower_band(size, k)
    if size < k:
        assert lower == 0
        return
    assert k <= lower <= size < next_band(lower, k)
    assert size < 2.1 * lower


@given(st.floats(-90, 90), st.floats(-180, 180), st.floats(0.01, 500), st.integers(1, 10**6))
def test_a_place_is_near_its_mean_and_on_the_sphere(latitude, longitude, radius, build):
    mean = to_points(np.array([latitude]), np.array([longitude]))
    place = snap(mean[0], radius, grid_offsets(b"secret", build))
    assert np.linalg.norm(place) == pytest.approx(EARTH_RADIUS)
    assert great_circle(mean, place[np.newaxis])[0] <= GRID * radius


def test_offsets_depend_on_the_key_and_the_build():
    offsets = {tuple(grid_offsets(key, n)) for key in (b"a", b"b") for n in range(50)}
    assert len(offsets) == 100
    values = np.array(sorted(offsets)).ravel()
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.1


# -------------------------------------------------------------------------------- defects of before


def test_the_list_is_one_publication(service):
    """Cells and totals belong together at every moment, whatever devices do in between."""
    accounts = sign_up(service, scatter(60))
    view = service.overview()
    assert view is service.published()[0]
    service.sign_up_many(*np.array(scatter(20, seed=1)).T)
    cancel(service, accounts[0])
    assert service.overview() is view
    assert len(view.cells) == len(service.published()[1])


def test_a_spare_leaves_room_for_cancellations_with_a_small_k():
    points = to_points(*np.array(scatter(90)).T)
    clustering, labels = cluster(points, 5, spare=0.01)
    assert len(clustering) == 15
    assert np.bincount(labels).min() == 6


def test_cancellations_do_not_cause_merges_or_rebuilds(service):
    accounts = sign_up(service, scatter(200))
    rng = np.random.default_rng(0)
    for day in range(6):
        for _ in range(8):
            cancel(service, accounts.pop(int(rng.integers(len(accounts)))))
        accounts += sign_up(service, scatter(8, seed=10 + day))
    assert service.status().rebuilds == 1
    assert service.status().merges <= 2


def test_a_remote_device_waits_and_drags_nobody_away(service):
    accounts = sign_up(service, [*scatter(40), (-33.9, 151.2)])
    assert where(service, accounts[-1]) is None
    homes = to_points(*np.array(scatter(40)).T)
    places = to_points(
        *np.array([[a.location.latitude, a.location.longitude] for a in accounts[:-1]]).T
    )
    assert great_circle(homes, places).max() < 50
    late = service.sign_up(-33.8, 151.1)
    assert late.location is None
    sign_up(service, [(-33.9 + n / 100, 151.2) for n in range(6)])
    assert where(service, late) is not None  # by now there are enough of them
    assert where(service, accounts[-1]) == where(service, late)
    assert where(service, accounts[0]) == accounts[0].location


def test_waiting_devices_are_reported(service):
    sign_up(service, [*scatter(40), *([(-33.9, 151.2)] * 5), (60.0, -100.0), (10.0, 80.0)])
    assert service.status().waiting == 7
    assert "many_waiting" in [alarm.code for alarm in service.status().alarms]


# -------------------------------------------------------------------------------- cells that stand


def test_cells_stand_while_devices_change(service):
    accounts = sign_up(service, scatter(120))
    places = {cell.place for cell in service.overview().cells}
    for day in range(4):
        for account in accounts[day * 5 : day * 5 + 5]:
            cancel(service, account)
        sign_up(service, scatter(5, seed=day + 1))
        assert {cell.place for cell in service.overview().cells} <= places
        assert service.status().smallest_cell >= 6
        assert service.status().k_over_history >= 6


def test_a_cell_that_grows_is_divided(service):
    sign_up(service, scatter(12))
    before = service.status().cells
    sign_up(service, scatter(90, seed=1))
    assert service.status().cells > before
    assert service.status().smallest_cell >= 6


def test_too_few_changes_wait(service):
    accounts = sign_up(service, scatter(60))
    generation = service.overview().generation
    for number in range(5):
        service.sign_up(*scatter(5, seed=2)[number])
        assert not service.publish()
    assert service.overview().generation == generation
    assert "publication_deferred" in [alarm.code for alarm in service.status().alarms]
    cancel(service, accounts[0])
    assert service.publish()
    assert service.overview().generation == generation + 1


def test_a_device_counts_once_however_often_it_moves(service):
    accounts = sign_up(service, scatter(60))
    for number in range(20):
        service.move(accounts[0].pseudonym, accounts[0].token, 41.0 + number / 100, 2.0)
    assert service.status().pending == 1
    assert not service.publish()


def test_a_device_that_signs_up_and_cancels_counts_not_at_all(service):
    sign_up(service, scatter(60))
    for _ in range(20):
        cancel(service, service.sign_up(41.4, 2.2))
    assert not service.publish()
    assert service.status().alarms == ()


def test_a_rebuild_that_would_give_devices_away_is_postponed(service):
    accounts = sign_up(service, scatter(100))
    places = [cell.place for cell in service.overview().cells]
    sign_up(service, scatter(6, seed=1))
    service.rebuild()
    service.publish()
    status = service.status()
    assert status.rebuilds == 1
    assert status.rebuild_requested
    assert "rebuild_postponed" in [alarm.code for alarm in status.alarms]
    assert [cell.place for cell in service.overview().cells] == places
    service.sign_up_many(*np.array(scatter(300, seed=2)).T)
    for account in accounts:  # nobody of the first publication is left
        cancel(service, account)
    assert service.publish()
    assert service.status().rebuilds == 2


# -------------------------------------------------------------------------------- aliases


def test_an_alias_stays_while_nobody_joins_its_cell(service):
    accounts = sign_up(service, [*scatter(12), *(np.array(scatter(8)) + 0.7).tolist()])
    before = aliases(service, accounts)
    sign_up(service, (np.array(scatter(7, seed=3)) + 0.7).tolist())
    after = aliases(service, accounts)
    same = [one == other for one, other in zip(before, after, strict=True)]
    renewed = {account.location for account, kept in zip(accounts, same, strict=True) if not kept}
    assert any(same)
    assert all(same[i] for i, a in enumerate(accounts) if a.location not in renewed)


def test_enough_newcomers_leave_the_others_their_aliases(service):
    accounts = sign_up(service, scatter(8))
    before = aliases(service, accounts)
    newcomers = sign_up(service, scatter(3, seed=4))
    assert not set(before) & {*aliases(service, newcomers)}
    many = open_anonymizer(k=5, colluders=0, spare=1.0)
    first = sign_up(many, scatter(14))
    before = aliases(many, first)
    sign_up(many, scatter(5, seed=4))
    assert aliases(many, first) == before
    assert many.status().k_over_history == 5
    many.close()


def test_aliases_do_not_outlive_the_window():
    service = open_anonymizer(k=3, window=2, spare=1.0)
    accounts = sign_up(service, scatter(6))
    others = []
    seen = [aliases(service, accounts)]
    for day in range(4):
        for account in others:
            cancel(service, account)
        others = sign_up(service, scatter(3, seed=day + 1))
        seen.append(aliases(service, accounts))
    changes = [one != other for one, other in pairwise(seen)]
    assert changes == [False, True, False, True]
    service.close()


def test_sign_ups_can_be_held_until_the_next_publication():
    service = open_anonymizer(k=3, hold=True)
    sign_up(service, scatter(12))
    late = service.sign_up(41.4, 2.2)
    assert late.location is None
    sign_up(service, scatter(3, seed=1))
    assert where(service, late) is not None
    service.close()


def test_histories_are_shared_by_k_over_many_days(service):
    """An observer of all aliases, who also knows when each appeared, finds k of every kind."""
    accounts = sign_up(service, scatter(150))
    rng = np.random.default_rng(1)
    histories = {}
    for day in range(8):
        for _ in range(6):
            cancel(service, accounts.pop(int(rng.integers(len(accounts)))))
            mover = accounts[int(rng.integers(len(accounts)))]
            service.move(mover.pseudonym, mover.token, *scatter(1, seed=int(rng.integers(1e6)))[0])
        accounts += sign_up(service, scatter(6, seed=100 + day))
        seen = {}
        for account in accounts:
            answer = service.look_up(account.pseudonym, account.token)
            seen[answer.alias] = (*histories.get(answer.alias, (day,)), answer.location)
        histories = seen
        sizes = Counter(histories.values())
        assert min(sizes.values()) >= 6
        assert service.status().k_over_history == min(sizes.values())
