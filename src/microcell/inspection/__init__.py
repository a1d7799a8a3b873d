"""Facts about a table's columns, and a schema drafted from them: each guess with its reason, no value shown."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from microcell.inspection._clues import Clues
from microcell.inspection._rules import KIND_RULES, ROLE_RULES, Guess, Role, first_guess, named, remarks
from microcell.inspection._vocabulary import AXES, EXPRESSIONS
from microcell.model import Column, Kind, Schema, Table, Values

__all__ = ["ColumnFacts", "Inspection", "draft_schema", "inspect"]

Axis = Literal["latitude", "longitude"]


@dataclass(frozen=True)
class ColumnFacts:
    """What was found out about a column, and what it is taken for.

    ``reason`` says why it has its ``role`` and ``kind``. ``order`` is an ordinal column's drafted order, lowest first.
    The two columns of a location bear its name in ``location``, and which of them they are in ``axis``.
    """

    name: str
    storage: str
    missing: int
    distinct: int
    role: Role
    kind: Kind | None
    reason: str
    order: tuple[str, ...] | None = None
    location: str | None = None
    axis: Axis | None = None


@dataclass(frozen=True)
class Inspection:
    """What was found out about a table.

    ``duplicates`` counts the rows that repeat an earlier one; ``unique``, the rows that no other row equals in the
    drafted quasi-identifiers.
    """

    rows: int
    duplicates: int
    unique: int
    columns: tuple[ColumnFacts, ...]

    def as_dict(self) -> dict[str, Any]:
        """The inspection as plain data, ready for JSON."""
        return asdict(self)


def inspect(table: Table) -> Inspection:
    """The facts of each column, with a role and a kind drafted and the reason for each; in doubt, a quasi-identifier.

    Names are understood in English, Spanish, German and French. About 0.05 s a column of a million rows.

    Examples
    --------
    >>> age = Values("integer", np.arange(30) % 9 + 30, np.zeros(30, dtype=bool))
    >>> facts = inspect(Table({"age": age}, rows=30, native=None)).columns[0]
    >>> facts.role, facts.kind, facts.reason
    ('quasi', 'numeric', 'named like an age or birth; numbers with 9 distinct values')
    """
    clues = [Clues(name, values) for name, values in table.columns.items()]
    places = _find_locations(clues)
    columns = _with_one_weight([_facts(item, places.get(item.name)) for item in clues])
    keys = [table.columns[column.name] for column in columns if column.role == "quasi"]
    _, repeats = np.unique(_fingerprints(table.columns.values(), table.rows), return_counts=True)
    _, sizes = np.unique(_fingerprints(keys, table.rows), return_counts=True)
    return Inspection(table.rows, table.rows - len(repeats), int((sizes == 1).sum()), tuple(columns))


def draft_schema(inspection: Inspection) -> Schema:
    """The schema with the drafted roles and kinds: a start, to be read and corrected."""
    of: dict[str, list[str]] = {role: [] for role in ("identifier", "quasi", "confidential", "weight", "drop")}
    for facts in inspection.columns:
        of[facts.role].append(facts.name)
    quasi = dict.fromkeys(_drafted(facts, inspection.columns) for facts in inspection.columns if facts.role == "quasi")
    return Schema(of["identifier"], tuple(quasi), of["confidential"], next(iter(of["weight"]), None), drop=of["drop"])


def _drafted(facts: ColumnFacts, columns: Iterable[ColumnFacts]) -> Column:
    if facts.location is None:
        return Column(facts.name, kind=facts.kind, order=facts.order)
    axes = {item.axis: item.name for item in columns if item.location == facts.location}
    return Column(facts.location, kind="location", latitude=axes["latitude"], longitude=axes["longitude"])


def _facts(clues: Clues, place: dict[str, Any] | None) -> ColumnFacts:
    found = (clues.name, clues.values.storage, int(clues.values.missing.sum()), clues.distinct)
    if place is not None:
        return ColumnFacts(*found, "quasi", "location", "latitude and longitude by name and range", **place)
    role = first_guess(ROLE_RULES, clues) if clues.distinct else Guess("drop", "no value at all")
    if role.what not in ("quasi", "confidential"):
        return ColumnFacts(*found, role.what, None, role.why)
    kind = first_guess(KIND_RULES, clues)
    return ColumnFacts(*found, role.what, kind.what, "; ".join((role.why, kind.why, *remarks(clues))), kind.order)


def _find_locations(columns: Iterable[Clues]) -> dict[str, dict[str, Any]]:
    """The location and axis of each column that is half of a pair: names alike but for the axis, degrees in range."""
    pairs: dict[str, dict[str, str]] = {}
    for clues in columns:
        for axis, bound in (("latitude", 90), ("longitude", 180)):
            if named(clues, [axis]) and clues.within(-bound, bound):
                rest = "_".join(EXPRESSIONS[axis].sub("", clues.spelled).split())
                pairs.setdefault(rest or "location", {}).setdefault(axis, clues.name)
    taken = {clues.name for clues in columns}
    places = {}
    for name, pair in pairs.items():
        if len(pair) == len(AXES):
            free = next(free for free in (name + "_" * more for more in range(len(taken) + 1)) if free not in taken)
            places.update({column: {"location": free, "axis": axis} for axis, column in pair.items()})
    return places


def _with_one_weight(columns: list[ColumnFacts]) -> list[ColumnFacts]:
    """The columns, with every weight after the first taken for a quasi-identifier: a schema has one."""
    more = {facts.name for facts in [facts for facts in columns if facts.role == "weight"][1:]}
    reason = "a second sampling weight, and a schema takes one, so the safe side: what an outsider may know; numbers"
    taken = {"role": "quasi", "kind": "numeric", "reason": reason}
    return [replace(facts, **taken) if facts.name in more else facts for facts in columns]  # type: ignore[arg-type]


def _fingerprints(columns: Iterable[Values], rows: int) -> NDArray[np.uint64]:
    """A number for each row: the same for equal rows, else another but for a chance of rows² in 2⁶⁵."""
    mixed = np.zeros(rows, dtype=np.uint64)
    for values in (values for values in columns if values.storage != "empty"):
        # Adding zero makes minus zero zero: they are one value, with different bits.
        data = values.data + 0.0 if values.storage == "float" else values.data.astype(np.int64)
        mixed ^= np.where(values.missing, np.uint64(0x5BF0_3635_DCA5_9A1F), data.view(np.uint64))
        for factor, shift in ((0x9E37_79B9_7F4A_7C15, 32), (0xBF58_476D_1CE4_E5B9, 29)):
            mixed *= np.uint64(factor)
            mixed ^= mixed >> np.uint64(shift)
    return mixed
