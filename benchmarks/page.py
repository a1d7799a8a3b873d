"""``python -m benchmarks.page``: docs/benchmarks.md and its figures, made of the results of the full profile."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.apart import ROOT, Row
from benchmarks.contenders import CONTENDERS, OURS, PEERS
from benchmarks.figures import FIGURES, draw
from benchmarks.profiles import OVER

__all__ = ["FOLDER", "PAGE", "RESULTS", "make_page", "read", "write"]

RESULTS = Path(__file__).parent / "results" / "full.json"
PAGE = ROOT / "docs" / "benchmarks.md"
FOLDER = ROOT / "docs" / "benchmarks"

TOP = """# Benchmarks

Time, peak memory and distortion of our methods and of other packages, measured in one run by `make bench`; this page is
made of its results by `python -m benchmarks.page`. Records are independent standard Gaussian numbers, seed 0. Each
measurement has a process of its own: a warm-up first, which compiles, then the best of up to five runs. *Memory* is the
peak of the process; *beyond* is what the method took on top of what was held before it began (the table among it), in
tables: 1 means as much memory again as the numbers themselves. *D* = SSE / SST is computed by the same plain function
for all.
"""


def show(value: object) -> str:
    """A figure as the tables show it: three digits, thousands set apart, a dash for none.

    Examples
    --------
    >>> show(0.012345), show(1234567), show(15432.1), show(None), show("mdav")
    ('0.0123', '1,234,567', '15,432', '-', 'mdav')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [list(header), ["---"] * len(header), *([show(value) for value in row] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines) + "\n"


def picture(name: str, told: str) -> str:
    """A figure, by its file."""
    return f"![{told}](benchmarks/{name}.svg)\n\n"


def about(results: Row) -> str:
    """The machine and the versions."""
    machine, peers = results["machine"], results["peers"] or {}
    cache = (
        f", last-level cache {machine['last_level_cache']}" if machine["last_level_cache"] else ""
    )
    ours = {
        name: text
        for name, text in results["versions"].items()
        if name in ("microcell", "numpy", "numba")
    }
    theirs = {
        name: text for name, text in peers.items() if text and name not in ours and name != "scipy"
    }
    told = f"Profile {results['profile']}, on {machine['cores']} cores ({machine['processor']}{cache}), "
    told += f"{machine['memory_gb']:g} GB, {machine['system']}, Python {machine['python']}: "
    told += ", ".join(f"{name} {text}" for name, text in (ours | theirs).items()) + "."
    told += "" if theirs else " Other packages were not installed."
    before, after = results["load"]
    told += f" Programs that ran or waited at the start: {before:.1f}; at the end, this run among them: {after:.1f}."
    if before > machine["cores"] / 2:
        told += " **The machine was busy with other work: the times are not to be relied on.**"
    if results.get("apart"):
        told += f" In a run of its own, later: {'; '.join(results['apart'])}."
    return told + "\n\n"


def notes() -> str:
    """What to know of contenders."""
    told = [
        f"- {name}: {contender.note}.\n" for name, contender in CONTENDERS.items() if contender.note
    ]
    return "".join(told) + "\n"


def _measured(results: Row, *questions: str) -> list[Row]:
    rows = results["measurements"]
    return [row for row in rows if row["question"] in questions and row["status"] == "measured"]


def _beyond(row: Row) -> float | None:
    """Memory beyond what was held, in tables."""
    return None if row["beyond_mb"] is None else row["beyond_mb"] / row["matrix_mb"]


def _distortion(row: Row) -> str:
    return f"{row['D']:.4g}"


def _line(row: Row) -> list[object]:
    sizes = [row["contender"], row["n"], row["m"], row["k"]]
    return [*sizes, row["seconds"], row["peak_mb"], _beyond(row), _distortion(row), row["smallest"]]


MEASURED = (
    "method",
    "n",
    "m",
    "k",
    "seconds",
    "memory, MB",
    "beyond, tables",
    "D",
    "smallest cell",
)


def growth(results: Row) -> str:
    """Exponents."""
    rows = []
    for row in results["exponents"]:
        error = "-" if row["error"] is None else f"± {row['error']:.2f}"
        steps = f"{row['least']:.2f} to {row['most']:.2f}"
        over = f"{row['question'].removeprefix('over ')}: {row['from']:,} to {row['to']:,}"
        rows.append([row["contender"], over, f"{row['exponent']:.2f}", error, steps])
    told = (
        "Time is about proportional to a power of n, of m or of k; the exponent is the slope of the line through the\n"
        "measurements on logarithmic axes, with its standard error, and beside it the least and the greatest slope\n"
        "from one size to the next.\n\n"
    )
    return (
        "## How time grows\n\n"
        + told
        + table(("method", "over", "exponent", "error", "steps"), rows)
    )


def distortion_by_k(results: Row) -> str:
    """A line a contender, a column a k."""
    rows = _measured(results, "over k")
    columns = sorted({row["k"] for row in rows})
    found = {(row["contender"], row["k"]): _distortion(row) for row in rows}
    names = dict.fromkeys(row["contender"] for row in rows)
    lines = [[name, *(found.get((name, k)) for k in columns)] for name in names]
    below = "time and memory are below, among all measurements"
    told = (
        f"D over k, {rows[0]['n']:,} records of {rows[0]['m']} columns; {below}.\n\n"
        if rows
        else ""
    )
    figure = picture("distortion-against-k", "Distortion of every method over k")
    return (
        "## Distortion over k\n\n"
        + told
        + figure
        + table(("method", *(f"k = {k}" for k in columns)), lines)
    )


def distortion_by_time(results: Row) -> str:
    """What everyone reaches, and what it costs, on one table."""
    rows = _measured(results, "distortion and time")
    first = next((row for row in rows if row["contender"] == "mdav"), None)
    lines = [
        [
            *_line(row),
            row["seconds"] / first["seconds"] if first else None,
            row["D"] / first["D"] if first else None,
        ]
        for row in sorted(rows, key=lambda row: row["D"])
    ]
    figure = picture("distortion-against-time", "Distortion of every method against its time")
    header = (*MEASURED, "time / MDAV's", "D / MDAV's")
    return "## Distortion and time\n\nLeast distortion first.\n\n" + figure + table(header, lines)


def against_numpy(results: Row) -> str:
    """MDAV beside its plain version."""
    rows = _measured(results, "plain NumPy")
    if len(rows) < 2:
        return ""
    ours, plain = sorted(rows, key=lambda row: row["seconds"])
    same = "the same" if ours["digest"] == plain["digest"] else "NOT the same"
    return (
        f"MDAV written plainly in NumPy, on {ours['n']:,} records of {ours['m']} columns with k = {ours['k']}, takes\n"
        f"{show(plain['seconds'])} s and ours {show(ours['seconds'])} s, {plain['seconds'] / ours['seconds']:.0f} "
        f"times less; the cells are {same}.\n\n"
    )


def under_the_roof(results: Row) -> str:
    """MDAV's scan beside the machine's bounds."""
    roof = results["roofline"]
    told = (
        "A distance over m columns reads 8 m bytes and takes 3 m operations; MDAV makes 0.75 n^2 / k distances. The\n"
        "machine's bounds are measured in the same run: products and sums fused into one instruction and as two (ours\n"
        "are not fused, so that results do not depend on the compiler), a STREAM-like triad and reading alone.\n\n"
    )
    bounds = table(
        ("cores", "fused, GFLOP/s", "unfused, GFLOP/s", "data, MB", "triad, GB/s", "reading, GB/s"),
        [
            [
                row["threads"],
                row["fused"],
                row["unfused"],
                row["megabytes"],
                row["triad"],
                row["read"],
            ]
            for row in roof["machine"]
            if "fused" in row and "triad" in row
        ],
    )
    header = (
        "n",
        "m",
        "k",
        "cores",
        "seconds",
        "GFLOP/s",
        "of the fused peak",
        "of the unfused peak",
        "GB/s",
    )
    header += ("bandwidth of data of that size", "of it", "bound by", "of the roof")
    lines = []
    for row in roof["mdav"]:
        if row["status"] == "measured":
            shares = [
                f"{row[name]:.0%}"
                for name in ("of_fused_peak", "of_unfused_peak", "of_bandwidth", "of_roof")
            ]
            sizes = [
                row["n"],
                row["m"],
                row["k"],
                row["threads"],
                row["seconds"],
                row["gflops"],
                *shares[:2],
            ]
            lines.append(
                [*sizes, row["gbps"], row["bandwidth"], shares[2], row["bound"], shares[3]]
            )
    note = (
        "*Of the roof* is the share of the most that the machine allows: the lesser of the fused peak and of the\n"
        "bandwidth times 3/8 operation a byte. More than 100 % would mean that the machine had other work to do while\n"
        "its bounds were measured.\n\n"
    )
    return "## MDAV's scan and the machine\n\n" + told + bounds + table(header, lines) + note


def audits(results: Row) -> str:
    """The audit by part, its memory, and pyCANON."""
    audit, told = results["audit"], "## The audit\n\n"
    if audit["parts"]["status"] == "measured":
        rows = audit["parts"]["rows"]
        told += (
            f"Of {rows[0]['n']:,} rows with six quasi-identifiers and two confidential columns:\n\n"
        )
        told += table(("part", "seconds"), [[row["case"], row["seconds"]] for row in rows])
    if audit["memory"].get("tables") is not None:
        told += f"Peak memory beyond its two tables: {audit['memory']['tables']:.2f} tables.\n\n"
    both = audit["anonymity"]
    rows = [(name, row) for name, row in both.items() if row["status"] == "measured"]
    told += "k, l-diversity and t-closeness of two columns of ten values:\n\n"
    told += table(
        ("package", "rows", "seconds", "memory, MB"),
        [[name, row["n"], row["seconds"], row["peak_mb"]] for name, row in rows],
    )
    if "times faster" in both["microcell"]:
        same = (
            "The values are the same"
            if both["microcell"]["same values"]
            else "The values are NOT the same"
        )
        told += f"{same}; microcell takes {both['microcell']['times faster']:,.0f} times less.\n\n"
    return told


def starting(results: Row) -> str:
    """Import and first run."""
    return "## Start-up\n\n" + table(
        ("what", "seconds"), [[row["case"], row["seconds"]] for row in results["start_up"]]
    )


def left_out(results: Row) -> str:
    """What could not be measured, and why."""
    rows = [
        [row["contender"], row["question"], row["n"], row["m"], row["k"], row["why"]]
        for row in [*results["measurements"], *results["roofline"]["mdav"]]
        if row["status"] != "measured"
    ]
    parts = {"audit, parts": results["audit"]["parts"], "audit, memory": results["audit"]["memory"]}
    parts |= results["audit"]["anonymity"]
    rows += [
        [name, "audit", row.get("n"), None, None, row["why"]]
        for name, row in parts.items()
        if "why" in row
    ]
    rows += [
        ["machine's bounds", "roofline", None, None, None, r["why"]]
        for r in results["roofline"]["machine"]
        if "why" in r
    ]
    if not rows:
        return "## Not measured\n\nEverything was measured.\n"
    return (
        "## Not measured\n\n"
        + table(("method", "question", "n", "m", "k", "why"), rows).rstrip("\n")
        + "\n"
    )


def make_page(results: Row) -> str:
    """The page."""
    all_rows = [row for row in results["measurements"] if row["status"] == "measured"]
    shown = [row for row in all_rows if row["question"] != "distortion and time"]
    over_n = picture("time-against-n", "Seconds of every method over the number of records")
    lists = []
    for question in dict.fromkeys(row["question"] for row in shown):
        rows = [row for row in shown if row["question"] == question]
        order = {name: at for at, name in enumerate([*OURS, *PEERS])}
        rows.sort(key=lambda row: (order[row["contender"]], row.get(OVER.get(question, "n"))))
        lists.append(
            f"### {question[0].upper()}{question[1:]}\n\n" + table(MEASURED, map(_line, rows))
        )
    return "".join(
        [
            TOP + "\n" + about(results) + notes(),
            distortion_by_time(results),
            distortion_by_k(results),
            growth(results) + over_n,
            under_the_roof(results),
            "## All measurements\n\n" + against_numpy(results),
            *lists,
            audits(results),
            starting(results),
            left_out(results),
        ]
    )


def read(path: Path = RESULTS) -> Row:
    """The results of a run."""
    found: Row = json.loads(path.read_text(encoding="utf-8"))
    return found


def write() -> None:
    """Write the page and its figures."""
    results = read()
    FOLDER.mkdir(exist_ok=True)
    for name in FIGURES:
        (FOLDER / f"{name}.svg").write_bytes(draw(name, results["measurements"]))
    PAGE.write_text(make_page(results), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    write()
