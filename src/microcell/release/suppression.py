"""Leave out the records that cost most, before cells are formed from the others."""

from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from microcell import methods
from microcell.errors import OptionError
from microcell.model import Floats, Integers
from microcell.model.manifest import SuppressionSection
from microcell.release.prepare import Prepared, check_group_sizes, keep_rows

__all__ = ["as_share", "suppress"]

MOST = 0.5
"""Largest share of the records that may be left out."""


def as_share(suppress: Any) -> float:
    """Return the share of records that may be left out: 0 for None, and 0.02 for "2%".

    Examples
    --------
    >>> as_share("2%"), as_share(0.02), as_share(None)
    (0.02, 0.02, 0.0)
    """
    share = _number(suppress)
    if not 0 <= share <= MOST:
        raise OptionError(
            f'suppress must be a share of the records from 0 to {MOST:g}, such as 0.02 or "2%".',
            code="option.out_of_range",
            option="suppress",
        )
    return share


def _number(suppress: Any) -> float:
    if suppress is None:
        return 0.0
    if isinstance(suppress, str):
        text, percent = suppress.strip().removesuffix("%"), suppress.strip().endswith("%")
        try:
            number = float(text) / (100 if percent else 1)
        except ValueError:
            return -1.0
        return number if isfinite(number) else -1.0
    if isinstance(suppress, bool) or not isinstance(suppress, Real):
        return -1.0
    number = float(suppress)
    return number if isfinite(number) else -1.0


def suppress(
    prepared: Prepared, share: float, *, k: int, seed: int, publish_cells: bool = False
) -> tuple[Prepared, SuppressionSection | None]:
    """Leave out up to a share of the records; return the others and a section of the manifest.

    The choice depends on the quasi-identifiers only, and the others are prepared as if nothing had
    been left out. So the release is the same as that of a table without these records, and reveals
    as little of their confidential values.
    """
    if share == 0:
        return prepared, None
    points, weights = prepared.encoded.matrix, prepared.encoded.weights
    most = int(share * prepared.table.rows + 1e-9)
    left_out = methods.leave_out(
        points,
        k,
        most,
        lambda rows: _quick_cells(prepared, rows, points, weights, k, seed),
        weights=weights,
        strata=prepared.strata,
        persons=prepared.persons,
    )
    out = prepared.rows[left_out.out]
    section = SuppressionSection(
        share=share,
        records=len(out),
        saved=round(left_out.saved, 4),
        exact=left_out.exact,
        rows=tuple((out + 1).tolist()),
    )
    if not len(out):
        return prepared, section
    kept = keep_rows(prepared, np.flatnonzero(~left_out.out), publish_cells=publish_cells)
    check_group_sizes(kept.schema, kept.strata, kept.persons, k)
    return kept, section


def _quick_cells(
    prepared: Prepared,
    rows: Integers,
    points: Floats,
    weights: Floats | None,
    k: int,
    seed: int,
) -> Integers:
    """Return the cells of some records, found at low effort."""
    persons = prepared.persons
    partition = methods.partition_within(
        np.unique(prepared.strata[rows], return_inverse=True)[1].reshape(-1),
        points[rows],
        k,
        weights=None if weights is None else weights[rows],
        persons=None if persons is None else persons[rows],
        together=prepared.schema.person_cells == "together",
        seed=seed,
        effort="fast",
    )
    return partition.labels
