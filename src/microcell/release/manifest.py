"""Build the manifest of a release, find the one of a published file, and check its statements."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from microcell import __version__, auditing, methods, tables
from microcell.model import Encoded, Integers, Partition, Schema, Table
from microcell.model.manifest import (
    CellsSection,
    ColumnSection,
    DependenceSection,
    Manifest,
    MethodSection,
    RecordsSection,
    RequirementsSection,
    TableSection,
)

__all__ = [
    "build_manifest",
    "describe_cells",
    "describe_dependence",
    "describe_method",
    "describe_records",
    "describe_requirements",
    "describe_table",
    "find_contradictions",
    "find_manifest",
    "manifest_path",
    "row_order",
]


def manifest_path(output: str | Path) -> Path:
    """Return the path of the manifest of a published file.

    Examples
    --------
    >>> manifest_path("people_k5.csv").name
    'people_k5.csv.manifest.json'
    """
    return Path(output).with_name(f"{Path(output).name}.manifest.json")


def find_manifest(manifest: Any, released: Any = None) -> Manifest | None:
    """Return the manifest, or the one next to the released file, or None if there is none.

    Parameters
    ----------
    manifest
        A manifest, plain data or a path. If None, the file next to ``released`` is used if there
        is one: ``NAME.manifest.json``, or ``_manifest.json`` in the folder of a data set.
    released
        Path of the released file or folder.

    Raises
    ------
    TableError
        The manifest cannot be read or is not valid.
    """
    if manifest is None and isinstance(released, (str, Path)):
        inside = Path(released) / "_manifest.json"
        manifest = inside if inside.is_file() else manifest_path(released)
        if not manifest.is_file():
            return None
    if manifest is None or isinstance(manifest, Manifest):
        return manifest
    if isinstance(manifest, (str, Path)):
        return Manifest.load(manifest)
    return Manifest.parse(manifest)


def build_manifest(
    schema: Schema,
    names: Sequence[str],
    *,
    k: int,
    input: TableSection,
    records: RecordsSection,
    cells: CellsSection,
    created: str | None = None,
    **entries: Any,
) -> Manifest:
    """Build the manifest of a release.

    Parameters
    ----------
    schema
        Resolved schema.
    names
        Columns of the original table, in order.
    k, input, records, cells, entries
        Entries of the manifest; the ``describe_*`` functions build its sections.
    created
        Date and time in UTC (ISO 8601); now, if omitted.
    """
    return Manifest(
        microcell=__version__,
        created=created or datetime.now(UTC).isoformat(timespec="seconds"),
        k=k,
        columns=_describe_columns(schema, names),
        input=input,
        records=records,
        cells=cells,
        **entries,
    )


def _describe_columns(schema: Schema, names: Sequence[str]) -> dict[str, ColumnSection]:
    sections = {
        name: ColumnSection(role="identifier" if role == "identifiers" else role)
        for name, role in schema.roles()
    }
    for column in schema.quasi:
        for part in column.parts:
            sections[part] = ColumnSection(
                role=sections[part].role,
                kind=column.kind,
                publish=column.publish,
                weight=column.weight,
            )
    return {name: sections[name] for name in names}


def describe_method(
    requested: str, partition: Partition, options: Mapping[str, Any]
) -> MethodSection:
    """Describe the method behind a partition."""
    plain = {name: _plain(value) for name, value in options.items()}
    return MethodSection(
        requested=requested, used=partition.method, reason=partition.reason, options=plain
    )


def _plain(value: Any) -> Any:
    """Return an option as a value that JSON can hold."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def describe_table(table: Table) -> TableSection:
    """Describe a table: its size, and the digest of its file or, without one, of its contents."""
    path = table.origin.path
    return TableSection(
        rows=table.rows,
        columns=len(table.names),
        sha256=tables.digest(table) if path is None else tables.file_digest(path),
        sha256_of="contents" if path is None else "file",
    )


def describe_records(n_read: int, n_released: int, missing: str, n_missing: int) -> RecordsSection:
    """Count the records read, released and dropped and, if imputed, the missing values."""
    return RecordsSection(
        read=n_read,
        released=n_released,
        dropped=n_read - n_released,
        imputed=n_missing if missing == "impute" else None,
    )


def describe_cells(partition: Partition, sse_ratio: float, **entries: Any) -> CellsSection:
    """Count the cells and their sizes."""
    sizes, counts = np.unique(partition.sizes, return_counts=True)
    return CellsSection(
        count=len(partition),
        smallest=int(sizes[0]),
        largest=int(sizes[-1]),
        sizes={str(size): int(number) for size, number in zip(sizes, counts, strict=True)},
        sse_ratio=sse_ratio,
        **entries,
    )


def describe_requirements(
    limits: Mapping[str, float], before: Partition, after: Partition, rounds: int, encoded: Encoded
) -> RequirementsSection | None:
    """Describe the requirements and the merging they caused; None if nothing was required."""
    if not limits:
        return None
    return RequirementsSection(
        limits=dict(limits),
        cells_before=len(before),
        cells_merged=len(before) - len(after),
        sse_ratio_before=methods.distortion(encoded.matrix, before.labels, weights=encoded.weights),
        rounds=rounds,
    )


def describe_dependence(
    weight: float, quasi_identifier_loss: float, confidential_loss: float
) -> DependenceSection:
    """Describe the trade-off with confidential columns."""
    return DependenceSection(
        weight=weight,
        quasi_identifier_loss=quasi_identifier_loss,
        confidential_loss=confidential_loss,
        weighted_loss=(1 - weight) * quasi_identifier_loss + weight * confidential_loss,
    )


def row_order(table: Table, manifest: Manifest) -> Integers:
    """Return the order in which rows are written.

    Only someone with the original table can compute it; the manifest alone is not enough. It
    depends on the settings, so the rows of two releases of one table cannot be matched by position.
    """
    entries = {"k", "method", "seed", "missing", "columns", "dependence", "blocks"}
    settings = manifest.model_dump(mode="json", include=entries, exclude_none=True)
    settings["limits"] = dict(manifest.limits)
    key = tables.digest(table, key=json.dumps(settings, sort_keys=True).encode())
    return np.random.default_rng(int(key, 16)).permutation(table.rows)


def find_contradictions(
    manifest: Manifest, original: Table, released: Table, schema: Schema
) -> tuple[str, ...]:
    """Return the statements of the manifest that are false for these tables, as sentences."""
    quasi = {name for name, column in manifest.columns.items() if column.role == "quasi"}
    statements = {
        "The original table is not the one the release was produced from (digests differ).": (
            _differs(manifest.input, original)
        ),
        "The released file is not the one that was published (digests differ).": (
            manifest.output is not None and _differs(manifest.output, released)
        ),
        f"The release has {released.rows:,} records, not the number in the manifest.": (
            manifest.records.released != released.rows
        ),
        f"The original has {original.rows:,} records, not the number in the manifest.": (
            manifest.records.read != original.rows
        ),
        "The release has a class smaller than the k in the manifest.": (
            _has_smaller_class(manifest.k, released, schema)
        ),
        "Quasi-identifiers in the manifest have another role in the schema.": (
            not quasi <= set(schema.keys)
        ),
    }
    return tuple(sentence for sentence, is_false in statements.items() if is_false)


def _has_smaller_class(k: int, released: Table, schema: Schema) -> bool:
    if not released.rows or not set(schema.keys) <= set(released.columns):
        return False
    return int(auditing.class_sizes(released, schema.keys).min()) < k


def _differs(section: TableSection, table: Table) -> bool:
    """Return True if the table is certainly not the one described."""
    path = table.origin.path
    if section.sha256_of == "contents":
        return path is None and tables.digest(table) != section.sha256
    return path is not None and tables.file_digest(path) != section.sha256
