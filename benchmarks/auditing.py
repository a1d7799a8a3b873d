"""The audit's cases: a large table by part, and the measures of anonymity beside pyCANON's."""

import subprocess
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.cases import Row, best_of
from microcell.auditing import audit
from microcell.auditing.alignment import align
from microcell.auditing.anonymity import class_labels
from microcell.auditing.attacks import link_records
from microcell.auditing.disclosure import measure_disclosure
from microcell.auditing.distortion import distort_columns
from microcell.auditing.linkage import read_linkage_points
from microcell.auditing.risk import measure_risk
from microcell.model import Column, Schema, Table, Values

NAMES = tuple(f"q{j}" for j in range(6))


def make_release(n: int, k: int = 10, seed: int = 0) -> tuple[Table, Table, Schema]:
    """Six correlated numbers and two confidential columns, before and after k neighbours in a sort became one class.

    Rows are sorted by the tenths in which their numbers lie, one number after the other: a poor release, made at once.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(NAMES)))
    X[:, 1:] += 0.7 * X[:, :1]
    tenths = [np.argsort(np.argsort(x)) * 10 // n for x in X.T]
    order = np.lexsort((X[:, -1], *tenths[-2::-1]))
    Y = np.empty_like(X)
    Y[order] = np.repeat(X[order].reshape(n // k, k, -1).mean(axis=1), k, axis=0)
    known = np.zeros(n, dtype=np.bool_)
    unchanged = {
        "pay": Values("integer", rng.integers(0, 1000, size=n), known),
        "illness": Values("text", rng.integers(0, 10, size=n), known, categories=tuple("abcdefghij")),
    }
    before, after = (
        Table({**{name: Values("float", x, known) for name, x in zip(NAMES, Z.T, strict=True)}, **unchanged}, n, None)
        for Z in (np.asfortranarray(X), np.asfortranarray(Y))
    )
    quasi = [Column(name, kind="numeric", publish="mean") for name in NAMES]
    confidential = [Column("pay", kind="numeric"), Column("illness", kind="nominal")]
    return before, after, Schema(quasi=quasi, confidential=confidential)


def large_audit(n: int = 1_000_000) -> list[Row]:
    """The audit of n rows with six quasi-identifiers and two confidential columns: seconds by part, and in all."""
    audit(*make_release(2_000))  # compiled or loaded beforehand
    before, after, schema = make_release(n)
    rows: list[Row] = []

    def timed(case: str, work: Callable[[], Any]) -> Any:
        seconds, found = best_of(1, work)
        rows.append({"case": case, "n": n, "seconds": seconds})
        return found

    labels = timed("classes", lambda: class_labels(after, schema.keys))
    timed("risk", lambda: measure_risk(np.bincount(labels)))
    for column in schema.confidential:
        nominal = column.kind == "nominal"
        values = after.columns[column.name]
        timed(
            f"disclosure of {column.name}",
            lambda column=column, values=values, nominal=nominal: measure_disclosure(
                labels, values, column.name, ordered=not nominal
            ),
        )
    pairs = timed("matching rows", lambda: align(before, after, schema)).pairs
    timed("distortion", lambda: distort_columns(before, after, schema, pairs=pairs))
    exact = sum(row["seconds"] for row in rows)
    timed("linkage", lambda: link_records(read_linkage_points(before, after, schema, pairs), labels))
    found = timed("whole audit", lambda: audit(before, after, schema))
    rows[-1] |= {"k": found["k"], "classes": found["classes"], "linkage": found["linkage"]}
    return [*rows, {"case": "all but linkage", "n": n, "seconds": exact}, _memory(n)]


def _memory(n: int) -> Row:
    """Peak memory of the audit beyond its two tables, in tables; measured in a process of its own.

    Making the tables takes more than they hold, so the mark of the highest use is put back before the audit.
    """
    code = (
        "import os\n"
        "from benchmarks.auditing import make_release\n"
        "from microcell.auditing import audit\n"
        "audit(*make_release(2_000))\n"
        f"tables = make_release({n})\n"
        "held = int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGE_SIZE')\n"
        "open('/proc/self/clear_refs', 'w').write('5')\n"
        "audit(*tables)\n"
        "peak = [int(line.split()[1]) * 1024 for line in open('/proc/self/status') if line.startswith('VmHWM')][0]\n"
        "print((peak - held) / sum(column.data.nbytes for column in tables[0].columns.values()))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {"case": "whole audit, peak memory beyond the tables", "n": n, "tables": float(found.stdout)}


def anonymity_against_pycanon(n: int = 50_000, k: int = 10) -> list[Row]:
    """k, l-diversity and t-closeness beside pyCANON's on the same table: the values, and the ratio of times."""
    try:
        import pandas as pd  # noqa: PLC0415
        from pycanon import anonymity  # noqa: PLC0415
    except ImportError:
        return [{"case": "pyCANON is not installed: nothing to compare with"}]
    _, after, schema = make_release(n, k)
    rng, known = np.random.default_rng(1), np.zeros(n, dtype=np.bool_)
    # pyCANON takes hours for a number of 1,000 values: ten grades instead, and the ten illnesses.
    illness, grade = after.columns["illness"], Values("integer", rng.integers(0, 10, size=n), known)
    quasi = {name: after.columns[name] for name in NAMES}
    table = Table({**quasi, "illness": illness, "grade": grade}, n, None)
    frame = pd.DataFrame({name: values.data for name, values in table.columns.items()})
    frame["illness"] = np.array(illness.categories)[illness.data]
    started = perf_counter()
    theirs: Row = {"k": int(anonymity.k_anonymity(frame, list(NAMES)))}
    for name in ("illness", "grade"):
        theirs[f"l of {name}"] = int(anonymity.l_diversity(frame, list(NAMES), [name]))
        theirs[f"t of {name}"] = float(anonymity.t_closeness(frame, list(NAMES), [name]))
    seconds = perf_counter() - started
    least, ours = best_of(3, lambda: _anonymity(table, schema.keys))
    same = all(abs(ours[name] - theirs[name]) < 1e-9 for name in theirs)
    common = {"n": n, "classes": n // k}
    return [
        {"case": "pyCANON", **common, "seconds": seconds, **theirs},
        {"case": "microcell", **common, "seconds": least, **ours, "times faster": seconds / least, "same values": same},
    ]


def _anonymity(table: Table, keys: tuple[str, ...]) -> Row:
    """The measures that pyCANON has, with all others that come with them."""
    labels = class_labels(table, keys)
    found: Row = {"k": int(np.bincount(labels).min())}
    for name, ordered in (("illness", False), ("grade", True)):
        measures = measure_disclosure(labels, table.columns[name], name, ordered=ordered)
        values = {measure.name: measure.value for measure in measures}
        found |= {f"l of {name}": values[f"l_diversity.{name}"], f"t of {name}": values[f"t_closeness.{name}"]}
    return found
