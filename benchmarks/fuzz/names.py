"""Tables with repeated, empty or odd column names: refused, or published right."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import xlsxwriter

import microcell as mc
from benchmarks.fuzz.recount import check

__all__ = ["run_names"]

_AGES = list(range(20, 32))
_BAD: dict[str, tuple[str, Any]] = {
    "repeated": ("age", "age"),
    "repeated with spaces": ("age", "age "),
    "empty": ("age", ""),
    "blank": ("age", "  "),
}


def run_names(seed: int, folder: Path) -> str:
    """Pass a table with bad column names; return the code of the refusal or "released"."""
    rng = random.Random(seed)
    what = rng.choice(list(_BAD))
    form = rng.choice(list(_FORMS))
    names = list(_BAD[what])
    rng.shuffle(names)
    try:
        source = _FORMS[form](names, folder)
    except (ValueError, pl.exceptions.PolarsError, pa.ArrowInvalid):
        return "impossible"
    before = {path.name for path in folder.iterdir()}
    schema = mc.Schema(quasi=["age"], rest=rng.choice(["keep", "drop", "error"]))
    try:
        release = mc.anonymize(source, schema, k=3, method="mdav")
        release.publish(folder / "release.parquet")
    except mc.MicrocellError as error:
        check(error.code.startswith(("table.", "schema.")), f"{what} in {form}: {error.code}")
        check({path.name for path in folder.iterdir()} == before, "a refusal leaves no file")
        return error.code
    check(what == "repeated with spaces", f"{what} names in {form} are refused")
    table = pa.parquet.read_table(folder / "release.parquet")
    counts = pd.Series(table["age"].to_pylist()).value_counts()
    check(table.num_rows == len(_AGES) and counts.min() >= 3, "the release is right")
    return "released"


def _pandas(names: list[str], _: Path | None = None) -> Any:
    return pd.DataFrame(np.column_stack([_AGES, _AGES]), columns=names)


def _arrow(names: list[str], _: Path | None = None) -> Any:
    return pa.Table.from_arrays([pa.array(_AGES), pa.array(_AGES)], names=names)


def _polars(names: list[str], _: Path | None = None) -> Any:
    # Renamed afterwards, because polars names a column without a name by itself.
    return pl.DataFrame({"first": _AGES, "second": _AGES}).rename(
        dict(zip(("first", "second"), names, strict=True))
    )


def _csv(names: list[str], folder: Path) -> Any:
    path = folder / "original.csv"
    path.write_text("\n".join([",".join(names), *(f"{age},{age}" for age in _AGES)]) + "\n")
    return path


def _jsonl(names: list[str], folder: Path) -> Any:
    path = folder / "original.jsonl"
    pairs = "{{" + ", ".join(f"{json.dumps(name)}: {{0}}" for name in names) + "}}\n"
    path.write_text("".join(pairs.format(age) for age in _AGES))
    return path


def _parquet(names: list[str], folder: Path) -> Any:
    pa.parquet.write_table(_arrow(names), folder / "original.parquet")
    return folder / "original.parquet"


def _ipc(names: list[str], folder: Path) -> Any:
    table = _arrow(names)
    with pa.ipc.new_file(folder / "original.arrow", table.schema) as writer:
        writer.write_table(table)
    return folder / "original.arrow"


def _xlsx(names: list[str], folder: Path) -> Any:
    with xlsxwriter.Workbook(folder / "original.xlsx") as book:
        sheet = book.add_worksheet()
        for column, name in enumerate(names):
            sheet.write_string(0, column, name)
            sheet.write_column(1, column, _AGES)
    return folder / "original.xlsx"


_FORMS: dict[str, Callable[[list[str], Path], Any]] = {
    "pandas": _pandas,
    "pyarrow": _arrow,
    "polars": _polars,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
    ".arrow": _ipc,
    ".xlsx": _xlsx,
}
