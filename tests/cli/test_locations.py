"""``microcell locations``: serving, importing, exporting and simulating."""

import base64
import json
import os
import re
import signal
import stat
import subprocess
import sys

import pytest

from microcell.cli.locations import COMMANDS, KEY_VARIABLE, OPERATOR_VARIABLE
from tests.locations.serving import connect, scatter

SECRET = base64.b64encode(bytes(range(32))).decode()
TOKEN = "the operator of these tests"
DATABASE = ("--database", "sqlite:///places.db")


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    monkeypatch.setenv(OPERATOR_VARIABLE, TOKEN)
    rows = [f"{latitude},{longitude}" for latitude, longitude in scatter(30)]
    (tmp_path / "people.csv").write_text(
        "\n".join(["latitude,longitude", *rows, ""]), encoding="utf-8"
    )
    return tmp_path


def plain(text):
    return re.sub(r"[\s│]+", " ", text)


# -------------------------------------------------------------------------------- help


def test_the_group_is_in_the_help(run):
    assert " locations " in run("--help").stdout
    output = run("locations", "--help").stdout
    assert all(f" {name} " in output for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_summary_and_examples(run, name):
    command, examples = COMMANDS[name]
    output = plain(run("locations", name, "--help").stdout)
    assert plain(command.__doc__) in output
    assert all(plain(example) in output for example in examples)


def test_help_loads_nothing_of_the_service():
    code = (
        "import sys; from typer.testing import CliRunner; from microcell.cli import app\n"
        "for words in (['--help'], ['locations', 'serve', '--help']):\n"
        "    assert CliRunner().invoke(app, words).exit_code == 0\n"
        "heavy = {'fastapi', 'starlette', 'uvicorn', 'sqlalchemy', 'httpx', 'cryptography'}\n"
        "print(sorted((heavy | {'numpy', 'prometheus_client'}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -------------------------------------------------------------------------------- the key


def test_a_key_is_32_bytes_and_new_each_time(run):
    first, second = (run("locations", "key") for _ in range(2))
    assert first.code == 0
    assert len(base64.b64decode(first.stdout)) == 32
    assert first.stdout != second.stdout


@pytest.mark.parametrize(
    "command",
    [("serve",), ("import", "people.csv", "-o", "a.csv", "-k", 3), ("export", "-o", "a.csv")],
)
def test_a_key_is_required(people, run, monkeypatch, command):
    monkeypatch.delenv(KEY_VARIABLE)
    outcome = run("locations", *command, *DATABASE)
    assert outcome.code == 2
    assert "MICROCELL_LOCATIONS_KEY is not set" in outcome.stderr
    assert not (people / "places.db").exists()
    assert not (people / "a.csv").exists()


@pytest.mark.parametrize("key", ["x", "c2hvcnQ=", "ü", "=" * 44])
def test_an_invalid_key_is_rejected_and_not_repeated(people, run, monkeypatch, key):
    monkeypatch.setenv(KEY_VARIABLE, key)
    outcome = run("locations", "import", "people.csv", "-o", "a.csv", "-k", 3, *DATABASE)
    assert outcome.code == 2
    assert "32 random bytes" in outcome.stderr
    assert key == "x" or key not in outcome.stderr


def test_the_key_of_another_database_is_rejected(people, run, monkeypatch):
    assert run("locations", "import", "people.csv", "-o", "a.csv", "-k", 3, *DATABASE).code == 0
    monkeypatch.setenv(KEY_VARIABLE, base64.b64encode(bytes(32)).decode())
    outcome = run("locations", "export", "-o", "places.csv", *DATABASE)
    assert outcome.code == 2
    assert "another key" in outcome.stderr


# -------------------------------------------------------------------------------- import and export


def test_import_and_export(people, run):
    outcome = run(
        "locations", "import", "people.csv", "-o", "accounts.csv", "-k", 5, *DATABASE, "--json"
    )
    assert outcome.code == 0, outcome.stderr
    assert json.loads(outcome.stdout) == {"signed_up": 30, "waiting": 0, "accounts": "accounts.csv"}
    assert stat.S_IMODE((people / "accounts.csv").stat().st_mode) == 0o600
    assert "cannot be recovered" in plain(outcome.stderr)
    outcome = run("locations", "export", "-o", "places.csv", *DATABASE)
    assert outcome.code == 0, outcome.stderr
    rows = (people / "places.csv").read_text(encoding="utf-8").splitlines()[1:]
    places = [row.partition(",")[2] for row in rows]
    assert len(rows) == 30
    assert all(places.count(place) >= 5 for place in places)


def test_import_with_column_names_and_reading_options(people, run):
    (people / "other.csv").write_text("wo;hin\n41,5;2,5\n41,6;2,6\n", encoding="utf-8")
    words = ("--latitude", "wo", "--longitude", "hin", "--delimiter", ";", "--decimal", ",")
    outcome = run("locations", "import", "other.csv", "-o", "a.csv", "-k", 3, *DATABASE, *words)
    assert outcome.code == 0, outcome.stderr
    assert re.search(r"signed up\s+2", outcome.stderr)
    assert re.search(r"waiting\s+2", outcome.stderr)


def test_import_errors_name_the_row(people, run):
    (people / "people.csv").write_text(
        "latitude,longitude\n41.5,2\n91.987654,2\n", encoding="utf-8"
    )
    outcome = run("locations", "import", "people.csv", "-o", "a.csv", "-k", 3, *DATABASE)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert "row 2" in outcome.stderr
    assert "987654" not in outcome.stderr
    assert not (people / "a.csv").exists()


def test_outputs_are_overwritten_only_with_force(people, run):
    (people / "a.csv").write_text("old", encoding="utf-8")
    outcome = run("locations", "import", "people.csv", "-o", "a.csv", "-k", 3, *DATABASE)
    assert outcome.code == 2
    assert "--force" in outcome.stderr
    assert (people / "a.csv").read_text(encoding="utf-8") == "old"
    assert not (people / "places.db").exists()
    assert (
        run("locations", "import", "people.csv", "-o", "a.csv", "-k", 3, *DATABASE, "--force").code
        == 0
    )


def test_a_new_database_requires_k(people, run):
    outcome = run("locations", "import", "people.csv", "-o", "a.csv", *DATABASE)
    assert outcome.code == 2
    assert "k" in outcome.stderr


# -------------------------------------------------------------------------------- simulate


def test_a_simulation_prints_its_result(run):
    outcome = run("locations", "simulate", "--devices", 200, "-k", 10, "--days", 1)
    assert outcome.code == 0, outcome.stderr
    output = plain(outcome.stdout)
    for word in (
        "devices 200 after 1 day",
        "cells",
        "over time each history is shared by at least",
        "rebuilds",
        "km on average",
        "with MDAV",
        "distortion",
    ):
        assert word in output


def test_a_simulation_as_json(people, run):
    outcome = run(
        "locations", "simulate", "--devices", 200, "-k", 10, "--days", 1, *DATABASE, "--json"
    )
    assert outcome.code == 0, outcome.stderr
    output = json.loads(outcome.stdout)
    assert output["devices"] == 200
    assert output["smallest_shared"] >= output["k"] == 10
    assert output["distortion_ratio"] > 0
    again = run("locations", "simulate", "--devices", 200, "-k", 10, *DATABASE)
    assert again.code == 2
    assert "already contains devices" in again.stderr


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_simulation_without_cells_fails(run, words):
    outcome = run("locations", "simulate", "--devices", 5, "-k", 10, "--days", 1, *words)
    assert outcome.code != 0
    assert outcome.stdout
    assert "guarantee.too_few_records" in outcome.stderr


def test_url_and_database_cannot_be_combined(run):
    outcome = run("locations", "simulate", "--url", "http://localhost:1", *DATABASE)
    assert outcome.code == 2
    assert "cannot be combined" in outcome.stderr


def test_an_unreachable_service_is_reported(run):
    outcome = run("locations", "simulate", "--devices", 5, "--url", "http://127.0.0.1:9")
    assert outcome.code == 2
    assert "cannot be reached" in outcome.stderr


# -------------------------------------------------------------------------------- serve


class Service:
    """The command in a separate process."""

    def __init__(self, spawn, *words, **environment):
        self.process = spawn(
            "locations",
            "serve",
            "--port",
            0,
            "--rate",
            0,
            "--sign-up-rate",
            0,
            *words,
            **environment,
        )
        self.lines = []
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith("serving on "):
                break
        actual = re.search(r"http://[^/]+", self.lines[-1]) if self.lines else None
        self.url = actual.group() if actual else None

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        _, rest = self.process.communicate()
        return self.process.returncode, rest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda item: item.name)
def test_a_service_starts_responds_and_stops(people, spawn, run, number):
    service = Service(spawn, "-k", 3, *DATABASE)
    with connect(service.url) as http:
        accounts = [
            http.post("/devices", json={"latitude": a, "longitude": b}).json()
            for a, b in scatter(6)
        ]
        assert http.get("/cells").json()["devices"] == 0  # nothing is published yet
        assert (
            http.get("/status", headers={"Authorization": f"Bearer {TOKEN}"}).json()["sign_ups"]
            == 6
        )
        code, rest = service.end(number)
    assert (code, rest) == (0, "stopped\n")
    assert TOKEN not in "".join(service.lines)
    outcome = run("locations", "export", "-o", "places.csv", *DATABASE)
    assert outcome.code == 0, outcome.stderr
    assert len(accounts) == 6
    assert "6" in outcome.stderr + outcome.stdout  # they wait


def test_a_demo_needs_no_key(people, spawn):
    environment = dict.fromkeys((KEY_VARIABLE, OPERATOR_VARIABLE), "")
    service = Service(spawn, "--demo", "--log-requests", **environment)
    message = plain("".join(service.lines))
    token = re.search(r"is not set\): (\S+)", message).group(1)
    assert "the key is discarded" in message
    with connect(service.url) as http:
        status = http.get("/status", headers={"Authorization": f"Bearer {token}"}).json()
        assert status["cells"] > 50  # it is filled at once
        assert status["publications"] >= 5
        assert status["k_over_history"] >= status["k"] == 10
        assert (
            http.post(
                "/devices?at=41.987654", json={"latitude": 41.987654, "longitude": 2}
            ).status_code
            == 201
        )
    code, rest = service.end()
    assert code == 0
    assert "POST /devices 201" in rest
    assert "987654" not in rest
    assert token not in rest
    assert not list(people.glob("*.db"))


def test_a_second_service_on_a_database_is_rejected(people, spawn, run):
    service = Service(spawn, "-k", 3, *DATABASE)
    try:
        outcome = run("locations", "export", "-o", "places.csv", *DATABASE)
        assert outcome.code == 2
        assert not (people / "places.csv").exists()
    finally:
        assert service.end()[0] == 0


def test_a_port_in_use_is_reported_before_the_database_is_created(people, spawn, run):
    service = Service(spawn, "-k", 3, *DATABASE)
    try:
        outcome = run(
            "locations",
            "serve",
            "--port",
            service.url.rpartition(":")[2],
            "--database",
            "sqlite:///b.db",
        )
        assert outcome.code == 2
        assert "in use" in outcome.stderr
        assert not (people / "b.db").exists()
    finally:
        assert service.end()[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--rate", -1),
        ("--sign-up-rate", "nan"),
        ("--port", 99999),
        ("-k", 1),
        ("--share", 0),
        ("--share", 11),
        ("--reach", 0),
        ("--period", -1),
        ("--colluders", -1),
    ],
)
def test_options_out_of_range_are_rejected(people, run, words):
    assert run("locations", "serve", *DATABASE, *words).code == 2


def test_a_short_operator_token_is_rejected(people, run, monkeypatch):
    monkeypatch.setenv(OPERATOR_VARIABLE, "short")
    outcome = run("locations", "serve", *DATABASE)
    assert outcome.code == 2
    assert "operator's token" in outcome.stderr


def test_simulating_against_a_running_service(people, spawn, run):
    service = Service(spawn, "-k", 10, "--period", 1, *DATABASE)
    try:
        words = (
            "locations",
            "simulate",
            "--devices",
            60,
            "--days",
            1,
            "--url",
            service.url,
            "--json",
        )
        outcome = run(*words)
        assert outcome.code == 0, outcome.stderr
        output = json.loads(outcome.stdout)
        assert output["smallest_shared"] >= output["k"] == 10
        assert output["rebuilds"] >= 1
    finally:
        assert service.end()[0] == 0


def test_variables_are_read_from_the_environment():
    assert KEY_VARIABLE == "MICROCELL_LOCATIONS_KEY"
    assert OPERATOR_VARIABLE == "MICROCELL_LOCATIONS_OPERATOR"
    assert os.environ.get(OPERATOR_VARIABLE) != TOKEN
