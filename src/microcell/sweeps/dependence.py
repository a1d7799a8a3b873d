"""Measure the cost of preserving the association with confidential columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from microcell import methods as partitioning
from microcell._display import count, frame_of_rows, html_card, record_html, record_repr, short_repr
from microcell.errors import OptionError
from microcell.kernels.arrays import centroids
from microcell.measures.attacks import linked_originals
from microcell.measures.confidential import confidential_columns
from microcell.measures.disclosure import average_diversity
from microcell.model import Floats, Schema
from microcell.release import partition as groupings
from microcell.release import prepare
from microcell.release.dependence import SMALLEST_WEIGHT
from microcell.sweeps.runner import Attempt, check_sizes, prepare_table, run_requests

__all__ = ["DependencePoint", "DependenceSweep", "check_targets", "dependence_sweep"]

LAMBDAS = tuple(step / 10 for step in range(11))
"""Dependence weights that a sweep tries by default."""


COARSE, FINE = 7, 5
"""The search for a target covers the weights from SMALLEST_WEIGHT to 1: COARSE points on a
logarithmic grid, then FINE bisections of the logarithm."""


@dataclass(frozen=True)
class DependencePoint:
    """Losses of the cells for one k and one dependence weight (lambda).

    ``distortion`` (D_X) is the loss of the quasi-identifiers; ``dependence_loss`` (D_Y) is the part
    of the confidential columns that the cells cannot predict. Both are SSE / SST of the encoded
    points. ``weighted`` is the minimized sum (1 - lambda) D_X + lambda D_Y. The increments are
    relative to lambda = 0. ``diversity`` is l_avg, and ``dld`` the share of records that
    distance-based linkage re-identifies. ``joint_k`` is the k of all quasi-identifiers combined,
    which is below k if the cells were made in blocks.
    """

    k: int
    dependence: float
    distortion: float
    dependence_loss: float
    weighted: float
    distortion_increment: float
    loss_increment: float
    diversity: float
    dld: float
    cells: int
    joint_k: int
    seconds: float

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True, repr=False)
class DependenceSweep:
    """The points of :func:`dependence_sweep`, by k and then by dependence weight."""

    points: tuple[DependencePoint, ...]
    method: str
    blocks: tuple[tuple[str, ...], ...] = ()
    columns: Mapping[str, float] | None = None
    """Share of lambda per confidential column; None if all columns share one weight."""

    def at_most(
        self, *, more: float | None = None, dependence_loss: float | None = None
    ) -> tuple[DependencePoint, ...]:
        """Return, for each k, the best point that meets a target, if there is one.

        With ``more``, the point with the smallest D_Y whose D_X increases by at most this share.
        With ``dependence_loss``, the point with the smallest D_X whose D_Y is at most this value.
        """
        check_targets(more, dependence_loss)
        out = []
        for k in dict.fromkeys(point.k for point in self.points):
            points = [point for point in self.points if point.k == k]
            if more is not None:
                meeting = [point for point in points if point.distortion_increment <= more]
                key = _by_dependence_loss
            else:
                assert dependence_loss is not None
                meeting = [point for point in points if point.dependence_loss <= dependence_loss]
                key = _by_distortion
            if meeting:
                out.append(min(meeting, key=key))
        return tuple(out)

    def weights(self, point: DependencePoint) -> float | dict[str, float]:
        """Return the ``dependence`` to pass to :func:`anonymize` for a point."""
        return _spread(point.dependence, self.columns)

    def to_frame(self) -> Any:
        """Return the points as a data frame, one row per point."""
        return frame_of_rows([asdict(point) for point in self.points])

    def __repr__(self) -> str:
        return short_repr(self, count(len(self.points), "point"), method=self.method)

    def _repr_html_(self) -> str:
        rows = {
            f"k = {point.k}, lambda = {point.dependence:g}": f"D_X {point.distortion:.4f}, "
            f"D_Y {point.dependence_loss:.4f}"
            for point in self.points
        }
        steps = {
            ".at_most(more=0.05)": "choose the weights",
            "mc.plot.dependence(sweep)": "draw the trade-off",
        }
        return html_card(repr(self)[1:-1], rows, next_steps=steps)


def dependence_sweep(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int | Iterable[int],
    lambdas: float | Iterable[float] | None = None,
    more: float | None = None,
    dependence_loss: float | None = None,
    columns: Mapping[str, float] | None = None,
    method: str = "auto",
    blocks: Any = None,
    seed: int = 0,
    missing: str = "error",
    **options: Any,
) -> DependenceSweep:
    """Measure the cost and benefit of preserving the association with confidential columns.

    Parameters
    ----------
    source, schema, method, seed, missing, options
        As for :func:`anonymize`.
    k, lambdas
        Values to try, in all combinations. The weight 0, the baseline of the others, is always
        tried. By default 0, 0.1, ..., 1, unless there is a target.
    more, dependence_loss
        A target in place of ``lambdas``: the largest accepted relative increase of D_X (0.05 for 5
        %), at which D_Y is to be as small as possible, or the largest accepted D_Y, at which D_X is
        to be as small as possible. The weight is found by bisection on a logarithmic scale;
        :meth:`DependenceSweep.at_most` returns the result.
    columns
        Relative weights of confidential columns, by which lambda is divided among them. By default
        one weight applies to all columns together.
    blocks
        Partition blocks of quasi-identifiers independently: a number of columns per block, or
        lists of names. All columns combined are then usually not k-anonymous; ``joint_k`` and
        ``dld`` measure this.

    Returns
    -------
    DependenceSweep
        The table is read and encoded once. Runs are executed in parallel, which does not change
        their results.

    Examples
    --------
    >>> people = {"age": [31, 33, 35, 60, 62, 64], "income": [10, 20, 60, 30, 50, 55]}
    >>> schema = Schema(quasi=["age"], confidential=["income"])
    >>> for point in dependence_sweep(people, schema, k=3, lambdas=[0, 1]).points:
    ...     print(point.dependence, round(point.distortion, 3), round(point.dependence_loss, 3))
    0.0 0.013 0.838
    1.0 0.821 0.12
    """
    target = _check_target(lambdas, more, dependence_loss)
    default = (0.0,) if target else LAMBDAS
    sizes, weights = (
        sorted(check_sizes(k)),
        _check_lambdas(default if lambdas is None else lambdas),
    )
    partitioning.check_method(method, options)
    shares = _check_columns(columns)

    def request(size: int, weight: float) -> groupings.Request:
        return groupings.Request(size, method, seed, options, _spread(weight, shares))

    first = [request(size, weight) for size, weight in product(sizes, weights)]
    prepared = prepare_table(source, schema, first, missing=missing, seed=seed)
    prepared.confidential  # noqa: B018  # encode (or fail) before threads start
    quasi = prepared.schema.quasi
    places: tuple[tuple[int, ...], ...] = (tuple(range(len(quasi))),)
    if blocks is not None:
        places = groupings.choose_blocks(prepared, first[0], blocks)
    named = [[quasi[place].name for place in block] for block in places]

    def measure(requests: Sequence[groupings.Request]) -> list[DependencePoint]:
        runs = run_requests(
            requests,
            lambda one: groupings.partition_blocks(prepared, one, named),
            parallel=True,
        )
        return [_as_dependence_point(prepared, attempt) for attempt in list(runs)]

    points = measure(first)
    if target:
        points += _search_target(points, request, measure, more, dependence_loss)
    names = tuple(map(tuple, named)) if blocks is not None else ()
    return DependenceSweep(_with_increments(sorted(points, key=_by_k)), method, names, shares)


def _search_target(
    baseline: Sequence[DependencePoint],
    request: Callable[[int, float], groupings.Request],
    measure: Callable[[Sequence[groupings.Request]], list[DependencePoint]],
    more: float | None,
    dependence_loss: float | None,
) -> list[DependencePoint]:
    """Return the points tried in the search for a target.

    Apart from local optima, D_X increases with lambda and D_Y decreases. The weight at which the
    target is just met is bracketed on a logarithmic grid and bisected, for all k at once.
    """
    bases = {point.k: point for point in baseline}

    def is_small(point: DependencePoint) -> bool:
        if more is not None:
            return point.distortion <= (1 + more) * bases[point.k].distortion
        assert dependence_loss is not None
        return point.dependence_loss > dependence_loss

    grid = np.geomspace(SMALLEST_WEIGHT, 1.0, COARSE).tolist()
    tried = measure([request(k, weight) for k in bases for weight in grid])
    brackets: dict[int, tuple[float, float]] = {}
    for k in bases:
        small = [point.dependence for point in tried if point.k == k and is_small(point)]
        largest = max(small, default=0.0)
        above = [weight for weight in grid if weight > largest * (1 + 1e-9)]
        if largest > 0 and above:
            brackets[k] = (largest, above[0])
    for _ in range(FINE if brackets else 0):
        middles = {k: float(np.sqrt(low * high)) for k, (low, high) in brackets.items()}
        for point in measure([request(k, weight) for k, weight in middles.items()]):
            tried.append(point)
            low, high = brackets[point.k]
            middle = middles[point.k]
            brackets[point.k] = (middle, high) if is_small(point) else (low, middle)
    return tried


def _by_k(point: DependencePoint) -> tuple[int, float]:
    return point.k, point.dependence


def _by_dependence_loss(point: DependencePoint) -> tuple[float, float]:
    return point.dependence_loss, point.distortion


def _by_distortion(point: DependencePoint) -> tuple[float, float]:
    return point.distortion, point.dependence_loss


def _spread(weight: float, shares: Mapping[str, float] | None) -> float | dict[str, float]:
    """Divide a weight among columns."""
    if shares is None or weight == 0:
        return weight
    return {name: weight * share for name, share in shares.items()}


def _check_columns(columns: Mapping[str, float] | None) -> dict[str, float] | None:
    """Return the share of each column; they add up to 1."""
    if columns is None:
        return None
    values = list(columns.values()) if isinstance(columns, Mapping) else []
    numbers = [value for value in values if isinstance(value, (int, float)) and 0 < value < 1e100]
    if not values or len(numbers) < len(values):
        raise OptionError(
            "columns must map confidential columns to positive numbers.",
            code="option.invalid",
            option="columns",
        )
    return {name: value / sum(values) for name, value in columns.items()}


def _check_target(lambdas: Any, more: float | None, dependence_loss: float | None) -> bool:
    """Return whether there is a target; lambdas must then be omitted."""
    if more is None and dependence_loss is None:
        return False
    check_targets(more, dependence_loss)
    if lambdas is not None:
        raise OptionError(
            "A target replaces lambdas. Omit one of the two.",
            code="option.conflict",
            option="lambdas",
        )
    return True


def check_targets(more: float | None, dependence_loss: float | None) -> None:
    """Raise OptionError unless there is exactly one target, a number of at least 0."""
    if (more is None) == (dependence_loss is None):
        raise OptionError(
            "Pass either 'more' or 'dependence_loss', not both.",
            code="option.conflict",
            option="more",
        )
    name = "more" if more is not None else "dependence_loss"
    value = more if more is not None else dependence_loss
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e100:
        raise OptionError(
            f"{name} must be a number of at least 0, not {value!r}.",
            code="option.out_of_range",
            option=name,
        )


def _as_dependence_point(prepared: prepare.Prepared, attempt: Attempt) -> DependencePoint:
    """Measure an attempt; increments are filled in once all points are known."""
    if attempt.grouping is None or attempt.seconds is None:
        raise OptionError(attempt.reason, code="option.unsupported", option="method")
    blocks, weight = attempt.grouping.blocks, attempt.request.weight
    distortion = groupings.quasi_identifier_loss(prepared, blocks)
    dependence_loss = groupings.confidential_loss(prepared, blocks)
    columns = [
        confidential_columns(
            prepared.table, prepared.schema, block.partition.labels, prepared.persons
        )
        for block in blocks
    ]
    linked = linked_originals(
        prepared.encoded.matrix, _published(prepared, blocks), prepared.dimensions
    )
    return DependencePoint(
        k=attempt.request.k,
        dependence=weight,
        distortion=distortion,
        dependence_loss=dependence_loss,
        weighted=groupings.weighted_loss(prepared, blocks, attempt.request.dependence),
        distortion_increment=0.0,
        loss_increment=0.0,
        diversity=float(np.mean([average_diversity(each) or 0.0 for each in columns])),
        dld=float(linked.mean()),
        cells=sum(len(block.partition) for block in blocks),
        joint_k=attempt.grouping.partition.k,
        seconds=round(attempt.seconds, 4),
    )


def _published(prepared: prepare.Prepared, blocks: Sequence[groupings.Block]) -> Floats:
    """Return, for each record, the centroid that is published for it."""
    matrix, weights = prepared.encoded.matrix, prepared.encoded.weights
    each = np.ones(prepared.table.rows) if weights is None else weights
    published = np.empty_like(matrix)
    for block in blocks:
        labels = block.partition.labels
        for dimensions in (prepared.dimensions[place] for place in block.columns):
            published[:, dimensions] = centroids(matrix[:, dimensions], labels, each)[labels]
    return published


def _with_increments(points: Sequence[DependencePoint]) -> tuple[DependencePoint, ...]:
    baseline = {point.k: point for point in points if point.dependence == 0}
    return tuple(
        replace(
            point,
            distortion_increment=_increment(point.distortion, baseline[point.k].distortion),
            loss_increment=_increment(point.dependence_loss, baseline[point.k].dependence_loss),
        )
        for point in points
    )


def _increment(value: float, base: float) -> float:
    """Return (value - base) / base; any increase from 0 is infinite."""
    return (value - base) / base if base > 0 else 0.0 if value == base else float("inf")


def _check_lambdas(lambdas: float | Iterable[float]) -> tuple[float, ...]:
    weights = list(lambdas) if isinstance(lambdas, Iterable) else [lambdas]
    for weight in weights:
        partitioning.check_dependence(weight)
    return tuple(sorted({0.0, *map(float, weights)}))
