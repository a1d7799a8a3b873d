"""The keys of schema and run files and the fields of the manifest, with what each means; just those of the code."""

from collections.abc import Mapping
from dataclasses import fields

from _pages import table

from microcell.kinds import KINDS
from microcell.model import Manifest
from microcell.schema.files import (
    _COLUMN_KEYS,
    _FIELD_OF_ROLE,
    _READ_KEYS,
    _RUN_KEYS,
    _SCHEMA_KEYS,
    Type,
)

ROLES: Mapping[str, str] = {
    "identifier": "dropped",
    "quasi": "cells are made of it; replaced by the cell's representative",
    "confidential": "published unchanged; the audit says what classes tell of it",
    "strata": "cells stay within its values; published unchanged, and counted as known to the outsider",
    "keep": "published unchanged",
    "drop": "left out",
    "weight": "a sampling weight: weighs representatives and distortion; published unchanged; one column at most",
}

SCHEMA: Mapping[str, str] = {
    "schema_version": "1",
    "rest": 'what becomes of columns that are not named: `"error"` (the default), `"keep"` or `"drop"`',
    "columns": "a table for each column, `[columns.NAME]`, with the keys below",
}

COLUMN: Mapping[str, str] = {
    "role": "one of the roles above; always needed",
    "kind": "`numeric`, `ordinal`, `nominal`, `code`, `datetime` or `location`; follows from the type if left out",
    "publish": "what a cell publishes, as the kinds above allow",
    "weight": "factor on the column's squared distances, above 0; 1 if left out",
    "order": "the categories of an ordinal column, lowest first",
    "latitude": "of a location: the name of the column with degrees north",
    "longitude": "of a location: the name of the column with degrees east",
}

RUN: Mapping[str, str] = {
    "config_version": "1",
    "input": "the table to anonymize; paths are taken from the folder of the run file",
    "output": "where to write",
    "schema": "the path of a schema file, or the schema itself as a table `[schema]`",
    "k": "the least number of records in a cell",
    "method": "how to make cells",
    "seed": "for what chance decides",
    "missing": '`"error"`, `"drop"` or `"impute"`',
    "report": "a page to write",
    "cells": "a file to write the cells to, as a function",
    "dependence": "lambda, from 0 to 1",
    "blocks": 'so many columns a block, or names: `"age,sex;home"`',
    "keep_order": "true to leave rows in their order",
    "options": "a table `[options]` of the method's own options",
    "require": "a table `[require]` of limits by measure",
    "read": "a table `[read]`: how to read the input, with the keys below",
}

READ: Mapping[str, str] = {
    "delimiter": "what separates fields",
    "encoding": "such as utf-8 or latin-1",
    "quote": "what encloses fields",
    "decimal": "the decimal mark",
    "na": "a word, or several, for a missing value",
}

MANIFEST: Mapping[str, str] = {
    "manifest_version": "1",
    "microcell": "the version that made the release",
    "created": "when, in UTC",
    "k": "the k asked for; with blocks, that of all columns together",
    "method": "how cells were made: `asked`, `used`, `why`, `options`; of a session with batches also `base` and "
    "`batches`, each with `records`, `seconds`, `strategy` and `inertial`",
    "seed": "for what chance decided",
    "missing": "what became of records that lack a quasi-identifier",
    "columns": "by column of the original: `role`, and for quasi-identifiers `kind`, `publish` and `weight`",
    "input": 'the original: `rows`, `columns`, `sha256` and `sha256_of` ("file" or "contents")',
    "records": "`in`, `out` and `dropped`: in = out + dropped; if `missing` is impute, `imputed`: how many values were",
    "cells": "`count`, `smallest`, `largest`, `sizes` (cells of each size) and `distortion`, that of the points "
    "(SSE / SST); `function`, the kind of cells, if the release has them as a function; where something was required, "
    "`merged`: `require` (the limits), `cells_before`, `merged_cells` (how many fewer there are now), "
    "`distortion_before` and `rounds`",
    "distortion": "that of the published table, as the audit finds it",
    "seconds": "how long it took",
    "dependence": "null, or of the points `lambda`, `distortion` (D_X), `dependence_loss` (D_Y) and `weighted`, what "
    "was minimized",
    "blocks": "null, or `k`, `columns`, `cells` (how many in each block) and `jointly_k_anonymous`",
    "row_order": '"kept" or "shuffled"',
    "output": "null, or the file that was written, as `input`",
}

TOP = """# Schema files and run files

Made from the code by `docs/make_reference.py`. Both are TOML, in UTF-8. A key that is not listed is refused, with where
it stands.

"""


def files_page() -> str:
    """The keys of schema files and run files."""
    return "\n".join(
        (
            TOP + "## The schema\n",
            "Drafted by `microcell inspect TABLE -o schema.toml`, read by `-s schema.toml` and `load_schema`.\n",
            _keys("a schema", SCHEMA, _SCHEMA_KEYS),
            "\n### Roles\n",
            table(
                ["role", "what becomes of the column"], _described("roles", ROLES, _FIELD_OF_ROLE)
            ),
            "\n### Kinds\n",
            table(["kind", "what may be published; the first is the default"], _kinds()),
            "\n[How each measures distance](../howto/schema.md#kinds-and-what-a-cell-publishes).\n",
            "### Keys of a column\n",
            "All but `role` are for the roles `quasi` and `confidential`.\n",
            _keys("a column", COLUMN, _COLUMN_KEYS),
            "\n## The run\n",
            "A whole run of `microcell anonymize --config run.toml`; flags on the command line override it.\n",
            _keys("a run", RUN, _RUN_KEYS),
            "\n### How to read the input\n",
            _keys("reading", READ, _READ_KEYS),
            "",
        )
    )


def manifest_table() -> str:
    """The fields of the manifest."""
    known = {"manifest_version", *(item.name for item in fields(Manifest))}
    return table(
        ["field", "what it is"], _described("the manifest", MANIFEST, dict.fromkeys(known))
    )


def _keys(what: str, described: Mapping[str, str], known: Mapping[str, Type]) -> str:
    rows = [
        (key, known[name].words, meaning)
        for (key, meaning), name in zip(_described(what, described, known), described, strict=True)
    ]
    return table(["key", "holds", "what it is"], rows)


def _described(
    what: str, described: Mapping[str, str], known: Mapping[str, object]
) -> list[tuple[str, str]]:
    """Rows of keys and meanings; refused unless they are just those that the code knows."""
    if set(described) != set(known):
        raise ValueError(
            f"Of {what}, described and known differ: {sorted(set(described) ^ set(known))}."
        )
    return [(f"`{name}`", meaning) for name, meaning in described.items()]


def _kinds() -> list[tuple[str, str]]:
    return [
        (f"`{kind.name}`", ", ".join(f"`{item}`" for item in kind.representatives))
        for kind in KINDS.values()
    ]
