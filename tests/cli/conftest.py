"""A folder with a small survey, and ways to run commands in it."""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import microcell as mc
from microcell.cli import app

Command = Callable[..., "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    code: int
    stdout: str
    stderr: str

    @property
    def error(self) -> str | None:
        """The code of the error line, such as "option.unknown"; None if there is none."""
        match = re.search(r"^error\[([a-z_.]+)\]: ", self.stderr, flags=re.MULTILINE)
        return match[1] if match else None

    @property
    def json(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.stdout)


@pytest.fixture(scope="session")
def survey_files() -> dict[str, str]:
    """The contents of people.csv and schema.toml, for 200 people."""
    people = mc.sample_survey(200)
    lines = zip(*(column.tolist() for column in people.values()), strict=True)
    rows = [",".join(map(str, line)) for line in lines]
    return {
        "people.csv": "\n".join([",".join(people), *rows, ""]),
        "schema.toml": mc.schema.schema_to_toml(mc.sample_schema()),
    }


@pytest.fixture
def folder(tmp_path, monkeypatch, survey_files) -> Path:
    """The working folder, which contains people.csv and schema.toml."""
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


def start_new(*arguments: object, **environment: str) -> "subprocess.Popen[str]":
    """Start a command in a new Python."""
    return subprocess.Popen(
        [sys.executable, "-m", "microcell", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=os.environ | environment,
    )


@pytest.fixture
def spawn() -> Callable[..., Any]:
    """Start a command in a separate process."""
    if sys.platform == "win32":
        return start_new
    return importlib.import_module("tests.processes").start_command


@pytest.fixture
def run_alone(spawn) -> Command:
    """Run a command to its end in a separate process."""

    def invoke(*arguments: object, **environment: str) -> Outcome:
        process = spawn(*arguments, **environment)
        stdout, stderr = process.communicate(timeout=300)
        return Outcome(process.returncode, stdout, stderr)

    return invoke
