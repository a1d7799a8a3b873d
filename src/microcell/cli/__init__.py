"""The command line: each command a thin skin over a public call."""

from microcell.cli._app import app, main

__all__ = ["app", "main"]
