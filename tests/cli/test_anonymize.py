"""``microcell anonymize``."""

import csv
import json
import os
import re
import sys
from collections import Counter

import pytest

import microcell as mc

pytestmark = pytest.mark.usefixtures("blank_figures")

BASE = ("anonymize", "people.csv", "-s", "schema.toml")
KEYS = ("sex", "age", "bmi", "latitude", "longitude", "postal_code")


def read_rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def smallest_class(rows):
    return min(Counter(tuple(row[key] for key in KEYS) for row in rows).values())


def write_config(folder, **options):
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
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


def test_the_summary_lists_guarantee_cells_information_loss_and_files(folder, run):
    outcome = run(*BASE, "-k", 5, "--method", "mdav", "-o", "out.csv", "--report", "out.html")
    summary = " ".join(outcome.stderr.split())
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert "5-anonymous" in summary
    assert "cells 40 of 5 records" in summary
    assert f"information loss {100 * manifest['information_loss']:.4g} %" in summary
    assert "information_loss" not in summary
    assert "table out.csv manifest out.csv.manifest.json report out.html" in summary
    assert "dropped" not in summary


def test_json_output_is_the_manifest_without_the_order_key(folder, run):
    outcome = run(*BASE, "-k", 5, "-o", "out.csv", "--json", "-q")
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert len(bytes.fromhex(manifest.pop("order_key"))) == 16
    printed = json.loads(outcome.stdout)
    assert [item["code"] for item in printed.pop("findings")] == [
        "risk.homogeneous_classes",
        "risk.exact_values",
    ]
    assert printed == manifest
    assert outcome.stderr == ""


def test_strict_writes_nothing_if_something_was_found(folder, run):
    outcome = run(*BASE, "-k", 5, "-o", "strict.csv", "--strict")
    assert outcome.code == 1
    assert "error[guarantee.findings]" in outcome.stderr
    assert "[risk.homogeneous_classes]" in outcome.stderr
    assert not (folder / "strict.csv").exists()
    schema = folder / "schema.toml"
    text = schema.read_text(encoding="utf-8")
    rounded = text.replace("[columns.tsh]", "[columns.tsh]\nround = 0.2")
    weighted = rounded.replace("[columns.home]", "[columns.home]\nweight = 4.0")
    schema.write_text(weighted, encoding="utf-8")
    fine = run(*BASE, "-k", 5, "-o", "s.csv", "--strict", "--require", "homogeneous_records=0")
    assert fine.code == 0, fine.stderr
    assert (folder / "s.csv").exists()


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


def test_method_options_can_be_text(folder, run):
    outcome = run(*BASE, "-k", 3, "--method", "vmdav", "--set", "gamma=best", "--dry-run", "--json")
    assert json.loads(outcome.stdout)["method"]["options"] == {"gamma": "best"}


def test_a_dry_run_writes_nothing(folder, run):
    outcome = run(*BASE, "-k", 5, "-o", "out.csv", "--report", "out.html", "--dry-run")
    assert outcome.code == 0
    assert "5-anonymous" in outcome.stderr
    assert "dry run" in outcome.stderr
    assert {path.name for path in folder.iterdir()} == {"people.csv", "schema.toml"}


def test_rows_are_shuffled_by_default(folder, run):
    original = [row["tsh"] for row in read_rows(folder / "people.csv")]
    run(*BASE, "-k", 5, "-o", "kept.csv", "--keep-order")
    run(*BASE, "-k", 5, "-o", "shuffled.csv")
    kept, shuffled = (
        [row["tsh"] for row in read_rows(folder / f"{name}.csv")] for name in ("kept", "shuffled")
    )
    assert kept == original
    assert shuffled != original
    assert sorted(shuffled) == sorted(original)


def test_dropped_records_are_reported(folder, run):
    lines = (folder / "people.csv").read_text(encoding="utf-8").splitlines()
    for row in (3, 8, 9):
        fields = lines[row].split(",")
        fields[2] = ""
        lines[row] = ",".join(fields)
    (folder / "people.csv").write_text("\n".join(lines), encoding="utf-8")
    assert run(*BASE, "-k", 5, "-o", "out.csv").code == 2
    outcome = run(*BASE, "-k", 5, "-o", "out.csv", "--report", "out.html", "--missing", "drop")
    assert outcome.code == 0
    assert "dropped 3 of 200 records" in " ".join(outcome.stderr.split())
    assert len(read_rows(folder / "out.csv")) == 197
    filled = run(*BASE, "-k", 5, "-o", "out.csv", "--missing", "impute", "--force")
    assert filled.code == 0
    assert len(read_rows(folder / "out.csv")) == 200


def test_a_run_file_holds_all_settings(folder, run):
    (folder / "study").mkdir()
    options = {
        "input": "../people.csv",
        "schema": "../schema.toml",
        "k": 4,
        "output": "out.csv",
        "report": "out.html",
    }
    write_config(folder / "study", **options, keep_order=True, seed=3, method="vmdav", options={})
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


def test_flags_override_the_run_file(folder, run):
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
    assert manifest["information_loss"] == pytest.approx(plain["information_loss"])


def test_the_suffix_sets_the_format(folder, run):
    assert run(*BASE, "-k", 5, "-o", "out.parquet").code == 0
    assert mc.read("out.parquet").rows == 200


INVALID = [
    ((*BASE, "-k", 5), 2, "-o"),
    ((*BASE, "-o", "out.csv"), 2, "-k"),
    (("anonymize", "people.csv", "-k", 5, "-o", "out.csv"), 2, "-s"),
    (("anonymize", "-s", "schema.toml", "-k", 5, "-o", "out.csv"), 2, "[option.missing]"),
    ((*BASE, "-k", 1, "-o", "out.csv"), 2, "[option."),
    ((*BASE, "-k", "two", "-o", "out.csv"), 2, "-k"),
    ((*BASE, "-k", 201, "-o", "out.csv"), 1, "[guarantee.too_few_records]"),
    ((*BASE, "-k", 5, "-o", "people.csv"), 2, "[table.exists]"),
    ((*BASE, "-k", 5, "-o", "./people.csv"), 2, "[table.exists]"),
    ((*BASE, "-k", 5, "-o", "schema.toml"), 2, "[table.exists]"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--report", "people.csv"), 2, "[option.unsupported]"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--report", "out.csv"), 2, "[option.unsupported]"),
    ((*BASE, "-k", 5, "-o", "nowhere/out.csv"), 2, "[table.unwritable]"),
    ((*BASE, "-k", 5, "-o", "out.csv", "--report", "nowhere/out.html"), 2, "[table.unwritable]"),
    ((*BASE, "-k", 5, "-o", "."), 2, "[table.unwritable]"),
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
        "gamma",
    ),
    (
        (*BASE, "-k", 5, "-o", "out.csv", "--method", "vmdav", "--set", "seed=2"),
        2,
        "[option.unknown]",
    ),
    (
        (*BASE, "-k", 5, "-o", "out.csv", "--method", "vmdav", "--set", "schema=2"),
        2,
        "[option.unknown]",
    ),
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


@pytest.mark.parametrize(("arguments", "code", "words"), INVALID)
def test_invalid_arguments_are_rejected_and_nothing_is_written(
    folder, run, survey_files, arguments, code, words
):
    outcome = run(*arguments)
    assert outcome.code == code
    assert words in outcome.stderr
    assert outcome.stdout == ""
    assert {
        path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()
    } == survey_files


def test_links_to_the_input_are_not_overwritten(folder, run):
    (folder / "link.csv").symlink_to("people.csv")
    os.link(folder / "people.csv", folder / "hard.csv")
    for name in ("link.csv", "hard.csv"):
        outcome = run(*BASE, "-k", 5, "-o", name)
        assert outcome.code == 2
        assert "error[table.exists]" in outcome.stderr


def test_the_run_file_is_not_overwritten(folder, run):
    write_config(folder, k=4)
    outcome = run(*BASE, "--config", "run.toml", "-o", "run.toml")
    assert outcome.code == 2
    assert "error[table.exists]" in outcome.stderr


def test_outputs_are_checked_before_the_table_is_read(folder, run, monkeypatch):
    monkeypatch.setattr(mc, "anonymize", mc.anonymize)
    monkeypatch.setattr("microcell.tables.read", lambda *_, **__: pytest.fail("the work began"))
    assert run(*BASE, "-k", 5, "-o", "nowhere/out.csv").code == 2


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="an administrator may write everywhere"
)
def test_a_read_only_folder_is_rejected(folder, run):
    (folder / "closed").mkdir(mode=0o500)
    outcome = run(*BASE, "-k", 5, "-o", "closed/out.csv")
    assert outcome.code == 2
    assert "not writable" in outcome.stderr


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs a folder where nobody may write"
)
def test_a_folder_that_nobody_can_write_is_rejected(folder, run):
    outcome = run(*BASE, "-k", 5, "-o", "/proc/out.csv")
    assert outcome.code == 2
    assert outcome.stderr.count("error[") == 1


def test_effort_is_passed_to_auto_and_checked(folder, run):
    run(*BASE, "-k", 5, "--effort", "fast", "-o", "out.csv")
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert manifest["method"]["options"] == {"effort": "fast"}
    assert manifest["method"]["used"] == "mdav"
    run(*BASE, "-k", 5, "--effort", "0.5", "-o", "timed.csv")
    manifest = json.loads((folder / "timed.csv.manifest.json").read_text(encoding="utf-8"))
    assert "between runs" in manifest["method"]["reason"]
    wrong = run(*BASE, "-k", 5, "--effort", "much", "-o", "x.csv")
    assert (wrong.code, "error[option." in wrong.stderr) == (2, True)
    wrong = run(*BASE, "-k", 5, "--method", "mdav", "--effort", "best", "-o", "x.csv")
    assert (wrong.code, "error[option." in wrong.stderr) == (2, True)


# --------------------------------------------------------------------------------- cells


@pytest.mark.parametrize(("words", "kind"), [((), "power"), (("--cells-kind", "balls"), "balls")])
def test_cells_are_written_with_the_release(folder, run, words, kind):
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


def test_without_cells_the_manifest_has_no_function(folder, run):
    assert run(*BASE, "-k", 5, "-o", "out.csv").code == 0
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    assert "function" not in manifest["cells"]


def test_the_same_seed_gives_the_same_cells(folder, run):
    for name in ("a", "b"):
        assert (
            run(
                *BASE, "-k", 5, "--method", "pcl", "-o", f"{name}.csv", "--cells", f"{name}.json"
            ).code
            == 0
        )
    assert (folder / "a.json").read_bytes() == (folder / "b.json").read_bytes()


def test_a_run_file_can_name_the_cells_file(folder, run):
    write_config(
        folder, input="people.csv", schema="schema.toml", k=5, output="out.csv", cells="cells.json"
    )
    assert run("anonymize", "--config", "run.toml").code == 0
    assert mc.load_cells("cells.json").kind == "power"
    assert (
        run(
            *("anonymize", "--config", "run.toml", "--force"),
            *("--cells", "mine.json", "--cells-kind", "balls"),
        ).code
        == 0
    )
    assert mc.load_cells("mine.json").kind == "balls"


def test_a_dry_run_fits_cells_and_writes_nothing(folder, run, survey_files):
    outcome = run(*BASE, "-k", 5, "--dry-run", "--cells", "cells.json", "--json")
    assert outcome.code == 0, outcome.stderr
    assert json.loads(outcome.stdout)["cells"]["function"] == "power"
    assert {path.name for path in folder.iterdir()} == set(survey_files)


INVALID_CELLS = [
    (("-o", "out.csv", "--cells", "people.csv"), "[table.exists]"),
    (("-o", "out.csv", "--cells", "schema.toml"), "[table.exists]"),
    (("-o", "out.csv", "--cells", "out.csv"), "[table.exists]"),
    (("-o", "out.csv", "--cells", "out.csv.manifest.json"), "[table.exists]"),
    (("-o", "out.csv", "--report", "x.html", "--cells", "x.html"), "[table.exists]"),
    (("-o", "out.csv", "--cells", "nowhere/cells.json"), "[table.unwritable]"),
    (("-o", "out.csv", "--cells", "cells.json", "--cells-kind", "lookup"), "power"),
    (("-o", "out.csv", "--cells", "cells.json", "--set", "cells=true"), "[option.unknown]"),
]


@pytest.mark.parametrize(("words", "expected"), INVALID_CELLS)
def test_invalid_cells_outputs_are_rejected(folder, run, survey_files, words, expected):
    outcome = run(*BASE, "-k", 5, *words)
    assert outcome.code == 2
    assert expected in outcome.stderr
    assert {
        path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()
    } == survey_files


def test_cells_are_rejected_with_strata(folder, run):
    text = (folder / "schema.toml").read_text(encoding="utf-8")
    text = re.sub(r'(\[columns\.sex\]\nrole = )"quasi"\nkind = "nominal"', r'\1"strata"', text)
    assert '"strata"' in text
    (folder / "schema.toml").write_text(text, encoding="utf-8")
    outcome = run(*BASE, "-k", 5, "-o", "out.csv", "--cells", "cells.json")
    assert outcome.code == 2
    assert "error[option.unsupported]" in outcome.stderr
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize(
    ("columns", "drawn"), [(("age", "bmi"), True), (("age", "bmi", "tsh"), False)]
)
def test_a_report_maps_cells_in_two_dimensions(folder, run, columns, drawn):
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


# -------------------------------------------------------------------------- requirements

LIMITS = ("--require", "l_diversity.anti_tpo_grade=3", "--require", "t_closeness<=0.4")


def test_requirements_are_met_and_reported(folder, run):
    outcome = run(*BASE, "-k", 5, "--method", "mdav", "-o", "out.csv", *LIMITS)
    assert outcome.code == 0, outcome.stderr
    manifest = json.loads((folder / "out.csv.manifest.json").read_text(encoding="utf-8"))
    cells, merged = manifest["cells"], manifest["requirements"]
    assert merged["limits"] == {"l_diversity.anti_tpo_grade": 3, "t_closeness": 0.4}
    assert (merged["cells_before"], merged["cells_after"]) == (40, cells["count"])
    summary = " ".join(outcome.stderr.split())
    assert "limits met with" in summary
    assert merged["way"] in summary
    assert run("audit", "people.csv", "out.csv", "-s", "schema.toml", *LIMITS).code == 0
    plain = run(*BASE, "-k", 5, "--method", "mdav", "--dry-run", "--require", "t_closeness=1")
    assert "limits met with 40 cells" in " ".join(plain.stderr.split())
    assert "limits" not in run(*BASE, "-k", 5, "--method", "mdav", "--dry-run").stderr


INVALID_REQUIREMENTS = [
    (("--require", "l_diversity<=3"), 2, "[option."),
    (("--require", "t_closeness.tsh>=0.3"), 2, "[option."),
    (("--require", "t_closeness"), 2, "[option."),
    (("--require", "t_closeness=nan"), 2, "[option."),
    (("--require", "k=5", "--require", "k=6"), 2, "[option."),
    (("--require", "nonsense=3"), 2, "[option."),
    (("--require", "t_closeness.age=3"), 2, "[option."),
    (("--require", "k=10", "--cells", "cells.json"), 2, "[option."),
    (("--method", "vmdav", "--set", "require=3"), 2, "[option.unknown]"),
    (("--require", "l_diversity=100"), 1, "[guarantee.requirement_not_met]"),
    (("--require", "information_loss<=0.0001"), 1, "[guarantee.requirement_not_met]"),
]


@pytest.mark.parametrize(("words", "code", "expected"), INVALID_REQUIREMENTS)
def test_invalid_or_unmet_requirements_leave_no_file(
    folder, run, survey_files, words, code, expected
):
    outcome = run(*BASE, "-k", 5, "-o", "out.csv", "--report", "out.html", *words)
    assert outcome.code == code, outcome.stderr
    assert expected in " ".join(outcome.stderr.split())
    assert {
        path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()
    } == survey_files


def test_a_run_file_can_hold_requirements_and_flags_override_them(folder, run):
    write_config(
        folder, input="people.csv", schema="schema.toml", k=5, output="out.csv", method="mdav"
    )
    text = (folder / "run.toml").read_text(encoding="utf-8")
    text += "[require]\nk = 7\nt_closeness.tsh = 0.5\n"
    (folder / "run.toml").write_text(text, encoding="utf-8")
    outcome = run("anonymize", "--config", "run.toml", "--json")
    assert outcome.code == 0, outcome.stderr
    assert json.loads(outcome.stdout)["requirements"]["limits"] == {
        "k": 7,
        "t_closeness.tsh": 0.5,
    }
    outcome = run(
        "anonymize",
        "--config",
        "run.toml",
        "--json",
        "--force",
        "--require",
        "k>=9",
        "--require",
        "l_diversity=2",
    )
    manifest = json.loads(outcome.stdout)
    assert manifest["requirements"]["limits"] == {
        "k": 9,
        "t_closeness.tsh": 0.5,
        "l_diversity": 2,
    }
    assert manifest["cells"]["smallest"] >= 9


MDAV = (*BASE, "-k", "5", "--method", "mdav", "-o", "out.csv")


def test_the_summary_reports_dependence(folder, run):
    outcome = run(*MDAV, "--dependence", "0.2", "--report", "out.html")
    assert outcome.code == 0, outcome.stderr
    text = (folder / "out.csv.manifest.json").read_text(encoding="utf-8")
    section = json.loads(text)["dependence"]
    assert section["weight"] == 0.2
    assert f"D_Y {section['dependence_loss']:.4f}" in " ".join(outcome.stderr.split())
    assert "weight (lambda) 0.2;" in (folder / "out.html").read_text(encoding="utf-8")


def test_blocks_are_reported_and_fail_the_audit(folder, run):
    outcome = run(*MDAV, "--blocks", "1")
    assert outcome.code == 0, outcome.stderr
    assert "NOT 5-anonymous over all columns" in " ".join(outcome.stderr.split())
    audited = run("audit", "people.csv", "out.csv", "-s", "schema.toml", "--require", "k=5")
    assert audited.code == 1
    assert "error[guarantee.requirement_not_met]" in audited.stderr


def test_a_run_file_can_hold_dependence_and_blocks(folder, run):
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


def test_a_report_for_the_public(folder, run):
    outcome = run(*MDAV, "--report", "out.html", "--for", "public")
    assert outcome.code == 0, outcome.stderr
    assert "For internal use" not in (folder / "out.html").read_text(encoding="utf-8")


def test_the_dominance_rule_is_read_from_schema_run_file_and_flag(folder, run):
    (folder / "w.csv").write_text("age,w\n31,900\n47,0.001\n23,0.001\n", encoding="utf-8")
    columns = '[columns.age]\nrole = "quasi"\n[columns.w]\nrole = "weight"\n'
    schema = folder / "w.toml"
    call = ("anonymize", "w.csv", "-s", "w.toml", "-k", 3, "-o", "w_out.csv", "--force")

    def released(*flags):
        assert run(*call, *flags).code == 0
        text = (folder / "w_out.csv.manifest.json").read_text(encoding="utf-8")
        return {row["age"] for row in read_rows(folder / "w_out.csv")}, json.loads(text)

    schema.write_text(f"schema_version = 1\n{columns}", encoding="utf-8")
    ages, manifest = released()
    assert ages == {"33"}
    assert manifest["dominance"] == {"n": 1, "p": 0.5, "cells_capped": 1}
    schema.write_text(f"schema_version = 1\ndominance = [1, 1]\n{columns}", encoding="utf-8")
    assert released()[0] == {"31"}
    assert released("--dominance", "1,0.5")[0] == {"33"}
    write_config(folder, dominance=[1, 0.34])
    assert released("--config", "run.toml")[0] == {"34"}
    for wrong in ("1", "x,0.5", "1,0.5,2"):
        assert run(*call, "--dominance", wrong).code == 2


def test_formulas_are_reported_and_escaped_on_request(folder, run):
    (folder / "f.csv").write_text("age,note\n31,=1+1\n47,fine\n23,@x\n", encoding="utf-8")
    (folder / "f.toml").write_text(
        'schema_version = 1\n[columns.age]\nrole = "quasi"\n'
        '[columns.note]\nrole = "confidential"\n',
        encoding="utf-8",
    )
    call = ("anonymize", "f.csv", "-s", "f.toml", "-k", 3, "-o", "f_out.csv")
    warned = " ".join(run(*call).stderr.split())
    assert "[file.formulas]" in warned
    assert "'note' (2)" in warned
    escaped = run(*call, "--escape-formulas", "--force")
    assert "Warning" not in escaped.stderr
    notes = {row["note"] for row in read_rows(folder / "f_out.csv")}
    assert notes == {"'=1+1", "fine", "'@x"}
    write_config(folder, escape_formulas=True)
    assert run(*call, "--config", "run.toml", "--force").code == 0
    assert {row["note"] for row in read_rows(folder / "f_out.csv")} == notes
