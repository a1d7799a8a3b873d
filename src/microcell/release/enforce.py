"""Enforce requirements on a release: by a search within the limits, and by merging cells.

Cells that keep the limits as they are stay as they are. Otherwise the search of
:mod:`microcell.methods.constrained` competes with merging, in which a cell that violates a
requirement joins the neighbour that costs least; what the search leaves undone is merged too.

Except for ``delta_disclosure``, merging two cells never gives a worse value than the worse of the
two. So the requirements can be met if they are met when each stratum is a single cell, which is
checked before any cells are formed.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from math import ceil, floor, isfinite
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from microcell import methods, progress
from microcell._display import count as counted
from microcell.errors import OptionError, RequirementError
from microcell.kernels import rules
from microcell.kernels._jit import thread_count
from microcell.kernels.merging import Layout, find_cheapest, lay_out_cells
from microcell.measures import people
from microcell.measures.classes import class_labels, number_values
from microcell.measures.confidential import (
    ClassCounts,
    count_values,
    is_ordered,
    sort_by_order,
    tidy,
)
from microcell.measures.evaluate import evaluate, summarize
from microcell.measures.evidence import Evidence
from microcell.measures.registry import Definition, find, requirable
from microcell.model import Check, Encoded, Floats, Integers, Mask, Partition, Schema, Table

__all__ = [
    "Enforced",
    "Merged",
    "Points",
    "Requirements",
    "Searching",
    "check_function",
    "check_limits",
    "enforce",
    "is_enforced",
    "meet",
    "merge_cells",
    "missed_limits",
    "missed_manifest_limits",
    "resolve_limits",
]

_ROUNDING = 1e-9
"""Values this close to a limit are rounded as in the audit before they are compared with it."""


@dataclass(frozen=True, eq=False)
class _Confidential:
    """A confidential column: a code for each row's value, and whether their order matters."""

    name: str
    codes: Integers
    ordered: bool


class Points(NamedTuple):
    """Quasi-identifiers as points, like :class:`Encoded`, of records that have no table."""

    matrix: Floats
    weights: Floats | None = None


@dataclass(frozen=True, eq=False)
class _Limit:
    """A limit on a measure of class sizes or of one confidential column.

    ``name`` is the measure as the user wrote it, with or without a column.
    """

    name: str
    definition: Definition
    limit: float
    column: _Confidential | None = None

    @property
    def bound(self) -> str:
        """Description of the limit, for messages."""
        return f"{'at most' if self.definition.lower_is_better else 'at least'} {self.limit:.6g}"

    @property
    def where(self) -> str:
        """Description of the column, for messages."""
        return "" if self.column is None else f" for {self.column.name}"

    def by_cell(self, sizes: Integers, counts: Mapping[str, ClassCounts]) -> NDArray[Any]:
        """Return the measure of each cell."""
        values: NDArray[Any] = self.definition.compute(
            sizes if self.column is None else counts[self.column.name]
        )
        return values

    def missed(self, values: NDArray[Any]) -> Mask:
        """Return a mask of the values that miss the limit, rounded as in the audit."""
        lower = self.definition.lower_is_better
        out: Mask = values > self.limit if lower else values < self.limit
        for i in np.flatnonzero(np.abs(values - self.limit) < _ROUNDING):
            value = float(values[i]) if self.column is None else tidy(values[i])
            out[i] = value > self.limit if lower else value < self.limit
        return out


@dataclass(frozen=True, eq=False)
class Requirements:
    """Limits by measure, resolved for a table; ``enforced`` are those that merging can meet."""

    limits: Mapping[str, float]
    enforced: tuple[_Limit, ...]
    strata: Integers
    persons: Integers | None = None

    @property
    def checked(self) -> dict[str, float]:
        """The limits that can only be checked by auditing the finished release."""
        return {name: limit for name, limit in self.limits.items() if not is_enforced(name)}


def is_enforced(name: str) -> bool:
    """Return whether a measure is one of cells, so that cells can be found that meet a limit."""
    definition = find(name)
    return definition is not None and definition.enforceable


def check_limits(require: Any) -> dict[str, float]:
    """Validate ``require=``: raise OptionError for an unknown measure or an invalid limit.

    Examples
    --------
    >>> check_limits({"l_diversity": 3, "t_closeness.income": 0.3})
    {'l_diversity': 3.0, 't_closeness.income': 0.3}
    """
    if require is not None and not isinstance(require, Mapping):
        raise OptionError(
            "require must be a mapping of measures to limits, such as {'k': 5}, not "
            f"{type(require).__name__}.",
            code="option.wrong_type",
            option="require",
        )
    return {_check_name(name): _check_limit(name, limit) for name, limit in (require or {}).items()}


def _check_name(name: Any) -> str:
    definition = find(name) if isinstance(name, str) else None
    if definition is None or not definition.requirable:
        similar = get_close_matches(str(name).partition(".")[0], requirable(), n=1)
        hint = f" Did you mean {similar[0]!r}?" if similar else ""
        raise OptionError(
            f"{name!r} is not a measure that can be required.{hint} Choose one of "
            f"{', '.join(requirable())}.",
            code="option.unknown",
            option="require",
            measure=name,
        )
    return str(name)


def _check_limit(name: str, limit: Any) -> float:
    try:
        number = (
            float("nan") if isinstance(limit, bool) or not isinstance(limit, Real) else float(limit)
        )
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        raise OptionError(
            f"The limit for {name} must be a finite number, not {limit!r}.",
            code="option.invalid",
            option="require",
            measure=name,
        )
    return number


def check_function(limits: Mapping[str, float], function: str | None) -> None:
    """Raise OptionError if a cell function is requested together with limits on cells."""
    enforced = [name for name in limits if is_enforced(name)]
    if enforced and function is not None:
        raise OptionError(
            f"cells cannot be combined with a requirement on {enforced[0]}: cells that meet it "
            "depend on confidential values, and a function of the quasi-identifiers cannot. Omit "
            "one of the two.",
            code="option.conflict",
            option="cells",
            measure=enforced[0],
        )


def resolve_limits(
    limits: Mapping[str, float],
    table: Table,
    schema: Schema,
    strata: Integers,
    encoded: Encoded | Points | None = None,
    persons: Integers | None = None,
) -> Requirements:
    """Resolve limits for a table and check that they can be met.

    ``encoded`` are the quasi-identifiers, from which an error derives the cost of the nearest limit
    that can be met.

    Raises
    ------
    OptionError
        A limit names a confidential column or quasi-identifier that the schema does not have.
    RequirementError
        A limit is missed even if every stratum is a single cell.
    """
    for name in limits:
        _check_column(name, schema)
    enforced = {name: limit for name, limit in limits.items() if is_enforced(name)}
    needed = {column for name in enforced for column in _columns_of(name, schema)}
    columns = {
        column.name: _Confidential(
            column.name,
            number_values(sort_by_order(column, table.columns[column.name])),
            is_ordered(column),
        )
        for column in schema.confidential
        if column.name in needed
    }
    resolved: list[_Limit] = []
    for name, limit in enforced.items():
        definition = _definition(name)
        if definition.scope == "table":
            resolved.append(_Limit(name, definition, limit))
        resolved += [
            _Limit(name, definition, limit, columns[column]) for column in _columns_of(name, schema)
        ]
    requirements = Requirements(limits, tuple(resolved), strata, persons)
    _check_possible(requirements, encoded)
    return requirements


def _definition(name: str) -> Definition:
    definition = find(name)
    if definition is None:
        raise KeyError(name)
    return definition


def _check_column(name: str, schema: Schema) -> None:
    definition = _definition(name)
    _, dot, column = name.partition(".")
    confidential = definition.scope == "confidential"
    if confidential and not schema.confidential:
        raise OptionError(
            f"{name} is about confidential columns, but the schema declares none. Declare them in "
            "the schema.",
            code="option.unsupported",
            option="require",
            measure=name,
        )
    columns = schema.confidential if confidential else schema.quasi
    if dot and column not in [item.name for item in columns]:
        role = "confidential column" if confidential else "quasi-identifier"
        raise OptionError(
            f"{name} cannot be required: the schema has no {role} {column!r}. Check the name.",
            code="option.unknown",
            option="require",
            measure=name,
            column=column,
        )


def _columns_of(name: str, schema: Schema) -> list[str]:
    """Return the confidential columns that a measure covers."""
    definition = find(name)
    if definition is None or definition.scope != "confidential":
        return []
    column = name.partition(".")[2]
    return [item.name for item in schema.confidential if column in ("", item.name)]


def _check_possible(requirements: Requirements, encoded: Encoded | Points | None) -> None:
    """Raise RequirementError for limits that are missed even by one cell per stratum."""
    strata = int(requirements.strata.max(initial=0)) + 1
    whole = (
        "the whole table is one cell" if strata == 1 else f"each of the {strata} strata is one cell"
    )
    # Merging can make delta_disclosure worse, so one cell per stratum proves nothing about it.
    monotone = [
        item for item in requirements.enforced if item.definition.name != "delta_disclosure"
    ]
    missed = list(_missed_by(monotone, requirements.strata, requirements.persons))
    if missed:
        raise _requirement_error(
            missed,
            requirements.strata,
            requirements.persons,
            encoded,
            f"cannot be met: it is {{}} even if {whole}",
            one_stratum=strata == 1,
        )


def _check_met(requirements: Requirements, labels: Integers, encoded: Encoded | Points) -> None:
    """Raise RequirementError for limits that are still missed after all possible merging."""
    missed = list(_missed_by(requirements.enforced, labels, requirements.persons))
    if missed:
        reached = "is {} after merging as many cells as possible"
        one_stratum = bool((requirements.strata == requirements.strata[0]).all())
        raise _requirement_error(
            missed, labels, requirements.persons, encoded, reached, one_stratum=one_stratum
        )


def _requirement_error(
    missed: list[tuple[_Limit, float]],
    labels: Integers,
    persons: Integers | None,
    encoded: Encoded | Points | None,
    outcome: str,
    *,
    one_stratum: bool,
) -> RequirementError:
    """Return the error: the value that these cells reach, its cost, and who stands in the way."""
    problems = [
        f"{item.name} {outcome.format(f'{value:.6g}{item.where}')}, required {item.bound}."
        for item, value in missed
    ]
    in_the_way = np.zeros(len(labels), dtype=np.bool_)
    for item, _ in missed:
        in_the_way |= item.missed(item.by_cell(*_count([item], labels, persons)))[labels]
    records, cells = int(in_the_way.sum()), len(np.unique(labels[in_the_way]))
    loss = (
        None
        if encoded is None
        else methods.distortion(encoded.matrix, labels, weights=encoded.weights)
    )
    cost = "" if loss is None else f", at an information loss of at most {100 * loss:.3g} %"
    advice = "Relax the limit." if one_stratum else "Relax the limit, or use fewer strata."
    nearest = ", ".join(f"{item.name} = {value:.6g}" for item, value in missed)
    return RequirementError(
        f"{' '.join(problems)} {counted(records, 'record')} in {counted(cells, 'cell')} "
        f"{'stands' if records == 1 else 'stand'} in the way. The nearest limit that can be met is "
        f"{nearest}{cost}. {advice} Nothing was released.",
        code="guarantee.requirement_not_met",
        measures=list(dict.fromkeys(item.name for item, _ in missed)),
        nearest={item.name: value for item, value in missed},
        information_loss=loss,
        records=records,
    )


def _missed_by(
    limits: Collection[_Limit], labels: Integers, persons: Integers | None
) -> Iterator[tuple[_Limit, float]]:
    """Yield the limits that cells miss, and the value reached."""
    sizes, counts = _count(limits, labels, persons)
    for item in limits:
        reached = summarize(item.definition, item.by_cell(sizes, counts))
        if item.missed(np.array([reached]))[0]:
            yield item, reached


def _failing_cells(requirements: Requirements, labels: Integers, alone: Mask) -> Mask:
    """Return the cells to merge; for limits on sums, only as many of the smallest as needed."""
    sizes, counts = _count(requirements.enforced, labels, requirements.persons)
    failing = np.zeros(len(sizes), dtype=np.bool_)
    for item in requirements.enforced:
        values = item.by_cell(sizes, counts)
        if item.definition.per_class != "sum":
            failing |= item.missed(values)
        elif (excess := float(values.sum()) - item.limit) > 0:
            cells = np.flatnonzero((values > 0) & ~alone)
            cells = cells[np.argsort(sizes[cells], kind="stable")]
            needed = np.searchsorted(np.cumsum(values[cells]), excess) + 1
            failing[cells[:needed]] = True
    return failing


def _count(
    limits: Collection[_Limit], labels: Integers, persons: Integers | None
) -> tuple[Integers, dict[str, ClassCounts]]:
    """Return the people of each cell, and how many of them have each confidential value."""
    columns = {column.name: column for item in limits if (column := item.column) is not None}
    sizes = people.count_people(labels, persons)
    counts = {
        name: count_values(labels, column.codes, ordered=column.ordered, persons=persons)
        for name, column in columns.items()
    }
    return sizes, counts


def missed_limits(
    published: Table,
    schema: Schema,
    limits: Mapping[str, float],
    persons: Integers | None = None,
) -> tuple[Check, ...]:
    """Return the enforced limits that a published table misses, measured on its own classes."""
    enforced = {name: limit for name, limit in limits.items() if is_enforced(name)}
    if not enforced:
        return ()
    needed = {column for name in enforced for column in _columns_of(name, schema)}
    confidential = tuple(column for column in schema.confidential if column.name in needed)
    measured = replace(schema, confidential=confidential)
    evidence = Evidence(published, published, measured, persons=persons)
    definitions = {(item := _definition(name)).name: item for name in enforced}
    results = evaluate(evidence, definitions.values())
    checks = (Check(results[name], limit) for name, limit in enforced.items())
    return tuple(check for check in checks if not check.met)


def missed_manifest_limits(
    published: Table,
    schema: Schema,
    limits: Mapping[str, Any],
    persons: Integers | None = None,
) -> tuple[Check, ...]:
    """Return the enforced limits of a manifest that a published table misses.

    Limits that cannot be interpreted are ignored, as are all if the persons are not known.
    """
    if not published.rows or (schema.person and persons is None):
        return ()
    columns = tuple(column for column in schema.confidential if column.name in published.columns)
    present = replace(schema, confidential=columns)
    readable = {
        name: float(limit)
        for name, limit in limits.items()
        if type(limit) in (int, float) and _is_measured(name, present)
    }
    return missed_limits(published, present, readable, persons)


def _is_measured(name: str, schema: Schema) -> bool:
    definition = find(name)
    if definition is None:
        return False
    return definition.scope != "confidential" or bool(_columns_of(name, schema))


# --------------------------------------------------------------------------------------- merging

_CELLS_AT_A_TIME = 2048

AS_THEY_WERE = "the cells met the limits as they were"
MERGED = "merged cells"
STRICTER = "the cells of a stricter limit"
"""Ways to meet the limits, for the manifest."""


@dataclass(frozen=True, eq=False)
class Merged:
    """Cells that meet the enforceable requirements.

    ``rounds`` is the number of rounds of merging, ``way`` how the cells were found.
    """

    partition: Partition
    rounds: int = 0
    way: str = AS_THEY_WERE


@dataclass(frozen=True, eq=False)
class Enforced:
    """Cells as in :class:`Merged`, and the published table, which meets the limits too."""

    partition: Partition
    rounds: int
    published: Table
    way: str = AS_THEY_WERE


@dataclass(frozen=True, eq=False)
class _Cells:
    """State of merging: the current cell of each initial one, with sums, masses and strata."""

    cell_of: Integers
    sums: Floats
    masses: Floats
    strata: Integers

    def __len__(self) -> int:
        return len(self.masses)

    @cached_property
    def alone(self) -> Mask:
        """Mask of the cells that are alone in their stratum and so cannot be merged."""
        out: Mask = np.bincount(self.strata)[self.strata] == 1
        return out


def enforce(
    requirements: Requirements,
    partition: Partition,
    encoded: Encoded | Points,
    schema: Schema,
    publish: Callable[[Partition], Table],
    searching: "Searching | None" = None,
) -> Enforced:
    """Change cells until the table that ``publish`` builds from them meets the requirements.

    Without ``searching`` cells are only merged. Cells that publish the same values form one class
    of the table. If such a class misses a limit that its cells meet, which ``delta_disclosure``
    allows, the cells are merged and merging continues.

    Raises
    ------
    RequirementError
        Merging cannot meet the requirements.
    """
    merged = meet(requirements, partition, encoded, searching)
    rounds, way = 0, merged.way
    # Every turn that does not return merges at least two cells.
    for _ in range(len(partition)):
        rounds += merged.rounds
        published = publish(merged.partition)
        missed = missed_limits(published, schema, requirements.limits, requirements.persons)
        if not missed:
            return Enforced(merged.partition, rounds, published, way)
        classes = class_labels(published, schema.keys)
        if len(np.unique(classes)) >= len(merged.partition):
            break
        merged = merge_cells(requirements, merged.partition, encoded, together=classes)
    raise RequirementError(
        f"{' '.join(map(str, missed))} Nothing was released. This is a bug in microcell; please "
        "report it.",
        code="guarantee.requirement_not_met",
        measures=[check.measure.name for check in missed],
    )


# -------------------------------------------------------------------------------------- searching

_KINDS = {
    "l_diversity": rules.DISTINCT,
    "p_sensitivity": rules.DISTINCT,
    "l_entropy": rules.ENTROPY,
    "l_recursive": rules.RECURSIVE,
    "t_closeness": rules.CLOSENESS,
    "t_kullback": rules.DIVERGENCE,
    "delta_disclosure": rules.DISCLOSURE,
}
"""Measures of confidential columns that a rule of the search can limit, per cell."""

_UNITS = 1e12
"""The audit rounds measures to units of 1 / 1e12."""


@dataclass(frozen=True, eq=False)
class Searching:
    """How to search within limits: the points whose SSE counts, the random seed and the effort.

    ``again`` partitions the records for a larger k, if a limit requires that.
    """

    points: Floats
    seed: int
    effort: str | float = "balanced"
    again: Callable[[int], Partition] | None = None


def meet(
    requirements: Requirements,
    partition: Partition,
    encoded: Encoded | Points,
    searching: Searching | None = None,
    previous: Partition | None = None,
) -> Merged:
    """Return cells that meet the enforceable requirements: the best of searching and merging.

    ``previous`` are cells that meet them, such as those of stricter limits, to begin with.

    Raises
    ------
    RequirementError
        Neither meets them.
    """
    failure = None
    ways = [] if previous is None else [Merged(previous, way=STRICTER)]
    try:
        merged = merge_cells(requirements, partition, encoded)
    except RequirementError as error:
        failure = error
    else:
        ways.append(merged)
    if searching is not None and not (ways and ways[-1].way == AS_THEY_WERE):
        starts = {item.way: item.partition for item in ways}
        found = _search_cells(requirements, partition, starts, encoded.weights, searching)
        try:
            rest = merge_cells(requirements, found.partition, encoded)
        except RequirementError as error:
            failure = failure or error
        else:
            merged_too = "" if rest.way == AS_THEY_WERE else ", then cells merged"
            ways.append(Merged(rest.partition, rest.rounds, found.way + merged_too))
    if not ways:
        assert failure is not None
        raise failure
    points = encoded.matrix if searching is None else searching.points
    return min(
        ways,
        key=lambda item: methods.distortion(points, item.partition.labels, weights=encoded.weights),
    )


def _search_cells(
    requirements: Requirements,
    partition: Partition,
    others: Mapping[str, Partition],
    weights: Floats | None,
    searching: Searching,
) -> Merged:
    """Search within the limits, in each stratum whose cells exceed them."""
    n, k = len(partition.labels), partition.k
    persons, least = requirements.persons, max(k, _least_size(requirements, n))
    rule = _as_rule(requirements, n, least)
    if least > k and searching.again is not None:
        partition = searching.again(least)
    kept = _exempt_records(requirements, partition.labels)
    labels, used, most = partition.labels.copy(), "", 0
    for stratum in np.unique(requirements.strata):
        rows = np.flatnonzero((requirements.strata == stratum) & ~kept)
        if len(rows) < least:
            continue
        part = rules.take_rows(rule, rows)
        cells = methods.compact(labels[rows])
        starts = {}
        if np.bincount(cells).min() >= least:
            if not len(methods.broken_cells(cells, part)):
                continue
            starts["cells without limits"] = cells
        if not kept.any():
            starts |= {name: methods.compact(item.labels[rows]) for name, item in others.items()}
        effort = searching.effort
        share = effort if isinstance(effort, str) else float(effort) * len(rows) / n
        result = methods.search_within_limits(
            np.ascontiguousarray(searching.points[rows]),
            least,
            part,
            starts,
            methods.default_effort(len(rows), least, share),
            weights=None if weights is None else weights[rows],
            seed=searching.seed,
        )
        found = result.labels
        if persons is not None:
            found = methods.merge_short_cells(
                searching.points[rows], found, least, _renumber(persons[rows]), None
            )
        labels[rows] = int(labels.max()) + 1 + found
        if len(rows) > most:
            used, most = result.way, len(rows)
    used = used or f"cells of at least {counted(least, 'record')}"
    way = f"search within the limits, from {used}"
    reason = f"{partition.reason}, then a {way}"
    return Merged(replace(partition, labels=methods.compact(labels), k=k, reason=reason), way=way)


def _renumber(codes: Integers) -> Integers:
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


def _as_rule(requirements: Requirements, n: int, least: int) -> rules.Rule:
    """Return the limits on single cells, and on their persons, as a rule of the search."""
    columns: dict[str, rules.Values] = {}
    for item in requirements.enforced:
        if item.column is None:
            continue
        column = item.column
        limits = columns.setdefault(
            column.name,
            rules.Values(column.codes, column.ordered, np.array([0.0] * 3 + [np.inf] * 3)),
        ).limits
        kind = _KINDS.get(item.definition.name)
        if item.definition.per_class == "sum":
            limits[rules.DISTINCT] = max(limits[rules.DISTINCT], 2.0)
        elif kind is not None and item.definition.lower_is_better:
            # The largest value that the audit rounds to the limit or below.
            limits[kind] = min(limits[kind], (floor(item.limit * _UNITS) + 0.4) / _UNITS)
        elif kind is not None:
            limits[kind] = max(limits[kind], (ceil(item.limit * _UNITS) - 0.4) / _UNITS)
    return rules.make_rule(n, list(columns.values()), persons=requirements.persons, least=least)


def _least_size(requirements: Requirements, n: int) -> int:
    """Return the smallest size of cells that the limits on sizes allow."""
    sizes = np.arange(1, n + 1)
    least = 1
    for item in requirements.enforced:
        if item.column is None:
            met = ~item.missed(item.by_cell(sizes, {}))
            least = max(least, int(np.argmax(met)) + 1)
    return least


def _exempt_records(requirements: Requirements, labels: Integers) -> Mask:
    """Return the records of homogeneous cells that the limits on their number permit.

    They keep their cells, the smallest first; all other cells must have two values.
    """
    out = np.zeros(len(labels), dtype=np.bool_)
    sums = [item for item in requirements.enforced if item.definition.per_class == "sum"]
    if not sums or all(item.limit < 1 for item in sums):
        return out
    single = [item for item in requirements.enforced if item.definition.per_class != "sum"]
    sizes, counts = _count(requirements.enforced, labels, requirements.persons)
    sound = np.ones(len(sizes), dtype=np.bool_)
    for item in single:
        sound &= ~item.missed(item.by_cell(sizes, counts))
    values = np.array([item.by_cell(sizes, counts) for item in sums])
    left = np.array([item.limit for item in sums])
    kept = np.zeros(len(sizes), dtype=np.bool_)
    for cell in np.argsort(sizes, kind="stable"):
        amount = values[:, cell]
        if sound[cell] and amount.any() and (amount <= left).all():
            left -= amount
            kept[cell] = True
    out |= kept[labels]
    return out


def merge_cells(
    requirements: Requirements,
    partition: Partition,
    encoded: Encoded | Points,
    together: Integers | None = None,
) -> Merged:
    """Merge cells until every enforceable requirement is met.

    In each round, every cell that misses a limit proposes to merge with the neighbour in its
    stratum that has the lowest Ward cost v w / (v + w) d^2 (v and w the numbers of records or the
    weights of the two cells, d the distance of their centroids); ties go to the next cell by
    number. Merges are applied in order of cost, ties by the lower cell, each cell at most once per
    round. Limits on homogeneous classes and their records are met by merging the smallest of these
    classes. Time O(n log n + b G m) per round at worst, with b of G cells missing a limit.

    Parameters
    ----------
    together
        A number for each record; cells that share one are merged first.

    Raises
    ------
    RequirementError
        A cell misses a limit and has no neighbour left.
    """
    if not requirements.enforced:
        return Merged(partition)
    cells = _initial_cells(partition, encoded, requirements.strata, together)
    rounds = most = 0
    for _ in range(len(partition)):  # every round merges at least two cells
        labels = cells.cell_of[partition.labels]
        failing = np.flatnonzero(_failing_cells(requirements, labels, cells.alone) & ~cells.alone)
        most = max(most, len(failing))
        if most:
            progress.report("merging cells", most - len(failing), most)
        if not len(failing):
            break
        cells = _join(cells, np.array(list(_choose_merges(cells, failing))))
        rounds += 1
    _check_met(requirements, labels, encoded)
    if len(cells) == len(partition):
        return Merged(partition)
    suffix = ", then merged to meet requirements"
    reason = partition.reason.removesuffix(suffix) + suffix
    joined = replace(partition, labels=labels, reason=reason)
    return Merged(joined, rounds, MERGED)


def _initial_cells(
    partition: Partition, encoded: Encoded | Points, strata: Integers, together: Integers | None
) -> _Cells:
    cell_of = _merge_equal(partition, together)
    labels = cell_of[partition.labels]
    weights = np.ones(len(labels)) if encoded.weights is None else _scale_down(encoded.weights)
    points = _scale_down(encoded.matrix)
    sums = np.empty((int(cell_of.max()) + 1, points.shape[1]))
    for j in range(points.shape[1]):
        sums[:, j] = np.bincount(labels, weights=weights * points[:, j])
    stratum = np.empty(len(sums), dtype=np.int64)
    stratum[labels] = strata
    masses = np.bincount(labels, weights=weights).astype(np.float64)
    return _Cells(cell_of, sums, masses, stratum)


def _scale_down(numbers: Floats) -> Floats:
    """Scale to at most 1 by a power of two, which is exact, so that squares do not overflow."""
    return np.ldexp(numbers, -int(np.frexp(np.abs(numbers).max(initial=0.0))[1]))


def _merge_equal(partition: Partition, together: Integers | None) -> Integers:
    """Return the initial cell of each cell: its own, or one shared through ``together``."""
    count = len(partition)
    if together is None:
        return np.arange(count)
    lowest = np.full(int(together.max()) + 1, count)
    np.minimum.at(lowest, together, partition.labels)
    first = np.empty(count, dtype=np.int64)
    first[partition.labels] = lowest[together]
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


def _choose_merges(cells: _Cells, failing: Integers) -> Iterator[tuple[int, int]]:
    """Yield the merges of a round as (lower cell, higher cell)."""
    layout = lay_out_cells(cells.sums / cells.masses[:, np.newaxis], cells.masses, cells.strata)
    partners = np.empty(len(failing), dtype=np.int64)
    costs = np.empty(len(failing))
    _find_partners(layout, failing, partners, costs)
    for i in np.flatnonzero(partners < 0).tolist():
        # Only if costs overflow: any neighbour will do, so that merging always makes progress.
        stratum = np.flatnonzero(cells.strata == cells.strata[failing[i]])
        partners[i] = stratum[(np.searchsorted(stratum, failing[i]) + 1) % len(stratum)]
    taken = np.zeros(len(cells), dtype=np.bool_)
    for i in np.lexsort((failing, costs)).tolist():
        cell, partner = int(failing[i]), int(partners[i])
        if not (taken[cell] or taken[partner]):
            taken[cell] = taken[partner] = True
            yield min(cell, partner), max(cell, partner)


def _find_partners(layout: Layout, failing: Integers, partners: Integers, costs: Floats) -> None:
    """Find the cheapest neighbours on several threads, writing to ``partners`` and ``costs``."""

    def find_block(first: int) -> None:
        part = slice(first, first + _CELLS_AT_A_TIME)
        find_cheapest(layout, failing[part], partners[part], costs[part])

    find_block(0)  # in this thread, so that its progress listeners are notified
    with ThreadPoolExecutor(thread_count()) as pool:
        list(pool.map(find_block, range(_CELLS_AT_A_TIME, len(failing), _CELLS_AT_A_TIME)))


def _join(cells: _Cells, merges: Integers) -> _Cells:
    """Merge cells and renumber them in order; a merged cell takes the place of its lower part."""
    low, high = merges.T
    root = np.arange(len(cells))
    root[high] = low
    kept, numbers = np.unique(root, return_inverse=True)
    sums, masses = cells.sums.copy(), cells.masses.copy()
    sums[low] += sums[high]
    masses[low] += masses[high]
    return _Cells(numbers[cells.cell_of], sums[kept], masses[kept], cells.strata[kept])
