"""Fill README.md with the results of the experiments and of the attacks.

Run ``python docs/make_readme.py`` from the project's root; ``--check`` only reports whether the
page is current.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from _pages import ROOT, fill, table, write_or_check

RESULTS = ROOT / "experiments" / "results" / "full" / "aggregation" / "findings.json"
ATTACKS = ROOT / "benchmarks" / "results" / "attacks-full.json"
RECORDS = ROOT / "docs" / "records.md"
SHOWN = ("MDAV", "V-MDAV", "PCL in print", "best in print", "auto", "best of ours")
"""The methods in the README; docs/results.md has all."""


def main() -> None:
    """Write or check the page."""
    write_or_check(readme_pages())


def readme_pages() -> dict[Path, str]:
    """Return the README with its generated parts."""
    path = ROOT / "README.md"
    text = fill(path.read_text(encoding="utf-8"), "headline", headline())
    return {path: fill(text, "attacks", attacks(json.loads(ATTACKS.read_text(encoding="utf-8"))))}


def attacks(results: Mapping[str, Any]) -> str:
    """Return what attacks recovered beyond guessing, and which attacks succeed.

    Examples
    --------
    >>> row = {"total": 90, "beyond_guessing": 0, "promised": True, "name": "row positions"}
    >>> print(attacks({"attacks": [row]}).splitlines()[0])
    **Recovered beyond guessing: 0 of 90**, in 1 attack on releases
    """
    resisted = [row for row in results["attacks"] if row["promised"]]
    others = [row["name"] for row in results["attacks"] if not row["promised"]]
    lines = [
        f"**Recovered beyond guessing: {sum(row['beyond_guessing'] for row in resisted):,} of "
        f"{sum(row['total'] for row in resisted):,}**, in "
        f"{len(resisted)} attack{'s' * (len(resisted) != 1)} on releases",
        "([row order, linkage, documents, ranges, digits, bytes of files](docs/attacks.md)).",
    ]
    if others:
        # Shown so that nobody takes the figure for more than it is.
        text = f"Outside the guarantee, and measured there with advice: {'; '.join(others)}."
        lines += wrap(text, 100)
    return "\n".join(lines)


def headline() -> str:
    """Return information loss by data set, k and method, from the experiments or the records."""
    if RESULTS.is_file():
        rows = json.loads(RESULTS.read_text(encoding="utf-8"))["headline"]
        if rows:
            shown = [row for row in rows if row["method"] in SHOWN and row["k"] in (3, 5, 10)]
            return spread(sorted(shown, key=lambda row: SHOWN.index(row["method"])))
    return from_records(RECORDS.read_text(encoding="utf-8"))


def spread(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a table with a row per data set and k and a column per method; row minima are bold.

    Examples
    --------
    >>> print(spread([
    ...     {"data": "Census", "k": 5, "method": "MDAV", "D_percent": 9.0884, "seconds": 0.01},
    ...     {"data": "Census", "k": 5, "method": "auto", "D_percent": 7.41, "seconds": 2.5},
    ... ]))
    | data | k | MDAV | auto |
    | --- | --- | --- | --- |
    | Census | 5 | 9.088 % (0.01 s) | **7.410 % (2.5 s)** |
    """
    listed = list(rows)
    methods = list(dict.fromkeys(row["method"] for row in listed))
    lines = dict.fromkeys((row["data"], row["k"]) for row in listed)
    cells = {(row["data"], row["k"], row["method"]): row for row in listed}
    out = []
    for data, k in lines:
        losses = [cells.get((data, k, method)) for method in methods]
        least = min(float(row["D_percent"]) for row in losses if row is not None)
        out.append([str(data), str(k), *(_cell(row, least) for row in losses)])
    return table(["data", "k", *methods], out)


def _cell(row: Mapping[str, Any] | None, least: float) -> str:
    if row is None:
        return ""
    seconds = row.get("seconds")
    text = f"{float(row['D_percent']):.3f} %" + (
        "" if seconds in (None, "") else f" ({float(seconds):.2g} s)"
    )
    return f"**{text}**" if float(row["D_percent"]) == least else text


def from_records(page: str) -> str:
    """Return the table from the page of records, for the usual k."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    names = {"census": "Census", "tarragona": "Tarragona", "eia": "EIA"}
    headline_rows = [row for row in rows if row[0] in names and row[1] in {"3", "5", "10"}]
    return spread(
        {"data": names[row[0]], "k": row[1], "method": method, "D_percent": loss}
        for row in headline_rows
        for method, loss in zip(
            ("MDAV", "best in print", "microcell, best found"), row[2:5], strict=True
        )
        if loss
    )


if __name__ == "__main__":
    main()
