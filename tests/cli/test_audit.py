"""``microcell audit``."""

import json

import polars as pl
import pytest

import microcell as mc

BASE = ("audit", "people.csv", "out.csv", "-s", "schema.toml")


@pytest.fixture
def released(folder, run):
    """The folder, with a release of k = 5 in it."""
    assert (
        run(
            "anonymize",
            "people.csv",
            "-s",
            "schema.toml",
            "-k",
            5,
            "--method",
            "mdav",
            "-o",
            "out.csv",
        ).code
        == 0
    )
    return folder


def alter(path, change):
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([lines[0], *change(lines[1:])]) + "\n", encoding="utf-8")


def test_prints_what_it_finds(released, run):
    outcome = run(*BASE)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert "5-anonymous" in outcome.stdout
    assert "distortion.age" in outcome.stdout
    assert "row_order" not in outcome.stdout


def test_json_of_the_audit(released, run):
    outcome = run(*BASE, "--json")
    found = json.loads(outcome.stdout)
    assert found["measures"]["k"]["value"] == 5
    assert found["measures"]["identifiers_left"]["value"] == 0
    assert found["manifest"]["k"] == 5


def test_finds_the_manifest_beside_the_release_or_where_it_is_said_to_be(released, run):
    (released / "out.csv.manifest.json").rename(released / "elsewhere.json")
    lost = json.loads(run(*BASE, "--json").stdout)
    assert "distortion" not in lost["measures"]
    assert "manifest" not in lost
    found = json.loads(run(*BASE, "--manifest", "elsewhere.json", "--json").stdout)
    assert 0 < found["measures"]["distortion"]["value"] < 1


def test_an_original_that_was_read_otherwise_is_hinted_at(folder, run):
    schema = '[columns.age]\nrole = "quasi"\n[columns.illness]\nrole = "confidential"\n'
    (folder / "own.toml").write_text("schema_version = 1\n" + schema, encoding="utf-8")
    (folder / "own.csv").write_text(
        "age,illness\n31,flu\n32,none\n33,cold\n34,none\n", encoding="utf-8"
    )
    made = run(
        "anonymize",
        "own.csv",
        "-s",
        "own.toml",
        "-k",
        2,
        "--na",
        "none",
        "--keep-order",
        "-o",
        "own_k2.csv",
    )
    assert made.code == 0, made.stderr
    alike = run("audit", "own.csv", "own_k2.csv", "-s", "own.toml", "--na", "none")
    assert (alike.code, alike.stderr) == (0, "")
    assert "--na" in run("audit", "own.csv", "own_k2.csv", "-s", "own.toml").stderr


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "\xff", "null"])
def test_a_manifest_that_is_none_is_refused(released, run, text):
    (released / "out.csv.manifest.json").write_bytes(text.encode("latin-1"))
    outcome = run(*BASE)
    assert outcome.code == 2
    assert "not a manifest" in outcome.stderr


def test_a_manifest_that_is_not_there_is_refused(released, run):
    assert run(*BASE, "--manifest", "nowhere.json").code == 2


@pytest.mark.parametrize(
    "limits",
    [
        ("k=5",),
        ("k>=5", "distortion<=0.9"),
        ("distortion = 0.9",),
        ("distortion.age<=1",),
        ("k=2.5",),
    ],
)
def test_limits_that_are_met(released, run, limits):
    outcome = run(*BASE, *(word for limit in limits for word in ("--require", limit)))
    assert (outcome.code, outcome.stderr) == (0, "")


def test_limits_that_are_missed_are_all_named(released, run):
    outcome = run(*BASE, "--require", "k=6", "--require", "distortion<=0.00001", "--json")
    assert outcome.code == 1
    assert "k is 5, required at least 6" in outcome.stderr
    assert "distortion is" in outcome.stderr
    assert json.loads(outcome.stdout)["measures"]["k"]["value"] == 5


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("k<=5", "k>=5"),
        ("distortion>=0.1", "distortion<=0.1"),
        ("k", "k=5"),
        ("k=", "k=5"),
        ("=5", "k=5"),
        ("k=five", "k=5"),
        ("k=nan", "k=5"),
        ("k=inf", "k=5"),
        ("k<5", "k=5"),
        ("k==5", "k=5"),
        ("nonsense=5", "distortion"),
    ],
)
def test_limits_that_make_no_sense_are_wrong_use(released, run, limit, words):
    outcome = run(*BASE, "--require", limit)
    assert outcome.code == 2
    assert words in outcome.stderr


def test_two_limits_for_one_measure_are_wrong_use(released, run):
    assert run(*BASE, "--require", "k=5", "--require", "k=3").code == 2


def test_a_release_that_breaks_its_promise_fails(released, run):
    alter(released / "out.csv", lambda rows: rows[1:])
    outcome = run(*BASE)
    assert outcome.code == 1
    assert "k is 4, required at least 5" in outcome.stderr
    outcome = run(*BASE, "--require", "k=4")
    assert outcome.code == 1
    assert (
        "manifest_contradictions is 3" in outcome.stderr
    )  # the file, the number of its records, and k
    (released / "out.csv.manifest.json").unlink()
    assert run(*BASE, "--require", "k=4").code == 0


TAMPERING = {
    "a confidential value changed": lambda t: t.with_columns(
        tsh=pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("999")).otherwise("tsh")
    ),
    "a confidential column changed": lambda t: t.with_columns(tsh=pl.lit("1.0")),
    "a column deleted": lambda t: t.drop("tsh"),
    "a column added": lambda t: t.with_row_index("ssn"),
    "rows turned round": lambda t: t.reverse(),
    "a row twice": lambda t: pl.concat([t, t.tail(1)]),
}


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_fails(released, run, what):
    path = released / "out.csv"
    TAMPERING[what](pl.read_csv(path, infer_schema=False)).write_csv(path)
    assert run(*BASE).code == 1
    (released / "out.csv.manifest.json").unlink()
    expected = 0 if what == "rows turned round" else 1  # without a manifest any order is as good
    assert run(*BASE).code == expected


def test_a_record_alone_fails_without_a_manifest_too(released, run):
    (released / "out.csv.manifest.json").unlink()
    alter(released / "out.csv", lambda rows: rows[:1])
    outcome = run(*BASE)
    assert outcome.code == 1
    assert "required at least 2" in outcome.stderr


def test_identifiers_left_fail(released, run):
    outcome = run("audit", "people.csv", "people.csv", "-s", "schema.toml", "--require", "k=1")
    assert outcome.code == 1
    assert "identifiers_left" in outcome.stderr
    assert "Not fit to publish" in outcome.stdout


def test_the_report_is_written_also_when_a_limit_is_missed(released, run):
    outcome = run(*BASE, "--require", "k=6", "--report", "audit.html")
    assert outcome.code == 1
    assert "<svg" in (released / "audit.html").read_text(encoding="utf-8")
    assert "audit.html" in outcome.stderr


@pytest.mark.parametrize(
    "name", ["people.csv", "out.csv", "schema.toml", "out.csv.manifest.json", "nowhere/a.html"]
)
def test_a_report_that_cannot_be_written_is_refused(released, run, name):
    before = {path.name: path.read_bytes() for path in released.iterdir()}
    assert run(*BASE, "--report", name).code == 2
    assert {path.name: path.read_bytes() for path in released.iterdir()} == before


def with_key(released, change=lambda table: table):
    """People with different names, and their release as it is before these are removed, but for the change."""
    people = pl.read_csv(released / "people.csv", infer_schema=False).with_row_index("row")
    people = people.with_columns(name=pl.format("{} {}", "name", "row")).drop("row")
    people.write_csv(released / "people.csv")
    table = mc.anonymize(
        released / "people.csv", released / "schema.toml", k=5, method="mdav"
    ).table
    change(table.cast(pl.String).with_columns(people["name"])).write_csv(released / "keyed.csv")


def test_a_key_matches_rows_in_any_order_and_is_an_identifier_all_the_same(released, run):
    with_key(released, lambda table: table.reverse())
    outcome = run(
        "audit", "people.csv", "keyed.csv", "-s", "schema.toml", "--key", "name", "--json"
    )
    found = json.loads(outcome.stdout)["measures"]
    assert 0 < found["distortion"]["value"] < 1
    assert found["values_changed"]["value"] == 0
    assert outcome.code == 1
    assert "identifiers_left is 1" in outcome.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.drop("name"), "no column 'name'"),
        (
            lambda table: table.with_columns(name=pl.lit("Nobody")),
            "repeats the value of an earlier row",
        ),
        (lambda table: table.with_columns(name=pl.lit(None)), "missing"),
        (
            lambda table: table.with_columns(name="Nobody " + pl.col("name")),
            "original does not have",
        ),
    ],
)
def test_a_key_that_does_not_match_is_wrong_use(released, run, change, words):
    with_key(released, change)
    outcome = run("audit", "people.csv", "keyed.csv", "-s", "schema.toml", "--key", "name")
    assert outcome.code == 2
    assert words in outcome.stderr
    assert "Nobody" not in outcome.stderr


def test_a_population_tells_of_journalists(released, run):
    found = json.loads(run(*BASE, "--population", 100_000, "--json").stdout)["measures"]
    assert 0 < found["journalist_worst"]["value"] < found["prosecutor_worst"]["value"]
    assert run(*BASE, "--population", 100_000, "--require", "journalist_worst<=0.5").code == 0
    outcome = run(*BASE, "--population", 3)
    assert outcome.code == 2
    assert "population" in outcome.stderr
    assert run(*BASE, "--population", "many").code == 2


def test_reading_options_are_for_both_tables_as_they_were_written(folder, run):
    text = (folder / "people.csv").read_text(encoding="utf-8").replace(",", "^").replace(".", ",")
    (folder / "odd.csv").write_bytes(text.replace("female", "§").encode("latin-1"))
    reading = ("--delimiter", "^", "--decimal", ",", "--encoding", "latin-1")
    made = run("anonymize", "odd.csv", "-s", "schema.toml", "-k", 5, "-o", "out.csv", *reading)
    assert made.code == 0, made.stderr
    outcome = run("audit", "odd.csv", "out.csv", "-s", "schema.toml", *reading, "--json")
    assert outcome.code == 0, outcome.stderr
    found = json.loads(outcome.stdout)
    assert found["measures"]["k"]["value"] == 5
    assert 0 < found["measures"]["distortion.sex"]["value"] < 1


def test_the_report_has_the_verdict_on_the_limits_and_the_promise(released, run):
    assert run(*BASE, "--require", "distortion<=0.00001", "--report", "audit.html").code == 1
    page = (released / "audit.html").read_text(encoding="utf-8")
    assert "1 of 2 requirements is not met." in page
    assert "For internal use" in page
    text = run(*BASE, "--require", "distortion<=0.00001").stdout
    assert "✓  k  " in text
    assert "✗  Information loss" in text


def test_a_report_for_the_public(released, run):
    outcome = run(*BASE, "--for", "public", "--report", "audit.html", "--json")
    assert outcome.code == 0, outcome.stderr
    found = json.loads(outcome.stdout)
    assert found["audience"] == "public"
    assert "seed" not in found["manifest"]
    page = (released / "audit.html").read_text(encoding="utf-8")
    assert "internal use" not in page
    assert "SHA-256 of the original" not in page
    assert "SHA-256 of the original" in run(*BASE).stdout
    assert "SHA-256 of the original" not in run(*BASE, "--for", "public").stdout
    assert run(*BASE, "--for", "press").code == 2


def test_a_certificate(released, run):
    outcome = run(*BASE, "--certificate", "audit.pdf", "--report", "audit.html")
    assert outcome.code == 0
    assert "audit.pdf" in outcome.stderr
    assert (released / "audit.pdf").read_bytes().startswith(b"%PDF")
    assert (released / "audit.html").exists()
    assert not list(released.glob(".*partial*"))


def test_a_certificate_is_written_also_when_a_limit_is_missed(released, run):
    assert run(*BASE, "--require", "k=6", "--certificate", "audit.pdf").code == 1
    assert (released / "audit.pdf").exists()


@pytest.mark.parametrize(
    "name", ["people.csv", "schema.toml", "out.csv.manifest.json", "nowhere/a.pdf", "both.html"]
)
def test_a_certificate_that_cannot_be_written_is_refused(released, run, name):
    before = {path.name: path.read_bytes() for path in released.iterdir()}
    assert run(*BASE, "--report", "both.html", "--certificate", name).code == 2
    assert {path.name: path.read_bytes() for path in released.iterdir()} == before


def test_a_task_is_learned_where_a_target_is_named(folder, run):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    made = run(
        "anonymize",
        "people.csv",
        "-s",
        "schema.toml",
        "-k",
        "5",
        "--method",
        "mdav",
        "-o",
        "out.csv",
    )
    assert made.code == 0, made.stderr
    outcome = run(
        "audit", "people.csv", "out.csv", "-s", "schema.toml", "--target", "tsh", "--json"
    )
    assert outcome.code == 0, outcome.stderr
    measures = json.loads(outcome.stdout)["measures"]
    assert {"task_released", "task_original", "task_baseline", "task_loss"} <= set(measures)
    wrong = run("audit", "people.csv", "out.csv", "-s", "schema.toml", "--target", "age")
    assert wrong.code == 2
    assert "quasi-identifier" in wrong.stderr
