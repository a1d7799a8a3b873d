"""What each screen shows, as plain data: the content of a page and of its JSON twin."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from microcell.errors import MicrocellError, OptionError
from microcell.kinds import KINDS
from microcell.measures.registry import measures
from microcell.schema.files import ColumnEntry
from microcell.studio.changes import PRESETS
from microcell.studio.jobs import Jobs
from microcell.studio.projects import Project, Step

__all__ = [
    "SCREENS",
    "describe_project",
    "exploration_key",
    "inspection_of",
    "release_name",
    "show",
]

View = Callable[[Project, Step, Jobs], Awaitable[dict[str, Any]]]

ROLES = ("identifier", "person", "quasi", "confidential", "strata", "weight", "keep", "drop")


def describe_project(project: Project, jobs: Jobs) -> dict[str, Any]:
    """Return what every screen shows: title, current step, undo and redo, running jobs."""
    head = project.head
    return {
        "id": project.id,
        "title": project.title,
        "source": project.source.name,
        "step": head.id,
        "label": head.label,
        "run": head.run,
        "can_undo": head.parent is not None,
        "can_redo": project.following() is not None,
        "results": project.results(),
        "jobs": [job.as_dict() for job in jobs.of_project(project.id) if not job.is_over],
    }


async def show(screen: str, project: Project, jobs: Jobs) -> dict[str, Any]:
    """Return the content of a screen. An error that the person can mend is part of it."""
    if screen not in SCREENS:
        raise OptionError(
            f"There is no screen {screen!r}. Choose one of {', '.join(SCREENS)}.",
            code="option.unknown",
            option="screen",
        )
    head = project.head
    try:
        content = await SCREENS[screen](project, head, jobs)
    except MicrocellError as error:
        content = {"error": {"code": error.code, "message": str(error), "details": error.details}}
    return {"project": describe_project(project, jobs), "screen": screen, **content}


async def inspection_of(project: Project, step: Step, jobs: Jobs) -> dict[str, Any]:
    """Return the inspected columns, computed once for each way of reading the table."""
    read = dict(step.run.get("read", {}))
    key = [str(project.source), read]
    facts = project.cached("columns", key)
    if facts is None:
        facts = await jobs.ask(project.id, "inspect", _source(project, step))
        project.cache("columns", key, facts)
    return dict(facts)


def release_name(project: Project, step: Step) -> str:
    """Return the file name of a release: that of the table, with k."""
    suffix = project.source.suffix
    stem = "".join(c if c.isalnum() or c in "-_" else "_" for c in project.title) or "table"
    writable = suffix if suffix not in (".xls", ".ods", ".sas7bdat") else ".csv"
    return f"{stem}_k{step.run.get('k', 5)}{writable}"


def _source(project: Project, step: Step) -> dict[str, Any]:
    return {"path": str(project.source), "options": dict(step.run.get("read", {}))}


async def _read(project: Project, step: Step, jobs: Jobs) -> dict[str, Any]:
    content = {"read": dict(step.run.get("read", {}))}
    try:
        return content | await jobs.ask(project.id, "preview", _source(project, step))
    except MicrocellError as error:
        return content | {"error": {"code": error.code, "message": str(error), "details": {}}}


async def _columns(project: Project, step: Step, jobs: Jobs) -> dict[str, Any]:
    facts = await inspection_of(project, step, jobs)
    return {
        "rows": facts["rows"],
        "duplicates": facts["duplicates"],
        "columns": _column_rows(facts, step),
        "roles": ROLES,
        "kinds": list(KINDS),
    }


async def _exposure(project: Project, step: Step, jobs: Jobs) -> dict[str, Any]:
    run = {name: step.run[name] for name in ("schema",) if name in step.run}
    if "schema" not in run:
        return {"people": 0, "unique": 0, "without": {}, "combinations": [], "unit": "records"}
    key = [str(project.source), step.run.get("read", {}), run]
    found = project.cached("exposure", key)
    if found is None:
        arguments = _source(project, step) | {"run": run}
        found = await jobs.ask(project.id, "exposure", arguments)
        project.cache("exposure", key, found)
    return dict(found)


async def _prepare(project: Project, step: Step, jobs: Jobs) -> dict[str, Any]:
    facts = await inspection_of(project, step, jobs)
    columns = []
    for row in _column_rows(facts, step):
        names = _fields(row)
        if names:
            entry = row["entry"]
            fields = [
                {
                    "name": name,
                    "value": _as_text(entry.get(name)),
                    "help": ColumnEntry.model_fields[name].description,
                    "choices": _choices(name, row["kind"]),
                }
                for name in names
            ]
            columns.append({**row, "fields": fields})
    return {"columns": columns}


_QUASI_FIELDS = ("publish", "weight", "hierarchy", "bands", "after", "difference_of", "sum_of")
_CONFIDENTIAL_FIELDS = ("round", "top", "bottom", "noise", "swap")
_FIELDS_OF_KIND = {
    "hierarchy": ("hierarchy", "bands"),
    "numeric": ("after", "difference_of", "sum_of"),
    "datetime": ("after", "difference_of"),
}


def _fields(row: Mapping[str, Any]) -> list[str]:
    """Return the options that fit a column."""
    known = ColumnEntry.model_fields
    if row["role"] == "quasi":
        special = {name for names in _FIELDS_OF_KIND.values() for name in names}
        fitting = _FIELDS_OF_KIND.get(row["kind"] or "", ())
        return [
            name
            for name in _QUASI_FIELDS
            if name in known and (name not in special or name in fitting)
        ]
    if row["role"] == "confidential" and row["kind"] != "nominal":
        return [name for name in _CONFIDENTIAL_FIELDS if name in known]
    return []


def _choices(name: str, kind: str | None) -> list[str]:
    if name != "publish" or kind not in KINDS:
        return []
    return list(KINDS[kind].representatives)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return ", ".join(str(item) for item in value)
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)


def _column_rows(facts: Mapping[str, Any], step: Step) -> list[dict[str, Any]]:
    """Return one row per column of the schema, with the facts of its columns of the table."""
    entries = step.run.get("schema", {}).get("columns", {})
    by_name = {item["name"]: item for item in facts["columns"]}
    part_of = {
        part: name
        for name, entry in entries.items()
        if entry.get("kind") == "location"
        for part in (entry.get("latitude"), entry.get("longitude"))
    }
    rows, seen = [], set()
    for item in facts["columns"]:
        name = part_of.get(item["name"], item["name"])
        if name in seen:
            continue
        seen.add(name)
        entry = entries.get(name, {})
        parts = [part for part, owner in part_of.items() if owner == name] or [name]
        rows.append(
            {
                "name": name,
                "parts": parts if parts != [name] else [],
                "entry": entry,
                "role": entry.get("role", ""),
                "kind": entry.get("kind"),
                **{key: by_name[parts[0]][key] for key in _FACTS},
            }
        )
    return rows


_FACTS = ("storage", "missing", "distinct", "reason", "histogram")


async def _goal(project: Project, step: Step, jobs: Jobs) -> dict[str, Any]:
    facts = await inspection_of(project, step, jobs)
    entries = step.run.get("schema", {}).get("columns", {})
    confidential = [name for name, item in entries.items() if item.get("role") == "confidential"]
    missing = {
        item["name"]: item["missing"]
        for item in facts["columns"]
        if item["missing"] and entries.get(item["name"], {}).get("role") == "quasi"
    }
    enforceable = [
        {"name": item.name, "meaning": item.meaning, "lower_is_better": item.lower_is_better}
        for item in measures().values()
        if item.enforceable and item.scope == "confidential"
    ]
    return {
        "rows": facts["rows"],
        "k": step.run.get("k"),
        "missing": step.run.get("missing", "error"),
        "n_missing": missing,
        "limits": _limits(step.run.get("require", {})),
        "confidential": confidential,
        "measures": enforceable,
        "presets": {name: {"k": k, "l": diversity} for name, (k, diversity) in PRESETS.items()},
    }


def _limits(require: Mapping[str, Any]) -> dict[str, float]:
    limits: dict[str, float] = {}
    for name, value in require.items():
        if isinstance(value, Mapping):
            limits |= {f"{name}.{column}": limit for column, limit in value.items()}
        else:
            limits[name] = value
    return limits


async def _explore(project: Project, step: Step, jobs: Jobs) -> dict[str, Any]:
    key = exploration_key(project, step)
    return {
        "exploration": project.cached("exploration", key),
        "job": _latest(project, jobs, "explore"),
        "k": step.run.get("k"),
    }


def exploration_key(project: Project, step: Step) -> list[Any]:
    """Return what an exploration depends on: everything but k."""
    run = {name: value for name, value in step.run.items() if name != "k"}
    return [str(project.source), run]


async def _run(project: Project, step: Step, jobs: Jobs) -> dict[str, Any]:
    schema = step.run.get("schema", {}).get("columns", {})
    by_role: dict[str, list[str]] = {role: [] for role in ROLES}
    for name, entry in schema.items():
        by_role.setdefault(entry.get("role", "keep"), []).append(name)
    return {
        "job": _latest(project, jobs, "make_release"),
        "by_role": by_role,
        "k": step.run.get("k"),
        "limits": _limits(step.run.get("require", {})),
        "has_result": step.id in project.results(),
    }


def _latest(project: Project, jobs: Jobs, kind: str) -> dict[str, Any] | None:
    found = [job for job in jobs.of_project(project.id) if job.kind == kind]
    return found[0].as_dict() if found else None


def _summary(project: Project, number: int) -> dict[str, Any]:
    path = project.result_folder(number) / "summary.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _shown_result(project: Project, step: Step) -> int | None:
    """Return the step whose release is shown: the current one, else the latest before it."""
    results = project.results()
    earlier = [number for number in results if number <= step.id]
    shown = earlier or results
    return shown[-1] if shown else None


async def _result(project: Project, step: Step, jobs: Jobs) -> dict[str, Any]:  # noqa: ARG001
    number = _shown_result(project, step)
    if number is None:
        return {"result": None}
    return {
        "result": _summary(project, number),
        "result_step": number,
        "is_current": project.step(number).run == step.run,
    }


async def _history(project: Project, step: Step, jobs: Jobs) -> dict[str, Any]:  # noqa: ARG001
    results = project.results()
    names = ("k", "loss_text", "cells", "smallest", "largest", "rows", "verdict", "method")
    candidates = []
    for number in results:
        summary = _summary(project, number)
        severities = [item["severity"] for item in summary["findings"]]
        candidates.append(
            {
                "step": number,
                **{name: summary[name] for name in names},
                "linkage": summary["measures"].get("linkage", {}).get("text", ""),
                "dangers": severities.count("danger"),
                "warnings": severities.count("warning"),
            }
        )
    entries = [
        {
            "id": item.id,
            "parent": item.parent,
            "at": item.at,
            "label": item.label,
            "note": item.note,
            "is_current": item.id == step.id,
            "has_result": item.id in results,
        }
        for item in reversed(project.steps())
    ]
    return {"entries": entries, "candidates": candidates}


async def _hand_over(project: Project, step: Step, jobs: Jobs) -> dict[str, Any]:  # noqa: ARG001
    number = _shown_result(project, step)
    if number is None:
        return {"result": None}
    summary = _summary(project, number)
    name = release_name(project, project.step(number))
    public = [item for item in (name, "report_public.html", "certificate.pdf")
              if item in summary["files"]]  # fmt: skip
    private = [f"{name}.manifest.json", "report.html", "run.toml", "reproduce.py"]
    folder = project.result_folder(number)
    return {
        "result": summary,
        "result_step": number,
        "public": [_file(folder, item) for item in public],
        "private": [_file(folder, item) for item in private],
        "command": "microcell anonymize --config run.toml",
    }


def _file(folder: Any, name: str) -> dict[str, Any]:
    path = folder / name
    return {"name": name, "bytes": path.stat().st_size if path.is_file() else 0}


SCREENS: Mapping[str, View] = {
    "read": _read,
    "columns": _columns,
    "exposure": _exposure,
    "prepare": _prepare,
    "goal": _goal,
    "explore": _explore,
    "run": _run,
    "result": _result,
    "history": _history,
    "hand-over": _hand_over,
}
"""Every screen by its name in addresses. ``exposure`` is a part of the screen of columns."""
