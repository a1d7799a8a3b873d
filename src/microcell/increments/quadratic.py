"""Closed forms for methods whose time grows with the square of the records, and records that arrive evenly.

Times are in units of the whole job's. ``sigma`` is the time that collecting takes, and ``nu`` the share of the records
that is added at the end. The base takes (1 - nu)^2 and starts sigma nu before the data end; adding the rest takes nu^2.
"""

from math import sqrt

from microcell.errors import OptionError

__all__ = [
    "CRITICAL_SIGMA",
    "best_share",
    "critical_share",
    "end_of",
    "gain_of",
    "least_end",
    "share_for",
]

CRITICAL_SIGMA = 2 * (2 / sqrt(3) - 1)
"""About 0.309: where collecting takes longer, the best share is the critical one."""


def gain_of(nu: float, sigma: float) -> float:
    """Delta = min(sigma nu + 1 - (1 - nu)^2, 1) - nu^2: by how much sooner than the whole job it ends.

    Examples
    --------
    >>> round(gain_of(0.1, 5), 3)
    0.68
    """
    _check_sigma(sigma)
    return min(sigma * nu + 1 - (1 - nu) ** 2, 1.0) - nu**2


def end_of(nu: float, sigma: float) -> float:
    """1 - Delta: how long after the data end it is finished."""
    return 1 - gain_of(nu, sigma)


def critical_share(sigma: float) -> float:
    """nu_c = (2 + sigma - sqrt(sigma (4 + sigma))) / 2: the base ends just as the data end.

    Computed as 2 / (2 + sigma + sqrt(...)), which loses no digits where sigma is large.

    Examples
    --------
    >>> round(critical_share(5), 3)
    0.146
    """
    _check_sigma(sigma)
    return 2 / (2 + sigma + sqrt(sigma * (4 + sigma)))


def best_share(sigma: float) -> float:
    """nu*, with which the end comes soonest: (2 + sigma) / 4 up to the critical sigma, else nu_c."""
    _check_sigma(sigma)
    return (2 + sigma) / 4 if sigma <= CRITICAL_SIGMA else critical_share(sigma)


def least_end(sigma: float) -> float:
    """tau_min: how soon after the data end it can be finished: 1 - (2 + sigma)^2 / 8, or nu_c^2."""
    _check_sigma(sigma)
    return 1 - (2 + sigma) ** 2 / 8 if sigma <= CRITICAL_SIGMA else critical_share(sigma) ** 2


def share_for(sigma: float, end: float) -> float:
    """nu_end, the least share with which it ends in time: (2 + sigma - sqrt((2 + sigma)^2 - 8 (1 - end))) / 4.

    ``end`` lies between tau_min and 1.

    Examples
    --------
    >>> round(share_for(5, 0.5), 3)
    0.073
    """
    soonest = least_end(sigma)
    if not soonest * (1 - 1e-12) <= end <= 1:
        raise OptionError(
            f"The end must lie between {soonest:.6g}, the soonest for this sigma, and 1, not at {end!r}."
        )
    root = sqrt(max((2 + sigma) ** 2 - 8 * (1 - end), 0.0))
    return 2 * (1 - end) / (2 + sigma + root)


def _check_sigma(sigma: float) -> None:
    if not 0 <= sigma < float("inf"):
        raise OptionError(f"sigma must be a number of 0 or more, not {sigma!r}.")
