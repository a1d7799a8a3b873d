"""Points and their cells."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from microcell.errors import GuaranteeError
from microcell.kernels.arrays import Floats, Integers
from microcell.model.encoding import Encoding

__all__ = ["Encoded", "Partition", "Placed"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Records as points: a finite, C-contiguous float64 matrix, how it was made, and the records' sampling weights."""

    matrix: Floats
    encoding: Encoding
    weights: Floats | None = None

    def __post_init__(self) -> None:
        _check_matrix(self.matrix)


@dataclass(frozen=True, eq=False)
class Placed:
    """Further records as points of an encoding: a finite, C-contiguous float64 matrix.

    ``strange`` says, by column, how many records have a category that the encoding does not know; columns without
    one are not in it.
    """

    matrix: Floats
    strange: Mapping[str, int]

    def __post_init__(self) -> None:
        _check_matrix(self.matrix)


def _check_matrix(matrix: Floats) -> None:
    if not (matrix.flags.c_contiguous and np.isfinite(matrix).all()):
        raise ValueError("An encoded matrix is finite and C-contiguous.")


@dataclass(frozen=True, eq=False)
class Partition:
    """A k-anonymous partition: record i is in cell ``labels[i]``, and every cell has k records or more.

    Built only if that holds, so whoever has a Partition has the guarantee.

    Examples
    --------
    >>> Partition([0, 0, 1, 1, 1], k=2).sizes
    array([2, 3])
    >>> Partition([0, 0, 1], k=2)
    Traceback (most recent call last):
    microcell.errors.GuaranteeError: 1 of 2 cells has fewer than k = 2 records (the smallest has 1).
    """

    labels: Integers
    k: int
    method: str = "given"
    why: str = ""
    sizes: Integers = field(init=False)

    def __post_init__(self) -> None:
        given = np.asarray(self.labels)
        if (
            given.ndim != 1
            or given.size == 0
            or given.dtype.kind not in "iu"
            or given.min() < 0
            or self.k < 1
        ):
            raise GuaranteeError(
                "Labels must be whole cell numbers 0, 1, 2, ..., one a record, and k 1 or more."
            )
        labels = given.astype(np.int64)
        sizes = np.bincount(labels).astype(np.int64)
        small = int((sizes < self.k).sum())
        if small:
            raise GuaranteeError(
                f"{small} of {len(sizes)} cells {'has' if small == 1 else 'have'} fewer than k = {self.k} "
                f"records (the smallest has {sizes.min()})."
            )
        labels.flags.writeable = sizes.flags.writeable = False
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "sizes", sizes)

    def __len__(self) -> int:
        """The number of cells."""
        return len(self.sizes)
