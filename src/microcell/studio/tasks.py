"""What the processes of the studio compute: each task takes and returns plain data.

The results are shown to the person who owns the table, on their own machine, so previews and
histograms contain values. Nothing here is part of a release, except what :func:`make_release`
publishes through the usual functions.
"""

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import microcell as mc
from microcell._display import percent
from microcell.kinds import Values
from microcell.measures.registry import label
from microcell.model import Table
from microcell.progress import report as report_progress
from microcell.release import manifest_path
from microcell.release.picture import draw_release
from microcell.release.prepare import released_rows, take_rows
from microcell.report import check_certificate, figures, finding_entry
from microcell.schema import Run, schema_to_toml
from microcell.schema.files import run_from_toml, run_to_toml
from microcell.studio.scripts import python_script

__all__ = ["TASKS", "load", "parse_run"]

PREVIEW_ROWS = 50
BARS = 20
"""Number of bars of a histogram, and of categories shown."""

COMBINATIONS_SHOWN = 12
EXPLORED_K = (3, 5, 10, 20, 50)
RECORDS_SHOWN = 30
CELLS_SHOWN = 8


def parse_run(run: Mapping[str, Any], folder: Path = Path()) -> Run:
    """Validate the state of a project as a run file and return the run."""
    return run_from_toml(run_to_toml(run), source="the project", folder=folder)


@lru_cache(maxsize=1)
def _read(path: str, modified: int, options: str) -> Table:  # noqa: ARG001
    report_progress("reading")
    return mc.read(path, **json.loads(options))


def load(path: str | Path, options: Mapping[str, Any]) -> Table:
    """Read a table, or return it from memory if file and options are the same."""
    given = dict(options)
    if isinstance(given.get("na"), str):
        given["na"] = [given["na"]]
    text = str(path)
    modified = os.stat(text).st_mtime_ns if os.path.exists(text) else 0
    return _read(text, modified, json.dumps(given, sort_keys=True))


def preview(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first rows, the types of the columns and how the file was read."""
    table = load(path, options)
    dialect = table.origin.dialect
    return {
        "rows": table.rows,
        "dialect": None if dialect is None else asdict(dialect),
        "columns": [
            {"name": name, "storage": values.storage, "missing": int(values.missing.sum())}
            for name, values in table.columns.items()
        ],
        "first": _texts(table, range(min(PREVIEW_ROWS, table.rows))),
    }


def inspect(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts about all columns, their distributions and a drafted schema."""
    table = load(path, options)
    report_progress("inspecting the columns")
    inspection = mc.inspect(table)
    facts = inspection.as_dict()
    for column in facts["columns"]:
        column["histogram"] = _histogram(table.columns[column["name"]])
    schema = tomllib.loads(schema_to_toml(mc.draft_schema(inspection)))
    schema.pop("schema_version", None)
    return {**facts, "schema": schema}


def exposure(path: str, options: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Count the people whose combination of quasi-identifiers nobody else has, and say why.

    Per column: how many would still be unique without it. Also the smallest combinations of columns
    that single out records, with the number of these records.
    """
    table = load(path, options)
    schema = parse_run(run).schema
    assert isinstance(schema, mc.Schema)
    result = mc.risk(table, schema)
    smallest = sorted(result.combinations, key=lambda item: (len(item.columns), -item.rows))
    return {
        "people": int(result.class_sizes.sum()),
        "unit": "people" if schema.person else "records",
        "unique": int((result.class_sizes == 1).sum()),
        "without": {item.name: item.unique_without for item in result.columns},
        "combinations": [
            {"columns": list(item.columns), "unique": item.rows}
            for item in smallest[:COMBINATIONS_SHOWN]
        ],
    }


def explore(path: str, options: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Measure risk and information loss for several k, with the limits of the run."""
    table = load(path, options)
    settings = parse_run(run)
    assert isinstance(settings.schema, mc.Schema)
    largest = max(2, table.rows // 2)
    numbers = {min(k, largest) for k in (*EXPLORED_K, settings.k or 5)}
    result = mc.explore(
        table,
        settings.schema,
        k=sorted(numbers),
        require=settings.require or None,
        seed=settings.seed or 0,
        missing=settings.missing or "error",
        options={"effort": "fast"},
    )
    return {
        "points": [
            {
                "k": point.k,
                "skipped": point.skipped,
                "reason": point.reason,
                "risk": None if point.skipped else point[result.risk],
                "loss": None if point.skipped else point[result.loss],
                "meets": result.meets(point),
                "recommended": point == result.recommended,
            }
            for point in result.points
        ],
        "risk": result.risk,
        "risk_label": label(result.risk),
        "loss": result.loss,
        "reason": result.reason,
    }


def make_release(
    path: str, options: Mapping[str, Any], run: Mapping[str, Any], folder: str, name: str
) -> dict[str, Any]:
    """Make the release of a run, and everything to hand over, in a folder.

    A quick search comes first, so that a release exists if the longer one is cancelled.
    """
    table = load(path, options)
    settings = parse_run(run)
    stages = [run]
    if settings.method in (None, "auto") and "effort" not in settings.options:
        quick = {**run, "options": {**run.get("options", {}), "effort": "fast"}}
        stages.insert(0, quick)
    for number, stage in enumerate(stages, 1):
        report_progress(f"stage {number} of {len(stages)}")
        summary = _publish(table, stage, Path(path), Path(folder), name)
    return summary


def _publish(
    table: Table, run: Mapping[str, Any], path: Path, folder: Path, name: str
) -> dict[str, Any]:
    settings = parse_run(run)
    assert isinstance(settings.schema, mc.Schema)
    assert settings.k is not None
    release = mc.anonymize(table, settings.schema, k=settings.k, **_arguments(settings))
    report_progress("measuring and writing the release")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, mode=0o700)
    output = partial / name
    certificate = partial / "certificate.pdf" if _has_certificates() else None
    release = release.publish(
        output,
        report=partial / "report.html",
        certificate=certificate,
        keep_order=bool(settings.keep_order),
        escape_formulas=bool(settings.escape_formulas),
    )
    audit = release.audit(output, escape_formulas=bool(settings.escape_formulas))
    limits = {"k": settings.k, **settings.require}
    public = mc.render(
        audit,
        "html",
        manifest=release.manifest.as_dict(),
        title=f"Audit of {name}",
        require=limits,
        audience="public",
    )
    (partial / "report_public.html").write_text(public, encoding="utf-8")
    _write_run(partial, run, settings, path, name)
    summary = _summarize(release, audit, settings, table)
    summary["figures"] = _draw(partial, audit, release)
    summary["files"] = sorted(item.name for item in partial.iterdir())
    (partial / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial, folder)
    return summary


def _arguments(run: Run) -> dict[str, Any]:
    """Return the keyword arguments of ``mc.anonymize``; omitted settings keep their defaults."""
    names = ("method", "seed", "order_key", "missing", "suppress", "dependence", "regression")
    given = {name: getattr(run, name) for name in names if getattr(run, name) is not None}
    if run.blocks is not None:
        given["blocks"] = run.blocks
    return given | ({"require": run.require} if run.require else {}) | dict(run.options)


def _has_certificates() -> bool:
    """Return whether the packages for figures and certificates are installed."""
    try:
        check_certificate()
    except mc.MicrocellError:
        return False
    return True


def _write_run(folder: Path, run: Mapping[str, Any], settings: Run, path: Path, name: str) -> None:
    """Write the run file, and the script, that make the same release again."""
    content = {
        **run,
        "input": str(path.resolve()),
        "output": f"again_{name}",
        "order_key": manifest_path(Path(name)).name,
    }
    (folder / "run.toml").write_text(run_to_toml(content), encoding="utf-8")
    script = python_script(
        name,
        {"k": settings.k, **_arguments(settings)},
        escape_formulas=bool(settings.escape_formulas),
    )
    (folder / "reproduce.py").write_text(script, encoding="utf-8")


def _summarize(release: "mc.Release", audit: "mc.Audit", run: Run, table: Table) -> dict[str, Any]:
    manifest = release.manifest
    names = ("k", "information_loss", "linkage", "prosecutor_risk", "l_diversity", "t_closeness")
    measures = {
        key: {"value": float(item.value), "text": item.format(), "meaning": item.meaning}
        for key, item in audit.measures.items()
        if key.partition(".")[0] in names
    }
    return {
        "guarantee": release.guarantee,
        "findings": [finding_entry(item) for item in audit.findings],
        "verdict": not any(item.severity == "danger" for item in audit.findings),
        "notes": list(audit.notes),
        "k": manifest.k,
        "cells": manifest.cells.count,
        "smallest": manifest.cells.smallest,
        "largest": manifest.cells.largest,
        "information_loss": manifest.information_loss,
        "loss_text": percent(manifest.information_loss or 0.0),
        "rows": release.published.rows,
        "dropped": manifest.records.dropped,
        "method": None
        if manifest.method is None
        else f"{manifest.method.used}, {manifest.method.reason}",
        "measures": measures,
        "categories": [
            {"column": item.column, "name": item.name, "people": item.people, "true": item.share}
            for item in sorted(audit.categories, key=lambda item: item.share)[:10]
        ],
        **_compare_records(release, run, table),
    }


def _compare_records(release: "mc.Release", run: Run, table: Table) -> dict[str, Any]:
    """Return some records beside their published form, and the cells that lose the most."""
    schema = release.schema
    rows = released_rows(table, schema, run.missing or "error")
    original = take_rows(table, rows)
    labels = release.partition.labels
    names = [name for name in release.published.names if name in original.columns]
    sizes = np.bincount(labels)
    shown = range(min(RECORDS_SHOWN, original.rows))
    losses = {name: _losses(original.columns[name], release.published.columns[name])
              for name in schema.keys if name in names}  # fmt: skip
    total = np.sum([np.bincount(labels, item) for item in losses.values()], axis=0)
    worst = np.argsort(-total, kind="stable")[:CELLS_SHOWN].tolist() if losses else []
    return {
        "columns": names,
        "keys": [name for name in names if name in schema.keys],
        "before": _texts(replace(original, columns={n: original.columns[n] for n in names}), shown),
        "after": _texts(
            replace(release.published, columns={n: release.published.columns[n] for n in names}),
            shown,
        ),
        "cell_sizes": sizes[labels[: len(shown)]].tolist(),
        "worst_cells": [
            {
                "size": int(sizes[cell]),
                "share": float(total[cell] / total.sum()) if total.sum() else 0.0,
                "column": max(losses, key=lambda name: losses[name][labels == cell].sum()),
            }
            for cell in worst
        ],
    }


def _losses(before: Values, after: Values) -> Any:
    """Return the squared change of each value in standard deviations, or 1 for a false category."""
    if before.storage != "text" and after.storage == before.storage:
        x, y = before.reals(), after.reals()
        deviation = np.nanstd(x)
        return np.nan_to_num(((x - y) / deviation) ** 2) if deviation > 0 else np.zeros(len(x))
    old, new = (_names(item, range(len(item))) for item in (before, after))
    return np.array([a != b for a, b in zip(old, new, strict=True)], dtype=np.float64)


def _draw(folder: Path, audit: "mc.Audit", release: "mc.Release") -> list[dict[str, str]]:
    """Write the figures of the audit as files; return their names and captions."""
    if not figures.available():
        return []
    drawn = figures.draw_audit(audit)
    pictures = [*drawn["columns"], *drawn["quantiles"], drawn["classes"], drawn["linkage"]]
    correlations = drawn["correlations"]
    pictures += list(correlations) if isinstance(correlations, (list, tuple)) else [correlations]
    out = []
    for number, picture in enumerate(item for item in pictures if item is not None):
        file = folder / f"figure-{number}.svg"
        file.write_text(picture.svg, encoding="utf-8")
        out.append({"file": file.name, "caption": picture.caption})
    cells = draw_release(release)
    if cells is not None:
        (folder / "figure-cells.svg").write_bytes(cells)
        caption = "The cells, drawn over the original records. Do not publish this figure."
        out.append({"file": "figure-cells.svg", "caption": caption})
    return out


def _texts(table: Table, rows: Iterable[int]) -> list[list[str]]:
    """Return the values of some rows as text, row by row; a missing value is empty."""
    columns = [_names(values, rows) for values in table.columns.values()]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def _names(values: Values, rows: Iterable[int]) -> list[str]:
    index = np.fromiter(rows, dtype=np.int64)
    part = replace(values, data=values.data[index], missing=values.missing[index])
    codes, names = part.factorize()
    return ["" if code < 0 else names[code] for code in codes.tolist()]


def _histogram(values: Values) -> dict[str, Any]:
    """Return the frequencies of a column in at most 20 bars, with labels of the ends."""
    present = values.data[~values.missing]
    if not len(present):
        return {"counts": [], "labels": []}
    if values.is_number or values.is_time:
        finite = present[np.isfinite(present)] if values.storage == "float" else present
        if not len(finite):
            return {"counts": [], "labels": []}
        counts, _ = np.histogram(finite.astype(np.float64), bins=BARS)
        ends = np.array([finite.min(), finite.max()])
        low, high = replace(values, data=ends, missing=np.zeros(2, dtype=bool)).factorize()[1][:2] \
            if ends[0] != ends[1] else 2 * replace(
                values, data=ends[:1], missing=np.zeros(1, dtype=bool)).factorize()[1]  # fmt: skip
        return {"counts": counts.tolist(), "labels": [low, high]}
    codes, names = values.factorize()
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    largest = np.argsort(-counts, kind="stable")[:BARS]
    return {
        "counts": counts[largest].tolist(),
        "labels": [names[code] for code in largest.tolist()],
    }


TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "preview": preview,
    "inspect": inspect,
    "exposure": exposure,
    "explore": explore,
    "make_release": make_release,
}
"""Every task by name. All but the last two are quick, and share the table in memory."""
