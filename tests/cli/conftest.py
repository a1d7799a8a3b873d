"""A folder with a small survey, and a way to run commands in it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

import microcell as mc
from microcell.cli import app

Command = Callable[..., "Outcome"]


@dataclass(frozen=True)
class Outcome:
    code: int
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def survey_files(tmp_path_factory) -> dict[str, str]:
    """The texts of people.csv and schema.toml, for 200 people."""
    people = mc.sample_survey(200)
    lines = zip(*(column.tolist() for column in people.values()), strict=True)
    rows = [",".join(map(str, line)) for line in lines]
    return {
        "people.csv": "\n".join([",".join(people), *rows, ""]),
        "schema.toml": mc.schema.schema_to_toml(mc.sample_schema()),
    }


@pytest.fixture
def folder(tmp_path, monkeypatch, survey_files) -> Path:
    """The working folder, with people.csv and schema.toml in it."""
    monkeypatch.chdir(tmp_path)
    for name, text in survey_files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run() -> Command:
    """Run a command in this process."""

    def invoke(*arguments: object) -> Outcome:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture
def spawn() -> Callable[..., "subprocess.Popen[str]"]:
    """Start a command in a process of its own."""

    def start(*arguments: object, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "microcell", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | environment,
            # A process started in the background ignores Ctrl-C; these must not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )

    return start


@pytest.fixture
def run_alone(spawn) -> Command:
    """Run a command in a process of its own, to its end."""

    def invoke(*arguments: object, **environment: str) -> Outcome:
        process = spawn(*arguments, **environment)
        stdout, stderr = process.communicate(timeout=300)
        return Outcome(process.returncode, stdout, stderr)

    return invoke
