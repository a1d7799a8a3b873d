"""The choice of a method where the user left it to us."""

from dataclasses import dataclass

from microcell.model import Floats

__all__ = ["Choice", "choose"]


@dataclass(frozen=True)
class Choice:
    """A method and why it was chosen."""

    method: str
    why: str


def choose(X: Floats) -> Choice:
    """The method for these points: the exact optimum on a line, MDAV otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> choose(np.zeros((10, 1))).method
    'univariate'
    """
    if X.shape[1] <= 1:
        return Choice("univariate", "one dimension has an exact optimum")
    return Choice("mdav", f"{X.shape[1]} dimensions have no exact optimum that can be found in time")
