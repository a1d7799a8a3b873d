"""The anonymizer: sign-up, look-up, waiting, merging, rebuilds and confidentiality."""

import logging
import struct
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from microcell.errors import DataError, OptionError, ServiceError, UnknownDeviceError
from microcell.locations import Anonymizer, Place, new_key
from microcell.locations import anonymizer as module
from microcell.locations.clustering import great_circle, to_points
from microcell.locations.population import WAITING, ServedCells
from tests.locations.reading import read_database
from tests.raising import raises

KEY = bytes(range(32))


def scatter(count, seed=0):
    return np.random.default_rng(seed).normal([41.4, 2.2], 0.1, size=(count, 2))


@pytest.fixture
def database(new_database):
    return new_database()


@pytest.fixture
def service(database):
    service = Anonymizer.open(database, 4, key=KEY, share=1.0, background=False)
    yield service
    service.close()


def sign_up(service, places):
    return service.sign_up_many(*np.asarray(places).T)


def users_of(service):
    return Counter(place for _, place in service.placements())


def wait_for(condition, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "timed out"
        time.sleep(0.01)


def test_devices_wait_until_there_are_k(service):
    accounts = [service.sign_up(41.0, 2.0 + number / 10) for number in range(3)]
    assert [account.location for account in accounts] == [None] * 3
    assert service.overview().waiting == 3
    assert (service.overview().cells, service.overview().smallest_cell, service.clustering()) == (
        (),
        None,
        None,
    )
    last = service.sign_up(41.0, 2.3)
    assert last.location.longitude == pytest.approx(2.15)
    assert {service.look_up(account.pseudonym, account.token) for account in accounts} == {
        last.location
    }
    assert service.overview().waiting == 0


def test_all_devices_wait_when_too_few_are_left(service):
    accounts = sign_up(service, scatter(4))
    service.cancel(accounts[0].pseudonym, accounts[0].token)
    assert service.look_up(accounts[1].pseudonym, accounts[1].token) is None
    assert service.overview().waiting == 3
    assert service.sign_up(41.0, 2.0).location is not None


def test_sign_ups_and_cancellations_do_not_move_a_place(service):
    accounts = sign_up(service, scatter(8))
    places = {cell.number: (cell.place, cell.radius) for cell in service.overview().cells}
    assert len(places) == 2
    newcomer = service.sign_up(41.4, 2.2)
    assert newcomer.location in [place for place, _ in places.values()]
    service.move(newcomer.pseudonym, newcomer.token, 41.9, 2.9)
    service.cancel(newcomer.pseudonym, newcomer.token)
    assert {cell.number: (cell.place, cell.radius) for cell in service.overview().cells} == places
    assert service.status().changes == 3
    assert accounts


@pytest.fixture
def merging_only(service, monkeypatch):
    """The service without the rebuild that follows a merge."""
    monkeypatch.setattr(service, "_is_rebuild_due", lambda: False)
    return service


def test_a_cell_below_k_is_merged_immediately(merging_only):
    service = merging_only
    accounts = sign_up(service, [*scatter(4), *(scatter(4) + 20), *(scatter(4) - [60, 90])])
    before = service.status()
    assert before.cells == 3
    service.cancel(accounts[0].pseudonym, accounts[0].token)
    after = service.status()
    assert (after.cells, after.merges, after.smallest_cell, after.rebuilds) == (2, 1, 4, 1)
    near, far = accounts[4], accounts[8]
    assert service.look_up(near.pseudonym, near.token) == service.look_up(
        accounts[1].pseudonym, accounts[1].token
    )
    assert service.look_up(far.pseudonym, far.token) == far.location
    assert after.generation == before.generation + 1


def test_a_rebuild_follows_a_merge(service):
    accounts = sign_up(service, [*scatter(5), *(scatter(5) + 20), *(scatter(5) - [60, 90])])
    for account in accounts[:2]:
        service.cancel(account.pseudonym, account.token)
    after = service.status()
    assert (after.merges, after.rebuilds, after.cells, after.changes) == (1, 2, 3, 0)
    assert min(users_of(service).values()) >= 4


def test_moving_away_may_also_merge_cells(merging_only):
    service = merging_only
    accounts = sign_up(service, [*scatter(4), *(scatter(4) + 20), *(scatter(4) - [60, 90])])
    place = service.move(accounts[0].pseudonym, accounts[0].token, *(scatter(1)[0] - [60, 90]))
    assert place == accounts[8].location
    assert min(users_of(service).values()) >= 4
    assert service.status().merges == 1


def test_changes_beyond_the_share_trigger_a_rebuild(database):
    service = Anonymizer.open(database, 2, key=KEY, share=0.5, background=False)
    sign_up(service, scatter(10))
    for turn in range(5):
        assert service.status().changes_until_rebuild == 6 + turn // 2 - turn
        service.sign_up(41.4, 2.2)
    while service.status().rebuilds == 1:
        service.sign_up(41.4, 2.2)
    assert service.status().devices == 21
    assert service.status().changes == 0
    assert service.status().cells == service.status().devices // 2
    service.close()


def test_a_place_is_the_mean_of_its_cell_after_a_rebuild(service):
    places = scatter(40)
    accounts = sign_up(service, places)
    service.rebuild(wait=True)
    shown = np.array(
        [
            [a.latitude, a.longitude]
            for a in (service.look_up(x.pseudonym, x.token) for x in accounts)
        ]
    )
    for place in np.unique(shown, axis=0):
        members = to_points(*places[(shown == place).all(axis=1)].T)
        assert len(members) >= 4
        assert (
            great_circle(members.mean(axis=0, keepdims=True), to_points(*place[:, np.newaxis]))[0]
            < 1e-6
        )


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
    assert service.look_up(account.pseudonym, account.token) is None


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
    assert service.overview().devices == 0


def test_antimeridian_and_pole(service):
    accounts = sign_up(
        service,
        [(0, 180), (0, -180), (0, 179.9), (0, -179.9), (90, 0), (90, 77), (89.9, 180), (89.9, 0)],
    )
    locations = [account.location for account in accounts]
    assert len(set(locations[:4])) == len(set(locations[4:])) == 1
    assert abs(abs(locations[0].longitude) - 180) < 0.01
    assert locations[4].latitude > 89.9


@pytest.mark.parametrize("count", [4, 9, 30])
def test_all_devices_at_one_location(service, count):
    accounts = sign_up(service, [(41.0, 2.0)] * count)
    service.rebuild(wait=True)
    assert min(users_of(service).values()) >= 4
    assert accounts[0].location == Place(pytest.approx(41.0), pytest.approx(2.0))


def test_k_larger_than_the_population(database):
    service = Anonymizer.open(database, 1_000, key=KEY, background=False)
    sign_up(service, scatter(10))
    service.rebuild(wait=True)
    assert set(users_of(service)) == {None}
    assert service.status().last_failure is None
    service.close()


@pytest.mark.parametrize("background", [False, True])
def test_a_raised_k_is_enforced_before_anything_is_served(database, background):
    service = Anonymizer.open(database, 3, key=KEY, background=False)
    sign_up(service, scatter(30))
    service.close()
    service = Anonymizer.open(database, 7, key=KEY, background=background)
    assert service.overview().smallest_cell >= 7
    assert min(users_of(service).values()) >= 7
    assert service.overview().k == read_database(database).k == 7
    wait_for(lambda: service.status().rebuilds == 2)
    assert service.overview().smallest_cell >= 7
    service.close()
    service = Anonymizer.open(database, 31, key=KEY, background=background)
    assert set(users_of(service)) == {None}
    service.close()
    service = Anonymizer.open(database, None, key=KEY, background=False)
    assert service.overview().k == 31
    service.close()
    service = Anonymizer.open(database, 2, key=KEY, background=False)
    assert service.overview().smallest_cell >= 2
    service.close()


def test_a_restart_serves_the_same_locations(database):
    service = Anonymizer.open(database, 4, key=KEY, background=False)
    accounts = sign_up(service, scatter(30))
    before, view, status = dict(service.placements()), service.overview(), service.status()
    service.close()
    service = Anonymizer.open(database, 4, key=KEY, background=False)
    assert dict(service.placements()) == before
    assert service.overview() == view
    assert service.status() == status
    assert (
        service.look_up(accounts[0].pseudonym, accounts[0].token) == before[accounts[0].pseudonym]
    )
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
        *(({"share": share}, "option.out_of_range") for share in (0, -1, 1.5, float("nan"))),
        *(({"share": share}, "option.wrong_type") for share in ("0.1", True)),
        ({"spare": -0.1}, "option.out_of_range"),
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

    service = Anonymizer.open(database, 4, key=KEY, share=1.0)
    accounts = sign_up(service, scatter(40))
    monkeypatch.setattr(module, "load_task", slow_task)
    service.rebuild()
    assert started.wait(120)
    assert service.status().rebuilding
    old = {
        account.pseudonym: service.look_up(account.pseudonym, account.token) for account in accounts
    }
    assert old == {account.pseudonym: account.location for account in accounts}
    newcomer = service.sign_up(41.4, 2.2)
    service.move(accounts[0].pseudonym, accounts[0].token, 60.0, 60.0)
    for account in accounts[1:9]:
        service.cancel(account.pseudonym, account.token)
    assert min(users_of(service).values()) >= 4
    may_end.set()
    wait_for(lambda: service.status().rebuilds >= 2 and not service.status().rebuilding)
    assert min(users_of(service).values()) >= 4
    assert service.overview().devices == 33
    assert service.look_up(newcomer.pseudonym, newcomer.token) is not None
    assert Counter(read_database(database).cell_of.values()).most_common()[-1][1] >= 4
    service.close()


def test_a_large_population_is_clustered_in_a_worker_process(database, monkeypatch):
    monkeypatch.setattr(module, "MAX_INLINE_DEVICES", 50)
    service = Anonymizer.open(database, 20, key=KEY)
    accounts = sign_up(service, scatter(200))
    wait_for(lambda: service.status().rebuilds == 1)
    assert service.status().cells == 10
    assert service.look_up(accounts[0].pseudonym, accounts[0].token) is not None
    service.rebuild(wait=True)
    assert service.status().last_failure is None
    service.close()


def test_a_failed_rebuild_is_reported_and_old_cells_are_kept(database, monkeypatch):
    service = Anonymizer.open(database, 4, key=KEY, share=0.05, background=False)
    sign_up(service, scatter(40))
    before = service.overview().cells

    def fail(name):
        def run(*_, **__):
            raise ServiceError("The worker process exited with status -9.")

        return run

    monkeypatch.setattr(module, "load_task", fail)
    with raises(ServiceError, "service.unavailable"):
        service.rebuild(wait=True)
    assert "status -9" in service.status().last_failure
    for _ in range(5):
        assert service.sign_up(41.4, 2.2).location is not None
    assert [cell.place for cell in service.overview().cells] == [cell.place for cell in before]
    monkeypatch.undo()
    service.rebuild(wait=True)
    assert service.status().last_failure is None
    service.close()


def test_concurrent_changes_and_look_ups(database):
    service = Anonymizer.open(database, 4, key=KEY, share=0.2)
    sign_up(service, scatter(20))
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
            view = service.overview()
            if view.smallest_cell is None or view.smallest_cell < 4:
                violations.append(view)

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
    names = {name for name, _ in service.placements()}
    service.close()
    assert set(read_database(database).cell_of) == names


def test_sizes_can_be_counted_during_changes():
    """Counting is safe while other threads change entries in place."""
    served = ServedCells.of(None, np.empty(0, dtype=np.int64), np.zeros(200_000, dtype=np.int64))
    served = replace(served, places=(Place(0.0, 0.0),) * 2)
    done = threading.Event()

    def change():
        while not done.is_set():
            served.cells[:] = WAITING
            served.cells[:] = 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            assert served.sizes().shape == (2,)
    finally:
        done.set()
        thread.join()


def test_an_unexpected_failure_reloads_the_database(service, monkeypatch):
    accounts = sign_up(service, scatter(10))
    monkeypatch.setattr(service._store, "_write_devices", lambda _: service._run_out_of_paper())
    with pytest.raises(AttributeError):
        service.sign_up(1.0, 2.0)
    monkeypatch.undo()
    assert service.look_up(accounts[0].pseudonym, accounts[0].token) == accounts[0].location
    assert service.overview().devices == 10
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
    service = Anonymizer.open(str(path), 2, key=KEY, background=False)
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
