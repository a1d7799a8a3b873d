"""``microcell methods``, ``microcell example`` and ``microcell compile``."""

import json

import microcell as mc


def test_methods_tells_the_facts_of_all(run):
    outcome = run("methods")
    assert outcome.code == 0
    for method in mc.methods.METHODS.values():
        assert method.name in outcome.stdout
        assert method.source in outcome.stdout
    assert "gamma=0.2" in outcome.stdout


def test_methods_as_json(run):
    outcome = run("methods", "--json")
    listed = {item["name"]: item for item in json.loads(outcome.stdout)}
    assert set(listed) == set(mc.methods.METHODS)
    assert listed["vmdav"]["options"] == {"gamma": 0.2}
    assert listed["univariate"]["dimensions"] == "1"


def test_example_writes_the_survey_and_its_schema(tmp_path, run):
    outcome = run("example", "-o", tmp_path / "new" / "trial", "--json")
    named = json.loads(outcome.stdout)
    assert mc.read(named["table"]).rows == 2000
    assert mc.load_schema(named["schema"]) == mc.sample_schema()
    assert sorted(path.name for path in (tmp_path / "new" / "trial").iterdir()) == [
        "people.csv",
        "schema.toml",
    ]


def test_example_keeps_what_is_there_unless_forced(tmp_path, run):
    (tmp_path / "schema.toml").write_text("mine", encoding="utf-8")
    outcome = run("example", "-o", tmp_path)
    assert outcome.code == 2
    assert "--force" in outcome.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["schema.toml"]
    assert (tmp_path / "schema.toml").read_text(encoding="utf-8") == "mine"
    assert run("example", "-o", tmp_path, "--force", "-q").code == 0
    assert mc.load_schema(tmp_path / "schema.toml") == mc.sample_schema()


def test_example_refuses_a_file_for_a_folder(tmp_path, run):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert run("example", "-o", tmp_path / "file").code == 2


def test_compile_runs_every_method(run, monkeypatch):
    used, kinds = [], []
    original = mc.anonymize

    def spy(*arguments, **options):
        release = original(*arguments, **options)
        used.append(release.manifest.method.used)
        kinds.extend([options["cells"]] if "cells" in options else [])
        return release

    monkeypatch.setattr(mc, "anonymize", spy)
    outcome = run("compile", "--json")
    assert outcome.code == 0
    assert (
        used[: len(mc.methods.METHODS)]
        == list(mc.methods.METHODS)
        == json.loads(outcome.stdout)["methods"]
    )
    assert kinds == ["power", "balls"]


def test_compiling_is_told_at_once_and_only_once_on_a_machine(folder, run_alone):
    kept = {"NUMBA_CACHE_DIR": str(folder / "kept")}
    first = run_alone("compile", **kept)
    assert first.code == 0
    assert first.stderr.splitlines().count("compiling kernels (once on this machine) ...") == 1
    for method in mc.methods.METHODS:
        schema = "line.toml" if mc.methods.METHODS[method].dimensions == "1" else "schema.toml"
        (folder / "line.toml").write_text(
            'schema_version = 1\nrest = "drop"\ncolumns.age.role = "quasi"\n'
        )
        later = run_alone(
            "anonymize",
            "people.csv",
            "-s",
            schema,
            "-k",
            3,
            "--method",
            method,
            "--dry-run",
            **kept,
        )
        assert later.code == 0
        assert "compiling kernels" not in later.stderr
    # What threads compile nobody hears of, so that files tell.
    files = set((folder / "kept").rglob("*.nbc"))
    assert (
        run_alone(
            "explore", "people.csv", "-s", "schema.toml", "-k", 3, "--effort", "fast", **kept
        ).code
        == 0
    )
    assert set((folder / "kept").rglob("*.nbc")) == files
    base = (
        "anonymize",
        "people.csv",
        "-s",
        "schema.toml",
        "-k",
        3,
        "--method",
        "mdav",
        "-o",
        "out.csv",
    )
    for kind in ("power", "balls"):
        later = run_alone(*base, "--cells", "cells.json", "--cells-kind", kind, **kept)
        assert later.code == 0
        assert "compiling kernels" not in later.stderr
        assert (
            "compiling kernels"
            not in run_alone("assign", "cells.json", "people.csv", "-o", "a.csv", **kept).stderr
        )
