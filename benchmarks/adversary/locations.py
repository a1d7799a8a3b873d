"""Attacks on the location anonymizer, and what the protection costs.

``python -m benchmarks.adversary.locations [DEVICES [K [DAYS]]]`` prints a table. The attacker sees
all published lists and the answers of its own devices; a provider sees all aliases with their
locations. Each attack knows which device it is after and when that device signed up, and gives one
estimate of its home. The home is recovered if the error is smaller than the radius of its cell and
less than half of that of the published place, which everybody knows.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell.locations import Anonymizer, Overview, make_city
from microcell.locations.clustering import cluster, great_circle, to_points
from microcell.locations.publication import radius_band, snap
from microcell.locations.vault import grid_offsets

RESULTS = Path(__file__).parent.parent / "results"

ROUNDING = 0.1**2 / 12 * 2
"""Variance of rounding to a tenth of the radius, if homes have variance 1 in each direction."""

Points = np.ndarray


@dataclass(frozen=True)
class Attack:
    """Result of an attack.

    ``within`` is the number of estimates within the radius of the victim's cell, ``places_within``
    the same for the published places, and ``closer`` the number of estimates that are closer to the
    home than the published place. Errors are in radii of the cell.
    """

    name: str
    victims: int
    recovered: int
    within: int
    places_within: int
    closer: int
    median_error: float | None


@dataclass(frozen=True)
class Score:
    """Errors of one estimate and of the published place, in radii of the victim's cell."""

    error: float
    known: float

    @property
    def recovered(self) -> bool:
        """True if the home is recovered."""
        return self.error < 1.0 and self.error < self.known / 2


def _list_sum(overview: Overview) -> Points:
    """Sum of size times place over all cells, as well as a reader of the list can know it."""
    sizes = np.array([(cell.at_least + cell.below - 1) / 2 for cell in overview.cells])
    return sizes @ _places(overview)


def _places(overview: Overview) -> Points:
    places = np.array([(cell.place.latitude, cell.place.longitude) for cell in overview.cells])
    return to_points(*places.reshape(-1, 2).T)


def _score(overview: Overview, guess: Points, victim: Points) -> Score:
    places = _places(overview)
    nearest = int(np.argmin(np.linalg.norm(places - victim, axis=1)))
    radius = overview.cells[nearest].radius
    known = float(great_circle(places[[nearest]], victim)[0])
    error = float("inf")  # no estimate
    if np.linalg.norm(guess) > 1e-9:
        error = float(great_circle(guess, victim)[0])
    return Score(error / radius, known / radius)


def open_service(k: int, colluders: int, **options: Any) -> Anonymizer:
    """Open a service in memory that publishes on request."""
    return Anonymizer.open(
        "sqlite://", k, key=bytes(range(32)), colluders=colluders, background=False, **options
    )


class Town:
    """A service with devices, and other people who keep changing."""

    def __init__(self, devices: int, k: int, colluders: int, seed: int = 0, **options: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.k, self.colluders = k, colluders
        self.service = open_service(k, colluders, **options)
        self.accounts = self.service.sign_up_many(*make_city(devices, seed=seed))
        self.service.publish()

    def home(self) -> tuple[float, float]:
        """Draw a home."""
        latitude, longitude = make_city(1, seed=int(self.rng.integers(2**31)))
        return float(latitude[0]), float(longitude[0])

    def change(self, count: int) -> list[str]:
        """Let ``count`` honest devices sign up, move or cancel; return those that moved."""
        moved = []
        for _ in range(count):
            turn = int(self.rng.integers(3))
            at = int(self.rng.integers(len(self.accounts)))
            account = self.accounts[at]
            if turn == 0:
                self.accounts.append(self.service.sign_up(*self.home()))
            elif turn == 1:
                self.service.move(account.pseudonym, account.token, *self.home())
                moved.append(account.pseudonym)
            else:
                self.accounts.pop(at)
                self.service.cancel(account.pseudonym, account.token)
        return moved


def sum_attack(town: Town, victims: int) -> Attack:
    """Subtract the sum of one list from that of the next, and the attacker's own devices."""
    return _attack(town, victims, "sum", _subtract)


def _subtract(before: Overview, after: Overview, own: Points) -> Points:
    return _list_sum(after) - _list_sum(before) - own.sum(axis=0)


def differencing_attack(town: Town, victims: int) -> Attack:
    """Subtract single cells of two lists: the one that changed, nearest to where it was."""

    def estimate(before: Overview, after: Overview, _: Points) -> Points:
        old, new = _places(before), _places(after)
        known = {tuple(place) for place in old.round(9).tolist()}
        changed = [i for i, place in enumerate(new.round(9).tolist()) if tuple(place) not in known]
        if not changed or not len(old):
            return np.zeros(3)
        cell = changed[0]
        other = int(np.argmin(np.linalg.norm(old - new[cell], axis=1)))
        size = after.cells[cell].at_least
        return (size + 1) * new[cell] - size * old[other]

    return _attack(town, victims, "differencing", estimate)


def _attack(
    town: Town,
    victims: int,
    name: str,
    estimate: Callable[[Overview, Overview, Points], Points],
) -> Attack:
    """Attack victims that sign up one after another, forcing publications as far as possible."""
    scores = []
    for _ in range(victims):
        before = town.service.overview()
        home = town.home()
        town.accounts.append(town.service.sign_up(*home))
        own = [town.home() for _ in range(town.colluders)]
        accounts = [town.service.sign_up(*place) for place in own]
        if not town.service.publish():  # the attacker's devices do not suffice; others must change
            town.change(town.k)
            town.service.publish()
        after = town.service.overview()
        victim = to_points(*np.array([home]).T)
        guess = estimate(before, after, to_points(*np.array(own).reshape(-1, 2).T))[np.newaxis]
        scores.append(_score(after, guess, victim))
        for account in accounts:
            town.service.cancel(account.pseudonym, account.token)
        if len(town.accounts) % 3 == 0:
            town.service.rebuild()
    return _summary(name, scores)


def _summary(name: str, scores: list[Score]) -> Attack:
    median = float(np.median([score.error for score in scores]))
    return Attack(
        name=name,
        victims=len(scores),
        recovered=sum(score.recovered for score in scores),
        within=sum(score.error < 1 for score in scores),
        places_within=sum(score.known < 1 for score in scores),
        closer=sum(score.error < score.known for score in scores),
        median_error=median if np.isfinite(median) else None,
    )


def sybil_attack(devices: int, k: int, colluders: int, victims: int) -> Attack:
    """Surround a victim with own devices before the first publication and subtract them."""
    rng = np.random.default_rng(3)
    scores = []
    for number in range(victims):
        homes = np.stack(make_city(devices, seed=number), axis=1)
        home = homes[int(rng.integers(devices))]
        own = home + rng.normal(scale=1e-4, size=(colluders, 2))
        service = open_service(k, colluders)
        service.sign_up_many(*homes.T)
        accounts = service.sign_up_many(*own.T) if colluders else []
        service.publish()
        answers = [service.look_up(account.pseudonym, account.token) for account in accounts]
        places = Counter(answer.location for answer in answers if answer.location is not None)
        victim = to_points(*home[np.newaxis].T)
        if places:
            place, seen = places.most_common(1)[0]
            together = to_points(*np.array([[place.latitude, place.longitude]]).T)
            mine = [answer.location == place for answer in answers]
            # As if the victim were the only other device of the cell.
            guess = (seen + 1) * together - to_points(*own[mine].T).sum(axis=0)
            scores.append(_score(service.overview(), guess, victim))
        service.close()
    return _summary("sybil", scores)


@dataclass(frozen=True)
class Histories:
    """Result of observing all aliases over some days with changes.

    ``below`` is the largest number of devices, over the days, whose history fewer than k share,
    before and after each publication; ``ended_below`` the same for aliases that ended, by what they
    showed from beginning to end. ``kept`` is the mean share of devices whose alias survived a day.
    Distances are in kilometres.
    """

    devices: int
    k: int
    days: int
    smallest: int
    below: int
    ended_below: int
    kept: float
    rebuilds: int
    distance: float
    free_distance: float


def history_attack(
    devices: int, k: int, *, days: int = 30, changes: float = 0.05, seed: int = 0, **options: Any
) -> Histories:
    """Follow every alias over days with changes, as providers that collude could."""
    town = Town(devices, k, options.pop("colluders", -(-k // 20)), seed, **options)
    histories: dict[str, tuple[Any, ...]] = {}
    smallest, below, ended_below = devices, 0, 0
    kept, ours, free = [], [], []
    for day in range(days + 1):
        if day:
            town.change(round(changes * devices))
            still = [histories[alias] for alias in _aliases(town) if alias in histories]
            smallest, below = _counted(still, k, smallest, below)
            town.service.publish()
        now = {
            alias: (*histories.get(alias, (day,)), place) for alias, place in _aliases(town).items()
        }
        smallest, below = _counted(now.values(), k, smallest, below)
        ended = [seen for alias, seen in histories.items() if alias not in now]
        _, ended_below = _counted(ended, k, devices, ended_below)
        if day:
            kept.append(sum(alias in histories for alias in now) / len(now))
        histories = now
        ours.append(town.service.publications()[-1].distance)
        if day % 5 == 0:
            free.append((day, _free_distance(town, k)))
    result = Histories(
        devices=devices,
        k=k,
        days=days,
        smallest=smallest,
        below=below,
        ended_below=ended_below,
        kept=float(np.mean(kept)) if kept else 1.0,
        rebuilds=town.service.status().rebuilds,
        distance=float(np.mean([ours[day] for day, _ in free])),
        free_distance=float(np.mean([distance for _, distance in free])),
    )
    town.service.close()
    return result


def _aliases(town: Town) -> dict[str, Any]:
    """Return the places of all aliases in use."""
    answers = [town.service.look_up(one.pseudonym, one.token) for one in town.accounts]
    return {answer.alias: answer.location for answer in answers if answer.alias is not None}


def _counted(
    histories: Iterable[tuple[Any, ...]], k: int, smallest: int, below: int
) -> tuple[int, int]:
    """Update the smallest group and the largest number of devices in groups below k."""
    sizes = Counter(histories).values()
    short = sum(size for size in sizes if size < k)
    return min(smallest, *sizes, smallest), max(below, short)


def _free_distance(town: Town, k: int) -> float:
    """Mean distance if the cells were rebuilt freely: cells of k and their exact means."""
    population = town.service._population
    points = population.points[population.occupied()]
    clustering, labels = cluster(points, k)
    return float(great_circle(points, to_points(*clustering.places[labels].T)).mean())


# -------------------------------------------------------------------------------- all publications


@dataclass(frozen=True)
class Knowledge:
    """What the best linear estimate from all publications knows about homes.

    ``sharpest`` is the smallest remaining standard deviation of a home, relative to before, if the
    attacker knows which devices each mean was computed of; ``with_colluders`` the same with the
    homes of the c devices that help most known as well. ``ideal`` is what a single mean of k exact
    homes leaves: sqrt(1 - 1/k). ``fewest`` is the smallest number of homes in any weighted sum
    of all means that is not 0.
    """

    publications: int
    builds: int
    sharpest: float
    with_colluders: float
    ideal: float
    fewest: int


def linear_attack(
    devices: int, k: int, *, days: int = 30, changes: float = 0.05, seed: int = 0, **options: Any
) -> Knowledge:
    """Combine all places ever published, with any weights, knowing who was in which cell.

    Homes are taken as Gaussian around their cell's place; the estimate of least squares is then the
    best there is, over any number of publications.
    """
    town = Town(devices, k, options.pop("colluders", -(-k // 20)), seed, **options)
    members: dict[int, set[tuple[str, int]]] = {}
    versions: Counter[str] = Counter()
    for day in range(days + 1):
        if day:
            versions.update(town.change(round(changes * devices)))
            town.service.publish()
        population = town.service._population
        for pseudonym, entry in population.index.items():
            for build in population.history[entry.slot].tolist():
                if build > 0:  # negative: it has moved since
                    members.setdefault(build, set()).add((pseudonym, versions[pseudonym]))
    publications = town.service.status().publications
    colluders = town.colluders
    town.service.close()
    rows = {item: row for row, item in enumerate(sorted(set().union(*members.values())))}
    shares = np.zeros((len(members), len(rows)))
    for number, group in enumerate(members.values()):
        shares[number, [rows[item] for item in group]] = 1.0 / len(group)
    return Knowledge(
        publications=publications,
        builds=len(members),
        sharpest=float(np.sqrt(remaining_variances(shares).min())),
        with_colluders=_with_colluders(shares, colluders),
        ideal=float(np.sqrt(1 - 1 / k)),
        fewest=fewest_combined(shares > 0),
    )


PRIME = 2**31 - 1
"""Weights of combinations are computed modulo this prime, in which nothing is rounded."""


def fewest_combined(members: np.ndarray, rounds: int = 200, seed: int = 0) -> int:
    """Search for the weighted sum of cells that contains the fewest homes, over all publications.

    ``members`` has a row per cell and a column per home. Eliminating homes in random order leaves
    sums that contain one of the chosen homes and none of the others (information-set decoding).
    Homes in the same cells appear and vanish together, and larger groups tend to be chosen first.
    """
    rng = np.random.default_rng(seed)
    patterns, counts = np.unique(members.astype(np.int64), axis=1, return_counts=True)
    best = int(counts.sum())
    for _ in range(rounds):
        exponent = rng.choice([0.0, 0.5, 1.0, 2.0])
        order = np.argsort(-(rng.random(len(counts)) ** (1.0 / counts**exponent)))
        sizes = (_eliminate(patterns[:, order]) != 0) @ counts[order]
        best = min(best, int(sizes.min()))
    return best


def _eliminate(matrix: np.ndarray) -> np.ndarray:
    """Return the reduced row echelon form modulo PRIME, without rows of zeros."""
    rows = matrix.copy()
    rank = 0
    for column in range(rows.shape[1]):
        pivots = np.flatnonzero(rows[rank:, column])
        if not len(pivots):
            continue
        rows[[rank, rank + pivots[0]]] = rows[[rank + pivots[0], rank]]
        rows[rank] = rows[rank] * pow(int(rows[rank, column]), -1, PRIME) % PRIME
        others = np.flatnonzero(rows[:, column])
        others = others[others != rank]
        rows[others] = (rows[others] - rows[others, [column], None] * rows[rank]) % PRIME
        rank += 1
        if rank == len(rows):
            break
    return rows[:rank]


def _covariance(shares: np.ndarray, homes: np.ndarray) -> np.ndarray:
    """Return the remaining covariance of some homes, given all rounded means."""
    known = shares @ shares.T + ROUNDING * np.eye(len(shares))
    part = shares[:, homes]
    return np.eye(len(homes)) - part.T @ np.linalg.solve(known, part)


def remaining_variances(shares: np.ndarray) -> np.ndarray:
    """Return the variance of each home, of 1 before, that is left given all rounded means."""
    known = shares @ shares.T + ROUNDING * np.eye(len(shares))
    return 1.0 - np.einsum("ij,ij->j", shares, np.linalg.solve(known, shares))


def _with_colluders(shares: np.ndarray, colluders: int, victims: int = 20) -> float:
    """Return the smallest deviation over the most exposed homes if colluders are in their cells.

    Colluders are chosen one after another, each the most useful.
    """
    worst = 1.0
    for victim in np.argsort(remaining_variances(shares))[:victims].tolist():
        near = np.flatnonzero(shares[shares[:, victim] > 0].any(axis=0))
        left, at = _covariance(shares, near), int(np.searchsorted(near, victim))
        for _ in range(colluders):
            gain = left[at] ** 2 / np.maximum(np.diag(left), 1e-9)
            gain[at] = -1.0
            one = int(np.argmax(gain))
            left = left - np.outer(left[one], left[one]) / max(left[one, one], 1e-9)
        worst = min(worst, float(left[at, at]))
    return float(np.sqrt(worst))


# -------------------------------------------------------------------------------- mechanisms


@dataclass(frozen=True)
class Mechanism:
    """A way to publish a mean, and what it costs and hides.

    ``added`` is the share by which the mean distance grows. ``single`` is the median error, in
    radii, of the home of a device whose cell is published with it and without it; ``averaged``
    likewise after ``rounds`` pairs of such publications.
    """

    name: str
    size: int
    added: float
    single: float
    averaged: float


def mechanisms(size: int, *, rounds: int = 100, trials: int = 200) -> list[Mechanism]:
    """Compare rounding with calibrated noise if a device could be isolated by differencing.

    The service prevents that; this shows what rounding or noise alone are worth. Noise is planar
    Laplace noise that makes the mean of a cell differentially private for devices within twice the
    radius: a device changes the mean by at most four radii over the size.
    """
    rng = np.random.default_rng(0)
    pole = np.array([0.0, 0.0, 6371.0088])

    def rounded(mean: Points, radius: float, number: int) -> Points:
        return snap(pole + np.append(mean, 0.0), radius, grid_offsets(b"x", number))[:2]

    def noisy(epsilon: float) -> Callable[[Points, float, int], Points]:
        def publish(mean: Points, radius: float, _: int) -> Points:
            distance = rng.gamma(2.0, 4.0 * radius / size / epsilon)
            angle = rng.uniform(0, 2 * np.pi)
            return mean + distance * np.array([np.cos(angle), np.sin(angle)])

        return publish

    ways: dict[str, Callable[[Points, float, int], Points]] = {
        "exact mean": lambda mean, *_: mean,
        "grid of a tenth of the radius, secret offset": rounded,
        "noise, epsilon = 1 per publication": noisy(1.0),
        "noise, epsilon = 0.1 per publication": noisy(0.1),
    }
    results = []
    for name, publish in ways.items():
        added, single, averaged = [], [], []
        for trial in range(trials):
            people = rng.normal(size=(size, 2))
            mean, without = people.mean(axis=0), people[1:].mean(axis=0)
            radius = radius_band(float(np.sqrt(np.mean(np.sum((people - mean) ** 2, axis=1)))))
            numbers = 2 * rounds * trial + np.arange(2 * rounds)
            pairs = np.array(
                [
                    (publish(mean, radius, a), publish(without, radius, b))
                    for a, b in numbers.reshape(-1, 2).tolist()
                ]
            )
            exact = np.mean(np.linalg.norm(people - mean, axis=1))
            added.append(np.mean(np.linalg.norm(people - pairs[0, 0], axis=1)) / exact - 1.0)
            guesses = size * pairs[:, 0] - (size - 1) * pairs[:, 1]
            single.append(np.linalg.norm(guesses[0] - people[0]) / radius)
            averaged.append(np.linalg.norm(guesses.mean(axis=0) - people[0]) / radius)
        results.append(
            Mechanism(
                name,
                size,
                float(np.mean(added)),
                float(np.median(single)),
                float(np.median(averaged)),
            )
        )
    return results


def main(devices: int = 4_000, k: int = 20, days: int = 30) -> None:
    """Run all attacks, print the results and save them."""
    colluders = -(-k // 20)
    town = Town(devices, k, colluders)
    results: dict[str, Any] = {
        "attacks": [
            asdict(attack)
            for attack in (
                sum_attack(town, 20),
                differencing_attack(town, 20),
                sybil_attack(min(devices, 40 * k), k, colluders, 10),
            )
        ],
        "histories": asdict(history_attack(devices, k, days=days)),
        "all publications": asdict(linear_attack(min(devices, 50 * k), k, days=days)),
        "all publications, many changes": asdict(
            linear_attack(min(devices, 50 * k), k, days=days, changes=0.25, share=0.05)
        ),
        "mechanisms": [asdict(row) for size in (10, 25, 105) for row in mechanisms(size)],
    }
    text = json.dumps(results, indent=2)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "locations-attacks.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
