"""The account of a release: how it was made, what it says of the tables, and whether that holds."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from microcell import auditing, methods, tables
from microcell.errors import TableError
from microcell.model import Encoded, Integers, Manifest, Partition, Schema, Table

__all__ = [
    "describe_blocks",
    "describe_cells",
    "describe_columns",
    "describe_dependence",
    "describe_merging",
    "describe_records",
    "describe_table",
    "find_contradictions",
    "find_manifest",
    "limits_of",
    "manifest_path",
    "row_order",
    "to_json",
]


def manifest_path(output: str | Path) -> Path:
    """Where the manifest of a release goes: beside it."""
    return Path(output).with_name(f"{Path(output).name}.manifest.json")


def to_json(manifest: Manifest) -> str:
    """The manifest as text."""
    return json.dumps(manifest.as_dict(), indent=2, ensure_ascii=False) + "\n"


def find_manifest(manifest: Any, released: Any) -> Mapping[str, Any] | None:
    """The manifest as plain data: as given (record, mapping or path), or the one beside the released file, if any."""
    if isinstance(manifest, Manifest):
        return manifest.as_dict()
    if manifest is None and isinstance(released, (str, Path)) and manifest_path(released).is_file():
        return _load(manifest_path(released))
    return _load(Path(manifest)) if isinstance(manifest, (str, Path)) else manifest


def _load(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise TableError(f"No file {str(path)!r}. Check the path of the manifest.") from None
    except OSError as error:
        raise TableError(f"Cannot read {str(path)!r}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or "manifest_version" not in content:
        raise TableError(
            f"{str(path)!r} is not a manifest as microcell writes it. Give the right one."
        )
    return content


def describe_columns(schema: Schema, table: Table) -> dict[str, dict[str, Any]]:
    """The role of each column, and the kind and representative of quasi-identifiers."""
    described: dict[str, dict[str, Any]] = {
        name: {"role": "identifier" if role == "identifiers" else role}
        for name, role in schema.roles()
    }
    for column in schema.quasi:
        for part in column.parts:
            described[part] |= {
                "kind": column.kind,
                "publish": column.publish,
                "weight": column.weight,
            }
    return {name: described[name] for name in table.names}


def describe_table(table: Table) -> dict[str, Any]:
    """The size of a table, and the digest of the file it came from, or of its contents."""
    size = {"rows": table.rows, "columns": len(table.names)}
    if table.origin.path is not None:
        return {**size, "sha256": tables.file_digest(table.origin.path), "sha256_of": "file"}
    return {**size, "sha256": tables.digest(table), "sha256_of": "contents"}


def describe_records(read: int, released: int, missing: str, gaps: int) -> dict[str, int]:
    """How many records came in, went out and were left out; of their missing values, if they were imputed, how many."""
    counts = {"in": read, "out": released, "dropped": read - released}
    return {**counts, "imputed": gaps} if missing == "impute" else counts


def describe_cells(partition: Partition, encoded: Encoded) -> dict[str, Any]:
    """How many cells there are, of which sizes, and the distortion of the points they were made of."""
    sizes, counts = np.unique(partition.sizes, return_counts=True)
    return {
        "count": len(partition),
        "smallest": int(sizes[0]),
        "largest": int(sizes[-1]),
        "distortion": methods.distortion(encoded.matrix, partition.labels, weights=encoded.weights),
        "sizes": {str(size): int(count) for size, count in zip(sizes, counts, strict=True)},
    }


def describe_merging(
    limits: Mapping[str, float], before: Partition, after: Partition, rounds: int, encoded: Encoded
) -> dict[str, Any]:
    """What was required, how many cells were merged away for it and in how many rounds, and the distortion before.

    Under ``merged``; nothing where nothing was required.
    """
    merged = {
        "require": dict(limits),
        "cells_before": len(before),
        "merged_cells": len(before) - len(after),
        "distortion_before": methods.distortion(
            encoded.matrix, before.labels, weights=encoded.weights
        ),
        "rounds": rounds,
    }
    return {"merged": merged} if limits else {}


def describe_blocks(
    columns: Sequence[Sequence[str]], cells: Sequence[int], k: int, found: int
) -> dict[str, Any] | None:
    """The blocks that cells were made of, their k and what k all of them together came to; None without blocks."""
    if not columns:
        return None
    return {
        "k": k,
        "columns": [list(names) for names in columns],
        "cells": list(cells),
        "jointly_k_anonymous": found >= k,
    }


def describe_dependence(weight: float, distortion: float, loss: float) -> dict[str, Any]:
    """The weight of dependence, what the points of both sides lost, and the sum that was minimized."""
    return {
        "lambda": weight,
        "distortion": distortion,
        "dependence_loss": loss,
        "weighted": (1 - weight) * distortion + weight * loss,
    }


def limits_of(manifest: Mapping[str, Any]) -> Mapping[str, float]:
    """The limits that the release had to meet; none if the manifest tells of none."""
    return _entries(_entries(_entries(manifest, "cells"), "merged"), "require")


def row_order(table: Table, manifest: Mapping[str, Any]) -> Integers:
    """An order of the rows that only someone with the original table can work out, even with the manifest at hand.

    It differs from release to release of one table, so that two of them cannot be laid side by side.
    """
    making = {name: manifest[name] for name in ("k", "method", "seed", "missing", "columns")}
    limits = limits_of(manifest)
    making |= {"require": dict(limits)} if limits else {}
    making |= {
        name: manifest[name] for name in ("dependence", "blocks") if manifest.get(name) is not None
    }
    key = tables.digest(table, key=json.dumps(making, sort_keys=True, default=str).encode())
    return np.random.default_rng(int(key, 16)).permutation(table.rows)


def find_contradictions(
    manifest: Mapping[str, Any], original: Table, released: Table, schema: Schema
) -> tuple[str, ...]:
    """What the manifest says that does not hold for these tables and this schema, a sentence each."""
    quasi = {
        name for name, facts in _entries(manifest, "columns").items() if "quasi" in _values(facts)
    }
    records = _entries(manifest, "records")
    found = {
        "The original is not the table that the release was made of: its digest is not the manifest's.": (
            _another(manifest.get("input"), original)
        ),
        "The release is not the file that was written: its digest is not the manifest's.": (
            _another(manifest.get("output"), released)
        ),
        f"The manifest speaks of another number of released records than {released.rows}.": (
            records.get("out", released.rows) != released.rows
        ),
        f"The manifest speaks of another number of original records than {original.rows}.": (
            records.get("in", original.rows) != original.rows
        ),
        "The release has a smaller class than the k of the manifest allows.": (
            _has_less(manifest.get("k"), released, schema)
        ),
        "Quasi-identifiers of the manifest have another role in the schema given.": not quasi
        <= set(schema.keys),
    }
    return tuple(sentence for sentence, holds in found.items() if holds)


def _has_less(k: Any, released: Table, schema: Schema) -> bool:
    """True if the release is known to have a class of fewer than k records."""
    if not isinstance(k, int) or not released.rows or not set(schema.keys) <= set(released.columns):
        return False
    return int(auditing.class_sizes(released, schema.keys).min()) < k


def _entries(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of the manifest; nothing if it is damaged."""
    part = manifest.get(name)
    return part if isinstance(part, Mapping) else {}


def _values(facts: Any) -> list[Any]:
    return list(facts.values()) if isinstance(facts, Mapping) else []


def _another(described: Any, table: Table) -> bool:
    """True if the table is known not to be the one described."""
    if not isinstance(described, Mapping) or "sha256" not in described:
        return False
    if described.get("sha256_of") == "contents":
        return bool(tables.digest(table) != described["sha256"]) and table.origin.path is None
    path = table.origin.path
    return path is not None and tables.file_digest(path) != described["sha256"]
