"""The manifest in words."""

import shlex

import pytest

from microcell.report import FORMATS, render
from microcell.report.wording import imputed, making, rerun, roles
from tests.report.examples import MANIFEST, example


def told(**changes):
    return {fact.label: fact.text for fact in making({**MANIFEST, **changes})}


def test_roles_name_every_column_once_and_say_what_is_published():
    assert {group.label: group.columns for group in roles(MANIFEST)} == {
        "Removed as identifiers": ("name",),
        "Removed on request": ("phone",),
        "Quasi-identifiers": (
            "sex (nominal: the most frequent value of the cell)",
            "age (numeric: the range of the cell; weight 2.5)",
        ),
        "Strata, unchanged": ("region",),
        "Confidential, unchanged": ("tsh",),
        "Kept, unchanged": ("remark",),
        "Weight, unchanged": ("w",),
    }


def test_making_in_words():
    assert told() == {
        "k asked for": "5",
        "Method": "mdav (asked for: auto), because 5 dimensions have no exact optimum",
        "Seed": "7",
        "Missing values": "dropped",
        "Records": "2,100 in the original, 2,000 published, 100 dropped",
        "Cells": "396, of 5 to 9 records",
        "Order of rows": "shuffled",
        "Original": "2,100 rows, 8 columns",
        "SHA-256 of the original file": "0f" * 32,
        "SHA-256 of the released file": "a1" * 32,
        "Made": "2026-11-16 10:00:00 UTC",
        "Duration": "1.235 seconds",
        "Version of microcell": "0.1.0",
    }


@pytest.mark.parametrize(
    "given, words", [("error", "refused"), ("drop", "dropped"), ("impute", "imputed")]
)
def test_missing_values(given, words):
    assert told(missing=given)["Missing values"] == words


@pytest.mark.parametrize("form", ["html", "text"])
@pytest.mark.parametrize("audience", ["internal", "public"])
def test_imputed_values_are_counted_beside_the_guarantee(form, audience):
    records = {"read": 2000, "released": 2000, "dropped": 0}
    manifest = {**MANIFEST, "missing": "impute", "records": {**records, "imputed": 1234}}
    shown = " ".join(render(example(), form, manifest=manifest, audience=audience).split())
    said = "1,234 missing values of quasi-identifiers were imputed"
    assert (
        shown.index("anonymous in these columns")
        < shown.index(said)
        < shown.index("Smallest class")
    )
    assert imputed({"records": {**records, "imputed": 1}}).startswith(
        "1 missing value of a quasi-identifier was"
    )


@pytest.mark.parametrize(
    "records", [None, {}, {"read": 9}, {"imputed": 0}, {"imputed": "many"}, {"imputed": -1}]
)
def test_nothing_is_said_where_nothing_was_imputed(records):
    assert imputed({"records": records}) == imputed(None) == ""


def test_the_method_asked_for_needs_no_reason():
    method = {
        "requested": "vmdav",
        "used": "vmdav",
        "reason": "asked for",
        "options": {"gamma": 0.2},
    }
    assert told(method=method)["Method"] == "vmdav with gamma = 0.2"


def test_cells_of_one_size():
    assert (
        told(cells={"count": 1400, "smallest": 5, "largest": 5})["Cells"]
        == "1,400, all of 5 records"
    )


def test_rows_in_their_order_and_contents_that_were_no_file():
    words = told(row_order="kept", input={"sha256": "0f", "sha256_of": "contents"}, output=None)
    assert words["Order of rows"] == "as in the original"
    assert words["SHA-256 of the original's contents"] == "0f"
    assert not {"SHA-256 of the original file", "SHA-256 of the released file", "Original"} & set(
        words
    )


def test_without_a_manifest_nothing_is_told():
    assert making(None) == roles(None) == ()
    for form in ("text", "html"):
        assert "Columns and roles" not in render(example(), form)


ODD = [None, 3, -1.5, "words", True, [], ["a"], {}, {"a": {}}, {"a": []}, {"role": ["quasi"]}]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_a_damaged_manifest_is_told_as_far_as_it_goes(odd):
    for key in MANIFEST:
        assert len(told(**{key: odd})) >= len(told()) - 2
        roles({**MANIFEST, key: odd})
    for part in ("method", "cells", "records", "input", "output"):
        for inner in MANIFEST[part]:
            assert len(told(**{part: {**MANIFEST[part], inner: odd}})) >= len(told()) - 1
    for inner in ("role", "kind", "publish", "weight"):
        damaged = {
            "a": {"role": "quasi", "kind": "nominal", "publish": "mode", inner: odd},
            "b": {"role": "keep"},
        }
        assert roles({"columns": damaged})[-1].columns == ("b",)


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_manifest_can_be_reported(form):
    assert "5-anonymous" in render(example(), form, manifest={})


MERGED = {
    "limits": {"l_diversity": 3, "t_closeness.tsh": 0.25},
    "cells_before": 400,
    "cells_merged": 4,
    "rounds": 2,
}


def test_what_was_required_and_merged_is_told():
    words = told(requirements=MERGED)
    assert words["Required of the release"] == "l_diversity = 3, t_closeness.tsh = 0.25"
    assert words["Merging"] == "4 of 400 cells merged away to meet what was required"
    assert not {"Required of the release", "Merging"} & set(told())


def again(**changes):
    return rerun({**MANIFEST, **changes})


def test_the_command_to_run_it_again():
    start = "microcell anonymize ORIGINAL -s SCHEMA -k 5 --method"
    assert again() == f"{start} auto --seed 7 --missing drop -o RELEASED"
    method = {"requested": "vmdav", "options": {"gamma": 0.2, "refine": True, "effort": "best"}}
    changes = {
        "method": method,
        "missing": "error",
        "row_order": "kept",
        "cells": {"function": "balls"},
        "requirements": MERGED,
    }
    assert again(**changes) == (
        f"{start} vmdav --set gamma=0.2 --set refine=true --effort best --seed 7 --require l_diversity=3 "
        "--require t_closeness.tsh=0.25 --cells CELLS.json --cells-kind balls --keep-order -o RELEASED"
    )


def test_the_command_is_one_for_a_shell():
    limits = {"l_diversity.body mass; rm -r": 2}
    words = shlex.split(again(requirements={"limits": limits}))
    assert "l_diversity.body mass; rm -r=2" in words


@pytest.mark.parametrize("key", ["k", "seed", "method"])
@pytest.mark.parametrize("odd", [None, 1.5, "words", [], {}])
def test_no_command_is_better_than_a_wrong_one(key, odd):
    assert again(**{key: odd}) == ""
    assert rerun(None) == ""


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_a_damaged_account_of_merging(odd):
    told(requirements=odd)
    again(requirements={"limits": odd})
    told(requirements={"limits": {"k": odd}, "cells_merged": odd, "cells_before": odd})


def test_dependence_and_blocks_are_told_and_made_again():
    manifest = {
        "k": 1,
        "seed": 0,
        "method": {"requested": "mdav", "used": "mdav"},
        "dependence": {
            "weight": 0.3,
            "quasi_identifier_loss": 0.1,
            "confidential_loss": 0.5,
            "weighted_loss": 0.22,
        },
        "blocks": {
            "k": 5,
            "columns": [["age", "sex"], ["home"]],
            "cells": [4, 4],
            "jointly_k_anonymous": False,
        },
    }
    told = {fact.label: fact.text for fact in making(manifest)}
    assert (
        told["Preserved dependence"]
        == "lambda = 0.3: D_X 0.1, D_Y 0.5, weighted 0.22, of the points"
    )
    assert told["Blocks of columns"] == (
        "5-anonymous in each of 2 blocks (age, sex; home), and not 5-anonymous as a whole"
    )
    assert "-k 5" in rerun(manifest)
    assert "--dependence 0.3 --blocks 'age,sex;home'" in rerun(manifest)


def test_damaged_accounts_of_dependence_and_blocks_are_left_out():
    manifest = {"dependence": {"weight": "much"}, "blocks": {"columns": 3}}
    assert making(manifest) == ()


def test_numbers_of_the_command_have_all_their_digits():
    limit, weight = 1 / 3, 0.1234567891
    command = again(
        requirements={"limits": {"t_closeness": limit, "k": 1e6}},
        dependence={"weight": weight},
    )
    words = shlex.split(command)
    assert f"t_closeness={limit!r}" in words
    assert "k=1000000" in words
    assert words[words.index("--dependence") + 1] == repr(weight)


def test_the_public_is_told_of_blocks_and_of_the_k_that_was_asked_for():
    blocks = {"k": 5, "columns": [["age"], ["sex"]], "cells": [4, 4], "jointly_k_anonymous": False}
    text = render(
        example(), "text", manifest={**MANIFEST, "k": 2, "blocks": blocks}, audience="public"
    )
    words = " ".join(text.split())
    assert "k asked for 5" in words
    assert "5-anonymous in each block, and not 5-anonymous as a whole" in words


def test_batches_are_told_and_no_command_pretends_to_make_them_again():
    manifest = {
        "k": 5,
        "seed": 0,
        "method": {"requested": "mdav", "used": "mdav", "batches": [{}, {}]},
    }
    assert {fact.label: fact.text for fact in making(manifest)}[
        "Batches"
    ] == "2 batches added after the base"
    assert rerun(manifest) == ""
