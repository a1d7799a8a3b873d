"""Requirements on a release: limits on measures, checked, and resolved for a table."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import isfinite
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from microcell import methods
from microcell._display import count as counted
from microcell.errors import OptionError, RequirementError
from microcell.measures import people
from microcell.measures.classes import number_values
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
from microcell.model import Check, Encoded, Floats, Integers, Mask, Schema, Table

__all__ = [
    "Confidential",
    "Limit",
    "Points",
    "Requirements",
    "check_columns",
    "check_function",
    "check_limits",
    "check_met",
    "columns_of",
    "count_by_cell",
    "failing_cells",
    "is_enforced",
    "is_sum",
    "least_size",
    "least_size_of",
    "limits_on",
    "measure_limits",
    "missed_limits",
    "missed_manifest_limits",
    "require_of",
    "resolve_limits",
]

_ROUNDING = 1e-9
"""Values this close to a limit are rounded as in the audit before they are compared with it."""


@dataclass(frozen=True, eq=False)
class Confidential:
    """A confidential column: a code for each row's value, and whether their order matters.

    ``totals`` counts the people with each value in a larger table that the rows are part of.
    """

    name: str
    codes: Integers
    ordered: bool
    totals: Integers | None = None


class Points(NamedTuple):
    """Quasi-identifiers as points, like :class:`Encoded`, of records that have no table."""

    matrix: Floats
    weights: Floats | None = None


@dataclass(frozen=True, eq=False)
class Limit:
    """A limit on a measure of class sizes or of one confidential column.

    ``name`` is the measure as the user wrote it, with or without a column.
    """

    name: str
    definition: Definition
    limit: float
    column: Confidential | None = None

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

    def combine(self, values: Collection[float]) -> float:
        """Return the measure of a whole from those of its parts."""
        if self.definition.per_class == "sum":
            return sum(values)
        return max(values) if self.definition.lower_is_better else min(values)

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
    enforced: tuple[Limit, ...]
    strata: Integers
    persons: Integers | None = None

    @property
    def checked(self) -> dict[str, float]:
        """The limits that can only be checked by auditing the finished release."""
        return {name: limit for name, limit in self.limits.items() if not is_enforced(name)}


def is_enforced(name: str) -> bool:
    """Return whether limits on a measure can be met by the choice of cells."""
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
    *,
    check: bool = True,
) -> Requirements:
    """Resolve limits for a table and check that they can be met.

    ``encoded`` are the quasi-identifiers, from which an error derives the cost of the nearest limit
    that can be met. Without ``check``, limits that these records cannot meet are accepted.

    Raises
    ------
    OptionError
        A limit names a confidential column or quasi-identifier that the schema does not have.
    RequirementError
        A limit is missed even if every stratum is a single cell.
    """
    check_columns(limits, schema)
    enforced = {name: limit for name, limit in limits.items() if is_enforced(name)}
    needed = {column for name in enforced for column in columns_of(name, schema)}
    columns = {
        column.name: Confidential(
            column.name,
            number_values(sort_by_order(column, table.columns[column.name])),
            is_ordered(column),
        )
        for column in schema.confidential
        if column.name in needed
    }
    requirements = require_of(limits, columns, strata, persons)
    if check:
        _check_possible(requirements, encoded)
    return requirements


def require_of(
    limits: Mapping[str, float],
    columns: Mapping[str, Confidential],
    strata: Integers,
    persons: Integers | None,
) -> Requirements:
    """Return the limits for records with these confidential columns, by name."""
    resolved: list[Limit] = []
    for name in filter(is_enforced, limits):
        definition, limit = _definition(name), limits[name]
        if definition.scope == "table":
            resolved.append(Limit(name, definition, limit))
            continue
        chosen = name.partition(".")[2]
        resolved += [
            Limit(name, definition, limit, column)
            for column in columns.values()
            if chosen in ("", column.name)
        ]
    return Requirements(limits, tuple(resolved), strata, persons)


def limits_on(limits: Mapping[str, float], column: str) -> list[Limit]:
    """Return the limits on cells that concern a confidential column."""
    blank = Confidential(column, np.zeros(0, dtype=np.int64), ordered=False)
    requirements = require_of(limits, {column: blank}, blank.codes, None)
    return [item for item in requirements.enforced if item.column is not None]


def is_sum(name: str) -> bool:
    """Return whether a measure adds up over cells, such as a number of records."""
    return _definition(name).per_class == "sum"


def measure_limits(requirements: Requirements, labels: Integers) -> dict[tuple[str, str], float]:
    """Return the value that cells reach of each limit on a column, by measure and column."""
    sizes, counts = count_by_cell(requirements.enforced, labels, requirements.persons)
    return {
        (item.name, item.column.name): summarize(item.definition, item.by_cell(sizes, counts))
        for item in requirements.enforced
        if item.column is not None
    }


def check_columns(limits: Mapping[str, float], schema: Schema) -> None:
    """Raise OptionError if a limit names a column that the schema does not have."""
    for name in limits:
        _check_column(name, schema)


def least_size(limits: Mapping[str, float], n: int) -> int:
    """Return the smallest number of people per cell that the limits on class sizes allow."""
    return least_size_of(require_of(limits, {}, np.zeros(0, dtype=np.int64), None), n)


def least_size_of(requirements: Requirements, n: int) -> int:
    """Return the smallest size of cells that the limits on sizes allow."""
    sizes = np.arange(1, n + 1)
    least = 1
    for item in requirements.enforced:
        if item.column is None:
            met = ~item.missed(item.by_cell(sizes, {}))
            least = max(least, int(np.argmax(met)) + 1)
    return least


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


def columns_of(name: str, schema: Schema) -> list[str]:
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


def check_met(requirements: Requirements, labels: Integers, encoded: Encoded | Points) -> None:
    """Raise RequirementError for limits that are still missed after all possible merging."""
    missed = list(_missed_by(requirements.enforced, labels, requirements.persons))
    if missed:
        reached = "is {} after merging as many cells as possible"
        one_stratum = bool((requirements.strata == requirements.strata[0]).all())
        raise _requirement_error(
            missed, labels, requirements.persons, encoded, reached, one_stratum=one_stratum
        )


def _requirement_error(
    missed: list[tuple[Limit, float]],
    labels: Integers,
    persons: Integers | None,
    encoded: Encoded | Points | None,
    outcome: str,
    *,
    one_stratum: bool,
) -> RequirementError:
    """Return the error: the value reached, its cost, and the cells that miss the limit."""
    problems = [
        f"{item.name} {outcome.format(f'{value:.6g}{item.where}')}, required {item.bound}."
        for item, value in missed
    ]
    in_the_way = np.zeros(len(labels), dtype=np.bool_)
    for item, _ in missed:
        in_the_way |= item.missed(item.by_cell(*count_by_cell([item], labels, persons)))[labels]
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
    limits: Collection[Limit], labels: Integers, persons: Integers | None
) -> Iterator[tuple[Limit, float]]:
    """Yield the limits that cells miss, and the value reached."""
    sizes, counts = count_by_cell(limits, labels, persons)
    for item in limits:
        reached = summarize(item.definition, item.by_cell(sizes, counts))
        if item.missed(np.array([reached]))[0]:
            yield item, reached


def failing_cells(requirements: Requirements, labels: Integers, alone: Mask) -> Mask:
    """Return the cells to merge; for limits on sums, only as many of the smallest as needed."""
    sizes, counts = count_by_cell(requirements.enforced, labels, requirements.persons)
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


def count_by_cell(
    limits: Collection[Limit], labels: Integers, persons: Integers | None
) -> tuple[Integers, dict[str, ClassCounts]]:
    """Return the number of people in each cell, and the counts of confidential values per cell."""
    columns = {column.name: column for item in limits if (column := item.column) is not None}
    sizes = people.count_people(labels, persons)
    counts = {
        name: count_values(
            labels, column.codes, ordered=column.ordered, persons=persons, totals=column.totals
        )
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
    needed = {column for name in enforced for column in columns_of(name, schema)}
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
    return definition.scope != "confidential" or bool(columns_of(name, schema))
