"""``microcell risk``."""


def test_json_and_page(folder, run, blank_figures):
    outcome = run(
        "risk", "people.csv", "-s", "schema.toml", "--population", "800",
        "--report", "risk.html", "--json", "--list", "3",
    )  # fmt: skip
    assert outcome.code == 0
    assert outcome.json["rows"] == 200
    assert len(outcome.json["records"]) == 3
    assert outcome.json["population"]["size"] == 800
    page = (folder / "risk.html").read_text(encoding="utf-8")
    assert "<h1>Risk of people.csv</h1>" in page


def test_without_a_schema_the_roles_are_drafted(folder, run):
    outcome = run("risk", "people.csv")
    assert outcome.code == 0
    assert "roles of the columns were guessed" in " ".join(outcome.stdout.split())


def test_strict(folder, run):
    outcome = run("risk", "people.csv", "-s", "schema.toml", "--strict", "-q")
    assert (outcome.code, outcome.error) == (1, "guarantee.findings")


def test_the_report_must_not_replace_the_table(folder, run):
    before = (folder / "people.csv").read_bytes()
    assert run("risk", "people.csv", "--report", "people.csv").code == 2
    assert (folder / "people.csv").read_bytes() == before
