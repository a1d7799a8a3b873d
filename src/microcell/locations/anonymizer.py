"""The location anonymizer: a device signs up with an exact place, and gets one that at least k devices share."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from microcell.errors import DataError, MicrocellError, OptionError, ServiceError
from microcell.locations.clustering import Clustering, cluster, to_points
from microcell.locations.population import (
    WAITS,
    Plan,
    Population,
    Served,
    after_leaving,
    after_switching,
    counted,
    is_worn,
    load,
    overview_of,
    rebuilt,
    status_of,
    unknown_device,
)
from microcell.locations.records import Account, Overview, Place, Status, WhatIf
from microcell.locations.store import (
    BrokenStoreError,
    Change,
    DeviceRow,
    State,
    Store,
    Switched,
    Vault,
    digest_of,
    new_key,
    new_pseudonym,
    new_token,
)
from microcell.locations.worker import Apart, task_of
from microcell.model import Floats, Integers

__all__ = ["Anonymizer", "Watch", "as_degrees", "check_options"]

MOST = 1_000_000_000
"""The largest k: more than there are devices anywhere, and a number that any database holds."""


def check_options(k: Any, share: Any, spare: Any) -> None:
    """Nothing, if the service can hold to them."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 2):
        raise OptionError("k must be a whole number of 2 or more.")
    if k is not None and k > MOST:
        raise OptionError(f"k must be at most {MOST:,}.")
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise OptionError("share must be a number above 0 and at most 1.")
    if isinstance(spare, bool) or not isinstance(spare, (int, float)) or not 0 <= spare <= 1:
        raise OptionError("spare must be a number of 0 or more and at most 1.")


def as_degrees(latitudes: ArrayLike, longitudes: ArrayLike) -> Floats:
    """Latitudes and longitudes as two rows of numbers, checked; refused without showing them."""
    rows = []
    for name, given, limit in (("latitude", latitudes, 90.0), ("longitude", longitudes, 180.0)):
        try:
            values = np.asarray(given)
        except ValueError:
            values = np.empty((0, 0))
        if values.ndim != 1 or (values.dtype.kind not in "iuf" and values.size > 0):
            raise DataError(f"{name} must be a number of degrees, from {-limit:g} to {limit:g}.")
        numbers = values.astype(np.float64)
        wrong = np.flatnonzero(~(np.abs(numbers) <= limit))
        if len(wrong):
            where = (
                "" if len(numbers) == 1 else f" in row {wrong[0] + 1}, the first of {len(wrong)}"
            )
            raise DataError(
                f"{name} must be a number of degrees, from {-limit:g} to {limit:g}: it is not{where}."
            )
        rows.append(numbers)
    if len(rows[0]) != len(rows[1]):
        raise DataError(
            f"There are {len(rows[0])} latitudes and {len(rows[1])} longitudes, expected as many."
        )
    return np.stack(rows)


BEAT = 5.0
"""Seconds between two looks."""


class Watch:
    """Calls ``look`` every few seconds, from :meth:`start` until :meth:`stop`; look must not raise.

    Examples
    --------
    >>> seen = threading.Event()
    >>> watch = Watch(seen.set, beat=0.001)
    >>> watch.start()
    >>> seen.wait(60)
    True
    >>> watch.stop()
    """

    def __init__(self, look: Callable[[], None], *, beat: float | None = None) -> None:
        self._look, self._beat = look, BEAT if beat is None else beat
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more; return when a look under way has ended."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._ended.wait(self._beat):
            self._look()


AT_ONCE = 2_000
"""Up to so many devices are clustered where the change happens; more, in a process of their own."""

PAUSE = 60.0
"""Seconds until a rebuild that failed is tried again of itself."""


class Anonymizer:
    """The service without its web, on a database, until it is closed.

    A change is durable when its method returns. Look-ups read memory alone, and go on where the database fails. No cell
    of fewer than k devices is ever written or served: one under k is merged with its nearest neighbour in the same
    transaction. A rebuild begins after that, and when changes exceed a ``share`` of the devices; with ``background`` it
    goes on beside, in a process of its own. It makes cells larger than k by the ``spare`` share, so that they outlive
    some cancellations.

    Examples
    --------
    >>> service = Anonymizer.open("sqlite://", k=2, key=None, background=False)
    >>> service.sign_up(41.4, 2.1).location is None  # one device has to wait
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
        self._store, self._vault, self._k, self._seed = store, vault, k, seed
        self._share, self._spare = share, spare
        self._background, self._apart, self._watch = background, Apart(), Watch(self._look_after)
        self._write = threading.RLock()
        self._turn = threading.RLock()
        self._worker: threading.Thread | None = None
        self._closed = self._rebuilding = self._again = self._stale = self._doubtful = False
        self._failure: str | None = None
        self._not_before = -math.inf
        self._epoch = 0
        self._overview: tuple[Served, State, Overview] | None = None
        self._population, self._state = Population(), State(b"", k)
        self._next_row = self._next_cell = 1

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
        """The service on a database: a path of SQLite, or ``postgresql://user@host/name``.

        Without k, that of the database; where k is another than before, cells are merged until all have k before
        anything is served. Without a ``key`` a random one is used and thrown away: the disk cannot be read again.
        """
        check_options(k, share, spare)
        vault = Vault(new_key() if key is None else key)
        store = Store.open(database)
        service = cls(
            store, vault, 0 if k is None else int(k), float(share), float(spare), background, seed
        )
        try:
            with service._write:
                if k is None:
                    service._k = store.last_k()
                service._load()
                service._consider_rebuild()
                if background and store.may_be_lost:
                    service._watch.start()
        except BaseException:
            service.close()
            raise
        return service

    def __repr__(self) -> str:
        return f"Anonymizer(k={self._k}, {len(self._population)} devices)"

    # ------------------------------------------------------------------------------------------ for devices

    def sign_up(self, latitude: float, longitude: float) -> Account:
        """A new pseudonym and token, and the place to use; None for it while fewer than k devices are there."""
        return self.sign_up_many([latitude], [longitude])[0]

    def sign_up_many(self, latitudes: ArrayLike, longitudes: ArrayLike) -> list[Account]:
        """An account for each place, all in one transaction."""
        degrees = as_degrees(latitudes, longitudes)
        if degrees.size == 0:
            return []
        points = to_points(*degrees)
        names, tokens = [new_pseudonym() for _ in points], [new_token() for _ in points]
        digests = [digest_of(token) for token in tokens]
        sealed = [
            self._vault.seal(name, *place)
            for name, place in zip(names, degrees.T.tolist(), strict=True)
        ]
        with self._writing():
            served, count = self._population.served, len(points)
            rows = self._next_row + np.arange(count)
            cells = (
                np.full(count, WAITS)
                if served.clustering is None
                else served.clustering.assign(points)
            )
            ids = [None] * count if served.clustering is None else served.ids[cells].tolist()
            added = [
                DeviceRow(*row)
                for row in zip(rows.tolist(), names, digests, sealed, ids, strict=True)
            ]
            state = counted(self._state, sign_ups=count)
            first = self._first_cells(points, rows) if served.clustering is None else None
            if first is not None:
                state = rebuilt(state, self._k, first[1])
            self._store.write(
                Change(state, added=added, switched=None if first is None else first[0])
            )
            self._next_row += count
            self._population.add(names, digests, rows, points, cells)
            if first is not None:
                self._serve(first[0], state)
            self._state = state
            self._consider_rebuild()
            return [
                Account(*pair, self._place_of(pair[0])) for pair in zip(names, tokens, strict=True)
            ]

    def look_up(self, pseudonym: str, token: str) -> Place | None:
        """The place to use; None while the device has to wait. Touches no disk and takes no lock."""
        self._refuse_closed()
        if self._doubtful:
            with self._writing():
                pass
        population = self._population
        entry = population.find(pseudonym, token)
        place = population.served.place_of(entry.slot)
        if (
            population.index.get(pseudonym) is not entry
        ):  # cancelled meanwhile: the slot may be another's
            raise unknown_device()
        return place

    def move(self, pseudonym: str, token: str, latitude: float, longitude: float) -> Place | None:
        """The place to use from a new reference place on; None while the device has to wait."""
        self._population.find(pseudonym, token)
        degrees = as_degrees([latitude], [longitude])
        point = to_points(*degrees)
        sealed = self._vault.seal(pseudonym, *degrees[:, 0].tolist())
        with self._writing():
            entry = self._population.find(pseudonym, token)
            served = self._population.served
            cell = WAITS if served.clustering is None else int(served.clustering.assign(point)[0])
            plan = after_leaving(
                self._population,
                counted(self._state, moves=1),
                entry.slot,
                cell,
                self._k,
                gone=False,
            )
            id = None if cell == WAITS else int(served.ids[cell])
            row = DeviceRow(
                int(self._population.rows[entry.slot]), pseudonym, entry.digest, sealed, id
            )
            self._carry_out(plan, moved=[row])
            self._population.move(entry.slot, point[0], cell, plan.served)
            self._state = plan.state
            self._consider_rebuild()
            return self._place_of(pseudonym)

    def cancel(self, pseudonym: str, token: str) -> None:
        """Nothing; the device is forgotten."""
        with self._writing():
            entry = self._population.find(pseudonym, token)
            state = counted(self._state, cancellations=1)
            plan = after_leaving(self._population, state, entry.slot, WAITS, self._k, gone=True)
            self._carry_out(plan, removed=[int(self._population.rows[entry.slot])])
            self._population.remove(pseudonym, plan.served)
            self._state = plan.state
            self._consider_rebuild()

    # ------------------------------------------------------------------------------------------ for others

    def overview(self) -> Overview:
        """What anyone may know: the cells, never their members, and what the guarantee is worth now."""
        self._refuse_closed()
        known, state, population = self._overview, self._state, self._population
        served = population.served
        if known is not None and known[0] is served and known[1] is state:
            return known[2]
        found = overview_of(population, served, self._k)
        if self._state is state:
            self._overview = (served, state, found)
        return found

    def clustering(self) -> Clustering | None:
        """The cells that are served, as sites and costs; None while everyone waits."""
        return self._population.served.clustering

    def status(self) -> Status:
        """What the operator may know besides."""
        return status_of(self.overview(), self._state, self._share, self._rebuilding, self._failure)

    def what_if(self, k: int) -> WhatIf:
        """How far devices would be from the places they use, with another k."""
        with self._writing():
            points = self._population.points[self._population.occupied()]
        found: WhatIf = self._calculate("what_if", points, k, seed=self._seed)
        return found

    def placements(self) -> Iterator[tuple[str, Place | None]]:
        """Every pseudonym with the place it uses, None for those that wait, in the order of pseudonyms."""
        with self._writing():
            out = [(name, self._place_of(name)) for name in sorted(self._population.index)]
        yield from out

    def rebuild(self, *, wait: bool = False) -> None:
        """Begin to make all cells anew; with ``wait``, return when they are served."""
        self._refuse_closed()
        if self._background and not wait:
            with self._write:
                self._start_worker(again=True)
            return
        self._rebuild()

    def close(self) -> None:
        """Let go of the database; what was acknowledged is in it. A rebuild that runs is given up."""
        self._closed = True
        self._watch.stop()
        self._apart.stop()
        worker = self._worker
        if worker is not None and worker is not threading.current_thread():
            worker.join()
        with self._write:
            self._store.close()

    # ------------------------------------------------------------------------------------------ changes

    def _load(self) -> None:
        """All from the database, with every cell brought to k before it is served."""
        loaded = load(self._store, self._vault, self._k)
        self._population, self._state = loaded.population, loaded.state
        self._next_row, self._next_cell = loaded.next_row, loaded.next_cell
        self._again = self._again or loaded.rebuild
        self._epoch += 1
        self._stale = self._doubtful = False

    def _carry_out(
        self, plan: Plan, *, moved: Sequence[DeviceRow] = (), removed: Sequence[int] = ()
    ) -> None:
        """Write a plan; what is served then is for the caller to put in place, and the state after it."""
        self._store.write(Change(plan.state, (), moved, removed, plan.merged, plan.switched))

    def _place_of(self, pseudonym: str) -> Place | None:
        return self._population.served.place_of(self._population.index[pseudonym].slot)

    # ------------------------------------------------------------------------------------------ rebuilds

    def _first_cells(self, points: Floats, rows: Integers) -> tuple[Switched, float] | None:
        """The first cells, for the devices there are and those that come, if they are enough and not too many."""
        population = self._population
        total = len(population) + len(points)
        if total < self._k or (self._background and total > AT_ONCE):
            return None
        began, slots = time.monotonic(), population.occupied()
        everywhere = np.concatenate([population.points[slots], points])
        clustering, labels = cluster(everywhere, self._k, spare=self._spare, seed=self._seed)
        everyone = np.concatenate([population.rows[slots], rows])
        switched, _ = after_switching(clustering, labels, everyone, self._next_cell, self._k)
        return switched, time.monotonic() - began

    def _serve(self, switched: Switched, state: State) -> None:
        self._population.switch(switched, state)
        self._next_cell += len(switched.ids)

    def _consider_rebuild(self) -> None:
        """Rebuild where that is due; a change that is written stands whatever comes of it."""
        if not self._is_due():
            return
        if self._background:
            self._start_worker(again=False)
            return
        with suppress(MicrocellError):  # it is told by status
            self._rebuild()

    def _is_due(self) -> bool:
        if self._closed or len(self._population) < self._k or time.monotonic() < self._not_before:
            return False
        return self._again or is_worn(self._population, self._state, self._share)

    def _start_worker(self, *, again: bool) -> None:
        self._again = self._again or again
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="rebuild", daemon=True)
            self._worker.start()

    def _work(self) -> None:
        """Rebuild as long as that is due."""
        while True:
            with suppress(MicrocellError):  # it is told by status
                self._rebuild()
            with self._write:
                if not self._is_due():
                    self._worker = None
                    return

    def _rebuild(self) -> None:
        # Without a background a change holds the lock while it rebuilds: then all must take the two in that order.
        with nullcontext() if self._background else self._write, self._turn:
            try:
                self._rebuilding = True
                self._make_anew()
                self._failure, self._not_before = None, -math.inf
            except MicrocellError as error:
                self._failure, self._not_before = str(error), time.monotonic() + PAUSE
                raise
            finally:
                self._rebuilding = False

    def _make_anew(self) -> None:
        """New cells for a copy of all points; then, for what changed meanwhile, by the new rule; then the switch."""
        with self._writing():
            self._again = False
            population, epoch, began = self._population, self._epoch, time.monotonic()
            if len(population) < self._k:
                return
            slots, start = population.occupied(), population.served.clustering
            points = population.points[slots]
            population.touched.clear()
        clustering, labels = self._calculate(
            "cluster", points, self._k, start=start, spare=self._spare, seed=self._seed
        )
        with self._writing():
            if self._epoch != epoch:
                raise ServiceError(
                    "The database was opened anew while cells were made; they are made once more."
                )
            if len(population) < self._k:
                return
            cells = np.full(len(population.rows), WAITS, dtype=np.int64)
            cells[slots] = labels
            changed = np.array(sorted(population.touched), dtype=np.int64)
            if len(changed):
                cells[changed] = clustering.assign(population.points[changed])
            now = population.occupied()
            switched, merges = after_switching(
                clustering, cells[now], population.rows[now], self._next_cell, self._k
            )
            state = rebuilt(self._state, self._k, time.monotonic() - began, merges, len(changed))
            self._store.write(Change(state, switched=switched))
            self._serve(switched, state)
            self._state = state

    def _calculate(self, task: str, points: Floats, k: int, **options: Any) -> Any:
        if self._background and len(points) > AT_ONCE:
            return self._apart.run(task, points, k, **options)
        return task_of(task)(points, k, **options)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ServiceError("The service is closed.")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """The right to change things. Where the database failed, it is not known what it holds: all is loaded anew.

        Memory changes after it, and so is as it was; after any other failure that is in doubt, and nothing is served.
        """
        with self._write:
            self._refuse_closed()
            if self._stale:
                self._load_anew()
            try:
                yield
            except BrokenStoreError:
                self._stale = True
                raise
            except BaseException as error:
                if not isinstance(error, MicrocellError):
                    self._stale = self._doubtful = True
                raise

    def _look_after(self) -> None:
        """See that the database is still there and ours; if not, connect again, or serve nothing if it is another's."""
        for _ in range(2):
            with suppress(MicrocellError), self._writing():
                self._store.check()
                return

    def _load_anew(self) -> None:
        """Connect again and load all. Where the database is there but not ours any more, memory counts no longer."""
        try:
            self._store.connect()
            self._load()
        except BrokenStoreError:
            raise
        except MicrocellError as error:
            self._doubtful = True
            raise ServiceError(f"The service cannot go on with its database: {error}") from None
