"""Schemas and whole runs as TOML text, and back."""

from microcell.configuration._runs import Run, load_run, run_from_toml, run_to_toml
from microcell.configuration._schemas import load_schema, schema_from_toml, schema_to_toml

__all__ = ["Run", "load_run", "load_schema", "run_from_toml", "run_to_toml", "schema_from_toml", "schema_to_toml"]
