"""Build the manifest of a release, find that of a published file, and check its statements."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from microcell import __version__, auditing, methods, tables
from microcell._atomic import find_partial_files
from microcell.errors import TableError
from microcell.measures import people
from microcell.model import Audit, Encoded, Integers, Partition, Schema, Table
from microcell.model.manifest import (
    BoundSection,
    CellsSection,
    ColumnSection,
    DependenceSection,
    DominanceSection,
    FileSection,
    Manifest,
    MethodSection,
    PersonSection,
    RecordsSection,
    RequirementsSection,
    TableSection,
)
from microcell.release.enforce import Enforced

__all__ = [
    "READ_DIFFERENTLY",
    "SUCCESS",
    "build_manifest",
    "describe_bound",
    "describe_cells",
    "describe_dependence",
    "describe_dominance",
    "describe_file",
    "describe_method",
    "describe_people",
    "describe_records",
    "describe_requirements",
    "describe_table",
    "find_contradictions",
    "find_manifest",
    "manifest_path",
    "other_releases",
    "stored_reading",
    "was_read_differently",
]


SUCCESS = "_SUCCESS"
"""File in the directory of a data set that contains its digest."""


def manifest_path(output: str | Path) -> Path:
    """Return the path of the manifest of a published file or folder.

    Examples
    --------
    >>> manifest_path("people_k5.csv").name
    'people_k5.csv.manifest.json'
    """
    path = Path(output)
    if path.name in ("", ".."):
        path = path.resolve()
    return path.with_name(f"{path.name}.manifest.json")


def find_manifest(manifest: Any, released: Any = None) -> Manifest | None:
    """Return the manifest, or the one next to the released file, or None if there is none.

    Parameters
    ----------
    manifest
        A manifest, plain data or a path. If None, ``NAME.manifest.json`` next to ``released`` is
        used if it exists.
    released
        Path of the released file or folder.

    Raises
    ------
    TableError
        The manifest cannot be read or is not valid, or the one next to ``released`` does not belong
        to it (``table.incomplete``).

    Examples
    --------
    >>> import microcell as mc
    >>> release = mc.anonymize(mc.sample_survey(100), mc.sample_schema(), k=5, method="mdav")
    >>> find_manifest(release.manifest).k, find_manifest(None, "unpublished.csv")
    (5, None)
    """
    if manifest is None and isinstance(released, (str, Path)):
        manifest = manifest_path(released)
        _check_complete(manifest, Path(released))
        if not manifest.is_file():
            return None
    if manifest is None or isinstance(manifest, Manifest):
        return manifest
    if isinstance(manifest, (str, Path)):
        return Manifest.load(manifest)
    return Manifest.parse(manifest)


def _check_complete(manifest: Path, released: Path) -> None:
    """Raise TableError if a release and the files next to it do not belong together.

    The manifest is written last and contains the digests of the other files. Reports may have been
    moved or removed, but not replaced.
    """
    if not manifest.is_file():
        if released.exists() and any(find_partial_files(manifest)):
            raise _incomplete_error(released, manifest)
        return
    statement = Manifest.load(manifest)
    for file in statement.files or ():
        path = manifest.parent / file.path
        if path.is_file() and tables.file_digest(path) != file.sha256:
            raise _incomplete_error(released, path)
    output = statement.output
    if output is None or not released.exists():
        return
    current = _release_digest(released)
    if current is not None and current != output.sha256:
        raise _incomplete_error(released, manifest)


def _release_digest(released: Path) -> str | None:
    """Return the digest of a released file, or the one in the success marker of a data set."""
    if released.is_file():
        return tables.file_digest(released)
    try:
        words = (released / SUCCESS).read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return None
    return words[2] if len(words) == 3 and words[0] == "microcell" else None


def _incomplete_error(released: Path, other: Path) -> TableError:
    return TableError(
        f"{released} and {other.name} do not belong to the same release: publishing was "
        "interrupted, or a file was changed since. Publish the release again (--force), or pass "
        "the manifest to audit the file as it is.",
        code="table.incomplete",
        path=str(released),
        other=str(other),
    )


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
                after=column.after,
                difference_of=column.difference_of,
                sum_of=column.sum_of,
                most_false=column.most_false,
                step=column.step,
                hierarchy=None if column.hierarchy is None else column.hierarchy.describe(),
            )
    for column in schema.confidential:
        sections[column.name] = sections[column.name].model_copy(update=column.masks)
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
    """Return an option as a value that JSON can represent."""
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
        reading=dict(table.origin.reading) or None,
    )


def stored_reading(manifest: Manifest | None, path: Any) -> Mapping[str, Any]:
    """Return the options that an original was read with, if the manifest describes this file."""
    section = None if manifest is None else manifest.input
    if section is None or not section.reading or not isinstance(path, (str, Path)):
        return {}
    if section.sha256_of != "file" or not Path(path).is_file():
        return {}
    return section.reading if tables.file_digest(path) == section.sha256 else {}


def describe_file(path: Path, content: Path, folder: Path) -> FileSection:
    """Describe a file that will have this path, relative to the folder of the manifest."""
    try:
        relative = os.path.relpath(path.resolve(), folder.resolve())
    except ValueError:  # on another drive
        relative = str(path.resolve())
    return FileSection(path=Path(relative).as_posix(), sha256=tables.file_digest(content))


def describe_records(
    n_read: int, n_released: int, missing: str, n_missing: int, n_suppressed: int | None = None
) -> RecordsSection:
    """Count the records read, released, dropped and suppressed, and imputed values."""
    return RecordsSection(
        read=n_read,
        released=n_released,
        dropped=n_read - n_released - (n_suppressed or 0),
        suppressed=n_suppressed,
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


def describe_bound(bound: methods.Bound, sse_ratio: float) -> BoundSection | None:
    """Compare the cells with a lower bound; None if its search was cut short.

    The bound depends on all records. Rounding keeps it from telling more of a single one than the
    loss of the cells does.
    """
    if not bound.complete:
        return None
    least = round_down(bound.distortion)
    gap = 0.0
    if sse_ratio > bound.distortion * (1 + 1e-9):
        gap = min(1.0, round_up(1 - least / sse_ratio))
    return BoundSection(sse_ratio=least, gap=gap, proof=bound.proof)


def round_down(value: float) -> float:
    """Round a number of at least 0 down to three significant digits.

    Examples
    --------
    >>> round_down(0.0344996), round_down(0.5), round_down(0.0)
    (0.0344, 0.5, 0.0)
    """
    return _round(value, ROUND_FLOOR)


def round_up(value: float) -> float:
    """Round a number of at least 0 up to three significant digits.

    Examples
    --------
    >>> round_up(0.0344996), round_up(0.5), round_up(1.0)
    (0.0345, 0.5, 1.0)
    """
    return _round(value, ROUND_CEILING)


def _round(value: float, rounding: str) -> float:
    return float(Context(prec=3, rounding=rounding).create_decimal(repr(float(value))))


def describe_requirements(
    limits: Mapping[str, float], before: Partition, enforced: Enforced, encoded: Encoded
) -> RequirementsSection | None:
    """Describe the requirements and how they were met; None if nothing was required."""
    if not limits:
        return None
    return RequirementsSection(
        limits=dict(limits),
        cells_before=len(before),
        cells_after=len(enforced.partition),
        way=enforced.way,
        sse_ratio_before=methods.distortion(encoded.matrix, before.labels, weights=encoded.weights),
        rounds=enforced.rounds,
    )


def describe_dependence(
    dependence: methods.Weights,
    quasi_identifier_loss: float,
    dependence_loss: float,
    weighted_loss: float,
    regression: str | None = None,
) -> DependenceSection:
    """Describe the trade-off with confidential columns."""
    return DependenceSection(
        weight=methods.total_weight(dependence),
        columns=methods.describe_weights(dependence),
        regression=regression,
        quasi_identifier_loss=quasi_identifier_loss,
        dependence_loss=dependence_loss,
        weighted_loss=weighted_loss,
    )


def describe_dominance(schema: Schema, n_capped: int) -> DominanceSection | None:
    """Describe the dominance rule; None without sampling weights and persons."""
    if schema.weight is None and not schema.person:
        return None
    n, p = schema.dominance
    return DominanceSection(n=n, p=p, cells_capped=n_capped)


def describe_people(
    schema: Schema, persons: Integers | None, table: Table | None = None
) -> dict[str, Any]:
    """Return the entries about people: the persons and their rows, or that each row is a person.

    With the released records, the digest of the persons is included.
    """
    if persons is None:
        return {"rows_are_people": True} if schema.rows_are_people else {}
    rows = np.bincount(persons)
    section = PersonSection(
        columns=tuple(schema.person),
        cells=schema.person_cells,
        count=len(rows),
        most_rows=int(rows.max()),
        sha256=None if table is None else _digest_persons(table, schema, persons),
    )
    return {"person": section}


def _digest_persons(table: Table, schema: Schema, persons: Integers) -> str:
    """Return the digest of the set of persons, so that another release of them is recognized."""
    first = np.unique(persons, return_index=True)[1]
    columns = [table.columns[name].factorize() for name in schema.person]
    names = sorted(
        json.dumps([texts[codes[row]] for codes, texts in columns]) for row in first.tolist()
    )
    return sha256("\n".join(names).encode()).hexdigest()


def other_releases(manifest: Manifest, path: Path) -> tuple[str, ...]:
    """Return the names of the manifests next to ``path`` of other releases of the same people.

    Releases are about the same people if their input, or the set of their persons, is the same.
    Files that are not manifests are ignored.
    """
    this_one = manifest_path(path).name
    digests = {manifest.input.sha256}
    persons = None if manifest.person is None else manifest.person.sha256
    names = []
    for file in sorted(path.parent.glob("*.manifest.json")):
        if file.name == this_one:
            continue
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            same = content["input"]["sha256"] in digests
            theirs = (content.get("person") or {}).get("sha256")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if same or (persons is not None and theirs == persons):
            names.append(file.name)
    return tuple(names)


def find_contradictions(
    manifest: Manifest,
    original: Table,
    released: Table,
    schema: Schema,
    persons: Integers | None = None,
) -> tuple[str, ...]:
    """Return the statements of the manifest that are false for these tables, as sentences.

    ``persons`` holds the person of each released row, if it is known.
    """
    counted_by = () if manifest.person is None else manifest.person.columns
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
        "The manifest does not account for all records of the original.": (not _adds_up(manifest)),
        "The release has a class smaller than the k in the manifest.": (
            _has_smaller_class(manifest.k, released, schema, persons)
        ),
        "The manifest and the schema name different person columns.": (
            set(counted_by) != set(schema.person)
        ),
        "Quasi-identifiers in the manifest have another role in the schema.": (
            not quasi <= set(schema.keys)
        ),
    }
    return tuple(sentence for sentence, is_false in statements.items() if is_false)


def _adds_up(manifest: Manifest) -> bool:
    """Return whether every record was released, dropped or suppressed, and these are named."""
    records, section = manifest.records, manifest.suppression
    n_suppressed = records.suppressed or 0
    if records.read != records.released + records.dropped + n_suppressed:
        return False
    if section is None:
        return n_suppressed == 0
    named = section.rows is None or len(set(section.rows)) == len(section.rows) == n_suppressed
    in_range = all(0 < row <= records.read for row in section.rows or ())
    return section.records == n_suppressed and named and in_range


READ_DIFFERENTLY = (
    "The original is the file that the release was produced from, but it was read with other "
    "options: values that should be unchanged differ. Repeat the audit with the options of the "
    "release (--na, --decimal, --delimiter, --encoding, --quote); the results below are not valid."
)


def was_read_differently(
    manifest: Manifest, original: Table, released: Table, audit: Audit
) -> bool:
    """Return True if both files match the manifest but the tables contradict each other."""
    files = ((manifest.input, original), (manifest.output, released))
    for section, table in files:
        if section is None or section.sha256_of != "file" or table.origin.path is None:
            return False
        if _differs(section, table):
            return False
    n_read = manifest.records.read
    return audit.measures["values_changed"].value > 0 or original.rows != n_read


def _has_smaller_class(k: int, released: Table, schema: Schema, persons: Integers | None) -> bool:
    if not released.rows or not set(schema.keys) <= set(released.columns):
        return False
    classes = auditing.class_labels(released, schema.keys)
    return int(people.count_people(classes, persons).min()) < k


def has_digest(section: TableSection, table: Table) -> bool:
    """Return True if the digest proves that the table is the one described."""
    return _digest_like(section, table) == section.sha256


def _differs(section: TableSection, table: Table) -> bool:
    """Return True if the digest proves that the table is not the one described."""
    return _digest_like(section, table) not in (None, section.sha256)


def _digest_like(section: TableSection, table: Table) -> str | None:
    """Return the digest to compare with that of the section, or None if they are not comparable."""
    path = table.origin.path
    if (path is None) != (section.sha256_of == "contents"):
        return None
    return tables.digest(table) if path is None else tables.file_digest(path)
