"""Atomic writes: files are written under temporary names and renamed once all are complete.

The last file of a set is its commit point: it names the others by digest, so that a process that is
killed between two renames leaves a set that can be recognized as incomplete. The temporary files of
a process that was killed are removed when the same files are written again. Every temporary file is
locked by its process, and the operating system releases the lock when the process ends.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from types import TracebackType
from weakref import finalize

from microcell.errors import TableError

if sys.platform != "win32":
    import fcntl

__all__ = ["AtomicFiles", "check_target", "find_partial_files", "holding"]

_PUBLIC, _PRIVATE = 0o666, 0o600
"""File modes before the umask of the process is applied."""


class AtomicFiles:
    """A set of files that appear together, or not at all.

    Temporary files are created next to their targets. They are renamed in order when the block
    ends, and removed if it raises.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     target = Path(folder) / "note.txt"
    ...     with AtomicFiles() as atomic:
    ...         _ = atomic.path(target).write_text("complete")
    ...         existed = target.exists()
    ...     existed, target.read_text()
    (False, 'complete')
    """

    def __init__(self) -> None:
        self._renames: list[tuple[Path, Path]] = []
        self._locks: list[int] = []
        # Also called if the block was left by an interrupt that came before __exit__ could begin.
        self._clean_up = finalize(self, _remove_files, self._renames, self._locks)

    def __enter__(self) -> "AtomicFiles":
        return self

    def path(self, target: Path, *, private: bool = False) -> Path:
        """Return the temporary path to write the content of ``target`` to.

        A private file can be read only by its owner.
        """
        for leftover in find_partial_files(target):
            _remove_if_abandoned(leftover)
        temporary = target.with_name(f".{target.stem}.{token_hex(4)}.partial{target.suffix}")
        self._renames.append((temporary, target))
        mode = _PRIVATE if private else _PUBLIC
        self._locks.append(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))
        _lock(self._locks[-1])
        return temporary

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._sync_files()
                with _ignoring_interrupts():
                    self._rename()
        finally:
            with _ignoring_interrupts():
                self._clean_up()

    def _sync_files(self) -> None:
        for temporary, _ in self._renames:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())

    def _rename(self) -> None:
        for position, (temporary, target) in enumerate(self._renames):
            if position == len(self._renames) - 1:
                self._sync_folders()  # the commit point must not reach the disk before the others
            os.replace(temporary, target)
        self._sync_folders()

    def _sync_folders(self) -> None:
        if sys.platform == "win32":
            return
        for folder in {target.parent for _, target in self._renames}:
            handle = os.open(folder, os.O_RDONLY)
            try:
                with suppress(OSError):  # some file systems cannot synchronize folders
                    os.fsync(handle)
            finally:
                os.close(handle)


def _remove_files(renames: list[tuple[Path, Path]], locks: list[int]) -> None:
    """Remove temporary files that were not renamed, and release the locks."""
    for temporary, _ in renames:
        temporary.unlink(missing_ok=True)
    for handle in locks:
        os.close(handle)


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C in a short block: stopping between two renames would leave half of a set."""
    previous = signal.getsignal(signal.SIGINT)
    if previous is None or threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals, and only Python can restore its handlers
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def find_partial_files(target: Path) -> Iterator[Path]:
    """Yield the temporary files for a target, left by killed processes or still being written."""
    name = re.compile(
        rf"\.{re.escape(target.stem)}\.[0-9a-f]{{8}}\.partial{re.escape(target.suffix)}"
    )
    with suppress(OSError):
        for path in sorted(target.parent.iterdir()):
            if name.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                yield path


def _lock(handle: int) -> bool:
    """Lock an open file until it is closed; return False if another process has locked it."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, or the file system has no locks
        return False
    return True


@contextmanager
def holding(path: Path, seconds: float = 5.0) -> Iterator[None]:
    """Keep other processes that hold the same file waiting, for a moment.

    The file must exist. Where the file system has no locks, or another process keeps the file for
    longer than ``seconds``, the block runs all the same.
    """
    handle = None
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
    try:
        end = monotonic() + seconds
        while handle is not None and not _lock(handle) and monotonic() < end:
            sleep(0.02 if sys.platform != "win32" else seconds)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _remove_if_abandoned(path: Path) -> None:
    """Remove a temporary file unless its process may still be running."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR)
        try:
            if _lock(handle):
                path.unlink(missing_ok=True)
        finally:
            os.close(handle)


def check_target(target: Path, *, sources: Iterable[Path] = ()) -> None:
    """Check that a file can be written and is not one of the sources.

    Raises
    ------
    TableError
        The folder does not exist or is not writable, the target is a folder, or it is a source.
    """
    folder = target.parent
    if not folder.is_dir():
        raise TableError(
            f"The folder of {target} does not exist. Create it or choose another output.",
            code="table.unwritable",
            path=str(target),
        )
    if target.is_dir():
        raise TableError(
            f"{target} is a folder. Choose the name of a file instead.",
            code="table.unwritable",
            path=str(target),
        )
    if not os.access(folder, os.W_OK):
        raise TableError(
            f"The folder of {target} is not writable. Choose another output.",
            code="table.unwritable",
            path=str(target),
        )
    for source in sources:
        if _is_same_file(target, source):
            raise TableError(
                f"The output {target} is also an input. Choose another output.",
                code="table.exists",
                path=str(target),
            )


def _is_same_file(target: Path, source: Path) -> bool:
    if target.resolve() == source.resolve():
        return True
    return target.exists() and source.exists() and target.samefile(source)
