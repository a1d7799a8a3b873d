"""Database failures: no change is acknowledged that was not written, and look-ups continue."""

import sqlite3
import time
from collections import Counter

import numpy as np
import pytest
import sqlalchemy as sa

from microcell.errors import ServiceError
from microcell.locations import store as _store
from microcell.locations import watch
from microcell.locations.store import Store, StoreError
from tests.locations.reading import read_database
from tests.locations.serving import (
    asking,
    bearer,
    make_app,
    open_anonymizer,
    scatter,
    sign_up,
    where,
)
from tests.raising import raises

KEY = bytes(range(32))
K = 4


@pytest.fixture
def database(new_database):
    return new_database()


@pytest.fixture
def service(database):
    service = open_anonymizer(K, database, share=1.0)
    yield service
    service.close()


@pytest.fixture
def accounts(service):
    return sign_up(service, scatter(13))


def look_up_all(service, accounts):
    return {
        account.pseudonym: service.look_up(account.pseudonym, account.token).location
        for account in accounts
    }


def fail_to_write(*_):
    raise StoreError("The database is full.")


def changes_of(service, account):
    who = (account.pseudonym, account.token)
    return [
        lambda: service.sign_up(41.4, 2.2),
        lambda: service.move(*who, 60.0, 60.0),
        lambda: service.cancel(*who),
        lambda: service.rebuild(wait=True),
    ]


def test_look_ups_continue_and_changes_fail_while_the_database_cannot_be_written(
    service, accounts, database, monkeypatch
):
    before, kept = look_up_all(service, accounts), read_database(database)
    monkeypatch.setattr(Store, "write", fail_to_write)
    monkeypatch.setattr(Store, "connect", fail_to_write)
    for change in changes_of(service, accounts[0]):
        with raises(ServiceError, "service.unavailable"):
            change()
        assert look_up_all(service, accounts) == before
        assert service.status().devices == 13
    assert read_database(database) == kept
    monkeypatch.undo()
    assert service.sign_up(41.4, 2.2).location is not None
    assert service.status().devices == 14


def test_a_change_written_despite_an_error_appears_with_the_next_change(
    service, accounts, database, monkeypatch
):
    """The reply to a commit may be lost; the next change reloads the state of the database."""
    whole = Store.write

    def write_and_fail(store, change):
        whole(store, change)
        raise StoreError("The connection was lost.")

    before = look_up_all(service, accounts)
    gone = accounts[0]
    monkeypatch.setattr(Store, "write", write_and_fail)
    with raises(ServiceError, "service.unavailable"):
        service.cancel(gone.pseudonym, gone.token)
    monkeypatch.undo()
    assert gone.pseudonym not in read_database(database).cell_of
    assert look_up_all(service, accounts) == before
    service.sign_up(41.4, 2.2)
    assert service.status().devices == 13
    users = Counter(place for _, place in service.placements())
    assert min(users.values()) >= K
    assert dict(service.placements()).keys() == read_database(database).cell_of.keys()


def test_suspect_memory_is_not_served(service, accounts, monkeypatch):
    monkeypatch.setattr(service._population, "remove", lambda *_: service.no_such_thing)
    with pytest.raises(AttributeError):
        service.cancel(accounts[0].pseudonym, accounts[0].token)
    monkeypatch.setattr(Store, "connect", fail_to_write)
    with raises(ServiceError, "service.unavailable"):
        service.look_up(accounts[1].pseudonym, accounts[1].token)
    monkeypatch.undo()
    assert where(service, accounts[1]) is not None
    assert service.status().devices == 12


def test_the_api_answers_look_ups_and_responds_503_to_changes(service, accounts, monkeypatch):
    monkeypatch.setattr(Store, "write", fail_to_write)
    monkeypatch.setattr(Store, "connect", fail_to_write)
    path, token = f"/devices/{accounts[0].pseudonym}/location", bearer(accounts[0].token)
    with asking(make_app(service)) as http:
        for _ in range(2):
            assert (
                http.post("/devices", json={"latitude": 41.0, "longitude": 2.0}).status_code == 503
            )
            assert http.delete(path, headers=token).status_code == 503
            assert http.get(path, headers=token).status_code == 200
            assert http.get("/cells").json()["devices"] == 12  # in multiples of k


def test_a_full_disk(tmp_path):
    database = str(tmp_path / "devices.db")
    service = open_anonymizer(K, database)
    accounts = sign_up(service, scatter(13))
    before = look_up_all(service, accounts)
    execute_directly(service, "PRAGMA max_page_count = 1")
    with raises(StoreError, "service.unavailable", cause="OperationalError"):
        service.sign_up_many(*np.array(scatter(2000)).T)
    assert look_up_all(service, accounts) == before
    assert (
        service.sign_up(41.4, 2.2).location is not None
    )  # the limit belonged to the old connection
    service.close()
    assert len(read_database(database).cell_of) == 14


def test_a_locked_database(tmp_path):
    """Another writer that holds the file makes changes fail, but not look-ups."""
    database = str(tmp_path / "devices.db")
    service = open_anonymizer(K, database)
    accounts = sign_up(service, scatter(13))
    execute_directly(service, "PRAGMA busy_timeout = 10")
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with raises(StoreError, "service.unavailable"):
        service.cancel(accounts[0].pseudonym, accounts[0].token)
    assert None not in look_up_all(service, accounts).values()
    other.execute("ROLLBACK")
    other.close()
    service.cancel(accounts[0].pseudonym, accounts[0].token)
    service.close()


def test_a_service_stops_serving_when_another_process_takes_the_database(postgresql, monkeypatch):
    monkeypatch.setattr(_store, "LOCK_TIMEOUT", 0.1)
    database = postgresql.new_database()
    service = open_anonymizer(K, database)
    accounts = sign_up(service, scatter(13))
    end_connections(service)
    other = open_anonymizer(K, database)
    for _ in range(2):
        with raises(ServiceError, "service.unavailable"):
            service.sign_up(41.4, 2.2)
    with raises(ServiceError, "service.unavailable"):
        service.look_up(accounts[0].pseudonym, accounts[0].token)
    assert len(other.sign_up(41.4, 2.2).pseudonym) > 10
    other.close()
    assert where(service, accounts[0]) is not None
    assert service.status().devices == 14
    service.close()


def test_an_idle_service_notices_that_its_database_was_taken(postgresql, monkeypatch):
    monkeypatch.setattr(watch, "WATCH_INTERVAL", 0.02)
    monkeypatch.setattr(_store, "LOCK_TIMEOUT", 0.1)
    database = postgresql.new_database()
    service = open_anonymizer(K, database, background=True)
    accounts = sign_up(service, scatter(13))
    with service._write_lock:  # keeps the watch from reconnecting first
        end_connections(service)
        other = open_anonymizer(K, database)
    wait_for(lambda: service._suspect)
    with raises(ServiceError, "service.unavailable"):
        service.look_up(accounts[0].pseudonym, accounts[0].token)
    for account in accounts[:11]:
        other.cancel(account.pseudonym, account.token)
    other.close()
    wait_for(lambda: not service._suspect)
    assert service.status().devices == 2
    assert where(service, accounts[12]) is None
    service.close()


def test_the_service_reconnects_after_a_server_restart(postgresql, monkeypatch):
    monkeypatch.setattr(watch, "WATCH_INTERVAL", 0.02)
    service = open_anonymizer(K, postgresql.new_database(), background=True)
    accounts = sign_up(service, scatter(13))
    before = look_up_all(service, accounts)
    postgresql.restart()
    assert look_up_all(service, accounts) == before
    wait_for(lambda: not service._stale and service._epoch > 1)
    assert service.sign_up(41.4, 2.2).location is not None
    assert look_up_all(service, accounts) == before
    service.close()


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "timed out"
        time.sleep(0.01)


def execute_directly(service, statement):
    """Execute a statement on the driver connection, outside of any transaction."""
    service._store._connected().connection.driver_connection.execute(statement)


def end_connections(service):
    """Terminate the service's connection on the server, as a restart would."""
    store = service._store
    with store._connected().begin():
        ours = store._connected().execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    engine = sa.create_engine(store._engine.url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": ours})
    engine.dispose()
