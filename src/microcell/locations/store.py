"""The service's database, SQLite or PostgreSQL: devices with sealed coordinates, cells, sites, and the state of things.

A change is one transaction, and durable once :meth:`Store.write` returns. One process serves one database: a lock,
which goes with the process however it ends, keeps a second one out.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import sqlalchemy as sa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import event
from sqlalchemy.pool import NullPool, StaticPool

from microcell.errors import DataError, OptionError, ServiceError, TableError
from microcell.locations.clustering import Clustering
from microcell.model import Integers

__all__ = [
    "KEY_VARIABLE",
    "BrokenStoreError",
    "Change",
    "DeviceRow",
    "Merged",
    "State",
    "Store",
    "Stored",
    "Switched",
    "Vault",
    "digest_of",
    "new_key",
    "new_pseudonym",
    "new_token",
    "read_key",
    "same_digest",
]


class BrokenStoreError(ServiceError):
    """The database failed; whether a change was written is not known."""


@dataclass(frozen=True)
class State:
    """Counts and times, as they stand after a change; ``k`` is what the cells that are served hold to."""

    check_value: bytes = field(repr=False)
    k: int
    generation: int = 0
    rebuilds: int = 0
    merges: int = 0
    sign_ups: int = 0
    moves: int = 0
    cancellations: int = 0
    changes: int = 0
    rebuilt: float | None = None
    rebuild_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device as it is kept: a digest in place of the token, sealed coordinates, and the cell's id."""

    id: int
    pseudonym: str
    digest: bytes = field(repr=False)
    sealed: bytes = field(repr=False)
    cell: int | None


@dataclass(frozen=True, eq=False)
class Merged:
    """Cells that became one with another: their ids, the ids of the others, and the clustering thereafter."""

    gone: Sequence[int]
    kept: Sequence[int]
    ids: Integers
    clustering: Clustering


@dataclass(frozen=True, eq=False)
class Switched:
    """New cells for all: the ids of the cells, the clustering, and each device's cell; no clustering: all wait."""

    ids: Integers
    clustering: Clustering | None
    devices: Integers
    cells: Integers
    """The number, not the id, of the cell of each of the devices."""


@dataclass(frozen=True, eq=False)
class Change:
    """What one transaction writes: devices that come, move and go; then cells merged, or switched; then the state."""

    state: State
    added: Sequence[DeviceRow] = ()
    moved: Sequence[DeviceRow] = ()
    removed: Sequence[int] = ()
    merged: Merged | None = None
    switched: Switched | None = None


@dataclass(frozen=True, eq=False)
class Stored:
    """All that a database holds; ``ids`` are those of the clustering's cells in their order."""

    state: State | None
    devices: Sequence[DeviceRow]
    clustering: Clustering | None
    ids: Integers


KEY_VARIABLE = "MICROCELL_LOCATIONS_KEY"
"""The environment variable that holds the key, in base64."""

_KEY_BYTES, _NONCE_BYTES = 32, 12
_CHECK, _CHECKED = b"microcell locations: check of the key", b"\x00check"
_PLACE = struct.Struct("<dd")


class Vault:
    """Seals coordinates, each for one pseudonym, and opens them again; the key itself it never shows.

    AES-256-GCM with a random nonce of 96 bits (NIST SP 800-38D) and the pseudonym as associated data, so that what was
    sealed for one device does not open for another. After 2^32 seals with one key, renew the key.

    Examples
    --------
    >>> vault = Vault(new_key())
    >>> vault.open("a", vault.seal("a", 41.0, 2.0))
    (41.0, 2.0)
    """

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
            raise OptionError(f"The key must be {_KEY_BYTES} bytes, as new_key makes them.")
        self._cipher = AESGCM(key)

    def __repr__(self) -> str:
        return "Vault(...)"

    def seal(self, pseudonym: str, latitude: float, longitude: float) -> bytes:
        """The coordinates, sealed for this pseudonym."""
        return self._seal(pseudonym.encode(), _PLACE.pack(latitude, longitude))

    def open(self, pseudonym: str, sealed: bytes) -> tuple[float, float]:
        """Latitude and longitude, as they were sealed for this pseudonym."""
        latitude, longitude = _PLACE.unpack(self._open(pseudonym.encode(), sealed))
        return latitude, longitude

    def check_value(self) -> bytes:
        """A value by which :meth:`refuse_other_key` knows this key again."""
        return self._seal(_CHECKED, _CHECK)

    def refuse_other_key(self, check_value: bytes) -> None:
        """Nothing, if the check value was made with this key."""
        try:
            opened = self._open(_CHECKED, check_value)
        except DataError:
            opened = b""
        if opened != _CHECK:
            raise OptionError(
                f"The database was sealed with another key: nothing is served. Give its key in {KEY_VARIABLE}."
            )

    def _seal(self, belongs: bytes, content: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, belongs)

    def _open(self, belongs: bytes, sealed: bytes) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], belongs)
        except (InvalidTag, ValueError):
            raise DataError(
                "A sealed location does not open: it was changed, or moved to another device."
            ) from None


def new_key() -> bytes:
    """A random key of 32 bytes.

    Examples
    --------
    >>> len(new_key())
    32
    """
    return secrets.token_bytes(_KEY_BYTES)


def read_key(text: str) -> bytes:
    """The key that base64 text stands for, as the environment holds it.

    Examples
    --------
    >>> read_key(base64.b64encode(bytes(32)).decode()) == bytes(32)
    True
    """
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise OptionError(
            f"{KEY_VARIABLE} must be {_KEY_BYTES} random bytes in base64, such as openssl rand -base64 32."
        )
    return key


def new_pseudonym() -> str:
    """A name that tells nothing: 128 random bits."""
    return secrets.token_urlsafe(16)


def new_token() -> str:
    """What a device proves itself with: 256 random bits."""
    return secrets.token_urlsafe(32)


def digest_of(token: str) -> bytes:
    """The SHA-256 digest that is kept in the token's place: enough for what is random and long."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def same_digest(one: bytes, other: bytes) -> bool:
    """Whether two digests are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)


LAYOUT = 1
"""Of the tables; another number is another program's."""

_ADVISORY = 7_310_579_263_044_108_643
"""The number of the lock in PostgreSQL: any that nobody else takes."""

PATIENCE = 3.0
"""Seconds until the lock is taken for another's: PostgreSQL may not have noticed yet that a process was killed."""

CONNECTING = 10
"""Seconds until a server that does not answer counts as one that is not there."""

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
    sa.Column("cell", sa.ForeignKey("location_cells.id"), nullable=False, index=True),
    *(sa.Column(name, sa.Double, nullable=False) for name in ("x", "y", "z", "cost")),
)
_DEVICES = sa.Table(
    "location_devices",
    _TABLES,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("pseudonym", sa.String(64), nullable=False, unique=True),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("sealed", sa.LargeBinary, nullable=False),
    sa.Column("cell", sa.ForeignKey("location_cells.id"), nullable=True, index=True),
)
_STATE = sa.Table(
    "location_state",
    _TABLES,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("layout", sa.Integer, nullable=False),
    sa.Column("check_value", sa.LargeBinary, nullable=False),
    sa.Column("k", sa.BigInteger, nullable=False),
    *(
        sa.Column(name, sa.BigInteger, nullable=False)
        for name in (
            "generation",
            "rebuilds",
            "merges",
            "sign_ups",
            "moves",
            "cancellations",
            "changes",
        )
    ),
    sa.Column("rebuilt", sa.Double, nullable=True),
    sa.Column("rebuild_seconds", sa.Double, nullable=True),
)


class Store:
    """A database, locked for this process, of which one connection is used by one thread at a time.

    Examples
    --------
    >>> store = Store.open("sqlite://")
    >>> store.load().state is None
    True
    >>> store.close()
    """

    def __init__(self, name: str, engine: sa.Engine, lock: sa.Engine | None) -> None:
        self._name, self._engine, self._lock = name, engine, lock
        self._held: sa.Connection | None = None
        self._connection: sa.Connection | None = None

    @classmethod
    def open(cls, database: str) -> Self:
        """The database at a path (SQLite), or at an address such as ``postgresql://user@host/name``."""
        url = _as_url(database)
        store = cls(url.render_as_string(), _engine(url), _lock_engine(url))
        try:
            store.connect()
        except BaseException:
            store.close()
            raise
        return store

    def __repr__(self) -> str:
        return f"Store({self._name!r})"

    def connect(self) -> None:
        """Connect anew, take the lock and see that the tables are there."""
        self._disconnect()
        with self._explained("opened"):
            self._take_lock()
            with self._connected().begin():
                _TABLES.create_all(self._connected(), checkfirst=True)

    def load(self) -> Stored:
        """All that the database holds."""
        with self._explained("read"), self._connected().begin():
            run = self._connected().execute
            row = run(sa.select(_STATE)).mappings().one_or_none()
            if row is not None and row["layout"] != LAYOUT:
                raise TableError(
                    f"The database has layout {row['layout']}, expected {LAYOUT}: it is of another version."
                )
            state = (
                None
                if row is None
                else State(**{name: row[name] for name in row if name not in {"id", "layout"}})
            )
            devices = [
                DeviceRow(id, pseudonym, bytes(digest), bytes(sealed), cell)
                for id, pseudonym, digest, sealed, cell in run(
                    sa.select(_DEVICES).order_by(_DEVICES.c.id)
                )
            ]
            cells = run(sa.select(_CELLS).order_by(_CELLS.c.id)).all()
            sites = run(sa.select(_SITES).order_by(_SITES.c.id)).all()
        ids = np.array([cell.id for cell in cells], dtype=np.int64)
        return Stored(
            state, devices, _as_clustering(0 if state is None else state.k, ids, cells, sites), ids
        )

    @property
    def may_be_lost(self) -> bool:
        """Whether the lock may go while the process lives: with a connection to a server, and not with a file."""
        return self._is_postgresql

    def check(self) -> None:
        """Nothing, if the connection is still there, and with it the lock."""
        with self._explained("reached"):
            self._ask(sa.literal(1))

    def last_k(self) -> int:
        """The k that the database was served with."""
        with self._explained("read"), self._connected().begin():
            k = self._connected().execute(sa.select(_STATE.c.k)).scalar_one_or_none()
        if k is None:
            raise OptionError(f"The database {self._name} is new: give k.")
        return int(k)

    def write(self, change: Change) -> None:
        """Write a change; it is durable when this returns, and if it fails nothing of it was written, or all."""
        with self._explained("written"), self._connected().begin():
            self._write_devices(change)
            if change.merged is not None:
                self._write_merged(change.merged)
            if change.switched is not None:
                self._write_switched(change.switched)
            state = {"layout": LAYOUT, **asdict(change.state)}
            if self._run(sa.update(_STATE).values(**state)).rowcount == 0:
                self._run(sa.insert(_STATE).values(id=1, **state))

    def close(self) -> None:
        """Let go of the database and the lock."""
        self._disconnect()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.dispose()

    # ------------------------------------------------------------------------------------------ what a change writes

    def _write_devices(self, change: Change) -> None:
        if change.removed:
            self._run(
                sa.delete(_DEVICES).where(_DEVICES.c.id == sa.bindparam("b_id")),
                _each("b_id", change.removed),
            )
        if change.moved:
            statement = sa.update(_DEVICES).where(_DEVICES.c.id == sa.bindparam("b_id"))
            self._run(
                statement.values(sealed=sa.bindparam("b_sealed"), cell=sa.bindparam("b_cell")),
                [
                    {"b_id": row.id, "b_sealed": row.sealed, "b_cell": row.cell}
                    for row in change.moved
                ],
            )
        if change.added:
            self._run(sa.insert(_DEVICES), [_as_dict(row) for row in change.added])

    def _write_merged(self, merged: Merged) -> None:
        for table in (_DEVICES, _SITES):
            self._run(
                sa.update(table)
                .where(table.c.cell == sa.bindparam("b_gone"))
                .values(cell=sa.bindparam("b_kept")),
                [
                    {"b_gone": gone, "b_kept": kept}
                    for gone, kept in zip(merged.gone, merged.kept, strict=True)
                ],
            )
        self._run(
            sa.delete(_CELLS).where(_CELLS.c.id == sa.bindparam("b_gone")),
            _each("b_gone", merged.gone),
        )
        changed = np.flatnonzero(np.isin(merged.ids, merged.kept))
        self._run(
            sa.update(_CELLS)
            .where(_CELLS.c.id == sa.bindparam("b_id"))
            .values(
                {name: sa.bindparam(f"b_{name}") for name in ("latitude", "longitude", "radius")}
            ),
            [
                {f"b_{name}": value for name, value in row.items()}
                for row in _cell_rows(merged, changed)
            ],
        )

    def _write_switched(self, switched: Switched) -> None:
        """Cells before devices, and devices before the old cells go: every device names a cell at all times."""
        clustering, new = switched.clustering, switched.ids
        if clustering is None:
            self._run(sa.update(_DEVICES).values(cell=None))
            self._run(sa.delete(_SITES))
            self._run(sa.delete(_CELLS))
            return
        self._run(sa.insert(_CELLS), _cell_rows(switched, np.arange(len(new))))
        self._run(sa.delete(_SITES))
        columns = (clustering.cell_of, *clustering.sites.T, clustering.costs)
        names = ("cell", "x", "y", "z", "cost")
        sites = zip(*(column.tolist() for column in (new[columns[0]], *columns[1:])), strict=True)
        self._run(
            sa.insert(_SITES),
            [
                {"id": number, **dict(zip(names, site, strict=True))}
                for number, site in enumerate(sites)
            ],
        )
        self._assign(switched.devices, new[switched.cells])
        self._run(sa.delete(_CELLS).where(_CELLS.c.id < int(new[0])))

    def _assign(self, devices: Integers, cells: Integers) -> None:
        """All devices to their cells: in one statement where arrays can be sent, else a statement a device."""
        if self._is_postgresql:
            self._run(
                sa.text(
                    "UPDATE location_devices SET cell = new.cell "
                    "FROM unnest(CAST(:devices AS bigint[]), CAST(:cells AS bigint[])) AS new (id, cell) "
                    "WHERE location_devices.id = new.id"
                ),
                [{"devices": devices.tolist(), "cells": cells.tolist()}],
            )
            return
        statement = "UPDATE location_devices SET cell = ? WHERE id = ?"
        self._connected().exec_driver_sql(
            statement, list(zip(cells.tolist(), devices.tolist(), strict=True))
        )

    # ------------------------------------------------------------------------------------------ connections and locks

    def _connected(self) -> sa.Connection:
        if self._connection is None:
            raise BrokenStoreError(f"The database {self._name} is closed.")
        return self._connection

    def _run(self, statement: Any, rows: list[dict[str, Any]] | None = None) -> Any:
        return self._connected().execute(statement, rows)

    def _take_lock(self) -> None:
        """The lock is a connection's: it ends with it, also when the process is killed."""
        taken = f"The database {self._name} is served by another process: one at a time. Stop that one first."
        if self._lock is not None:
            self._held = self._lock.connect()
            try:
                self._held.exec_driver_sql("BEGIN EXCLUSIVE")
            except sa.exc.OperationalError:
                raise OptionError(taken) from None
        self._connection = self._engine.connect()
        until = time.monotonic() + PATIENCE
        while self._is_postgresql and not self._ask(sa.func.pg_try_advisory_lock(_ADVISORY)):
            if time.monotonic() > until:
                raise OptionError(taken)
            time.sleep(0.05)

    @property
    def _is_postgresql(self) -> bool:
        return self._engine.dialect.name == "postgresql"

    def _ask(self, question: Any) -> Any:
        with self._connected().begin():
            return self._run(sa.select(question)).scalar_one()

    def _disconnect(self) -> None:
        if self._is_postgresql and self._connection is not None:
            with suppress(
                sa.exc.SQLAlchemyError
            ):  # at once, and not when the server notices that we are gone
                self._ask(sa.func.pg_advisory_unlock_all().label("done"))
        for connection in (self._connection, self._held):
            if connection is not None:
                with suppress(sa.exc.SQLAlchemyError):  # it may be broken already
                    connection.invalidate() if connection.in_transaction() else connection.close()
        self._connection = self._held = None

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Errors of the database as ours, without statements or values."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            kind = type(getattr(error, "orig", None) or error).__name__
            raise BrokenStoreError(
                f"The database {self._name} cannot be {what} ({kind}). Look at its log, at rights and at free space."
            ) from None


def _as_url(database: str) -> sa.URL:
    """The address; files by their true path, since the lock beside must be met by whoever comes by a link, too."""
    url = _parsed(database)
    if url.get_backend_name() == "postgresql" or _in_memory(url):
        return url
    if url.query or str(url.database).startswith("file:"):
        raise OptionError(
            "The database must be the path of a file of SQLite alone, without options: sqlite:///FILE."
        )
    return url.set(database=os.path.realpath(str(url.database)))


def _parsed(database: str) -> sa.URL:
    """The address, with the driver that the extra brings; what is no address is a path of SQLite."""
    if "://" not in database:
        return sa.URL.create("sqlite", database=database)
    try:
        url = sa.make_url(database)
    except sa.exc.ArgumentError:
        raise OptionError(
            "The database must be a path, or an address such as postgresql://user@host/name."
        ) from None
    kind = url.get_backend_name()
    if kind not in {"sqlite", "postgresql", "postgres"}:
        raise OptionError(f"The database must be SQLite or PostgreSQL, not {kind}.")
    return url.set(drivername="sqlite" if kind == "sqlite" else "postgresql+psycopg")


def _in_memory(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}


def _engine(url: sa.URL) -> sa.Engine:
    """An engine that shows no values, in messages or logs, and whose commits are durable."""
    if url.get_backend_name() == "postgresql":
        options = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECTING}
        engine = sa.create_engine(
            url, hide_parameters=True, poolclass=NullPool, connect_args=options
        )
        event.listen(
            engine,
            "connect",
            lambda connection, _: _set_up(connection, ["SET synchronous_commit = on"]),
        )
        return engine
    if not _in_memory(url):
        _make_private(Path(str(url.database)))
    return _sqlite_engine(
        url, ["journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"]
    )


def _sqlite_engine(url: sa.URL, pragmas: Sequence[str], *, begin: bool = True) -> sa.Engine:
    """SQLite as it is, without the transactions that its module for Python begins on its own."""
    pool = StaticPool if _in_memory(url) else NullPool
    engine = sa.create_engine(
        url,
        hide_parameters=True,
        poolclass=pool,
        connect_args={"check_same_thread": False, "isolation_level": None},
    )
    event.listen(
        engine,
        "connect",
        lambda connection, _: _set_up(connection, [f"PRAGMA {text}" for text in pragmas]),
    )
    if begin:
        event.listen(
            engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE")
        )
    return engine


def _lock_engine(url: sa.URL) -> sa.Engine | None:
    """A file beside the database of SQLite, itself one, to be held in an exclusive transaction."""
    if url.get_backend_name() != "sqlite" or _in_memory(url):
        return None
    beside = f"{url.database}.lock"
    return _sqlite_engine(
        sa.URL.create("sqlite", database=beside), ["busy_timeout = 0"], begin=False
    )


def _make_private(path: Path) -> None:
    try:  # a new file is for its owner alone
        path.touch(mode=0o600, exist_ok=True)
    except OSError as error:
        raise TableError(
            f"The database {path} cannot be opened ({type(error).__name__})."
        ) from None


def _set_up(connection: Any, statements: Sequence[str]) -> None:
    cursor = connection.cursor()
    for statement in statements:
        cursor.execute(statement)
    cursor.close()
    connection.commit()


# ---------------------------------------------------------------------------------------------- rows


def _each(name: str, values: Sequence[int]) -> list[dict[str, Any]]:
    return [{name: int(value)} for value in values]


def _as_dict(row: DeviceRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("id", "pseudonym", "digest", "sealed", "cell")}


def _cell_rows(source: Merged | Switched, numbers: Integers) -> list[dict[str, Any]]:
    assert source.clustering is not None
    places, radius = (
        source.clustering.places[numbers].tolist(),
        source.clustering.radius[numbers].tolist(),
    )
    return [
        {"id": id, "latitude": latitude, "longitude": longitude, "radius": far}
        for id, (latitude, longitude), far in zip(
            source.ids[numbers].tolist(), places, radius, strict=True
        )
    ]


def _as_clustering(
    k: int, ids: Integers, cells: Sequence[Any], sites: Sequence[Any]
) -> Clustering | None:
    if not cells:
        return None
    return Clustering(
        k,
        np.array([(site.x, site.y, site.z) for site in sites], dtype=np.float64).reshape(-1, 3),
        np.array([site.cost for site in sites], dtype=np.float64),
        np.searchsorted(ids, np.array([site.cell for site in sites], dtype=np.int64)),
        np.array([(cell.latitude, cell.longitude) for cell in cells], dtype=np.float64),
        np.array([cell.radius for cell in cells], dtype=np.float64),
    )
