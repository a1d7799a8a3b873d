"""Points extended by confidential columns, so that cells preserve the association with them."""

import numpy as np

from microcell.errors import OptionError
from microcell.kernels.arrays import total_sum_of_squares
from microcell.model import Floats

__all__ = ["check_dependence", "extend"]


def check_dependence(dependence: object) -> None:
    """Raise OptionError unless the weight of dependence is a number from 0 to 1."""
    is_number = isinstance(dependence, (int, float, np.integer, np.floating))
    if not is_number or isinstance(dependence, bool) or not 0 <= dependence <= 1:  # type: ignore[operator]
        raise OptionError(
            "dependence must be a number from 0 (only quasi-identifiers) to 1 (only confidential "
            f"columns), not {dependence!r}.",
            code="option.out_of_range",
            option="dependence",
        )


def extend(X: Floats, Y: Floats, dependence: float, weights: Floats | None = None) -> Floats:
    """Return points whose plain cells minimize (1 - lambda) D_X + lambda D_Y.

    lambda is ``dependence``. The points are (x, beta y) with beta^2 = lambda / (1 - lambda) SST_X /
    SST_Y, which for standardized columns is lambda / (1 - lambda) m_X / m_Y; the distortion of the
    extended points is exactly that sum. For lambda 0 and 1 they are X or Y alone. The confidential
    points ``Y`` must not all be equal, unless lambda is 0. Time and memory O(n m).

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
    """Return SST over the sum of weights: the number of columns if they are standardized."""
    each = np.ones(len(points)) if weights is None else weights
    total = total_sum_of_squares(points, each) / each.sum()
    return float(f"{total:.12g}")
