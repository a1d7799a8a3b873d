"""``microcell anonymize``."""

import csv
import json
import os
import re
import sys
from collections import Counter

import pytest

import microcell as mc

BASE = ("anonymize", "people.csv", "-s", "schema.toml")
KEYS = ("sex", "age", "bmi", "latitude", "longitude", "postal_code")


def read_rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def smallest_class(rows):
    return min(Counter(tuple(row[key] for key in KEYS) for row in rows).values())


def write_config(folder, **given):
    lines = [f"{name} = {json.dumps(value)}" for name, value in given.items()]
    (folder / "run.toml").write_text(
        "\n".join(["config_version = 1", *lines, ""]), encoding="utf-8"
    )


def test_writes_table_manifest_and_report(folder, run):
    outcome = run(*BASE, "-k", 5, "-o", "out.csv", "--report", "out.html")
    assert (outcome.code, outcome.stdout) == (0, "")
    rows = read_rows(folder / "out.csv")
    assert len(rows) == 200
    assert "name" not in rows[0]
    assert smallest_class(rows) >= 5
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert (manifest["k"], manifest["row_order"]) == (5, "shuffled")
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert "5-anonymous" in page
    assert "shuffled" in page
    assert {path.name for path in folder.iterdir()} == {
        "people.csv",
        "schema.toml",
        "out.csv",
        "out.csv.manifest.json",
        "out.html",
    }


def test_the_summary_tells_guarantee_cells_distortion_and_files(folder, run):
    outcome = run(*BASE, "-k", 5, "--method", "mdav", "-o", "out.csv", "--report", "out.html")
    told = " ".join(outcome.stderr.split())
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert "shares its values of sex, age, bmi, home and postal_code with at least 4 others" in told
    assert "cells 40 of 5 records" in told
    assert f"distortion {manifest['information_loss']:.4f}" in told
    assert "table out.csv manifest out.csv.manifest.json report out.html" in told
    assert "dropped" not in told


def test_json_is_the_manifest_as_written(folder, run):
    outcome = run(*BASE, "-k", 5, "-o", "out.csv", "--json", "-q")
    assert json.loads(outcome.stdout) == json.loads(
        (folder / "out.csv.manifest.json").read_text(encoding="utf-8")
    )
    assert outcome.stderr == ""


def test_method_options_and_seed_reach_the_library(folder, run):
    outcome = run(
        *BASE,
        "-k",
        3,
        "--method",
        "vmdav",
        "--set",
        "gamma=0.7",
        "--seed",
        9,
        "--dry-run",
        "--json",
    )
    manifest = json.loads(outcome.stdout)
    assert manifest["method"]["used"] == "vmdav"
    assert manifest["method"]["options"] == {"gamma": 0.7}
    assert manifest["seed"] == 9
    assert (
        manifest["information_loss"]
        == mc.anonymize(
            "people.csv", mc.load_schema("schema.toml"), k=3, method="vmdav", gamma=0.7
        ).manifest.information_loss
    )


def test_a_word_is_a_value_too(folder, run):
    outcome = run(*BASE, "-k", 3, "--method", "vmdav", "--set", "gamma=best", "--dry-run", "--json")
    assert json.loads(outcome.stdout)["method"]["options"] == {"gamma": "best"}


def test_a_dry_run_writes_nothing(folder, run):
    outcome = run(*BASE, "-k", 5, "-o", "out.csv", "--report", "out.html", "--dry-run")
    assert outcome.code == 0
    assert "5-anonymous" in outcome.stderr
    assert "dry run" in outcome.stderr
    assert {path.name for path in folder.iterdir()} == {"people.csv", "schema.toml"}


def test_rows_are_shuffled_unless_their_order_is_kept(folder, run):
    original = [row["tsh"] for row in read_rows(folder / "people.csv")]
    run(*BASE, "-k", 5, "-o", "kept.csv", "--keep-order")
    run(*BASE, "-k", 5, "-o", "shuffled.csv")
    kept, shuffled = (
        [row["tsh"] for row in read_rows(folder / f"{name}.csv")] for name in ("kept", "shuffled")
    )
    assert kept == original
    assert shuffled != original
    assert sorted(shuffled) == sorted(original)


def test_dropped_records_are_told(folder, run):
    lines = (folder / "people.csv").read_text(encoding="utf-8").splitlines()
    for row in (3, 8, 9):
        fields = lines[row].split(",")
        fields[2] = ""
        lines[row] = ",".join(fields)
    (folder / "people.csv").write_text("\n".join(lines), encoding="utf-8")
    assert run(*BASE, "-k", 5, "-o", "out.csv").code == 2
    outcome = run(*BASE, "-k", 5, "-o", "out.csv", "--report", "out.html", "--missing", "drop")
    assert outcome.code == 0
    assert "dropped     3 of 200 records" in outcome.stderr
    assert len(read_rows(folder / "out.csv")) == 197
    filled = run(*BASE, "-k", 5, "-o", "out.csv", "--missing", "impute")
    assert filled.code == 0
    assert len(read_rows(folder / "out.csv")) == 200


def test_a_configuration_holds_a_whole_run(folder, run):
    (folder / "study").mkdir()
    given = {
        "input": "../people.csv",
        "schema": "../schema.toml",
        "k": 4,
        "output": "out.csv",
        "report": "out.html",
    }
    write_config(folder / "study", **given, keep_order=True, seed=3, method="vmdav", options={})
    text = (
        (folder / "study" / "run.toml")
        .read_text(encoding="utf-8")
        .replace("options = {}", "options.gamma = 0.4")
    )
    (folder / "study" / "run.toml").write_text(text, encoding="utf-8")
    outcome = run("anonymize", "--config", "study/run.toml")
    assert outcome.code == 0, outcome.stderr
    manifest = json.loads((folder / "study" / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert (manifest["k"], manifest["seed"], manifest["row_order"]) == (4, 3, "kept")
    assert manifest["method"]["options"] == {"gamma": 0.4}
    assert (folder / "study" / "out.html").exists()


def test_flags_override_the_configuration(folder, run):
    write_config(
        folder,
        input="nowhere.csv",
        schema="nowhere.toml",
        k=4,
        output="no/out.csv",
        seed=3,
        keep_order=True,
    )
    flags = ("people.csv", "-s", "schema.toml", "-k", 6, "-o", "mine.csv", "--seed", 0, "--shuffle")
    outcome = run("anonymize", *flags, "--config", "run.toml", "--json")
    manifest = json.loads(outcome.stdout)
    assert (manifest["k"], manifest["seed"], manifest["row_order"]) == (6, 0, "shuffled")
    assert (folder / "mine.csv").exists()


def test_reading_options_reach_the_reader(folder, run):
    text = (folder / "people.csv").read_text(encoding="utf-8").replace(",", "^").replace(".", ",")
    (folder / "odd.csv").write_bytes(text.replace("female", "§").encode("latin-1"))
    reading = ("--delimiter", "^", "--decimal", ",", "--encoding", "latin-1")
    outcome = run(
        "anonymize",
        "odd.csv",
        "-s",
        "schema.toml",
        "-k",
        5,
        "-o",
        "o.csv",
        "--report",
        "o.html",
        *reading,
        "--json",
    )
    assert outcome.code == 0, outcome.stderr
    manifest = json.loads(outcome.stdout)
    plain = json.loads(run(*BASE, "-k", 5, "--dry-run", "--json").stdout)
    assert manifest["cells"] == plain["cells"]
    assert manifest["information_loss"] == pytest.approx(plain["distortion"])


def test_another_format_comes_out_by_its_suffix(folder, run):
    assert run(*BASE, "-k", 5, "-o", "out.parquet").code == 0
    assert mc.read("out.parquet").rows == 200


WRONG = [
    ((*BASE, "-k", 5), 2, "-o"),
    ((*BASE, "-o", "out.csv"), 2, "-k"),
    (("anonymize", "people.csv", "-k", 5, "-o", "out.csv"), 2, "-s"),
    (("anonymize", "-s", "schema.toml", "-k", 5, "-o", "out.csv"), 2, "first argument"),
    ((*BASE, "-k", 1, "-o", "out.csv"), 2, "2 or more"),
    ((*BASE, "-k", "two", "-o", "out.csv"), 2, "-k"),
    ((*BASE, "-k", 201, "-o", "out.csv"), 1, "Lower k"),
    ((*BASE, "-k", 5, "-o", "people.csv"), 2, "also an input"),
    ((*BASE, "-k", 5, "-o", "./people.csv"), 2, "also an input"),
    ((*BASE, "-k", 5, "-o", "schema.toml"), 2, "also an input"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--report", "people.csv"), 2, "also an input"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--report", "out.csv"), 2, "different files"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--report", "out.csv.manifest.json"), 2, "different files"),
    ((*BASE, "-k", 5, "-o", "nowhere/out.csv"), 2, "does not exist"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--report", "nowhere/out.html"), 2, "does not exist"),
    ((*BASE, "-k", 5, "-o", "."), 2, "is a folder"),
    ((*BASE, "-k", 5, "-o", "out.nonsense"), 2, ".nonsense"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--method", "nonsense"), 2, "mdav"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--set", "gamma=0.2"), 2, "gamma"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--method", "vmdav", "--set", "gamma"), 2, "NAME=VALUE"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--method", "vmdav", "--set", "=1"), 2, "NAME=VALUE"),
    (
        (
            *BASE,
            "-k",
            5,
            "-o",
            "o.csv",
            "--method",
            "vmdav",
            "--set",
            "gamma=1",
            "--set",
            "gamma=2",
        ),
        2,
        "twice",
    ),
    ((*BASE, "-k", 5, "-o", "out.csv", "--method", "vmdav", "--set", "seed=2"), 2, "own flag"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--method", "vmdav", "--set", "schema=2"), 2, "own flag"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--missing", "ignore"), 2, "impute"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--seed", "-1"), 2, "seed"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--decimal", ";"), 2, "decimal"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--config", "nowhere.toml"), 2, "nowhere.toml"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--config", "people.csv"), 2, "TOML"),
    (("anonymize", "nowhere.csv", "-s", "schema.toml", "-k", 5, "-o", "out.csv"), 2, "nowhere.csv"),
    (
        ("anonymize", "people.csv", "-s", "nowhere.toml", "-k", 5, "-o", "out.csv"),
        2,
        "nowhere.toml",
    ),
    (("anonymize", "schema.toml", "-s", "schema.toml", "-k", 5, "-o", "out.csv"), 2, ".toml"),
    (("anonymize", "people.csv", "-s", "people.csv", "-k", 5, "-o", "out.csv"), 2, "TOML"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG)
def test_wrong_use_is_told_and_nothing_is_written(
    folder, run, survey_files, arguments, code, words
):
    outcome = run(*arguments)
    assert outcome.code == code
    assert words in outcome.stderr
    assert outcome.stdout == ""
    assert {
        path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()
    } == survey_files


def test_a_link_to_the_input_is_the_input(folder, run):
    (folder / "link.csv").symlink_to("people.csv")
    os.link(folder / "people.csv", folder / "hard.csv")
    for name in ("link.csv", "hard.csv"):
        outcome = run(*BASE, "-k", 5, "-o", name)
        assert outcome.code == 2
        assert "also an input" in outcome.stderr


def test_the_configuration_is_not_overwritten(folder, run):
    write_config(folder, k=4)
    outcome = run(*BASE, "--config", "run.toml", "-o", "run.toml")
    assert outcome.code == 2
    assert "also an input" in outcome.stderr


def test_targets_are_checked_before_the_work(folder, run, monkeypatch):
    monkeypatch.setattr(mc, "anonymize", mc.anonymize)
    monkeypatch.setattr("microcell.tables.read", lambda *_, **__: pytest.fail("the work began"))
    assert run(*BASE, "-k", 5, "-o", "nowhere/out.csv").code == 2


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="an administrator may write everywhere"
)
def test_a_folder_that_is_not_writable_is_refused(folder, run):
    (folder / "closed").mkdir(mode=0o500)
    outcome = run(*BASE, "-k", 5, "-o", "closed/out.csv")
    assert outcome.code == 2
    assert "not writable" in outcome.stderr


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs a folder where nobody may write"
)
def test_a_folder_where_nobody_may_write_is_refused(folder, run):
    outcome = run(*BASE, "-k", 5, "-o", "/proc/out.csv")
    assert outcome.code == 2
    assert outcome.stderr.count("error[") == 1


def test_effort_goes_to_auto_and_is_refused_where_it_is_wrong(folder, run):
    run(*BASE, "-k", 5, "--effort", "fast", "-o", "out.csv")
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert manifest["method"]["options"] == {"effort": "fast"}
    assert manifest["method"]["used"] == "mdav"
    run(*BASE, "-k", 5, "--effort", "0.5", "-o", "timed.csv")
    manifest = json.loads((folder / "timed.csv.manifest.json").read_text(encoding="utf-8"))
    assert "another run may differ" in manifest["method"]["reason"]
    wrong = run(*BASE, "-k", 5, "--effort", "much", "-o", "x.csv")
    assert (wrong.code, "effort must be fast, balanced, best or a number" in wrong.stderr) == (
        2,
        True,
    )
    wrong = run(*BASE, "-k", 5, "--method", "mdav", "--effort", "best", "-o", "x.csv")
    assert (wrong.code, "has no option 'effort'" in wrong.stderr) == (2, True)


# ---------------------------------------------------------------------------------------------- cells as a function


@pytest.mark.parametrize(("words", "kind"), [((), "power"), (("--cells-kind", "balls"), "balls")])
def test_cells_are_written_beside(folder, run, words, kind):
    outcome = run(
        *BASE,
        "-k",
        5,
        "--method",
        "mdav",
        "-o",
        "out.csv",
        "--keep-order",
        "--cells",
        "cells.json",
        *words,
    )
    assert (outcome.code, outcome.stdout) == (0, ""), outcome.stderr
    assert "manifest out.csv.manifest.json cells cells.json" in " ".join(outcome.stderr.split())
    assert {path.name for path in folder.iterdir()} == {
        "people.csv",
        "schema.toml",
        "out.csv",
        "out.csv.manifest.json",
        "cells.json",
    }
    cells = mc.load_cells("cells.json")
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert (cells.kind, cells.k, manifest["cells"]["function"]) == (kind, 5, kind)
    assert cells.sizes.min() >= 5
    assert len(cells) == manifest["cells"]["count"]
    rows = read_rows(folder / "out.csv")
    assert smallest_class(rows) >= 5
    assert {float(row["bmi"]) for row in rows} == set(cells.representatives["bmi"])


def test_without_cells_the_manifest_tells_of_none(folder, run):
    assert run(*BASE, "-k", 5, "-o", "out.csv").code == 0
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert "function" not in manifest["cells"]


def test_cells_are_the_same_with_the_same_seed(folder, run):
    for name in ("a", "b"):
        assert (
            run(
                *BASE, "-k", 5, "--method", "pcl", "-o", f"{name}.csv", "--cells", f"{name}.json"
            ).code
            == 0
        )
    assert (folder / "a.json").read_bytes() == (folder / "b.json").read_bytes()


def test_a_configuration_may_name_the_cells(folder, run):
    write_config(
        folder, input="people.csv", schema="schema.toml", k=5, output="out.csv", cells="cells.json"
    )
    assert run("anonymize", "--config", "run.toml").code == 0
    assert mc.load_cells("cells.json").kind == "power"
    assert (
        run(
            "anonymize", "--config", "run.toml", "--cells", "mine.json", "--cells-kind", "balls"
        ).code
        == 0
    )
    assert mc.load_cells("mine.json").kind == "balls"


def test_a_dry_run_makes_cells_and_writes_none(folder, run, survey_files):
    outcome = run(*BASE, "-k", 5, "--dry-run", "--cells", "cells.json", "--json")
    assert outcome.code == 0, outcome.stderr
    assert json.loads(outcome.stdout)["cells"]["function"] == "power"
    assert {path.name for path in folder.iterdir()} == set(survey_files)


CELLS_WRONG = [
    (("-o", "out.csv", "--cells", "people.csv"), "also an input"),
    (("-o", "out.csv", "--cells", "schema.toml"), "also an input"),
    (("-o", "out.csv", "--cells", "out.csv"), "different files"),
    (("-o", "out.csv", "--cells", "out.csv.manifest.json"), "different files"),
    (("-o", "out.csv", "--report", "x.html", "--cells", "x.html"), "different files"),
    (("-o", "out.csv", "--cells", "nowhere/cells.json"), "does not exist"),
    (("-o", "out.csv", "--cells", "cells.json", "--cells-kind", "lookup"), "power"),
    (("-o", "out.csv", "--cells", "cells.json", "--set", "cells=true"), "own flag"),
]


@pytest.mark.parametrize(("words", "told"), CELLS_WRONG)
def test_cells_that_cannot_be_written_are_refused(folder, run, survey_files, words, told):
    outcome = run(*BASE, "-k", 5, *words)
    assert outcome.code == 2
    assert told in outcome.stderr
    assert {
        path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()
    } == survey_files


def test_strata_do_not_go_with_cells(folder, run):
    text = (folder / "schema.toml").read_text(encoding="utf-8")
    text = re.sub(r'(\[columns\.sex\]\nrole = )"quasi"\nkind = "nominal"', r'\1"strata"', text)
    assert '"strata"' in text
    (folder / "schema.toml").write_text(text, encoding="utf-8")
    outcome = run(*BASE, "-k", 5, "-o", "out.csv", "--cells", "cells.json")
    assert outcome.code == 2
    assert "do not go with strata" in outcome.stderr
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize(
    ("columns", "drawn"), [(("age", "bmi"), True), (("age", "bmi", "tsh"), False)]
)
def test_a_report_has_a_picture_of_cells_in_two_dimensions(folder, run, columns, drawn):
    roles = [f'columns.{name}.role = "quasi"' for name in columns]
    (folder / "few.toml").write_text(
        "\n".join(['schema_version = 1\nrest = "drop"', *roles, ""]), encoding="utf-8"
    )
    words = (
        "-s",
        "few.toml",
        "-k",
        5,
        "-o",
        "out.csv",
        "--report",
        "out.html",
        "--cells",
        "cells.json",
    )
    outcome = run("anonymize", "people.csv", *words)
    assert outcome.code == 0, outcome.stderr
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert ('<h2 id="cells">' in page) is drawn
    assert ("data:image/svg+xml;base64," in page) is drawn


# ---------------------------------------------------------------------------------------------- requirements

LIMITS = ("--require", "l_diversity.anti_tpo_grade=3", "--require", "t_closeness<=0.4")


def test_requirements_are_met_and_told(folder, run):
    outcome = run(*BASE, "-k", 5, "--method", "mdav", "-o", "out.csv", *LIMITS)
    assert outcome.code == 0, outcome.stderr
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    cells, merged = manifest["cells"], manifest["requirements"]
    assert merged["require"] == {"l_diversity.anti_tpo_grade": 3, "t_closeness": 0.4}
    assert 0 < merged["merged_cells"] == 40 - cells["count"]
    told = " ".join(outcome.stderr.split())
    assert f"merged {merged['merged_cells']} of 40 cells, to meet what is required" in told
    assert f"{merged['distortion_before']:.4f} before, {cells['distortion']:.4f} after" in told
    assert run("audit", "people.csv", "out.csv", "-s", "schema.toml", *LIMITS).code == 0
    plain = run(*BASE, "-k", 5, "--method", "mdav", "--dry-run", "--require", "t_closeness=1")
    assert "merged no cell: all 40 meet what is required" in " ".join(plain.stderr.split())
    assert "merged" not in run(*BASE, "-k", 5, "--method", "mdav", "--dry-run").stderr


REQUIRED_WRONG = [
    (("--require", "l_diversity<=3"), 2, "of l_diversity, more is better. Write l_diversity>=3"),
    (("--require", "t_closeness.tsh>=0.3"), 2, "of t_closeness.tsh, less is better"),
    (("--require", "t_closeness"), 2, "is not valid: write a measure"),
    (("--require", "t_closeness=nan"), 2, "is not valid: write a measure"),
    (("--require", "k=5", "--require", "k=6"), 2, "two limits for 'k'"),
    (("--require", "nonsense=3"), 2, "No measure 'nonsense'"),
    (("--require", "t_closeness.age=3"), 2, "no confidential column 'age'"),
    (("--require", "k=10", "--cells", "cells.json"), 2, "do not go with a limit for k"),
    (("--method", "vmdav", "--set", "require=3"), 2, "own flag"),
    (("--require", "l_diversity=100"), 1, "l_diversity cannot be met"),
    (("--require", "distortion<=0.0001"), 1, "distortion is"),
]


@pytest.mark.parametrize(("words", "code", "told"), REQUIRED_WRONG)
def test_requirements_that_are_wrong_or_not_met_leave_no_file(
    folder, run, survey_files, words, code, told
):
    outcome = run(*BASE, "-k", 5, "-o", "out.csv", "--report", "out.html", *words)
    assert outcome.code == code, outcome.stderr
    assert told in " ".join(outcome.stderr.split())
    assert {
        path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()
    } == survey_files


def test_a_configuration_may_hold_requirements_and_flags_override_them(folder, run):
    write_config(
        folder, input="people.csv", schema="schema.toml", k=5, output="out.csv", method="mdav"
    )
    text = (folder / "run.toml").read_text(encoding="utf-8")
    text += "[require]\nk = 7\nt_closeness.tsh = 0.5\n"
    (folder / "run.toml").write_text(text, encoding="utf-8")
    outcome = run("anonymize", "--config", "run.toml", "--json")
    assert outcome.code == 0, outcome.stderr
    assert json.loads(outcome.stdout)["cells"]["merged"]["require"] == {
        "k": 7,
        "t_closeness.tsh": 0.5,
    }
    outcome = run(
        "anonymize",
        "--config",
        "run.toml",
        "--json",
        "--require",
        "k>=9",
        "--require",
        "l_diversity=2",
    )
    manifest = json.loads(outcome.stdout)
    assert manifest["requirements"]["require"] == {
        "k": 9,
        "t_closeness.tsh": 0.5,
        "l_diversity": 2,
    }
    assert manifest["cells"]["smallest"] >= 9


def test_dependence_is_preserved_and_told(folder, run):
    outcome = run("anonymize", "people.csv", "-s", "schema.toml", "-k", "5", "--method", "mdav", "-o", "out.csv",
                  "--dependence", "0.2", "--report", "out.html")  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    told = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))["dependence"]
    assert told["lambda"] == 0.2
    assert f"D_Y {told['dependence_loss']:.4f}" in " ".join(outcome.stderr.split())
    assert "Preserved dependence" in (folder / "out.html").read_text(encoding="utf-8")


def test_blocks_are_written_with_their_label_and_fail_the_audit(folder, run):
    outcome = run("anonymize", "people.csv", "-s", "schema.toml", "-k", "5", "--method", "mdav", "-o", "out.csv",
                  "--blocks", "1")  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    assert "NOT 5-anonymous as a whole" in " ".join(outcome.stderr.split())
    audited = run("audit", "people.csv", "out.csv", "-s", "schema.toml", "--require", "k=5")
    assert audited.code == 1
    assert "k is" in audited.stderr


def test_dependence_and_blocks_stand_in_a_run_file(folder, run):
    (folder / "run.toml").write_text(
        'config_version = 1\ninput = "people.csv"\nschema = "schema.toml"\nk = 4\nmethod = "mdav"\n'
        'output = "out.csv"\ndependence = 0.5\nblocks = 1\n',
        encoding="utf-8",
    )
    outcome = run("anonymize", "--config", "run.toml")
    assert outcome.code == 0, outcome.stderr
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert manifest["dependence"]["weight"] == 0.5
    assert all(len(names) == 1 for names in manifest["blocks"]["columns"])


def test_a_public_report_can_be_asked_for(folder, run):
    outcome = run("anonymize", "people.csv", "-s", "schema.toml", "-k", "5", "--method", "mdav", "-o", "out.csv",
                  "--report", "out.html", "--for", "public")  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    assert "For internal use" not in (folder / "out.html").read_text(encoding="utf-8")
