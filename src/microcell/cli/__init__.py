"""The command line. Faces hold no logic: each command is a thin skin over public names of the library."""

import sys
from importlib import import_module
from typing import Any

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; ends the process with its exit code.

    The commands are loaded here, so that Ctrl-C is heard while they load.
    """
    try:
        import_module("microcell.cli.commands").run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was written\n")
        sys.exit(130)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'microcell.cli' has no attribute {name!r}")
    return import_module("microcell.cli.commands").app
