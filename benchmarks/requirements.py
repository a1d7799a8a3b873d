"""``python -m benchmarks.requirements [census|adult|large|peers]``: what limits on cells cost.

Measures the information loss (100 SSE / SST of the standardized quasi-identifiers) of cells that
keep limits: by merging cells, by the method of 2015 (t-closeness-first, ``tests/reference``), by
the search of this package, and by other packages (``make peers``), whose classes are published and
audited like ours. Stores ``results/requirements.json`` and draws
``docs/benchmarks/requirements.svg``. On a busy machine compare processor seconds.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any
from unittest import mock

import numpy as np

import microcell as mc
from benchmarks.__main__ import PEERS
from benchmarks.apart import Row, run_apart
from benchmarks.cases import machine
from microcell.release import partition as partitioning
from microcell.release.prepare import prepare
from tests.conftest import DATA
from tests.reference.oracles import t_closeness_first

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "requirements.json"
FIGURE = ROOT / "docs" / "benchmarks" / "requirements.svg"

PAGE = ROOT / "docs" / "howto" / "requirements.md"
START, END = "<!-- requirements: table -->", "<!-- end: requirements -->"
OTHERS = ("merging", "2015", "anonypyx", "anjana")
LIMITED = ("homogeneous_records", "l_diversity")
TABLES = {
    "Census": "Census (1,080)",
    "Adult": "Adult (45,222)",
}

CENSUS = tuple((column, k) for column in ("fedtax", "fica") for k in (2, 5, 10))
LIMITS = (0.05, 0.09, 0.13, 0.17, 0.21)
ADULT_QUASI = ("age", "education_num", "hours_per_week", "sex", "race", "marital_status")
ADULT: tuple[tuple[str, str, float], ...] = (
    ("income", "homogeneous_records", 0),
    ("income", "t_closeness", 0.2),
    ("income", "t_closeness", 0.1),
    ("occupation", "l_diversity", 5),
    *(("occupation", "t_closeness", t) for t in (0.4, 0.3, 0.2, 0.1)),
)


def measure(about: dict[str, Any], run: Callable[[], Any]) -> dict[str, Any]:
    """Return the loss in percent, of a release also the published one, and processor seconds."""
    started = process_time()
    result = run()
    losses = {"loss": result}
    if isinstance(result, mc.Release):
        manifest = result.manifest
        losses = {"loss": manifest.cells.sse_ratio, "published": manifest.information_loss}
    row = {**about, **{name: round(100 * value, 3) for name, value in losses.items()}}
    row["cpu_seconds"] = round(process_time() - started, 1)
    print(row, flush=True)
    return row


def released(columns: Any, schema: mc.Schema, merging: bool, **options: Any) -> mc.Release:
    """Return a release; with ``merging`` cells are only merged."""
    if not merging:
        return mc.anonymize(columns, schema, **options)
    with mock.patch.object(partitioning, "searching", return_value=None):
        return mc.anonymize(columns, schema, **options)


def run_census() -> list[dict[str, Any]]:
    """Measure t-closeness on Census, quasi-identifiers taxinc and pothval."""
    table = mc.read(DATA / "census.csv")
    columns = {name: table.columns[name].data for name in ("taxinc", "pothval", "fedtax", "fica")}
    X = np.column_stack([columns["taxinc"], columns["pothval"]]).astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rows = []
    for column, k in CENSUS:
        schema = mc.Schema(quasi=["taxinc", "pothval"], confidential=[column], rest="drop")
        for t in LIMITS:
            about = {"table": "Census", "column": column, "k": k, "t_closeness": t}
            options = {"k": k, "require": {"t_closeness": t}}
            first = t_closeness_first(X, columns[column], k, t)
            rows += [
                measure({**about, "way": "2015"}, lambda labels=first: mc.distortion(X, labels)),  # type: ignore[misc]
                measure(
                    {**about, "way": "merging"},
                    lambda s=schema, o=options: released(columns, s, True, **o),  # type: ignore[misc]
                ),
                measure(
                    {**about, "way": "search"},
                    lambda s=schema, o=options: released(columns, s, False, **o),  # type: ignore[misc]
                ),
            ]
    return rows


def run_adult() -> list[dict[str, Any]]:
    """Measure several limits on Adult, k = 5; records with missing values are dropped."""
    import polars as pl  # noqa: PLC0415

    frame = pl.read_csv(DATA / "adult.csv", null_values=["?"]).drop_nulls()
    rows = []
    for column, name, limit in ADULT:
        schema = mc.Schema(quasi=list(ADULT_QUASI), confidential=[column], rest="drop")
        about = {"table": "Adult", "column": column, "k": 5, name: limit}
        rows += [
            measure(
                {**about, "way": way},
                lambda s=schema, n=name, v=limit, w=way: released(  # type: ignore[misc]
                    frame, s, w == "merging", k=5, require={n: v}
                ),
            )
            for way in ("merging", "search")
        ]
    return rows


def run_peers() -> list[Row]:
    """Measure the cells of other packages for the limits on Adult, by the same audit."""
    import polars as pl  # noqa: PLC0415

    frame = pl.read_csv(DATA / "adult.csv", null_values=["?"]).drop_nulls()
    rows = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "adult.csv"
        frame.select(*ADULT_QUASI, "income", "occupation").write_csv(path)
        for column, name, limit in ADULT:
            about = {"table": "Adult", "column": column, "k": 5, name: limit}
            # No homogeneous records is the same as two values in every class.
            measure, bound = ("l_diversity", 2) if name == "homogeneous_records" else (name, limit)
            options = {"path": str(path), "quasi": list(ADULT_QUASI), "column": column, "k": 5}
            # The t-closeness of anonypyx is that of the audit for two values only.
            both = measure == "l_diversity" or column == "income"
            for peer in ("anonypyx", "anjana") if both else ("anjana",):
                found = run_apart(
                    f"benchmarks.limits_of_peers:{peer}_classes",
                    {**options, "measure": measure, "limit": bound},
                    python=str(PEERS),
                )
                measured = found if isinstance(found, dict) else audited(frame, column, found, name)
                rows.append({**about, "way": peer, **measured})
                print(rows[-1], flush=True)
    return rows


def audited(frame: Any, column: str, classes: list[int], name: str) -> Row:
    """Return the loss of classes published by means and modes, and what the audit says of them."""
    import polars as pl  # noqa: PLC0415

    labels = np.array(classes)
    table = frame.with_columns(pl.Series("_class", labels)).filter(pl.col("_class") >= 0)
    original = table.select(*ADULT_QUASI, column)
    typical = [
        (pl.col(q).mean() if table[q].dtype.is_numeric() else pl.col(q).mode().sort().first())
        .over("_class")
        .alias(q)
        for q in ADULT_QUASI
    ]
    published = table.with_columns(typical).select(*ADULT_QUASI, column)
    schema = mc.Schema(quasi=list(ADULT_QUASI), confidential=[column], rest="drop")
    audit = mc.audit(original, published, schema)
    return {
        "loss": round(100 * distortion_of(original, table["_class"].to_numpy()), 3),
        "published": round(100 * audit["information_loss"], 3),
        "reached": round(audit[name], 4),
        "audited_k": int(audit["k"]),
        "suppressed": int((labels < 0).sum()),
        "classes": len(np.unique(labels[labels >= 0])),
    }


def distortion_of(frame: Any, labels: Any) -> float:
    """Return SSE / SST of classes over the encoded quasi-identifiers of Adult."""
    schema = mc.Schema(quasi=list(ADULT_QUASI), rest="drop")
    points = prepare(frame, schema, k=2, missing="error").encoded.matrix
    return mc.distortion(points, np.unique(labels, return_inverse=True)[1])


def run_large(rows: int = 1_000_000) -> list[dict[str, Any]]:
    """Measure the time for a million rows, with and without a limit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 4))
    y = (X[:, 0] + rng.normal(size=rows) > 0.5).astype(str)
    about = {"table": "Gaussian", "n": rows, "k": 10}
    limits: tuple[dict[str, float], ...] = ({}, {"t_closeness": 0.2})
    return [
        measure(
            {**about, **limit},
            lambda r=limit: mc.distortion(X, mc.partition(X, 10, require=r, confidential=y)),  # type: ignore[misc]
        )
        for limit in limits
    ]


def draw(rows: list[dict[str, Any]]) -> None:
    """Draw the loss on Census against the limit, k = 2."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    for number, column in enumerate(("fedtax", "fica")):
        axes = figure.add_subplot(1, 2, number + 1)
        for way, marker in (("merging", "s"), ("2015", "^"), ("search", "o")):
            chosen = [
                row
                for row in rows
                if (row["table"], row.get("column"), row["k"], row.get("way"))
                == ("Census", column, 2, way)
            ]
            axes.plot(
                [row["t_closeness"] for row in chosen],
                [row["loss"] for row in chosen],
                marker=marker,
                label={"merging": "merging cells", "2015": "method of 2015"}.get(way, "microcell"),
            )
        axes.set(title=f"Census, {column}, k = 2", xlabel="Limit on t-closeness", ylim=(0, 105))
        axes.set_ylabel("Information loss, %")
        if number == 0:
            axes.legend(frameon=False)
    figure.savefig(FIGURE, metadata={"Date": None})


def write_table(stored: dict[str, Any]) -> None:
    """Write the losses into the page on protecting confidential values."""
    lines = [
        "| data | confidential | limit | k | merging | 2015 | anonypyx | ANJANA | microcell |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    measured = (row for name in ("census", "adult", "peers") for row in stored.get(name, ()))
    for row in (row for row in measured if "loss" in row):
        name = next(key for key in row if key in ("t_closeness", *LIMITED))
        limit = f"{name} = {row[name]:g}"
        found.setdefault((row["table"], row["column"], limit, row["k"]), {})[row["way"]] = row[
            "loss"
        ]
    for (table, column, limit, k), losses in found.items():
        cells = [f"{losses[way]:.2f}" if way in losses else "" for way in OTHERS]
        ours = f"**{losses['search']:.2f}**"
        lines.append(
            f"| {TABLES[table]} | {column} | {limit} | {k} | {' | '.join(cells)} | {ours} |"
        )
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    table = "\n".join(lines)
    PAGE.write_text(f"{before}{START}\n\n{table}\n\n{END}{after}", encoding="utf-8")


RUNS = {"census": run_census, "adult": run_adult, "large": run_large, "peers": run_peers}


def main() -> None:
    """Measure the tables named on the command line, or all."""
    chosen = sys.argv[1:] or list(RUNS)
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in chosen:
        stored[name] = RUNS[name]()
        RESULTS.write_text(json.dumps({**stored, "machine": machine()}, indent=1) + "\n")
    if "census" in stored:
        draw(stored["census"])
    write_table(stored)


if __name__ == "__main__":
    main()
