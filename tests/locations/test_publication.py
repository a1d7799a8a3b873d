"""Publications: places, bands, aliases, small and large cells, remote devices."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.locations import anonymizer as module
from microcell.locations.clustering import EARTH_RADIUS, cluster, great_circle, to_points
from microcell.locations.differences import Ledger
from microcell.locations.publication import (
    GRID,
    MOVED,
    SIGNED_UP,
    UNPLACED,
    Rules,
    Situation,
    Standing,
    lower_band,
    next_band,
    plan_with_secret,
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


def test_several_large_cells_are_divided_at_once(service):
    towns = [(41.4, 2.2), (48.2, 16.4), (52.5, 13.4)]
    sign_up(service, [place for town in towns for place in scatter(8, around=town)])
    assert service.status().cells == 3
    sign_up(service, [place for town in towns for place in scatter(30, seed=1, around=town)])
    assert service.status().cells >= 9


def test_a_device_is_part_of_at_most_one_published_mean(service):
    """Otherwise differences of lists would not be cuts."""
    accounts = sign_up(service, scatter(150))
    rng = np.random.default_rng(2)
    for day in range(8):
        for account in accounts[day * 12 : day * 12 + 12]:
            service.move(
                account.pseudonym, account.token, *scatter(1, seed=int(rng.integers(1e6)))[0]
            )
        sign_up(service, scatter(30, seed=200 + day))
        if day % 3 == 2:
            service.rebuild(wait=True)
        population = service._population
        history = np.abs(population.history[population.occupied()])
        standing = [build.id for build in population.ledger.standing]
        assert np.isin(history, standing).sum(axis=1).max() <= 1
    assert service.status().rebuilds + service.status().cells > 25


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


def test_a_device_that_moves_often_does_not_cause_a_rebuild(service):
    accounts = sign_up(service, scatter(60))
    for number in range(50):
        service.move(accounts[0].pseudonym, accounts[0].token, 41.0 + number / 100, 2.0)
    assert service.status().changes == 1
    sign_up(service, scatter(6, seed=1))
    assert service.status().changes == 7
    assert not service.status().rebuild_requested


def test_the_same_location_again_is_no_move(service):
    homes = scatter(60)
    accounts = sign_up(service, homes)
    for account, (latitude, longitude) in zip(accounts, homes, strict=True):
        service.move(account.pseudonym, account.token, latitude + 1e-5, longitude)
    assert service.status().pending == 0
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


# -------------------------------------------------------------------------------- cells below k


VIENNA = (48.2, 16.4)


def codes(service):
    return [alarm.code for alarm in service.status().alarms]


def test_a_cell_below_k_far_from_all_others_waits_and_moves_nobody(service):
    accounts = sign_up(service, [*scatter(8), *scatter(14, around=VIENNA)])
    short, others = accounts[:8], accounts[8:]
    before, old = service.overview(), aliases(service, accounts)
    for account in short[:3]:
        cancel(service, account)
    assert service.overview() is before
    cancel(service, short[3])
    assert aliases(service, short[4:]) == [None] * 4
    assert [where(service, account) for account in short[4:]] == [None] * 4
    assert [where(service, account) for account in others] == [a.location for a in others]
    assert aliases(service, others) == old[8:]
    status = service.status()
    assert (status.waiting, status.merges, status.cells) == (4, 0, len(before.cells) - 1)
    assert "cells_suspended" in codes(service)
    assert "cells_merged" not in codes(service)
    left = {cell.place for cell in service.overview().cells}
    assert left == {cell.place for cell in before.cells} - {short[0].location}


def test_a_cell_below_k_shares_a_place_with_a_neighbour_within_reach(service):
    accounts = sign_up(service, [*scatter(8), *scatter(14, around=(41.4, 2.8))])
    for account in accounts[:4]:
        cancel(service, account)
    assert (service.status().waiting, service.status().merges) == (0, 1)
    assert "cells_suspended" not in codes(service)


def test_a_cell_left_to_few_during_planning_is_suspended(tmp_path, monkeypatch):
    options = {"database": f"sqlite:///{tmp_path / 'locations.db'}", "reach": 100.0}
    service = open_anonymizer(k=5, **options)
    accounts = sign_up(service, [*scatter(5), *scatter(6, around=VIENNA)])
    true_task = module.load_task

    def cancel_and_load(name):
        cancel(service, accounts[0])
        return true_task(name)

    monkeypatch.setattr(module, "load_task", cancel_and_load)
    newcomers = sign_up(service, scatter(5, seed=1, around=VIENNA))
    assert [where(service, account) for account in accounts[1:5]] == [None] * 4
    assert None not in [where(service, account) for account in [*accounts[5:], *newcomers]]
    before, status = dict(service.placements()), service.status()
    service.close()
    service = open_anonymizer(k=5, **options)
    assert (dict(service.placements()), service.status()) == (before, status)
    service.close()


def test_a_suspended_cell_stands_again_with_other_aliases(service):
    accounts = sign_up(service, [*scatter(8), *scatter(14, around=VIENNA)])
    before, old = service.overview(), aliases(service, accounts)
    for account in accounts[:4]:
        cancel(service, account)
    late = service.sign_up(41.4, 2.2)
    assert late.location is None
    assert not service.publish()  # too few devices changed
    newcomers = sign_up(service, scatter(4, seed=3))
    assert service.overview().cells == before.cells
    assert {where(service, a) for a in (late, *newcomers)} == {accounts[0].location}
    assert not set(old[:8]) & set(aliases(service, accounts[4:8]))
    assert service.status().k_over_history >= 6
    assert codes(service) == []


def test_a_suspended_cell_without_newcomers_ends_with_the_next_publication(service):
    accounts = sign_up(service, [*scatter(8), *scatter(14, around=VIENNA)])
    for account in accounts[:4]:
        cancel(service, account)
    sign_up(service, scatter(6, seed=1, around=VIENNA))
    assert {where(service, account) for account in accounts[4:8]} == {None}
    assert len(service._population.ledger.standing) == service.status().cells
    assert "cells_suspended" not in codes(service)


def test_suspended_cells_stay_so_over_a_restart(tmp_path):
    database = f"sqlite:///{tmp_path / 'locations.db'}"
    options = {"database": database, "reach": 100.0}
    service = open_anonymizer(k=5, **options)
    accounts = sign_up(service, [*scatter(5), *scatter(6, around=VIENNA)])
    cancel(service, accounts[0])
    before, view = dict(service.placements()), service.overview()
    service.close()
    service = open_anonymizer(k=5, **options)
    assert (dict(service.placements()), service.overview()) == (before, view)
    assert "cells_suspended" in codes(service)
    service.close()
    service = open_anonymizer(k=7, **options)  # now neither town has enough devices
    assert service.status().waiting == 10
    assert service.overview().cells == ()
    sign_up(service, [*scatter(4, seed=1), *scatter(4, seed=1, around=VIENNA)])
    assert service.status().waiting == 0
    assert service.status().smallest_cell >= 7
    service.close()


def test_the_band_of_a_suspended_cell_does_not_show_a_few_changes():
    service = open_anonymizer(k=20, reach=100.0)
    accounts = sign_up(service, [*scatter(20), *scatter(20, around=VIENNA)])
    cancel(service, accounts[0])
    assert service.status().cells == 1
    sign_up(service, [*scatter(11, seed=1), *scatter(8, seed=1, around=VIENNA)])
    assert sorted(service._population.counts) == [28, 30]
    assert {cell.at_least for cell in service.overview().cells} == {20}
    service.close()


def test_the_mean_distance_leaves_out_moves_during_planning(monkeypatch):
    """A device that moved meanwhile uses its old place until the next publication."""
    service = open_anonymizer(k=3)
    accounts = sign_up(service, scatter(8))
    true_task = module.load_task

    def move_and_load(name):
        service.move(accounts[0].pseudonym, accounts[0].token, 60.0, 60.0)
        return true_task(name)

    monkeypatch.setattr(module, "load_task", move_and_load)
    sign_up(service, scatter(4, seed=1))
    assert service.status().pending == 1
    assert service.status().distance < 50
    service.close()


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


def test_an_alias_does_not_end_alone(service):
    """If devices leave a cell, the aliases of all its devices end."""
    accounts = sign_up(service, [*scatter(12), *scatter(12, around=(48.2, 16.4))])
    before = aliases(service, accounts)
    service.move(accounts[0].pseudonym, accounts[0].token, 48.2, 16.4)
    sign_up(service, scatter(6, seed=1, around=(48.2, 16.4)))
    after = aliases(service, accounts)
    left = [accounts[0].location == account.location for account in accounts]
    assert sum(left) >= 6
    assert all(one != other for one, other, old in zip(before, after, left, strict=True) if old)


def test_a_history_left_to_few_ends_at_once():
    """A cohort loses more devices than it can spare, although its cell still has k."""
    service = open_anonymizer(k=5, spare=1.0)
    first = sign_up(service, scatter(6))
    sign_up(service, scatter(5, seed=4))
    assert (service.status().cells, service.status().k_over_history) == (1, 5)
    before = aliases(service, first)
    cancel(service, first[0])
    assert aliases(service, first[1:]) == before[1:]
    assert service.status().k_over_history == 5
    generation = service.overview().generation
    cancel(service, first[1])
    assert not set(before) & set(aliases(service, first[2:]))
    assert service.status().k_over_history is None  # all aliases last until the next publication
    assert service.overview().generation == generation + 1
    service.close()


def test_histories_below_a_raised_k_end_before_anything_is_served(tmp_path):
    database = f"sqlite:///{tmp_path / 'locations.db'}"
    service = open_anonymizer(k=5, spare=1.0, database=database)
    first = sign_up(service, scatter(6))
    sign_up(service, scatter(5, seed=4))
    before = aliases(service, first)
    service.close()
    service = open_anonymizer(k=6, spare=1.0, database=database)
    assert not set(before) & set(aliases(service, first))
    assert service.status().k_over_history is None
    service.close()
    service = open_anonymizer(k=6, spare=1.0, database=database)
    assert service.status().k_over_history is None
    service.close()


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
    service = open_anonymizer(k=3, window=2, spare=1.0, reach=100.0)
    accounts = sign_up(service, scatter(6))
    seen = [aliases(service, accounts)]
    for day in range(4):
        sign_up(service, scatter(3, seed=day + 1, around=(48.2, 16.4)))
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


def test_no_build_is_forgotten_however_many_there_are():
    rng = np.random.default_rng(3)
    count = 60
    rules = Rules(k=5)
    labels = np.full(count, UNPLACED, dtype=np.int64)
    situation = Situation(
        points=np.empty((0, 3)),
        labels=labels,
        status=np.full(count, SIGNED_UP),
        epochs=np.ones(count, dtype=np.int64),
        history=np.zeros((count, 1), dtype=np.int64),
        standing=Standing.empty(),
        ledger=Ledger(),
        generation=0,
        next_build=1,
    )
    builds: dict[int, set[int]] = {}
    for generation in range(12):
        points = to_points(rng.uniform(41.0, 41.2, count), rng.uniform(2.0, 2.2, count))
        status = np.full(count, MOVED)
        situation = replace(
            situation,
            points=points,
            history=-np.abs(situation.history),
            status=status,
            generation=generation,
            rebuild=True,
        )
        outcome = plan_with_secret(situation, rules, b"secret")
        members = {
            build.id: set(np.flatnonzero(outcome.history[:, 0] == build.id).tolist())
            for build in outcome.added
        }
        for build in outcome.added:
            shared = {number: len(rows & members[build.id]) for number, rows in builds.items()}
            assert dict(build.overlaps) == {-number: n for number, n in shared.items() if n}
        builds |= members
        situation = replace(
            situation,
            labels=outcome.labels,
            epochs=outcome.epochs,
            history=outcome.history,
            standing=outcome.standing,
            ledger=outcome.ledger,
            next_build=situation.next_build + len(outcome.added),
        )
    assert np.count_nonzero(situation.history, axis=1).min() > 8
