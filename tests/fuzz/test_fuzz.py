"""Some hundred cases of benchmarks/fuzz, and releases that its recount must reject."""

import hashlib
import json
import random
import sys
from dataclasses import replace

import polars as pl
import pytest
from benchmarks.fuzz import faults, recount, run
from benchmarks.fuzz.cases import FORMATS, SOURCES, Case, make_case
from benchmarks.fuzz.fields import Field
from benchmarks.fuzz.readers import read_columns

import microcell as mc
from microcell.kinds import KINDS
from microcell.release import manifest_path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of POSIX")

N = 240
AGES = [31, 33, 35, 60, 62, 64]
ILL = ["asthma", "none", "none", "asthma", "diabetes", "none"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("part", range(4))
def test_releases_of_random_tables(tmp_path, part):
    first = part * N // 4
    tally = run.run_seeds(range(first, first + N // 4), tmp_path)
    assert tally.failures == {}
    assert tally.n_released > N // 4 * 0.6


def test_cases_cover_everything_and_follow_from_their_integer():
    cases = [make_case(seed) for seed in range(2_000)]
    assert {case.suffix for case in cases} == set(FORMATS)
    assert {case.source for case in cases} == set(SOURCES)
    assert {case.fault for case in cases} == {"", *faults.FAULTS}
    kinds = {column.kind or "bands" for case in cases for column in case.schema.quasi}
    assert kinds == {*KINDS, "bands"}
    names = {"blocks", "require", "cells", "dependence", "regression"}
    assert names | {"order_key"} <= {name for case in cases for name in case.settings}
    required = [case.settings.get("require", {}) for case in cases]
    assert any("dependence_loss" in limits for limits in required)
    columns = [item.column for case in cases for item in case.fields if item.column]
    for relation in ("after", "difference_of", "sum_of", "round"):
        assert any(getattr(column, relation) for column in columns)
    assert {case.schema.person_cells for case in cases if case.schema.person} == {
        "rows",
        "together",
    }
    assert make_case(17) == cases[17]


# ------------------------------------------------------------------- releases that must be rejected


def make(suffix=".csv", **settings):
    fields = (
        Field("age", "quasi", "integer", AGES, mc.Column("age", kind="numeric")),
        Field("ill", "confidential", "text", ILL),
        Field("name", "identifiers", "text", ["Pname" + letter * 10 for letter in "bcdfgh"]),
    )
    schema = mc.Schema(identifiers=["name"], quasi=["age"], confidential=["ill"])
    return Case(0, fields, schema, "lists", suffix, 3, "mdav", settings=settings)


def released(folder, case):
    source = {item.name: list(item.values) for item in case.fields}
    output = folder / f"release{case.suffix}"
    release = recount.publish(recount.anonymize(case, source), case, output)
    recount.recount(case, release, output)
    return release, output


def change(output, edit):
    """Edit the table and give the manifest its new digest, so that only the recount notices."""
    output.write_text(edit(output.read_text()))
    manifest = json.loads(manifest_path(output).read_text())
    manifest["output"]["sha256"] = hashlib.sha256(output.read_bytes()).hexdigest()
    manifest_path(output).write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "edit, promise",
    [
        (lambda text: text.replace("62,", "63,", 1), "below k"),
        (lambda text: text.replace("asthma", "asthmas", 1), "became"),
        (lambda text: text[: text.rstrip().rindex("\n") + 1], "none lost"),
        (lambda text: text + "33,none\n", "none invented"),
        (lambda text: text.replace("ill", "ill,name", 1).replace("none\n", "none,x\n"), "lengths"),
        (lambda text: text.replace("none", "Pnamebbbbbbbbbb", 1), "became"),
        (lambda text: text.replace("33,", "40,"), "within the cell"),
    ],
)
def test_a_changed_table_is_rejected(tmp_path, edit, promise):
    case = make()
    release, output = released(tmp_path, case)
    change(output, edit)
    with pytest.raises((recount.RecountError, ValueError), match=promise):
        recount.recount(case, release, output)


def test_classes_of_too_few_persons_are_rejected(tmp_path):
    """Six records, but only two persons in the second class."""
    case = make()
    release, output = released(tmp_path, case)
    persons = Field("who", "person", "text", list("abcdde"))
    with pytest.raises(recount.RecountError, match="a class of 2"):
        recount.recount(replace(case, fields=(*case.fields, persons)), release, output)


def test_broken_relations_and_roundings_are_rejected(tmp_path):
    columns = {"start": [10, 20], "end": [15, 12], "gap": [5, -8], "sum": [25, 33]}
    relations = {"end": {"after": "start"}, "sum": {"sum_of": ("start", "end")}}
    for name, value, promise in (("end", 9, "in order"), ("sum", 26, "the sum")):
        fields = tuple(
            Field(key, "quasi", "integer", values, mc.Column(key, **relations.get(key, {})))
            for key, values in columns.items()
        )
        schema = mc.Schema(quasi=[item.column for item in fields])
        case = Case(0, fields, schema, "lists", ".csv", 2, "mdav")
        good = {"start": [10, 10], "end": [15, 15], "gap": [5, 5], "sum": [25, 25]}
        recount._check_relations(case, good)
        with pytest.raises(recount.RecountError, match=promise):
            recount._check_relations(case, good | {name: [value] * 2})
    rounded = Field("pay", "confidential", "integer", [7], mc.Column("pay", round=5))
    recount._check_masked(make(), rounded, 7, 5)
    for after in (7, 10, None):
        with pytest.raises(recount.RecountError, match="rounded"):
            recount._check_masked(make(), rounded, 7, after)


def test_other_digests_and_modes_are_rejected(tmp_path):
    case = make()
    release, output = released(tmp_path, case)
    manifest_path(output).chmod(0o644)
    with pytest.raises(recount.RecountError, match="owner"):
        recount.recount(case, release, output)
    manifest_path(output).chmod(0o600)
    output.write_text(output.read_text() + "\n")
    with pytest.raises(recount.RecountError, match="digest"):
        recount.recount(case, release, output)


def test_hidden_bytes_are_found(tmp_path):
    case = make(".parquet")
    _, output = released(tmp_path, case)
    frame = pl.read_parquet(output)
    frame.write_parquet(output, metadata={"note": recount.HIDDEN[0].decode()})
    with pytest.raises(recount.RecountError, match="hidden bytes"):
        recount._check_bytes(case, output, read_columns(output))


def test_kills_find_a_set_that_is_accepted_although_it_is_incomplete(tmp_path, monkeypatch):
    case = replace(make(cells=True), with_cells=True, fault="kill")
    source = {item.name: list(item.values) for item in case.fields}
    output = tmp_path / "out" / "release.csv"
    output.parent.mkdir()
    recount.publish(recount.anonymize(case, source), case, output)
    release = recount.anonymize(case, source)
    monkeypatch.setattr("microcell.release.manifest._check_complete", lambda *_: None)
    with pytest.raises(recount.RecountError, match="rejected"):
        faults.FAULTS["kill"](case, release, output, random.Random(1))
