"""The manifest in words, and the command that repeats a release."""

import shlex

import pytest

from microcell.report import FORMATS, render
from microcell.report.contents import trim_manifest
from microcell.report.provenance import (
    column_roles,
    imputation_note,
    provenance,
    rerun_command,
)
from tests.report.examples import MANIFEST, example

REQUIREMENTS = {
    "limits": {"l_diversity": 3, "t_closeness.tsh": 0.25},
    "cells_before": 400,
    "cells_after": 396,
    "way": "merged cells",
    "rounds": 2,
}
UNEXPECTED = [None, 3, -1.5, "words", True, [], ["a"], {}, {"a": {}}, {"a": []}]
UNEXPECTED.append({"role": ["quasi"]})


def described(**changes):
    return {fact.label: fact.text for fact in provenance({**MANIFEST, **changes})}


def rerun(**changes):
    return rerun_command({**MANIFEST, **changes})


# ------------------------------------------------------------------------------------------ wording


def test_roles_list_every_column_once_and_how_it_is_published():
    assert {group.label: group.columns for group in column_roles(MANIFEST)} == {
        "Identifiers (removed)": ("name",),
        "Other columns (removed)": ("phone",),
        "Quasi-identifiers": (
            "sex (nominal, published as the most frequent value of the cell)",
            "age (numeric, published as the range of the cell, weight 2.5)",
        ),
        "Strata (unchanged)": ("region",),
        "Confidential (unchanged)": ("tsh",),
        "Other columns (unchanged)": ("remark",),
        "Sampling weight (unchanged)": ("w",),
    }


def test_roles_state_relations_between_columns_and_rounding():
    quasi = {"role": "quasi", "kind": "numeric", "publish": "mean", "weight": 1.0}
    columns = {
        "discharge": {**quasi, "after": "admission"},
        "stay": {**quasi, "difference_of": ["discharge", "admission"]},
        "total": {**quasi, "sum_of": ["a", "b"]},
        "cost": {"role": "confidential", "round": 50.0},
    }
    assert {group.label: group.columns for group in column_roles({"columns": columns})} == {
        "Quasi-identifiers": (
            "discharge (numeric, published as the mean of the cell, never before admission)",
            "stay (numeric, published as discharge minus admission)",
            "total (numeric, published as the sum of a, b)",
        ),
        "Confidential (masked)": ("cost (to multiples of 50)",),
    }


def test_provenance_of_a_release():
    assert described() == {
        "Requested k": "5",
        "Method": 'mdav, chosen by "auto": 5 dimensions have no exact optimum',
        "Random seed": "7",
        "Missing values": "records dropped",
        "Records": "2,100 in the original, 2,000 published, 100 dropped",
        "Cells": "396 cells of 5 to 9 records",
        "Row order": "shuffled",
        "Original table": "2,100 rows, 8 columns",
        "SHA-256 of the original file": "0f" * 32,
        "SHA-256 of the published file": "a1" * 32,
        "Created": "2026-11-16 10:00:00 UTC",
        "Run time": "1.235 s",
        "microcell version": "0.1.0",
    }


@pytest.mark.parametrize(
    ("option", "text"),
    [("error", "not allowed"), ("drop", "records dropped"), ("impute", "imputed")],
)
def test_missing_values(option, text):
    assert described(missing=option)["Missing values"] == text


@pytest.mark.parametrize("format", ["html", "text"])
@pytest.mark.parametrize("audience", ["internal", "public"])
def test_imputed_values_are_counted_next_to_the_guarantee(format, audience):
    records = {"read": 2000, "released": 2000, "dropped": 0}
    manifest = {**MANIFEST, "missing": "impute", "records": {**records, "imputed": 1234}}
    shown = " ".join(render(example(), format, manifest=manifest, audience=audience).split())
    note = shown.index("1,234 missing quasi-identifier values were imputed")
    assert shown.index("anonymous in these columns") < note < shown.index("Smallest class")
    singular = imputation_note({"records": {**records, "imputed": 1}})
    assert singular.startswith("1 missing quasi-identifier value was imputed")


@pytest.mark.parametrize(
    "records", [None, {}, {"read": 9}, {"imputed": 0}, {"imputed": "many"}, {"imputed": -1}]
)
def test_there_is_no_note_if_nothing_was_imputed(records):
    assert imputation_note({"records": records}) == imputation_note(None) == ""


def test_a_method_chosen_by_the_user_needs_no_reason():
    method = {"requested": "vmdav", "used": "vmdav", "reason": "-", "options": {"gamma": 0.2}}
    assert described(method=method)["Method"] == "vmdav with gamma = 0.2"


def test_cells_of_equal_size():
    cells = {"count": 1400, "smallest": 5, "largest": 5}
    assert described(cells=cells)["Cells"] == "1,400 cells of 5 records"
    assert described(cells={**cells, "count": 1})["Cells"] == "1 cell of 5 records"


def test_a_release_made_in_memory():
    source = {"sha256": "0f", "sha256_of": "contents"}
    facts = described(row_order="kept", input=source, output=None)
    assert facts["Row order"] == "as in the original"
    assert facts["SHA-256 of the original contents"] == "0f"
    absent = {"SHA-256 of the original file", "SHA-256 of the published file", "Original table"}
    assert not absent & set(facts)


@pytest.mark.parametrize(("gap", "text"), [(0.5, "less than 2 %"), (0.0, "loses less")])
def test_the_distance_to_the_optimum_is_described(gap, text):
    cells = {**MANIFEST["cells"], "sse_ratio": 0.04}
    bound = {"sse_ratio": 0.02, "gap": gap, "proof": "nearest records"}
    shown = described(cells=cells, bound=bound)["Distance to the optimum"]
    assert "4 %" in shown
    assert shown.endswith(text)
    assert "Distance to the optimum" not in described(cells=cells, bound={"sse_ratio": "words"})


def test_public_reports_do_not_show_the_distance_to_the_optimum():
    trimmed = trim_manifest({**MANIFEST, "bound": {"sse_ratio": 0.02, "gap": 0.5, "proof": ""}})
    assert "bound" not in trimmed


def test_requirements_and_merged_cells_are_described():
    facts = described(requirements=REQUIREMENTS)
    assert facts["Enforced requirements"] == "l_diversity = 3, t_closeness.tsh = 0.25"
    assert (
        facts["Cells within the limits"] == "merged cells: 396 cells instead of 400 without limits"
    )
    assert not {"Enforced requirements", "Cells within the limits"} & set(described())


def test_dependence_and_blocks_are_described_and_reproduced():
    manifest = {
        "k": 1,
        "seed": 0,
        "method": {"requested": "mdav", "used": "mdav"},
        "dependence": {
            "weight": 0.3,
            "quasi_identifier_loss": 0.1,
            "dependence_loss": 0.5,
            "weighted_loss": 0.22,
        },
        "blocks": {
            "k": 5,
            "columns": [["age", "sex"], ["home"]],
            "cells": [4, 4],
            "jointly_k_anonymous": False,
        },
    }
    facts = {fact.label: fact.text for fact in provenance(manifest)}
    assert facts["Preserved dependence"] == (
        "weight (lambda) 0.3; information loss of the quasi-identifiers (D_X) 0.1, loss of their "
        "relation with the confidential columns (D_Y) 0.5, weighted sum 0.22"
    )
    assert facts["Blocks of columns"] == (
        "5-anonymous in each of 2 blocks (age, sex; home), "
        "but not 5-anonymous in all columns combined"
    )
    assert "-k 5" in rerun_command(manifest)
    assert "--dependence 0.3 --blocks 'age,sex;home'" in rerun_command(manifest)


def test_public_reports_mention_blocks_and_the_requested_k():
    blocks = {"k": 5, "columns": [["age"], ["sex"]], "cells": [4, 4], "jointly_k_anonymous": False}
    manifest = {**MANIFEST, "k": 2, "blocks": blocks}
    text = " ".join(render(example(), "text", manifest=manifest, audience="public").split())
    assert "Requested k 5" in text
    assert "5-anonymous in each block, but not 5-anonymous in all columns combined" in text


def test_batches_are_described_and_no_command_claims_to_reproduce_them():
    method = {"requested": "mdav", "used": "mdav", "batches": [{}, {}]}
    manifest = {"k": 5, "seed": 0, "method": method}
    facts = {fact.label: fact.text for fact in provenance(manifest)}
    assert facts["Batches"] == "2 batches added to the initial cells"
    assert rerun_command(manifest) == ""


# ------------------------------------------------------------------------------ damaged manifests


def test_without_a_manifest_there_is_no_provenance():
    assert provenance(None) == column_roles(None) == ()
    for format in ("text", "html"):
        assert "Columns and roles" not in render(example(), format)


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_manifest_can_be_reported(format):
    assert "5-anonymous" in render(example(), format, manifest={})


@pytest.mark.parametrize("value", UNEXPECTED, ids=repr)
def test_damaged_entries_are_left_out(value):
    for key in MANIFEST:
        assert len(described(**{key: value})) >= len(described()) - 2
        column_roles({**MANIFEST, key: value})
    for section in ("method", "cells", "records", "input", "output"):
        for key in MANIFEST[section]:
            damaged = {**MANIFEST[section], key: value}
            assert len(described(**{section: damaged})) >= len(described()) - 1
    for key in ("role", "kind", "publish", "weight"):
        damaged = {
            "a": {"role": "quasi", "kind": "nominal", "publish": "mode", key: value},
            "b": {"role": "keep"},
        }
        assert column_roles({"columns": damaged})[-1].columns == ("b",)


@pytest.mark.parametrize("value", UNEXPECTED, ids=repr)
def test_damaged_requirements_are_left_out(value):
    described(requirements=value)
    rerun(requirements={"limits": value})
    described(requirements={"limits": {"k": value}, "cells_after": value, "cells_before": value})


def test_damaged_entries_about_dependence_and_blocks_are_left_out():
    assert provenance({"dependence": {"weight": "much"}, "blocks": {"columns": 3}}) == ()


# ------------------------------------------------------------------------------ the command


def test_the_command_that_reproduces_a_release():
    start = "microcell anonymize ORIGINAL -s SCHEMA -k 5 --method"
    assert rerun() == f"{start} auto --seed 7 --missing drop --order-key MANIFEST -o RELEASED"
    method = {"requested": "vmdav", "options": {"gamma": 0.2, "refine": True, "effort": "best"}}
    changes = {"cells": {"function": "balls"}, "requirements": REQUIREMENTS}
    assert rerun(method=method, missing="error", row_order="kept", **changes) == (
        f"{start} vmdav --set gamma=0.2 --set refine=true --effort best --seed 7 "
        "--require l_diversity=3 --require t_closeness.tsh=0.25 "
        "--cells CELLS.json --cells-kind balls --keep-order -o RELEASED"
    )


def test_the_command_is_quoted_for_a_shell():
    limits = {"l_diversity.body mass; rm -r": 2}
    words = shlex.split(rerun(requirements={"limits": limits}))
    assert "l_diversity.body mass; rm -r=2" in words


def test_numbers_in_the_command_have_all_their_digits():
    limit, weight = 1 / 3, 0.1234567891
    requirements = {"limits": {"t_closeness": limit, "k": 1e6}}
    words = shlex.split(rerun(requirements=requirements, dependence={"weight": weight}))
    assert f"t_closeness={limit!r}" in words
    assert "k=1000000" in words
    assert words[words.index("--dependence") + 1] == repr(weight)


@pytest.mark.parametrize("key", ["k", "seed", "method"])
@pytest.mark.parametrize("value", [None, 1.5, "words", [], {}])
def test_there_is_no_command_if_the_manifest_is_incomplete(key, value):
    assert rerun(**{key: value}) == ""
    assert rerun_command(None) == ""


PERSON = {"columns": ["patient", "ward"], "cells": "rows", "count": 1500, "most_rows": 12}


def test_persons_are_described_and_reproduced():
    text = described(person=PERSON)["Persons"]
    assert text.startswith(
        "1,500 persons with at most 12 rows each, identified by patient and ward"
    )
    assert "--person patient,ward" in rerun(person=PERSON)
    together = PERSON | {"cells": "together"}
    assert "--person-cells together" in rerun(person=together)
    assert described(person=together)["Persons"] != text


def test_the_statement_that_rows_are_people_is_shown_and_reproduced():
    assert "rows_are_people" in described(rows_are_people=True)["Rows and people"]
    assert "--rows-are-people" in rerun(rows_are_people=True)
    assert {"Persons", "Rows and people"}.isdisjoint(described())


@pytest.mark.parametrize("entry", ["text", [], {}, {"count": "many"}, {"columns": "patient"}])
def test_damaged_entries_about_persons_are_left_out(entry):
    assert "Persons" not in described(person=entry, rows_are_people="yes")
    assert "--person" not in rerun(person=entry)


def test_public_reports_count_persons_but_name_no_column():
    columns = MANIFEST["columns"] | {"kiosk_no": {"role": "person"}}
    section = PERSON | {"columns": ["kiosk_no"]}
    manifest = MANIFEST | {"person": section, "columns": columns}
    audit = example(person=("kiosk_no",))
    for format in ("text", "html", "json"):
        for audience in ("internal", "public"):
            report = render(audit, format, manifest=manifest, audience=audience)
            assert "5 different persons" in " ".join(report.split())
            assert ("kiosk_no" in report) == (audience == "internal")
