"""What a release lost of each quasi-identifier, added up over macrocells as the audit would find it for all records."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum

import numpy as np

from microcell import auditing
from microcell.auditing.distortion import ColumnDistortion
from microcell.auditing.losses import Loss, lose_changes, lose_characters
from microcell.kernels.sphere import unit_vectors
from microcell.model import Column, Encoding, Floats, Schema, Table

__all__ = ["Lost", "lose", "unite_losses"]


@dataclass(frozen=True, eq=False)
class Lost:
    """What a column lost in a macrocell, and sums that tell what it would lose if all records were published alike.

    Of numbers, times, ranks and locations: the ``weight`` of the records that have a value, the weighted ``sums`` of
    their coordinates and the sum of their ``squares``. Of categories and codes: the weight of each name.
    """

    lost: float
    weight: float = 0.0
    sums: tuple[float, ...] = ()
    squares: float = 0.0
    names: Counter[str] | None = None


def lose(
    table: Table, published: Table, schema: Schema, encoding: Encoding, points: Floats, weights: Floats | None
) -> tuple[Lost, ...]:
    """What each quasi-identifier lost, in units that are the same for all macrocells."""
    each = np.ones(table.rows) if weights is None else weights
    # Ranks are those among the values of all records, not of these alone.
    own = replace(
        schema,
        quasi=tuple(
            replace(column, order=fitted.names) if column.kind == "ordinal" else column
            for column, fitted in zip(schema.quasi, encoding.columns, strict=True)
        ),
    )
    found = auditing.distort_columns(table, published, own, pairs=np.arange(table.rows))
    out = []
    for item, fitted in zip(found, encoding.columns, strict=True):
        if item.column.kind in ("nominal", "code"):
            out.append(_of_names(item, table, each))
        elif item.column.kind == "location":
            out.append(_of_places(item, table, each))
        else:
            coordinates = points[:, fitted.first : fitted.last] / np.sqrt(fitted.weight)
            out.append(_of_squares(item, table, coordinates.sum(axis=1), each))  # a constant column has none
    return tuple(out)


def unite_losses(columns: Sequence[Column], parts: Sequence[Sequence[Lost]]) -> float:
    """The distortion of all records: the mean of the columns' own, weighted, as the audit has it."""
    united = []
    for column, lost in zip(columns, zip(*parts, strict=True), strict=True):
        whole = _whole_of_names(column, lost) if lost[0].names is not None else _whole_of_sums(column, lost)
        united.append(ColumnDistortion(column, Loss(fsum(item.lost for item in lost), whole)))
    return auditing.average(united)


def _of_squares(item: ColumnDistortion, table: Table, x: Floats, weights: Floats) -> Lost:
    """The audit's share of what these records could lose, times that in standardized units."""
    known = ~table.columns[item.column.name].missing
    x, weights = x[known], weights[known]
    if not len(x):
        return Lost(0.0, sums=(0.0,))
    spread = float((weights * np.square(x - np.average(x, weights=weights))).sum())
    total, squares = float((weights * x).sum()), float((weights * np.square(x)).sum())
    return Lost(item.loss.share * spread, float(weights.sum()), (total,), squares)


def _of_places(item: ColumnDistortion, table: Table, weights: Floats) -> Lost:
    latitude, longitude = (table.columns[part].reals() for part in item.column.parts)
    known = ~(np.isnan(latitude) | np.isnan(longitude))
    vectors = unit_vectors(latitude[known], longitude[known]) * weights[known][:, np.newaxis]
    lost = item.loss.lost * float(weights.max())  # the audit weighs by shares of the largest weight
    return Lost(lost, float(weights[known].sum()), tuple(vectors.sum(axis=0).tolist()))


def _of_names(item: ColumnDistortion, table: Table, weights: Floats) -> Lost:
    codes, names = table.columns[item.column.name].factorize()
    known = codes >= 0
    totals = np.bincount(codes[known], weights=weights[known], minlength=len(names))
    by_name = Counter({name: total for name, total in zip(names, totals.tolist(), strict=True) if total > 0})
    return Lost(item.loss.lost * float(weights.max()), names=by_name)


def _whole_of_sums(column: Column, parts: Sequence[Lost]) -> float:
    weight = fsum(part.weight for part in parts)
    sums = [fsum(axis) for axis in zip(*(part.sums for part in parts), strict=True)]
    if weight == 0:
        return 0.0
    if column.kind == "location":  # unit vectors, to the unit vector of their mean direction
        return max(0.0, 2 * (weight - float(np.linalg.norm(sums))))
    return max(0.0, fsum(part.squares for part in parts) - sums[0] ** 2 / weight)


def _whole_of_names(column: Column, parts: Sequence[Lost]) -> float:
    together: Counter[str] = sum((part.names or Counter() for part in parts), Counter())
    names = sorted(together)
    codes, weights = np.arange(len(names)), np.array([together[name] for name in names])
    if column.kind == "nominal":
        return lose_changes(codes, codes, weights).whole
    return lose_characters(codes, codes, weights, names=names).whole
