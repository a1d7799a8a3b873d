"""A database that fails under the service: nothing is acknowledged that is not in it, and look-ups go on."""

import sqlite3
import time
from collections import Counter

import numpy as np
import pytest
import sqlalchemy as sa

from microcell.errors import ServiceError
from microcell.locations import Anonymizer, anonymizer
from microcell.locations import store as _store
from microcell.locations.store import BrokenStoreError, Store
from tests.locations.reading import read_database
from tests.locations.serving import asking, bearer, make_app, scatter

KEY = bytes(range(32))
K = 4


@pytest.fixture
def database(new_database):
    return new_database()


@pytest.fixture
def service(database):
    service = Anonymizer.open(database, K, key=KEY, share=1.0, background=False)
    yield service
    service.close()


@pytest.fixture
def accounts(service):
    return service.sign_up_many(*np.array(scatter(13)).T)


def look_all_up(service, accounts):
    return {
        account.pseudonym: service.look_up(account.pseudonym, account.token) for account in accounts
    }


def refuse(*_):
    raise BrokenStoreError("The database is full.")


def changes_of(service, account):
    who = (account.pseudonym, account.token)
    return [
        lambda: service.sign_up(41.4, 2.2),
        lambda: service.move(*who, 60.0, 60.0),
        lambda: service.cancel(*who),
        lambda: service.rebuild(wait=True),
    ]


def test_look_ups_go_on_and_nothing_is_acknowledged_while_nothing_can_be_written(
    service, accounts, database, monkeypatch
):
    before, kept = look_all_up(service, accounts), read_database(database)
    monkeypatch.setattr(Store, "write", refuse)
    monkeypatch.setattr(Store, "connect", refuse)
    for change in changes_of(service, accounts[0]):
        with pytest.raises(ServiceError):
            change()
        assert look_all_up(service, accounts) == before
        assert service.overview().devices == 13
    assert read_database(database) == kept
    monkeypatch.undo()
    assert service.sign_up(41.4, 2.2).location is not None
    assert service.overview().devices == 14


def test_a_change_that_was_written_though_it_failed_is_seen_after_the_next_one(
    service, accounts, database, monkeypatch
):
    """The answer to a commit may be lost. Until it is known, all look as before; then as the database has it."""
    whole = Store.write

    def write_and_fail(store, change):
        whole(store, change)
        raise BrokenStoreError("The connection was lost.")

    before = look_all_up(service, accounts)
    gone = accounts[0]
    monkeypatch.setattr(Store, "write", write_and_fail)
    with pytest.raises(ServiceError):
        service.cancel(gone.pseudonym, gone.token)
    monkeypatch.undo()
    assert gone.pseudonym not in read_database(database).cell_of
    assert look_all_up(service, accounts) == before
    service.sign_up(41.4, 2.2)
    assert service.overview().devices == 13
    users = Counter(place for _, place in service.placements())
    assert min(users.values()) >= K
    assert dict(service.placements()).keys() == read_database(database).cell_of.keys()


def test_memory_that_may_be_half_changed_is_not_served(service, accounts, monkeypatch):
    monkeypatch.setattr(service._population, "remove", lambda *_: service.no_such_thing)
    with pytest.raises(AttributeError):
        service.cancel(accounts[0].pseudonym, accounts[0].token)
    monkeypatch.setattr(Store, "connect", refuse)
    with pytest.raises(ServiceError):
        service.look_up(accounts[1].pseudonym, accounts[1].token)
    monkeypatch.undo()
    assert service.look_up(accounts[1].pseudonym, accounts[1].token) is not None
    assert service.overview().devices == 12


def test_the_web_answers_look_ups_and_503_to_changes(service, accounts, monkeypatch):
    monkeypatch.setattr(Store, "write", refuse)
    monkeypatch.setattr(Store, "connect", refuse)
    path, token = f"/devices/{accounts[0].pseudonym}/location", bearer(accounts[0].token)
    with asking(make_app(service)) as http:
        for _ in range(2):
            assert (
                http.post("/devices", json={"latitude": 41.0, "longitude": 2.0}).status_code == 503
            )
            assert http.delete(path, headers=token).status_code == 503
            assert http.get(path, headers=token).status_code == 200
            assert http.get("/cells").json()["devices"] == 13


def test_a_full_disk(tmp_path):
    database = str(tmp_path / "devices.db")
    service = Anonymizer.open(database, K, key=KEY, background=False)
    accounts = service.sign_up_many(*np.array(scatter(13)).T)
    before = look_all_up(service, accounts)
    tell_sqlite(service, "PRAGMA max_page_count = 1")
    with pytest.raises(ServiceError, match=r"cannot be written \(OperationalError\)"):
        service.sign_up_many(*np.array(scatter(2000)).T)
    assert look_all_up(service, accounts) == before
    assert (
        service.sign_up(41.4, 2.2).location is not None
    )  # the limit is the connection's, and that is a new one
    service.close()
    assert len(read_database(database).cell_of) == 14


def test_a_database_that_another_writes_to(tmp_path):
    """Whoever holds the file for long makes changes fail, and look-ups not."""
    database = str(tmp_path / "devices.db")
    service = Anonymizer.open(database, K, key=KEY, background=False)
    accounts = service.sign_up_many(*np.array(scatter(13)).T)
    tell_sqlite(service, "PRAGMA busy_timeout = 10")
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ServiceError, match="cannot be written"):
        service.cancel(accounts[0].pseudonym, accounts[0].token)
    assert None not in look_all_up(service, accounts).values()
    other.execute("ROLLBACK")
    other.close()
    service.cancel(accounts[0].pseudonym, accounts[0].token)
    service.close()


def test_a_service_whose_database_another_took_serves_nothing_more(postgresql, monkeypatch):
    monkeypatch.setattr(_store, "PATIENCE", 0.1)
    database = postgresql.new_database()
    service = Anonymizer.open(database, K, key=KEY, background=False)
    accounts = service.sign_up_many(*np.array(scatter(13)).T)
    end_connections(service)
    other = Anonymizer.open(database, K, key=KEY, background=False)
    for _ in range(2):
        with pytest.raises(ServiceError):
            service.sign_up(41.4, 2.2)
    with pytest.raises(ServiceError, match="cannot go on with its database"):
        service.look_up(accounts[0].pseudonym, accounts[0].token)
    assert len(other.sign_up(41.4, 2.2).pseudonym) > 10
    other.close()
    assert service.look_up(accounts[0].pseudonym, accounts[0].token) is not None
    assert service.overview().devices == 14
    service.close()


def test_a_service_that_only_looks_up_notices_that_its_database_was_taken(postgresql, monkeypatch):
    monkeypatch.setattr(anonymizer, "BEAT", 0.02)
    monkeypatch.setattr(_store, "PATIENCE", 0.1)
    database = postgresql.new_database()
    service = Anonymizer.open(database, K, key=KEY)
    accounts = service.sign_up_many(*np.array(scatter(13)).T)
    with service._write:  # until the other has it, ours does not look
        end_connections(service)
        other = Anonymizer.open(database, K, key=KEY, background=False)
    wait_for(lambda: service._doubtful)
    with pytest.raises(ServiceError):
        service.look_up(accounts[0].pseudonym, accounts[0].token)
    for account in accounts[:11]:
        other.cancel(account.pseudonym, account.token)
    other.close()
    wait_for(lambda: not service._doubtful)
    assert service.overview().devices == 2
    assert service.look_up(accounts[12].pseudonym, accounts[12].token) is None
    service.close()


def test_a_server_that_is_restarted_is_found_again(postgresql, monkeypatch):
    monkeypatch.setattr(anonymizer, "BEAT", 0.02)
    service = Anonymizer.open(postgresql.new_database(), K, key=KEY)
    accounts = service.sign_up_many(*np.array(scatter(13)).T)
    before = look_all_up(service, accounts)
    postgresql.restart()
    assert look_all_up(service, accounts) == before
    wait_for(lambda: not service._stale and service._epoch > 1)
    assert service.sign_up(41.4, 2.2).location is not None
    assert look_all_up(service, accounts) == before
    service.close()


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.01)


def tell_sqlite(service, statement):
    """To the connection itself, outside of any transaction."""
    service._store._connected().connection.driver_connection.execute(statement)


def end_connections(service):
    """Let the server end the service's connection, as when it is restarted."""
    store = service._store
    with store._connected().begin():
        ours = store._connected().execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    engine = sa.create_engine(store._engine.url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": ours})
    engine.dispose()
