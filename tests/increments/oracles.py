"""Slow references for the strategies of adding a batch, written from the specification."""

from tests.reference import oracles


def in_order(batch, weights):
    """Return the rows of a batch sorted by coordinates, then by weight."""
    return sorted(range(len(batch)), key=lambda row: (*batch[row], weights[row]))


def mean_of(X, weights, rows):
    total = sum(weights[i] for i in rows)
    return [sum(weights[i] * X[i][j] for i in rows) / total for j in range(len(X[0]))]


def squared_distance(x, y):
    total = 0.0
    for a, b in zip(x, y, strict=True):
        total += (a - b) ** 2
    return total


def join(X, labels, weights, new, *, inertial):
    """Return all labels after the rows ``new`` have joined the cells, in that order."""
    cells = max(labels) + 1
    members = [[i for i in range(len(labels)) if labels[i] == cell] for cell in range(cells)]
    centroids = [mean_of(X, weights, rows) for rows in members]
    out = [*labels] + [-1] * len(new)
    for row in new:
        out[row] = choose(X, weights, members, centroids, row, inertial)
        members[out[row]].append(row)
        if inertial:
            centroids[out[row]] = mean_of(X, weights, members[out[row]])
    return out


def choose(X, weights, members, centroids, row, inertial):
    """Return the cell with the lowest cost, the first of equals."""
    costs = []
    for rows, centroid in zip(members, centroids, strict=True):
        total = sum(weights[i] for i in rows)
        factor = total / (total + weights[row]) if inertial else 1.0
        costs.append(squared_distance(centroid, X[row]) * factor)
    return costs.index(min(costs))


def split(X, labels, k, split_one=oracles.mdav):
    """Split cells of at least 2k; the first part keeps its number, others get the next free."""
    out, free = [*labels], max(labels) + 1
    for cell in range(max(labels) + 1):
        rows = [i for i in range(len(labels)) if labels[i] == cell]
        if len(rows) >= 2 * k:
            parts = split_one(X[rows], k)
            for row, part in zip(rows, parts, strict=True):
                if part > 0:
                    out[row] = free + part - 1
            free += max(parts)
    return out


def split_early(X, labels, weights, new, k, *, inertial):
    labels = split(X[: len(labels)], labels, k)
    members = [
        [i for i in range(len(labels)) if labels[i] == cell] for cell in range(max(labels) + 1)
    ]
    centroids = [mean_of(X, weights, rows) for rows in members]
    for row in new:
        cell = choose(X, weights, members, centroids, row, inertial)
        members[cell] = sorted([*members[cell], row])
        if len(members[cell]) == 2 * k:
            rows = members[cell]
            parts = oracles.mdav(X[rows], k)
            members[cell] = [i for i, part in zip(rows, parts, strict=True) if part == 0]
            members.append([i for i, part in zip(rows, parts, strict=True) if part == 1])
            centroids.append(mean_of(X, weights, members[-1]))
            centroids[cell] = mean_of(X, weights, members[cell])
        elif inertial:
            centroids[cell] = mean_of(X, weights, members[cell])
    out = [-1] * len(X)
    for cell, rows in enumerate(members):
        for row in rows:
            out[row] = cell
    return out
