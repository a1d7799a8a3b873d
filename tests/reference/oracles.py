"""Slow, plain versions of the methods, written from the specification."""

from itertools import combinations

import numpy as np


def squared_distances(X, point):
    total = np.zeros(len(X))
    for j in range(X.shape[1]):
        total += (X[:, j] - point[j]) ** 2
    return total


def nearest_first(X, rows, row):
    """Return the rows by distance from ``row``, then by number, with ``row`` first."""
    distance = squared_distances(X[rows], X[row])
    distance[rows == row] = -1
    return rows[np.argsort(distance, kind="stable")]


def farthest(X, rows, point):
    return rows[np.argmax(squared_distances(X[rows], point))]


def mdav(X, k, mean=None):
    mean = mean or (lambda rows: X[rows].mean(axis=0))
    labels = np.full(len(X), -1)
    rows = np.arange(len(X))
    cell = 0

    def make_cell(row):
        nonlocal rows, cell
        labels[nearest_first(X, rows, row)[:k]] = cell
        rows = rows[labels[rows] < 0]
        cell += 1

    while len(rows) >= 3 * k:
        r = farthest(X, rows, mean(rows))
        s = farthest(X, rows, X[r])
        make_cell(r)
        if labels[s] >= 0:
            s = farthest(X, rows, X[r])
        make_cell(s)
    if len(rows) >= 2 * k:
        make_cell(farthest(X, rows, mean(rows)))
    labels[rows] = cell
    return labels


def mdav_of_persons(X, k, persons):
    """MDAV whose cells take the nearest records until they are about k persons."""
    labels = np.full(len(X), -1)
    rows = np.arange(len(X))
    cell, reference, alternate = 0, None, False
    while len(rows):
        if not alternate:
            reference = farthest(X, rows, X[rows].mean(axis=0))
        row = farthest(X, rows, X[reference]) if alternate else reference
        members = []
        for candidate in nearest_first(X, rows, row):
            members.append(candidate)
            if len(set(persons[members])) == k:
                break
        rest = rows[~np.isin(rows, members)]
        if len(set(persons[rest])) < k:
            labels[rows] = cell
            break
        labels[members] = cell
        rows, cell, alternate = rest, cell + 1, not alternate
    return labels


def best_runs_of_persons(x, k, persons):
    """Least SSE of runs of sorted values, each about at least k persons, by trying all cuts."""
    order = np.argsort(x, kind="stable")
    values, who = x[order], persons[order]
    best = np.inf
    for cuts in range(2 ** (len(x) - 1)):
        ends = [i + 1 for i in range(len(x) - 1) if cuts >> i & 1] + [len(x)]
        runs = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
        if all(len(set(who[run])) >= k for run in runs):
            best = min(best, sum(((values[run] - values[run].mean()) ** 2).sum() for run in runs))
    return best


def vmdav(X, k, gamma):
    labels = np.full(len(X), -1)
    rows = np.arange(len(X))
    mean = X.mean(axis=0)
    cell = 0
    while len(rows) >= k:
        e = farthest(X, rows, mean)
        members = list(nearest_first(X, rows, e)[:k])
        rows = rows[~np.isin(rows, members)]
        while len(members) < 2 * k - 1 and len(rows) > 0:
            to_cell = np.min([squared_distances(X[rows], X[i]) for i in members], axis=0)
            u = rows[np.argmin(to_cell)]
            others = rows[rows != u]
            outside = squared_distances(X[others], X[u]).min() if len(others) else np.inf
            if gamma == 0 or to_cell.min() >= gamma * outside:
                break
            members.append(u)
            rows = others
        labels[members] = cell
        cell += 1
    placed = np.flatnonzero(labels >= 0)
    for row in rows:
        labels[row] = labels[placed[np.argmin(squared_distances(X[placed], X[row]))]]
    return labels


def sse(X, labels):
    return sum(
        ((X[labels == c] - X[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels)
    )


def best_univariate_sse(x, k):
    """Return the least SSE over all ways to cut the sorted values into runs of at least k."""
    x = np.sort(x)
    n = len(x)
    best = np.inf
    for cuts in range(n // k):
        for places in combinations(range(1, n), cuts):
            runs = np.split(x, places)
            if min(map(len, runs)) >= k:
                best = min(best, sum(((run - run.mean()) ** 2).sum() for run in runs))
    return best


def weighted_sse(X, labels, weights):
    means = {c: np.average(X[labels == c], axis=0, weights=weights[labels == c]) for c in labels}
    return sum(w * ((x - means[c]) ** 2).sum() for x, c, w in zip(X, labels, weights, strict=True))


def best_sse(X, k, weights=None):
    """Return the least SSE over all partitions into cells of at least k, for a few records."""
    each = np.ones(len(X)) if weights is None else weights

    def search(rest):
        if len(rest) == 0:
            return 0.0
        best = np.inf
        first, others = rest[0], rest[1:]
        for size in range(k - 1, len(others) + 1):
            if 0 < len(others) - size < k:
                continue
            for chosen in combinations(others, size):
                members = [first, *chosen]
                cost = weighted_sse(X[members], np.zeros(size + 1, dtype=int), each[members])
                if cost < best:
                    best = min(best, cost + search([i for i in others if i not in chosen]))
        return best

    return search(list(range(len(X))))


# ------------------------------------------------------------------------ requirements on cells


def best_within_limits(X, k, keeps):
    """Return the least SSE of all partitions into cells of at least k that keep a condition.

    ``keeps(rows)`` is asked of every subset. Time O(3^n).
    """
    n = len(X)
    subsets = [[i for i in range(n) if mask >> i & 1] for mask in range(1 << n)]
    cost = [
        float(((X[rows] - X[rows].mean(axis=0)) ** 2).sum())
        if len(rows) >= k and keeps(rows)
        else np.inf
        for rows in subsets
    ]
    least = [0.0] + [np.inf] * ((1 << n) - 1)
    for mask in range(1, 1 << n):
        first = mask & -mask
        rest = part = mask ^ first
        while True:  # all subsets of the mask that contain its first record
            cell = part | first
            least[mask] = min(least[mask], cost[cell] + least[mask ^ cell])
            if part == 0:
                break
            part = (part - 1) & rest
    return least[-1]


def t_closeness_first(X, y, k, t):
    """Return cells by the t-closeness-first method for an ordered attribute with few ties.

    Soria-Comas, Domingo-Ferrer, Sanchez and Martinez, IEEE TKDE 2015: the records are divided into
    as many quantiles as a cell has records, and a cell takes the record of each quantile that is
    nearest to its seed. Seeds are chosen as in MDAV.
    """
    n = len(X)
    size = max(k, int(np.ceil(n / (2 * (n - 1) * t + 1))))
    order = np.argsort(y, kind="stable")
    middle, each = size // 2, n // size
    counts = [each] * size
    for extra in range(n % size):
        counts[(middle + (extra + 1) // 2 * (-1) ** extra) % size] += 1
    buckets = [list(part) for part in np.split(order, np.cumsum(counts)[:-1])]
    labels, cell = np.full(n, -1), 0

    def take(seed):
        for bucket in buckets:
            if bucket:
                near = min(bucket, key=lambda i: ((X[i] - X[seed]) ** 2).sum())
                bucket.remove(near)
                labels[near] = cell

    while min(map(len, buckets)) > 0:
        left = np.flatnonzero(labels < 0)
        far = left[np.argmax(((X[left] - X[left].mean(axis=0)) ** 2).sum(axis=1))]
        take(far)
        cell += 1
        left = np.flatnonzero(labels < 0)
        if min(map(len, buckets)) > 0:
            take(left[np.argmax(((X[left] - X[far]) ** 2).sum(axis=1))])
            cell += 1
    for i in np.flatnonzero(labels < 0):  # the rest of the larger quantiles: nearest cells
        means = np.array([X[labels == c].mean(axis=0) for c in range(cell)])
        labels[i] = np.argmin(((means - X[i]) ** 2).sum(axis=1))
    return labels


def keep_equal_together(X, k):
    """Return labels: k or more equal records are a cell, the others by MDAV or in a near group."""
    rows, place, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    labels = place.copy()
    rest = np.flatnonzero(counts[place] < k)
    groups = np.flatnonzero(counts >= k)
    nearest = {i: groups[np.argmin(squared_distances(rows[groups], X[i]))] for i in rest}
    cells = mdav(X[rest], k) if len(rest) >= k else np.arange(len(rest))
    for cell in range(max(cells, default=-1) + 1):
        members = rest[cells == cell]
        apart = sum(squared_distances(X[[i]], rows[nearest[i]])[0] for i in members)
        if len(members) < k or apart < sse(X[members], np.zeros(len(members), dtype=int)):
            labels[members] = [nearest[i] for i in members]
        else:
            labels[members] = len(rows) + cell
    return np.unique(labels, return_inverse=True)[1]
