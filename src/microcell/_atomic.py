"""Files written beside their place and renamed when all are whole: never half a file, never half a set."""

import os
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from types import TracebackType

from microcell.errors import TableError

__all__ = ["Staging", "check_target"]


class Staging:
    """Temporary paths beside their targets; renamed in order on leaving the block, removed if it fails.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     target = Path(folder) / "note.txt"
    ...     with Staging() as staging:
    ...         _ = staging.path(target).write_text("whole")
    ...         before = target.exists()
    ...     before, target.read_text()
    (False, 'whole')
    """

    def __init__(self) -> None:
        self._staged: list[tuple[Path, Path]] = []

    def __enter__(self) -> "Staging":
        return self

    def path(self, target: Path) -> Path:
        """Where to write what shall become ``target``."""
        temporary = target.with_name(f".{target.stem}.{token_hex(4)}.partial{target.suffix}")
        self._staged.append((temporary, target))
        return temporary

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            for temporary, _ in self._staged:
                temporary.unlink(missing_ok=True)

    def _commit(self) -> None:
        for temporary, _ in self._staged:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        for temporary, target in self._staged:
            while temporary.exists():
                try:
                    os.replace(temporary, target)
                except (
                    KeyboardInterrupt
                ):  # too late to stop: all files are whole, and belong together
                    continue


def check_target(target: Path, *, sources: Iterable[Path] = ()) -> None:
    """Refuse, before any work, a target that could not be written or that would overwrite one of the sources."""
    folder = target.parent
    if not folder.is_dir():
        raise TableError(
            f"The folder of {target} does not exist. Make it first, or choose another output."
        )
    if target.is_dir():
        raise TableError(f"{target} is a folder. Give the name of a file.")
    if not os.access(folder, os.W_OK):
        raise TableError(f"The folder of {target} is not writable. Choose another output.")
    for source in sources:
        if target.resolve() == source.resolve() or (
            target.exists() and source.exists() and target.samefile(source)
        ):
            raise TableError(
                f"The output {target} is also an input. Choose another output, so that nothing is lost."
            )
