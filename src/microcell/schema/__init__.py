"""Schemas: draft one from a table, resolve it against a table, read and write its file."""

from microcell.schema.draft import draft_schema
from microcell.schema.files import Run, load_run, load_schema, schema_from_toml, schema_to_toml
from microcell.schema.hierarchies import check_hierarchy, draft_hierarchy, suggest_hierarchy
from microcell.schema.persons import with_person

__all__ = [
    "Run",
    "check_hierarchy",
    "draft_hierarchy",
    "draft_schema",
    "load_run",
    "load_schema",
    "schema_from_toml",
    "schema_to_toml",
    "suggest_hierarchy",
    "with_person",
]
