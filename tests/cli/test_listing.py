"""``microcell methods``, ``microcell example``, ``microcell demo`` and ``microcell compile``."""

from pathlib import Path

import microcell as mc
from microcell.kernels import _build

NOTICE = "Compiling kernels"


def test_methods_lists_every_method(run):
    outcome = run("methods")
    assert outcome.code == 0
    for method in mc.methods.METHODS.values():
        assert method.name in outcome.stdout
        assert method.source in outcome.stdout
    assert "gamma=0.2" in outcome.stdout


def test_methods_as_json(run):
    listed = {item["name"]: item for item in run("methods", "--json").json}
    assert set(listed) == set(mc.methods.METHODS)
    assert listed["vmdav"]["options"] == {"gamma": 0.2}
    assert listed["univariate"]["dimensions"] == "1"


def test_example_writes_the_survey_and_its_schema(tmp_path, run):
    paths = run("example", "-o", tmp_path / "new" / "trial", "--json").json
    assert mc.read(paths["table"]).rows == 2000
    assert mc.load_schema(paths["schema"]) == mc.sample_schema()
    assert sorted(path.name for path in (tmp_path / "new" / "trial").iterdir()) == [
        "people.csv",
        "schema.toml",
    ]


def test_example_writes_the_visits_and_their_schema(tmp_path, run):
    paths = run("example", "--table", "visits", "--records", 50, "-o", tmp_path, "--json").json
    visits = mc.sample_visits(50)
    table = mc.read(paths["table"])
    assert (Path(paths["table"]).name, table.rows) == ("visits.csv", len(visits["cost"]))
    assert {name: values.storage for name, values in table.columns.items()} == {
        **dict.fromkeys(("patient_number", "name", "sex", "postal_code", "ward", "icd10"), "text"),
        **dict.fromkeys(("birth_date", "admission", "discharge"), "date"),
        "cost": "float",
    }
    assert mc.load_schema(paths["schema"]) == mc.sample_schema("visits")


def test_example_overwrites_files_only_with_force(tmp_path, run):
    (tmp_path / "schema.toml").write_text("mine", encoding="utf-8")
    outcome = run("example", "-o", tmp_path)
    assert (outcome.code, outcome.error) == (2, "table.exists")
    assert [path.name for path in tmp_path.iterdir()] == ["schema.toml"]
    assert (tmp_path / "schema.toml").read_text(encoding="utf-8") == "mine"
    assert run("example", "-o", tmp_path, "--force", "-q").code == 0
    assert mc.load_schema(tmp_path / "schema.toml") == mc.sample_schema()


def test_example_rejects_a_file_as_folder(tmp_path, run):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert run("example", "-o", tmp_path / "file").code == 2


def test_compile_reports_the_kernels_it_compiled(run, monkeypatch):
    compiled = []
    monkeypatch.setattr(_build, "compile_here", lambda lines, _: compiled.extend(lines) or lines)
    outcome = run("compile", "--json", "--essential")
    assert outcome.code == 0
    assert compiled == _build.read_signatures(_build.ESSENTIAL)
    assert outcome.json["kernels"] == outcome.json["compiled"] == len(compiled)


def test_kernels_are_compiled_once_per_machine(tmp_path, run, monkeypatch):
    """tests/kernels/test_shipping.py checks that the listed kernels are all that commands use."""
    line = "univariate.best_cuts(float64[::1], float64[::1], int64)"
    monkeypatch.setattr(_build, "read_signatures", lambda _: [line])
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first = run("compile", "--json")
    assert first.json["compiled"] == 1
    assert first.stderr.count(NOTICE) == 1
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}
    assert files
    assert run("compile").code == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")} == files


def test_demo_publishes_a_table_that_reveals_nobody(tmp_path, run, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    folder = tmp_path / "trial"
    facts = run("demo", "-o", folder, "--records", 200, "--json", "--open").json
    assert facts["k"] >= 5
    assert facts["revealed"] == 0 < facts["revealed_without_requirement"]
    assert facts["information_loss"] > facts["information_loss_without_requirement"]
    files = facts["files"]
    audit = mc.audit(files["original"], files["published"], files["schema"])
    assert audit.require(k=5, l_diversity=2, homogeneous_records=0)
    assert mc.find_manifest(None, files["published"]).limits == {"l_diversity": 2}
    assert opened == [(folder / "people_k5.html").resolve().as_uri()]
    assert (folder / "people_k5.html").exists()


def test_demo_overwrites_files_only_with_force(tmp_path, run):
    (tmp_path / "people_k5.csv").write_text("mine", encoding="utf-8")
    outcome = run("demo", "-o", tmp_path)
    assert (outcome.code, outcome.error) == (2, "table.exists")
    assert [path.name for path in tmp_path.iterdir()] == ["people_k5.csv"]


def test_demo_names_the_report_if_there_is_no_browser(tmp_path, run, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    monkeypatch.chdir(tmp_path)  # a short path, which is not wrapped
    outcome = run("demo", "-o", "trial", "--records", 60, "--open")
    assert outcome.code == 0
    assert str(Path("trial", "people_k5.html")) in outcome.stderr
