"""The manifest of a release in words: column roles, how it was created, how to repeat it.

Users may pass any manifest file, so invalid entries are left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

from microcell._display import percent
from microcell.model import Audit
from microcell.report.wording import Fact, counted, join_words

__all__ = ["RoleGroup", "column_roles", "imputation_note", "provenance", "rerun_command"]

Entries = Mapping[str, Any]

_ROLES: Mapping[str, str] = {
    "person": "Person, counted by k (removed)",
    "identifier": "Identifiers (removed)",
    "drop": "Other columns (removed)",
    "quasi": "Quasi-identifiers",
    "strata": "Strata (unchanged)",
    "confidential": "Confidential (unchanged)",
    "masked": "Confidential (masked)",
    "keep": "Other columns (unchanged)",
    "weight": "Sampling weight (unchanged)",
}
_MASKS: Mapping[str, str] = {
    "bottom": "at least",
    "top": "at most",
    "round": "to multiples of",
    "noise": "noise of variance share",
    "swap": "swapped within a share of ranks of",
}
"""How masks of confidential numbers are described, before the number."""

_REPRESENTATIVES: Mapping[str, str] = {
    "mean": "published as the mean of the cell",
    "median": "published as the median of the cell",
    "range": "published as the range of the cell",
    "mode": "published as the most frequent value of the cell",
    "prefix": "published as the common prefix of the cell",
    "ancestor": "published as the smallest common group of the cell",
    "set": "published as the values of the cell",
}
_MISSING: Mapping[str, str] = {
    "error": "not allowed",
    "drop": "records dropped",
    "impute": "imputed",
}
_PERSON_CELLS: Mapping[str, str] = {
    "rows": "the rows of a person may lie in different cells",
    "together": "all rows of a person lie in the same cell",
}
_STATED = (
    "the schema states that every row is about a different person (rows_are_people), so k counts "
    "records; the table cannot confirm this"
)
_ROW_ORDERS: Mapping[str, str] = {"shuffled": "shuffled", "kept": "as in the original"}


# ------------------------------------------------------------------------------ columns


@dataclass(frozen=True)
class RoleGroup:
    """The columns of one role, each with how it is published."""

    label: str
    columns: tuple[str, ...]


def column_roles(manifest: Entries | None) -> tuple[RoleGroup, ...]:
    """Return the columns of each role; empty without a manifest.

    Examples
    --------
    >>> columns = {"name": {"role": "identifier"},
    ...            "age": {"role": "quasi", "kind": "numeric", "publish": "mean"}}
    >>> [group.columns for group in column_roles({"columns": columns})]
    [('name',), ('age (numeric, published as the mean of the cell)',)]
    """
    groups: dict[str, list[str]] = {role: [] for role in _ROLES}
    for name, column in _section(manifest or {}, "columns").items():
        role = column.get("role") if isinstance(column, Mapping) else None
        if role == "confidential" and any(column.get(key) is not None for key in _MASKS):
            role = "masked"
        if isinstance(role, str) and role in groups:
            groups[role].append(f"{name}{_treatment(column)}")
    return tuple(RoleGroup(_ROLES[role], tuple(names)) for role, names in groups.items() if names)


def _treatment(column: Entries) -> str:
    """Describe in parentheses how a column is published, if it is not published unchanged."""
    weight = _text(column.get("weight"))
    masks = [(phrase, column.get(key)) for key, phrase in _MASKS.items()]
    parts = (
        _text(column.get("kind")),
        _published(column),
        f"weight {weight}" if weight not in ("", "1") else "",
        *(f"{phrase} {value:,.12g}" for phrase, value in masks if isinstance(value, (int, float))),
    )
    description = ", ".join(part for part in parts if part)
    return f" ({description})" if description else ""


def _published(column: Entries) -> str:
    """Describe the representative of a quasi-identifier, and its relation to other columns."""
    difference, parts, earlier = (column.get(key) for key in ("difference_of", "sum_of", "after"))
    if isinstance(difference, Sequence) and len(difference) == 2:
        return f"published as {difference[0]} minus {difference[1]}"
    if isinstance(parts, Sequence) and parts:
        return f"published as the sum of {', '.join(map(str, parts))}"
    representative = _REPRESENTATIVES.get(str(column.get("publish")), "")
    return f"{representative}, never before {earlier}" if earlier else representative


def imputation_note(manifest: Entries | None, audit: Audit | None = None) -> str:
    """Describe how many missing values were imputed; empty if none, or if a finding reports it.

    Examples
    --------
    >>> imputation_note({"records": {"read": 60, "released": 60, "dropped": 0, "imputed": 1}})
    '1 missing quasi-identifier value was imputed; its record is published with the values of its
    cell.'
    """
    if audit is not None and any(item.code == "utility.imputed" for item in audit.findings):
        return ""
    count = _section(manifest or {}, "records").get("imputed")
    if not isinstance(count, int) or count < 1:
        return ""
    if count == 1:
        return (
            "1 missing quasi-identifier value was imputed; its record is published with the values "
            "of its cell."
        )
    return (
        f"{count:,} missing quasi-identifier values were imputed; their records are published with "
        "the values of their cells."
    )


# ------------------------------------------------------------------------------ how it was created


def provenance(manifest: Entries | None) -> tuple[Fact, ...]:
    """Return facts on how the release was created; empty without a manifest.

    Examples
    --------
    >>> provenance({"cells": {"count": 400, "smallest": 5, "largest": 5}})
    (Fact(label='Cells', text='400 cells of 5 records'),)
    """
    texts = {label: describe(manifest or {}) for label, describe in _DESCRIPTIONS.items()}
    return tuple([Fact(label, text) for label, text in texts.items() if text])


def _requested_k(manifest: Entries) -> str:
    """Return the requested k; with blocks, the manifest's own k is that of all blocks combined."""
    return _text(_section(manifest, "blocks").get("k", manifest.get("k")))


def _method(manifest: Entries) -> str:
    method = _section(manifest, "method")
    used, requested, reason = (_text(method.get(key)) for key in ("used", "requested", "reason"))
    if not used:
        return ""
    options = ", ".join(
        f"{name} = {_text(value)}" for name, value in _section(method, "options").items()
    )
    text = f"{used} with {options}" if options else used
    if requested in ("", used):
        return text
    return f"{text}, {reason}" if reason else f'{text}, chosen by "{requested}"'


def _persons(manifest: Entries) -> str:
    """Describe the persons that k counts; public reports name no columns."""
    entries = _section(manifest, "person")
    count, most, columns = (entries.get(key) for key in ("count", "most_rows", "columns"))
    if not isinstance(count, int):
        return ""
    text = counted(count, "person")
    if isinstance(most, int):
        text += f" with at most {counted(most, 'row')} each"
    if isinstance(columns, (list, tuple)):
        text += f", identified by {join_words([str(name) for name in columns])}"
    return f"{text}; {_PERSON_CELLS.get(str(entries.get('cells')), 'k counts persons')}"


def _rows_are_people(manifest: Entries) -> str:
    return _STATED if manifest.get("rows_are_people") is True else ""


def _batches(manifest: Entries) -> str:
    batches = _section(manifest, "method").get("batches")
    if not isinstance(batches, (list, tuple)) or not batches:
        return ""
    return f"{counted(len(batches), 'batch')} added to the initial cells"


def _records(manifest: Entries) -> str:
    records = _section(manifest, "records")
    parts = (
        ("read", "in the original"),
        ("released", "published"),
        ("dropped", "dropped"),
        ("suppressed", "suppressed"),
    )
    counts = ((records.get(key), words) for key, words in parts)
    return ", ".join(f"{count:,} {words}" for count, words in counts if isinstance(count, int))


def _suppression(manifest: Entries) -> str:
    """Describe the records left out because they cost most, and what that saves."""
    entries = _section(manifest, "suppression")
    share, records, saved = (entries.get(key) for key in ("share", "records", "saved"))
    if not (isinstance(share, (int, float)) and isinstance(records, int)):
        return ""
    text = f"up to {percent(share)} of the records, those that cost most: {records:,}"
    if not records or not isinstance(saved, (int, float)):
        return text
    return f"{text}, which saves {percent(saved)} of the loss within cells"


def _cells(manifest: Entries) -> str:
    cells = _section(manifest, "cells")
    count, low, high = (cells.get(key) for key in ("count", "smallest", "largest"))
    if not (isinstance(count, int) and isinstance(low, int) and isinstance(high, int)):
        return _text(count)
    sizes = counted(low, "record") if low == high else f"{low:,} to {counted(high, 'record')}"
    return f"{counted(count, 'cell')} of {sizes}"


def _bound(manifest: Entries) -> str:
    """Compare the cells with the lower bound on the information loss."""
    bound, ratio = _section(manifest, "bound"), _section(manifest, "cells").get("sse_ratio")
    least, gap = bound.get("sse_ratio"), bound.get("gap")
    if not (isinstance(least, (int, float)) and isinstance(ratio, (int, float))):
        return ""
    text = f"these cells lose {percent(ratio)} of the variance of the encoded quasi-identifiers; "
    if gap == 0:
        return f"{text}no partition of these records loses less"
    return f"{text}no partition of these records loses less than {percent(least)}"


def _blocks(manifest: Entries) -> str:
    blocks = _section(manifest, "blocks")
    columns, k = blocks.get("columns"), blocks.get("k")
    if not isinstance(k, int):
        return ""
    jointly = blocks.get("jointly_k_anonymous") is True
    caveat = "" if jointly else f", but not {k}-anonymous in all columns combined"
    # Public reports do not list the blocks.
    if not isinstance(columns, (list, tuple)):
        return f"{k}-anonymous in each block{caveat}"
    names = "; ".join(
        ", ".join(map(str, block)) for block in columns if isinstance(block, (list, tuple))
    )
    return f"{k}-anonymous in each of {counted(len(columns), 'block')} ({names}){caveat}"


def _dependence(manifest: Entries) -> str:
    entries = _section(manifest, "dependence")
    names = ("weight", "quasi_identifier_loss", "dependence_loss", "weighted_loss")
    values = [entries.get(name) for name in names]
    if not all(isinstance(value, (int, float)) for value in values):
        return ""
    weight, quasi, confidential, weighted = map(_text, values)
    return (
        f"weight (lambda) {weight}; information loss of the quasi-identifiers (D_X) {quasi}, loss "
        f"of their relation with the confidential columns (D_Y) {confidential}, weighted sum "
        f"{weighted}"
    )


def _requirements(manifest: Entries) -> str:
    return ", ".join(f"{name} = {limit:g}" for name, limit in _limits(manifest).items())


def _cells_within_limits(manifest: Entries) -> str:
    requirements = _section(manifest, "requirements")
    after, before, way = (requirements.get(key) for key in ("cells_after", "cells_before", "way"))
    if not (isinstance(after, int) and isinstance(before, int) and isinstance(way, str)):
        return ""
    return f"{way}: {counted(after, 'cell')} instead of {before:,} without limits"


def _original(manifest: Entries) -> str:
    entries = _section(manifest, "input")
    sizes = ((entries.get(key), noun) for key, noun in (("rows", "row"), ("columns", "column")))
    return ", ".join(counted(size, noun) for size, noun in sizes if isinstance(size, int))


def _input_digest(kind: str) -> Callable[[Entries], str]:
    def describe(manifest: Entries) -> str:
        entries = _section(manifest, "input")
        return _text(entries.get("sha256")) if entries.get("sha256_of", "file") == kind else ""

    return describe


def _output_digest(manifest: Entries) -> str:
    return _text(_section(manifest, "output").get("sha256"))


def _created(manifest: Entries) -> str:
    return _text(manifest.get("created")).replace("T", " ").replace("+00:00", " UTC")


def _run_time(manifest: Entries) -> str:
    seconds = _text(manifest.get("seconds"))
    return f"{seconds} s" if seconds else ""


def _entry(key: str, words: Mapping[str, str] | None = None) -> Callable[[Entries], str]:
    """Describe one entry of the manifest, translated by ``words`` if it is listed there."""
    return lambda manifest: (words or {}).get(_text(manifest.get(key)), _text(manifest.get(key)))


_DESCRIPTIONS: Mapping[str, Callable[[Entries], str]] = {
    "Requested k": _requested_k,
    "Method": _method,
    "Random seed": _entry("seed"),
    "Missing values": _entry("missing", _MISSING),
    "Records": _records,
    "Suppressed records": _suppression,
    "Persons": _persons,
    "Rows and people": _rows_are_people,
    "Batches": _batches,
    "Cells": _cells,
    "Distance to the optimum": _bound,
    "Blocks of columns": _blocks,
    "Preserved dependence": _dependence,
    "Enforced requirements": _requirements,
    "Cells within the limits": _cells_within_limits,
    "Row order": _entry("row_order", _ROW_ORDERS),
    "Original table": _original,
    "SHA-256 of the original file": _input_digest("file"),
    "SHA-256 of the original contents": _input_digest("contents"),
    "SHA-256 of the published file": _output_digest,
    "Created": _created,
    "Run time": _run_time,
    "microcell version": _entry("microcell"),
}
"""Labels and the functions that describe them; labels without a text are left out."""


# ------------------------------------------------------------------------------ how to repeat it


def rerun_command(manifest: Entries | None) -> str:
    """Return the command that reproduces the release, or an empty string.

    Examples
    --------
    >>> method = {"requested": "vmdav", "used": "vmdav", "options": {"gamma": 0.2}}
    >>> rerun_command({"k": 5, "seed": 7, "method": method})
    'microcell anonymize ORIGINAL -s SCHEMA -k 5 --method vmdav --set gamma=0.2 --seed 7 -o
    RELEASED'
    """
    entries = manifest or {}
    method = _section(entries, "method")
    k, seed = entries.get("k"), entries.get("seed")
    requested = method.get("requested", method.get("used"))
    complete = isinstance(k, int) and isinstance(seed, int) and isinstance(requested, str)
    # A release of several batches cannot be reproduced by a single command.
    if not complete or method.get("batches"):
        return ""
    words = ["microcell", "anonymize", "ORIGINAL", "-s", "SCHEMA", "-k", _requested_k(entries)]
    words += _reading_options(_section(_section(entries, "input"), "reading"))
    words += ["--method", str(requested), *_method_options(_section(method, "options"))]
    words += ["--seed", str(seed), *_require_options(entries), *_design_options(entries)]
    words += _person_options(entries)
    if entries.get("missing") in ("drop", "impute"):
        words += ["--missing", str(entries["missing"])]
    share = _section(entries, "suppression").get("share")
    if isinstance(share, (int, float)):
        words += ["--suppress", _exact(share)]
    function = _section(entries, "cells").get("function")
    if function in ("power", "balls"):
        words += ["--cells", "CELLS.json", "--cells-kind", str(function)]
    if entries.get("row_order") == "kept":
        words.append("--keep-order")
    elif entries.get("row_order") == "shuffled":
        words += ["--order-key", "MANIFEST"]
    return " ".join(quote(word) for word in (*words, "-o", "RELEASED"))


def _reading_options(reading: Entries) -> Iterator[str]:
    for name, value in reading.items():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            yield from (f"--{name.replace('_', '-')}", str(item))


def _method_options(options: Entries) -> Iterator[str]:
    for name, value in options.items():
        if name == "effort":
            yield from ("--effort", str(value))
        elif isinstance(value, bool):
            yield from ("--set", f"{name}={str(value).lower()}")
        elif isinstance(value, (int, float, str)):
            yield from ("--set", f"{name}={value}")


def _require_options(manifest: Entries) -> Iterator[str]:
    for name, limit in _limits(manifest).items():
        yield from ("--require", f"{name}={_exact(limit)}")


def _design_options(manifest: Entries) -> Iterator[str]:
    dependence = _section(manifest, "dependence")
    weight, by_column = dependence.get("weight"), dependence.get("columns")
    columns = _section(manifest, "blocks").get("columns")
    if isinstance(by_column, Mapping):
        weights = (f"{name}={_exact(value)}" for name, value in by_column.items())
        yield from ("--dependence", ",".join(weights))
    elif isinstance(weight, (int, float)):
        yield from ("--dependence", _exact(weight))
    if dependence.get("regression") not in (None, "linear"):
        yield from ("--regression", str(dependence["regression"]))
    if isinstance(columns, (list, tuple)):
        blocks = (
            ",".join(map(str, block)) for block in columns if isinstance(block, (list, tuple))
        )
        yield from ("--blocks", ";".join(blocks))


def _person_options(manifest: Entries) -> Iterator[str]:
    entries = _section(manifest, "person")
    columns = entries.get("columns")
    if isinstance(columns, (list, tuple)) and columns:
        yield from ("--person", ",".join(map(str, columns)))
        if entries.get("cells") == "together":
            yield from ("--person-cells", "together")
    elif manifest.get("rows_are_people") is True:
        yield "--rows-are-people"


def _limits(manifest: Entries) -> dict[str, float]:
    limits = _section(_section(manifest, "requirements"), "limits")
    return {name: limit for name, limit in limits.items() if isinstance(limit, (int, float))}


def _exact(number: float) -> str:
    """Format a number with all digits, because rounding it could change the release."""
    return str(int(number)) if float(number).is_integer() else repr(float(number))


def _section(manifest: Entries, key: str) -> Entries:
    section = manifest.get(key)
    return section if isinstance(section, Mapping) else {}


def _text(value: Any) -> str:
    if value is None or isinstance(value, (Mapping, list, tuple)):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
