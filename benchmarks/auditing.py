"""Audit benchmarks: a large table by stage, and anonymity measures compared with pyCANON."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.apart import Row, not_run, run_apart
from benchmarks.cases import Memory, best_of
from microcell.auditing import audit
from microcell.auditing.alignment import align
from microcell.measures.attacks import link_records, read_linkage_points
from microcell.measures.classes import class_labels
from microcell.measures.confidential import ConfidentialColumn, confidential_columns
from microcell.measures.evaluate import evaluate, evaluate_sizes
from microcell.measures.pairs import ColumnPairs
from microcell.measures.registry import measures
from microcell.measures.utility import column_losses
from microcell.model import Column, Measure, Schema, Table, Values

NAMES = tuple(f"q{j}" for j in range(6))


def make_release(n: int, k: int = 10, seed: int = 0) -> tuple[Table, Table, Schema]:
    """Return six correlated numbers and two confidential columns, before and after grouping.

    Rows are sorted lexicographically by the deciles of their numbers and grouped in that order,
    which gives a poor release quickly.
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
        "illness": Values(
            "text", rng.integers(0, 10, size=n), known, categories=tuple("abcdefghij")
        ),
    }
    before, after = (
        Table(
            {
                **{name: Values("float", x, known) for name, x in zip(NAMES, Z.T, strict=True)},
                **unchanged,
            },
            n,
            None,
        )
        for Z in (np.asfortranarray(X), np.asfortranarray(Y))
    )
    quasi = [Column(name, kind="numeric", publish="mean") for name in NAMES]
    confidential = [Column("pay", kind="numeric"), Column("illness", kind="nominal")]
    return before, after, Schema(quasi=quasi, confidential=confidential)


def large_audit(n: int) -> Row:
    """Time the audit of n rows with six quasi-identifiers and two confidential columns."""
    audit(*make_release(2_000))  # compiled or loaded beforehand
    before, after, schema = make_release(n)
    rows: list[Row] = []

    def timed(case: str, work: Callable[[], Any]) -> Any:
        seconds, actual = best_of(1, work)
        rows.append({"case": case, "n": n, "seconds": seconds})
        return actual

    labels = timed("classes", lambda: class_labels(after, schema.keys))
    timed("risk", lambda: evaluate_sizes(np.bincount(labels), before.rows))
    for column in confidential_columns(after, schema, labels):
        timed(f"disclosure of {column.name}", lambda column=column: _disclosure(column))
    pairs = timed("matching rows", lambda: align(before, after, schema)).pairs
    timed("distortion", lambda: column_losses(ColumnPairs(before, after, schema, pairs)))
    exact = sum(row["seconds"] for row in rows)
    timed(
        "linkage",
        lambda: link_records(
            read_linkage_points(ColumnPairs(before, after, schema, pairs)), labels
        ),
    )
    actual = timed("whole audit", lambda: audit(before, after, schema))
    rows[-1] |= {"k": actual["k"], "classes": actual["classes"], "linkage": actual["linkage"]}
    return {
        "status": "measured",
        "rows": [*rows, {"case": "all but linkage", "n": n, "seconds": exact}],
    }


def audit_memory(n: int) -> Row:
    """Return the additional peak memory of the audit, relative to the size of a table."""
    audit(*make_release(2_000))
    tables = make_release(n)
    memory = Memory()
    audit(*tables)
    output, size = memory.row(), sum(column.data.nbytes for column in tables[0].columns.values())
    beyond = None if output["beyond_mb"] is None else output["beyond_mb"] * 1e6 / size
    return {
        "status": "measured",
        "case": "whole audit, peak memory beyond the tables",
        "n": n,
        **output,
        "tables": beyond,
    }


def _graded(n: int, k: int) -> Table:
    """Return six quasi-identifiers in classes of k and two confidential columns of ten values.

    pyCANON takes hours for a number of 1,000 values: ten grades instead, and the ten illnesses.
    """
    _, after, _ = make_release(n, k)
    grade = Values(
        "integer", np.random.default_rng(1).integers(0, 10, size=n), np.zeros(n, dtype=np.bool_)
    )
    quasi = {name: after.columns[name] for name in NAMES}
    return Table({**quasi, "illness": after.columns["illness"], "grade": grade}, n, None)


def anonymity_by_microcell(n: int, k: int) -> Row:
    """Time k, l-diversity, t-closeness and the measures computed with them by the audit."""
    table = _graded(n, k)
    _measures(_graded(20 * k, k))  # compiled or loaded beforehand
    memory = Memory()
    seconds, actual = best_of(3, lambda: _measures(table))
    return {"status": "measured", "seconds": seconds, **memory.row(), "values": actual}


def _disclosure(column: ConfidentialColumn) -> dict[str, Measure]:
    definitions = [
        item for item in measures().values() if item.enforceable and item.scope != "table"
    ]
    return evaluate(SimpleNamespace(confidential=(column,)), definitions)


def _measures(table: Table) -> Row:
    labels = class_labels(table, NAMES)
    actual: Row = {"k": int(np.bincount(labels).min())}
    for name, ordered in (("illness", False), ("grade", True)):
        kind = "numeric" if ordered else "nominal"
        column = ConfidentialColumn(Column(name, kind=kind), table.columns[name], labels)
        values = {name: item.value for name, item in _disclosure(column).items()}
        actual |= {
            f"l of {name}": values[f"l_diversity.{name}"],
            f"t of {name}": values[f"t_closeness.{name}"],
        }
    return actual


def anonymity_by_pycanon(n: int, k: int) -> Row:
    """Time the same measures in pyCANON."""
    import pandas as pd  # noqa: PLC0415
    from pycanon import anonymity  # noqa: PLC0415

    table = _graded(n, k)
    frame = pd.DataFrame({name: values.data for name, values in table.columns.items()})
    frame["illness"] = np.array(table.columns["illness"].categories)[table.columns["illness"].data]

    def measures() -> Row:
        actual: Row = {"k": int(anonymity.k_anonymity(frame, list(NAMES)))}
        for name in ("illness", "grade"):
            actual[f"l of {name}"] = int(anonymity.l_diversity(frame, list(NAMES), [name]))
            actual[f"t of {name}"] = float(anonymity.t_closeness(frame, list(NAMES), [name]))
        return actual

    memory = Memory()
    seconds, actual = best_of(1, measures)
    return {"status": "measured", "seconds": seconds, **memory.row(), "values": actual}


def run_audits(n: int, small: int, peers: str | None, k: int = 10) -> Row:
    """Run all audit benchmarks, each in a separate process; pyCANON uses ``small`` rows."""
    whole = run_apart("benchmarks.auditing:large_audit", {"n": n}, limit=600.0)
    memory = run_apart("benchmarks.auditing:audit_memory", {"n": n}, limit=600.0)
    options = {"n": small, "k": k}
    ours = run_apart("benchmarks.auditing:anonymity_by_microcell", options)
    theirs = not_run("pycanon is not installed (make peers)")
    if peers is not None:
        theirs = run_apart(
            "benchmarks.auditing:anonymity_by_pycanon", options, python=peers, limit=300.0
        )
    both = {"microcell": {**options, **ours}, "pyCANON": {**options, **theirs}}
    if theirs["status"] == ours["status"] == "measured":
        both["microcell"] |= {
            "times faster": theirs["seconds"] / ours["seconds"],
            "same values": all(
                abs(ours["values"][name] - value) < 1e-9 for name, value in theirs["values"].items()
            ),
        }
    return {"parts": whole, "memory": memory, "anonymity": both}
