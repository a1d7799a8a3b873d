"""Publications: compute the next cells so that no sequence of publications exposes a device.

Devices change at any time, but published data change only here, on the service's clock. A cell
*stands* from one publication to the next: its place, on a grid with a secret offset, does not move.
New devices join the cell with the nearest place. A cell that has lost devices takes over some from
its neighbours; a cell that has grown is divided; isolated devices wait. A cell is rebuilt only if
every difference from any earlier publication involves enough devices.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from microcell.cells import PowerCells
from microcell.locations.clustering import (
    EARTH_RADIUS,
    Clustering,
    cluster,
    great_circle,
    to_degrees,
)
from microcell.locations.differences import Build, Ledger
from microcell.locations.vault import grid_offsets
from microcell.model import Floats, Integers, Mask

__all__ = [
    "MOVED",
    "SETTLED",
    "SIGNED_UP",
    "UNPLACED",
    "Outcome",
    "Rules",
    "Situation",
    "Standing",
    "cohort_sizes",
    "count_cohorts",
    "lower_band",
    "next_band",
    "plan_publication",
    "plan_with_secret",
    "radius_band",
    "separate_areas",
    "snap",
    "widen",
]

SETTLED, SIGNED_UP, MOVED = 0, 1, 2
"""Status of a device: part of the last publication, new, or moved since."""

UNPLACED = -1
"""Label of a device that waits or has to be assigned again."""

GRID = 0.1
"""Step of the grid of published places, in radii of the cell."""

MIN_RADIUS = 0.01
"""Smallest published radius in kilometres, also for devices that are all at one spot."""

_NEIGHBOURS = 8
"""Number of neighbouring cells that an undersized cell may take devices from."""

_ATTEMPTS = 40
"""Number of times that a cell may fall short in one publication before it is closed."""

_RADII = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
_SIZES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)


def radius_band(radius: float) -> float:
    """Round a radius up to one of 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, ... kilometres.

    Examples
    --------
    >>> [radius_band(radius) for radius in (0.0, 0.4, 1.2, 7.1)]
    [0.01, 0.5, 1.5, 10.0]
    """
    if radius <= MIN_RADIUS:
        return MIN_RADIUS
    power = 10.0 ** math.floor(math.log10(radius))
    factor = next(step for step in _RADII if step * power >= radius * (1 - 1e-12))
    return round(factor * power, 12)


def lower_band(size: int, k: int) -> int:
    """Return the lower end of the band that contains a size: k times 1, 1.5, 2, 3, 4, 6, 8, 10, ...

    Examples
    --------
    >>> [lower_band(size, 100) for size in (105, 149, 150, 999, 1700)]
    [100, 100, 150, 800, 1500]
    """
    if size < k:
        return 0
    power = 10 ** math.floor(math.log10(size / k) + 1e-12)
    ends = [math.ceil(step * power * k) for step in _SIZES]
    return max(int(end) for end in ends if end <= size)


def next_band(lower: int, k: int) -> int:
    """Return the lower end of the next band.

    Examples
    --------
    >>> next_band(100, 100), next_band(150, 100), next_band(1000, 100)
    (150, 200, 1500)
    """
    size = max(lower, k - 1) + 1
    while lower_band(size, k) == lower:
        size += max(1, lower // 50)
    return lower_band(size, k)


def snap(mean: Floats, radius: float, offsets: Floats) -> Floats:
    """Round a point on the sphere to a grid of a tenth of the radius, shifted by the offsets.

    The offsets, uniform in [0, 1), are secret, so the rounded point reveals nothing more precise.

    Examples
    --------
    >>> point = snap(np.array([0.0, 0.0, 6371.0]), 10.0, np.zeros(3))
    >>> bool(abs(np.linalg.norm(point) - EARTH_RADIUS) < 1e-9)
    True
    """
    length = np.linalg.norm(mean)
    if length < 1e-9 * EARTH_RADIUS:  # devices around the globe have no mean direction
        mean, length = np.array([0.0, 0.0, EARTH_RADIUS]), np.float64(EARTH_RADIUS)
    step = GRID * radius
    grid = (np.round(mean * (EARTH_RADIUS / length) / step - offsets) + offsets) * step
    size = np.linalg.norm(grid)
    if size < 0.5 * EARTH_RADIUS:  # only with a radius of the size of the Earth
        grid, size = np.asarray(mean), length
    out: Floats = grid * (EARTH_RADIUS / size)
    return out


@dataclass(frozen=True)
class Rules:
    """Guarantees that every publication must satisfy.

    Each cell has at least ``k + colluders`` devices, and every difference between two publications
    involves at least as many. ``reach`` is the largest distance in kilometres between a device and
    its place. An alias lasts at most ``window`` publications. New cells exceed the minimum by the
    share ``spare``.
    """

    k: int
    colluders: int = 0
    reach: float = 100.0
    window: int = 30
    spare: float = 0.05
    seed: int = 0

    @property
    def minimum(self) -> int:
        """Minimum number of devices per cell at a publication."""
        return self.k + self.colluders


@dataclass(frozen=True, eq=False, repr=False)
class Standing:
    """The standing cells, one entry each.

    ``points`` are the published places on the sphere, ``radii`` the published radii, ``builds`` the
    ids, and ``bands`` the lower ends of the published size bands. ``sizes`` are the true sizes at
    the last publication, and ``changes`` the number of devices that joined or left since the band
    was set.
    """

    points: Floats
    radii: Floats
    builds: Integers
    bands: Integers
    sizes: Integers
    changes: Integers

    @classmethod
    def empty(cls) -> "Standing":
        """Return a service without cells."""
        none = np.empty(0, dtype=np.int64)
        return cls(np.empty((0, 3)), np.empty(0), none, none, none, none)

    def __len__(self) -> int:
        return len(self.builds)

    def __repr__(self) -> str:
        return f"Standing({len(self)} cells)"

    def take(self, rows: Integers | Mask) -> "Standing":
        """Return the selected cells."""
        return Standing(
            self.points[rows],
            self.radii[rows],
            self.builds[rows],
            self.bands[rows],
            self.sizes[rows],
            self.changes[rows],
        )

    def join(self, other: "Standing") -> "Standing":
        """Return these cells followed by the other ones."""
        return Standing(
            np.concatenate([self.points, other.points]),
            np.concatenate([self.radii, other.radii]),
            np.concatenate([self.builds, other.builds]),
            np.concatenate([self.bands, other.bands]),
            np.concatenate([self.sizes, other.sizes]),
            np.concatenate([self.changes, other.changes]),
        )

    def diagram(self) -> PowerCells:
        """Return the rule that assigns new devices: the nearest published place."""
        return PowerCells(
            centroids=self.points,
            sizes=np.maximum(self.bands, 1),
            k=int(max(1, self.bands.min())),
            costs=np.zeros(len(self)),
        )

    def clustering(self) -> Clustering | None:
        """Return the cells as they are published."""
        if not len(self):
            return None
        places = np.stack(to_degrees(self.points), axis=1)
        return Clustering(self.diagram(), np.arange(len(self)), places, self.radii)

    def nearest(self, points: Floats, reach: float) -> Integers:
        """Return the nearest place of each point, or UNPLACED if it is beyond reach."""
        if not len(self) or not len(points):
            return np.full(len(points), UNPLACED, dtype=np.int64)
        labels = self.diagram().assign(points)
        far = great_circle(points, self.points[labels]) > reach
        return np.where(far, UNPLACED, labels).astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Situation:
    """The devices before a publication.

    ``labels`` are positions in ``standing``; UNPLACED for devices that wait or whose cell was
    merged. ``epochs`` say when each alias began (see :func:`cohort_sizes`), ``history`` holds the
    builds each device was part of, latest first and padded with zeros; they are negative if the
    device has moved since.
    """

    points: Floats
    labels: Integers
    status: Integers
    epochs: Integers
    history: Integers
    standing: Standing
    ledger: Ledger
    generation: int
    next_build: int
    rebuild: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Outcome:
    """The next publication, in the order of the situation's devices.

    ``renewed`` is the number of devices whose alias was replaced, ``moves_of_cells`` the number
    that were handed over to a neighbouring cell. ``refused`` is True if a rebuild was due but would
    have differed from an earlier publication in too few devices.
    """

    labels: Integers
    epochs: Integers
    history: Integers
    standing: Standing
    ledger: Ledger
    added: list[Build] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    renewed: int = 0
    handed_over: int = 0
    rebuilt: bool = False
    refused: bool = False


def cohort_sizes(labels: Integers, epochs: Integers) -> Integers:
    """Return the sizes of the groups of devices that share a location over their aliases' lives.

    A device that changes its location gets a new alias, so an alias only ever shows one location,
    from its epoch on. Epochs are twice the generation of the publication at which the alias began;
    odd epochs are provisional aliases, which the next publication replaces.
    """
    return np.array(list(count_cohorts(labels, epochs).values()), dtype=np.int64)


def count_cohorts(labels: Integers, epochs: Integers) -> dict[tuple[int, int], int]:
    """Return the sizes of the cohorts by cell and epoch.

    Examples
    --------
    >>> count_cohorts(np.array([0, 0, 1, -1]), np.array([2, 2, 3, 2]))
    {(0, 2): 2}
    """
    settled = (labels >= 0) & (epochs % 2 == 0)
    count = int(labels.max(initial=0)) + 1
    keys, sizes = np.unique(epochs[settled] * count + labels[settled], return_counts=True)
    cells, begun = (keys % count).tolist(), (keys // count).tolist()
    return dict(zip(zip(cells, begun, strict=True), sizes.tolist(), strict=True))


def widen(history: Integers, width: int) -> Integers:
    """Return the histories with room for at least ``width`` builds per device.

    No build is ever forgotten: otherwise a difference to an old publication could not be checked.

    Examples
    --------
    >>> widen(np.array([[5, 3]]), 4).tolist()
    [[5, 3, 0, 0]]
    """
    missing = max(0, width - history.shape[1])
    return np.pad(history, ((0, 0), (0, missing)))


def plan_publication(
    situation: Situation, rules: Rules, offsets: Callable[[int], Floats]
) -> Outcome:
    """Return the next publication; ``offsets`` gives the secret grid offsets of a build."""
    state = _Draft(situation, rules, offsets)
    refused = False
    if situation.rebuild or not len(situation.standing):
        refused = not state.rebuild()
    if not state.rebuilt:
        state.place_newcomers()
        state.fill_small_cells()
        state.divide_large_cells()
        state.open_new_areas()
    return state.finish(refused)


class _Draft:
    """A publication under construction."""

    def __init__(
        self, situation: Situation, rules: Rules, offsets: Callable[[int], Floats]
    ) -> None:
        self.before = situation
        self.rules = rules
        self.offsets = offsets
        self.labels = np.where(situation.status == SETTLED, situation.labels, UNPLACED)
        self.standing = situation.standing
        self.ledger = situation.ledger
        self.history = situation.history.copy()
        self.next_build = situation.next_build
        self.added: list[Build] = []
        self.closed: list[int] = []
        self.handed_over = 0
        self.rebuilt = False

    # ---------------------------------------------------------------------------- cells that stand

    def place_newcomers(self) -> None:
        """Assign devices without a cell to the nearest place within reach."""
        rows = np.flatnonzero(self.labels == UNPLACED)
        self.labels[rows] = self.standing.nearest(self.before.points[rows], self.rules.reach)

    def sizes(self) -> Integers:
        """Return the number of devices per cell."""
        return np.bincount(self.labels + 1, minlength=len(self.standing) + 1)[1:]

    def fill_small_cells(self) -> None:
        """Fill each cell up to the minimum with devices of its neighbours, or close it.

        An undersized cell bids for the devices that lose the least by changing. A neighbour that
        falls below the minimum bids in turn, at increased prices.
        """
        minimum = self.rules.minimum
        bids = np.zeros(len(self.standing))
        attempts = np.zeros(len(self.standing), dtype=np.int64)
        members = _members(self.labels, len(self.standing))
        queue = [int(cell) for cell in np.flatnonzero(self.sizes() < minimum)]
        open_cells = np.ones(len(self.standing), dtype=np.bool_)
        before = self.labels.copy()
        while queue:
            cell = queue.pop()
            if not open_cells[cell] or len(members[cell]) >= minimum:
                continue
            attempts[cell] += 1
            losers = None
            if attempts[cell] <= _ATTEMPTS:
                losers = self._bid(cell, bids, members, open_cells)
            if losers is None:
                self._close(cell, members, open_cells)
            else:
                queue += [other for other in losers if len(members[other]) < minimum]
        self.handed_over = int(np.count_nonzero((before >= 0) & (before != self.labels)))
        self._keep(open_cells)

    def _bid(
        self, cell: int, bids: Floats, members: list[set[int]], open_cells: Mask
    ) -> list[int] | None:
        """Take over devices; return the cells that lost some, or None if too few can move."""
        missing = self.rules.minimum - len(members[cell])
        here = self.standing.points[cell]
        near = _nearest_cells(self.standing.points, cell, open_cells)
        rows = np.array([row for other in near for row in members[other]], dtype=np.int64)
        if len(rows) < missing:
            return None
        owners = self.labels[rows]
        # Rounded, since the order in which devices change cells is visible to them.
        step = GRID * self.standing.radii[cell]
        points = np.round(self.before.points[rows] / step) * step
        there = np.sum((points - here) ** 2, axis=1)
        margin = there - np.sum((points - self.standing.points[owners]) ** 2, axis=1) + bids[owners]
        margin[there > self.rules.reach**2] = np.inf
        chosen = np.argsort(margin, kind="stable")[:missing]
        if not np.isfinite(margin[chosen[-1]]):
            return None
        bids[cell] = max(bids[cell], float(margin[chosen[-1]]))
        for row, owner in zip(rows[chosen].tolist(), owners[chosen].tolist(), strict=True):
            members[owner].discard(row)
            members[cell].add(row)
        self.labels[rows[chosen]] = cell
        return sorted(set(owners[chosen].tolist()))

    def _close(self, cell: int, members: list[set[int]], open_cells: Mask) -> None:
        """Close a cell; its devices go to the nearest other place within reach, or wait."""
        open_cells[cell] = False
        rows = np.array(sorted(members[cell]), dtype=np.int64)
        members[cell].clear()
        others = np.flatnonzero(open_cells)
        labels = self.standing.take(others).nearest(self.before.points[rows], self.rules.reach)
        self.labels[rows] = (
            np.where(labels >= 0, others[labels], UNPLACED) if len(others) else UNPLACED
        )
        for row, label in zip(rows.tolist(), self.labels[rows].tolist(), strict=True):
            if label >= 0:
                members[label].add(row)

    def _keep(self, kept: Mask) -> None:
        """Drop the other cells and renumber."""
        self.closed += self.standing.builds[~kept].tolist()
        # The last entry is that of devices without a cell.
        numbers = np.append(np.where(kept, np.cumsum(kept) - 1, UNPLACED), UNPLACED)
        self.labels = numbers[self.labels]
        self.standing = self.standing.take(kept)

    # ---------------------------------------------------------------------------- new cells

    def divide_large_cells(self) -> None:
        """Divide cells of at least twice the minimum where the differences allow it."""
        large = 2 * math.ceil(self.rules.minimum * (1.0 + self.rules.spare))
        for build in self.standing.builds[self.sizes() >= large].tolist():
            cell = int(np.flatnonzero(self.standing.builds == build)[0])
            self._build(np.flatnonzero(self.labels == cell), [cell])

    def open_new_areas(self) -> None:
        """Build cells for waiting devices that are close together."""
        rows = np.flatnonzero(self.labels == UNPLACED)
        if len(rows) >= self.rules.minimum:
            self._build(rows, [])

    def rebuild(self) -> bool:
        """Rebuild all cells; return False if the differences do not allow it.

        If there are no cells yet, larger ones are tried, since all devices would have to wait
        otherwise.
        """
        rows = np.arange(len(self.labels))
        before, minimum = self.labels, self.rules.minimum
        self.labels = np.full(len(rows), UNPLACED, dtype=np.int64)
        while not self.rebuilt and len(rows) >= minimum:
            self.rebuilt = self._build(rows, list(range(len(self.standing))), minimum)
            if len(self.standing):
                break
            minimum *= 2
        if not self.rebuilt:
            self.labels = before
            return not len(self.standing)
        self.place_newcomers()
        return True

    def _build(self, rows: Integers, replaced: Sequence[int], minimum: int | None = None) -> bool:
        """Replace some cells by new ones, unless a difference would be too small."""
        groups, kept_members = self._group(rows, replaced, minimum or self.rules.minimum)
        least = 2 if len(replaced) == 1 else 1
        if not groups or len(groups) + len(kept_members) < least:
            return False
        replaced = [cell for cell in replaced if cell not in kept_members]
        described = [
            self._describe(group, self.next_build + number) for number, group in enumerate(groups)
        ]
        builds = [build for build, _ in described]
        closed = self.standing.builds[list(replaced)].tolist()
        if not self.ledger.allows(builds, [*self.closed, *closed], self.rules.minimum):
            return False
        for build, group in zip(builds, groups, strict=True):
            self._remember(group, build.id)
        for cell, same in kept_members.items():
            self.labels[same] = cell
        stray = np.setdiff1d(rows, np.concatenate([*groups, *kept_members.values()]))
        kept = np.ones(len(self.standing), dtype=np.bool_)
        kept[list(replaced)] = False
        self._keep(kept)
        for group, (_, added) in zip(groups, described, strict=True):
            self.labels[group] = len(self.standing)
            self.standing = self.standing.join(added)
        self.labels[stray] = self.standing.nearest(self.before.points[stray], self.rules.reach)
        # A ledger for the checks that follow; `finish` makes the final one.
        self.ledger = self.ledger.changed(builds, closed, self.before.generation + 1)
        self.next_build += len(builds)
        self.added += builds
        return True

    def _group(
        self, rows: Integers, replaced: Sequence[int], minimum: int
    ) -> tuple[list[Integers], dict[int, Integers]]:
        """Return the devices of new cells, and those of replaced cells that would hardly change.

        The latter are kept if that leaves enough devices to the others: a device that is part of a
        standing build joins no other.
        """
        free = rows[~self._is_built(rows, replaced)]
        groups = [
            free[group] for group in build_groups(self.before.points[free], self.rules, minimum)
        ]
        kept = self._unchanged(groups, replaced)
        first = {int(group[0]) for group in kept.values()}
        changed = [group for group in groups if int(group[0]) not in first]
        replaced = [cell for cell in replaced if cell not in kept]
        changed = [group[~self._is_built(group, replaced)] for group in changed]
        if changed and min(map(len, changed)) >= minimum:
            return changed, kept
        return ([], kept) if not changed else (groups, {})

    def _is_built(self, rows: Integers, replaced: Sequence[int]) -> Mask:
        """Return the devices that are part of a standing build, except those to be replaced."""
        standing = np.delete(self.standing.builds, np.asarray(replaced, dtype=np.int64))
        out: Mask = np.isin(np.abs(self.history[rows, 0]), standing)
        return out

    def _unchanged(
        self, groups: Sequence[Integers], replaced: Sequence[int]
    ) -> dict[int, Integers]:
        """Return the groups that nearly equal a cell to be replaced."""
        position = {int(self.standing.builds[cell]): cell for cell in replaced}
        result: dict[int, Integers] = {}
        for group in groups:
            builds, counts = np.unique(self.history[group, 0], return_counts=True)
            build, count = int(builds[np.argmax(counts)]), int(counts.max())
            if build in position:
                difference = len(group) + self.ledger.builds[build].size - 2 * count
                if difference < self.rules.minimum:
                    result[position[build]] = group
        return result

    def _describe(self, rows: Integers, number: int) -> tuple[Build, Standing]:
        points = self.before.points[rows]
        mean = points.mean(axis=0)
        exact = snap(mean, 0.0001, np.zeros(3))
        distances = great_circle(points, np.broadcast_to(exact, points.shape))
        radius = radius_band(float(np.sqrt(np.mean(distances**2))))
        place = snap(mean, radius, self.offsets(number))
        numbers, counts = np.unique(self.history[rows], return_counts=True)
        overlaps = {
            int(build): int(count) for build, count in zip(numbers, counts, strict=True) if build
        }
        build = Build(
            number,
            self.before.generation + 1,
            len(rows),
            overlaps,
        )
        band = lower_band(len(rows), self.rules.k)
        ones = np.ones(1, dtype=np.int64)
        cell = Standing(
            place[np.newaxis],
            np.array([radius]),
            number * ones,
            band * ones,
            len(rows) * ones,
            0 * ones,
        )
        return build, cell

    def _remember(self, rows: Integers, build: int) -> None:
        if self.history[rows, -1].any():
            self.history = widen(self.history, 2 * self.history.shape[1])
        self.history[rows, 1:] = self.history[rows, :-1]
        self.history[rows, 0] = build

    # ---------------------------------------------------------------------------- publication

    def finish(self, refused: bool) -> Outcome:
        """Return the publication with its aliases and size bands."""
        stayed = self._stayed()
        sizes = self.sizes()
        kept = np.bincount(self.labels[stayed], minlength=len(self.standing))
        arrivals, departures = sizes - kept, np.maximum(self.standing.sizes - kept, 0)
        epochs = self._renew(stayed, arrivals, departures)
        changes = self.standing.changes + self._changes(arrivals, departures)
        new = np.isin(self.standing.builds, [build.id for build in self.added])
        due = new | (changes >= self.rules.minimum)
        bands = np.array([lower_band(int(size), self.rules.k) for size in sizes], dtype=np.int64)
        standing = replace(
            self.standing,
            bands=np.where(due, bands, self.standing.bands),
            sizes=sizes,
            changes=np.where(due, 0, changes),
        )
        published = self.before.epochs % 2 == 0
        had_alias = published & (self.before.labels >= 0)
        return Outcome(
            labels=self.labels,
            epochs=epochs,
            history=self.history,
            standing=standing,
            ledger=self.before.ledger.changed(self.added, self.closed, self.before.generation + 1),
            added=[build for build in self.added if build.id not in set(self.closed)],
            closed=self.closed,
            renewed=int(np.count_nonzero(had_alias & (epochs != self.before.epochs))),
            handed_over=self.handed_over,
            rebuilt=self.rebuilt,
            refused=refused,
        )

    def _changes(self, arrivals: Integers, departures: Integers) -> Integers:
        """Return at most as many devices as joined or left each cell.

        Of a cell that was merged or suspended since, it is not known who stayed.
        """
        before = self.before.standing.builds[self.before.labels[self.before.labels >= 0]]
        served = np.isin(self.standing.builds, before)
        return np.where(served, arrivals + departures, abs(self.sizes() - self.standing.sizes))

    def _stayed(self) -> Mask:
        """Return the devices that are in the same cell as at the last publication."""
        before = self.before
        builds = np.append(before.standing.builds, -1)[before.labels]
        now = np.append(self.standing.builds, -2)[self.labels]
        settled = (before.status == SETTLED) & (before.epochs % 2 == 0)
        out: Mask = settled & (builds == now)
        return out

    def _renew(self, stayed: Mask, arrivals: Integers, departures: Integers) -> Integers:
        """Return the epochs of all aliases.

        A cell that lost members renews all its aliases, so that those that ended do not stand out.
        So does a cell with new members, unless there are enough of them for an own cohort.
        """
        now = 2 * (self.before.generation + 1)
        epochs = np.where(stayed, self.before.epochs, now)
        minimum = self.rules.minimum
        oldest = now - 2 * self.rules.window
        few = (departures > 0) | ((arrivals > 0) & (arrivals < minimum))
        groups = np.stack([self.labels[stayed], epochs[stayed]], axis=1)
        cohorts, counts = np.unique(groups, axis=0, return_counts=True)
        ended = (counts < minimum) | (cohorts[:, 1] <= oldest)
        few[cohorts[ended, 0]] = True
        reset = np.append(few, False)[self.labels]
        out: Integers = np.where(reset, now, epochs)
        return out


# -------------------------------------------------------------------------------- groups


def build_groups(points: Floats, rules: Rules, minimum: int) -> list[Integers]:
    """Return groups of at least the minimum size, with all devices within reach of the mean.

    Isolated devices are in no group.
    """
    groups: list[Integers] = []
    for rows in separate_areas(points, rules.reach):
        left = rows
        while len(left) >= minimum:
            clustering, labels = cluster(points[left], minimum, spare=rules.spare, seed=rules.seed)
            means = _means(points[left], labels, len(clustering))
            near = great_circle(points[left], means[labels]) <= 0.9 * rules.reach
            if near.all():
                groups += [left[labels == cell] for cell in range(len(clustering))]
                break
            left = left[near]
    return groups


def _means(points: Floats, labels: Integers, count: int) -> Floats:
    sums: Floats = np.stack(
        [np.bincount(labels, weights=column, minlength=count) for column in points.T], axis=1
    ).astype(np.float64)
    sums[np.linalg.norm(sums, axis=1) < 1e-9] = (0.0, 0.0, EARTH_RADIUS)
    return sums


def separate_areas(points: Floats, reach: float) -> list[Integers]:
    """Return the rows of areas that are at least ``reach`` apart, by a grid of that size."""
    boxes = np.floor(points / reach).astype(np.int64)
    occupied, inverse = np.unique(boxes, axis=0, return_inverse=True)
    inverse = inverse.ravel()
    position = {tuple(box): number for number, box in enumerate(occupied.tolist())}
    parent = list(range(len(occupied)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    steps = [(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1)]
    for number, (x, y, z) in enumerate(occupied.tolist()):
        for dx, dy, dz in steps:
            other = position.get((x + dx, y + dy, z + dz))
            if other is not None:
                parent[root(number)] = root(other)
    roots = np.array([root(number) for number in range(len(occupied))], dtype=np.int64)
    areas = roots[inverse]
    order = np.argsort(areas, kind="stable")
    cuts = np.flatnonzero(np.diff(areas[order])) + 1
    return [np.sort(rows) for rows in np.split(order, cuts)] if len(order) else []


def _members(labels: Integers, count: int) -> list[set[int]]:
    members: list[set[int]] = [set() for _ in range(count)]
    for row, label in enumerate(labels.tolist()):
        if label >= 0:
            members[label].add(row)
    return members


def _nearest_cells(points: Floats, cell: int, open_cells: Mask) -> list[int]:
    distances = np.sum((points - points[cell]) ** 2, axis=1)
    distances[~open_cells] = np.inf
    distances[cell] = np.inf
    count = min(_NEIGHBOURS, len(distances) - 1)
    nearest = np.argsort(distances, kind="stable")[:count]
    return [int(other) for other in nearest if np.isfinite(distances[other])]


def plan_with_secret(situation: Situation, rules: Rules, secret: bytes) -> Outcome:
    """Plan a publication with grid offsets derived from a key, as the service does."""
    return plan_publication(situation, rules, lambda number: grid_offsets(secret, number))
