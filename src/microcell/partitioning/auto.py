"""The choice of a method where the user left it to us."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from microcell.model import Floats

__all__ = ["Choice", "choose"]

LARGE = 60_000
"""Beyond so many records MDAV on the whole takes more than a second or two."""

MACROCELL = 25_000


@dataclass(frozen=True)
class Choice:
    """A method with its options, whether to refine what it makes (and to rebuild cells in doing so), and why."""

    method: str
    why: str
    refine: bool = False
    rebuild: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def choose(X: Floats) -> Choice:
    """The method for these points: the exact optimum on a line, else MDAV, in macrocells for large tables, refined.

    Examples
    --------
    >>> import numpy as np
    >>> choose(np.zeros((10, 1))).method
    'univariate'
    """
    if X.shape[1] <= 1:
        return Choice("univariate", "one dimension has an exact optimum")
    if len(X) <= LARGE:
        return Choice("mdav", f"there are {X.shape[1]} dimensions: MDAV, refined by local search", refine=True)
    why = f"there are {len(X)} records in {X.shape[1]} dimensions: MDAV in macrocells, refined by local search"
    return Choice("mdav", why, refine=True, options={"macrocells": MACROCELL})
