"""What the commands use of the library besides its public names, loaded when first used: ``--help`` needs none."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from microcell.configuration import Run

__all__ = ["find_run", "manifest_path", "write_table"]


def find_run(config: Path | None) -> "Run":
    """The run that the file ``config`` holds; one with nothing given if there is no file."""
    configuration = import_module("microcell.configuration")
    run: Run = configuration.Run() if config is None else configuration.load_run(config)
    return run


def manifest_path(output: Path) -> Path:
    """Where the manifest of the release ``output`` is."""
    path: Path = import_module("microcell.pipeline").manifest_path(output)
    return path


def write_table(table: Any, path: Path) -> None:
    """Write the table to the file ``path``."""
    import_module("microcell.tables").write(table, path)
