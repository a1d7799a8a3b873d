"""Closed forms for quadratic methods and uniform arrivals, as in the incremental paper.

Times are relative to the whole job. ``sigma`` is the duration of the collection, and ``nu`` the
share of the records added at the end. The base takes (1 - nu)^2 and starts sigma nu before the end
of the collection; adding the rest takes nu^2.
"""

from math import sqrt

CRITICAL_SIGMA = 2 * (2 / sqrt(3) - 1)
"""About 0.309: for longer collections the best share is the critical one."""


def critical_share(sigma):
    """Return the share for which the base ends together with the collection.

    This form of (2 + sigma - sqrt(sigma (4 + sigma))) / 2 loses no digits for large sigma.
    """
    return 2 / (2 + sigma + sqrt(sigma * (4 + sigma)))


def best_share(sigma):
    """Return the share with the earliest end."""
    return (2 + sigma) / 4 if sigma <= CRITICAL_SIGMA else critical_share(sigma)


def earliest_end(sigma):
    """Return the earliest end after the collection."""
    return 1 - (2 + sigma) ** 2 / 8 if sigma <= CRITICAL_SIGMA else critical_share(sigma) ** 2


def share_for(sigma, end):
    """Return the smallest share that ends in time."""
    root = sqrt(max((2 + sigma) ** 2 - 8 * (1 - end), 0.0))
    return 2 * (1 - end) / (2 + sigma + root)


def end_of(nu, sigma):
    """Return the end after the collection for one share."""
    return 1 - (min(sigma * nu + 1 - (1 - nu) ** 2, 1.0) - nu**2)
