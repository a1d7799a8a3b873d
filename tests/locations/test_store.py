"""The database: one process at a time, whole changes or none, foreign keys, and nothing readable of a place."""

import sqlite3
import subprocess
import sys

import numpy as np
import pytest
import sqlalchemy as sa

from microcell.errors import OptionError, ServiceError, TableError
from microcell.locations.clustering import Clustering
from microcell.locations.store import Change, DeviceRow, Merged, State, Store, Switched

STATE = State(b"check", 2)


def clustering_of(count):
    places = np.column_stack([np.arange(count) * 10.0, np.zeros(count)])
    return Clustering(
        2,
        np.arange(count * 3.0).reshape(count, 3),
        np.arange(count * 1.0),
        np.arange(count),
        places,
        np.ones(count),
    )


def devices_of(count):
    return [
        DeviceRow(number + 1, f"name{number}", bytes([number]) * 32, b"sealed", None)
        for number in range(count)
    ]


@pytest.fixture
def store(new_database):
    store = Store.open(new_database())
    yield store
    store.close()


def test_a_new_database_is_empty(store):
    stored = store.load()
    assert stored.state is None
    assert stored.clustering is None
    assert list(stored.devices) == []


def test_what_was_written_is_read_again(store):
    clustering, rows = clustering_of(2), devices_of(5)
    state = State(b"check", 2, 1, 2, 3, 4, 5, 6, 7, 8.5, 9.5)
    switched = Switched(np.array([11, 12]), clustering, np.arange(1, 6), np.array([0, 0, 1, 1, 1]))
    store.write(Change(state, added=rows, switched=switched))
    stored = store.load()
    assert stored.state == state
    assert [row.cell for row in stored.devices] == [11, 11, 12, 12, 12]
    assert [row.pseudonym for row in stored.devices] == [row.pseudonym for row in rows]
    assert stored.ids.tolist() == [11, 12]
    for name in ("sites", "costs", "cell_of", "places", "radius"):
        assert (getattr(stored.clustering, name) == getattr(clustering, name)).all()


def test_devices_move_and_go(store):
    store.write(Change(STATE, added=devices_of(3)))
    store.write(Change(STATE, moved=[DeviceRow(2, "name1", b"", b"new", None)], removed=[1]))
    assert [(row.id, row.sealed) for row in store.load().devices] == [(2, b"new"), (3, b"sealed")]


def test_cells_merge_and_switch_and_end(store):
    everyone = np.arange(1, 6)
    first = Switched(np.array([1, 2, 3]), clustering_of(3), everyone, np.array([0, 1, 1, 2, 2]))
    store.write(Change(STATE, added=devices_of(5), switched=first))
    after = Clustering(
        2,
        clustering_of(3).sites,
        np.zeros(3),
        np.array([0, 0, 1]),
        np.array([[5.0, 6.0], [20.0, 0.0]]),
        np.ones(2),
    )
    store.write(Change(STATE, merged=Merged([2], [1], np.array([1, 3]), after)))
    stored = store.load()
    assert [row.cell for row in stored.devices] == [1, 1, 1, 3, 3]
    assert stored.clustering.cell_of.tolist() == [0, 0, 1]
    assert stored.clustering.places.tolist() == [[5.0, 6.0], [20.0, 0.0]]
    store.write(
        Change(
            STATE,
            switched=Switched(np.array([4]), clustering_of(1), everyone, np.zeros(5, dtype=int)),
        )
    )
    assert {row.cell for row in store.load().devices} == {4}
    none = np.empty(0, dtype=np.int64)
    store.write(Change(STATE, switched=Switched(none, None, none, none)))
    assert {row.cell for row in store.load().devices} == {None}
    assert store.load().clustering is None


def test_a_change_that_fails_leaves_nothing(store):
    store.write(Change(STATE, added=devices_of(2)))
    again = [
        DeviceRow(9, "new", b"", b"", None),
        DeviceRow(1, "old id", b"", b"hidden value", None),
    ]
    with pytest.raises(ServiceError, match="cannot be written") as caught:
        store.write(Change(STATE, added=again))
    assert "hidden" not in str(caught.value)
    assert [row.pseudonym for row in store.load().devices] == ["name0", "name1"]


def test_a_device_cannot_name_a_cell_that_is_not_there(store):
    with pytest.raises(ServiceError, match="cannot be written"):
        store.write(Change(STATE, added=[DeviceRow(1, "a", b"", b"", 77)]))


def test_a_second_process_is_refused(new_database):
    database = new_database()
    store = Store.open(database)
    with pytest.raises(OptionError, match="served by another process"):
        Store.open(database)
    code = f"from microcell.locations.store import Store; Store.open({database!r})"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "served by another process" in other.stderr
    store.close()
    Store.open(database).close()


def test_a_second_process_is_refused_by_whatever_way_it_comes(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "devices.db")
    (tmp_path / "also").symlink_to(tmp_path)
    store = Store.open(str(tmp_path / "link.db"))
    monkeypatch.chdir(tmp_path / "folder")
    ways = [
        "../devices.db",
        "sqlite:///../link.db",
        f"{tmp_path}/also/devices.db",
        f"sqlite:///{tmp_path}/devices.db",
    ]
    for way in ways:
        with pytest.raises(OptionError, match="served by another process"):
            Store.open(way)
    store.close()
    assert (tmp_path / "devices.db").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "database",
    [
        "sqlite:///file:devices.db?uri=true",
        "sqlite:///file:devices.db",
        "file:devices.db",
        "sqlite:///a.db?mode=ro",
    ],
)
def test_files_of_sqlite_are_given_by_path_alone(database, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="path of a file of SQLite alone"):
        Store.open(database)
    assert not list(tmp_path.iterdir())


def test_a_closed_store_says_so(new_database):
    store = Store.open(new_database())
    store.close()
    with pytest.raises(ServiceError, match="closed"):
        store.load()


def test_sqlite_is_durable_and_checks_foreign_keys(tmp_path):
    path = tmp_path / "devices.db"
    store = Store.open(str(path))
    ask = store._connected().exec_driver_sql
    assert ask("PRAGMA journal_mode").scalar_one() == "wal"
    assert ask("PRAGMA synchronous").scalar_one() == 2
    assert ask("PRAGMA foreign_keys").scalar_one() == 1
    assert ask("PRAGMA secure_delete").scalar_one() == 1
    store.close()
    assert path.stat().st_mode & 0o077 == 0


def test_a_database_of_another_layout_is_refused(tmp_path):
    path = tmp_path / "devices.db"
    store = Store.open(str(path))
    store.write(Change(STATE))
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE location_state SET layout = 99")
    connection.close()
    store = Store.open(f"sqlite:///{path}")
    with pytest.raises(TableError, match="layout 99, expected 1"):
        store.load()
    store.close()


@pytest.mark.parametrize("database", ["mysql://somewhere/db", "nonsense://"])
def test_other_databases_are_refused(database):
    with pytest.raises(OptionError, match="database must be"):
        Store.open(database)


def test_a_database_that_cannot_be_opened_is_an_error_without_its_password(tmp_path):
    with pytest.raises(TableError, match="cannot be opened"):
        Store.open(str(tmp_path / "no" / "folder.db"))
    with pytest.raises(ServiceError, match="cannot be opened") as caught:
        Store.open(f"postgresql://someone:hidden@/db?host={tmp_path}")
    assert "hidden" not in str(caught.value)


def test_a_lost_connection_is_told_and_connecting_again_helps(postgresql):
    store = Store.open(postgresql.new_database())
    store.write(Change(STATE, added=devices_of(1)))
    ours = store._connected().execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    store._connected().rollback()
    other = sa.create_engine(store._engine.url, poolclass=sa.pool.NullPool)
    with other.begin() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": ours})
    with pytest.raises(ServiceError, match="cannot be written"):
        store.write(Change(STATE, removed=[1]))
    store.connect()
    assert len(store.load().devices) == 1
    store.close()
