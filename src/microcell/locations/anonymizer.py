"""The location anonymizer: devices exchange an exact location for one shared by at least k."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from microcell._display import html_card
from microcell.errors import DataError, MicrocellError, OptionError, ServiceError
from microcell.locations.clustering import Clustering, cluster, to_points
from microcell.locations.population import (
    WAITING,
    Population,
    ServedCells,
    Transition,
    after_rebuild,
    count_changes,
    leave_cell,
    load,
    make_replacement,
    needs_rebuild,
    overview_of,
    status_of,
    unknown_device,
)
from microcell.locations.records import Account, Overview, Place, Status, WhatIf
from microcell.locations.store import (
    CellReplacement,
    Change,
    DeviceRow,
    State,
    Store,
    StoreError,
)
from microcell.locations.vault import Vault, hash_token, new_key, new_pseudonym, new_token
from microcell.locations.worker import Worker, load_task
from microcell.model import Floats, Integers

__all__ = ["Anonymizer", "Watch", "as_degrees", "check_options"]

MAX_K = 1_000_000_000
"""Largest k: more than any population of devices, and small enough for any database."""

WATCH_INTERVAL = 5.0
"""Seconds between two checks of the database connection."""

MAX_INLINE_DEVICES = 2_000
"""Up to this number of devices are clustered in the calling thread, more in a worker process."""

RETRY_AFTER = 60.0
"""Seconds until a failed rebuild is tried again automatically."""


def check_options(k: Any, share: Any, spare: Any) -> None:
    """Raise OptionError if an option is invalid."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, (int, np.integer))):
        raise OptionError("k must be an integer.", code="option.wrong_type", option="k")
    if k is not None and not 2 <= k <= MAX_K:
        raise OptionError(
            f"k must be between 2 and {MAX_K:,}.", code="option.out_of_range", option="k"
        )
    for name, value in (("share", share), ("spare", spare)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise OptionError(f"{name} must be a number.", code="option.wrong_type", option=name)
    if not 0 < share <= 1:
        raise OptionError(
            "share must be greater than 0 and at most 1.",
            code="option.out_of_range",
            option="share",
        )
    if not 0 <= spare <= 1:
        raise OptionError(
            "spare must be between 0 and 1.", code="option.out_of_range", option="spare"
        )


def as_degrees(latitudes: ArrayLike, longitudes: ArrayLike) -> Floats:
    """Return checked latitudes and longitudes as two rows. Errors do not show the values."""
    rows = [_check_degrees("latitude", latitudes, 90), _check_degrees("longitude", longitudes, 180)]
    if len(rows[0]) != len(rows[1]):
        raise DataError(
            f"There must be one longitude per latitude, not {len(rows[1])} for {len(rows[0])}.",
            code="data.invalid",
            column="longitude",
        )
    return np.stack(rows)


def _check_degrees(name: str, degrees: ArrayLike, limit: int) -> Floats:
    try:
        values = np.asarray(degrees)
    except ValueError:
        values = np.empty((0, 0))
    if values.ndim != 1 or (values.dtype.kind not in "iuf" and values.size > 0):
        raise DataError(
            f"{name} must be a number between -{limit} and {limit}.",
            code="data.not_a_number",
            column=name,
        )
    numbers = values.astype(np.float64)
    wrong = np.flatnonzero(~(np.abs(numbers) <= limit))
    if len(wrong):
        where = f" Row {wrong[0] + 1} is the first of {len(wrong)} outside that range."
        raise DataError(
            f"{name} must be between -{limit} and {limit}.{where if len(numbers) > 1 else ''}",
            code="data.out_of_range",
            column=name,
            row=int(wrong[0]) + 1,
        )
    return numbers


class Watch:
    """Call a function periodically in a thread; the function must not raise.

    Examples
    --------
    >>> called = threading.Event()
    >>> watch = Watch(called.set, interval=0.001)
    >>> watch.start()
    >>> called.wait(60)
    True
    >>> watch.stop()
    """

    def __init__(self, function: Callable[[], None], *, interval: float | None = None) -> None:
        self._function = function
        self._interval = WATCH_INTERVAL if interval is None else interval
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start calling the function."""
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop calling the function, and wait for a call that is running."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            self._function()


class Anonymizer:
    """The service without its web interface; it owns a database until it is closed.

    A change is durable when its method returns. Look-ups only read memory and continue to work if
    the database fails. No cell of fewer than k devices is ever written or served: a cell that falls
    below k is merged with its nearest neighbour in the same transaction. After a merge, and when
    more than a ``share`` of the devices changed, all cells are rebuilt; with ``background`` that
    happens in a separate process. Rebuilt cells exceed k by the share ``spare``, so that they
    survive some cancellations.

    Examples
    --------
    >>> service = Anonymizer.open("sqlite://", k=2, key=None, background=False)
    >>> service.sign_up(41.4, 2.1).location is None  # a single device has to wait
    True
    >>> account = service.sign_up(41.4, 2.3)
    >>> round(service.look_up(account.pseudonym, account.token).longitude, 6)
    2.2
    >>> service.close()
    """

    def __init__(
        self,
        store: Store,
        vault: Vault,
        k: int,
        share: float,
        spare: float,
        background: bool,
        seed: int,
    ) -> None:
        self._store = store
        self._vault = vault
        self._k = k
        self._share = share
        self._spare = spare
        self._background = background
        self._seed = seed
        self._worker = Worker()
        self._watch = Watch(self._check_database)
        self._write_lock = threading.RLock()
        self._rebuild_lock = threading.RLock()
        self._rebuild_thread: threading.Thread | None = None
        self._closed = False
        self._rebuilding = False
        self._rebuild_requested = False
        # Stale: memory may be behind the database. Suspect: memory itself may be wrong.
        self._stale = False
        self._suspect = False
        self._failure: str | None = None
        self._no_rebuild_before = -math.inf
        self._epoch = 0
        self._cached_overview: tuple[ServedCells, State, Overview] | None = None
        self._population = Population()
        self._state = State(b"", k)
        self._next_row = 1
        self._next_cell = 1

    @classmethod
    def open(
        cls,
        database: str,
        k: int | None,
        *,
        key: bytes | None,
        share: float = 0.05,
        spare: float = 0.01,
        background: bool = True,
        seed: int = 0,
    ) -> Self:
        """Open the service on a database.

        Parameters
        ----------
        database
            Path of an SQLite file, or a URL such as ``postgresql://user@host/name``.
        k
            Minimum number of devices per cell; by default that of the database. If it differs from
            the previous one, cells are merged until all have k before anything is served.
        key
            Key that encrypts exact locations, from :func:`new_key`. None uses a random key that is
            discarded, so that the database cannot be read again.
        share
            Share of devices that may change before all cells are rebuilt.
        spare
            Share by which rebuilt cells exceed k.
        background
            Rebuild cells in a separate process while requests are answered.
        seed
            Random seed.
        """
        check_options(k, share, spare)
        vault = Vault(new_key() if key is None else key)
        store = Store.open(database)
        service = cls(
            store, vault, 0 if k is None else int(k), float(share), float(spare), background, seed
        )
        try:
            with service._write_lock:
                if k is None:
                    service._k = store.last_k()
                service._load()
                service._rebuild_if_due()
                if background and store.can_lose_lock:
                    service._watch.start()
        except BaseException:
            service.close()
            raise
        return service

    def __repr__(self) -> str:
        return f"Anonymizer(k={self._k}, devices={len(self._population)})"

    def _repr_html_(self) -> str:
        return html_card(
            "Location service",
            {"k": f"{self._k:,}", "Devices": f"{len(self._population):,}"},
            next_steps={"service.status()": "sizes, counters and the progress of rebuilds"},
        )

    # ---------------------------------------------------------------------------- devices

    def sign_up(self, latitude: float, longitude: float) -> Account:
        """Create an account; its location is None while fewer than k devices have signed up."""
        return self.sign_up_many([latitude], [longitude])[0]

    def sign_up_many(self, latitudes: ArrayLike, longitudes: ArrayLike) -> list[Account]:
        """Create an account for each place, all in one transaction."""
        degrees = as_degrees(latitudes, longitudes)
        if degrees.size == 0:
            return []
        points = to_points(*degrees)
        pseudonyms = [new_pseudonym() for _ in points]
        tokens = [new_token() for _ in points]
        digests = [hash_token(token) for token in tokens]
        sealed = [
            self._vault.seal(pseudonym, *place)
            for pseudonym, place in zip(pseudonyms, degrees.T.tolist(), strict=True)
        ]
        with self._writing():
            rows = self._next_row + np.arange(len(points))
            cells, ids = self._assign(points)
            added = [
                DeviceRow(*row)
                for row in zip(rows.tolist(), pseudonyms, digests, sealed, ids, strict=True)
            ]
            state = count_changes(self._state, sign_ups=len(points))
            replacement = None
            if self._population.served.clustering is None:
                replacement, seconds = self._make_first_cells(points, rows)
                if replacement is not None:
                    state = after_rebuild(state, self._k, seconds)
            self._store.write(Change(state, added=added, replacement=replacement))
            self._next_row += len(points)
            self._population.add(pseudonyms, digests, rows, points, cells)
            if replacement is not None:
                self._serve(replacement, state)
            self._state = state
            self._rebuild_if_due()
            return [
                Account(pseudonym, token, self._place_of(pseudonym))
                for pseudonym, token in zip(pseudonyms, tokens, strict=True)
            ]

    def look_up(self, pseudonym: str, token: str) -> Place | None:
        """Return the location to use, or None while the device has to wait.

        Neither touches the disk nor takes a lock.
        """
        self._check_open()
        if self._suspect:
            with self._writing():  # reloads, or raises
                pass
        population = self._population
        entry = population.find(pseudonym, token)
        place = population.served.place_of(entry.slot)
        if population.index.get(pseudonym) is not entry:
            # Cancelled in the meantime: the slot may belong to another device already.
            raise unknown_device()
        return place

    def move(self, pseudonym: str, token: str, latitude: float, longitude: float) -> Place | None:
        """Record a new exact location and return the location to use from now on."""
        self._population.find(pseudonym, token)
        degrees = as_degrees([latitude], [longitude])
        point = to_points(*degrees)
        sealed = self._vault.seal(pseudonym, *degrees[:, 0].tolist())
        with self._writing():
            population = self._population
            entry = population.find(pseudonym, token)
            cells, ids = self._assign(point)
            cell = int(cells[0])
            state = count_changes(self._state, moves=1)
            transition = leave_cell(population, state, entry.slot, cell, self._k, cancelled=False)
            row_id = int(population.rows[entry.slot])
            row = DeviceRow(row_id, pseudonym, entry.digest, sealed, ids[0])
            self._write(transition, moved=[row])
            population.move(entry.slot, point[0], cell, transition.served)
            self._state = transition.state
            self._rebuild_if_due()
            return self._place_of(pseudonym)

    def cancel(self, pseudonym: str, token: str) -> None:
        """Delete a device and everything stored about it."""
        with self._writing():
            entry = self._population.find(pseudonym, token)
            state = count_changes(self._state, cancellations=1)
            transition = leave_cell(
                self._population, state, entry.slot, WAITING, self._k, cancelled=True
            )
            self._write(transition, removed=[int(self._population.rows[entry.slot])])
            self._population.remove(pseudonym, transition.served)
            self._state = transition.state
            self._rebuild_if_due()

    # ---------------------------------------------------------------------------- everyone

    def overview(self) -> Overview:
        """Return the public information: the cells without their members, and the guarantee."""
        self._check_open()
        cached, state, population = self._cached_overview, self._state, self._population
        served = population.served
        if cached is not None and cached[0] is served and cached[1] is state:
            return cached[2]
        overview = overview_of(population, served, self._k)
        if self._state is state:
            self._cached_overview = (served, state, overview)
        return overview

    def clustering(self) -> Clustering | None:
        """Return the cells being served, or None while all devices wait."""
        return self._population.served.clustering

    # ---------------------------------------------------------------------------- operator

    def status(self) -> Status:
        """Return the operator's view of the service."""
        return status_of(self.overview(), self._state, self._share, self._rebuilding, self._failure)

    def what_if(self, k: int) -> WhatIf:
        """Return the distances between devices and their locations under another k."""
        with self._writing():
            points = self._population.points[self._population.occupied()]
        result: WhatIf = self._compute("what_if", points, k, seed=self._seed)
        return result

    def placements(self) -> Iterator[tuple[str, Place | None]]:
        """Yield each pseudonym with its location (None if it waits), sorted by pseudonym."""
        with self._writing():
            placements = [
                (pseudonym, self._place_of(pseudonym))
                for pseudonym in sorted(self._population.index)
            ]
        yield from placements

    def rebuild(self, *, wait: bool = False) -> None:
        """Start rebuilding all cells; with ``wait``, return when the new cells are served."""
        self._check_open()
        if self._background and not wait:
            with self._write_lock:
                self._rebuild_requested = True
                self._start_rebuild_thread()
            return
        self._rebuild()

    def close(self) -> None:
        """Release the database, which holds every acknowledged change; abandon a rebuild."""
        self._closed = True
        self._watch.stop()
        self._worker.stop()
        thread = self._rebuild_thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._write_lock:
            self._store.close()

    # ---------------------------------------------------------------------------- changes

    def _load(self) -> None:
        """Load the database, with every cell brought to k before it is served."""
        loaded = load(self._store, self._vault, self._k)
        self._population = loaded.population
        self._state = loaded.state
        self._next_row = loaded.next_row
        self._next_cell = loaded.next_cell
        self._rebuild_requested = self._rebuild_requested or loaded.rebuild
        self._epoch += 1
        self._stale = False
        self._suspect = False

    def _assign(self, points: Floats) -> tuple[Integers, list[int | None]]:
        """Return the number and the database id of each point's cell."""
        served = self._population.served
        if served.clustering is None:
            return np.full(len(points), WAITING), [None] * len(points)
        cells = served.clustering.assign(points)
        return cells, served.ids[cells].tolist()

    def _write(
        self,
        transition: Transition,
        *,
        moved: Sequence[DeviceRow] = (),
        removed: Sequence[int] = (),
    ) -> None:
        """Write a transition; the caller then updates the population and the state in memory."""
        self._store.write(
            Change(
                transition.state,
                moved=moved,
                removed=removed,
                merge=transition.merge,
                replacement=transition.replacement,
            )
        )

    def _place_of(self, pseudonym: str) -> Place | None:
        return self._population.served.place_of(self._population.index[pseudonym].slot)

    # ---------------------------------------------------------------------------- rebuilds

    def _make_first_cells(
        self, points: Floats, rows: Integers
    ) -> tuple[CellReplacement | None, float]:
        """Return the first cells, for existing and new devices, and the seconds it took.

        None if there are too few devices, or so many that the rebuild runs in the background.
        """
        population = self._population
        total = len(population) + len(points)
        if total < self._k or (self._background and total > MAX_INLINE_DEVICES):
            return None, 0.0
        started, slots = time.monotonic(), population.occupied()
        all_points = np.concatenate([population.points[slots], points])
        all_rows = np.concatenate([population.rows[slots], rows])
        clustering, labels = cluster(all_points, self._k, spare=self._spare, seed=self._seed)
        replacement, _ = make_replacement(clustering, labels, all_rows, self._next_cell, self._k)
        return replacement, time.monotonic() - started

    def _serve(self, replacement: CellReplacement, state: State) -> None:
        self._population.replace_cells(replacement, state)
        self._next_cell += len(replacement.ids)

    def _rebuild_if_due(self) -> None:
        """Rebuild if due. Changes already written stay valid even if the rebuild fails."""
        if not self._is_rebuild_due():
            return
        if self._background:
            self._start_rebuild_thread()
            return
        with suppress(MicrocellError):  # status reports the failure
            self._rebuild()

    def _is_rebuild_due(self) -> bool:
        if self._closed or len(self._population) < self._k:
            return False
        if time.monotonic() < self._no_rebuild_before:
            return False
        return self._rebuild_requested or needs_rebuild(self._population, self._state, self._share)

    def _start_rebuild_thread(self) -> None:
        if self._rebuild_thread is None:
            self._rebuild_thread = threading.Thread(
                target=self._rebuild_while_due, name="rebuild", daemon=True
            )
            self._rebuild_thread.start()

    def _rebuild_while_due(self) -> None:
        while True:
            with suppress(MicrocellError):  # status reports the failure
                self._rebuild()
            with self._write_lock:
                if not self._is_rebuild_due():
                    self._rebuild_thread = None
                    return

    def _rebuild(self) -> None:
        # Without a background thread, a change holds the write lock while it rebuilds, so everyone
        # must take the two locks in that order.
        with nullcontext() if self._background else self._write_lock, self._rebuild_lock:
            try:
                self._rebuilding = True
                self._replace_cells()
                self._failure = None
                self._no_rebuild_before = -math.inf
            except MicrocellError as error:
                self._failure = str(error)
                self._no_rebuild_before = time.monotonic() + RETRY_AFTER
                raise
            finally:
                self._rebuilding = False

    def _replace_cells(self) -> None:
        """Cluster a copy of all points, assign devices that changed meanwhile, and switch over."""
        with self._writing():
            self._rebuild_requested = False
            population, epoch, started = self._population, self._epoch, time.monotonic()
            if len(population) < self._k:
                return
            slots, start = population.occupied(), population.served.clustering
            points = population.points[slots]
            population.touched.clear()
        clustering, labels = self._compute(
            "cluster", points, self._k, start=start, spare=self._spare, seed=self._seed
        )
        with self._writing():
            if self._epoch != epoch:
                raise ServiceError(
                    "The database was reopened during the rebuild, which will be repeated.",
                    code="service.unavailable",
                )
            if len(population) < self._k:
                return
            cells = np.full(len(population.rows), WAITING, dtype=np.int64)
            cells[slots] = labels
            changed = np.array(sorted(population.touched), dtype=np.int64)
            if len(changed):
                cells[changed] = clustering.assign(population.points[changed])
            now = population.occupied()
            replacement, merges = make_replacement(
                clustering, cells[now], population.rows[now], self._next_cell, self._k
            )
            seconds = time.monotonic() - started
            state = after_rebuild(self._state, self._k, seconds, merges, len(changed))
            self._store.write(Change(state, replacement=replacement))
            self._serve(replacement, state)
            self._state = state

    def _compute(self, task: str, points: Floats, k: int, **options: Any) -> Any:
        if self._background and len(points) > MAX_INLINE_DEVICES:
            return self._worker.run(task, points, k, **options)
        return load_task(task)(points, k, **options)

    # ---------------------------------------------------------------------------- failures

    def _check_open(self) -> None:
        if self._closed:
            raise ServiceError(
                "The service is closed. Open it again before use.",
                code="service.unavailable",
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the write lock; after a failure, reload everything before the next change.

        Memory changes after the database, so a failed write leaves it as it was. After any other
        failure memory is suspect, and nothing is served until it is reloaded.
        """
        with self._write_lock:
            self._check_open()
            if self._stale:
                self._reload()
            try:
                yield
            except StoreError:
                self._stale = True
                raise
            except BaseException as error:
                if not isinstance(error, MicrocellError):
                    self._stale = True
                    self._suspect = True
                raise

    def _check_database(self) -> None:
        """Check the connection and reconnect; serve nothing if another process took over."""
        for _ in range(2):
            with suppress(MicrocellError), self._writing():
                self._store.check()
                return

    def _reload(self) -> None:
        """Reconnect and load everything; if the database is no longer ours, stop serving."""
        try:
            self._store.connect()
            self._load()
        except StoreError:
            raise
        except MicrocellError as error:
            self._suspect = True
            raise ServiceError(
                f"The service cannot continue with its database: {error}",
                code="service.unavailable",
            ) from None
