"""Bulk import of devices from a table, and bulk export of the locations they use."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell import progress
from microcell._atomic import AtomicFiles, check_target
from microcell._display import listing, record_html, record_repr
from microcell.errors import DataError, SchemaError, TableError
from microcell.locations.anonymizer import Anonymizer
from microcell.locations.records import Account
from microcell.model import Floats, Mask, Table
from microcell.tables import read

__all__ = [
    "ExportSummary",
    "ImportSummary",
    "check_output",
    "export_places",
    "import_people",
    "read_places",
]

_MAX_LATITUDE, _MAX_LONGITUDE = 90.0, 180.0
_MAX_ROWS_NAMED = 5


@dataclass(frozen=True)
class ImportSummary:
    """Result of an import: devices signed up, how many of them wait, and the accounts file."""

    devices: int
    waiting: int
    output: Path

    __repr__ = record_repr
    _repr_html_ = record_html


@dataclass(frozen=True)
class ExportSummary:
    """Result of an export: locations written, devices without one yet, and the output file."""

    devices: int
    waiting: int
    output: Path

    __repr__ = record_repr
    _repr_html_ = record_html


def import_people(
    anonymizer: Anonymizer,
    source: Any,
    output: Path,
    *,
    latitude: str = "latitude",
    longitude: str = "longitude",
    force: bool = False,
) -> ImportSummary:
    """Sign up all rows of a table in one transaction and write their accounts to ``output``.

    A publication follows if enough devices changed. Otherwise the new devices use the place of the
    nearest cell, or wait.

    The output has the columns ``row`` (from 1), ``pseudonym`` and ``token``, and only its owner can
    read it. Tokens cannot be recovered: if the file cannot be written, the devices are cancelled.

    Parameters
    ----------
    source
        A path or a table, as accepted by :func:`microcell.read`.
    latitude, longitude
        Names of the columns that hold degrees.
    force
        Overwrite ``output`` if it exists.
    """
    check_output(
        output, force=force, sources=[Path(source)] if isinstance(source, (str, Path)) else []
    )
    progress.report("reading")
    degrees = read_places(read(source), latitude, longitude)
    progress.report("signing up")
    accounts = anonymizer.sign_up_many(*degrees)
    rows = [
        (str(row), account.pseudonym, account.token)
        for row, account in enumerate(accounts, start=1)
    ]
    try:
        _write(output, ("row", "pseudonym", "token"), rows)
    except BaseException:
        _cancel_all(anonymizer, accounts)
        raise
    progress.report("publishing")
    anonymizer.publish()
    answers = (anonymizer.look_up(account.pseudonym, account.token) for account in accounts)
    waiting = sum(answer.location is None for answer in answers)
    return ImportSummary(len(accounts), waiting, output)


def export_places(anonymizer: Anonymizer, output: Path, *, force: bool = False) -> ExportSummary:
    """Write the location that each device uses, by pseudonym; waiting devices are only counted.

    Rows are sorted by pseudonym, which is random; the order of sign-ups would reveal more.
    """
    check_output(output, force=force)
    progress.report("writing")
    places = sorted(anonymizer.placements(), key=lambda item: item[0])
    rows = [
        (pseudonym, repr(place.latitude), repr(place.longitude))
        for pseudonym, place in places
        if place is not None
    ]
    _write(output, ("pseudonym", "latitude", "longitude"), rows)
    return ExportSummary(len(rows), len(places) - len(rows), output)


def check_output(output: Path, *, force: bool, sources: Iterable[Path] = ()) -> None:
    """Raise TableError if the output cannot be written or exists already."""
    if output.suffix.lower() != ".csv":
        raise TableError(
            f"The output is a CSV file, so its name must end in .csv, not {output.suffix!r}.",
            code="table.unknown_format",
            path=str(output),
        )
    check_target(output, sources=sources)
    if output.exists() and not force:
        raise TableError(
            f"{output} already exists. Choose another output or overwrite it with --force.",
            code="table.exists",
            path=str(output),
        )


def read_places(table: Table, latitude: str, longitude: str) -> tuple[Floats, Floats]:
    """Return the latitudes and longitudes of a table, complete and within range.

    Examples
    --------
    >>> read_places(read({"lat": [41.5, -33], "lon": [2, 151.25]}), "lat", "lon")
    (array([ 41.5, -33. ]), array([  2.  , 151.25]))
    """
    if latitude == longitude:
        raise SchemaError(
            "Latitude and longitude must be two different columns.",
            code="schema.duplicate_role",
            column=latitude,
        )
    if table.rows == 0:
        raise DataError(
            "The table has no rows, so there is no device to sign up. Pass at least one row.",
            code="data.empty",
            rows=0,
        )
    return (
        _read_degrees(table, latitude, _MAX_LATITUDE),
        _read_degrees(table, longitude, _MAX_LONGITUDE),
    )


def _read_degrees(table: Table, column: str, limit: float) -> Floats:
    if column not in table.columns:
        raise SchemaError(
            f"The table has no column {column!r}. Name the columns with --latitude and "
            "--longitude.",
            code="schema.unknown_column",
            column=column,
        )
    values = table.columns[column]
    if not values.is_number:
        raise DataError(
            f"Column {column!r} does not contain numbers. It must contain degrees such as 41.39; "
            "set the decimal separator with --decimal.",
            code="data.not_a_number",
            column=column,
        )
    degrees = values.reals()
    _check_rows(values.missing, column, "has missing values", "data.missing_values")
    _check_rows(
        ~(np.abs(degrees) <= limit),
        column,
        f"has values outside -{limit:g} to {limit:g} degrees",
        "data.out_of_range",
    )
    return degrees


def _check_rows(wrong: Mask, column: str, problem: str, code: str) -> None:
    rows = (np.flatnonzero(wrong) + 1).tolist()
    if rows:
        shown = listing(map(str, rows), most=_MAX_ROWS_NAMED)
        raise DataError(
            f"Column {column!r} {problem} in row{'s' if len(rows) > 1 else ''} {shown}. "
            "Correct or remove them; no device was signed up.",
            code=code,
            column=column,
            row=rows[0],
            count=len(rows),
        )


def _write(output: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a CSV file that only its owner can read at any time."""
    with AtomicFiles() as atomic:
        path = atomic.path(output, private=True)
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)


def _cancel_all(anonymizer: Anonymizer, accounts: Sequence[Account]) -> None:
    for done, account in enumerate(accounts):
        progress.report("cancelling the sign-ups", done, len(accounts))
        anonymizer.cancel(account.pseudonym, account.token)
