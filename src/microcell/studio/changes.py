"""Changes of a project: edits of its run file, validated like a run file on disk."""

import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from inspect import signature
from typing import Any

import microcell as mc
from microcell.errors import OptionError
from microcell.hierarchies import BUNDLED
from microcell.kinds import KINDS
from microcell.model.manifest import ORDER_KEY_PATTERN
from microcell.schema.files import ColumnEntry
from microcell.studio.tasks import parse_run

__all__ = ["PRESETS", "Edit", "apply_edits", "apply_preset", "field_value", "first_run"]

Edit = tuple[Sequence[str], Any]
"""A path of keys in the run file, and the new value; None removes the key."""

_DEFAULT_K = 5

PRESETS: Mapping[str, tuple[int, float]] = {"open": (10, 3), "research": (5, 2), "internal": (3, 2)}
"""Typical goals, by their name: k and l-diversity."""


def first_run(schema: Mapping[str, Any] | None, read: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a new project."""
    run: dict[str, Any] = {"k": _DEFAULT_K}
    if schema is not None:
        run["schema"] = dict(schema)
        if any(item.get("role") == "confidential" for item in schema["columns"].values()):
            run["require"] = {"l_diversity": 2.0}
    return run | ({"read": dict(read)} if read else {})


def apply_edits(
    run: Mapping[str, Any],
    edits: Sequence[Edit],
    facts: Mapping[str, Any] | None = None,
    *,
    allow_files: bool = True,
) -> tuple[dict[str, Any], str]:
    """Return the edited run and a label for the history; raise if it would be invalid.

    ``facts`` are the inspected facts of the columns by name, from which a column that becomes a
    quasi-identifier gets its kind. Without ``allow_files`` a run that names files is refused.
    """
    changed = deepcopy(dict(run))
    for path, value in edits:
        if len(path) == 4 and path[:2] == ["schema", "columns"] and path[3] == "role":
            _set_role(changed["schema"]["columns"], path[2], value, facts or {})
        else:
            _set(changed, path, value)
    if not allow_files:
        _refuse_files(changed)
    _check_options(changed)
    parse_run(changed)
    return changed, _label(edits)


def _check_options(run: Mapping[str, Any]) -> None:
    """Raise OptionError if an option of the method would override a setting of its own."""
    options = run.get("options", {})
    for name in options if isinstance(options, dict) else ():
        if name in signature(mc.anonymize).parameters:
            raise OptionError(
                f"{name!r} is not an option of a method.", code="option.unknown", option=name
            )


def _refuse_files(run: Mapping[str, Any]) -> None:
    """Raise OptionError if the run names a file: people who share a studio share its machine."""
    schema = run.get("schema")
    columns = schema.get("columns", {}) if isinstance(schema, dict) else {}
    entries = [entry for entry in columns.values() if isinstance(entry, dict)]
    key = run.get("order_key")
    named = {name: name in run for name in ("input", "output", "report", "cells")}
    named["schema"] = isinstance(schema, str)
    named["order_key"] = isinstance(key, str) and not re.fullmatch(ORDER_KEY_PATTERN, key.lower())
    named["hierarchy"] = any(
        isinstance(groups := entry.get("hierarchy"), str) and groups not in BUNDLED
        for entry in entries
    )
    for name, is_file in named.items():
        if is_file:
            raise OptionError(
                f"{name} names a file, which a shared studio does not read or write. Use a bundled "
                "hierarchy, or leave it out.",
                code="option.unsupported",
                option=name,
            )


def apply_preset(run: Mapping[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """Return the run with a typical goal: a k and, with confidential columns, a limit."""
    if name not in PRESETS:
        raise OptionError(
            f"There is no goal called {name!r}. Choose one of {', '.join(PRESETS)}.",
            code="option.unknown",
            option="preset",
        )
    k, diversity = PRESETS[name]
    columns = run.get("schema", {}).get("columns", {})
    changed = {**run, "k": k}
    changed.pop("require", None)
    if any(item.get("role") == "confidential" for item in columns.values()):
        changed["require"] = {"l_diversity": float(diversity)}
    return changed, f"goal: {name}"


def field_value(name: str, text: str) -> Any:
    """Return the value of a key of a column entry from the text of a form; None if it is empty.

    Examples
    --------
    >>> field_value("round", "100"), field_value("bands", "5, 10"), field_value("publish", "")
    (100.0, [5, 10], None)
    """
    if name not in ColumnEntry.model_fields:
        raise OptionError(f"A column has no option {name!r}.", code="option.unknown", option=name)
    text = text.strip()
    if not text:
        return None
    kinds = str(ColumnEntry.model_fields[name].annotation)
    if "list" in kinds and name != "hierarchy":
        items = [item.strip() for item in text.split(",") if item.strip()]
        return [_number(item) if "int" in kinds else item for item in items]
    if "float" in kinds:
        number = _number(text)
        if isinstance(number, str):
            raise OptionError(f"{name} must be a number.", code="option.wrong_type", option=name)
        return float(number)
    return text


def _number(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else text


def _set(run: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *parents, last = path
    place = run
    for name in parents:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise OptionError(
                f"{'.'.join(path)} cannot be set.", code="option.unknown", option=path[0]
            )
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value
    for name in ("require", "options", "read"):
        if name in run and run[name] == {}:
            del run[name]


def _set_role(columns: dict[str, Any], name: str, role: str, facts: Mapping[str, Any]) -> None:
    """Give a column a role, and only the options that fit it."""
    entry = columns.get(name, {})
    if role == "quasi":
        kind = facts.get(name, {}).get("kind")
        columns[name] = {"role": role} | ({"kind": kind} if kind and kind != "location" else {})
        order = facts.get(name, {}).get("order")
        if kind == "ordinal" and order:
            columns[name]["order"] = list(order)
        return
    if entry.get("kind") == "location":
        # Only a quasi-identifier can be a location; its two columns get the role.
        del columns[name]
        for part in (entry["latitude"], entry["longitude"]):
            columns[part] = {"role": role}
        return
    kept = entry.get("kind") if role == "confidential" else None
    allowed = kept in KINDS and KINDS[kept].can_be_confidential if kept else False
    columns[name] = {"role": role} | ({"kind": kept} if allowed else {})


def _label(edits: Sequence[Edit]) -> str:
    parts = []
    for path, value in edits[:3]:
        name = " ".join(item for item in path if item not in ("schema", "columns"))
        parts.append(f"{name}: {'removed' if value is None else _short(value)}")
    return "; ".join(parts) + ("; …" if len(edits) > 3 else "")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
