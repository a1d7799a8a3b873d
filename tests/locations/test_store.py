"""The database: locking, atomic changes, foreign keys and confidentiality."""

import sqlite3
import subprocess
import sys

import numpy as np
import pytest
import sqlalchemy as sa

from microcell.cells import PowerCells
from microcell.errors import OptionError, TableError
from microcell.locations.clustering import Clustering
from microcell.locations.store import (
    CellMerge,
    CellReplacement,
    Change,
    DeviceRow,
    State,
    Store,
    StoreError,
)
from tests.raising import raises

STATE = State(b"check", 2)


def clustering_of(count):
    places = np.column_stack([np.arange(count) * 10.0, np.zeros(count)])
    sites = PowerCells(
        centroids=np.arange(count * 3.0).reshape(count, 3),
        sizes=np.full(count, 2),
        k=2,
        costs=np.arange(count * 1.0),
    )
    return Clustering(sites, np.arange(count), places, np.ones(count))


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


def test_changes_are_read_back(store):
    clustering, rows = clustering_of(2), devices_of(5)
    state = State(b"check", 2, 1, 2, 3, 4, 5, 6, 7, 8.5, 9.5)
    replacement = CellReplacement(
        np.array([11, 12]), clustering, np.arange(1, 6), np.array([0, 0, 1, 1, 1])
    )
    store.write(Change(state, added=rows, replacement=replacement))
    stored = store.load()
    assert stored.state == state
    assert [row.cell for row in stored.devices] == [11, 11, 12, 12, 12]
    assert [row.pseudonym for row in stored.devices] == [row.pseudonym for row in rows]
    assert stored.ids.tolist() == [11, 12]
    for name in ("cell_of", "places", "radius"):
        assert (getattr(stored.clustering, name) == getattr(clustering, name)).all()
    for name in ("centroids", "costs", "sizes"):
        loaded, written = (getattr(item.sites, name) for item in (stored.clustering, clustering))
        assert (loaded == written).all()


def test_devices_are_moved_and_removed(store):
    store.write(Change(STATE, added=devices_of(3)))
    store.write(Change(STATE, moved=[DeviceRow(2, "name1", b"", b"new", None)], removed=[1]))
    assert [(row.id, row.sealed) for row in store.load().devices] == [(2, b"new"), (3, b"sealed")]


def test_cells_are_merged_replaced_and_removed(store):
    everyone = np.arange(1, 6)
    first = CellReplacement(
        np.array([1, 2, 3]), clustering_of(3), everyone, np.array([0, 1, 1, 2, 2])
    )
    store.write(Change(STATE, added=devices_of(5), replacement=first))
    after = Clustering(
        clustering_of(3).sites,
        np.array([0, 0, 1]),
        np.array([[5.0, 6.0], [20.0, 0.0]]),
        np.ones(2),
    )
    store.write(Change(STATE, merge=CellMerge([2], [1], np.array([1, 3]), after)))
    stored = store.load()
    assert [row.cell for row in stored.devices] == [1, 1, 1, 3, 3]
    assert stored.clustering.cell_of.tolist() == [0, 0, 1]
    assert stored.clustering.places.tolist() == [[5.0, 6.0], [20.0, 0.0]]
    store.write(
        Change(
            STATE,
            replacement=CellReplacement(
                np.array([4]), clustering_of(1), everyone, np.zeros(5, dtype=int)
            ),
        )
    )
    assert {row.cell for row in store.load().devices} == {4}
    none = np.empty(0, dtype=np.int64)
    store.write(Change(STATE, replacement=CellReplacement(none, None, none, none)))
    assert {row.cell for row in store.load().devices} == {None}
    assert store.load().clustering is None


def test_a_failed_change_writes_nothing(store):
    store.write(Change(STATE, added=devices_of(2)))
    again = [
        DeviceRow(9, "new", b"", b"", None),
        DeviceRow(1, "old id", b"", b"hidden value", None),
    ]
    with raises(StoreError, "service.unavailable") as caught:
        store.write(Change(STATE, added=again))
    assert "hidden" not in str(caught.value)
    assert [row.pseudonym for row in store.load().devices] == ["name0", "name1"]


def test_a_device_cannot_refer_to_a_missing_cell(store):
    with raises(StoreError, "service.unavailable"):
        store.write(Change(STATE, added=[DeviceRow(1, "a", b"", b"", 77)]))


def test_a_second_process_is_rejected(new_database):
    database = new_database()
    store = Store.open(database)
    with raises(OptionError, "option.conflict", option="database"):
        Store.open(database)
    code = f"from microcell.locations.store import Store; Store.open({database!r})"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "in use by another process" in other.stderr
    store.close()
    Store.open(database).close()


def test_a_second_process_is_rejected_for_every_spelling_of_the_path(tmp_path, monkeypatch):
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
        with raises(OptionError, "option.conflict", option="database"):
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
def test_sqlite_urls_with_options_are_rejected(database, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with raises(OptionError, "option.invalid", option="database"):
        Store.open(database)
    assert not list(tmp_path.iterdir())


def test_a_closed_store_raises(new_database):
    store = Store.open(new_database())
    store.close()
    with raises(StoreError, "service.unavailable"):
        store.load()


def test_sqlite_is_durable_and_checks_foreign_keys(tmp_path):
    path = tmp_path / "devices.db"
    store = Store.open(str(path))
    execute = store._connected().exec_driver_sql
    assert execute("PRAGMA journal_mode").scalar_one() == "wal"
    assert execute("PRAGMA synchronous").scalar_one() == 2
    assert execute("PRAGMA foreign_keys").scalar_one() == 1
    assert execute("PRAGMA secure_delete").scalar_one() == 1
    store.close()
    assert path.stat().st_mode & 0o077 == 0


def test_a_database_with_another_layout_is_rejected(tmp_path):
    path = tmp_path / "devices.db"
    store = Store.open(str(path))
    store.write(Change(STATE))
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE location_state SET layout = 99")
    connection.close()
    store = Store.open(f"sqlite:///{path}")
    with raises(TableError, "table.unknown_format", layout=99):
        store.load()
    store.close()


@pytest.mark.parametrize("database", ["mysql://somewhere/db", "nonsense://"])
def test_other_databases_are_rejected(database):
    with raises(OptionError, "option.invalid", option="database"):
        Store.open(database)


def test_errors_do_not_contain_the_password(tmp_path):
    with raises(TableError, "table.unreadable"):
        Store.open(str(tmp_path / "no" / "folder.db"))
    with raises(StoreError, "service.unavailable") as caught:
        Store.open(f"postgresql://someone:hidden@/db?host={tmp_path}")
    assert "hidden" not in str(caught.value)


def test_a_lost_connection_raises_and_can_be_reestablished(postgresql):
    store = Store.open(postgresql.new_database())
    store.write(Change(STATE, added=devices_of(1)))
    ours = store._connected().execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    store._connected().rollback()
    other = sa.create_engine(store._engine.url, poolclass=sa.pool.NullPool)
    with other.begin() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": ours})
    with raises(StoreError, "service.unavailable"):
        store.write(Change(STATE, removed=[1]))
    store.connect()
    assert len(store.load().devices) == 1
    store.close()
