"""Fill the tables of docs/methods.md and docs/methods/NAME.md with facts and measurements.

Run ``python docs/make_methods.py`` from the project root; ``--check`` only reports whether the
pages are current, and ``--measure`` first measures the classic data sets again and writes
docs/methods/distortion.csv (a few minutes).
"""

import csv
import os
import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from _pages import DOCS, ROOT, fill, table, write_or_check

import microcell as mc
from microcell.methods import METHODS

DATA = Path(os.environ.get("MICROCELL_DATA", ROOT.parent / "shared" / "data"))
MEASURED = DOCS / "methods" / "distortion.csv"
SETS = {"census": "Census", "tarragona": "Tarragona", "eia": "EIA"}
SIZES = (3, 5, 10)
LARGE = (25, 50, 75, 100)
PLAIN, ONE = "as it is", ", one column"

PRINTED = ROOT / "experiments" / "results" / "full" / "aggregation" / "census.csv"
"""Output of the experiments on Census, which contains the published figures of PCL."""

AUTO, PCL = '`effort = "balanced"`', "`restarts = 5`"

Options = dict[str, Any]
VARIANTS: dict[str, tuple[tuple[str, Options], ...]] = {
    "auto": (('`effort = "fast"`', {"effort": "fast"}), (AUTO, {})),
    "mdav": ((PLAIN, {}), ("`refine`", {"refine": True})),
    "vmdav": (("`gamma = 0.2`", {"gamma": 0.2}), ('`gamma = "best"`', {"gamma": "best"})),
    "bisect": ((PLAIN, {}), ("`refine`", {"refine": True})),
    "anneal": ((PLAIN, {}),),
    "pcl": (
        (PLAIN, {}),
        (PCL, {"restarts": 5}),
        ("`shakes = 0`", {"shakes": 0}),
        ("`prepartition = 4`", {"prepartition": 4}),
    ),
    "univariate": ((PLAIN, {}),),
}
"""Measured variants of each method: label in the tables, and options."""


def main() -> None:
    """Measure if requested, then write or check the pages."""
    if "--measure" in sys.argv:
        measure()
    write_or_check(method_pages())


def method_pages() -> dict[Path, str]:
    """Return the overview and the page of each method with their tables filled."""
    overview = DOCS / "methods.md"
    pages = {overview: fill(overview.read_text(encoding="utf-8"), "losses", losses_table())}
    for name in VARIANTS:
        path = DOCS / "methods" / f"{name}.md"
        text = path.read_text(encoding="utf-8")
        if name in METHODS:
            text = fill(text, "facts", facts_table(name))
        text = fill(text, "large", large_table()) if name == "pcl" else text
        pages[path] = fill(text, "losses", losses_table(name))
    return pages


def large_table() -> str:
    """Information loss of PCL on Census with large cells, next to published and other figures."""
    rows = [row for row in read_measured() if row["set"] == "Census"]
    printed = {
        (row["method"], row["way"], int(row["k"])): f"{float(row['loss']):.2f}" for row in rows
    }
    sizes = (*SIZES[1:], *LARGE)
    listed = [
        [shown, *(printed.get((*way, k), "?") for k in sizes)]
        for shown, way in (
            ("`mdav`", ("mdav", PLAIN)),
            ("`auto`", ("auto", AUTO)),
            ("`pcl`, `restarts = 5`", ("pcl", PCL)),
        )
    ]
    in_print = read_printed()
    listed.insert(1, ["PCL in print", *(in_print.get(k, "?") for k in sizes)])
    return table(["100 D on Census, k =", *map(str, sizes)], listed)


def facts_table(name: str) -> str:
    """Facts about a method from the registry."""
    method = METHODS[name]
    options = (
        ", ".join(f"`{option}` ({default!r})" for option, default in method.options.items())
        or "none"
    )
    facts = {
        "cells": method.sizes,
        "cost": method.cost,
        "dimensions": method.dimensions,
        "uses the random seed": "yes" if method.randomized else "no",
        "options (default)": f"{options}; `refine` (False)",
        "source": method.source,
    }
    return table(["", "this method"], facts.items())


def losses_table(name: str | None = None) -> str:
    """Information loss of the variants of one method next to MDAV, or of all methods."""
    rows = [row for row in read_measured() if row["set"].endswith(ONE) == (name == "univariate")]
    if not rows:
        return (
            "*Not measured yet; run `python docs/make_methods.py --measure` "
            "with the classic data sets.*"
        )
    sets = list(dict.fromkeys(row["set"] for row in rows))
    ways = dict.fromkeys(
        (row["method"], row["way"])
        for row in rows
        if row["method"] in {name or row["method"], "mdav"}
    )
    listed = [
        [
            f"`{method}`{'' if way == PLAIN else f', {way}'}",
            *(_cell(rows, method, way, where) for where in sets),
        ]
        for method, way in ways
        if method == (name or method) or way == PLAIN
    ]
    return table([f"100 D for k = {' / '.join(map(str, SIZES))}", *sets], listed)


def _cell(rows: list[dict[str, str]], method: str, way: str, where: str) -> str:
    actual = {
        int(row["k"]): row["loss"]
        for row in rows
        if (row["method"], row["way"], row["set"]) == (method, way, where)
    }
    return " / ".join(actual.get(k, "?") for k in SIZES)


def read_printed() -> dict[int, str]:
    """Published loss of PCL on Census in percent, by k; without macrocells if possible."""
    with PRINTED.open(newline="", encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: -int(row["macrocells"]))
    return {int(row["k"]): f"{100 * float(row['D in print']):#.3g}" for row in rows}


def read_measured() -> list[dict[str, str]]:
    """Return the measured rows, none if there is no such file."""
    if not MEASURED.is_file():
        return []
    with MEASURED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def measure() -> None:
    """Measure every variant on every data set and write the file."""
    rows = [
        measure_one(method, way, options, name, k)
        for name in SETS
        for k in SIZES
        for method, ways in VARIANTS.items()
        for way, options in ways
    ]
    rows += [measure_one("mdav", PLAIN, {}, name, k, one=True) for name in SETS for k in SIZES]
    several = [("mdav", PLAIN, {}), ("auto", AUTO, {}), ("pcl", PCL, {"restarts": 5})]
    rows += [measure_one(*way, "census", k) for k in LARGE for way in several]
    with MEASURED.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def measure_one(
    method: str, way: str, options: Options, name: str, k: int, *, one: bool = False
) -> dict[str, str]:
    """Measure one variant on one standardized data set, or on its richest column."""
    X = np.loadtxt(DATA / f"{name}.csv", delimiter=",", skiprows=1)
    X = np.ascontiguousarray((X - X.mean(axis=0)) / X.std(axis=0))
    one = one or method == "univariate"
    richest = int(np.argmax([len(np.unique(column)) for column in X.T]))
    X = np.ascontiguousarray(X[:, [richest]]) if one else X
    begun = process_time()
    labels = mc.partition(X, k, method=method, **options).labels
    seconds = process_time() - begun
    where = f"{SETS[name]}{ONE}" if one else SETS[name]
    loss = 100 * mc.distortion(X, labels)
    sys.stdout.write(
        f"{where} k = {k} {method} {way}: {loss:.4f} in {seconds:.1f} processor seconds\n"
    )
    return {"set": where, "k": str(k), "method": method, "way": way, "loss": f"{loss:.4f}"}


if __name__ == "__main__":
    main()
