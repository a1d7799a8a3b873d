"""``python -m benchmarks.page``: generate docs/benchmarks.md from the results of a full run."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import equal_records, optimum
from benchmarks.apart import ROOT, Row
from benchmarks.contenders import CONTENDERS, OURS, PEERS
from benchmarks.figures import FIGURES, draw
from benchmarks.profiles import OVER

__all__ = ["FOLDER", "PAGE", "RESULTS", "make_page", "read", "write"]

RESULTS = Path(__file__).parent / "results" / "full.json"
PAGE = ROOT / "docs" / "benchmarks.md"
FOLDER = ROOT / "docs" / "benchmarks"

TOP = """# Benchmarks

Time, peak memory and distortion of our methods and of other packages, measured in one run of
`make bench`; `python -m benchmarks.page` generates this page from its results. Records are
independent standard Gaussian numbers, seed 0. Each measurement runs in its own process: a warm-up
run that compiles, then the best of up to five runs. *Memory* is the peak of the process; *extra* is
what the method used on top of the memory held when it started (including the table), in multiples
of the table: 1 means as much memory again as the numbers themselves. *D* = SSE / SST is computed by
the same plain function for all.
"""


def show(value: object) -> str:
    """Format a value for a table: three digits, thousands separators, a dash for none.

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
    """Return a Markdown table."""
    lines = [list(header), ["---"] * len(header), *([show(value) for value in row] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines) + "\n"


def picture(name: str, caption: str) -> str:
    """Return the Markdown of a figure."""
    return f"![{caption}](benchmarks/{name}.svg)\n\n"


def about(results: Row) -> str:
    """Describe the machine and the package versions."""
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
    text = (
        f"Profile {results['profile']}, on {machine['cores']} cores "
        f"({machine['processor']}{cache}), "
    )
    text += f"{machine['memory_gb']:g} GB, {machine['system']}, Python {machine['python']}: "
    text += ", ".join(f"{name} {text}" for name, text in (ours | theirs).items()) + "."
    text += "" if theirs else " Other packages were not installed."
    before, after = results["load"]
    text += (
        f" Load average at the start: {before:.1f}; at the end, including this run: {after:.1f}."
    )
    if before > machine["cores"] / 2:
        text += " **The machine was busy: the times are not reliable.**"
    if results.get("apart"):
        text += f" Measured later, in a separate run: {'; '.join(results['apart'])}."
    return text + "\n\n"


def notes() -> str:
    """List the notes on contenders."""
    text = [
        f"- {name}: {contender.note}.\n" for name, contender in CONTENDERS.items() if contender.note
    ]
    return "".join(text) + "\n"


def _measured(results: Row, *questions: str) -> list[Row]:
    rows = results["measurements"]
    return [row for row in rows if row["question"] in questions and row["status"] == "measured"]


def _beyond(row: Row) -> float | None:
    """Extra memory, in multiples of the table."""
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
    "extra, tables",
    "D",
    "smallest cell",
)


def growth(results: Row) -> str:
    """Return the section on growth exponents."""
    rows = []
    for row in results["exponents"]:
        error = "-" if row["error"] is None else f"± {row['error']:.2f}"
        steps = f"{row['least']:.2f} to {row['most']:.2f}"
        over = f"{row['question'].removeprefix('over ')}: {row['from']:,} to {row['to']:,}"
        rows.append([row["contender"], over, f"{row['exponent']:.2f}", error, steps])
    text = (
        "Time is roughly proportional to a power of n, m or k. The exponent is the slope of a "
        "line\n"
        "through the measurements on logarithmic axes, with its standard error; *steps* gives the\n"
        "smallest and the largest slope between neighboring sizes.\n\n"
    )
    return (
        "## How time grows\n\n"
        + text
        + table(("method", "over", "exponent", "error", "steps"), rows)
    )


def distortion_by_k(results: Row) -> str:
    """Return distortion by method and k."""
    rows = _measured(results, "over k")
    columns = sorted({row["k"] for row in rows})
    actual = {(row["contender"], row["k"]): _distortion(row) for row in rows}
    names = dict.fromkeys(row["contender"] for row in rows)
    lines = [[name, *(actual.get((name, k)) for k in columns)] for name in names]
    below = "time and memory are listed under all measurements"
    text = (
        f"D by k, {rows[0]['n']:,} records with {rows[0]['m']} columns; {below}.\n\n"
        if rows
        else ""
    )
    figure = picture("distortion-against-k", "Distortion by k")
    return (
        "## Distortion by k\n\n"
        + text
        + figure
        + table(("method", *(f"k = {k}" for k in columns)), lines)
    )


def distortion_by_time(results: Row) -> str:
    """Return distortion and time of all methods on one table."""
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
    figure = picture("distortion-against-time", "Distortion against time")
    header = (*MEASURED, "time / MDAV's", "D / MDAV's")
    return "## Distortion and time\n\nSorted by distortion.\n\n" + figure + table(header, lines)


def against_numpy(results: Row) -> str:
    """Compare MDAV with a plain NumPy version."""
    rows = _measured(results, "plain NumPy")
    if len(rows) < 2:
        return ""
    ours, plain = sorted(rows, key=lambda row: row["seconds"])
    same = "identical" if ours["digest"] == plain["digest"] else "NOT identical"
    return (
        f"A plain NumPy version of MDAV, on {ours['n']:,} records of {ours['m']} columns with k = "
        f"{ours['k']}, takes\n"
        f"{show(plain['seconds'])} s, ours {show(ours['seconds'])} s, "
        f"{plain['seconds'] / ours['seconds']:.0f} "
        f"times faster; the cells are {same}.\n\n"
    )


def under_the_roof(results: Row) -> str:
    """Compare MDAV's scan with the limits of the machine."""
    roof = results["roofline"]
    text = (
        "A distance over m columns reads 8 m bytes and takes 3 m operations; MDAV computes 0.75 "
        "n^2 / k\n"
        "distances. The limits of the machine are measured in the same run: multiply-adds fused "
        "and\n"
        "unfused (ours are unfused, so that results do not depend on the compiler), a STREAM-like\n"
        "triad, and reading alone.\n\n"
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
    header += ("bandwidth at that size", "of it", "bound by", "of the roof")
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
        "*Of the roof* is the share of what the machine allows: the smaller of the fused peak and "
        "the\n"
        "bandwidth times 3/8 operations per byte. More than 100 % would mean that the machine was "
        "busy\n"
        "while its limits were measured.\n\n"
    )
    return (
        "## MDAV's scan and the limits of the machine\n\n"
        + text
        + bounds
        + table(header, lines)
        + note
    )


def audits(results: Row) -> str:
    """Return times and memory of the audit, compared with pyCANON."""
    audit, text = results["audit"], "## The audit\n\n"
    if audit["parts"]["status"] == "measured":
        rows = audit["parts"]["rows"]
        text += (
            f"{rows[0]['n']:,} rows with six quasi-identifiers and two confidential columns:\n\n"
        )
        text += table(("part", "seconds"), [[row["case"], row["seconds"]] for row in rows])
    if audit["memory"].get("tables") is not None:
        extra = audit["memory"]["tables"]
        text += f"Peak memory in addition to the two tables: {extra:.2f} tables.\n\n"
    both = audit["anonymity"]
    rows = [(name, row) for name, row in both.items() if row["status"] == "measured"]
    text += "k, l-diversity and t-closeness for two columns with ten values each:\n\n"
    text += table(
        ("package", "rows", "seconds", "memory, MB"),
        [[name, row["n"], row["seconds"], row["peak_mb"]] for name, row in rows],
    )
    if "times faster" in both["microcell"]:
        same = (
            "The values are identical"
            if both["microcell"]["same values"]
            else "The values are NOT identical"
        )
        text += f"{same}; microcell is {both['microcell']['times faster']:,.0f} times faster.\n\n"
    return text


def many_equal_records() -> str:
    """Return the section on tables of many equal records."""
    if not equal_records.RESULTS.is_file():
        return ""
    measured = json.loads(equal_records.RESULTS.read_text(encoding="utf-8"))
    least = {(row["table"], row["k"]): row["loss"] for row in measured if row["method"] == "mdav"}
    rows = [
        [
            *(row[name] for name in ("table", "n", "distinct", "k", "method")),
            f"{row['loss']:.4f}",
            f"{row['loss'] / least[row['table'], row['k']]:.2f}",
            f"{row['cpu_seconds']:.1f}",
        ]
        for row in measured
    ]
    header = ["table", "records", "distinct", "k", "method", "information loss, %", "loss / MDAV's"]
    return (
        "## Equal records\n\nTables of categories and whole numbers, in which many records are "
        "equal: a generated census of sex, age, marital status, education and economic status, and "
        "columns of Adult (records without missing values). Measured apart by `python -m "
        "benchmarks.equal_records`. Seconds are those of the processor, on all threads "
        "together.\n\n" + table([*header, "seconds of the processor"], rows)
    )


def distance_to_optimum() -> str:
    """Return the section on lower bounds, from the results of ``python -m benchmarks.optimum``."""
    measured = json.loads(optimum.RESULTS.read_text(encoding="utf-8"))
    rows = [
        [
            f"{row['data']}, k = {row['k']}",
            *(f"{row[name]:.4g}" for name in ("lowest", "bound", "nearest")),
            f"{row['bound'] / row['lowest']:.1%}",
            f"{row['nearest'] / row['lowest']:.1%}",
            str(row["effort"]),
            round(row["seconds"]),
            round(row["cpu_seconds"]),
        ]
        for row in measured
    ]
    header = ["data", "lowest known", "bound", "fast bound", "bound / lowest", "fast / lowest"]
    return (
        "## Distance to the optimum\n\nInformation loss in percent: the lowest found so far "
        "([records](records.md)), and [lower bounds](methods.md#distance-to-the-optimum) that no "
        "partition is below. A share of 100 % would prove the lowest known to be optimal. Measured "
        "apart by `python -m benchmarks.optimum`, beside other work: the seconds of the processor "
        "count, not those that passed. With an effort in seconds, these are the limit.\n\n"
        + table([*header, "effort", "seconds", "seconds of the processor"], rows)
    )


def starting(results: Row) -> str:
    """Return the start-up times."""
    return "## Start-up\n\n" + table(
        ("what", "seconds"), [[row["case"], row["seconds"]] for row in results["start_up"]]
    )


def left_out(results: Row) -> str:
    """List what could not be measured, with the reason."""
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
        ["limits of the machine", "roofline", None, None, None, r["why"]]
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
    """Return the page."""
    all_rows = [row for row in results["measurements"] if row["status"] == "measured"]
    shown = [row for row in all_rows if row["question"] != "distortion and time"]
    over_n = picture("time-against-n", "Seconds by number of records")
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
            many_equal_records(),
            distance_to_optimum(),
            starting(results),
            left_out(results),
        ]
    )


def read(path: Path = RESULTS) -> Row:
    """Read the results of a run."""
    actual: Row = json.loads(path.read_text(encoding="utf-8"))
    return actual


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
