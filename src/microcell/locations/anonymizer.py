"""The location anonymizer: devices exchange an exact location for one shared by at least k."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from microcell._display import count as counted
from microcell._display import html_card
from microcell.errors import MicrocellError, ServiceError
from microcell.locations.checks import as_degrees, check_options
from microcell.locations.clustering import Clustering, great_circle, to_points
from microcell.locations.population import (
    WAITING,
    Population,
    ServedCells,
    Transition,
    count_changes,
    leave_cell,
    load,
    provisional_epoch,
    unknown_device,
)
from microcell.locations.publication import (
    MIN_RADIUS,
    MOVED,
    SIGNED_UP,
    Outcome,
    Rules,
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
from microcell.locations.store import Change, DeviceRow, State, Store, StoreError, pack_builds
from microcell.locations.switching import (
    as_update,
    make_safe,
    next_cells,
    next_history,
    next_status,
    summarize,
)
from microcell.locations.vault import Vault, hash_token, new_key, new_pseudonym, new_token
from microcell.locations.watch import Watch
from microcell.locations.worker import Worker, load_task
from microcell.model import Floats, Integers

__all__ = ["Anonymizer"]

MAX_INLINE_DEVICES = 2_000
"""Up to this number of devices are clustered in the calling thread, more in a worker process."""

ACCURACY = 2.0
"""Accuracy of an answer, in radii of the cell. At least 3/4 of the devices are within two radii."""


class Anonymizer:
    """The service without its web interface; it owns a database until it is closed.

    A change is durable when its method returns. Look-ups only read memory and continue to work if
    the database fails. What devices and observers see changes only with publications, which happen
    on the service's clock (or when :meth:`publish` is called), never in response to a device: a new
    device uses the place of the nearest cell, a move takes effect with the next publication, and a
    cancellation changes nothing for others. There is one exception, to protect k: if more devices
    cancel than a cell can spare, it is merged with its nearest neighbour within reach immediately,
    or its devices wait if there is none.

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
            the previous one, cells below k are merged before anything is served.
        key
            Key that encrypts exact locations, from :func:`new_key`. None uses a random key that is
            discarded, so that the database cannot be read again.
        colluders
            Number of devices that may collude against the others, by default 5 % of k, rounded up.
            Cells and differences between publications comprise at least k plus this number of
            devices.
        share
            Share of devices that may change before all cells are rebuilt. A rebuild waits until
            every difference from earlier publications involves enough devices.
        spare
            Share by which new cells exceed the minimum.
        reach
            Largest distance in kilometres between a device and the place it uses. Devices that are
            farther from all others wait, as do those of a cell that falls below k and has no
            neighbour within reach.
        window
            Maximum number of publications that an alias lasts.
        period
            Seconds between publications.
        hold
            Make new devices wait for the next publication, so that their first alias cannot be
            recognized from the time of their sign-up.
        background
            Publish on a clock, computing in a separate process while requests are answered.
            Otherwise publications happen only when :meth:`publish` is called.
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
        """Add several devices in one transaction and return their accounts in the same order.

        Each uses the place of the nearest cell until the next publication, or waits if there is
        none within reach. The answer depends only on the published places and its own location.
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
            history = np.zeros((len(points), 1), dtype=np.int64)
            self._population.add(added, points, cells, history)
            self._state = state
            return [
                Account(pseudonym, token, self._place_of(pseudonym))
                for pseudonym, token in zip(pseudonyms, tokens, strict=True)
            ]

    def look_up(self, pseudonym: str, token: str) -> Answer:
        """Return the location to use, the alias to use it under, and how long it is valid.

        Reads memory only, without taking a lock.
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

        Return the answer to use until then. Only the last move before a publication counts. A
        location within ten metres of the present one changes nothing.
        """
        self._population.find(pseudonym, token)
        degrees = as_degrees([latitude], [longitude])
        point = to_points(*degrees)
        sealed = self._vault.seal(pseudonym, *degrees[:, 0].tolist())
        with self._writing():
            population = self._population
            entry = population.find(pseudonym, token)
            if great_circle(point, population.points[[entry.slot]])[0] <= MIN_RADIUS:
                return self._answer(population, population.served, pseudonym, entry.slot)
            state = count_changes(self._state, moves=1)
            status = SIGNED_UP if population.status[entry.slot] == SIGNED_UP else MOVED
            row_id = int(population.rows[entry.slot])
            (builds,) = pack_builds(-np.abs(population.history[[entry.slot]]))
            row = DeviceRow(
                row_id, pseudonym, entry.digest, sealed, None, status=status, builds=builds
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
            transition = leave_cell(population, state, entry.slot, self._rules.reach)
            removed = [int(population.rows[entry.slot])]
            self._store.write(Change(transition.state, removed=removed, merge=transition.merge))
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
        """Register a function to call, from any thread, when the publication may have changed."""
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
            k_over_history=min(population.cohorts.copy().values(), default=None),
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
            changes=self._changes(),
            changes_until_rebuild=max(0, math.floor(self._share * devices) + 1 - self._changes()),
            renewed=last.renewed if last else 0,
            distance=last.distance if last else None,
            alarms=tuple(self._alarms(devices, counts)),
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
        """Rebuild all cells at the next publication; with ``wait``, publish now.

        A rebuild is postponed while it would differ from an earlier publication in too few
        devices; the status then contains an alarm.
        """
        self._check_open()
        with self._write_lock:
            self._rebuild_requested = True
            self._refused = False
        if wait:
            self.publish()

    def publish(self) -> bool:
        """Publish now, as the clock does, and return whether anything was published.

        Nothing is published if nothing changed, or if so few devices changed that the difference
        from the last publication would expose them: they wait for further changes.
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
        """Close the database, abandoning any publication in progress. No change is lost."""
        self._closed = True
        self._worker.stop()
        self._watch.stop()
        self._clock.stop()
        self._notify()
        with self._write_lock:
            self._store.close()

    # ---------------------------------------------------------------------------- changes

    def _load(self) -> None:
        """Load the database, merging cells that are below k before serving them."""
        loaded = load(self._store, self._vault, self._rules.k, self._rules.reach)
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
        """Return the cell of each newcomer, which waits if new aliases are held."""
        if self._hold:
            return np.full(len(points), WAITING, dtype=np.int64)
        return self._population.served.assign(points, self._rules.reach)

    def _apply(self, transition: Transition) -> None:
        """Apply a transition to the state in memory, after it was written."""
        self._state = transition.state
        if transition.merge is not None:
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
        """Publish if it is time; the status reports a failure."""
        if self._next_publication is None or time.time() < self._next_publication:
            return
        with suppress(MicrocellError):
            self.publish()
        self._schedule()

    def _publish(self) -> bool:
        """Plan the publication on a copy of all devices, then switch to it."""
        with self._writing():
            if not self._is_publication_due():
                return False
            population, epoch, started = self._population, self._epoch, time.monotonic()
            state = self._state
            changed = population.pending + state.departures
            rebuild = self._rebuild_requested or self._changes() > self._share * len(population)
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

    def _changes(self) -> int:
        """Return the changes since the last rebuild: one per device and publication."""
        return self._state.changes + self._population.pending + self._state.departures

    def _is_publication_due(self) -> bool:
        """Return True if there are changes to publish and they involve enough devices."""
        population, minimum = self._population, self._rules.minimum
        changed = population.pending + self._state.departures
        self._deferred = 0
        if population.served.clustering is None and len(population) < minimum:
            return False
        if not len(population.served.standing):
            return changed > 0 or self._rebuild_requested
        if 0 < changed < minimum:
            self._deferred = changed
            return False
        # A postponed rebuild is retried when devices have changed.
        return changed > 0 or (self._rebuild_requested and not self._refused)

    def _switch(self, outcome: Outcome, slots: Integers, begun: State, seconds: float) -> None:
        """Write and serve a publication, except for devices that changed since it was planned."""
        population = self._population
        changed = int(np.count_nonzero(population.status[slots])) + begun.departures
        state = replace(
            self._state,
            generation=self._state.generation + 1,
            publications=begun.publications + 1,
            departures=self._state.departures - begun.departures,
            changes=begun.changes + changed,
            published_at=time.time(),
        )
        if outcome.rebuilt:
            state = replace(
                state,
                rebuilds=state.rebuilds + 1,
                changes=0,
                rebuilt_at=time.time(),
                rebuild_seconds=seconds,
            )
        reach = None if self._hold else self._rules.reach
        served = next_cells(population, outcome, slots, state, reach)
        status = next_status(population, slots)
        transition = make_safe(served, state, self._rules.reach)
        final = transition.served or served
        publication = summarize(population, outcome, final, state, changed, seconds)
        now = population.occupied()
        update = as_update(population, outcome, served, status, now, slots, state, publication)
        self._store.write(Change(transition.state, update=update, merge=transition.merge))
        population.status[:] = status
        population.pending = int(np.count_nonzero(status[now]))
        population.history = next_history(population, outcome, slots)
        population.ledger = outcome.ledger
        population.serve(final)
        self._next_build = max([self._next_build, *(build.id + 1 for build in outcome.added)])
        self._publications = [*self._publications, publication][-1000:]
        self._apply(transition)

    def _compute(self, task: str, devices: int, *arguments: Any, **options: Any) -> Any:
        if self._background and devices > MAX_INLINE_DEVICES:
            return self._worker.run(task, *arguments, **options)
        return load_task(task)(*arguments, **options)

    def _alarms(self, devices: int, counts: Integers) -> Iterator[Alarm]:
        """Yield the current alarms."""
        k = self._state.k
        if len(counts) and counts.min() < k:
            yield Alarm("cell_below_k", f"A cell has {counted(int(counts.min()), 'device')}.")
        history = min(self._population.cohorts.copy().values(), default=k)
        if history < k:
            yield Alarm(
                "history_below_k", f"A history is shared by only {counted(history, 'device')}."
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
                f"Only {counted(self._deferred, 'device')} changed since the last publication; "
                f"the next one requires at least {self._rules.minimum}.",
            )
        if self._refused:
            yield Alarm(
                "rebuild_postponed",
                "A rebuild was postponed: it would differ from an earlier publication in too few "
                "devices. The next publication will try again.",
            )
        served = self._population.served
        suspended = int(np.count_nonzero(~served.is_served()))
        merged = len(served.standing) - suspended - len(counts)
        if merged > 0:
            yield Alarm(
                "cells_merged",
                f"{counted(merged, 'cell')} fell below k and {'was' if merged == 1 else 'were'} "
                "merged until the next publication.",
            )
        if suspended > 0:
            yield Alarm(
                "cells_suspended",
                f"{counted(suspended, 'cell')} fell below k without a neighbour within reach; the "
                "devices wait for the next publication.",
            )
        waiting = devices - int(counts.sum())
        if len(counts) and waiting > max(k, 0.01 * devices):
            yield Alarm(
                "many_waiting",
                f"{counted(waiting, 'device')} cannot be placed yet: too few "
                "others are within reach.",
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

        Memory is updated after the database, so a failed write leaves it unchanged. After any other
        failure memory may be wrong, and nothing is served until it is reloaded.
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
        """Check the connection and reconnect; stop serving if another process took over."""
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
