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


def best_sse(X, k):
    """Return the least SSE over all partitions into cells of at least k, for a few records."""

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
                cost = ((X[members] - X[members].mean(axis=0)) ** 2).sum()
                if cost < best:
                    best = min(best, cost + search([i for i in others if i not in chosen]))
        return best

    return search(list(range(len(X))))
