"""``microcell methods``, ``microcell example`` and ``microcell compile``."""

import microcell as mc

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


def test_compile_runs_every_method(run, monkeypatch):
    used = []
    kinds = []
    original = mc.anonymize

    def spy(*arguments, **options):
        release = original(*arguments, **options)
        used.append(release.manifest.method.used)
        kinds.extend([options["cells"]] if "cells" in options else [])
        return release

    monkeypatch.setattr(mc, "anonymize", spy)
    outcome = run("compile", "--json")
    assert outcome.code == 0
    assert used[: len(mc.methods.METHODS)] == list(mc.methods.METHODS) == outcome.json["methods"]
    assert kinds == ["power", "balls"]


def test_kernels_are_compiled_once_per_machine(folder, run_alone):
    cache = {"NUMBA_CACHE_DIR": str(folder / "cache")}
    first = run_alone("compile", **cache)
    assert first.code == 0
    assert first.stderr.count(NOTICE) == 1
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
            **cache,
        )
        assert later.code == 0
        assert NOTICE not in later.stderr
    # Compilation in threads is not reported, so compare the cached files.
    files = set((folder / "cache").rglob("*.nbc"))
    assert (
        run_alone(
            "explore", "people.csv", "-s", "schema.toml", "-k", 3, "--effort", "fast", **cache
        ).code
        == 0
    )
    assert set((folder / "cache").rglob("*.nbc")) == files
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
        later = run_alone(*base, "--cells", "cells.json", "--cells-kind", kind, **cache)
        assert later.code == 0
        assert NOTICE not in later.stderr
        assert (
            NOTICE
            not in run_alone("assign", "cells.json", "people.csv", "-o", "a.csv", **cache).stderr
        )
