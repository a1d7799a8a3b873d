"""The folder of a session: files that appear whole or not at all, one writer at a time, readable by its owner alone."""

import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from secrets import token_hex
from typing import Any

from microcell.errors import TableError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = [
    "FORMAT",
    "POINTER",
    "VERSION",
    "clear_folder",
    "lock",
    "make_folder",
    "put",
    "put_pointer",
    "read_part",
    "read_pointer",
    "tidy",
]

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
        raise TableError(f"The folder {str(folder.parent)!r} does not exist. Make it first, or choose another place.")
    new = not folder.exists()
    with _writing(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        if not all(_is_own(path.name, (POINTER, *_ALL)) for path in folder.iterdir()):
            raise TableError(f"{str(folder)!r} is not empty. Give a folder that is not there yet.")
        if (folder / POINTER).exists():
            raise TableError(f"{str(folder)!r} holds a state already. Add to it, or give another folder.")
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
    put(folder, POINTER, (json.dumps({**whole, "sha256": _digest(whole)}, indent=1) + "\n").encode())


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
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _no_state(folder: Path) -> TableError:
    return TableError(f"No state of an increment in {str(folder)!r}. 'microcell increment start' makes one.")


def _damaged(folder: Path) -> TableError:
    return TableError(f"The state in {str(folder)!r} is damaged, or was altered. Begin anew from the original tables.")
