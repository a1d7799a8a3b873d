"""Directories of a job: a temporary one that is always removed, and the atomic release."""

import atexit
import json
import os
import re
import shutil
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from time import sleep
from types import TracebackType

from microcell import progress
from microcell.errors import TableError

__all__ = [
    "MANIFEST",
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
    for parent in dict.fromkeys(parents):
        for folder in sorted(parent.glob(f".{_escape(name)}.*")):
            if (
                folder.suffix not in (".work", ".partial")
                or not folder.is_dir()
                or folder.is_symlink()
            ):
                continue
            if _has_ended(folder):
                progress.report(f"removing {folder.name}, left behind by a killed job")
                shutil.rmtree(folder, ignore_errors=True)
            elif not _is_local(folder):
                progress.report(
                    f"keeping {folder.name}, which may belong to a job on another machine; "
                    "remove it if that job has ended"
                )


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


def _is_local(folder: Path) -> bool:
    """Return True if the owner is or was a process of this machine since its last boot."""
    owner, current = _read_owner(folder), _identity(os.getpid())
    return (
        bool(owner)
        and bool(current["boot"])
        and all(owner.get(name) == current[name] for name in ("host", "boot", "namespace"))
    )


def _has_ended(folder: Path) -> bool:
    owner = _read_owner(folder)
    return _is_local(folder) and _start_time(int(owner["pid"])) != owner.get("started")


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


SUCCESS, MANIFEST = "_SUCCESS", "_manifest.json"

_RELEASE_FILE = re.compile(rf"{SUCCESS}|{re.escape(MANIFEST)}|part-\d+\.\w+")
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
    """Return True for a release of microcell; other programs write a _SUCCESS file as well."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return (folder / SUCCESS).is_file() and isinstance(manifest, dict) and "microcell" in manifest


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

    def commit(self, names: tuple[str, ...], manifest: str, replace: bool) -> None:
        """Publish the release: these files, the manifest and the success marker, nothing else."""
        for file in self.target.iterdir():
            if file.name not in names:  # left behind by a worker that died
                file.unlink()
        (self.target / MANIFEST).write_text(manifest, encoding="utf-8")
        (self.target / SUCCESS).touch()
        for file in self.target.iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        mask = os.umask(0)
        os.umask(mask)
        self.target.chmod(0o777 & ~mask)
        check_output(self._output, replace)
        old = self.target.with_suffix(".replaced")
        if self._output.exists():
            os.rename(self._output, old)
        try:
            os.rename(self.target, self._output)
        except BaseException:
            if old.exists():
                os.rename(old, self._output)
            raise
        shutil.rmtree(old, ignore_errors=True)
