"""The ledger of a survey: what was released with a design, so that nothing is released twice.

Two releases of nearly the same answers differ in the answers of those who came in between. A ledger
beside the cells file therefore binds the design to its first release: the same answers reproduce
it, others are refused, and late answers can only form a further block in cells of their own.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from microcell import tables
from microcell._atomic import AtomicFiles, holding
from microcell._display import count, record_repr, short_repr
from microcell._files import unreadable
from microcell.errors import GuaranteeError, OptionError, TableError
from microcell.measures.people import digest_values
from microcell.model import Integers, Mask, Table
from microcell.release import order

__all__ = ["Entry", "Ledger", "Turn", "describe_answers", "open_turn", "refuse_releases"]

_FORMAT = "microcell survey ledger"
_VERSION = 1
_SUFFIX = ".ledger.json"


@dataclass(frozen=True)
class Entry:
    """One release of a design. Contains no answer."""

    answers: str
    """Keyed digest of the answers and of how they were collected."""
    created: str
    order_key: str
    cells: tuple[int, ...]
    """Cells whose answers this release publishes."""
    known: tuple[int, ...]
    """Keyed digests of the published respondents, or of the rows without such a column."""
    respondent: str | None = None
    """Column that identifies respondents."""

    def __repr__(self) -> str:
        return short_repr(self, count(len(self.cells), "cell"), created=self.created)

    def check_key(self, order_key: str | None) -> None:
        """Raise OptionError if the order key differs from that of the release."""
        if order_key is not None and order_key != self.order_key:
            raise OptionError(
                "These answers were released with another order_key. Leave it out to get the same "
                "release again.",
                code="option.conflict",
                option="order_key",
            )


@dataclass(frozen=True)
class Ledger:
    """Releases of a design, in a file that only its owner can read."""

    path: Path
    design: str
    """Digest of the cells."""
    key: str = field(default_factory=lambda: token_hex(16))
    releases: tuple[Entry, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self, count(len(self.releases), "release"))

    @classmethod
    def beside(cls, cells: str | Path, design: str) -> "Ledger":
        """Return the ledger next to a cells file, empty if there is none.

        A copy of the cells file in the same folder shares the ledger.

        Raises
        ------
        TableError
            The ledger cannot be read, or belongs to another design.
        """
        path = Path(cells).with_name(f"{Path(cells).stem}{_SUFFIX}")
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            other = _find_other(path.parent, design)
            return cls(path, design) if other is None else cls.beside(other, design)
        except OSError as error:
            raise unreadable(path, error) from None
        except (ValueError, RecursionError):
            content = None
        return cls(path, design, *_parse(path, content, design))

    def digest(self, table: Table, settings: Mapping[str, Any]) -> str:
        """Return the keyed digest of answers and of how they are collected."""
        key = bytes.fromhex(self.key)
        text = json.dumps(settings, sort_keys=True)
        return hashlib.blake2b(
            f"{tables.digest(table, key=key)} {text}".encode(), key=key, digest_size=32
        ).hexdigest()

    def find(self, answers: str) -> Entry | None:
        """Return the release of these answers, if there is one."""
        return next((entry for entry in self.releases if entry.answers == answers), None)

    def respondents(self, table: Table, names: Sequence[str]) -> Integers:
        """Return a keyed digest of each row's respondent, or of the row."""
        return digest_values(table, names or table.names, bytes.fromhex(self.key))

    def knows(self, digests: Integers) -> Mask:
        """Return which of these respondents are in an earlier release."""
        return np.isin(digests, [digest for entry in self.releases for digest in entry.known])

    def used(self) -> Integers:
        """Return the cells with answers in an earlier release."""
        cells = {cell for entry in self.releases for cell in entry.cells}
        return np.array(sorted(cells), dtype=np.int64)

    def refuse_second(self) -> None:
        """Raise GuaranteeError if the design was released before."""
        if self.releases:
            raise GuaranteeError(
                f"Another release of this design exists ({self.path.name}). Comparing both would "
                "reveal the answers in which they differ. Collect the same answers to reproduce "
                "it, or release late answers as a further block (late=True, --late).",
                code="guarantee.design_released",
                releases=len(self.releases),
            )

    def record(self, entry: Entry) -> None:
        """Write the ledger with this release added, unless it has it already.

        Another release recorded in the meantime is noticed.
        """
        with holding(self._cells):
            current = Ledger.beside(self._cells, self.design)
            if current.find(entry.answers) is not None:
                return
            if len(current.releases) != len(self.releases):
                current.refuse_second()
            self._write(replace(self, releases=(*self.releases, entry)))

    def withdraw(self, entry: Entry) -> None:
        """Remove a release that could not be written."""
        if self.find(entry.answers) is not None:
            return  # It was released before.
        with holding(self._cells):
            current = Ledger.beside(self._cells, self.design)
            left = tuple(each for each in current.releases if each.answers != entry.answers)
            if left:
                self._write(replace(current, releases=left))
            else:
                self.path.unlink(missing_ok=True)

    @property
    def _cells(self) -> Path:
        return self.path.with_name(f"{self.path.name.removesuffix(_SUFFIX)}.json")

    def _write(self, ledger: "Ledger") -> None:
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "design": ledger.design,
            "key": ledger.key,
            "releases": [asdict(entry) for entry in ledger.releases],
        }
        with AtomicFiles() as atomic:
            atomic.path(self.path, private=True).write_text(json.dumps(content), encoding="utf-8")


def _find_other(folder: Path, design: str) -> Path | None:
    """Return the cells file beside another ledger of the design in this folder."""
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        if _read_entry(path, "design") == design:
            return path.with_name(f"{path.name.removesuffix(_SUFFIX)}.json")
    return None


def _read_entry(path: Path, *names: str) -> Any:
    """Return an entry of a JSON file, None if there is none."""
    try:
        content = json.loads(path.read_bytes())
        for name in names:
            content = content[name]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return content


def refuse_releases(release: Path, design: str, listed: Mapping[str, str | None]) -> None:
    """Raise GuaranteeError if the folder has a release of the design that is not ``listed``.

    Releases are listed by order key, with the time of their creation. So a copy of the cells file
    elsewhere, or cells that were not read from a file, do not lead to a second release in the same
    folder.
    """
    for path in sorted(release.parent.glob("*.manifest.json")):
        if _read_entry(path, "survey", "design_sha256") != design:
            continue
        key, created = _read_entry(path, "order_key"), _read_entry(path, "created")
        if key not in listed or listed[key] != created:
            raise GuaranteeError(
                f"{path.name} belongs to another release of this design. Comparing both would "
                "reveal the answers in which they differ. Collect with the cells file whose "
                "ledger lists that release, or delete the release if it was never published.",
                code="guarantee.design_released",
                releases=1,
            )


@dataclass(frozen=True, eq=False)
class Turn:
    """One collection: the first of a design, its repetition, or a block of late answers."""

    order_key: str
    ledger: Ledger | None = None
    late: bool = False
    created: str | None = None
    """When these answers were released before."""
    answers: str = ""
    respondent: str | None = None
    digests: Integers | None = None
    """Digest of each row's respondent."""
    earlier: Ledger | None = None
    """Releases before this one."""

    __repr__ = record_repr

    def admitted(self, labels: Integers) -> Integers:
        """Return the rows of this block: all, or those that are late and in unused cells."""
        if not self.late or self.earlier is None or self.digests is None:
            return np.arange(len(labels))
        waiting = self.earlier.knows(self.digests) | np.isin(labels, self.earlier.used())
        return np.flatnonzero(~waiting)

    def take(self, rows: Integers) -> "Turn":
        """Return the turn with only these rows of the table."""
        return self if self.digests is None else replace(self, digests=self.digests[rows])

    def entry(self, created: str, cells: Integers, rows: Integers) -> Entry | None:
        """Return the entry for the ledger if these rows are published, None without a ledger."""
        if self.ledger is None or self.digests is None:
            return None
        return Entry(
            self.answers,
            created,
            self.order_key,
            tuple(cells.tolist()),
            tuple(np.unique(self.digests[rows]).tolist()),
            self.respondent,
        )


def open_turn(
    cells: str | Path | None,
    design: str,
    table: Table,
    settings: Mapping[str, Any],
    order_key: str | Path | None,
) -> Turn:
    """Return how these answers are to be released, or raise if they must not be.

    Without the path of a cells file there is no ledger.
    """
    late = bool(settings["late"])
    if cells is None:
        if late:
            raise _late_error(
                "Late answers need the ledger next to the cells file. Pass the path of that file."
            )
        return Turn(order.read_order_key(order_key))
    ledger = Ledger.beside(cells, design)
    answers = ledger.digest(table, settings)
    respondent = settings["id"] or settings["person"]
    found = ledger.find(answers)
    releases = ledger.releases
    earlier = replace(ledger, releases=releases[: releases.index(found)] if found else releases)
    if late and not earlier.releases:
        raise _late_error("This design has not been released yet. Collect without late first.")
    if late and any(entry.respondent != respondent for entry in earlier.releases):
        raise _late_error("Earlier answers were collected with another id or person. Use the same.")
    if found is None and not late:
        ledger.refuse_second()
    key = order.read_order_key(order_key or (found.order_key if found else None))
    if found is not None:
        found.check_key(key)
    return Turn(
        order_key=key,
        ledger=ledger,
        late=late,
        created=found.created if found else None,
        answers=answers,
        respondent=respondent,
        digests=ledger.respondents(table, [respondent] if respondent else []),
        earlier=earlier,
    )


def _late_error(message: str) -> OptionError:
    return OptionError(message, code="option.conflict", option="late")


def describe_answers(
    below: str, id: str | None, person: str | None, drop: Sequence[str], *, late: bool
) -> dict[str, Any]:
    """Return how answers are collected, as far as it determines the release."""
    return {"below": below, "id": id, "person": person, "drop": sorted(drop), "late": late}


def _parse(path: Path, content: Any, design: str) -> tuple[str, tuple[Entry, ...]]:
    try:
        if content["format"] != _FORMAT or content["version"] != _VERSION:
            raise ValueError
        bytes.fromhex(content["key"])
        entries = tuple(
            Entry(**{**entry, "cells": tuple(entry["cells"]), "known": tuple(entry["known"])})
            for entry in content["releases"]
        )
    except (KeyError, TypeError, ValueError):
        raise TableError(
            f"{path} is not a readable ledger of a survey. It protects respondents from a second "
            "release, so nothing was collected. Restore it.",
            code="table.malformed",
            path=str(path),
        ) from None
    if content["design"] != design:
        raise TableError(
            f"{path} is the ledger of another design. Give the cells "
            "file of each survey a different name.",
            code="table.mismatch",
            path=str(path),
        )
    return content["key"], entries
