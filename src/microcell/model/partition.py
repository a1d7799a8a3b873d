"""Points and partitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from microcell._display import count, html_card, number_range, short_repr
from microcell.errors import GuaranteeError
from microcell.kernels.arrays import Floats, Integers, count_distinct
from microcell.model.encoding import Encoding

__all__ = ["Encoded", "Partition", "Placed"]


@dataclass(frozen=True, eq=False, repr=False)
class Encoded:
    """Records as points: a finite, C-contiguous float64 matrix with its encoding and weights."""

    matrix: Floats
    encoding: Encoding
    weights: Floats | None = None

    def __post_init__(self) -> None:
        _check_matrix(self.matrix)

    def __repr__(self) -> str:
        return _matrix_repr(self, self.matrix)


@dataclass(frozen=True, eq=False, repr=False)
class Placed:
    """Further records as points of an existing encoding: a finite, C-contiguous float64 matrix.

    ``unknown`` counts, per column, the records with a category that the encoding does not contain;
    columns without such records are left out.
    """

    matrix: Floats
    unknown: Mapping[str, int]

    def __post_init__(self) -> None:
        _check_matrix(self.matrix)

    def __repr__(self) -> str:
        return _matrix_repr(self, self.matrix)


def _matrix_repr(record: object, matrix: Floats) -> str:
    rows, dimensions = matrix.shape
    return short_repr(record, count(rows, "record"), count(dimensions, "dimension"))


def _check_matrix(matrix: Floats) -> None:
    if not (matrix.flags.c_contiguous and np.isfinite(matrix).all()):
        raise ValueError("An encoded matrix must be finite and C-contiguous.")


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """A partition in which every cell has at least k people; record i is in cell ``labels[i]``.

    Construction fails otherwise, so that a Partition is proof of the guarantee.

    Attributes
    ----------
    labels
        Cell of each record, counted from 0; read-only.
    k
        Minimum cell size.
    method, reason
        Method that produced the partition, and why it was chosen.
    persons
        Person of each record (a number); None if every record is a person.
    sizes
        Number of records in each cell; read-only.
    people
        Number of distinct persons in each cell; read-only.

    Examples
    --------
    >>> Partition([0, 0, 1, 1, 1], k=2).sizes
    array([2, 3])
    >>> Partition([0, 0, 1], k=2)
    Traceback (most recent call last):
    microcell.errors.GuaranteeError: 1 of 2 cells has fewer than k = 2 records; ...
    """

    labels: Integers
    k: int
    method: str = "given"
    reason: str = ""
    persons: Integers | None = None
    sizes: Integers = field(init=False)
    people: Integers = field(init=False)

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels)
        persons = self.persons
        if (
            labels.ndim != 1
            or labels.size == 0
            or labels.dtype.kind not in "iu"
            or labels.min() < 0
            or self.k < 1
            or (persons is not None and len(persons) != len(labels))
        ):
            raise GuaranteeError(
                "Labels must be a one-dimensional array of cell numbers 0, 1, 2, ..., "
                "and k at least 1.",
                code="guarantee.failed",
            )
        labels = labels.astype(np.int64)
        sizes = np.bincount(labels).astype(np.int64)
        people = sizes if persons is None else count_distinct(labels, persons)
        n_small = int((people < self.k).sum())
        if n_small:
            raise GuaranteeError(
                f"{n_small} of {count(len(people), 'cell')} {'has' if n_small == 1 else 'have'} "
                f"fewer than k = {self.k} {'records' if persons is None else 'persons'}; the "
                f"smallest has {people.min()}. Nothing can be published from this partition.",
                code="guarantee.failed",
                k=self.k,
                smallest=int(people.min()),
                cells=n_small,
            )
        for name, values in (("labels", labels), ("sizes", sizes), ("people", people)):
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.sizes)

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(len(self.labels), "record"),
            count(len(self), "cell"),
            k=self.k,
            method=self.method,
        )

    def _repr_html_(self) -> str:
        smallest, largest = int(self.sizes.min()), int(self.sizes.max())
        noun = "record" if self.persons is None else "person"
        return html_card(
            f"Every cell has at least {count(self.k, noun)}",
            {
                "Records": f"{len(self.labels):,}",
                "Cells": f"{len(self):,} of {number_range(smallest, largest)} records",
                "Method": self.method,
                "Reason": self.reason,
            },
            next_steps={"partition.labels": "the cell of each record"},
        )
