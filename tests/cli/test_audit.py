"""``microcell audit``."""

import json

import polars as pl
import pytest

import microcell as mc

pytestmark = pytest.mark.usefixtures("blank_figures")

BASE = ("audit", "people.csv", "out.csv", "-s", "schema.toml")


@pytest.fixture
def released(folder, run):
    """Folder with a release of k = 5."""
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


def test_prints_the_audit(released, run):
    outcome = run(*BASE)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert "5-anonymous" in outcome.stdout
    assert "information_loss.age" in outcome.stdout
    assert "row_order" not in outcome.stdout


def test_json_output(released, run):
    outcome = run(*BASE, "--json")
    actual = json.loads(outcome.stdout)
    assert actual["measures"]["k"]["value"] == 5
    assert actual["measures"]["identifiers_left"]["value"] == 0
    assert actual["manifest"]["k"] == 5


def test_the_manifest_is_found_next_to_the_release_or_by_its_flag(released, run):
    (released / "out.csv.manifest.json").rename(released / "elsewhere.json")
    lost = json.loads(run(*BASE, "--json").stdout)
    assert "information_loss" not in lost["measures"]
    assert "manifest" not in lost
    actual = json.loads(run(*BASE, "--manifest", "elsewhere.json", "--json").stdout)
    assert 0 < actual["measures"]["information_loss"]["value"] < 1


def test_the_stored_reading_options_are_used_and_others_are_suspected(folder, run):
    schema = '[columns.age]\nrole = "quasi"\n[columns.illness]\nrole = "confidential"\n'
    (folder / "own.toml").write_text("schema_version = 1\n" + schema, encoding="utf-8")
    (folder / "own.csv").write_text(
        "age,illness\n31,flu\n32,none\n33,cold\n34,none\n", encoding="utf-8"
    )
    anonymized = run(
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
    assert anonymized.code == 0, anonymized.stderr
    alike = run("audit", "own.csv", "own_k2.csv", "-s", "own.toml", "--na", "none")
    assert (alike.code, alike.stderr) == (0, "")
    stored = run("audit", "own.csv", "own_k2.csv", "-s", "own.toml")
    assert (stored.code, stored.stderr) == (0, "")
    other = run("audit", "own.csv", "own_k2.csv", "-s", "own.toml", "--na", "x")
    assert "--na" in other.stderr


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "\xff", "null"])
def test_an_invalid_manifest_is_rejected(released, run, text):
    (released / "out.csv.manifest.json").write_bytes(text.encode("latin-1"))
    outcome = run(*BASE)
    assert outcome.code == 2
    assert "error[table.malformed]" in outcome.stderr


def test_a_missing_manifest_is_rejected(released, run):
    assert run(*BASE, "--manifest", "nowhere.json").code == 2


@pytest.mark.parametrize(
    "limits",
    [
        ("k=5",),
        ("k>=5", "information_loss<=0.9"),
        ("information_loss = 0.9",),
        ("information_loss.age<=1",),
        ("k=2.5",),
    ],
)
def test_limits_can_be_met(released, run, limits):
    outcome = run(*BASE, *(word for limit in limits for word in ("--require", limit)))
    assert (outcome.code, outcome.stderr) == (0, "")


def test_all_missed_limits_are_named(released, run):
    outcome = run(*BASE, "--require", "k=6", "--require", "information_loss<=0.00001", "--json")
    assert outcome.code == 1
    assert "error[guarantee.requirement_not_met]" in outcome.stderr
    assert {"k", "information_loss"} <= set(outcome.stderr.split())
    assert json.loads(outcome.stdout)["measures"]["k"]["value"] == 5


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("k<=5", "k>=5"),
        ("information_loss>=0.1", "information_loss<=0.1"),
        ("k", "k=5"),
        ("k=", "k=5"),
        ("=5", "k=5"),
        ("k=five", "k=5"),
        ("k=nan", "k=5"),
        ("k=inf", "k=5"),
        ("k<5", "k=5"),
        ("k==5", "k=5"),
        ("nonsense=5", "error[option.unknown]"),
    ],
)
def test_invalid_limits_are_rejected(released, run, limit, words):
    outcome = run(*BASE, "--require", limit)
    assert outcome.code == 2
    assert words in outcome.stderr


def test_two_limits_for_one_measure_are_rejected(released, run):
    assert run(*BASE, "--require", "k=5", "--require", "k=3").code == 2


def test_a_release_below_the_k_of_its_manifest_fails(released, run):
    alter(released / "out.csv", lambda rows: rows[1:])
    assert run(*BASE).error == "table.incomplete"
    stated = ("--manifest", "out.csv.manifest.json")
    outcome = run(*BASE, *stated)
    assert outcome.code == 1
    assert "error[guarantee.requirement_not_met]" in outcome.stderr
    outcome = run(*BASE, *stated, "--require", "k=4", "--json")
    assert outcome.code == 1
    # The manifest contradicts the file's digest, its number of records, and k.
    assert json.loads(outcome.stdout)["measures"]["manifest_contradictions"]["value"] == 3
    (released / "out.csv.manifest.json").unlink()
    assert run(*BASE, "--require", "k=4").code == 0


TAMPERING = {
    "a confidential value changed": lambda t: t.with_columns(
        tsh=pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("999")).otherwise("tsh")
    ),
    "a confidential column changed": lambda t: t.with_columns(tsh=pl.lit("1.0")),
    "a column deleted": lambda t: t.drop("tsh"),
    "a column added": lambda t: t.with_row_index("ssn"),
    "rows reversed": lambda t: t.reverse(),
    "a row twice": lambda t: pl.concat([t, t.tail(1)]),
}


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_is_detected(released, run, what):
    path = released / "out.csv"
    TAMPERING[what](pl.read_csv(path, infer_schema=False)).write_csv(path)
    assert run(*BASE).error == "table.incomplete"
    assert run(*BASE, "--manifest", "out.csv.manifest.json").code == 1
    (released / "out.csv.manifest.json").unlink()
    expected = 0 if what == "rows reversed" else 1  # without a manifest, any order is valid
    assert run(*BASE).code == expected


def test_a_unique_record_fails_without_a_manifest(released, run):
    (released / "out.csv.manifest.json").unlink()
    alter(released / "out.csv", lambda rows: rows[:1])
    outcome = run(*BASE)
    assert outcome.code == 1
    assert "error[guarantee.requirement_not_met]" in outcome.stderr


def test_remaining_identifiers_fail(released, run):
    outcome = run("audit", "people.csv", "people.csv", "-s", "schema.toml", "--require", "k=1")
    assert outcome.code == 1
    assert "identifiers_left" in outcome.stderr
    assert "Not fit to publish" in outcome.stdout


def test_the_report_is_written_even_if_a_limit_is_missed(released, run):
    outcome = run(*BASE, "--require", "k=6", "--report", "audit.html")
    assert outcome.code == 1
    assert "<svg" in (released / "audit.html").read_text(encoding="utf-8")
    assert "audit.html" in outcome.stderr


@pytest.mark.parametrize(
    "name", ["people.csv", "out.csv", "schema.toml", "out.csv.manifest.json", "nowhere/a.html"]
)
def test_an_invalid_report_path_is_rejected(released, run, name):
    before = {path.name: path.read_bytes() for path in released.iterdir()}
    assert run(*BASE, "--report", name).code == 2
    assert {path.name: path.read_bytes() for path in released.iterdir()} == before


def with_key(released, change=lambda table: table):
    """Write people with distinct names, and their release with the names still in it, changed."""
    people = pl.read_csv(released / "people.csv", infer_schema=False).with_row_index("row")
    people = people.with_columns(name=pl.format("{} {}", "name", "row")).drop("row")
    people.write_csv(released / "people.csv")
    table = mc.anonymize(
        released / "people.csv", released / "schema.toml", k=5, method="mdav"
    ).table
    change(table.cast(pl.String).with_columns(people["name"])).write_csv(released / "keyed.csv")


def test_a_key_matches_rows_in_any_order_and_still_counts_as_identifier(released, run):
    with_key(released, lambda table: table.reverse())
    outcome = run(
        "audit", "people.csv", "keyed.csv", "-s", "schema.toml", "--key", "name", "--json"
    )
    actual = json.loads(outcome.stdout)["measures"]
    assert 0 < actual["information_loss"]["value"] < 1
    assert actual["values_changed"]["value"] == 0
    assert outcome.code == 1
    assert "identifiers_left" in outcome.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop("name"),
        lambda table: table.with_columns(name=pl.lit("Nobody")),
        lambda table: table.with_columns(name=pl.lit(None)),
        lambda table: table.with_columns(name="Nobody " + pl.col("name")),
    ],
    ids=["absent", "repeated", "missing", "unmatched"],
)
def test_an_invalid_key_is_rejected(released, run, change):
    with_key(released, change)
    outcome = run("audit", "people.csv", "keyed.csv", "-s", "schema.toml", "--key", "name")
    assert outcome.code == 2
    assert "'name'" in outcome.stderr
    assert "Nobody" not in outcome.stderr


def test_a_population_gives_the_journalist_risk(released, run):
    actual = json.loads(run(*BASE, "--population", 100_000, "--json").stdout)["measures"]
    assert 0 < actual["journalist_worst"]["value"] < actual["prosecutor_worst"]["value"]
    assert run(*BASE, "--population", 100_000, "--require", "journalist_worst<=0.5").code == 0
    outcome = run(*BASE, "--population", 3)
    assert outcome.code == 2
    assert "population" in outcome.stderr
    assert run(*BASE, "--population", "many").code == 2


def test_reading_options_apply_to_both_tables(folder, run):
    text = (folder / "people.csv").read_text(encoding="utf-8").replace(",", "^").replace(".", ",")
    (folder / "odd.csv").write_bytes(text.replace("female", "§").encode("latin-1"))
    reading = ("--delimiter", "^", "--decimal", ",", "--encoding", "latin-1")
    anonymized = run(
        "anonymize", "odd.csv", "-s", "schema.toml", "-k", 5, "-o", "out.csv", *reading
    )
    assert anonymized.code == 0, anonymized.stderr
    outcome = run("audit", "odd.csv", "out.csv", "-s", "schema.toml", *reading, "--json")
    assert outcome.code == 0, outcome.stderr
    actual = json.loads(outcome.stdout)
    assert actual["measures"]["k"]["value"] == 5
    assert 0 < actual["measures"]["information_loss.sex"]["value"] < 1


def test_the_report_shows_which_limits_are_met(released, run):
    assert run(*BASE, "--require", "information_loss<=0.00001", "--report", "audit.html").code == 1
    page = (released / "audit.html").read_text(encoding="utf-8")
    assert "For internal use" in page
    text = run(*BASE, "--require", "information_loss<=0.00001").stdout
    assert "✓" in text
    assert "✗" in text
    assert "✓" in page
    assert "✗" in page


def test_a_report_for_the_public(released, run):
    outcome = run(*BASE, "--for", "public", "--report", "audit.html", "--json")
    assert outcome.code == 0, outcome.stderr
    actual = json.loads(outcome.stdout)
    assert actual["audience"] == "public"
    assert "seed" not in actual["manifest"]
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


@pytest.mark.parametrize(
    "name", ["people.csv", "schema.toml", "out.csv.manifest.json", "nowhere/a.pdf", "both.html"]
)
def test_an_invalid_certificate_path_is_rejected(released, run, name):
    before = {path.name: path.read_bytes() for path in released.iterdir()}
    assert run(*BASE, "--report", "both.html", "--certificate", name).code == 2
    assert {path.name: path.read_bytes() for path in released.iterdir()} == before


def test_a_target_is_predicted(folder, run):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    anonymized = run(
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
    assert anonymized.code == 0, anonymized.stderr
    outcome = run(
        "audit", "people.csv", "out.csv", "-s", "schema.toml", "--target", "tsh", "--json"
    )
    assert outcome.code == 0, outcome.stderr
    measures = json.loads(outcome.stdout)["measures"]
    assert {"task_released", "task_original", "task_baseline", "task_loss"} <= set(measures)
    wrong = run("audit", "people.csv", "out.csv", "-s", "schema.toml", "--target", "age")
    assert wrong.code == 2
    assert "quasi-identifier" in wrong.stderr
