"""Sessions stored in a folder; every step is atomic.

``state.json`` names all other files that belong to the session, with their digests. A step writes
new files first and then replaces ``state.json`` atomically, so a process that is killed leaves the
session as it was before or after the step.
"""

import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from microcell import tables
from microcell._display import count, html_card, short_repr
from microcell._files import unreadable
from microcell.errors import OptionError, TableError
from microcell.increments.joining import Points
from microcell.increments.release import FinishedRelease, build_release, check_same_key
from microcell.increments.repeats import Register
from microcell.increments.session import finished_error
from microcell.increments.state import (
    DEFAULT_METHOD,
    Batch,
    State,
    add_part,
    place_part,
    start_state,
)
from microcell.model import Encoding, Integers, Schema, Table
from microcell.release import prepare
from microcell.release.partition import Request
from microcell.release.publish import Release, check_outputs
from microcell.schema import files

__all__ = [
    "FORMAT",
    "STATE_FILE",
    "VERSION",
    "Status",
    "StoredSession",
    "clear_folder",
    "create_folder",
    "is_locked",
    "lock",
    "lock_path",
    "read_part",
    "read_state_file",
    "remove_leftovers",
    "write_file",
    "write_state_file",
]

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = "microcell increments"
VERSION = 2

STATE_FILE = "state.json"

_LOCK_FILE = "lock"
_README_FILE = "README.txt"
_DATA_FILES = ("records-*.parquet", "people-*.parquet", "cells-*.parquet", ".*.partial")
_SESSION_FILES = (_LOCK_FILE, _README_FILE, *_DATA_FILES)
_README = """This folder contains ORIGINAL DATA about people. It is not an anonymous table.

It is a session of microcell: the records that have arrived so far, their cells, and digests of the
people in it with their key. Keep it where the original table may be kept, do not pass it on, and
delete it after you have checked the release.

    microcell increment status FOLDER            show the status
    microcell increment add FOLDER BATCH         add records
    microcell increment finish FOLDER -o OUT     release all records
"""


# ---------------------------------------------------------------------------- public interface


@dataclass(frozen=True, repr=False)
class Status:
    """Status of a stored session, without any value of a record."""

    k: int
    method: str
    records: int
    """Number of records so far."""
    kept: int
    """Number of records that will be released."""
    cells: int
    waiting: int
    """Number of records without a cell, because their stratum has fewer than k people."""
    batches: tuple[Batch, ...]
    finished: str | None
    """When the release was produced, or None."""

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(self.records, "record"),
            count(self.cells, "cell"),
            k=self.k,
            batches=len(self.batches),
            finished=self.finished,
        )

    def _repr_html_(self) -> str:
        return html_card(
            f"Every cell has at least {count(self.k, 'record')}",
            {
                "Records": f"{self.records:,}, {self.kept:,} to be released",
                "Cells": f"{self.cells:,}",
                "Waiting": count(self.waiting, "record"),
                "Batches": f"{len(self.batches):,}",
                "Method": self.method,
                "Finished": self.finished or "no",
            },
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the status as a dictionary ready for JSON, without the digests of batches."""
        batches = [
            {name: value for name, value in asdict(batch).items() if name != "digest"}
            for batch in self.batches
        ]
        return {**asdict(self), "batches": batches}


class StoredSession:
    """A session stored in a folder; like :class:`Session`, but every step is saved to disk.

    The folder contains the original records as Parquet files and is readable only by its owner.
    Only one process at a time may change it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from microcell import Schema
    >>> people, schema = {"age": [31, 33, 60, 62]}, Schema(quasi=["age"])
    >>> with TemporaryDirectory() as folder:
    ...     session = StoredSession.create(f"{folder}/votes", people, schema, 2)
    ...     _ = session.add({"age": [32, 64]}, strategy="nearest")
    ...     StoredSession(f"{folder}/votes").finish().table["age"].to_list()
    [32, 32, 62, 62, 32, 62]
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        read_state_file(self.folder)

    def __repr__(self) -> str:
        return short_repr(self, repr(str(self.folder)))

    def _repr_html_(self) -> str:
        return html_card(
            "Stored session",
            {"Folder": str(self.folder)},
            next_steps={
                "session.status()": "records, cells and batches so far",
                "session.add(table)": "add a batch of records",
                "session.finish()": "produce the release",
            },
        )

    @classmethod
    def create(
        cls,
        folder: str | Path,
        base: Any,
        schema: Schema | str | Path,
        k: int,
        *,
        id: str | None = None,
        method: str = DEFAULT_METHOD,
        seed: int = 0,
        missing: str = "error",
        require: Mapping[str, float] | None = None,
        **options: Any,
    ) -> "StoredSession":
        """Start a session as :func:`start` does, in a new folder."""
        target = Path(folder)
        _check_options(options)
        is_new = create_folder(target)
        with lock(target):
            if (target / STATE_FILE).exists():
                raise _exists_error(target)
            try:
                remove_leftovers(target, ())
                state = start_state(
                    tables.as_stored(tables.read(base)),
                    schema,
                    Request(k, method, seed, options),
                    missing,
                    require,
                    id,
                )
                digests = state.register.digests
                part = _write_part(target, state.original, state.batches[0], digests)
                _write_state(target, state, _describe_request(state), [part])
            except BaseException:
                if not (target / STATE_FILE).exists():
                    clear_folder(target, remove=is_new)
                raise
        return cls(target)

    def add(
        self,
        batch: Any,
        *,
        strategy: str = "refined",
        inertial: bool = False,
        repeated: str = "refuse",
        again: bool = False,
    ) -> Batch:
        """Add a batch, as :meth:`Session.add` does."""
        with lock(self.folder):
            content = self._open()
            if content["finished"] is not None:
                raise finished_error()
            added = add_part(
                _load_state(self.folder, content),
                tables.as_stored(tables.read(batch)),
                strategy=strategy,
                inertial=inertial,
                repeated=repeated,
                again=again,
            )
            if added.digests is not None:
                part = _write_part(self.folder, added.table, added.batch, added.digests)
                _write_state(self.folder, added.state, content, [*content["parts"], part])
            return added.batch

    def status(self) -> Status:
        """Return the status; possible while another process changes the session."""
        content = read_state_file(self.folder)
        batches = tuple(Batch(**part["batch"]) for part in content["parts"])
        finished = content["finished"]
        return Status(
            k=content["k"],
            method=content["method"],
            records=sum(batch.records for batch in batches),
            kept=sum(batch.kept for batch in batches),
            cells=content["cells"]["count"],
            waiting=content["cells"]["waiting"],
            batches=batches,
            finished=None if finished is None else finished["created"],
        )

    def finish(self, *, suffix: str | None = None, order_key: str | Path | None = None) -> Release:
        """Release all records. Repeating the call reproduces the same release.

        From the first call on, nothing can be added. With ``suffix``, a release that this file
        format cannot hold is an error and the session remains open. ``order_key`` is the key of the
        order of published rows, as for :func:`microcell.anonymize`; the session stores it.
        """
        with lock(self.folder):
            content = self._open()
            state = _load_state(self.folder, content)
            finished = content["finished"]
            before = None if finished is None else FinishedRelease(**finished)
            check_same_key(order_key, None if before is None else before.order_key)
            release = build_release(state, before, order_key=order_key)
            if suffix is not None:
                tables.check_writable(release.published, suffix)
            if finished is None:
                manifest = release.manifest
                finished = {
                    "created": manifest.created,
                    "seconds": manifest.seconds,
                    "order_key": manifest.order_key,
                }
                write_state_file(self.folder, {**content, "finished": finished})
            return release

    def publish(
        self,
        path: str | Path,
        *,
        report: str | Path | None = None,
        certificate: str | Path | None = None,
        audience: str = "internal",
        keep_order: bool = False,
        order_key: str | Path | None = None,
        overwrite: bool = True,
    ) -> Release:
        """Finish the session and write its release; see :meth:`microcell.Release.publish`.

        The outputs are checked before the session is finished. They must not be in the folder of
        the session, which contains original data.
        """
        target = Path(path)
        check_outputs(
            target,
            report=report,
            certificate=certificate,
            sources=self.sources(),
            overwrite=overwrite,
        )
        self._check_outside(target, report, certificate)
        release = self.finish(suffix=target.suffix, order_key=order_key)
        return release.publish(
            target,
            report=report,
            certificate=certificate,
            audience=audience,
            keep_order=keep_order,
            overwrite=overwrite,
        )

    def records(self) -> Table:
        """Return all records so far, unchanged, for an audit of the release."""
        return tables.stack(_read_records(self.folder, read_state_file(self.folder)))

    def sources(self) -> list[Path]:
        """Return the files that the records were read from. A release must not overwrite them."""
        return [path for path in self.sources_by_batch() if path is not None]

    def sources_by_batch(self) -> list[Path | None]:
        """Return the file of each batch; None for a data frame or several files."""
        sources = [part.get("source") for part in read_state_file(self.folder)["parts"]]
        return [None if source is None else Path(source) for source in sources]

    def _open(self) -> dict[str, Any]:
        content = read_state_file(self.folder)
        remove_leftovers(self.folder, _data_files(content))
        return content

    def _check_outside(self, *outputs: str | Path | None) -> None:
        for output in outputs:
            if output is not None and self.folder.resolve() in Path(output).resolve().parents:
                raise TableError(
                    f"{output} is in the session's folder, which contains original data. Choose "
                    "another folder.",
                    code="table.unwritable",
                    path=str(output),
                )


# -------------------------------------------------------------------------------------- folder


def create_folder(folder: Path) -> bool:
    """Create the folder, accessible only to its owner; return True if it did not exist.

    An existing folder must be empty or left over from an interrupted start.
    """
    if not folder.parent.is_dir():
        raise TableError(
            f"The folder {str(folder.parent)!r} does not exist. Create it, or choose another one.",
            code="table.not_found",
            path=str(folder.parent),
        )
    is_new = not folder.exists()
    with _write_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        names = [path.name for path in folder.iterdir()]
        if not all(_matches(name, (STATE_FILE, *_SESSION_FILES)) for name in names):
            raise TableError(
                f"The folder {str(folder)!r} is not empty. Choose a new folder.",
                code="table.exists",
                path=str(folder),
            )
        if STATE_FILE in names:
            raise _exists_error(folder)
        folder.chmod(0o700)
        write_file(folder, _README_FILE, _README.encode())
    return is_new


def clear_folder(folder: Path, *, remove: bool) -> None:
    """Delete what a failed start has written, and the folder itself if ``remove``."""
    with suppress(OSError):
        for path in folder.iterdir():
            if _matches(path.name, _SESSION_FILES):
                path.unlink()
        if remove:
            folder.rmdir()


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder, or raise :class:`TableError` if another process holds it."""
    if not folder.is_dir():
        raise _missing_error(folder)
    with lock_path(folder / _LOCK_FILE, f"session in {str(folder)!r}"):
        yield


def is_locked(folder: Path) -> bool:
    """Return whether another process is changing the session."""
    try:
        with lock(folder):
            return False
    except TableError as error:
        return error.code == "table.locked"


@contextmanager
def lock_path(path: Path, what: str) -> Iterator[None]:
    """Hold a lock, or raise :class:`TableError` if another process holds it.

    The operating system releases the lock when the process ends, even if it is killed.
    """
    with _write_errors(path.parent):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _acquire(handle, path, what)
        with _write_errors(path.parent):
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        os.close(handle)


def write_file(folder: Path, name: str, content: bytes) -> str:
    """Write a file atomically and durably, and return its SHA-256."""
    temporary = folder / f".{name}.{token_hex(4)}.partial"
    with _write_errors(folder):
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, folder / name)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    _sync_folder(folder)
    return hashlib.sha256(content).hexdigest()


def write_state_file(folder: Path, content: Mapping[str, Any]) -> None:
    """Replace the state file, which completes a step."""
    whole = {"format": FORMAT, "version": VERSION, **content}
    text = json.dumps({**whole, "sha256": _digest(whole)}, indent=1) + "\n"
    write_file(folder, STATE_FILE, text.encode())


def read_state_file(folder: Path) -> dict[str, Any]:
    """Read the state file, or raise :class:`TableError` if it is missing or unusable."""
    path = folder / STATE_FILE
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise _missing_error(folder) from None
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _damaged_error(folder)
    if content.get("version") != VERSION:
        raise TableError(
            f"The session in {str(folder)!r} has format version "
            f"{content.get('version')!s:.12}, but this microcell reads version {VERSION}. "
            "Continue with the microcell version that started it.",
            code="table.unknown_format",
            path=str(folder),
        )
    if content.pop("sha256", None) != _digest(content):
        raise _damaged_error(folder)
    return content


def read_part(folder: Path, entry: Mapping[str, Any]) -> bytes:
    """Read a file named in the state file, and verify its digest."""
    try:
        content = (folder / str(entry["file"])).read_bytes()
    except OSError:
        raise _damaged_error(folder) from None
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise _damaged_error(folder)
    return content


def remove_leftovers(folder: Path, keep: Collection[str]) -> None:
    """Delete files of interrupted steps and files that are no longer used."""
    for path in folder.iterdir():
        if path.name not in keep and _matches(path.name, _DATA_FILES):
            with suppress(OSError):
                path.unlink()


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    """Turn system errors into :class:`TableError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or "the system refused"
        raise TableError(
            f"Cannot write in {str(folder)!r}: {reason}. The session is unchanged; free disk "
            "space or correct the permissions, then try again.",
            code="table.unwritable",
            path=str(folder),
        ) from None


def _acquire(handle: int, path: Path, what: str) -> None:
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise TableError(
            f"Another process{_lock_holder(handle)} is using the {what}. Wait until it has "
            "finished.",
            code="table.locked",
            path=str(path.parent),
        ) from None


def _lock_holder(handle: int) -> str:
    with suppress(OSError, ValueError):
        return f" (PID {int(os.read(handle, 20))})"
    return ""


def _sync_folder(folder: Path) -> None:
    """Make renames durable, where the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _missing_error(folder: Path) -> TableError:
    return TableError(
        f"There is no session in {str(folder)!r}. Create one with 'microcell increment start'.",
        code="table.not_found",
        path=str(folder),
    )


def _exists_error(folder: Path) -> TableError:
    return TableError(
        f"The folder {str(folder)!r} already contains a session. Add to it, or choose another "
        "folder.",
        code="table.exists",
        path=str(folder),
    )


def _damaged_error(folder: Path) -> TableError:
    return TableError(
        f"The session in {str(folder)!r} is damaged or was altered. Start again from the original "
        "tables.",
        code="table.malformed",
        path=str(folder),
    )


# -------------------------------------------------------------------------------------- saving


def _write_state(
    folder: Path, state: State, request: Mapping[str, Any], parts: list[dict[str, Any]]
) -> None:
    """Write the cells and then the state file that names all parts."""
    name = f"cells-{len(parts):04}-{token_hex(4)}.parquet"
    digest = write_file(folder, name, tables.to_parquet(tables.read({"cell": state.labels})))
    content = {
        **{key: value for key, value in request.items() if key not in ("format", "version")},
        "used_method": state.method,
        "reason": state.reason,
        "parts": parts,
        "cells": {"file": name, "sha256": digest, "count": state.cells, "waiting": state.waiting},
    }
    write_state_file(folder, content)
    remove_leftovers(folder, _data_files(content))


def _write_part(folder: Path, part: Table, batch: Batch, digests: Integers) -> dict[str, Any]:
    """Write the records of a part and the digests of its people."""
    name = f"records-{token_hex(6)}.parquet"
    digest = write_file(folder, name, tables.to_parquet(part))
    people = f"people-{token_hex(6)}.parquet"
    content = tables.to_parquet(tables.read({"person": np.unique(digests)}))
    path = part.origin.path
    return {
        "file": name,
        "sha256": digest,
        "people": {"file": people, "sha256": write_file(folder, people, content)},
        "source": None if path is None else str(Path(path).resolve()),
        "batch": asdict(batch),
    }


def _describe_request(state: State) -> dict[str, Any]:
    """Return the settings that apply from the base to the release, as plain data."""
    request = state.request
    return {
        "holds_original_records": True,
        "schema": files.schema_to_toml(state.schema),
        "k": request.k,
        "method": request.method,
        "seed": request.seed,
        "options": dict(request.options),
        "missing": state.missing,
        "require": dict(state.limits),
        "origin": tables.origin_to_dict(state.original.origin),
        "encoding": state.encoding.as_dict(),
        "register": {
            "columns": list(state.register.columns),
            "once": state.register.once,
            "key": state.register.key.hex(),
        },
        "finished": None,
    }


def _data_files(content: Mapping[str, Any]) -> set[str]:
    parts = [entry for part in content["parts"] for entry in (part, part["people"])]
    return {entry["file"] for entry in (content["cells"], *parts)}


def _sources(content: Mapping[str, Any]) -> list[Path]:
    return [Path(part["source"]) for part in content["parts"] if part.get("source") is not None]


def _check_options(options: Mapping[str, Any]) -> None:
    """Reject options that JSON cannot store."""
    for name, value in options.items():
        try:
            is_plain = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            is_plain = False
        if not is_plain:
            raise OptionError(
                f"Option {name!r} must be a number, text or boolean, because the session stores "
                "it on disk.",
                code="option.wrong_type",
                option=name,
            )


# ------------------------------------------------------------------------------------- loading


def _load_state(folder: Path, content: Mapping[str, Any]) -> State:
    """Restore the state exactly as it was when the state file was written."""
    parts = _read_records(folder, content)
    schema = files.schema_from_toml(content["schema"])
    fitted = Encoding.from_dict(content["encoding"])
    missing = content["missing"]
    rows = [prepare.released_rows(part, schema, missing) for part in parts]
    starts = np.cumsum([0, *(part.rows for part in parts[:-1])])
    points = [
        place_part(part, kept, fitted, schema).points
        for part, kept in zip(parts, rows, strict=True)
    ]
    original = tables.stack(parts)
    kept = np.concatenate([start + kept for start, kept in zip(starts, rows, strict=True)])
    return State(
        original=original,
        kept=kept,
        schema=schema,
        request=Request(content["k"], content["method"], content["seed"], content["options"]),
        missing=missing,
        encoding=fitted,
        points=Points.stack(points).of_people(prepare.take_rows(original, kept), schema),
        labels=_read_labels(folder, content),
        method=content["used_method"],
        reason=content["reason"],
        batches=tuple(Batch(**part["batch"]) for part in content["parts"]),
        register=_read_register(folder, content),
        source=next(iter(_sources(content)), None),
        limits=content["require"],
    )


def _read_register(folder: Path, content: Mapping[str, Any]) -> Register:
    stored = content["register"]
    digests = [
        tables.from_parquet(read_part(folder, part["people"])).columns["person"].data
        for part in content["parts"]
    ]
    return Register(
        tuple(stored["columns"]),
        stored["once"],
        bytes.fromhex(stored["key"]),
        np.unique(np.concatenate(digests)).astype(np.int64),
    )


def _read_records(folder: Path, content: Mapping[str, Any]) -> list[Table]:
    origin = tables.origin_from_dict(content["origin"])
    return [tables.from_parquet(read_part(folder, part), origin) for part in content["parts"]]


def _read_labels(folder: Path, content: Mapping[str, Any]) -> Integers:
    table = tables.from_parquet(read_part(folder, content["cells"]))
    return np.array(table.columns["cell"].data, dtype=np.int64)
