"""The location anonymizer: devices exchange an exact location for one shared by at least k."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from microcell._display import count as counted
from microcell._display import html_card
from microcell.errors import DataError, MicrocellError, OptionError, ServiceError
from microcell.locations.clustering import Clustering, great_circle, to_points
from microcell.locations.population import (
    WAITING,
    Population,
    ServedCells,
    Transition,
    count_changes,
    leave_cell,
    load,
    make_overview,
    merge_undersized,
    provisional_epoch,
    suspend,
    unknown_device,
)
from microcell.locations.publication import (
    DEPTH,
    MOVED,
    SETTLED,
    SIGNED_UP,
    Outcome,
    Rules,
    cohort_sizes,
)
from microcell.locations.records import (
    Account,
    Alarm,
    Answer,
    Overview,
    Place,
    Publication,
    Status,
    WhatIf,
)
from microcell.locations.store import CellUpdate, Change, DeviceRow, State, Store, StoreError
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

ACCURACY = 2.0
"""Accuracy of an answer in radii of the cell; three quarters of the devices are within two."""

_LIMITS: dict[str, tuple[float, float]] = {
    "share": (0.0, 10.0),
    "spare": (0.0, 1.0),
    "reach": (0.1, 20_000.0),
    "period": (0.05, 366 * 86_400.0),
}


def check_options(k: Any, colluders: Any, window: Any, **numbers: Any) -> None:
    """Raise OptionError if an option is invalid."""
    for name, value, low in (("k", k, 2), ("colluders", colluders, 0), ("window", window, 1)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise OptionError(f"{name} must be an integer.", code="option.wrong_type", option=name)
        if not low <= value <= MAX_K:
            raise OptionError(
                f"{name} must be between {low} and {MAX_K:,}.",
                code="option.out_of_range",
                option=name,
            )
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise OptionError(f"{name} must be a number.", code="option.wrong_type", option=name)
        low_end, high_end = _LIMITS[name]
        if not low_end <= value <= high_end or (name == "share" and value == 0):
            raise OptionError(
                f"{name} must be between {low_end:g} and {high_end:g}.",
                code="option.out_of_range",
                option=name,
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
    the database fails. What devices and observers see changes with publications only, which happen
    on the service's clock (or when :meth:`publish` is called) and never because a device asks: a
    device that signs up uses the place of the nearest cell, a move takes effect with the next
    publication, and a cancellation changes nothing for others. The exception protects k: if more
    devices cancel than a cell can spare, it is merged with its nearest neighbour at once.

    Examples
    --------
    >>> service = Anonymizer.open("sqlite://", k=2, key=None, colluders=0, background=False)
    >>> account = service.sign_up(41.4, 2.1)
    >>> service.sign_up(41.4, 2.3).location is None  # both wait for the first publication
    True
    >>> service.publish()
    True
    >>> answer = service.look_up(account.pseudonym, account.token)
    >>> abs(answer.location.longitude - 2.2) < 0.02, answer.accuracy
    (True, 20.0)
    >>> service.close()
    """

    def __init__(
        self,
        store: Store,
        vault: Vault,
        rules: Rules,
        *,
        share: float,
        period: float,
        hold: bool,
        background: bool,
    ) -> None:
        self._store = store
        self._vault = vault
        self._rules = rules
        self._share = share
        self._period = period
        self._hold = hold
        self._background = background
        self._worker = Worker()
        self._watch = Watch(self._check_database)
        self._clock = Watch(self._tick, interval=min(1.0, period / 4))
        self._next_publication: float | None = None
        self._write_lock = threading.RLock()
        self._publish_lock = threading.RLock()
        self._closed = False
        self._publishing = False
        self._rebuild_requested = False
        self._refused = False
        self._deferred = 0
        # Stale: memory may be behind the database. Suspect: memory itself may be wrong.
        self._stale = False
        self._suspect = False
        self._failure: str | None = None
        self._epoch = 0
        self._state = State(b"", rules.k)
        self._population = Population.empty(self._state)
        self._next_row = 1
        self._next_build = 1
        self._publications: list[Publication] = []
        self._listeners: list[Callable[[], None]] = []

    @classmethod
    def open(
        cls,
        database: str,
        k: int | None,
        *,
        key: bytes | None,
        colluders: int | None = None,
        share: float = 0.5,
        spare: float = 0.05,
        reach: float = 100.0,
        window: int = 30,
        period: float = 86_400.0,
        hold: bool = False,
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
        colluders
            Devices that may collude against the others, by default 5 % of k, rounded up. Cells and
            differences between publications have this many devices more than k.
        share
            Share of devices that may change before all cells are rebuilt, as soon as every
            difference to earlier publications concerns enough devices.
        spare
            Share by which new cells exceed the minimum.
        reach
            Largest distance in kilometres between a device and the place it is given. A device that
            is farther from all others waits.
        window
            Publications after which an alias is replaced in any case.
        period
            Seconds between publications.
        hold
            Let devices that sign up wait for the next publication, so that nobody who knows when
            they did can tell their first alias from others.
        background
            Publish on the clock and in a separate process while requests are answered. Otherwise
            :meth:`publish` has to be called.
        seed
            Random seed.
        """
        check_options(k, colluders, window, share=share, spare=spare, reach=reach, period=period)
        vault = Vault(new_key() if key is None else key)
        store = Store.open(database)
        try:
            minimum = store.last_k() if k is None else int(k)
        except BaseException:
            store.close()
            raise
        reserve = math.ceil(minimum / 20) if colluders is None else int(colluders)
        rules = Rules(minimum, reserve, float(reach), int(window), float(spare), seed)
        service = cls(
            store,
            vault,
            rules,
            share=float(share),
            period=float(period),
            hold=hold,
            background=background,
        )
        try:
            with service._write_lock:
                service._load()
                if background and store.can_lose_lock:
                    service._watch.start()
                if background:
                    service._schedule()
                    service._clock.start()
        except BaseException:
            service.close()
            raise
        return service

    def __repr__(self) -> str:
        return f"Anonymizer(k={self._rules.k}, devices={len(self._population)})"

    def _repr_html_(self) -> str:
        return html_card(
            "Location service",
            {"k": f"{self._rules.k:,}", "Devices": f"{len(self._population):,}"},
            next_steps={"service.status()": "sizes, counters, publications and alarms"},
        )

    # ---------------------------------------------------------------------------- devices

    def sign_up(self, latitude: float, longitude: float) -> Account:
        """Add a device with its usual exact location and return its account."""
        return self.sign_up_many([latitude], [longitude])[0]

    def sign_up_many(self, latitudes: ArrayLike, longitudes: ArrayLike) -> list[Account]:
        """Add several devices in one transaction, in the order given.

        Each uses the place of the nearest cell until the next publication, or waits if there is
        none within reach. What it is told follows from the published places and its own location.
        """
        degrees = as_degrees(latitudes, longitudes)
        points = to_points(*degrees)
        pseudonyms = [new_pseudonym() for _ in range(len(points))]
        tokens = [new_token() for _ in range(len(points))]
        digests = [hash_token(token) for token in tokens]
        sealed = [
            self._vault.seal(pseudonym, *place)
            for pseudonym, place in zip(pseudonyms, degrees.T.tolist(), strict=True)
        ]
        with self._writing():
            served = self._population.served
            cells = self._assign(points)
            ids = np.append(served.ids, 0)[cells]
            epoch = provisional_epoch(self._state.generation)
            rows = zip(pseudonyms, digests, sealed, ids.tolist(), strict=True)
            added = [
                DeviceRow(self._next_row + number, *row[:3], row[3] or None, epoch, SIGNED_UP)
                for number, row in enumerate(rows)
            ]
            state = count_changes(self._state, sign_ups=len(points))
            self._store.write(Change(state, added=added))
            self._next_row += len(points)
            history = np.zeros((len(points), DEPTH), dtype=np.int64)
            self._population.add(added, points, cells, history)
            self._state = state
            return [
                Account(pseudonym, token, self._place_of(pseudonym))
                for pseudonym, token in zip(pseudonyms, tokens, strict=True)
            ]

    def look_up(self, pseudonym: str, token: str) -> Answer:
        """Return the location to use, under which alias and until when.

        Neither touches the disk nor takes a lock.
        """
        self._check_open()
        if self._suspect:
            with self._writing():  # reloads, or raises
                pass
        population = self._population
        entry = population.find(pseudonym, token)
        answer = self._answer(population, population.served, pseudonym, entry.slot)
        if population.index.get(pseudonym) is not entry:
            # Cancelled in the meantime: the slot may belong to another device already.
            raise unknown_device()
        return answer

    def move(self, pseudonym: str, token: str, latitude: float, longitude: float) -> Answer:
        """Record a new exact location, which takes effect with the next publication.

        Returns the answer to use until then. Only the last move before a publication counts.
        """
        self._population.find(pseudonym, token)
        degrees = as_degrees([latitude], [longitude])
        point = to_points(*degrees)
        sealed = self._vault.seal(pseudonym, *degrees[:, 0].tolist())
        with self._writing():
            population = self._population
            entry = population.find(pseudonym, token)
            state = count_changes(self._state, moves=1)
            status = SIGNED_UP if population.status[entry.slot] == SIGNED_UP else MOVED
            row_id = int(population.rows[entry.slot])
            row = DeviceRow(
                row_id, pseudonym, entry.digest, sealed, None, status=status, moved=True
            )
            self._store.write(Change(state, moved=[row]))
            population.move(entry.slot, point[0], row)
            self._state = state
            return self._answer(population, population.served, pseudonym, entry.slot)

    def cancel(self, pseudonym: str, token: str) -> None:
        """Delete a device and everything stored about it."""
        with self._writing():
            population = self._population
            entry = population.find(pseudonym, token)
            state = count_changes(self._state, cancellations=1)
            transition = leave_cell(population, state, entry.slot)
            self._write(transition, removed=[int(population.rows[entry.slot])])
            population.remove(pseudonym, transition.served)
            self._apply(transition)

    # ---------------------------------------------------------------------------- everyone

    def overview(self) -> Overview:
        """Return the last publication: the cells without their members, and the guarantee."""
        self._check_open()
        return self._population.served.overview

    def published(self) -> tuple[Overview, Clustering | None]:
        """Return the last publication with the cells that it describes."""
        self._check_open()
        served = self._population.served
        return served.overview, served.clustering

    def clustering(self) -> Clustering | None:
        """Return the published cells, or None while all devices wait."""
        return self._population.served.clustering

    @property
    def next_publication_at(self) -> float | None:
        """Unix time of the next publication; None without a clock."""
        return self._next_publication

    def listen(self, function: Callable[[], None]) -> None:
        """Call a function, from any thread, whenever what is published may have changed."""
        self._listeners.append(function)

    # ---------------------------------------------------------------------------- operator

    def status(self) -> Status:
        """Return the operator's view of the service."""
        self._check_open()
        population, state = self._population, self._state
        served, counts = population.served, population.counts
        last = self._publications[-1] if self._publications else None
        devices = len(population)
        return Status(
            k=state.k,
            colluders=self._rules.colluders,
            devices=devices,
            waiting=max(0, devices - int(counts.sum())),
            pending=population.pending,
            cells=len(served.places),
            smallest_cell=int(counts.min()) if len(counts) else None,
            k_over_history=last.k_over_history if last and len(counts) else None,
            generation=state.generation,
            publications=state.publications,
            published_at=state.published_at,
            next_publication_at=self._next_publication,
            rebuilt_at=state.rebuilt_at,
            rebuild_seconds=state.rebuild_seconds,
            rebuilding=self._publishing,
            rebuild_requested=self._rebuild_requested,
            rebuilds=state.rebuilds,
            merges=state.merges,
            sign_ups=state.sign_ups,
            moves=state.moves,
            cancellations=state.cancellations,
            changes=state.changes,
            changes_until_rebuild=max(0, math.floor(self._share * devices) + 1 - state.changes),
            renewed=last.renewed if last else 0,
            distance=last.distance if last else None,
            alarms=tuple(self._alarms(devices, counts, last)),
            last_failure=self._failure,
        )

    def publications(self) -> list[Publication]:
        """Return the figures of recent publications, oldest first."""
        return list(self._publications)

    def what_if(self, k: int) -> WhatIf:
        """Return the distances between devices and their locations under another k."""
        with self._writing():
            points = self._population.points[self._population.occupied()]
        result: WhatIf = self._compute("what_if", len(points), points, k, seed=self._rules.seed)
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
        """Build all cells anew with the next publication; with ``wait``, publish now.

        A rebuild is postponed while a difference to an earlier publication concerns too few
        devices; the status says so.
        """
        self._check_open()
        with self._write_lock:
            self._rebuild_requested = True
            self._refused = False
        if wait:
            self.publish()

    def publish(self) -> bool:
        """Publish now, as the clock does; return False if nothing was published.

        That is so if nothing changed, or if fewer devices changed than a difference between two
        publications has to concern: then they wait for others.
        """
        self._check_open()
        with self._publish_lock:
            try:
                self._publishing = True
                done = self._publish()
                self._failure = None
            except MicrocellError as error:
                self._failure = str(error)
                raise
            finally:
                self._publishing = False
        if done:
            self._notify()
        return done

    def close(self) -> None:
        """Release the database, which holds every acknowledged change; abandon a publication."""
        self._closed = True
        self._worker.stop()
        self._watch.stop()
        self._clock.stop()
        self._notify()
        with self._write_lock:
            self._store.close()

    # ---------------------------------------------------------------------------- changes

    def _load(self) -> None:
        """Load the database, with every cell brought to k before it is served."""
        loaded = load(self._store, self._vault, self._rules.k)
        self._population = loaded.population
        self._state = loaded.state
        self._next_row = loaded.next_row
        self._next_build = loaded.next_build
        self._publications = loaded.publications
        self._rebuild_requested = self._rebuild_requested or loaded.rebuild
        self._epoch += 1
        self._stale = False
        self._suspect = False

    def _assign(self, points: Floats) -> Integers:
        """Return the cell of each newcomer: the nearest published place within reach."""
        served = self._population.served
        if served.clustering is None or self._hold:
            return np.full(len(points), WAITING, dtype=np.int64)
        labels = served.standing.nearest(points, self._rules.reach)
        return np.append(served.clustering.cell_of, WAITING)[labels]

    def _write(self, transition: Transition, *, removed: Sequence[int] = ()) -> None:
        """Write a transition; the caller then updates the population and the state in memory."""
        self._store.write(
            Change(
                transition.state,
                removed=removed,
                merge=transition.merge,
                update=transition.update,
            )
        )

    def _apply(self, transition: Transition) -> None:
        """Follow a written transition in memory."""
        self._state = transition.state
        if transition.update is not None:
            population = self._population
            population.ledger = population.ledger.changed(
                (), transition.update.closed, transition.state.generation
            )
        if transition.merge is not None or transition.update is not None:
            self._notify()

    def _notify(self) -> None:
        for function in self._listeners:
            function()

    def _place_of(self, pseudonym: str) -> Place | None:
        return self._population.served.place_of(self._population.index[pseudonym].slot)

    def _answer(
        self, population: Population, served: ServedCells, pseudonym: str, slot: int
    ) -> Answer:
        cell = int(served.cells[slot])
        pending = bool(population.status[slot] == MOVED)
        until = self._next_publication
        if cell < 0 or served.clustering is None:
            return Answer(None, None, None, served.generation, until, pending)
        return Answer(
            location=served.places[cell],
            accuracy=ACCURACY * float(served.clustering.radius[cell]),
            alias=self._vault.alias(pseudonym, int(served.epochs[slot])),
            generation=served.generation,
            valid_until=until,
            pending=pending,
        )

    # ---------------------------------------------------------------------------- publications

    def _schedule(self) -> None:
        self._next_publication = (math.floor(time.time() / self._period) + 1) * self._period

    def _tick(self) -> None:
        """Publish if the clock says so; a failure is reported by the status."""
        if self._next_publication is None or time.time() < self._next_publication:
            return
        with suppress(MicrocellError):
            self.publish()
        self._schedule()

    def _publish(self) -> bool:
        """Plan the publication on a copy of all devices, then switch over."""
        with self._writing():
            if not self._is_publication_due():
                return False
            population, epoch, started = self._population, self._epoch, time.monotonic()
            state = self._state
            changed = population.pending + state.departures
            rebuild = self._rebuild_requested or state.changes > self._share * len(population)
            self._rebuild_requested = False
            slots = population.occupied()
            situation = population.situation(slots, state.generation, self._next_build, rebuild)
        outcome: Outcome = self._compute(
            "plan_with_secret", len(slots), situation, self._rules, self._vault.grid_secret
        )
        with self._writing():
            if self._epoch != epoch:
                raise ServiceError(
                    "The database was reopened during the publication, which will be repeated.",
                    code="service.unavailable",
                )
            self._refused = outcome.refused
            self._rebuild_requested = self._rebuild_requested or (rebuild and outcome.refused)
            merged = len(population.served.standing) > len(population.served.places)
            if outcome.refused and not changed and not merged:
                return False
            self._switch(outcome, slots, state, time.monotonic() - started)
        return True

    def _is_publication_due(self) -> bool:
        """Return True if there is something to publish that concerns enough devices."""
        population, minimum = self._population, self._rules.minimum
        changed = population.pending + self._state.departures
        self._deferred = 0
        if population.served.clustering is None:
            news = changed > 0 or self._rebuild_requested
            return len(population) >= minimum and news
        if 0 < changed < minimum:
            self._deferred = changed
            return False
        # A rebuild that was postponed is tried again when devices have changed.
        return changed > 0 or (self._rebuild_requested and not self._refused)

    def _switch(self, outcome: Outcome, slots: Integers, begun: State, seconds: float) -> None:
        """Write and serve a publication; devices that changed since it was planned join later."""
        population = self._population
        changed = int(np.count_nonzero(population.status[slots])) + begun.departures
        state = replace(
            self._state,
            generation=self._state.generation + 1,
            publications=begun.publications + 1,
            departures=self._state.departures - begun.departures,
            published_at=time.time(),
        )
        if outcome.rebuilt:
            state = replace(
                state,
                rebuilds=state.rebuilds + 1,
                changes=state.changes - begun.changes,
                rebuilt_at=time.time(),
                rebuild_seconds=seconds,
            )
        served = self._next_cells(outcome, slots, state)
        status = self._next_status(slots)
        transition = self._make_safe(served, state)
        final = transition.served or served
        publication = self._figures(outcome, final, state, changed, seconds)
        now = population.occupied()
        update = self._as_update(outcome, served, status, now, slots, state, publication)
        self._store.write(Change(transition.state, update=update, merge=transition.merge))
        if transition.update is not None:
            self._write(transition)
        population.status[:] = status
        population.pending = int(np.count_nonzero(status[now]))
        alive = self._planned(slots)
        population.history[slots[alive]] = outcome.history[alive]
        still = alive & ~np.isin(slots, sorted(population.shifted))
        population.moved[slots[still]] = outcome.moved[still]
        population.ledger = outcome.ledger
        population.serve(final)
        self._next_build = max([self._next_build, *(build.id + 1 for build in outcome.added)])
        self._publications = [*self._publications, publication][-1000:]
        self._apply(transition)

    def _planned(self, slots: Integers) -> Any:
        """Return which planned slots still hold the same device."""
        population = self._population
        refilled = np.isin(slots, sorted(population.filled))
        return (population.rows[slots] > 0) & ~refilled

    def _next_cells(self, outcome: Outcome, slots: Integers, state: State) -> ServedCells:
        population = self._population
        cells = np.full(len(population.rows), WAITING, dtype=np.int64)
        epochs = np.full(len(cells), provisional_epoch(state.generation), dtype=np.int64)
        alive = self._planned(slots)
        cells[slots[alive]] = outcome.labels[alive]
        epochs[slots[alive]] = np.where(
            outcome.epochs[alive] % 2 == 0,
            outcome.epochs[alive],
            provisional_epoch(state.generation),
        )
        filled = np.array(sorted(population.filled), dtype=np.int64)
        filled = filled[population.rows[filled] > 0]
        if len(filled) and not self._hold:
            cells[filled] = outcome.standing.nearest(population.points[filled], self._rules.reach)
        planned = len(outcome.labels)
        overview = make_overview(
            outcome.standing.clustering(),
            outcome.standing.bands,
            state,
            planned,
            int(np.count_nonzero(outcome.labels < 0)),
        )
        return ServedCells.of(
            outcome.standing.clustering(),
            outcome.standing,
            outcome.standing.builds,
            cells,
            epochs,
            overview,
        )

    def _next_status(self, slots: Integers) -> Integers:
        """Return what each device has done since: settled, unless it changed meanwhile."""
        population = self._population
        status = population.status.copy()
        settled = self._planned(slots) & ~np.isin(slots, sorted(population.shifted))
        status[slots[settled]] = SETTLED
        shifted = np.array(sorted(population.shifted - population.filled), dtype=np.int64)
        status[shifted] = MOVED
        return status

    def _make_safe(self, served: ServedCells, state: State) -> Transition:
        """Merge cells that lost devices while the publication was planned."""
        sizes = served.count()
        if not len(sizes) or sizes.min() >= state.k:
            return Transition(state)
        if sizes.sum() < state.k:
            return suspend(self._population, state)
        return merge_undersized(served, sizes, state)

    def _figures(
        self, outcome: Outcome, served: ServedCells, state: State, changed: int, seconds: float
    ) -> Publication:
        slots = self._population.occupied()
        cells, epochs = served.cells[slots], served.epochs[slots]
        sizes = served.count()
        cohorts = cohort_sizes(cells, epochs)
        placed = cells >= 0
        distance = None
        if placed.any() and served.clustering is not None:
            places = to_points(*served.clustering.places.T)
            points = self._population.points[slots[placed]]
            distance = float(great_circle(points, places[cells[placed]]).mean())
        return Publication(
            generation=state.generation,
            at=time.time(),
            devices=len(slots),
            waiting=int(np.count_nonzero(~placed)),
            cells=len(sizes),
            smallest_cell=int(sizes.min()) if len(sizes) else None,
            k_over_history=int(cohorts.min()) if len(cohorts) else None,
            changed=changed,
            renewed=outcome.renewed,
            distance=distance,
            rebuilt=outcome.rebuilt,
            seconds=seconds,
        )

    def _as_update(
        self,
        outcome: Outcome,
        served: ServedCells,
        status: Integers,
        now: Integers,
        slots: Integers,
        state: State,
        publication: Publication,
    ) -> CellUpdate:
        population = self._population
        history, moved = population.history.copy(), population.moved.copy()
        alive = self._planned(slots)
        history[slots[alive]] = outcome.history[alive]
        still = alive & ~np.isin(slots, sorted(population.shifted))
        moved[slots[still]] = outcome.moved[still]
        return CellUpdate(
            standing=outcome.standing,
            clustering=served.clustering,
            devices=population.rows[now],
            cells=np.append(served.ids, 0)[served.cells[now]],
            epochs=served.epochs[now],
            status=status[now],
            moved=moved[now],
            history=history[now],
            added=outcome.added,
            closed=outcome.closed,
            generation=state.generation,
            publication=publication,
        )

    def _compute(self, task: str, devices: int, *arguments: Any, **options: Any) -> Any:
        if self._background and devices > MAX_INLINE_DEVICES:
            return self._worker.run(task, *arguments, **options)
        return load_task(task)(*arguments, **options)

    def _alarms(self, devices: int, counts: Integers, last: Publication | None) -> Iterator[Alarm]:
        """Yield what the operator should look at."""
        k = self._state.k
        if len(counts) and counts.min() < k:
            yield Alarm("cell_below_k", f"A cell has {counted(int(counts.min()), 'device')}.")
        if last is not None and last.k_over_history is not None and last.k_over_history < k:
            yield Alarm(
                "history_below_k",
                f"Only {counted(last.k_over_history, 'device')} share a history.",
            )
        if self._failure is not None:
            yield Alarm("publication_failed", self._failure)
        if self._next_publication is not None:
            late = time.time() - self._next_publication
            if late > max(60.0, self._period):
                yield Alarm("publication_late", f"The publication is {late:.0f} seconds late.")
        if self._deferred:
            yield Alarm(
                "publication_deferred",
                f"Only {counted(self._deferred, 'device')} changed since the last publication; at "
                f"least {self._rules.minimum} have to.",
            )
        if self._refused:
            yield Alarm(
                "rebuild_postponed",
                "A rebuild would differ from an earlier publication in too few devices; it is "
                "tried again with the next one.",
            )
        served = self._population.served
        merged = len(served.standing) - len(counts)
        if merged > 0:
            yield Alarm(
                "cells_merged",
                f"{counted(merged, 'cell')} fell below k and {'was' if merged == 1 else 'were'} "
                "merged until the next publication.",
            )
        waiting = devices - int(counts.sum())
        if len(counts) and waiting > max(k, 0.01 * devices):
            yield Alarm(
                "many_waiting", f"{counted(waiting, 'device')} wait, too far from enough others."
            )

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
