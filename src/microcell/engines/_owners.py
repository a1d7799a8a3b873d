"""Whose a folder of work under way is, so that what a killed job left can be told from the folder of one that runs."""

import json
import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from microcell import progress

__all__ = ["MARK", "clear_leftovers", "mark"]

MARK = ".owner"


def mark(folder: Path) -> None:
    """Write down which process the folder belongs to."""
    (folder / MARK).write_text(json.dumps(_identity(os.getpid())), encoding="utf-8")


def clear_leftovers(parents: Iterable[Path], name: str) -> None:
    """Remove the folders of jobs for the output of that name whose process is known to have ended; tell of others.

    They hold original values. A process is known to have ended only on the machine that it ran on, since that was
    started; the folder of a job elsewhere stays, and so does one without a mark.
    """
    # A list: the same folder may be the parent of the output and the one for scratch.
    for parent in dict.fromkeys(parents):
        for folder in sorted(parent.glob(f".{_escape(name)}.*")):
            if folder.suffix not in (".work", ".partial") or not folder.is_dir() or folder.is_symlink():
                continue
            if _has_ended(folder):
                progress.report(f"removing {folder.name}, which a killed job left")
                shutil.rmtree(folder, ignore_errors=True)
            elif not _is_here(folder):
                progress.report(f"leaving {folder.name}, which may be of a job elsewhere: remove it if that has ended")


def _escape(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _identity(pid: int) -> dict[str, str | int]:
    """A process: its number, when it was started, and the machine and the space of numbers that the number is of."""
    return {
        "pid": pid,
        "started": _started(pid),
        "host": socket.gethostname(),
        "boot": _text(Path("/proc/sys/kernel/random/boot_id")),
        "space": _link(Path("/proc/self/ns/pid")),
    }


def _read(folder: Path) -> dict[str, str | int]:
    try:
        found = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("pid"), int) else {}


def _is_here(folder: Path) -> bool:
    """True if the folder's process is, or was, one of this machine since it was started."""
    told, own = _read(folder), _identity(os.getpid())
    return bool(told) and bool(own["boot"]) and all(told.get(name) == own[name] for name in ("host", "boot", "space"))


def _has_ended(folder: Path) -> bool:
    told = _read(folder)
    return _is_here(folder) and _started(int(told["pid"])) != told.get("started")


def _started(pid: int) -> str:
    """When a process was started, in the system's own units; nothing if there is no such process."""
    # The name of the program, in brackets, may hold blanks; what follows it does not.
    return "".join(_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[19:20])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
