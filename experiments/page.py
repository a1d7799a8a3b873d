"""``python -m experiments.page``: generate docs/results.md from experiments/results/full.

The figures and tables on the page are copied into docs/, from which the site is built.
"""

import shutil
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments._findings import VERDICTS, read_study, show_number
from experiments._profiles import RESULTS, ROOT

__all__ = ["NAMES", "copies", "make_page", "write_page"]

NAMES = ("aggregation", "quantization", "dependence", "probabilistic", "incremental")
"""The papers, in page order."""

NOTHING = "-"
FULL = RESULTS / "full"
DOCS = ROOT / "docs"
HEAD = """\
# Results: reproducing the five papers

Every table and figure of five papers that reports a result, computed with microcell's public
interface and shown next to the published values. Times are from one run of each paper on two cores
(for the incremental paper, processor seconds on one thread) and depend on the machine; everything
else is seeded and reproducible.

`make papers` runs everything and generates this page from the files it writes. *Reproduced* means
that a value or claim holds here as well, *better* that ours has less distortion, time or risk, and
*differs* that it does not hold, with the reason.
"""


def make_page(folder: Path = FULL) -> str:
    """Return the text of the page for the studies in the folder."""
    studies = _studies(folder)
    parts = [HEAD, _headline(studies), _counts(studies), *(_paper(study) for study in studies)]
    return "\n".join(part for part in parts if part)


def copies(folder: Path = FULL) -> dict[Path, Path]:
    """Return the files to copy into docs/, by their source."""
    return {
        folder / study["name"] / shown["file"]: DOCS / "results" / study["name"] / shown["file"]
        for study in _studies(folder)
        for shown in study["shown"]
    }


def write_page() -> None:
    """Write the page and copy its figures and tables, replacing the old ones."""
    shown = copies()
    shutil.rmtree(DOCS / "results", ignore_errors=True)
    for source, target in shown.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    (DOCS / "results.md").write_text(make_page(), encoding="utf-8")


# --- parts of the page ---


def _studies(folder: Path) -> list[dict[str, Any]]:
    return [
        read_study(folder / name) for name in NAMES if (folder / name / "findings.json").is_file()
    ]


def _headline(studies: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of distortion and time by data set, k and method; row minima are bold."""
    rows = [each for study in studies for each in study["headline"]]
    if not rows:
        return ""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cases = dict.fromkeys((row["data"], row["k"]) for row in rows)
    cells = {(row["data"], row["k"], row["method"]): row for row in rows}
    lines = [
        [str(data), str(k), *_cells([cells.get((data, k, method)) for method in methods])]
        for data, k in cases
    ]
    about = (
        "Distortion, 100 D = 100 SSE / SST in percent, on the classic data sets, with the run time "
        "in parentheses. Columns marked *in print* are published values; a dash means that there "
        "is none or that nothing was run. *V-MDAV* uses the gamma of the published tables: 0.2, "
        "and 1.1 on EIA for k = 5 and 10. *PCL as published* uses noisy copies of the records "
        "(fewer than the paper, see Table 2), half steps, and macrocells of 360 or 540 records, "
        "with one start from MDAV; the noise erases that start, so it may end above MDAV. *No "
        "noise* is the same without copies and macrocells, best of five starts. *PCL*, *auto* and "
        "*anneal* are the methods of this package, one run each, and depend on the random seed; "
        "*PCL* is the best of five starts, with the time of all five. *Best in print* is the "
        "lowest published value listed in the [records](records.md); *best of ours* also "
        "considers the partitions stored there.\n"
    )
    return "\n".join(
        [
            "## Distortion and time\n",
            about,
            *_table(["data", "k", *map(_plain, methods)], lines),
            "",
        ]
    )


def _cells(rows: list[Mapping[str, Any] | None]) -> list[str]:
    complete = [row for row in rows if row is not None and row.get("D_percent") not in (None, "")]
    least = min((float(row["D_percent"]) for row in complete), default=0.0)
    return [NOTHING if row is None or row not in complete else _cell(row, least) for row in rows]


def _cell(row: Mapping[str, Any], least: float) -> str:
    loss, seconds = show_number(row["D_percent"]), row.get("seconds")
    text = f"**{loss}**" if float(row["D_percent"]) == least else loss
    return text if seconds in (None, "") else f"{text} ({_clock(float(seconds))})"


def _clock(seconds: float) -> str:
    """Format a duration: 0.02 s, 37 s, 16 min 15 s."""
    if seconds < 60:
        return f"{seconds:.2g} s"
    return f"{round(seconds) // 60} min {round(seconds) % 60} s"


def _counts(studies: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of verdicts and run times per paper."""
    lines, total, seconds = [], dict.fromkeys(VERDICTS, 0), 0.0
    for study in studies:
        count = {
            verdict: sum(f["verdict"] == verdict for f in study["findings"]) for verdict in VERDICTS
        }
        total = {verdict: total[verdict] + count[verdict] for verdict in VERDICTS}
        seconds += study["seconds"] or 0.0
        title = f"[{study['title']}](#{study['name']})"
        lines.append(
            [title, *(str(count[verdict]) for verdict in VERDICTS), _clock(study["seconds"] or 0.0)]
        )
    lines.append(["all", *(str(total[verdict]) for verdict in VERDICTS), _clock(seconds)])
    return "\n".join(["## Verdicts\n", *_table(["paper", *VERDICTS, "run time"], lines), ""])


def _paper(study: Mapping[str, Any]) -> str:
    name = study["name"]
    # An explicit anchor, because sites derive different ids from headings.
    parts = [f'<a id="{name}"></a>\n', f"## {study['title']}\n"]
    header = ["item", "what", "theirs", "ours", "verdict", "why"]
    order = list(dict.fromkeys(f["item"] for f in study["findings"]))
    findings = sorted(study["findings"], key=lambda f: order.index(f["item"]))
    parts += _table(header, [[_plain(f[key]) for key in header] for f in findings])
    figures = [shown for shown in study["shown"] if shown["file"].endswith(".svg")]
    tables = [shown for shown in study["shown"] if shown["file"].endswith(".csv")]
    if figures:
        parts.append("\n### Figures\n")
        parts += [line for shown in figures for line in _figure(name, shown)]
    if tables:
        parts.append("### Tables\n")
        parts += [_link(name, shown) for shown in tables]
        parts.append("")
    parts += _left_out(name)
    return "\n".join(parts)


def _figure(name: str, shown: Mapping[str, str]) -> list[str]:
    caption = f"{_plain(shown['item'])}: {_plain(shown['caption']).rstrip('.')}"
    alt = caption.replace("[", "(").replace("]", ")")
    return [f"![{alt}](results/{name}/{shown['file']})\n", f"*{caption}.*\n"]


def _link(name: str, shown: Mapping[str, str]) -> str:
    file, item, caption = (shown[key] for key in ("file", "item", "caption"))
    return f"- [{file}](results/{name}/{file}) ({_plain(item)}): {_plain(caption).rstrip('.')}."


def _left_out(name: str) -> list[str]:
    reasons: Mapping[str, str] = getattr(import_module(f"experiments.{name}"), "LEFT_OUT", {})
    if not reasons:
        return []
    listed = "; ".join(f"{_plain(item)} ({_plain(why)})" for item, why in reasons.items())
    return [f"Not included: {listed}.\n"]


def _table(header: list[str], lines: Iterable[list[str]]) -> list[str]:
    rows = [header, ["---"] * len(header), *lines]
    return ["| " + " | ".join(row) + " |" for row in rows]


def _plain(text: str) -> str:
    """Escape text for a Markdown table cell."""
    for mark in ("\\", "*", "|", "`", "~"):
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.replace("<", "&lt;").split())


if __name__ == "__main__":
    write_page()
