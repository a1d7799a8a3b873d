"""``python -m benchmarks [quick|full]``: measure and store as JSON; a full run writes the page.

Other packages are measured with the Python given by ``--peers``, or that of ``make peers``.
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from math import inf
from os import getloadavg
from pathlib import Path
from time import perf_counter

from benchmarks import page
from benchmarks.apart import ROOT, Row, not_run, run_apart
from benchmarks.auditing import run_audits
from benchmarks.cases import Case, machine, run_case, start_up, versions, warm_up_peers
from benchmarks.profiles import OVER, PROFILES, Profile
from benchmarks.roofline import roofline
from benchmarks.scaling import exponents

__all__ = ["run_cases", "run_profile"]

PEERS = ROOT / ".venv-peers" / "bin" / "python"


def show(row: Row) -> str:
    """Format a measurement as one line."""
    about = (
        f"{row['question']:24} {row['contender']:22} n {row['n']:>9,} m {row['m']:>3} k "
        f"{row['k']:>5}"
    )
    if row["status"] != "measured":
        return f"{about}  not run: {row['why']}"
    return f"{about}  {row['seconds']:9.4f} s {row['peak_mb']:8.0f} MB  D {row['D']:.5f}"


def run_cases(cases: Iterable[Case], peers: str | None, deadline: float = inf) -> list[Row]:
    """Measure the cases in order; skip larger cases of contenders that were stopped."""
    rows, stopped = [], dict[tuple[str, str], Row]()
    for case in cases:
        before, left = stopped.get((case.question, case.contender)), deadline - perf_counter()
        if before is not None:
            output = (
                f"not tried: n = {before['n']:,}, m = {before['m']}, k = {before['k']} was "
                f"{before['why']}"
            )
            row = {**asdict(case), **not_run(output)}
        elif left < 1:
            row = {**asdict(case), **not_run("not tried: the time for the whole run was up")}
        else:
            row = run_case(replace(case, limit=round(min(case.limit, left), 1)), peers)
        if row["status"] != "measured" and row["why"].startswith("stopped"):
            stopped[case.question, case.contender] = row
        rows.append(row)
        print(show(row), flush=True)
    return rows


def run_profile(name: str, profile: Profile, peers: str | None) -> Row:
    """Measure everything in a profile."""
    before = getloadavg()[0]
    print(
        "Other packages: "
        + (f"measured by {peers}" if peers else "not installed, left out (make peers)"),
        flush=True,
    )
    if peers:
        warm_up_peers(peers)
    deadline = perf_counter() + 60 * profile.minutes
    output: Row = {"profile": name, "machine": machine(), "versions": versions()}
    output["peers"] = run_apart("benchmarks.cases:versions", {}, python=peers) if peers else None
    output["roofline"] = roofline(list(profile.roof), profile.large_mb)
    for row in output["roofline"]["mdav"]:
        share = f"{row['of_roof']:.0%} of the roof" if row["status"] == "measured" else row["why"]
        print(
            f"MDAV's scan on {row['threads']} threads, n {row['n']:,}, m {row['m']}: {share}",
            flush=True,
        )
    output["audit"] = run_audits(profile.audit, profile.anonymity, peers)
    output["start_up"] = start_up()
    output["measurements"] = run_cases(profile.cases, peers, deadline)
    output["load"] = [before, getloadavg()[0]]
    output["exponents"] = exponents(output["measurements"], OVER)
    return output


def run_again(question: str, profile: Profile, peers: str | None, output: Row) -> Row:
    """Replace the measurements of one question by new ones, and note that."""
    questions = list(dict.fromkeys(case.question for case in profile.cases))
    if question not in questions:
        raise SystemExit(f"No such question: {', '.join(questions)}.")
    if peers:
        warm_up_peers(peers)
    anew = run_cases([case for case in profile.cases if case.question == question], peers)
    kept = [row for row in output["measurements"] if row["question"] != question]
    rows = sorted([*kept, *anew], key=lambda row: questions.index(row["question"]))
    apart = sorted({*output.get("apart", ()), question})
    return {**output, "measurements": rows, "apart": apart, "exponents": exponents(rows, OVER)}


def main() -> None:
    """Run a profile."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("profile", nargs="?", default="full", choices=PROFILES)
    parser.add_argument("--peers", help="a Python that has the other packages")
    parser.add_argument(
        "--only", help="a question: its cases are measured again, and the rest of the results stays"
    )
    parser.add_argument(
        "--output", type=Path, help="file for the results, with no page made of them"
    )
    options = parser.parse_args()
    peers = options.peers or (str(PEERS) if PEERS.is_file() else None)
    path = options.output or page.RESULTS.with_name(f"{options.profile}.json")
    output = (
        run_again(
            options.only,
            PROFILES[options.profile],
            peers,
            json.loads(path.read_text(encoding="utf-8")),
        )
        if options.only
        else run_profile(options.profile, PROFILES[options.profile], peers)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(output, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path.name}")
    if path == page.RESULTS:
        page.write()


if __name__ == "__main__":
    main()
