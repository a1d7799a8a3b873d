"""``python -m experiments.page``: docs/results.md, made of the results under experiments/results/full and nothing else.

The figures and tables that the page shows are copied beside it, since the site is built of docs/ alone.
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
"""The papers, in the order of the page."""

NOTHING = "-"
FULL = RESULTS / "full"
DOCS = ROOT / "docs"
HEAD = """\
# Results: the papers again, ours beside theirs

Every table and every figure of five papers that shows a result, computed with microcell's public interface. Times are
those of one run of each paper on two cores (of the incremental one, seconds of the processor on one thread), and depend
on the machine; everything else is seeded and comes out the same again.
`make papers` runs it all and makes this page of the files that it leaves. *Reproduced* says that a value or a claim
holds here too, *better* that ours has less distortion, time or risk, and *differs* that it is otherwise, and why.
"""


def make_page(folder: Path = FULL) -> str:
    """The text of the page, of the studies that are in the folder."""
    studies = _studies(folder)
    parts = [HEAD, _headline(studies), _counts(studies), *(_paper(study) for study in studies)]
    return "\n".join(part for part in parts if part)


def copies(folder: Path = FULL) -> dict[Path, Path]:
    """What is shown: files under docs/ by the files that they are copies of."""
    return {
        folder / study["name"] / shown["file"]: DOCS / "results" / study["name"] / shown["file"]
        for study in _studies(folder)
        for shown in study["shown"]
    }


def write_page() -> None:
    """Write the page and what it shows, in place of what was there."""
    shown = copies()
    shutil.rmtree(DOCS / "results", ignore_errors=True)
    for source, target in shown.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    (DOCS / "results.md").write_text(make_page(), encoding="utf-8")


# ---------------------------------------------------------------------------------------------- parts of the page


def _studies(folder: Path) -> list[dict[str, Any]]:
    return [
        read_study(folder / name) for name in NAMES if (folder / name / "findings.json").is_file()
    ]


def _headline(studies: Iterable[Mapping[str, Any]]) -> str:
    """Distortion and time: a line for each data set and k, a column for each method, the least of a line in bold."""
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
        "Distortion, 100 D = 100 SSE / SST in percent, of the classic data sets, and in brackets the time that the "
        "method took here. Values in print are those of the literature; a dash stands where none is, or nothing was "
        "run. *V-MDAV* is with the gamma of the printed tables: 0.2, and 1.1 on EIA for k = 5 and 10. *PCL as "
        "published* is with noisy copies of the records (fewer than the paper has, see Table 2), half steps, and "
        "macrocells of 360 or 540 records, one start from MDAV: the noise forgets that start, so it may end above "
        "MDAV. *No noise* is the same without copies and macrocells, the best of five starts. *PCL*, *auto* and "
        "*anneal* are the methods here, each in one run, which differ by chance; *PCL* is the best of five starts, "
        "and its time that of all five. *Best in print* is the least of the values that are listed in the "
        "[records](records.md); *best of ours* also counts the partitions that are kept there.\n"
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
    known = [row for row in rows if row is not None and row.get("D_percent") not in (None, "")]
    least = min((float(row["D_percent"]) for row in known), default=0.0)
    return [NOTHING if row is None or row not in known else _cell(row, least) for row in rows]


def _cell(row: Mapping[str, Any], least: float) -> str:
    loss, seconds = show_number(row["D_percent"]), row.get("seconds")
    text = f"**{loss}**" if float(row["D_percent"]) == least else loss
    return text if seconds in (None, "") else f"{text} ({_clock(float(seconds))})"


def _clock(seconds: float) -> str:
    """Seconds as read: 0.02 s, 37 s, 16 min 15 s."""
    if seconds < 60:
        return f"{seconds:.2g} s"
    return f"{round(seconds) // 60} min {round(seconds) % 60} s"


def _counts(studies: Iterable[Mapping[str, Any]]) -> str:
    """How the findings came out and how long it took, a line for each paper and one for all."""
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
    return "\n".join(["## Verdicts\n", *_table(["paper", *VERDICTS, "time of the run"], lines), ""])


def _paper(study: Mapping[str, Any]) -> str:
    name = study["name"]
    # A plain anchor: headings get other ids on other sites.
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
    return [f"Not shown: {listed}.\n"]


def _table(header: list[str], lines: Iterable[list[str]]) -> list[str]:
    rows = [header, ["---"] * len(header), *lines]
    return ["| " + " | ".join(row) + " |" for row in rows]


def _plain(text: str) -> str:
    """Text that Markdown takes as it is, on one line and without the bars of a table."""
    for mark in ("\\", "*", "|", "`", "~"):
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.replace("<", "&lt;").split())


if __name__ == "__main__":
    write_page()
