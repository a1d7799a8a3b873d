"""``python -m benchmarks.adversary.page``: fill docs/attacks.md from the results of a full run."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.apart import ROOT
from benchmarks.page import table

__all__ = ["PAGE", "RESULTS", "make_page", "read", "summary", "totals", "write"]

RESULTS = ROOT / "benchmarks" / "results" / "attacks-full.json"
PAGE = ROOT / "docs" / "attacks.md"

Row = dict[str, Any]


def read(path: Path = RESULTS) -> Row:
    """Return the stored results."""
    results: Row = json.loads(path.read_text(encoding="utf-8"))
    return results


def totals(results: Row) -> Row:
    """Return the number of attempts and what was recovered beyond guessing, where we promise it."""
    promised = [row for row in results["attacks"] if row["promised"]]
    return {
        "attacks": len(promised),
        "attempts": sum(row["total"] for row in promised),
        "recovered": sum(row["recovered"] for row in promised),
        "guessing": sum(row["guessing"] for row in promised),
        "beyond": sum(row["beyond_guessing"] for row in promised),
    }


def summary(results: Row) -> str:
    """Return the headline in one sentence."""
    counts = totals(results)
    return (
        f"Recovered beyond guessing: {counts['beyond']:,} of {counts['attempts']:,} values and "
        f"records, in {counts['attacks']} attacks"
    )


def make_page(results: Row, text: str) -> str:
    """Return the page with its generated parts."""
    parts = {
        "summary": f"**{summary(results)}.**",
        "promised": _rates(row for row in results["attacks"] if row["promised"]),
        "admitted": _rates(row for row in results["attacks"] if not row["promised"]),
        "advice": _advice(row for row in results["attacks"] if not row["promised"]),
        "grid": _grid(results),
        "details": _details(results["attacks"]),
    }
    for name, content in parts.items():
        start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"the page must contain the markers of {name!r} once")
        filled = f"{start}\n\n{content.strip()}\n\n{end}"
        text = pattern.sub(lambda _, filled=filled: filled, text)
    return text


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _rates(rows: Iterable[Row]) -> str:
    header = ["attack", "attempts", "recovered", "99 % interval", "guessing", "beyond guessing"]
    return table(
        header,
        (
            [
                row["name"],
                row["total"],
                f"{row['recovered']:,} ({_percent(row['recovered'] / row['total'])})",
                " to ".join(_percent(bound) for bound in row["interval"]),
                f"{row['guessing']:,.1f} ({_percent(row['guessing'] / row['total'])})",
                row["beyond_guessing"],
            ]
            for row in rows
        ),
    )


def _advice(rows: Iterable[Row]) -> str:
    return "\n".join(f"- **{row['name']}**: {row['advice']}." for row in rows)


def _details(rows: Iterable[Row]) -> str:
    header = ["attack", "the attacker knows", "and reads", "to recover", "guessing"]
    names = ("name", "knowledge", "output", "target", "baseline")
    return table(header, ([row[name] for name in names] for row in rows))


def _grid(results: Row) -> str:
    """Return, per table, method and k, the information loss beside the share of records found."""
    cells = dict.fromkeys(
        (row["table"], row["method"], row["k"]) for row in results["information_loss"]
    )
    lines = []
    for cell in cells:
        losses = _select(results["information_loss"], cell)
        attempts = _select(results["settings"], cell)
        positions = [row for row in attempts if row["attack"] == "row positions"]
        links = [row for row in attempts if row["attack"] == "linkage with noise"]
        lines.append(
            [
                *cell,
                _percent(fmean(row["information_loss"] for row in losses)),
                _share(positions, "guessing"),
                _share(positions, "recovered"),
                *(
                    _share([row for row in links if row["noise"] == noise], "recovered")
                    for noise in (0.0, 0.1, 0.5)
                ),
            ]
        )
    header = ["table", "method", "k", "information loss", "guessing", "row positions"]
    return table([*header, "linkage", "linkage, noise 0.1", "linkage, noise 0.5"], lines)


def _select(rows: Iterable[Row], cell: tuple[Any, ...]) -> list[Row]:
    names = ("table", "method", "k")
    return [row for row in rows if tuple(row.get(name) for name in names) == cell]


def _share(rows: list[Row], name: str) -> str:
    return _percent(sum(row[name] for row in rows) / sum(row["total"] for row in rows))


def write() -> None:
    """Write the page."""
    PAGE.write_text(make_page(read(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"written: {PAGE.name}")


if __name__ == "__main__":
    write()
