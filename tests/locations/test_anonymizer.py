"""The anonymizer: sign-up, look-up, waiting, merging, rebuilds and confidentiality."""

import logging
import struct
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from microcell.errors import DataError, OptionError, ServiceError, UnknownDeviceError
from microcell.locations import Anonymizer, Place, new_key
from microcell.locations import anonymizer as module
from microcell.locations.clustering import great_circle, to_points
from microcell.locations.watch import Watch
from microcell.locations.worker import Worker
from tests.locations.reading import read_database
from tests.locations.serving import KEY, open_anonymizer, sign_up, where
from tests.raising import raises


def scatter(count, seed=0):
    return np.random.default_rng(seed).normal([41.4, 2.2], 0.1, size=(count, 2))


@pytest.fixture
def database(new_database):
    return new_database()


def open_service(database, k=4, **options):
    return open_anonymizer(k, database, **{"share": 1.0, **options})


@pytest.fixture
def service(database):
    service = open_service(database)
    yield service
    service.close()


def users_of(service):
    return Counter(place for _, place in service.placements())


def wait_for(condition, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "timed out"
        time.sleep(0.01)


def test_devices_wait_until_there_are_k(service):
    accounts = [service.sign_up(41.0, 2.0 + number / 10) for number in range(3)]
    assert not service.publish()
    assert [where(service, account) for account in accounts] == [None] * 3
    assert service.status().waiting == 3
    view = service.overview()
    assert (view.cells, view.smallest_cell, service.clustering()) == ((), None, None)
    last = service.sign_up(41.0, 2.3)
    assert last.location is None  # what is published changes on the clock only
    assert service.publish()
    location = where(service, last)
    assert location.longitude == pytest.approx(2.15, abs=0.02)
    assert {where(service, account) for account in accounts} == {location}
    assert service.status().waiting == 0


def test_all_devices_wait_when_too_few_are_left(service):
    accounts = sign_up(service, scatter(4))
    service.cancel(accounts[0].pseudonym, accounts[0].token)
    assert where(service, accounts[1]) is None
    assert service.status().waiting == 3
    assert service.sign_up(41.0, 2.0).location is None
    service.publish()
    # The place of four devices, three of them known before, would give away the other two.
    assert where(service, accounts[1]) is None
    sign_up(service, scatter(3))
    assert where(service, accounts[1]) is not None


def test_nothing_published_changes_between_publications(service):
    accounts = sign_up(service, scatter(9))
    view, answers = service.overview(), dict(service.placements())
    newcomer = service.sign_up(41.4, 2.2)
    assert newcomer.location in [cell.place for cell in view.cells]
    service.move(newcomer.pseudonym, newcomer.token, 41.9, 2.9)
    service.move(accounts[1].pseudonym, accounts[1].token, 51.9, 2.9)
    service.cancel(newcomer.pseudonym, newcomer.token)
    biggest = users_of(service).most_common(1)[0][0]
    leaver = next(account for account in accounts if account.location == biggest)
    service.cancel(leaver.pseudonym, leaver.token)
    del answers[leaver.pseudonym]
    assert service.overview() is view
    assert dict(service.placements()) == answers
    assert service.status().changes == 2  # the newcomer is gone


def test_a_cell_below_k_is_merged_immediately(service):
    accounts = sign_up(service, [*scatter(4), *(scatter(4) + 20), *(scatter(4) - [60, 90])])
    before = service.status()
    assert before.cells == 3
    aliases = {service.look_up(a.pseudonym, a.token).alias for a in accounts[1:8]}
    service.cancel(accounts[0].pseudonym, accounts[0].token)
    after = service.status()
    assert (after.cells, after.merges, after.smallest_cell, after.rebuilds) == (2, 1, 4, 1)
    near, far = accounts[4], accounts[8]
    assert where(service, near) == where(service, accounts[1])
    assert where(service, far) == far.location
    assert after.generation == before.generation + 1
    assert "cells_merged" in [alarm.code for alarm in after.alarms]
    # Seven devices of two cells could be told apart by where they were before.
    now = {service.look_up(a.pseudonym, a.token).alias for a in accounts[1:8]}
    assert len(now) == 7
    assert not now & aliases


def test_merged_cells_stand_again_after_the_next_publication(service):
    accounts = sign_up(service, [*scatter(5), *(scatter(5) + 20), *(scatter(5) - [60, 90])])
    before = service.overview()
    for account in accounts[:2]:
        service.cancel(account.pseudonym, account.token)
    assert service.status().cells == 2
    service.sign_up_many(*scatter(4, seed=5).T)
    assert service.publish()
    after = service.status()
    assert (after.merges, after.rebuilds, after.cells) == (1, 1, 3)
    assert [cell.place for cell in service.overview().cells] == [c.place for c in before.cells]
    assert min(users_of(service).values()) >= 4


def test_a_move_takes_effect_with_the_next_publication(service):
    accounts = sign_up(service, [*scatter(5), *(scatter(5) + 20)])
    mover = accounts[0]
    before = service.look_up(mover.pseudonym, mover.token)
    for longitude in (170.0, 22.2):  # the last move counts
        answer = service.move(mover.pseudonym, mover.token, 61.4, longitude)
    assert answer == replace(before, pending=True)
    assert service.status().pending == 1
    assert not service.publish()  # a single device changed
    assert "publication_deferred" in [alarm.code for alarm in service.status().alarms]
    service.sign_up_many(*scatter(3, seed=3).T)
    assert service.publish()
    after = service.look_up(mover.pseudonym, mover.token)
    assert after.location == accounts[5].location
    assert after.alias != before.alias
    assert not after.pending


def test_changes_beyond_the_share_trigger_a_rebuild(database):
    service = open_service(database, 2, share=0.5)
    sign_up(service, scatter(10))
    assert service.status().changes_until_rebuild == 6
    sign_up(service, scatter(4, seed=1))
    assert service.status().rebuilds == 1
    sign_up(service, scatter(20, seed=2))
    assert (service.status().rebuilds, service.status().changes) == (2, 0)
    assert service.status().cells == service.status().devices // 2
    service.close()


def test_a_place_is_near_the_mean_of_its_cell(service):
    places = scatter(40)
    accounts = sign_up(service, places)
    shown = np.array([[a.location.latitude, a.location.longitude] for a in accounts])
    radii = {cell.place: cell.radius for cell in service.overview().cells}
    for place in np.unique(shown, axis=0):
        members = to_points(*places[(shown == place).all(axis=1)].T)
        assert len(members) >= 4
        mean = members.mean(axis=0, keepdims=True)
        error = great_circle(mean, to_points(*place[:, np.newaxis]))[0]
        radius = radii[Place(*place)]
        assert 1e-6 < error <= 0.1 * radius  # a grid of a tenth of the radius
        exact = np.sqrt(np.mean(great_circle(members, np.repeat(mean, len(members), axis=0)) ** 2))
        assert exact <= radius <= 2 * exact


def test_unknown_devices_and_wrong_tokens_raise_the_same_error(service):
    account = service.sign_up(41.0, 2.0)
    messages = set()
    for name, token in [
        (account.pseudonym, "x"),
        ("nobody", account.token),
        ("", ""),
        ("\ud800", "\udfff"),
    ]:
        for action in (service.look_up, service.cancel, lambda *who: service.move(*who, 1.0, 2.0)):
            with raises(UnknownDeviceError, "service.unknown_device") as caught:
                action(name, token)
            messages.add(str(caught.value))
    assert len(messages) == 1
    assert where(service, account) is None


@pytest.mark.parametrize(
    "latitude", [np.nan, np.inf, -np.inf, 90.001, -1e300, "41.123", None, 1j, [41.123]]
)
def test_invalid_latitudes_are_rejected_without_showing_them(service, latitude):
    account = service.sign_up(0.0, 0.0)
    for action in (
        lambda: service.sign_up(latitude, 2.0),
        lambda: service.move(account.pseudonym, account.token, latitude, 2.0),
        lambda: service.sign_up_many([1.0, latitude], [2.0, 2.0]),
    ):
        with pytest.raises(DataError) as caught:
            action()
        assert caught.value.code in ("data.not_a_number", "data.out_of_range")
        assert caught.value.details["column"] == "latitude"
        assert "41.123" not in str(caught.value)
        assert "90.001" not in str(caught.value)
    assert service.status().sign_ups == 1


def test_all_places_are_checked_before_any_sign_up(service):
    with raises(DataError, "data.out_of_range", column="longitude", row=2):
        service.sign_up_many([1.0, 2.0, 3.0], [180.0, 180.1, np.nan])
    with raises(DataError, "data.invalid"):
        service.sign_up_many([1.0, 2.0, 3.0], [1.0, 2.0])
    assert service.sign_up_many([], []) == []
    assert service.status().devices == 0


def test_antimeridian_and_pole(service):
    accounts = sign_up(
        service,
        [(0, 180), (0, -180), (0, 179.9), (0, -179.9), (90, 0), (90, 77), (89.9, 180), (89.9, 0)],
    )
    locations = [account.location for account in accounts]
    assert len(set(locations[:4])) == len(set(locations[4:])) == 1
    assert abs(abs(locations[0].longitude) - 180) < 0.02
    assert locations[4].latitude > 89.9


@pytest.mark.parametrize("count", [4, 9, 30])
def test_all_devices_at_one_location(service, count):
    accounts = sign_up(service, [(41.0, 2.0)] * count)
    service.rebuild(wait=True)
    assert min(users_of(service).values()) >= 4
    assert accounts[0].location == Place(
        pytest.approx(41.0, abs=1e-4), pytest.approx(2.0, abs=1e-4)
    )


def test_k_larger_than_the_population(database):
    service = open_service(database, 1_000)
    sign_up(service, scatter(10))
    service.rebuild(wait=True)
    assert set(users_of(service)) == {None}
    assert service.status().last_failure is None
    service.close()


@pytest.mark.parametrize("background", [False, True])
def test_a_raised_k_is_enforced_before_anything_is_served(database, background):
    service = open_service(database, 3)
    sign_up(service, scatter(30))
    service.close()
    service = open_service(database, 7, background=background)
    assert service.status().smallest_cell >= 7
    assert min(users_of(service).values()) >= 7
    assert service.overview().k == read_database(database).k == 7
    assert service.publish()
    assert service.status().smallest_cell >= 7
    service.close()
    service = open_service(database, 31, background=background)
    assert set(users_of(service)) == {None}
    service.close()
    service = open_service(database, None)
    assert service.overview().k == 31
    service.close()
    service = open_service(database, 2)
    service.publish()
    assert service.status().smallest_cell >= 2
    service.close()


def test_a_restart_serves_the_same_locations(database):
    service = open_service(database)
    accounts = sign_up(service, scatter(30))
    sign_up(service, scatter(9, seed=1))
    service.sign_up(41.4, 2.2)
    service.move(accounts[1].pseudonym, accounts[1].token, 41.3, 2.3)
    before, view, status = dict(service.placements()), service.overview(), service.status()
    answers = [service.look_up(account.pseudonym, account.token) for account in accounts]
    publications, ledger = service.publications(), service._population.ledger
    service.close()
    service = open_service(database)
    assert dict(service.placements()) == before
    assert service.overview() == view
    assert service.status() == status
    assert service.publications() == publications
    assert service._population.ledger == ledger
    assert [service.look_up(a.pseudonym, a.token) for a in accounts] == answers
    service.close()


def test_another_key_is_rejected_when_opening(database):
    Anonymizer.open(database, 4, key=KEY).close()
    for key in (new_key(), None):
        with raises(OptionError, "option.invalid", option="key"):
            Anonymizer.open(database, 4, key=key)
    Anonymizer.open(database, 4, key=KEY).close()


def test_a_second_service_on_the_database_is_rejected(service, database):
    with raises(OptionError, "option.conflict", option="database"):
        Anonymizer.open(database, 4, key=KEY)
    assert service.sign_up(1.0, 2.0)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        *(({"k": k}, "option.out_of_range") for k in (1, 0, -3, 10**20)),
        *(({"k": k}, "option.wrong_type") for k in (2.5, True, "5")),
        *(({"share": share}, "option.out_of_range") for share in (0, -1, 10.5, float("nan"))),
        *(({"share": share}, "option.wrong_type") for share in ("0.1", True)),
        ({"spare": -0.1}, "option.out_of_range"),
        ({"colluders": -1}, "option.out_of_range"),
        ({"colluders": 1.5}, "option.wrong_type"),
        ({"window": 0}, "option.out_of_range"),
        *(({"reach": reach}, "option.out_of_range") for reach in (0, float("inf"), float("nan"))),
        ({"period": 0}, "option.out_of_range"),
        ({"period": "daily"}, "option.wrong_type"),
    ],
)
def test_invalid_options_are_rejected(options, code):
    with raises(OptionError, code, option=next(iter(options))):
        Anonymizer.open("sqlite://", **{"k": 5, "key": None, **options})


def test_the_largest_k_is_accepted():
    Anonymizer.open("sqlite://", 10**9, key=None).close()


def test_a_new_database_requires_k():
    with raises(OptionError, "option.missing", option="k"):
        Anonymizer.open("sqlite://", None, key=None)


def test_a_closed_service_raises(database):
    service = Anonymizer.open(database, 4, key=KEY)
    account = service.sign_up(1.0, 2.0)
    service.close()
    service.close()
    for action in (
        lambda: service.look_up(account.pseudonym, account.token),
        lambda: service.sign_up(1.0, 2.0),
    ):
        with raises(ServiceError, "service.unavailable"):
            action()


# -------------------------------------------------------------------------------- in the background


def test_look_ups_and_changes_continue_during_a_rebuild(database, monkeypatch):
    """Look-ups work while a rebuild is blocked, and changes made meanwhile enter the new cells."""
    started, may_end = threading.Event(), threading.Event()
    true_task = module.load_task

    def slow_task(name):
        def run(*arguments, **options):
            out = true_task(name)(*arguments, **options)
            started.set()
            assert may_end.wait(120)
            return out

        return run

    service = open_service(database)
    accounts = sign_up(service, scatter(40))
    service.sign_up_many(*scatter(30, seed=1).T)
    monkeypatch.setattr(module, "load_task", slow_task)
    publishing = threading.Thread(target=lambda: service.rebuild(wait=True))
    publishing.start()
    assert started.wait(120)
    assert service.status().rebuilding
    assert [where(service, a) for a in accounts] == [a.location for a in accounts]
    newcomer = service.sign_up(41.4, 2.2)
    service.move(accounts[0].pseudonym, accounts[0].token, 60.0, 60.0)
    for account in accounts[1:9]:
        service.cancel(account.pseudonym, account.token)
    gone = service.sign_up(41.4, 2.2)
    service.cancel(gone.pseudonym, gone.token)
    assert min(users_of(service).values()) >= 4
    may_end.set()
    publishing.join()
    assert min(users_of(service).values()) >= 4
    assert service.status().devices == 63
    assert service.status().pending == 2  # the newcomer and the move are not yet published
    assert where(service, newcomer) is not None
    assert service.look_up(accounts[0].pseudonym, accounts[0].token).pending
    counts = Counter(read_database(database).cell_of.values())
    assert counts.most_common()[-1][1] >= 4
    service.close()
    service = open_service(database)
    assert service.status().pending == 2
    service.close()


def test_a_large_population_is_clustered_in_a_worker_process(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_INLINE_DEVICES", 50)
    run, tasks = Worker.run, []
    monkeypatch.setattr(Worker, "run", lambda *words: [tasks.append(words[1]), run(*words)][1])
    service = open_service(str(tmp_path / "devices.db"), 20, background=True, period=86_400.0)
    accounts = service.sign_up_many(*scatter(200).T)
    assert service.publish()
    assert tasks == ["plan_with_secret"]
    assert service.status().cells == 10
    answer = service.look_up(accounts[0].pseudonym, accounts[0].token)
    assert answer.location is not None
    assert service.status().last_failure is None
    service.close()


def test_the_clock_publishes_at_multiples_of_the_period(monkeypatch):
    """Time is what the test says, and the clock ticks when the test says so."""
    now = 1_000_003.0
    clock = SimpleNamespace(time=lambda: now, monotonic=time.monotonic)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(Watch, "start", lambda _: None)
    service = open_service("sqlite://", 20, background=True, period=86_400.0)
    accounts = service.sign_up_many(*scatter(40).T)
    due = service.next_publication_at
    assert (due, due % 86_400.0) == (1_036_800.0, 0.0)
    service._tick()
    assert service.status().publications == 0
    for turn in (1, 2):
        now = due + 5.0
        service._tick()
        assert service.status().publications == 1  # the second time nothing has changed
        due += 86_400.0
        assert service.next_publication_at == due
        answer = service.look_up(accounts[0].pseudonym, accounts[0].token)
        assert answer.valid_until == due, turn
    service.close()


def test_a_failed_publication_is_reported_and_old_cells_are_kept(service, monkeypatch):
    sign_up(service, scatter(40))
    before = service.overview()

    def fail(name):
        def run(*_, **__):
            raise ServiceError("The worker process exited with status -9.")

        return run

    monkeypatch.setattr(module, "load_task", fail)
    with raises(ServiceError, "service.unavailable"):
        service.rebuild(wait=True)
    assert "status -9" in service.status().last_failure
    assert "publication_failed" in [alarm.code for alarm in service.status().alarms]
    for _ in range(5):
        assert service.sign_up(41.4, 2.2).location is not None
    assert service.overview() is before
    monkeypatch.undo()
    assert service.publish()
    assert service.status().last_failure is None


def test_concurrent_changes_look_ups_and_publications(database):
    service = open_service(database, share=0.2)
    accounts = sign_up(service, scatter(30))
    violations, done = [], threading.Event()

    def use(seed):
        rng = np.random.default_rng(seed)
        for _ in range(6):
            account = service.sign_up(*rng.normal([41.4, 2.2], 0.1))
            service.move(account.pseudonym, account.token, *rng.normal([41.4, 2.2], 0.1))
            if rng.random() < 0.7:
                service.cancel(account.pseudonym, account.token)

    def watch():
        while not done.is_set():
            service.publish()
            smallest = service.status().smallest_cell
            if smallest is None or smallest < 4 or where(service, accounts[0]) is None:
                violations.append(smallest)

    watcher = threading.Thread(target=watch)
    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(4)]
    for thread in [watcher, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    watcher.join()
    assert not violations
    assert min(users_of(service).values()) >= 4
    served = service._population.served
    assert (service._population.counts == served.count()).all()
    names = {name for name, _ in service.placements()}
    service.close()
    assert set(read_database(database).cell_of) == names


def test_an_unexpected_failure_reloads_the_database(service, monkeypatch):
    accounts = sign_up(service, scatter(10))
    monkeypatch.setattr(service._store, "_write_devices", lambda _: service._run_out_of_paper())
    with pytest.raises(AttributeError):
        service.sign_up(1.0, 2.0)
    monkeypatch.undo()
    assert where(service, accounts[0]) == accounts[0].location
    assert service.status().devices == 10
    assert service.sign_up(41.4, 2.2).location is not None


# -------------------------------------------------------------------------------- secrecy


def test_exact_places_are_never_readable(tmp_path, caplog):
    path = tmp_path / "devices.db"
    caplog.set_level(logging.DEBUG)
    logging.getLogger("sqlalchemy.engine").setLevel(logging.DEBUG)
    places = [
        (41.38765432, 2.16912345),
        (48.85661234, 2.35221987),
        (-33.86882345, 151.20931234),
        (51.50741111, -0.12782222),
    ]
    service = open_service(str(path), 2)
    accounts = sign_up(service, places)
    places.append((45.12349876, 3.98761234))
    service.move(accounts[0].pseudonym, accounts[0].token, *places[-1])
    service.rebuild(wait=True)
    files = [file for file in Path(tmp_path).iterdir() if file.name.startswith("devices.db")]
    assert len(files) >= 3  # including the write-ahead log
    content = b"".join(file.read_bytes() for file in files)
    service.close()
    content += path.read_bytes()
    message = (
        caplog.text
        + repr(service)
        + repr(service._population)
        + repr(accounts)
        + repr(service._store)
    )
    logging.getLogger("sqlalchemy.engine").setLevel(logging.NOTSET)
    for account in accounts:
        assert account.token.encode() not in content
        assert account.token not in message
    for value in {value for place in places for value in place}:
        for form in (
            struct.pack("<d", value),
            struct.pack(">d", value),
            str(value).encode(),
            f"{value:.5f}".encode(),
        ):
            assert form not in content
        assert f"{value:.5f}" not in message
    for coordinate in to_points(*np.array(places).T).ravel():
        assert struct.pack("<d", coordinate) not in content
        assert struct.pack(">d", coordinate) not in content
