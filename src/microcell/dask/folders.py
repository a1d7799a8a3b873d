"""The folders of a job: one for what is under way, removed in any case, and the release, which appears whole."""

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
    "MARK",
    "SUCCESS",
    "Folders",
    "check_output",
    "clear_leftovers",
    "mark",
    "temporary_output",
]

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
            if (
                folder.suffix not in (".work", ".partial")
                or not folder.is_dir()
                or folder.is_symlink()
            ):
                continue
            if _has_ended(folder):
                progress.report(f"removing {folder.name}, which a killed job left")
                shutil.rmtree(folder, ignore_errors=True)
            elif not _is_here(folder):
                progress.report(
                    f"leaving {folder.name}, which may be of a job elsewhere: remove it if that has ended"
                )


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
    return (
        bool(told)
        and bool(own["boot"])
        and all(told.get(name) == own[name] for name in ("host", "boot", "space"))
    )


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


SUCCESS, MANIFEST = "_SUCCESS", "_manifest.json"

_OWN = re.compile(rf"{SUCCESS}|{re.escape(MANIFEST)}|part-\d+\.\w+")
"""The files of a release."""

_TRIES = 10


def check_output(output: Path, replace: bool, sources: Sequence[Path] = ()) -> None:
    """Refuse, before any work, a folder that could not be made, that is there and must stay, or that is an input."""
    if not output.parent.is_dir():
        raise TableError(
            f"The folder of {output} does not exist. Make it first, or choose another output."
        )
    if not os.access(output.parent, os.W_OK):
        raise TableError(f"The folder of {output} is not writable. Choose another output.")
    if any(output.resolve() in (file.resolve(), *file.resolve().parents) for file in sources):
        raise TableError(
            f"The output {output} is also an input. Choose another output, so that nothing is lost."
        )
    if not (output.exists() or output.is_symlink()):
        return
    if not replace:
        raise TableError(
            f"{output} exists. Choose another output, or say that it is to be replaced (replace)."
        )
    if not (output.is_dir() and not output.is_symlink() and _is_release(output)):
        raise TableError(
            f"{output} exists and is no release of a data set, so it is not replaced. Choose another."
        )
    strange = sorted(path.name for path in output.iterdir() if not _OWN.fullmatch(path.name))
    if strange:
        raise TableError(
            f"{output} holds {strange[0]!r}, which is no part of the release. Move it, so that it is not lost."
        )


def _is_release(folder: Path) -> bool:
    """True for a folder that was written here; other programs leave a mark of success of the same name."""
    try:
        told = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return (folder / SUCCESS).is_file() and isinstance(told, dict) and "microcell" in told


def temporary_output(scratch: Path | None) -> Path:
    """A place for a release that nobody named one for: in a folder of its own, which is gone when the program ends.

    Not earlier: a lazy frame that reads the release may live longer than whatever made it.
    """
    folder = Path(mkdtemp(prefix="microcell-", dir=scratch))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "release"


class Folders:
    """``work`` and ``target``, folders beside the output that nobody else may read; both are gone after the block.

    What is under way holds original values. Only :meth:`commit` gives the target the name of the output.
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
                mark(folder)
        except OSError as error:
            self._remove()
            raise TableError(
                f"No folder can be made at {folder.parent}: {error.strerror}."
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
            for _ in range(_TRIES):  # a worker that was not told yet may write one more file
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():
                    break
                sleep(0.2)

    def commit(self, names: tuple[str, ...], manifest: str, replace: bool) -> None:
        """Let the release appear: those files, the manifest and the mark of success, and nothing else."""
        for file in self.target.iterdir():
            if file.name not in names:  # left by a worker that died
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
