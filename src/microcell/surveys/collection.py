"""Answers to a release: what each cell in fact got, and a table in which each record is one of k."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from microcell import __version__, auditing, progress, tables
from microcell._atomic import Staging, check_target
from microcell.cells import Cells
from microcell.errors import (
    DataError,
    GuaranteeError,
    OptionError,
    SchemaError,
    TableError,
    TooFewRecordsError,
)
from microcell.kernels.arrays import squared_distances
from microcell.model import Audit, Floats, Integers, Mask, Schema, Table, Values
from microcell.release import manifest as manifests
from microcell.report import render
from microcell.schema import resolve
from microcell.surveys.cells import SurveyCells, read_cells

__all__ = [
    "BELOW",
    "CELL",
    "DESIGN",
    "Collection",
    "check_answers",
    "collect_survey",
    "find_cells",
    "merge_cells",
    "render_collection",
    "write_collection",
]

CELL, DESIGN = "cell", "design"
"""The columns with the number of the cell, and with the digest of its design."""

_SHOWN = 10


def check_answers(
    found: SurveyCells, table: Table, *, id: str | None, drop: Sequence[str]
) -> list[str]:
    """The columns that are not for the release, if no respondent answered twice and all answers are of this design."""
    if isinstance(drop, str) or not isinstance(drop, Sequence):
        raise OptionError("drop must be a list of column names.")
    unknown = [name for name in (*drop, *([] if id is None else [id])) if name not in table.columns]
    if unknown:
        raise SchemaError(
            f"The answers have no columns {', '.join(map(repr, unknown))}. Check their names."
        )
    kept = [name for name in drop if name in found.representatives]
    if kept:
        raise OptionError(
            f"Every cell publishes {', '.join(map(repr, kept))}, so that drop cannot leave it out."
        )
    if id is not None:
        _check_once(id, table.columns[id])
    if DESIGN in table.columns:
        _check_design(found, table.columns[DESIGN])
    own = {
        *(name for name in (CELL, DESIGN) if name in table.columns),
        *([] if id is None else [id]),
        *drop,
    }
    return sorted(own - set(found.representatives))


def find_cells(found: SurveyCells, table: Table) -> Integers:
    """The cell of each answer: by its number or, where there is none, by the representative."""
    if CELL in table.columns:
        return _by_number(table.columns[CELL], len(found.cells))
    lacking = [name for name in found.representatives if name not in table.columns]
    if lacking:
        raise SchemaError(
            f"The answers have neither a column {CELL!r} nor the columns {', '.join(map(repr, lacking))} of the "
            "representatives. Give one or the other."
        )
    return _by_representative(found, table)


def _check_once(name: str, values: Values) -> None:
    _refuse(values.missing, f"Column {name!r} tells respondents apart, but is missing in")
    codes, _ = values.factorize()
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    again = np.isin(codes, codes[first[counts > 1]])
    again[first] = False
    _refuse(again, f"Respondents by column {name!r} answered before in")


def _check_design(found: SurveyCells, values: Values) -> None:
    if values.storage != "text":
        raise DataError(
            f"Column {DESIGN!r} must hold the digest of the design, as text. Rename it if it is another."
        )
    codes, names = values.factorize()
    right = np.array([*(name == found.cells.digest for name in names), False])
    _refuse(~right[codes], f"By column {DESIGN!r}, these cells are not of this design in")


def _by_number(values: Values, count: int) -> Integers:
    if not values.is_number:
        raise DataError(
            f"Column {CELL!r} must hold the numbers of cells, 0 to {count - 1}, not {values.storage} values."
        )
    numbers = values.reals()
    with np.errstate(invalid="ignore"):
        known = (numbers >= 0) & (numbers < count) & (numbers == np.floor(numbers))
    _refuse(~known, f"There is no such cell among 0 to {count - 1} in")
    return numbers.astype(np.int64)


def _by_representative(found: SurveyCells, table: Table) -> Integers:
    """The first cell that publishes what the answer says."""
    names = list(found.representatives)
    readers = {name: _reader_of(found.representatives[name]) for name in names}
    cells: dict[tuple[Any, ...], int] = {}
    for cell in reversed(range(len(found.cells))):
        cells[
            tuple(_as_key(found.representatives[name][cell], readers[name]) for name in names)
        ] = cell
    given = tables.values_of_cells(table, np.arange(table.rows), names) if table.rows else {}
    rows = zip(*(given[name] for name in names), strict=True) if given else ()
    keyed = (tuple(_as_key(v, readers[n]) for v, n in zip(row, names, strict=True)) for row in rows)
    out = np.array([cells.get(key, -1) for key in keyed], dtype=np.int64)
    _refuse(out < 0, "No cell of this design publishes what is in")
    return out


def _reader_of(values: Sequence[Any]) -> Callable[[Any], Any]:
    """What makes the values of a column the same however a file wrote them: 3 and 3.0, true and True, a day."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return lambda value: str(value).lower()
    return float if kinds <= {int, float} else _read_text


def _read_text(value: Any) -> str:
    """The text, a date for a date at midnight: which of them it is depends on what else is in the column."""
    return str(value).removesuffix("T00:00:00")


def _as_key(value: Any, read: Callable[[Any], Any]) -> Any:
    if value is None or (isinstance(value, str) and not value):
        return None
    try:
        return read(value)
    except (TypeError, ValueError):
        return str(value)


def _refuse(wrong: Mask, what: str) -> None:
    """Refuse answers, naming their rows."""
    rows = np.flatnonzero(wrong) + 1
    if len(rows):
        more = "" if len(rows) <= _SHOWN else f" and {len(rows) - _SHOWN} more"
        listed = ", ".join(map(str, rows[:_SHOWN].tolist()))
        raise DataError(
            f"{what} {'row' if len(rows) == 1 else 'rows'} {listed}{more}. Nothing was released."
        )


def merge_cells(centroids: Floats, attained: Integers, k: int) -> Integers:
    """For each cell the one whose representative it publishes; -1 for one without answers.

    The group of fewest answers, ties to the lowest, joins the one with the nearest mean, until all have k or more. The
    mean of a group is that of its cells' centroids, weighed by answers. A group publishes the representative of
    its cell that is nearest to its mean. There must be k answers in all. Time O(G^2 m) for G cells with answers.

    Examples
    --------
    >>> merge_cells(np.array([[0.0], [1.0], [5.0], [9.0]]), np.array([1, 4, 0, 3]), 3)
    array([ 1,  1, -1,  3])
    """
    used = np.flatnonzero(attained)
    group = np.arange(len(used))
    means, counts = centroids[used].copy(), attained[used].astype(np.float64)
    while len(np.flatnonzero(counts)) > 1:
        alive = np.flatnonzero(counts)
        fewest = int(alive[np.argmin(counts[alive])])
        if counts[fewest] >= k:
            break
        others = alive[alive != fewest]
        into = int(others[squared_distances(means[others], means[fewest]).argmin()])
        both = counts[fewest] + counts[into]
        means[into] = (means[fewest] * counts[fewest] + means[into] * counts[into]) / both
        counts[into], counts[fewest] = both, 0.0
        group[group == fewest] = into
    out = np.full(len(attained), -1)
    for number in np.unique(group):
        own = used[group == number]
        out[own] = own[squared_distances(centroids[own], means[number]).argmin()]
    return out


BELOW = ("suppress", "merge")
"""What may become of cells with 1 to k-1 answers."""

_OF_TWO_TABLES = (
    "records_unaccounted",
    "records_dropped",
    "columns_missing",
    "columns_unexpected",
    "values_changed",
)
"""Measures that compare a release with its original, which a survey does not have."""


@dataclass(frozen=True, eq=False)
class Collection:
    """The release of a survey: a k-anonymous table, proved on itself, and the account of it.

    ``table`` is in the frame type that came in, ``released`` the same as a :class:`Table`; rows are in an order that
    tells nothing of that of the answers. ``attained`` is how many answers each cell got: it is not for publication,
    for it counts those that were left out too.
    """

    table: Any
    manifest: Mapping[str, Any]
    audit: Audit
    released: Table
    schema: Schema
    attained: Integers
    source: Path | None = None


def collect_survey(
    cells: Cells | str | Path,
    answers: Any,
    *,
    below: str = "suppress",
    id: str | None = None,
    drop: Sequence[str] = (),
) -> Collection:
    """The release of a survey's answers: every record shares its quasi-identifiers with k - 1 others or more.

    Parameters
    ----------
    cells
        Cells of a survey, or the path of their file.
    answers
        A table, as :func:`anonymize` takes it: a column ``cell`` with the number of the respondent's cell, or the
        columns of the representatives; and what was asked for, which is published as it is. Where there is a column
        ``design``, it must hold the digest of these cells in every row.
    below
        What to do with cells that got 1 to k-1 answers: "suppress" leaves these answers out, "merge" joins such a cell
        with the nearest that has answers until there are k, and publishes one of their representatives for all.
    id
        A column that is different for each respondent, to find duplicates by; it is left out of the release.
    drop
        Further columns to leave out.

    Raises
    ------
    TooFewRecordsError
        Fewer than k answers in all, or in every cell.
    DataError
        Duplicates, unknown cells and cells of another design, by row.

    Examples
    --------
    >>> from microcell import Schema
    >>> from microcell.surveys import design_survey
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> design = design_survey(people, Schema(quasi=["age"]), 5, participation=0.5, failure=1e-3, method="mdav")
    >>> took_part = np.flatnonzero(np.random.default_rng(0).random(600) < 0.5)
    >>> answers = {"cell": design.labels[took_part], "income": took_part}
    >>> release = collect_survey(design.cells, answers)
    >>> release.audit["k"] >= 5
    True
    """
    found = read_cells(cells)
    if below not in BELOW:
        raise OptionError(f"below must be one of {', '.join(BELOW)}.")
    k = int(found.survey["k"])
    progress.report("reading")
    table = tables.read(answers)
    dropped = check_answers(found, table, id=id, drop=drop)
    labels = find_cells(found, table)
    _check_enough(table.rows, k)
    attained = np.bincount(labels, minlength=len(found.cells))
    groups = np.where(attained >= k, np.arange(len(attained)), -1)
    if below == "merge":
        groups = merge_cells(found.cells.centroids, attained, k)
    rows = np.flatnonzero(groups[labels] >= 0)
    if len(rows) == 0:
        raise TooFewRecordsError(
            f"No cell got k = {k} answers, so that nothing would be left. Merge cells, or wait for more answers."
        )
    rows = rows[_order(table, found.cells.digest, len(rows))]
    released = _release(found, tables.take(table, rows), groups[labels[rows]], dropped)
    schema = _schema_of(found, released)
    _prove(released, schema, k, len(rows))
    manifest = _describe(found, table, released, attained, groups, below)
    audit = _audit(released, schema)
    return Collection(
        released.native, manifest, audit, released, schema, attained, table.origin.path
    )


def write_collection(
    collected: Collection, output: str | Path, *, beside: Mapping[Path, str] | None = None
) -> Collection:
    """Write the release and its manifest, and what is to go ``beside`` them: all of it, whole, or none.

    The file is read back and k counted once more before it takes its name.
    """
    target = Path(output)
    _check_targets(target, beside or {}, collected.source)
    tables.check_writable(collected.released, target.suffix)
    with Staging() as staging:
        for path, text in (beside or {}).items():
            staging.path(path).write_text(text, encoding="utf-8")
        account, temporary = staging.path(manifests.manifest_path(target)), staging.path(target)
        tables.write(collected.released, temporary)
        written = tables.read_back(collected.released, temporary)
        _prove(written, collected.schema, int(collected.manifest["k"]), collected.released.rows)
        manifest = {**collected.manifest, "output": manifests.describe_table(written)}
        account.write_text(
            json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return replace(collected, manifest=manifest)


def render_collection(collected: Collection, form: str = "html") -> str:
    """The report of a collected survey: its audit, as far as no original is needed; anyone may read it."""
    title = "The release of a survey"
    return render(
        collected.audit,
        form,
        title=title,
        audience="public",
        require={"k": collected.manifest["k"]},
    )


# ---------------------------------------------------------------------------------------------- steps of a collection


def _check_targets(target: Path, beside: Iterable[str | Path], source: Path | None) -> None:
    """Refuse, before anything is written, to write over the answers, or two files to one place."""
    outputs = [target, manifests.manifest_path(target), *map(Path, beside)]
    places = [path.resolve() for path in outputs]
    for path, place in zip(outputs, places, strict=True):
        check_target(path, sources=[] if source is None else [source])
        if places.count(place) > 1:
            raise TableError(
                f"{path} would be written twice: table, manifest and report must be different files."
            )


def _check_enough(answers: int, k: int) -> None:
    if answers < k:
        raise TooFewRecordsError(
            f"There are {answers} answers in all, fewer than k = {k}: no release can hide anyone. Wait for more."
        )


def _order(table: Table, design: str, count: int) -> Integers:
    """An order of the rows that only someone with the answers can work out."""
    return np.random.default_rng(int(tables.digest(table, key=design.encode()), 16)).permutation(
        count
    )


def _release(found: SurveyCells, table: Table, groups: Integers, dropped: Sequence[str]) -> Table:
    """The answers with the representatives of their cells, or of the cells that stand for those merged."""
    given = (
        table if CELL in table.columns else tables.add_columns(table, {CELL: groups})
    )  # a column that stays
    others = tables.publish(
        given, groups, {}, [name for name in found.representatives if name in given.columns]
    )
    told = {name: _spread(values)[groups] for name, values in found.representatives.items()}
    return tables.publish(
        tables.add_columns(others, told), groups, {}, [*dropped, *({CELL} - set(dropped))]
    )


def _spread(values: Sequence[Any]) -> Any:
    """The representatives of a column as an array of numbers or, where they are none, of text."""
    present = [value for value in values if value is not None]
    if (
        present
        and all(isinstance(value, bool) for value in present)
        and len(present) == len(values)
    ):
        return np.array(values)
    if present and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in present
    ):
        return np.array([np.nan if value is None else value for value in values])
    return np.array(["" if value is None else str(value) for value in values])


def _schema_of(found: SurveyCells, released: Table) -> Schema:
    quasi = list(found.representatives)
    others = [name for name in released.names if name not in quasi]
    return resolve.resolve(Schema(quasi=quasi, confidential=others), released)


def _prove(released: Table, schema: Schema, k: int, rows: int) -> None:
    """Count k on the table about to be published, as an outsider would."""
    smallest = int(auditing.class_sizes(released, schema.keys).min(initial=rows))
    if smallest < k or released.rows != rows:
        raise GuaranteeError(
            f"The finished table has a class of {smallest} records and {released.rows} records in all, instead of "
            f"k = {k} and {rows}. Nothing was released; please report this as a defect."
        )


def _audit(released: Table, schema: Schema) -> Audit:
    """What an outsider finds in the release alone."""
    found = auditing.audit(released, released, schema, brief=True)
    return replace(
        found,
        measures={
            name: item for name, item in found.measures.items() if name not in _OF_TWO_TABLES
        },
    )


def _describe(
    found: SurveyCells,
    table: Table,
    released: Table,
    attained: Integers,
    groups: Integers,
    below: str,
) -> dict[str, Any]:
    """The manifest: how many answers there were and what became of them; not which cells were short."""
    k = int(found.survey["k"])
    short = (attained > 0) & (attained < k)
    merged = np.flatnonzero((groups >= 0) & (attained > 0))
    sizes = np.bincount(groups[merged], weights=attained[merged])
    sizes = sizes[sizes > 0]
    return {
        "manifest_version": 1,
        "microcell": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "k": k,
        "design_sha256": found.cells.digest,
        "below": below,
        "answers": {
            "in": table.rows,
            "out": released.rows,
            "suppressed": table.rows - released.rows,
        },
        "cells": {
            "designed": len(attained),
            "empty": int((attained == 0).sum()),
            "short": int(short.sum()),
            "published": len(sizes),
        },
        "attained": {
            "least": int(sizes.min()),
            "median": float(np.median(sizes)),
            "largest": int(sizes.max()),
        },
        "expected_failures": float(np.sum(found.survey["cell_failures"])),
        "columns": list(released.names),
        "input": manifests.describe_table(table),
    }
