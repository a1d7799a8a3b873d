"""A session on disk: every step is whole or did not happen, whenever the process ends."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from microcell import configuration, groundwork, tables
from microcell.errors import GuaranteeError, OptionError, TableError
from microcell.groundwork import Request
from microcell.model import Encoding, Integers, Release, Schema, Table
from microcell.sessions.folders import (
    POINTER,
    clear_folder,
    lock,
    make_folder,
    put,
    put_pointer,
    read_part,
    read_pointer,
    tidy,
)
from microcell.sessions.joining import Points
from microcell.sessions.releasing import make_release
from microcell.sessions.session import FINISHED
from microcell.sessions.states import Batch, State, begin, extend, place_part

__all__ = ["Status", "StoredSession"]


@dataclass(frozen=True)
class Status:
    """What a session on disk has come to; no value of a record is in it.

    ``finished`` is when the release was made, None before. ``waiting`` counts records of strata that have not yet k.
    """

    k: int
    method: str
    records: int
    kept: int
    cells: int
    waiting: int
    batches: tuple[Batch, ...]
    finished: str | None


class StoredSession:
    """The session that a folder holds: as :class:`Session`, and each step is on disk when it returns.

    The folder holds the original records, in Parquet, and is readable by its owner alone. One process at a time may
    change it. A process that is killed leaves the state before its step or the one after it, never another.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from microcell import Schema
    >>> with TemporaryDirectory() as folder:
    ...     session = StoredSession.create(f"{folder}/state", {"age": [31, 33, 60, 62]}, Schema(quasi=["age"]), 2)
    ...     _ = session.add({"age": [32, 64]}, strategy="nearest")
    ...     StoredSession(f"{folder}/state").finish().table["age"].to_list()
    [32, 32, 62, 62, 32, 62]
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        read_pointer(self.folder)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        base: Any,
        schema: Schema | str | Path,
        k: int,
        *,
        method: str = "auto",
        seed: int = 0,
        missing: str = "error",
        **options: Any,
    ) -> "StoredSession":
        """The session that :func:`start` gives, in a folder that is not there yet."""
        target, plain = Path(folder), _plain(options)
        new = make_folder(target)
        with lock(target):
            if (target / POINTER).exists():
                raise TableError(f"{str(target)!r} holds a state already. Add to it, or give another folder.")
            try:
                tidy(target, ())
                state = begin(tables.as_kept(tables.read(base)), schema, Request(k, method, seed, plain), missing)
                part = _put_records(target, state.original, state.batches[0])
                _point(target, state, _describe(state), [part])
            except BaseException:
                if not (target / POINTER).exists():
                    clear_folder(target, remove=new)
                raise
        return cls(target)

    def add(self, batch: Any, *, strategy: str = "refined", inertial: bool = False, again: bool = False) -> Batch:
        """What adding a batch came to, as :meth:`Session.add`.

        A batch with the very records of one that is in the state already is refused unless ``again``: a step that was
        cut short may have happened, and must not happen twice.
        """
        with lock(self.folder):
            pointer = self._open()
            if pointer["finished"] is not None:
                raise GuaranteeError(FINISHED)
            state = _load(self.folder, pointer)
            own = tables.as_kept(tables.read(batch))
            more, added = extend(state, own, strategy=strategy, inertial=inertial, again=again)
            parts = [*pointer["parts"], _put_records(self.folder, added, more.batches[-1])]
            _point(self.folder, more, pointer, parts)
            return more.batches[-1]

    def status(self) -> Status:
        """What there is so far; also while another process adds to it."""
        pointer = read_pointer(self.folder)
        batches = tuple(Batch(**part["batch"]) for part in pointer["parts"])
        return Status(
            k=pointer["k"],
            method=pointer["method"],
            records=sum(batch.records for batch in batches),
            kept=sum(batch.kept for batch in batches),
            cells=pointer["cells"]["count"],
            waiting=pointer["cells"]["waiting"],
            batches=batches,
            finished=None if pointer["finished"] is None else pointer["finished"]["created"],
        )

    def finish(self, *, suffix: str | None = None) -> Release:
        """The release, the same whenever it is asked for; from the first time on nothing can be added.

        With ``suffix`` a release that a file of that format could not hold is refused before that.
        """
        with lock(self.folder):
            pointer = self._open()
            made = pointer["finished"]
            state = _load(self.folder, pointer)
            release = make_release(state, None if made is None else (made["created"], made["seconds"]))
            if suffix is not None:
                tables.check_writable(release.published, suffix)
            if made is None:
                told = {"created": release.manifest.created, "seconds": release.manifest.seconds}
                put_pointer(self.folder, {**pointer, "finished": told})
            return release

    def records(self) -> Table:
        """All records so far as they were read, for an audit of the release."""
        pointer = read_pointer(self.folder)
        return tables.stack(_read_records(self.folder, pointer))

    def sources(self) -> list[Path]:
        """The files that the records were read from, which a release must not take the place of."""
        return _sources(read_pointer(self.folder))

    def _open(self) -> dict[str, Any]:
        pointer = read_pointer(self.folder)
        tidy(self.folder, _files(pointer))
        return pointer


# ---------------------------------------------------------------------------------------------- writing


def _point(folder: Path, state: State, about: Mapping[str, Any], parts: list[dict[str, Any]]) -> None:
    """Write the cells, and then the pointer to them and to the parts."""
    name = f"cells-{len(parts):04}-{token_hex(4)}.parquet"
    digest = put(folder, name, tables.to_parquet(tables.read({"cell": state.labels})))
    cells = {"file": name, "sha256": digest, "count": state.cells, "waiting": state.waiting}
    pointer = {**about, "used": state.used, "why": state.why, "parts": parts, "cells": cells}
    put_pointer(folder, {key: value for key, value in pointer.items() if key not in ("format", "version")})
    tidy(folder, _files(pointer))


def _put_records(folder: Path, part: Table, batch: Batch) -> dict[str, Any]:
    name = f"records-{token_hex(6)}.parquet"
    digest = put(folder, name, tables.to_parquet(part))
    path = part.origin.path
    source = None if path is None else str(Path(path).resolve())
    return {"file": name, "sha256": digest, "source": source, "batch": asdict(batch)}


def _describe(state: State) -> dict[str, Any]:
    """What stays the same from the base to the release."""
    request = state.request
    return {
        "holds_original_records": True,
        "schema": configuration.schema_to_toml(state.schema),
        "k": request.k,
        "method": request.method,
        "seed": request.seed,
        "options": dict(request.options),
        "missing": state.missing,
        "origin": tables.origin_to_dict(state.original.origin),
        "encoding": state.encoding.as_dict(),
        "finished": None,
    }


def _files(pointer: Mapping[str, Any]) -> set[str]:
    return {pointer["cells"]["file"], *(part["file"] for part in pointer["parts"])}


def _sources(pointer: Mapping[str, Any]) -> list[Path]:
    return [Path(part["source"]) for part in pointer["parts"] if part.get("source") is not None]


def _plain(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options, refused if a file of JSON could not give them back."""
    for name, value in options.items():
        try:
            same = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            same = False
        if not same:
            raise OptionError(f"Option {name!r} must be a number, a text or a truth value, to be kept on disk.")
    return options


# ---------------------------------------------------------------------------------------------- reading


def _load(folder: Path, pointer: Mapping[str, Any]) -> State:
    """The state as it was when the pointer was written, to the last digit."""
    parts = _read_records(folder, pointer)
    schema = configuration.schema_from_toml(pointer["schema"])
    request = Request(pointer["k"], pointer["method"], pointer["seed"], pointer["options"])
    fitted, missing = Encoding.from_dict(pointer["encoding"]), pointer["missing"]
    rows = [groundwork.released_rows(part, schema, missing) for part in parts]
    points = [place_part(part, own, fitted, schema).points for part, own in zip(parts, rows, strict=True)]
    starts = np.cumsum([0, *(part.rows for part in parts[:-1])])
    return State(
        original=tables.stack(parts),
        kept=np.concatenate([start + own for start, own in zip(starts, rows, strict=True)]),
        schema=schema,
        request=request,
        missing=missing,
        encoding=fitted,
        points=Points.stack(points),
        labels=_read_labels(folder, pointer),
        used=pointer["used"],
        why=pointer["why"],
        batches=tuple(Batch(**part["batch"]) for part in pointer["parts"]),
        source=next(iter(_sources(pointer)), None),
    )


def _read_records(folder: Path, pointer: Mapping[str, Any]) -> list[Table]:
    origin = tables.origin_from_dict(pointer["origin"])
    return [tables.from_parquet(read_part(folder, part), origin) for part in pointer["parts"]]


def _read_labels(folder: Path, pointer: Mapping[str, Any]) -> Integers:
    table = tables.from_parquet(read_part(folder, pointer["cells"]))
    return np.array(table.columns["cell"].data, dtype=np.int64)
