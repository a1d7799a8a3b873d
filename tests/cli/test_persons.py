"""Tables with several rows per person on the command line: inspect, anonymize, audit."""

import csv
import json
from collections import defaultdict

import pytest

import microcell as mc

pytestmark = pytest.mark.usefixtures("blank_figures")

K = 3
QUICK = ("--method", "mdav")


@pytest.fixture(scope="module")
def visits_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("visits")
    mc.write(mc.read(mc.sample_visits(60)), folder / "visits.csv")
    return {
        "visits.csv": (folder / "visits.csv").read_text(encoding="utf-8"),
        "visits.toml": mc.schema.schema_to_toml(mc.sample_schema("visits")),
    }


@pytest.fixture
def hospital(tmp_path, monkeypatch, visits_files):
    monkeypatch.chdir(tmp_path)
    for name, text in visits_files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    # Without a person column: the patient number is an ordinary identifier.
    unnamed = visits_files["visits.toml"].replace('role = "person"', 'role = "identifier"')
    (tmp_path / "unnamed.toml").write_text(unnamed, encoding="utf-8")
    return tmp_path


def persons_per_class(folder, released, keys):
    """Count distinct patients per class of a file in the order of the original."""
    with (folder / "visits.csv").open(encoding="utf-8") as original:
        patients = [row["patient_number"] for row in csv.DictReader(original)]
    with (folder / released).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    classes = defaultdict(set)
    for patient, row in zip(patients, rows, strict=True):
        classes[tuple(row[key] for key in keys)].add(patient)
    return [len(members) for members in classes.values()]


def test_inspect_anonymize_and_audit_count_patients(hospital, run):
    inspected = run("inspect", "visits.csv", "-o", "draft.toml")
    assert "60 persons (identified by patient_number)" in inspected.stdout
    assert mc.load_schema("draft.toml").person == ("patient_number",)
    call = ("anonymize", "visits.csv", "-s", "draft.toml", "-k", K, *QUICK, "--keep-order")
    released = run(*call, "-o", "k.csv", "--report", "k.html")
    assert released.code == 0
    assert "patient_number" in released.stderr
    keys = mc.load_schema("draft.toml").keys
    assert min(persons_per_class(hospital, "k.csv", keys)) >= K
    assert "patient_number" not in (hospital / "k.csv").read_text(encoding="utf-8")
    audited = run("audit", "visits.csv", "k.csv", "-s", "draft.toml", "--json")
    assert audited.code == 0
    assert audited.json["person"] == ["patient_number"]
    assert audited.json["measures"]["k"]["unit"] == "persons"
    assert audited.json["measures"]["k"]["value"] >= K
    assert "different persons" in (hospital / "k.html").read_text(encoding="utf-8")


def test_repeating_patients_without_a_person_column_are_refused(hospital, run):
    call = ("anonymize", "visits.csv", "-s", "unnamed.toml", "-k", K, *QUICK)
    outcome = run(*call, "-o", "k.csv")
    assert (outcome.code, outcome.error) == (2, "schema.person_required")
    assert not (hospital / "k.csv").exists()


def test_options_override_the_schema(hospital, run):
    call = ("anonymize", "visits.csv", "-k", K, *QUICK, "--dry-run", "--json")
    named = run(*call, "-s", "unnamed.toml", "--person", "patient_number").json
    assert named["person"]["columns"] == ["patient_number"]
    assert named["person"]["cells"] == "rows"
    assert named["columns"]["patient_number"]["role"] == "person"
    together = run(*call, "-s", "visits.toml", "--person-cells", "together").json
    assert together["person"]["cells"] == "together"
    stated = run(*call, "-s", "visits.toml", "--rows-are-people").json
    assert (stated.get("person"), stated["rows_are_people"]) == (None, True)
    assert stated["columns"]["patient_number"]["role"] == "identifier"
    both = run(*call, "-s", "unnamed.toml", "--person", "name,patient_number").json
    assert both["person"]["columns"] == ["name", "patient_number"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--person", "patient_number", "--rows-are-people"), "option.conflict"),
        (("--person", " , "), "option.invalid"),
        (("--person", "nobody"), "schema.unknown_column"),
        (("--person", "sex"), "schema.duplicate_role"),
        (("--person-cells", "together"), "schema.invalid"),
    ],
)
def test_wrong_options_are_rejected(hospital, run, words, code):
    call = ("anonymize", "visits.csv", "-s", "unnamed.toml", "-k", K, *QUICK, "-o", "k.csv")
    outcome = run(*call, *words)
    assert (outcome.code, outcome.error) == (2, code)
    assert not (hospital / "k.csv").exists()


def write_config(folder, **settings):
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    path = folder / "run.toml"
    path.write_text("\n".join(["config_version = 1", *lines, ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize("person", ["patient_number", ["patient_number", "name"]])
def test_a_run_file_names_the_person_and_flags_override_it(hospital, run, person):
    settings = {"input": "visits.csv", "schema": "unnamed.toml", "k": K, "method": "mdav"}
    config = write_config(hospital, **settings, person=person, person_cells="together")
    call = ("anonymize", "--config", config, "--dry-run", "--json")
    section = run(*call).json["person"]
    expected = [person] if isinstance(person, str) else person
    assert (section["columns"], section["cells"]) == (expected, "together")
    assert run(*call, "--person-cells", "rows").json["person"]["cells"] == "rows"
    assert run(*call, "--rows-are-people").json["rows_are_people"] is True
    config = write_config(hospital, **settings, rows_are_people=True)
    assert run(*call).json["rows_are_people"] is True
    assert run(*call, "--person", "patient_number").json["person"]["count"] == 60


def test_an_audit_can_name_the_person(hospital, run):
    call = ("anonymize", "visits.csv", "-s", "unnamed.toml", "-k", K, *QUICK)
    assert run(*call, "--rows-are-people", "-o", "k.csv", "--keep-order").code == 0
    fewest = min(persons_per_class(hospital, "k.csv", mc.load_schema("unnamed.toml").keys))
    (hospital / "k.csv.manifest.json").unlink()
    call = ("audit", "visits.csv", "k.csv", "-s", "unnamed.toml", "--json")
    by_rows = run(*call).json["measures"]["k"]
    by_person = run(*call, "--person", "patient_number").json["measures"]["k"]
    assert (by_rows["unit"], by_person["unit"]) == ("records", "persons")
    assert by_rows["value"] >= K
    assert 1 <= by_person["value"] <= fewest
