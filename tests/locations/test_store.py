"""The database: locking, atomic changes, foreign keys and confidentiality."""

import sqlite3

import numpy as np
import pytest
import sqlalchemy as sa

from microcell.errors import OptionError, TableError
from microcell.locations.clustering import Clustering
from microcell.locations.differences import Build
from microcell.locations.publication import Standing
from microcell.locations.records import Publication
from microcell.locations.store import (
    CellMerge,
    CellUpdate,
    Change,
    DeviceRow,
    State,
    Store,
    StoreError,
    unpack_builds,
)
from tests.processes import Process
from tests.raising import raises

STATE = State(b"check", 2)


def standing_of(builds):
    """Cells that stand at places of their own."""
    count = len(builds)
    points = np.column_stack([np.full(count, 6000.0), np.arange(count) * 100.0, np.ones(count)])
    sizes = np.full(count, 2)
    return Standing(points, np.ones(count), np.array(builds), sizes, sizes + 1, sizes - 2)


def update_of(builds, cells, **options):
    count = len(cells)
    standing = standing_of(builds) if builds else Standing.empty()
    return CellUpdate(
        standing=standing,
        clustering=standing.clustering(),
        devices=np.arange(1, count + 1),
        cells=np.array(cells, dtype=np.int64),
        epochs=np.arange(count) * 2,
        status=np.zeros(count, dtype=np.int64),
        history=np.outer(np.arange(count), [1, 1, -1]),
        **options,
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


def test_changes_are_read_back(store):
    rows = devices_of(5)
    state = State(b"check", 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 8.5, 9.5, 10.5)
    builds = [Build(11, 1, 2), Build(12, 1, 3, {4: 2, -4: 1})]
    publication = Publication(1, 5.5, 5, 0, 2, 2, 2, 5, 0, 0.5, True, 0.1)
    update = update_of(
        [11, 12], [11, 11, 12, 12, 0], added=builds, generation=1, publication=publication
    )
    store.write(Change(state, added=rows, update=update))
    stored = store.load()
    assert stored.state == state
    assert [row.cell for row in stored.devices] == [11, 11, 12, 12, None]
    assert [row.pseudonym for row in stored.devices] == [row.pseudonym for row in rows]
    assert [row.epoch for row in stored.devices] == [0, 2, 4, 6, 8]
    assert (unpack_builds([row.builds for row in stored.devices]) == update.history).all()
    assert stored.ids.tolist() == [11, 12]
    for name in ("points", "radii", "builds", "bands", "sizes", "changes"):
        assert (getattr(stored.standing, name) == getattr(update.standing, name)).all()
    for name in ("cell_of", "places", "radius"):
        written = getattr(update.clustering, name)
        assert (getattr(stored.clustering, name) == written).all()
    assert stored.ledger.builds == {build.id: build for build in builds}
    assert stored.publications == [publication]
    store.write(Change(state, update=update_of([12], [12] * 5, closed=[11], generation=2)))
    assert store.load().ledger.builds[11].died == 2


def test_devices_are_moved_and_removed(store):
    store.write(Change(STATE, added=devices_of(3)))
    store.write(Change(STATE, moved=[DeviceRow(2, "name1", b"", b"new", None)], removed=[1]))
    assert [(row.id, row.sealed) for row in store.load().devices] == [(2, b"new"), (3, b"sealed")]


def test_cells_are_merged_replaced_and_removed(store):
    store.write(Change(STATE, added=devices_of(5), update=update_of([1, 2, 3], [1, 2, 2, 3, 3])))
    sites = standing_of([1, 2, 3]).diagram()
    places = np.array([[5.0, 6.0], standing_of([1, 2, 3]).clustering().places[2]])
    after = Clustering(sites, np.array([0, 0, 1]), places, np.ones(2))
    store.write(Change(STATE, merge=CellMerge([2], [1], np.array([1, 3]), after, 77)))
    stored = store.load()
    assert [row.cell for row in stored.devices] == [1, 1, 1, 3, 3]
    assert [row.epoch for row in stored.devices] == [77, 77, 77, 6, 8]
    assert stored.clustering.cell_of.tolist() == [0, 0, 1]
    assert (stored.clustering.places == places).all()
    # The next publication separates merged cells that still stand.
    store.write(Change(STATE, update=update_of([1, 2, 4], [1, 2, 2, 4, 4])))
    stored = store.load()
    assert [row.cell for row in stored.devices] == [1, 2, 2, 4, 4]
    assert (stored.clustering.places == standing_of([1, 2, 4]).clustering().places).all()
    store.write(Change(STATE, update=update_of([], [0] * 5)))
    assert {row.cell for row in store.load().devices} == {None}
    assert store.load().clustering is None


def test_devices_of_a_suspended_cell_wait(store):
    store.write(Change(STATE, added=devices_of(5), update=update_of([1, 2, 3], [1, 2, 2, 3, 3])))
    standing = standing_of([1, 2, 3])
    after = standing.clustering().part(np.array([0, 2]))[0]
    store.write(Change(STATE, merge=CellMerge([2], [None], np.array([1, 3]), after, 77)))
    stored = store.load()
    assert [row.cell for row in stored.devices] == [1, None, None, 3, 3]
    assert stored.cell_of.tolist() == [0, -1, 1]
    assert stored.ids.tolist() == [1, 3]
    assert (stored.standing.points == standing.points).all()
    assert stored.clustering.cell_of.tolist() == [0, 1]
    none = np.empty(0, dtype=np.int64)
    store.write(Change(STATE, merge=CellMerge([1, 3], [None, None], none, None, 79)))
    stored = store.load()
    assert (stored.clustering, stored.cell_of.tolist()) == (None, [-1, -1, -1])
    assert {row.cell for row in stored.devices} == {None}


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
    _, message = Process("tests.locations.living.open_store", database).communicate()
    assert "in use by another process" in message
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
