"""Database of the service, SQLite or PostgreSQL: devices, cells, builds and counters.

A change is one transaction and durable once :meth:`Store.write` returns. One process serves a
database at a time: a lock, released however the process ends, keeps others out.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import NullPool, StaticPool

from microcell._display import record_html, record_repr
from microcell.errors import OptionError, ServiceError, TableError
from microcell.locations.clustering import Clustering
from microcell.locations.differences import Build, Ledger
from microcell.locations.publication import UNPLACED, Standing
from microcell.locations.records import Publication
from microcell.model import Floats, Integers

__all__ = [
    "CellMerge",
    "CellUpdate",
    "Change",
    "DeviceRow",
    "Snapshot",
    "State",
    "Store",
    "StoreError",
]


class StoreError(ServiceError):
    """The database failed. It is unknown whether the change was written."""


@dataclass(frozen=True)
class State:
    """Counters and times after a change; ``k`` is the guarantee of the cells being served."""

    check_value: bytes = field(repr=False)
    k: int
    generation: int = 0
    publications: int = 0
    rebuilds: int = 0
    merges: int = 0
    sign_ups: int = 0
    moves: int = 0
    cancellations: int = 0
    changes: int = 0
    departures: int = 0
    """Devices of the last publication that have cancelled since."""
    published_at: float | None = None
    rebuilt_at: float | None = None
    rebuild_seconds: float | None = None

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device as stored: the digest of its token, its encrypted location and its cell's id.

    ``epoch`` is that of its alias, ``status`` what it has done since the last publication, and
    ``builds`` the builds it was part of, latest first, negative if it has moved since.
    """

    id: int
    pseudonym: str
    digest: bytes = field(repr=False)
    sealed: bytes = field(repr=False)
    cell: int | None
    epoch: int = 1
    status: int = 1
    builds: bytes = b""


@dataclass(frozen=True, eq=False)
class CellMerge:
    """Cells that are no longer served, and the clustering of those that are, with their ids.

    The devices of each cell ``gone`` use the cell ``kept``, or wait if that is None. The aliases of
    all devices of the cells kept get this ``epoch``; ``gone`` may be empty.
    """

    gone: Sequence[int]
    kept: Sequence[int | None]
    ids: Integers
    clustering: Clustering | None
    epoch: int

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True, eq=False)
class CellUpdate:
    """The next publication: its cells, the devices that it changes, and the builds.

    Without cells, all devices wait. ``cells`` are the ids of the cells of ``devices``, 0 for those
    that wait.
    """

    standing: Standing
    clustering: Clustering | None
    devices: Integers
    cells: Integers
    epochs: Integers
    status: Integers
    history: Integers
    added: Sequence[Build] = ()
    closed: Sequence[int] = ()
    generation: int = 0
    publication: Publication | None = None

    __repr__ = record_repr


@dataclass(frozen=True, eq=False)
class Change:
    """Content of one transaction: devices first, then updated or merged cells, then the state."""

    state: State
    added: Sequence[DeviceRow] = ()
    moved: Sequence[DeviceRow] = ()
    removed: Sequence[int] = ()
    merge: CellMerge | None = None
    update: CellUpdate | None = None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Complete content of a database.

    ``ids`` are the ids of the clustering's cells, in order. ``cell_of`` is the number of the served
    cell of each standing cell, or UNPLACED if it has none until the next publication.
    """

    state: State | None
    devices: Sequence[DeviceRow]
    clustering: Clustering | None
    ids: Integers
    cell_of: Integers
    standing: Standing = field(default_factory=Standing.empty)
    ledger: Ledger = field(default_factory=Ledger)
    publications: Sequence[Publication] = ()


LAYOUT = 4
"""Version of the database tables."""

_ADVISORY_LOCK = 7_310_579_263_044_108_643
"""Number of the PostgreSQL advisory lock; arbitrary, but unlikely to be used by others."""

LOCK_TIMEOUT = 3.0
"""Seconds to wait for the lock: PostgreSQL may take a moment to notice that a process died."""

CONNECT_TIMEOUT = 10
"""Seconds to wait for a database server."""

_TABLES = sa.MetaData()
_CELLS = sa.Table(
    "location_cells",
    _TABLES,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("latitude", sa.Double, nullable=False),
    sa.Column("longitude", sa.Double, nullable=False),
    sa.Column("radius", sa.Double, nullable=False),
)
_SITES = sa.Table(
    "location_sites",
    _TABLES,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("cell", sa.ForeignKey("location_cells.id"), nullable=True, index=True),
    *(sa.Column(name, sa.Double, nullable=False) for name in ("x", "y", "z", "radius")),
    *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("band", "size", "changes")),
)
_DEVICES = sa.Table(
    "location_devices",
    _TABLES,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("pseudonym", sa.String(64), nullable=False, unique=True),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("sealed", sa.LargeBinary, nullable=False),
    sa.Column("cell", sa.ForeignKey("location_cells.id"), nullable=True, index=True),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("status", sa.SmallInteger, nullable=False),
    sa.Column("builds", sa.LargeBinary, nullable=False),
)
_BUILDS = sa.Table(
    "location_builds",
    _TABLES,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("born", "size")),
    sa.Column("overlaps", sa.Text, nullable=False),
    sa.Column("died", sa.BigInteger, nullable=True),
)
_PUBLICATIONS = sa.Table(
    "location_publications",
    _TABLES,
    sa.Column("generation", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double, nullable=False),
    *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("devices", "waiting", "cells")),
    *(
        sa.Column(name, sa.BigInteger, nullable=True)
        for name in ("smallest_cell", "k_over_history")
    ),
    *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("changed", "renewed")),
    sa.Column("distance", sa.Double, nullable=True),
    sa.Column("rebuilt", sa.Boolean, nullable=False),
    sa.Column("seconds", sa.Double, nullable=False),
)
MAX_PUBLICATIONS = 1_000
"""Publications whose figures are kept."""

_COUNTERS = (
    "generation",
    "publications",
    "rebuilds",
    "merges",
    "sign_ups",
    "moves",
    "cancellations",
    "changes",
    "departures",
)
_STATE = sa.Table(
    "location_state",
    _TABLES,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("layout", sa.Integer, nullable=False),
    sa.Column("check_value", sa.LargeBinary, nullable=False),
    sa.Column("k", sa.BigInteger, nullable=False),
    *(sa.Column(name, sa.BigInteger, nullable=False) for name in _COUNTERS),
    sa.Column("published_at", sa.Double, nullable=True),
    sa.Column("rebuilt_at", sa.Double, nullable=True),
    sa.Column("rebuild_seconds", sa.Double, nullable=True),
)


class Store:
    """A database locked for this process; its connection is used by one thread at a time.

    Examples
    --------
    >>> store = Store.open("sqlite://")
    >>> store.load().state is None
    True
    >>> store.close()
    """

    def __init__(self, name: str, engine: sa.Engine, lock_engine: sa.Engine | None) -> None:
        self._name = name
        self._engine = engine
        self._lock_engine = lock_engine
        self._lock_connection: sa.Connection | None = None
        self._connection: sa.Connection | None = None

    @classmethod
    def open(cls, database: str) -> Self:
        """Open an SQLite file by path, or a server such as ``postgresql://user@host/name``."""
        url = _parse_url(database)
        store = cls(url.render_as_string(), _make_engine(url), _make_lock_engine(url))
        try:
            store.connect()
        except BaseException:
            store.close()
            raise
        return store

    def __repr__(self) -> str:
        return f"Store({self._name!r})"

    def connect(self) -> None:
        """Connect (again), take the lock and create missing tables."""
        self._disconnect()
        with self._translated_errors("opened"):
            self._take_lock()
            with self._connected().begin():
                _TABLES.create_all(self._connected(), checkfirst=True)

    def load(self) -> Snapshot:
        """Read the whole database."""
        with self._translated_errors("read"), self._connected().begin():
            row = self._run(sa.select(_STATE)).mappings().one_or_none()
            if row is not None and row["layout"] != LAYOUT:
                raise TableError(
                    f"The database has layout {row['layout']}, but this version of microcell "
                    f"reads layout {LAYOUT}. Use the version of microcell that created it.",
                    code="table.unknown_format",
                    layout=row["layout"],
                )
            rows = self._run(sa.select(_DEVICES).order_by(_DEVICES.c.id))
            devices = [
                DeviceRow(
                    row.id,
                    row.pseudonym,
                    bytes(row.digest),
                    bytes(row.sealed),
                    row.cell,
                    row.epoch,
                    row.status,
                    bytes(row.builds),
                )
                for row in rows
            ]
            cells = self._run(sa.select(_CELLS).order_by(_CELLS.c.id)).all()
            sites = self._run(sa.select(_SITES).order_by(_SITES.c.id)).all()
            builds = self._run(sa.select(_BUILDS)).all()
            publications = self._run(
                sa.select(_PUBLICATIONS).order_by(_PUBLICATIONS.c.generation)
            ).mappings()
            history = [Publication(**figures) for figures in publications]
        state = (
            None
            if row is None
            else State(**{name: row[name] for name in row if name not in {"id", "layout"}})
        )
        ids = np.array([cell.id for cell in cells], dtype=np.int64)
        standing = _read_standing(sites)
        cell_of = numbers_of([site.cell for site in sites], ids)
        clustering = _read_clustering(cells, cell_of, standing)
        ledger = Ledger({build.id: _read_build(build) for build in builds})
        return Snapshot(state, devices, clustering, ids, cell_of, standing, ledger, history)

    @property
    def can_lose_lock(self) -> bool:
        """True if the lock depends on a connection to a server rather than on a file."""
        return self._is_postgresql

    def check(self) -> None:
        """Raise StoreError if the connection, and with it the lock, is gone."""
        with self._translated_errors("reached"):
            self._select(sa.literal(1))

    def last_k(self) -> int:
        """Return the k that the database was last served with."""
        with self._translated_errors("read"), self._connected().begin():
            k = self._run(sa.select(_STATE.c.k)).scalar_one_or_none()
        if k is None:
            raise OptionError(
                f"The database {self._name} is new, so k is required. Pass k.",
                code="option.missing",
                option="k",
            )
        return int(k)

    def write(self, change: Change) -> None:
        """Write a change atomically; it is durable when this method returns."""
        with self._translated_errors("written"), self._connected().begin():
            self._write_devices(change)
            if change.update is not None:
                self._write_update(change.update)
            if change.merge is not None:
                self._write_merge(change.merge)
            state = {"layout": LAYOUT, **asdict(change.state)}
            if self._run(sa.update(_STATE).values(**state)).rowcount == 0:
                self._run(sa.insert(_STATE).values(id=1, **state))

    def close(self) -> None:
        """Release the connection and the lock."""
        self._disconnect()
        self._engine.dispose()
        if self._lock_engine is not None:
            self._lock_engine.dispose()

    # ---------------------------------------------------------------------------- writing

    def _write_devices(self, change: Change) -> None:
        if change.removed:
            self._run(
                sa.delete(_DEVICES).where(_DEVICES.c.id == sa.bindparam("b_id")),
                _parameters("b_id", change.removed),
            )
        if change.moved:
            statement = sa.update(_DEVICES).where(_DEVICES.c.id == sa.bindparam("b_id"))
            self._run(
                statement.values(
                    sealed=sa.bindparam("b_sealed"),
                    status=sa.bindparam("b_status"),
                    builds=sa.bindparam("b_builds"),
                ),
                [
                    {
                        "b_id": row.id,
                        "b_sealed": row.sealed,
                        "b_status": row.status,
                        "b_builds": row.builds,
                    }
                    for row in change.moved
                ],
            )
        if change.added:
            self._run(sa.insert(_DEVICES), [asdict(row) for row in change.added])

    def _write_merge(self, merge: CellMerge) -> None:
        remaining = {kept for kept in merge.kept if kept is not None}
        for table in (_DEVICES, _SITES) if merge.gone else ():
            self._run(
                sa.update(table)
                .where(table.c.cell == sa.bindparam("b_gone"))
                .values(cell=sa.bindparam("b_kept")),
                [
                    {"b_gone": gone, "b_kept": kept}
                    for gone, kept in zip(merge.gone, merge.kept, strict=True)
                ],
            )
        if merge.gone:
            self._run(
                sa.delete(_CELLS).where(_CELLS.c.id == sa.bindparam("b_gone")),
                _parameters("b_gone", merge.gone),
            )
        if merge.clustering is not None and remaining:
            self._run(
                sa.update(_DEVICES).where(_DEVICES.c.cell == sa.bindparam("b_cell")),
                [{"b_cell": kept, "epoch": merge.epoch} for kept in remaining],
            )
            changed = np.flatnonzero(np.isin(merge.ids, list(remaining)))
            self._update_cells(_cell_rows(merge.clustering, merge.ids, changed))

    def _update_cells(self, rows: list[dict[str, Any]]) -> None:
        columns = ("latitude", "longitude", "radius")
        self._run(
            sa.update(_CELLS)
            .where(_CELLS.c.id == sa.bindparam("b_id"))
            .values({name: sa.bindparam(f"b_{name}") for name in columns}),
            [{f"b_{name}": value for name, value in row.items()} for row in rows],
        )

    def _write_update(self, new: CellUpdate) -> None:
        """Write new cells, then assign devices, then delete old cells.

        In this order every device refers to an existing cell at all times.
        """
        before = set(self._run(sa.select(_CELLS.c.id)).scalars())
        ids = set(new.standing.builds.tolist())
        if new.clustering is not None:
            rows = _cell_rows(new.clustering, new.standing.builds, np.arange(len(new.standing)))
            fresh = [row for row in rows if row["id"] not in before]
            old = [row for row in rows if row["id"] in before]
            if fresh:
                self._run(sa.insert(_CELLS), fresh)
            if old:
                self._update_cells(old)
        if len(new.devices):
            self._assign(new)
        self._run(sa.delete(_SITES))
        if len(new.standing):
            self._run(sa.insert(_SITES), _site_rows(new.standing))
        if before - ids:
            self._run(
                sa.delete(_CELLS).where(_CELLS.c.id == sa.bindparam("b_id")),
                _parameters("b_id", sorted(before - ids)),
            )
        self._write_builds(new)

    def _write_builds(self, new: CellUpdate) -> None:
        if new.added:
            self._run(sa.insert(_BUILDS), [_build_row(build) for build in new.added])
        if new.closed:
            self._run(
                sa.update(_BUILDS).where(_BUILDS.c.id == sa.bindparam("b_id")),
                [{"b_id": number, "died": new.generation} for number in new.closed],
            )
        if new.publication is not None:
            self._run(sa.insert(_PUBLICATIONS).values(**asdict(new.publication)))
            oldest = new.publication.generation - MAX_PUBLICATIONS
            self._run(sa.delete(_PUBLICATIONS).where(_PUBLICATIONS.c.generation <= oldest))

    def _assign(self, new: CellUpdate) -> None:
        """Update devices: one statement on PostgreSQL, one per device on SQLite."""
        cells = [cell or None for cell in new.cells.tolist()]
        builds = pack_builds(new.history)
        columns = {
            "cell": ("bigint", cells),
            "epoch": ("bigint", new.epochs.tolist()),
            "status": ("smallint", new.status.tolist()),
            "builds": ("bytea", builds),
        }
        if self._is_postgresql:
            types = {"id": ("bigint", new.devices.tolist()), **columns}
            arrays = ", ".join(f"CAST(:{name} AS {kind}[])" for name, (kind, _) in types.items())
            updates = ", ".join(f"{name} = new.{name}" for name in columns)
            self._run(
                sa.text(
                    f"UPDATE location_devices SET {updates} FROM unnest({arrays}) "
                    f"AS new ({', '.join(types)}) WHERE location_devices.id = new.id"
                ),
                [{name: values for name, (_, values) in types.items()}],
            )
            return
        updates = ", ".join(f"{name} = ?" for name in columns)
        self._connected().exec_driver_sql(
            f"UPDATE location_devices SET {updates} WHERE id = ?",
            list(
                zip(*(values for _, values in columns.values()), new.devices.tolist(), strict=True)
            ),
        )

    # ---------------------------------------------------------------------------- connections

    def _connected(self) -> sa.Connection:
        if self._connection is None:
            raise StoreError(f"The database {self._name} is closed.", code="service.unavailable")
        return self._connection

    def _run(self, statement: Any, rows: list[dict[str, Any]] | None = None) -> Any:
        return self._connected().execute(statement, rows)

    def _take_lock(self) -> None:
        """Connect and take the lock, which is released with the connection, even by a crash."""
        taken = OptionError(
            f"The database {self._name} is in use by another process. Stop that process first.",
            code="option.conflict",
            option="database",
        )
        if self._lock_engine is not None:
            self._lock_connection = self._lock_engine.connect()
            try:
                self._lock_connection.exec_driver_sql("BEGIN EXCLUSIVE")
            except sa.exc.OperationalError:
                raise taken from None
        self._connection = self._engine.connect()
        deadline = time.monotonic() + LOCK_TIMEOUT
        while self._is_postgresql and not self._select(
            sa.func.pg_try_advisory_lock(_ADVISORY_LOCK)
        ):
            if time.monotonic() > deadline:
                raise taken
            time.sleep(0.05)

    @property
    def _is_postgresql(self) -> bool:
        return self._engine.dialect.name == "postgresql"

    def _select(self, expression: Any) -> Any:
        with self._connected().begin():
            return self._run(sa.select(expression)).scalar_one()

    def _disconnect(self) -> None:
        if self._is_postgresql and self._connection is not None:
            # Unlock now rather than when the server notices that the connection is gone.
            with suppress(sa.exc.SQLAlchemyError):
                self._select(sa.func.pg_advisory_unlock_all().label("done"))
        for connection in (self._connection, self._lock_connection):
            if connection is not None:
                with suppress(sa.exc.SQLAlchemyError):  # it may be broken already
                    connection.invalidate() if connection.in_transaction() else connection.close()
        self._connection = None
        self._lock_connection = None

    @contextmanager
    def _translated_errors(self, action: str) -> Iterator[None]:
        """Raise database errors as StoreError, without statements or values."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            kind = type(getattr(error, "orig", None) or error).__name__
            raise StoreError(
                f"The database {self._name} cannot be {action} ({kind}). Check its log, "
                "permissions and free disk space.",
                code="service.unavailable",
                cause=kind,
            ) from None


def _parse_url(database: str) -> sa.URL:
    """Return the URL of a database, with the real path of an SQLite file.

    The lock file lies next to the database, so every link to it must lead to the same path.
    """
    url = sa.URL.create("sqlite", database=database)
    if "://" in database:
        try:
            url = sa.make_url(database)
        except sa.exc.ArgumentError:
            raise _database_error(
                "The database must be a path or a URL such as postgresql://user@host/name."
            ) from None
    backend = url.get_backend_name()
    if backend in {"postgresql", "postgres"}:
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise _database_error(f"The database must be SQLite or PostgreSQL, not {backend}.")
    url = url.set(drivername="sqlite")
    if _in_memory(url):
        return url
    if url.query or str(url.database).startswith("file:"):
        raise _database_error(
            "An SQLite database must be given as a plain path without options: sqlite:///FILE."
        )
    return url.set(database=os.path.realpath(str(url.database)))


def _database_error(message: str) -> OptionError:
    return OptionError(message, code="option.invalid", option="database")


def _in_memory(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}


def _make_engine(url: sa.URL) -> sa.Engine:
    """Return an engine with durable commits that shows no values in messages or logs."""
    if url.get_backend_name() == "postgresql":
        options = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_TIMEOUT}
        engine = sa.create_engine(
            url, hide_parameters=True, poolclass=NullPool, connect_args=options
        )
        _on_connect(engine, ["SET synchronous_commit = on"])
        return engine
    if not _in_memory(url):
        _create_private_file(Path(str(url.database)))
    return _make_sqlite_engine(
        url, ["journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"]
    )


def _make_sqlite_engine(url: sa.URL, pragmas: Sequence[str], *, begin: bool = True) -> sa.Engine:
    """Return an SQLite engine without the implicit transactions of Python's sqlite3 module."""
    engine = sa.create_engine(
        url,
        hide_parameters=True,
        poolclass=StaticPool if _in_memory(url) else NullPool,
        connect_args={"check_same_thread": False, "isolation_level": None},
    )
    _on_connect(engine, [f"PRAGMA {pragma}" for pragma in pragmas])
    if begin:
        event.listen(
            engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE")
        )
    return engine


def _make_lock_engine(url: sa.URL) -> sa.Engine | None:
    """Return an engine on a file next to an SQLite database, to hold an exclusive transaction."""
    if url.get_backend_name() != "sqlite" or _in_memory(url):
        return None
    lock = sa.URL.create("sqlite", database=f"{url.database}.lock")
    return _make_sqlite_engine(lock, ["busy_timeout = 0"], begin=False)


def _create_private_file(path: Path) -> None:
    try:
        path.touch(mode=0o600, exist_ok=True)
    except OSError as error:
        raise TableError(
            f"The database {path} cannot be opened ({type(error).__name__}). "
            "Check the path and its permissions.",
            code="table.unreadable",
            path=str(path),
        ) from None


def _on_connect(engine: sa.Engine, statements: Sequence[str]) -> None:
    """Execute statements on every new connection of an engine."""

    def execute(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.close()
        connection.commit()

    event.listen(engine, "connect", execute)


# -------------------------------------------------------------------------------- rows


def _parameters(name: str, values: Sequence[int]) -> list[dict[str, Any]]:
    return [{name: int(value)} for value in values]


def _cell_rows(clustering: Clustering, ids: Integers, numbers: Integers) -> list[dict[str, Any]]:
    places = clustering.places[numbers].tolist()
    radii = clustering.radius[numbers].tolist()
    return [
        {"id": id, "latitude": latitude, "longitude": longitude, "radius": radius}
        for id, (latitude, longitude), radius in zip(
            ids[numbers].tolist(), places, radii, strict=True
        )
    ]


def _site_rows(standing: Standing) -> list[dict[str, Any]]:
    columns = {
        "id": standing.builds,
        "cell": standing.builds,
        **dict(zip("xyz", standing.points.T, strict=True)),
        "radius": standing.radii,
        "band": standing.bands,
        "size": standing.sizes,
        "changes": standing.changes,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _build_row(build: Build) -> dict[str, Any]:
    return {**asdict(build), "overlaps": json.dumps(dict(build.overlaps))}


def _read_build(row: Any) -> Build:
    overlaps = {int(number): count for number, count in json.loads(row.overlaps).items()}
    return Build(row.id, row.born, row.size, overlaps, row.died)


def pack_builds(history: Integers) -> list[bytes]:
    """Return the builds of each device as bytes, without empty entries."""
    counts = np.count_nonzero(history, axis=1).tolist()
    rows = history.astype("<i8")
    return [row[:count].tobytes() for row, count in zip(rows, counts, strict=True)]


def unpack_builds(packed: Sequence[bytes]) -> Integers:
    """Return the builds of each device, padded with zeros.

    Examples
    --------
    >>> unpack_builds(pack_builds(np.array([[5, 3], [4, 0]]))).tolist()
    [[5, 3], [4, 0]]
    """
    builds = [np.frombuffer(text, dtype="<i8") for text in packed]
    width = max([1, *map(len, builds)])
    history = np.zeros((len(packed), width), dtype=np.int64)
    for row, numbers in zip(history, builds, strict=True):
        row[: len(numbers)] = numbers
    return history


def _read_standing(sites: Sequence[Any]) -> Standing:
    def integers(name: str) -> Integers:
        return np.array([getattr(site, name) for site in sites], dtype=np.int64)

    points: Floats = np.array([(site.x, site.y, site.z) for site in sites], dtype=np.float64)
    return Standing(
        points.reshape(-1, 3),
        np.array([site.radius for site in sites], dtype=np.float64),
        integers("id"),
        integers("band"),
        integers("size"),
        integers("changes"),
    )


def numbers_of(cells: Sequence[int | None], ids: Integers) -> Integers:
    """Return the number of each cell, given the sorted ids, and UNPLACED for None.

    Examples
    --------
    >>> numbers_of([7, None, 5], np.array([5, 7])).tolist()
    [1, -1, 0]
    """
    known = np.array([0 if cell is None else cell for cell in cells], dtype=np.int64)
    numbers = np.searchsorted(ids, known)
    waits = np.array([cell is None for cell in cells], dtype=np.bool_)
    return np.where(waits, UNPLACED, numbers).astype(np.int64)


def _read_clustering(
    cells: Sequence[Any], cell_of: Integers, standing: Standing
) -> Clustering | None:
    if not cells:
        return None
    served = cell_of >= 0
    return Clustering(
        standing.take(served).diagram(),
        cell_of[served],
        np.array([(cell.latitude, cell.longitude) for cell in cells], dtype=np.float64),
        np.array([cell.radius for cell in cells], dtype=np.float64),
    )
