"""Points extended by what is confidential, so that cells preserve how the two depend on each other."""

import numpy as np

from microcell.errors import OptionError
from microcell.kernels.arrays import total_sum_of_squares
from microcell.model import Floats

__all__ = ["check_dependence", "extend"]


def check_dependence(dependence: object) -> None:
    """Refuse a weight of dependence that is no number from 0 to 1."""
    number = isinstance(dependence, (int, float, np.integer, np.floating)) and not isinstance(
        dependence, bool
    )
    if not number or not 0 <= dependence <= 1:  # type: ignore[operator]
        raise OptionError(
            f"dependence must be a number from 0 (the quasi-identifiers alone) to 1 (the confidential columns alone), "
            f"not {dependence!r}."
        )


def extend(X: Floats, Y: Floats, dependence: float, weights: Floats | None = None) -> Floats:
    """Points of which plain cells minimize (1 - lambda) D_X + lambda D_Y, lambda being ``dependence``.

    They are (x, beta y) with beta^2 = lambda / (1 - lambda) SST_X / SST_Y, which for standardized columns is
    lambda / (1 - lambda) m_X / m_Y: D of the extended points is then that very sum. At 0 and at 1, X or Y alone.
    The confidential points ``Y`` must not all be equal, unless lambda is 0. Time and memory O(n m).

    Examples
    --------
    >>> X, Y = np.array([[-1.0, 1.0], [1.0, -1.0]]), np.array([[-1.0], [1.0]])
    >>> extend(X, Y, 0.2).round(4)
    array([[-1.    ,  1.    , -0.7071],
           [ 1.    , -1.    ,  0.7071]])
    """
    check_dependence(dependence)
    if dependence == 0:
        return X
    variance = _variance(X, weights)
    if dependence == 1 or variance == 0:
        return Y
    beta = np.sqrt(dependence / (1 - dependence) * variance / _variance(Y, weights))
    return np.ascontiguousarray(np.hstack([X, beta * Y]))


def _variance(points: Floats, weights: Floats | None) -> float:
    """SST over the sum of weights: the number of columns, exactly, if they are standardized."""
    each = np.ones(len(points)) if weights is None else weights
    total = total_sum_of_squares(points, each) / each.sum()
    return float(f"{total:.12g}")
