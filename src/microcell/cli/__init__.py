"""The command line.

Commands contain no logic: each parses its options, calls public functions of the library, and
prints the result.
"""

import sys
from importlib import import_module
from typing import Any

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line and exit the process with its exit code.

    The commands are imported here, so that Ctrl-C is handled while they load.
    """
    try:
        import_module("microcell.cli.commands").run()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: nothing was written.\n")
        sys.exit(130)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'microcell.cli' has no attribute {name!r}")
    return import_module("microcell.cli.commands").app
