"""Atomic writes: files are written under temporary names and renamed once all are complete."""

import os
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from types import TracebackType

from microcell.errors import TableError

__all__ = ["Staging", "check_target"]


class Staging:
    """A set of files that appear together, or not at all.

    Temporary files are created next to their targets. They are renamed in order when the block
    ends, and removed if it raises.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     target = Path(folder) / "note.txt"
    ...     with Staging() as staging:
    ...         _ = staging.path(target).write_text("complete")
    ...         existed = target.exists()
    ...     existed, target.read_text()
    (False, 'complete')
    """

    def __init__(self) -> None:
        self._staged: list[tuple[Path, Path]] = []

    def __enter__(self) -> "Staging":
        return self

    def path(self, target: Path) -> Path:
        """Return the temporary path to write the content of ``target`` to."""
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
                except KeyboardInterrupt:
                    # Stopping now would leave a partial set, so finish renaming.
                    continue


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
