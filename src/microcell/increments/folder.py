"""A session on disk: every step is whole or did not happen, whenever the process ends."""

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
from microcell.errors import GuaranteeError, OptionError, TableError
from microcell.increments.session import (
    FINISHED,
    Batch,
    Points,
    State,
    begin,
    extend,
    make_release,
    place_part,
)
from microcell.model import Encoding, Integers, Schema, Table
from microcell.release import prepare
from microcell.release.partition import Request
from microcell.release.publish import Release, check_outputs
from microcell.schema import files

__all__ = [
    "FORMAT",
    "POINTER",
    "VERSION",
    "Status",
    "StoredSession",
    "clear_folder",
    "lock",
    "make_folder",
    "put",
    "put_pointer",
    "read_part",
    "read_pointer",
    "tidy",
]

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = "microcell increments"
VERSION = 1

POINTER = "state.json"
"""The file that names all others that count; renaming it into place is what makes a step happen."""

_LOCK, _README = "lock", "README.txt"
_PARTS = ("records-*.parquet", "cells-*.parquet", ".*.partial")
_ALL = (_LOCK, _README, *_PARTS)
_WARNING = """This folder holds ORIGINAL DATA about people, as they were read, and not an anonymous table.

It is the state of an increment of microcell: records that came in so far, and the cells they are in. Keep it where the
original table may be kept, do not pass it on, and remove it when the release is made and checked.

    microcell increment status FOLDER    tells what is in it
    microcell increment add FOLDER BATCH
    microcell increment finish FOLDER -o OUT
"""


def make_folder(folder: Path) -> bool:
    """Make the folder, for its owner alone; True if it was not there.

    One that is there must be empty, or be left by a start that was cut short.
    """
    if not folder.parent.is_dir():
        raise TableError(
            f"The folder {str(folder.parent)!r} does not exist. Make it first, or choose another place."
        )
    new = not folder.exists()
    with _writing(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        if not all(_is_own(path.name, (POINTER, *_ALL)) for path in folder.iterdir()):
            raise TableError(f"{str(folder)!r} is not empty. Give a folder that is not there yet.")
        if (folder / POINTER).exists():
            raise TableError(
                f"{str(folder)!r} holds a state already. Add to it, or give another folder."
            )
        folder.chmod(0o700)
        put(folder, _README, _WARNING.encode())
    return new


def clear_folder(folder: Path, *, remove: bool) -> None:
    """Take away what a start that fails has written, and the folder with it if ``remove``."""
    with suppress(OSError):
        for path in folder.iterdir():
            if _is_own(path.name, _ALL):
                path.unlink()
        if remove:
            folder.rmdir()


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Nobody else writes to the folder inside the block; :class:`TableError` if another process does.

    The system holds the lock, and lets go of it when the process ends, however that happens.
    """
    if not folder.is_dir():
        raise _no_state(folder)
    with _writing(folder):
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _hold(handle, folder)
        with _writing(folder):
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        os.close(handle)


def put(folder: Path, name: str, content: bytes) -> str:
    """Write a file of the folder, whole or not at all, and onto the disk; its SHA-256."""
    temporary = folder / f".{name}.{token_hex(4)}.partial"
    with _writing(folder):
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
    _settle(folder)
    return hashlib.sha256(content).hexdigest()


def put_pointer(folder: Path, content: Mapping[str, Any]) -> None:
    """Make a step happen: the pointer with this content takes the place of the one before."""
    whole = {"format": FORMAT, "version": VERSION, **content}
    put(
        folder, POINTER, (json.dumps({**whole, "sha256": _digest(whole)}, indent=1) + "\n").encode()
    )


def read_pointer(folder: Path) -> dict[str, Any]:
    """The content of the pointer; :class:`TableError` if there is none, or one of another version or damaged."""
    try:
        content = json.loads((folder / POINTER).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise _no_state(folder) from None
    except OSError as error:
        raise TableError(f"Cannot read {str(folder / POINTER)!r}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _damaged(folder)
    if content.get("version") != VERSION:
        raise TableError(
            f"The state in {str(folder)!r} is of version {content.get('version')!s:.12} of its format, and this "
            f"microcell reads version {VERSION}. Go on with the microcell that began it."
        )
    if content.pop("sha256", None) != _digest(content):
        raise _damaged(folder)
    return content


def read_part(folder: Path, named: Mapping[str, Any]) -> bytes:
    """The file that the pointer names, if it is still what was written."""
    try:
        content = (folder / str(named["file"])).read_bytes()
    except OSError:
        raise _damaged(folder) from None
    if hashlib.sha256(content).hexdigest() != named["sha256"]:
        raise _damaged(folder)
    return content


def tidy(folder: Path, keep: Collection[str]) -> None:
    """Remove what steps that were cut short have left, and files that no longer count."""
    for path in folder.iterdir():
        if path.name not in keep and _is_own(path.name, _PARTS):
            with suppress(OSError):
                path.unlink()


# ---------------------------------------------------------------------------------------------- steps


def _is_own(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say what the system refused, and that nothing happened."""
    try:
        yield
    except OSError as error:
        raise TableError(
            f"Cannot write in {str(folder)!r}: {error.strerror or 'the system refused'}. What was there is as it was."
        ) from None


def _hold(handle: int, folder: Path) -> None:
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise TableError(
            f"Another process{_holder(handle)} is working on the state in {str(folder)!r}. Wait until it has ended."
        ) from None


def _holder(handle: int) -> str:
    with suppress(OSError, ValueError):
        return f" ({int(os.read(handle, 20))})"
    return ""


def _settle(folder: Path) -> None:
    """Have the names in the folder on the disk too, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def _no_state(folder: Path) -> TableError:
    return TableError(
        f"No state of an increment in {str(folder)!r}. 'microcell increment start' makes one."
    )


def _damaged(folder: Path) -> TableError:
    return TableError(
        f"The state in {str(folder)!r} is damaged, or was altered. Begin anew from the original tables."
    )


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
                raise TableError(
                    f"{str(target)!r} holds a state already. Add to it, or give another folder."
                )
            try:
                tidy(target, ())
                state = begin(
                    tables.as_stored(tables.read(base)),
                    schema,
                    Request(k, method, seed, plain),
                    missing,
                )
                part = _put_records(target, state.original, state.batches[0])
                _point(target, state, _describe(state), [part])
            except BaseException:
                if not (target / POINTER).exists():
                    clear_folder(target, remove=new)
                raise
        return cls(target)

    def add(
        self, batch: Any, *, strategy: str = "refined", inertial: bool = False, again: bool = False
    ) -> Batch:
        """What adding a batch came to, as :meth:`Session.add`.

        A batch with the very records of one that is in the state already is refused unless ``again``: a step that was
        cut short may have happened, and must not happen twice.
        """
        with lock(self.folder):
            pointer = self._open()
            if pointer["finished"] is not None:
                raise GuaranteeError(FINISHED)
            state = _load(self.folder, pointer)
            own = tables.as_stored(tables.read(batch))
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
            release = make_release(
                state, None if made is None else (made["created"], made["seconds"])
            )
            if suffix is not None:
                tables.check_writable(release.published, suffix)
            if made is None:
                told = {"created": release.manifest.created, "seconds": release.manifest.seconds}
                put_pointer(self.folder, {**pointer, "finished": told})
            return release

    def publish(
        self,
        path: str | Path,
        *,
        report: str | Path | None = None,
        certificate: str | Path | None = None,
        audience: str = "internal",
        keep_order: bool = False,
    ) -> Release:
        """Finish the session and write its release; see :meth:`microcell.Release.publish`.

        Outputs are checked before the session is finished.
        """
        target = Path(path)
        check_outputs(target, companions=(report, certificate), sources=self.sources())
        release = self.finish(suffix=target.suffix)
        return release.publish(
            target,
            report=report,
            certificate=certificate,
            audience=audience,
            keep_order=keep_order,
        )

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


def _point(
    folder: Path, state: State, about: Mapping[str, Any], parts: list[dict[str, Any]]
) -> None:
    """Write the cells, and then the pointer to them and to the parts."""
    name = f"cells-{len(parts):04}-{token_hex(4)}.parquet"
    digest = put(folder, name, tables.to_parquet(tables.read({"cell": state.labels})))
    cells = {"file": name, "sha256": digest, "count": state.cells, "waiting": state.waiting}
    pointer = {**about, "used": state.used, "why": state.why, "parts": parts, "cells": cells}
    put_pointer(
        folder, {key: value for key, value in pointer.items() if key not in ("format", "version")}
    )
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
        "schema": files.schema_to_toml(state.schema),
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
            raise OptionError(
                f"Option {name!r} must be a number, a text or a truth value, to be kept on disk."
            )
    return options


# ---------------------------------------------------------------------------------------------- reading


def _load(folder: Path, pointer: Mapping[str, Any]) -> State:
    """The state as it was when the pointer was written, to the last digit."""
    parts = _read_records(folder, pointer)
    schema = files.schema_from_toml(pointer["schema"])
    request = Request(pointer["k"], pointer["method"], pointer["seed"], pointer["options"])
    fitted, missing = Encoding.from_dict(pointer["encoding"]), pointer["missing"]
    rows = [prepare.released_rows(part, schema, missing) for part in parts]
    points = [
        place_part(part, own, fitted, schema).points for part, own in zip(parts, rows, strict=True)
    ]
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
