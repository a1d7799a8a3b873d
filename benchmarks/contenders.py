"""The contenders: our methods and those of other packages, as functions of points and k.

Packages are imported on demand: each is measured in a process that loads nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CONTENDERS", "OURS", "PEERS", "Contender", "Group"]

Group = Callable[[NDArray[np.float64], int], NDArray[np.int64]]


@dataclass(frozen=True)
class Contender:
    """A method: its package, and the function that imports and returns it.

    ``warm`` replaces it for the warm-up if it is slow even on small tables; ``note`` is shown on
    the results page.
    """

    package: str
    load: Callable[[], Group]
    warm: Callable[[], Group] | None = None
    note: str = ""

    @property
    def ours(self) -> bool:
        """Return True for a method of this package."""
        return self.package == "microcell"


def _partition(**options: Any) -> Callable[[], Group]:
    def load() -> Group:
        from microcell.methods import partition  # noqa: PLC0415

        return lambda X, k: partition(X, k, **options).labels

    return load


def _ours(**options: Any) -> Contender:
    return Contender("microcell", _partition(**options))


def _search(effort: str | float) -> Contender:
    return Contender("microcell", _partition(effort=effort), warm=_partition(effort=0.5))


def _plain_mdav() -> Group:
    from tests.reference.oracles import mdav  # noqa: PLC0415

    return mdav  # type: ignore[no-any-return]


def _numbered(parts: Any, n: int) -> NDArray[np.int64]:
    """Labels from lists of row numbers."""
    labels = np.full(n, -1)
    for label, rows in enumerate(parts):
        labels[np.asarray(rows)] = label
    return labels


def _frame(X: NDArray[np.float64]) -> Any:
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def _mondrian() -> Group:
    from anonypyx.models import kAnonymity  # noqa: PLC0415
    from anonypyx.mondrian import Mondrian  # noqa: PLC0415

    def group(X: NDArray[np.float64], k: int) -> NDArray[np.int64]:
        frame = _frame(X)
        return _numbered(Mondrian(frame, list(frame.columns)).partition([kAnonymity(k)]), len(X))

    return group


def _peer_mdav() -> Group:
    from anonypyx.microaggregation import MDAVGeneric  # noqa: PLC0415

    def group(X: NDArray[np.float64], k: int) -> NDArray[np.int64]:
        frame = _frame(X)
        return _numbered(MDAVGeneric(frame, list(frame.columns)).partition(k), len(X))

    return group


def _constrained_k_means() -> Group:
    from k_means_constrained import KMeansConstrained  # noqa: PLC0415

    return lambda X, k: KMeansConstrained(
        len(X) // k, size_min=k, n_init=1, random_state=0
    ).fit_predict(X)


def _microagg1d() -> Group:
    from microagg1d import univariate_microaggregation  # noqa: PLC0415

    return lambda X, k: univariate_microaggregation(np.ascontiguousarray(X[:, 0]), k)


CONTENDERS = {
    "mdav": _ours(method="mdav"),
    "vmdav": _ours(method="vmdav"),
    "bisect": _ours(method="bisect"),
    "pcl": _ours(method="pcl"),
    "pcl, no shaking": _ours(method="pcl", shakes=0),
    "anneal, 300 steps": _ours(method="anneal", steps=300.0),
    "auto, fast": _ours(effort="fast"),
    "auto, balanced": _search("balanced"),
    "auto, best": _search("best"),
    "auto, 60 s": _search(60.0),
    "univariate": _ours(method="univariate"),
    "mdav, plain NumPy": Contender("microcell", _plain_mdav),
    "anonypyx, Mondrian": Contender(
        "anonypyx",
        _mondrian,
        note="publishes ranges; D is computed from the means of its cells, for comparison",
    ),
    "anonypyx, MDAV": Contender(
        "anonypyx",
        _peer_mdav,
        note="measured unmodified. In version 0.2.11, without categorical columns, the distance to "
        "the mean is NaN (a Hamming distance over no columns), so the first remaining record is "
        "taken as the farthest, and D is higher than MDAV's",
    ),
    "k-means-constrained": Contender(
        "k-means-constrained",
        _constrained_k_means,
        note="floor(n / k) clusters of at least k, one start",
    ),
    "microagg1d": Contender("microagg1d", _microagg1d),
}
"""Contenders by their name in tables and figures."""

OURS = [name for name, contender in CONTENDERS.items() if contender.ours]
PEERS = [name for name in CONTENDERS if name not in OURS]
