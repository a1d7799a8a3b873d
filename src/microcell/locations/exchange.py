"""Many devices at once: people from a table signed up, and the locations they use written out."""

import csv
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell import progress
from microcell._atomic import Staging, check_target
from microcell.errors import DataError, SchemaError, TableError
from microcell.locations.anonymizer import Anonymizer
from microcell.locations.records import Account
from microcell.model import Floats, Mask, Table
from microcell.tables import read

__all__ = ["Exported", "Imported", "check_output", "export_places", "import_people", "read_places"]

_LIMITS = {"latitude": 90.0, "longitude": 180.0}
_NAMED = 5
"""So many rows are named in an error."""


@dataclass(frozen=True)
class Imported:
    """What became of a table: how many were signed up, and how many of them have to wait."""

    devices: int
    waiting: int
    output: Path


@dataclass(frozen=True)
class Exported:
    """What was written: how many places, and how many devices have none yet."""

    devices: int
    waiting: int
    output: Path


def import_people(
    anonymizer: Anonymizer,
    source: Any,
    output: Path,
    *,
    latitude: str = "latitude",
    longitude: str = "longitude",
    force: bool = False,
) -> Imported:
    """All rows of a table signed up in one transaction; their accounts are in ``output``, for its owner alone to read.

    The file has the columns ``row`` (from 1), ``pseudonym`` and ``token``. Tokens cannot be had again: if the file
    cannot be written, the devices are cancelled.

    Parameters
    ----------
    source
        A path or a table, as :func:`microcell.read` takes it.
    latitude, longitude
        The columns with degrees.
    force
        True to overwrite ``output``.
    """
    check_output(
        output, force=force, sources=[Path(source)] if isinstance(source, (str, Path)) else []
    )
    progress.report("reading")
    degrees = read_places(read(source), latitude, longitude)
    progress.report("signing up")
    accounts = anonymizer.sign_up_many(*degrees)
    try:
        _write(output, ("row", "pseudonym", "token"), _rows_of(accounts))
    except BaseException:
        _take_back(anonymizer, accounts)
        raise
    return Imported(len(accounts), sum(account.location is None for account in accounts), output)


def export_places(anonymizer: Anonymizer, output: Path, *, force: bool = False) -> Exported:
    """The location that each device uses, by pseudonym; devices that wait are left out and counted.

    Rows are in the order of pseudonyms, which are random: that of sign-ups would tell more.
    """
    check_output(output, force=force)
    progress.report("writing")
    places = sorted(anonymizer.placements(), key=lambda item: item[0])
    rows = [
        (name, repr(place.latitude), repr(place.longitude))
        for name, place in places
        if place is not None
    ]
    _write(output, ("pseudonym", "latitude", "longitude"), rows)
    return Exported(len(rows), len(places) - len(rows), output)


def check_output(output: Path, *, force: bool, sources: Iterable[Path] = ()) -> None:
    """Refuse, before any work, an output that cannot be written or that is there already."""
    if output.suffix.lower() != ".csv":
        raise TableError(
            f"The output is written as CSV. Give a name that ends in .csv, not {output.name!r}."
        )
    check_target(output, sources=sources)
    if output.exists() and not force:
        raise TableError(
            f"{output} is there already. Choose another output, or overwrite it by --force."
        )


def read_places(table: Table, latitude: str, longitude: str) -> tuple[Floats, Floats]:
    """Latitudes and longitudes of a table, all of them known and in range.

    Examples
    --------
    >>> read_places(read({"lat": [41.5, -33], "lon": [2, 151.25]}), "lat", "lon")
    (array([ 41.5, -33. ]), array([  2.  , 151.25]))
    """
    if latitude == longitude:
        raise SchemaError("latitude and longitude must be two columns.")
    if table.rows == 0:
        raise DataError("The table has no rows, so that there is nobody to sign up.")
    first, second = (
        _degrees(table, name, limit)
        for name, limit in zip((latitude, longitude), _LIMITS.values(), strict=True)
    )
    return first, second


def _degrees(table: Table, name: str, limit: float) -> Floats:
    if name not in table.columns:
        raise SchemaError(
            f"The table has no column {name!r}. Name the columns by --latitude and --longitude."
        )
    values = table.columns[name]
    if not values.is_number:
        raise DataError(
            f"Column {name!r} holds no numbers. Give degrees, such as 41.39, with a point or --decimal."
        )
    degrees = values.reals()
    _refuse_rows(values.missing, f"Column {name!r} has no value")
    _refuse_rows(
        ~(np.abs(degrees) <= limit),
        f"Column {name!r} is not within -{limit:g} and {limit:g} degrees",
    )
    return degrees


def _refuse_rows(wrong: Mask, what: str) -> None:
    rows = np.flatnonzero(wrong) + 1
    if len(rows):
        named = ", ".join(map(str, rows[:_NAMED].tolist()))
        more = f" and {len(rows) - _NAMED:,} more" if len(rows) > _NAMED else ""
        raise DataError(
            f"{what} in row{'s' if len(rows) > 1 else ''} {named}{more}. Nobody was signed up."
        )


def _rows_of(accounts: Sequence[Account]) -> list[tuple[str, str, str]]:
    return [
        (str(row), account.pseudonym, account.token)
        for row, account in enumerate(accounts, start=1)
    ]


def _write(output: Path, heading: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A CSV file that its owner alone may read, from its first byte on."""
    with Staging() as staging:
        handle = os.open(staging.path(output), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(heading)
            writer.writerows(rows)


def _take_back(anonymizer: Anonymizer, accounts: Sequence[Account]) -> None:
    for done, account in enumerate(accounts):
        progress.report("cancelling the sign-ups", done, len(accounts))
        anonymizer.cancel(account.pseudonym, account.token)
