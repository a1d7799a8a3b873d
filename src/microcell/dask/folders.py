"""Directories of a job: temporary ones, which are always removed, and the output."""

import atexit
import ctypes
import json
import os
import re
import shutil
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from time import sleep
from types import TracebackType

from microcell import __version__, progress
from microcell._atomic import AtomicFiles
from microcell.errors import TableError
from microcell.release.manifest import SUCCESS, manifest_path

__all__ = [
    "OWNER",
    "SUCCESS",
    "Folders",
    "check_output",
    "clear_leftovers",
    "temporary_output",
    "write_owner",
]

OWNER = ".owner"
"""File that identifies the process of a temporary directory."""


def write_owner(folder: Path) -> None:
    """Record which process a directory belongs to."""
    (folder / OWNER).write_text(json.dumps(_identity(os.getpid())), encoding="utf-8")


def clear_leftovers(parents: Iterable[Path], name: str) -> None:
    """Remove temporary directories that killed jobs for this output left behind.

    They contain original data. A directory is removed only if its process ran on this machine
    since the last boot and has ended; directories of other machines or without an owner are
    reported and kept.
    """
    # The output and the scratch directory may have the same parent.
    places = tuple(dict.fromkeys(parents))
    leftovers = [
        folder
        for place in places
        for folder in sorted(place.glob(f".{_escape(name)}.*"))
        if folder.suffix in (".work", ".partial", _REPLACED)
        and folder.is_dir()
        and not folder.is_symlink()
    ]
    owners = {folder: _find_owner(folder, places) for folder in leftovers}
    for folder, owner in owners.items():
        output = folder.with_name(name)
        if _has_ended(owner) and folder.suffix == _REPLACED and not output.exists():
            progress.report(f"restoring {name}, which a killed job was about to replace")
            _restore(folder, output)
        elif _has_ended(owner):
            progress.report(f"removing {folder.name}, left behind by a killed job")
            shutil.rmtree(folder, ignore_errors=True)
        elif not _is_local(owner):
            progress.report(
                f"keeping {folder.name}, which may belong to a job on another machine; "
                "remove it if that job has ended"
            )


def _find_owner(folder: Path, places: Sequence[Path]) -> dict[str, str | int]:
    """Return the owner recorded in a directory, or else in its work directory."""
    work = folder.with_suffix(".work").name
    owners = (_read_owner(place) for place in (folder, *(place / work for place in places)))
    return next((owner for owner in owners if owner), {})


def _escape(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _identity(pid: int) -> dict[str, str | int]:
    """Identify a process by its id and start time, and by machine, boot and PID namespace."""
    return {
        "pid": pid,
        "started": _start_time(pid),
        "host": socket.gethostname(),
        "boot": _read_text(Path("/proc/sys/kernel/random/boot_id")),
        "namespace": _read_link(Path("/proc/self/ns/pid")),
    }


def _read_owner(folder: Path) -> dict[str, str | int]:
    try:
        owner = json.loads((folder / OWNER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) and isinstance(owner.get("pid"), int) else {}


def _is_local(owner: Mapping[str, str | int]) -> bool:
    """Return True if the owner is or was a process of this machine since its last boot."""
    current = _identity(os.getpid())
    return (
        bool(owner)
        and bool(current["boot"])
        and all(owner.get(name) == current[name] for name in ("host", "boot", "namespace"))
    )


def _has_ended(owner: Mapping[str, str | int]) -> bool:
    return _is_local(owner) and _start_time(int(owner["pid"])) != owner.get("started")


def _start_time(pid: int) -> str:
    """Return the start time of a process in clock ticks, or "" if it does not exist."""
    # The program name, in parentheses, may contain spaces; the following fields do not.
    return "".join(_read_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[19:20])


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _read_link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


_SIGNATURE = "microcell"
"""First word in the success marker; other programs write one as well, usually an empty file."""

_RELEASE_FILE = re.compile(rf"{SUCCESS}|part-\d+\.\w+")
"""Names of the files of a release."""

_ATTEMPTS = 10


def check_output(output: Path, replace: bool, sources: Sequence[Path] = ()) -> None:
    """Raise TableError if the output cannot be created or replaced, or is an input."""
    if not output.parent.is_dir():
        raise _output_error(
            output,
            "table.unwritable",
            f"The parent directory of {output} does not exist. Create it, or choose another "
            "output.",
        )
    if not os.access(output.parent, os.W_OK):
        raise _output_error(
            output,
            "table.unwritable",
            f"The parent directory of {output} is not writable. Choose another output.",
        )
    if any(output.resolve() in (file.resolve(), *file.resolve().parents) for file in sources):
        raise _output_error(
            output, "table.exists", f"The output {output} is also an input. Choose another output."
        )
    if not (output.exists() or output.is_symlink()):
        return
    if not replace:
        raise _output_error(
            output,
            "table.exists",
            f"{output} already exists. Choose another output, or replace it (replace=True, "
            "--force).",
        )
    if not (output.is_dir() and not output.is_symlink() and _is_release(output)):
        raise _output_error(
            output,
            "table.exists",
            f"{output} exists but is not a release of a data set, so it is not replaced. Choose "
            "another output.",
        )
    foreign = sorted(
        path.name for path in output.iterdir() if not _RELEASE_FILE.fullmatch(path.name)
    )
    if foreign:
        raise _output_error(
            output,
            "table.exists",
            f"{output} contains {foreign[0]!r}, which is not part of the release. Move it first.",
        )


def _output_error(output: Path, code: str, message: str) -> TableError:
    return TableError(message, code=code, path=str(output))


def _is_release(folder: Path) -> bool:
    return _read_text(folder / SUCCESS).partition(" ")[0] == _SIGNATURE


def temporary_output(scratch: Path | None) -> Path:
    """Return a path in a new directory that is removed when the program ends.

    A lazy dataframe that reads the release may outlive the object that created it.
    """
    folder = Path(mkdtemp(prefix="microcell-", dir=scratch))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "release"


class Folders:
    """Private directories ``work`` and ``target``, which are removed at the end of the block.

    They contain original data. Only :meth:`commit` renames the target to the output.
    """

    def __init__(self, output: Path, scratch: Path | None) -> None:
        self._output = output.absolute()
        token = token_hex(4)
        self.work = (scratch or self._output.parent).absolute() / f".{output.name}.{token}.work"
        self.target = self._output.parent / f".{output.name}.{token}.partial"

    def __enter__(self) -> "Folders":
        clear_leftovers((self.work.parent, self._output.parent), self._output.name)
        try:
            for folder in (self.work, self.target):
                folder.mkdir(mode=0o700)
                write_owner(folder)
        except OSError as error:
            self._remove()
            raise TableError(
                f"Cannot create a directory in {folder.parent}: {error.strerror}.",
                code="table.unwritable",
                path=str(folder.parent),
            ) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for folder in (self.work, self.target):
            for _ in range(_ATTEMPTS):  # a worker that is still running may write another file
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():
                    break
                sleep(0.2)

    def commit(
        self, names: tuple[str, ...], manifest: str, replace: bool, *, digest: str = ""
    ) -> None:
        """Publish the release: these files and the success marker, and the manifest next to it.

        The manifest is renamed last. The marker contains the digest of the files, so that a new
        directory next to an old manifest can be recognized.
        """
        for file in self.target.iterdir():
            if file.name not in names:  # left behind by a worker that died
                file.unlink()
        (self.target / SUCCESS).write_text(
            f"{_SIGNATURE} {__version__} {digest}\n", encoding="utf-8"
        )
        for file in self.target.iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        mask = os.umask(0)
        os.umask(mask)
        self.target.chmod(0o777 & ~mask)
        check_output(self._output, replace)
        with AtomicFiles() as atomic:
            path = atomic.path(manifest_path(self._output), private=True)
            path.write_text(manifest, encoding="utf-8")
            if not self._output.exists():
                os.rename(self.target, self._output)
            elif _exchange(self.target, self._output):
                write_owner(self.target)  # now the old release, to be removed
            else:
                self._replace()

    def _replace(self) -> None:
        """Replace the output in two steps, for file systems that cannot do it atomically.

        A process that is killed between them leaves the old release under a temporary name, which
        the next job renames back.
        """
        old = self.target.with_suffix(_REPLACED)
        os.rename(self._output, old)
        write_owner(old)
        try:
            os.rename(self.target, self._output)
        except BaseException:
            _restore(old, self._output)
            raise
        shutil.rmtree(old, ignore_errors=True)


_REPLACED = ".replaced"


def _restore(old: Path, output: Path) -> None:
    (old / OWNER).unlink(missing_ok=True)
    os.rename(old, output)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two directories atomically; return False if the system does not support it."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    names = os.fsencode(one.absolute()), os.fsencode(other.absolute())
    done: int = rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    return done == 0


_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
