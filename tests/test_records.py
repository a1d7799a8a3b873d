"""Records: stored partitions, their page, and published runs, none of which may be better."""

import csv
import re
from typing import NamedTuple

import numpy as np
import pytest
from benchmarks import records

import microcell as mc

RESULTS = records.ROOT / "docs" / "results"
OF_CENSUS = ("aggregation/census.csv", "aggregation/mdav.csv")
"""Tables that do not name their set, which is Census in all of them."""


class Run(NamedTuple):
    """A run of ours: data set, k, file and column, and the loss as printed there."""

    name: str
    k: int
    column: str
    loss: str


def published_runs():
    """Yield every run of ours on a complete classic data set in the results."""
    for path in sorted(RESULTS.rglob("*.csv")):
        file = path.relative_to(RESULTS).as_posix()
        with path.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                name = "census" if file in OF_CENSUS else row.get("data")
                ours = [column for column in row if not re.search("in print|best of ours", column)]
                losses = [
                    column for column in ours if re.search("^D$|^D, |, IL$", column) and row[column]
                ]
                if name in records.SETS:
                    yield from (
                        Run(name, int(row["k"]), f"{file}: {column}", row[column])
                        for column in losses
                    )


def as_printed(percent, column):
    """Round a loss as the table does: percent to four places, D to four digits."""
    return float(f"{percent:.4f}" if column.endswith(", IL") else f"{percent / 100:.4g}")


@pytest.mark.parametrize("k", records.SIZES)
@pytest.mark.parametrize("name", records.SETS)
def test_page_shows_the_loss_of_the_stored_partitions(data_folder, name, k):
    X, labels = records.load(name), records.kept_labels(name, k)
    sizes = np.bincount(labels)
    assert len(labels) == len(X)
    assert k <= sizes.min() <= sizes.max() <= 2 * k - 1
    line = next(
        row
        for row in records.PAGE.read_text(encoding="utf-8").splitlines()
        if row.startswith(f"| {name} | {k} |")
    )
    assert line.split("|")[5].strip() == f"{100 * mc.distortion(X, labels):.4f}"


@pytest.mark.parametrize("k", records.SIZES)
@pytest.mark.parametrize("name", records.SETS)
def test_no_published_run_of_ours_is_better_than_the_record(data_folder, name, k):
    record = records.loss(records.load(name), records.kept_labels(name, k))
    runs = [run for run in published_runs() if (run.name, run.k) == (name, k)]
    better = [run for run in runs if float(run.loss) < as_printed(record, run.column)]
    assert not better, (
        f"the record of {name}, k = {k} loses {record:.4f} %: renew it (make records)"
    )


def test_published_runs_are_those_of_every_method_on_every_set():
    result = {(run.name, run.column) for run in published_runs()}
    methods = (
        "MDAV",
        "V-MDAV",
        "PCL as published",
        "PCL as published, no noise",
        "PCL",
        "auto",
        "anneal",
        "auto, best effort",
    )
    assert result >= {
        (name, f"aggregation/classics.csv: {method}, IL")
        for name in records.SETS
        for method in methods
    }
    columns = ("D, noisy as published", "D, our default", "D, auto", "D, anneal")
    assert result >= {("census", f"aggregation/census.csv: {column}") for column in columns}
    assert ("census", "aggregation/mdav.csv: D") in result
    assert len(result) == len(records.SETS) * len(methods) + len(columns) + 1


def test_search_keeps_the_better_of_auto_and_pcl(data_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(records, "KEPT", tmp_path / "records")
    records.search("census", 100, "fast")
    shown = re.findall(r"census k = 100, (\w+): ([\d.]+) in .*", capsys.readouterr().out)
    assert [method for method, _ in shown] == ["auto", "pcl"]
    kept = records.loss(records.load("census"), records.kept_labels("census", 100))
    assert f"{kept:.4f}" == min((result for _, result in shown), key=float)
