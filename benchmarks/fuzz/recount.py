"""Publish a case and recount the release from its bytes, without the code of the library."""

import hashlib
import json
import math
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import microcell as mc
from benchmarks.adversary.buffers import file_bytes
from benchmarks.fuzz.cases import Case
from benchmarks.fuzz.fields import Field, is_missing
from benchmarks.fuzz.groups import is_grouped, smallest_groups
from benchmarks.fuzz.readers import Columns, convert, ordered_columns, read_columns
from benchmarks.fuzz.sources import HIDDEN, make_source

__all__ = ["RecountError", "anonymize", "check", "publish", "recount", "run_case"]


class RecountError(AssertionError):
    """A release that breaks a promise."""


def check(holds: object, promise: str) -> None:
    """Raise RecountError unless the promise holds."""
    if not holds:
        raise RecountError(promise)


def run_case(case: Case, folder: Path) -> str:
    """Publish and recount a case in an empty folder; return "released" or the code of a refusal."""
    source = make_source(case, folder)
    before = {path.name for path in folder.iterdir()}
    output = folder / f"release{case.suffix}"
    try:
        release = publish(anonymize(case, source), case, output)
    except mc.MicrocellError as error:
        check_refusal(case, error)
        check({path.name for path in folder.iterdir()} == before, "a refusal leaves no file")
        return error.code
    left = {path.name for path in folder.iterdir()} - before
    check(left == set(outputs(case)), f"no other file is left: {sorted(left)}")
    recount(case, release, output)
    if case.seed % 10 == 0:
        check_audit(case, source, output)
    if case.seed % 10 == 1 and "order_key" in case.settings:
        content = output.read_bytes()
        publish(anonymize(case, source), case, output)
        check(output.read_bytes() == content, "the same order key gives the same bytes")
    return "released"


def outputs(case: Case) -> list[str]:
    """Return the names of the files of a release, in the order of their renames."""
    name = f"release{case.suffix}"
    return [name, *(["cells.json"] if case.with_cells else []), f"{name}.manifest.json"]


def anonymize(case: Case, source: Any, **changes: Any) -> Any:
    """Anonymize the table of a case."""
    settings = {"k": case.k, "method": case.method, **case.options, **case.settings, **changes}
    return mc.anonymize(source, case.schema, **settings)


def publish(release: Any, case: Case, output: Path) -> Any:
    """Publish a release of a case."""
    cells = output.with_name("cells.json") if case.with_cells else None
    return release.publish(output, cells=cells, **case.publish)


def check_refusal(case: Case, error: mc.MicrocellError) -> None:
    """Check that a case may be refused like this, and that the message has no value in it."""
    check(error.code in case.refusals, f"refused with {error.code}: {error}")
    check(not _tokens_in(f"{error} {error.details}".encode()), "the error contains a value")


# ------------------------------------------------------------------------------------------ recount


def recount(case: Case, release: Any, output: Path) -> None:
    """Check every promise of a release on its files."""
    manifest = check_digests(case, output)
    columns = read_columns(output)
    by_role = {item.name: item for item in case.fields}
    expected = [
        name for name in by_role if by_role[name].role not in ("identifiers", "person", "drop")
    ]
    check(list(columns) == expected, "the columns are those to publish, in their order")
    rows = case.released_rows()
    n_read = {len(values) for values in columns.values()}
    check(n_read == {len(rows)}, f"{len(rows)} records, none lost and none invented: {n_read}")
    order = range(len(rows)) if case.publish.get("keep_order") else release.row_order.tolist()
    check(sorted(order) == list(range(len(rows))), "the order is a permutation")
    published = [rows[position] for position in order]
    for name in expected:
        if by_role[name].role != "quasi":
            _check_unchanged(case, by_role[name].take(published), columns[name])
    persons = [item.take(published).values for item in case.of_role("person")]
    _check_classes(case, manifest, columns, persons[0] if persons else range(len(published)))
    _check_relations(case, columns)
    if manifest.get("blocks") is None:
        _check_representatives(case, release, published, order, columns)
    _check_bytes(case, output, columns)


def check_digests(case: Case, output: Path) -> dict[str, Any]:
    """Check the manifest against the files next to it; return it."""
    path = output.with_name(f"{output.name}.manifest.json")
    manifest: dict[str, Any] = json.loads(path.read_bytes())
    check(path.stat().st_mode & 0o777 == 0o600, "only the owner can read the manifest")
    digest = hashlib.sha256(output.read_bytes()).hexdigest()
    check(manifest["output"]["sha256"] == digest, "the manifest has the digest of the table")
    files = {entry["path"]: entry["sha256"] for entry in manifest.get("files") or ()}
    check(list(files) == outputs(case)[1:-1], "the manifest lists the other files")
    for name, recorded in files.items():
        digest = hashlib.sha256(output.with_name(name).read_bytes()).hexdigest()
        check(recorded == digest, "the manifest has the digests of the other files")
    return manifest


def _check_unchanged(case: Case, item: Field, values: Sequence[Any]) -> None:
    for row, (before, raw) in enumerate(zip(item.values, values, strict=True), start=1):
        if case.publish.get("escape_formulas") and item.type == "text":
            _check_escaped(raw)
        if item.column is not None and not is_missing(before):
            _check_masked(case, item, before, convert(raw, item.type, case.suffix))
            continue
        try:
            same = any(
                _equal(before, convert(form, item.type, case.suffix), item.type, case.suffix)
                for form in _forms(case, item, raw)
            )
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise RecountError(
                f"{item.type} {before!r} became {raw!r} (row {row}, {error})"
            ) from None
        check(same, f"{item.role} {item.type} {before!r} became {raw!r} (row {row})")


def _check_masked(case: Case, item: Field, before: Any, after: Any) -> None:
    """Check that a number is published within its bounds, as the nearest multiple of a step."""
    assert item.column is not None
    column, step = item.column, item.column.round
    if column.bottom is not None:
        before = max(before, column.bottom)
    if column.top is not None:
        before = min(before, column.top)
    if step is None:
        same = _equal(before + 0.0, after + 0.0, "float", case.suffix)  # -0.0 may become 0.0
        check(same, f"{before!r}, after bounds, became {after!r}")
        return
    what = f"{before!r} rounded to multiples of {step} became {after!r}"
    check(after is not None and abs(after - before) <= step / 2 * (1 + 1e-9), what)
    check(abs(after / step - round(after / step)) <= 1e-9 * max(1, abs(after / step)), what)


def _forms(case: Case, item: Field, raw: Any) -> list[Any]:
    """Return the values that a value of the file may represent: a text may have been escaped."""
    is_text = item.type == "text" or (item.column is not None and is_grouped(item.column))
    escapes = case.publish.get("escape_formulas") and is_text and isinstance(raw, str)
    if not escapes or not raw.startswith("'"):
        return [raw]
    return [raw[1:]] if _is_formula(raw.lstrip("'")) else [raw]


_NUMBER = re.compile(r"[+-]?[\d.,]+([eE][+-]?\d+)?( to [+-]?[\d.,]+([eE][+-]?\d+)?)?")


def _check_escaped(raw: Any) -> None:
    check(not (isinstance(raw, str) and _is_formula(raw)), f"a formula is not escaped: {raw!r}")


def _is_formula(text: str) -> bool:
    """Return whether a spreadsheet program may run the text; numbers with a sign are harmless."""
    return text[:1] in tuple("=+-@\t\r") and _NUMBER.fullmatch(text) is None


_WITHOUT_NEGATIVE_ZERO = (".xlsx", ".xpt", ".sav", ".zsav")


def _equal(before: Any, after: Any, kind: str, suffix: str) -> bool:
    if is_missing(before) or after is None:
        return is_missing(before) and after is None
    if kind == "single":
        single = struct.unpack("f", struct.pack("f", before))[0]
        sheet = {float(f"{single:.16G}")} if suffix == ".xlsx" else set()
        return after in {single, _shortest(single), *sheet}
    if kind == "float":
        sign = math.copysign(1, before) == math.copysign(1, after)
        same = after == before or (suffix == ".xlsx" and after == float(f"{before:.16G}"))
        return same and (sign or suffix in _WITHOUT_NEGATIVE_ZERO)
    if kind == "datetime" and suffix in (".xlsx", ".sav", ".zsav", ".dta", ".xpt"):
        return bool(abs(after - before) <= timedelta(milliseconds=1))
    return bool(after == before)


def _shortest(single: float) -> float:
    """Return the number with the fewest digits that is this single-precision number."""
    for digits in range(1, 10):
        short = float(f"{single:.{digits}g}")
        if struct.unpack("f", struct.pack("f", short))[0] == single:
            return short
    return single


def _check_classes(
    case: Case, manifest: dict[str, Any], columns: Columns, persons: Sequence[Any]
) -> None:
    """Count the people of each class; ``persons`` holds the person of each record of the file."""
    keys = [item.name for item in case.of_role("quasi", "strata")]
    k, blocks = manifest["k"], manifest.get("blocks")
    required = case.settings.get("require", {})
    least = max(case.k, required.get("k", 0))
    check(k >= case.k or blocks is not None, "the manifest states the requested k")
    smallest = _smallest_class(columns, keys, persons)
    check(smallest >= k, f"a class of {smallest}, below k = {k}")
    check(smallest >= least or blocks is not None, f"a class of {smallest}, below {least}")
    if blocks is not None:
        strata = [item.name for item in case.of_role("strata")]
        parts = {column.name: column.parts for column in case.schema.quasi}
        for names in blocks["columns"]:
            block = [part for name in names for part in parts[name]]
            smallest = _smallest_class(columns, [*block, *strata], persons)
            check(smallest >= case.k, "a block has a class below k")
    distinct = required.get("l_diversity", 2 if "homogeneous_records" in required else 1)
    for item in case.of_role("confidential"):
        values = defaultdict(set)
        for label, value in zip(_classes(columns, keys), columns[item.name], strict=True):
            values[label].add(None if value == "" or is_missing(value) else value)
        fewest = min(map(len, values.values()))
        check(fewest >= distinct, f"a class has too few values of {item.name}")


def _smallest_class(columns: Columns, keys: Sequence[str], persons: Sequence[Any]) -> int:
    """Return the fewest people of a class."""
    people = defaultdict(set)
    for label, person in zip(_classes(columns, keys), persons, strict=True):
        people[label].add(person)
    return min(map(len, people.values()))


def _check_relations(case: Case, columns: Columns) -> None:
    """Check that dates are in order, and that differences and sums are right."""
    types = {item.name: item.type for item in case.of_role("quasi")}
    empty = {item.name for item in case.of_role("quasi") if all(map(is_missing, item.values))}

    def read(name: str) -> list[Any]:
        return [convert(raw, types[name], case.suffix) for raw in columns[name]]

    for column in case.schema.quasi:
        if not column.related:
            continue
        others = [read(name) for name in column.related]
        for value, *terms in zip(read(column.name), *others, strict=True):
            what = f"{column.name} {value!r} of {terms!r}"
            if value is None and column.name in empty:
                continue  # a column without values may have no type
            if any(term is None for term in terms):
                check(column.after or value is None, f"missing if a part is missing: {what}")
            elif column.difference_of:
                check(value == (terms[0] - terms[1]).days, f"the difference: {what}")
            elif column.sum_of:
                check(abs(value - sum(terms)) <= 1e-6, f"the sum: {what}")
            else:
                check(value is None or value >= terms[0], f"in order: {what}")


def _classes(columns: Columns, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the key of each record, as it stands in the file."""
    parts = [[None if is_missing(value) else value for value in columns[key]] for key in keys]
    return list(zip(*parts, strict=True)) if parts else []


def _check_representatives(
    case: Case, release: Any, published: Sequence[int], order: Iterable[int], columns: Columns
) -> None:
    """Check that every published value lies within its cell."""
    labels = release.partition.labels
    cell_of = [int(labels[position]) for position in order]
    for item in case.of_role("quasi"):
        column = item.column
        if column is None or column.kind == "location" or column.related:
            continue
        members: dict[int, list[Any]] = defaultdict(list)
        for row, cell in zip(published, cell_of, strict=True):
            if not is_missing(item.values[row]):
                members[cell].append(item.values[row])
        present = [value for value in item.values if not is_missing(value)]
        spread = max(present) - min(present) if present and item.type != "text" else 0
        digits = 1e-9 * spread if isinstance(spread, float) else 0.0
        if item.type == "single":
            digits = max(digits, 1e-6 * max(map(abs, present), default=0.0))
        cells = dict(zip(cell_of, columns[item.name], strict=True))
        for cell, raw in cells.items():
            _check_within(case, item, raw, members[cell], digits)


def _check_within(case: Case, item: Field, raw: Any, members: list[Any], digits: float) -> None:
    """Check a published value; means are rounded to ``digits``."""
    column = item.column
    assert column is not None
    what = f"{item.type} {column.kind} {raw!r} of {members!r}"
    if is_grouped(column) or column.publish in ("range", "set") or column.kind == "code":
        value = convert(_forms(case, item, raw)[0], "text", case.suffix)
    else:
        value = convert(_forms(case, item, raw)[0], item.type, case.suffix)
    if value is None or not members:
        check(value is None and not members, f"missing if all are missing: {what}")
    elif is_grouped(column) or column.publish == "set":
        check(value in smallest_groups(column, members), f"the smallest group: {what}")
    elif column.publish == "range":
        _check_range(value, members, what)
    elif column.kind == "code":
        prefix = value.rstrip("*")
        check(all(member.startswith(prefix) for member in members), f"a common prefix: {what}")
    elif column.kind in ("nominal", "ordinal"):
        check(value in members, f"a member's category: {what}")
    else:
        low, high = _slack(min(members), -1, digits), _slack(max(members), 1, digits)
        check(low <= value <= high, f"within the cell: {what}")


def _slack(bound: Any, sign: int, digits: float = 0.0) -> Any:
    """Return a bound with room for rounding."""
    if isinstance(bound, datetime):
        return bound + sign * timedelta(milliseconds=2)
    if isinstance(bound, (date, int)):
        return bound
    single = struct.unpack("f", struct.pack("f", bound))[0] if abs(bound) < 3.4e38 else bound
    nearest = min(bound, single) if sign < 0 else max(bound, single)
    return nearest + sign * (1e-9 * abs(nearest) + digits + 1e-300)


_RANGE = re.compile(r"([+-]?[\d.]+(?:[eE][+-]?\d+)?)(?:-| to )([+-]?[\d.]+(?:[eE][+-]?\d+)?)")


def _check_range(text: str, members: list[Any], what: str) -> None:
    match = _RANGE.fullmatch(text)
    low_bound = float(match[1] if match else text)
    high_bound = float(match[2] if match else text)
    check(
        low_bound <= _slack(min(members), 1) and _slack(max(members), -1) <= high_bound,
        f"a range that contains its cell: {what}",
    )


# ------------------------------------------------------------------------------------------- bytes

_TOKEN = re.compile(rb"(?:Pname|Nnote|Rtown)[bcdfghjklmnpqrstvwxz]{10}")


def _tokens_in(content: bytes) -> set[str]:
    found = _TOKEN.findall(content) + _TOKEN.findall(content.replace(b"\0", b""))
    return {text.decode() for text in found}


def _check_bytes(case: Case, output: Path, columns: Columns) -> None:
    """Check that no text of the original is left that the release replaces or removes."""
    published = {
        part
        for item in case.of_role("quasi")
        for value in columns[item.name]
        if value is not None
        for part in str(value).lstrip("'").split(" or ")
    }
    ordinal = [column.name for column in case.schema.quasi if column.kind == "ordinal"]
    check(ordered_columns(output) <= set(ordinal), "only ordinal columns have ordered categories")
    for name in outputs(case):
        content = file_bytes(output.with_name(name))
        left = _tokens_in(content) - published
        if name == "cells.json":
            left -= _shared_values(case)
        check(not left, f"{name} contains {sorted(left)[:3]}")
        for pattern in HIDDEN:
            check(pattern not in content, f"{name} contains hidden bytes {pattern!r}")


def _shared_values(case: Case) -> set[str]:
    """Return the texts that k people have: the cells file contains those of quasi-identifiers."""
    persons = [item.values for item in case.of_role("person")]
    people: dict[str, set[Any]] = defaultdict(set)
    for item in case.of_role("quasi"):
        for row in case.released_rows():
            people[str(item.values[row])].add(persons[0][row] if persons else row)
    return {text for text, those in people.items() if len(those) >= case.k}


def check_audit(case: Case, source: Any, output: Path) -> None:
    """Check that an audit of the files agrees."""
    audit = mc.audit(source, output, case.schema, brief=True)
    check(audit["values_changed"] == 0, f"the audit finds changes: {audit['values_changed']}")
    check(audit["manifest_contradictions"] == 0, "the audit contradicts the manifest")
    check(audit["k"] >= (1 if "blocks" in case.settings else case.k), "the audit finds k too small")
