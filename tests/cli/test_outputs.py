"""Outputs of commands: nothing is overwritten unasked, and no certificate without its promise."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("blank_figures")

ANONYMIZE = ("anonymize", "people.csv", "-s", "schema.toml", "-k", 5, "--method", "mdav")
AUDIT = ("audit", "people.csv", "out.csv", "-s", "schema.toml")
DESIGN = ("survey", "design", "people.csv", "-s", "schema.toml", "-k", 3, "--method", "mdav")


@pytest.fixture
def released(folder, run):
    """Folder with a release of k = 5 and its cells."""
    assert run(*ANONYMIZE, "-o", "out.csv", "--cells", "cells.json", "-q").code == 0
    return folder


def is_refused(outcome, code):
    return outcome.code == 2 and f"error[{code}]" in outcome.stderr


@pytest.mark.parametrize(
    ("command", "existing"),
    [
        ((*ANONYMIZE, "-o", "out.csv"), "out.csv"),
        ((*ANONYMIZE, "-o", "new.csv", "--report", "old.html"), "old.html"),
        ((*ANONYMIZE, "-o", "old.csv"), "old.csv.manifest.json"),
        (("assign", "cells.json", "people.csv", "-o", "old.csv"), "old.csv"),
        ((*DESIGN, "-o", "old.json"), "old.json"),
        ((*DESIGN, "-o", "old.json"), "old.design.json"),
    ],
)
def test_existing_files_are_overwritten_with_force_only(released, run, command, existing):
    (released / existing).write_text("old", encoding="utf-8")
    assert is_refused(run(*command), "table.exists")
    assert (released / existing).read_text(encoding="utf-8") == "old"
    assert run(*command, "--force", "-q").code == 0
    assert (released / existing).read_text(encoding="utf-8") != "old"


def test_a_dry_run_ignores_existing_files(released, run):
    before = (released / "out.csv").read_bytes()
    assert run(*ANONYMIZE, "-o", "out.csv", "--dry-run").code == 0
    assert (released / "out.csv").read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        (*ANONYMIZE, "-o", "new.csv", "--certificate", "c.txt"),
        (*ANONYMIZE, "-o", "new.csv", "--report", "r.pdf"),
        (*AUDIT, "--certificate", "c.html"),
        (*AUDIT, "--report", "r.txt"),
        (*DESIGN, "-o", "new.json", "--report", "r.txt"),
    ],
)
def test_reports_are_html_and_certificates_pdf(released, run, command):
    before = sorted(released.iterdir())
    assert is_refused(run(*command), "option.unsupported")
    assert sorted(released.iterdir()) == before


def test_anonymize_writes_a_certificate(folder, run):
    assert run(*ANONYMIZE, "-o", "out.csv", "--certificate", "c.pdf").code == 0
    assert (folder / "c.pdf").read_bytes().startswith(b"%PDF")


def test_no_certificate_if_a_requirement_is_missed(released, run):
    missed = run(*AUDIT, "--require", "k=6", "--certificate", "c.pdf", "--report", "r.html")
    assert missed.code == 1
    assert not (released / "c.pdf").exists()
    assert (released / "r.html").exists()
    assert run(*AUDIT, "--certificate", "c.pdf").code == 0
    assert (released / "c.pdf").exists()


@pytest.mark.parametrize("k", [4, 6])
def test_an_edited_manifest_is_the_only_contradiction(released, run, k):
    path = released / "out.csv.manifest.json"
    path.write_text(
        json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"k": k}), encoding="utf-8"
    )
    outcome = run(*AUDIT, "--json")
    measures = json.loads(outcome.stdout)["measures"]
    assert outcome.code == 1
    assert measures["manifest_contradictions"]["value"] == 1
    assert measures["values_changed"]["value"] == 0


def test_a_single_cell_is_a_warning(folder, run):
    single = (*ANONYMIZE, "-o", "out.csv", "--require", "t_closeness=0.0001")
    assert "one class" in run(*single).stderr
    assert "one class" in run(*AUDIT).stdout
    assert "one class" not in run(*ANONYMIZE, "--dry-run").stderr


def test_a_folder_is_not_a_table(folder, run):
    assert is_refused(run("inspect", "."), "table.unknown_format")


def test_misspelt_measures_are_corrected(released, run):
    outcome = run(*AUDIT, "--require", "l_diverstiy=2", "--json")
    error = json.loads(outcome.stdout)["error"]
    assert error["code"] == "option.unknown"
    assert "l_diversity" in error["details"]["near"]
