"""The command line as a whole: help, version, streams, exit codes."""

import errno
import json
import re
import shlex
import subprocess
import sys

import pytest

import microcell as mc
from microcell.cli import commands
from microcell.errors import (
    DataError,
    GuaranteeError,
    OptionError,
    RequirementError,
    SchemaError,
    TableError,
    TooFewRecordsError,
)

NAMES = ("example", "inspect", "anonymize", "audit", "methods", "compile", "compare")
OTHERS = ("allocate", "assign", "draw")
"""Their examples need other tables than the bundled survey, and run in tests of their own."""

COMMANDS = {command.__name__: command for command in commands._COMMANDS}
EXAMPLES = {command.__name__: examples for command, examples in commands._COMMANDS.items()}
ANSI = "\x1b["


def plain(help_text):
    return re.sub(r"[\s│]+", " ", help_text)


def test_version_is_the_packages(run):
    outcome = run("--version")
    assert (outcome.code, outcome.stdout, outcome.stderr) == (
        0,
        f"microcell {mc.__version__}\n",
        "",
    )


def test_help_names_every_command(run):
    outcome = run("--help")
    assert outcome.code == 0
    assert all(f" {name} " in outcome.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_help_of_a_command_has_summary_examples_and_json(run, name):
    outcome = run(name, "--help")
    told = plain(outcome.stdout)
    summary = COMMANDS[name].__doc__
    assert outcome.code == 0
    assert "\n" not in summary
    assert plain(summary) in told
    assert "--json" in told or name == "draw"  # whose data are the figure
    assert "--quiet" in told
    for line in EXAMPLES[name]:
        assert plain(line) in told


def test_examples_of_all_commands_run_in_their_order(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        for line in EXAMPLES[name]:
            program, *arguments = shlex.split(line)
            assert program == "microcell"
            if (
                "--engine" in arguments
            ):  # tests/cli/test_anonymize_engine.py runs those, on files of its own
                continue
            outcome = run(*arguments)
            assert outcome.code == 0, (line, outcome.stderr)
    made = {
        "people_k5.csv",
        "people_k5.csv.manifest.json",
        "people_k3.parquet.manifest.json",
        "people_k5.html",
        "people_k3.parquet",
        "audit.html",
        "trial",
    }
    assert made <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    "arguments", [(), ("nonsense",), ("inspect",), ("methods", "--nonsense"), ("audit", "a.csv")]
)
def test_wrong_use_exits_with_2(run, arguments):
    assert run(*arguments).code == 2


def test_help_loads_no_heavy_package():
    code = (
        "import sys; from typer.testing import CliRunner; from microcell.cli import app\n"
        "for words in (['--help'], ['anonymize', '--help']): assert CliRunner().invoke(app, words).exit_code == 0\n"
        "print(sorted({'numba', 'numpy', 'scipy', 'polars', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


ENDINGS = [
    (OptionError("wrong option"), 2, "error: wrong option\n"),
    (SchemaError("[columns.age] wrong"), 2, "error: [columns.age] wrong\n"),
    (TableError("no table"), 2, "error: no table\n"),
    (DataError("odd data"), 2, "error: odd data\n"),
    (GuaranteeError("no guarantee"), 1, "error: no guarantee\n"),
    (TooFewRecordsError("few"), 1, "error: few\n"),
    (RequirementError("missed"), 1, "error: missed\n"),
    (
        OSError(errno.ENOSPC, "No space left on device", "x.csv"),
        2,
        "error: No space left on device: x.csv. ",
    ),
    (PermissionError(errno.EACCES, "Permission denied"), 2, "error: Permission denied. "),
    (OSError("quoted value"), 2, "error: OSError. "),
    (MemoryError(), 2, "error: not enough memory"),
    (KeyboardInterrupt(), 130, "interrupted; nothing was written\n"),
    (ValueError("quoted value"), 70, "error: this is a defect of microcell (ValueError)"),
    (BaseException("quoted value"), 70, "error: this is a defect of microcell (BaseException)"),
]


@pytest.mark.parametrize(("error", "code", "line"), ENDINGS, ids=lambda item: type(item).__name__)
def test_every_exception_ends_in_one_line_and_its_code(run, monkeypatch, error, code, line):
    def fail(*_, **__):
        raise error

    monkeypatch.delenv("MICROCELL_DEBUG", raising=False)
    monkeypatch.setattr(mc, "read", fail)
    outcome = run("inspect", "people.csv")
    assert (outcome.code, outcome.stdout) == (code, "")
    assert outcome.stderr.startswith(line)
    assert outcome.stderr.count("\n") == 1
    assert "quoted value" not in outcome.stderr


def test_debugging_shows_the_traceback(run, monkeypatch):
    def fail(*_, **__):
        raise ValueError("details")

    monkeypatch.setenv("MICROCELL_DEBUG", "1")
    monkeypatch.setattr(mc, "read", fail)
    outcome = run("inspect", "people.csv")
    assert outcome.code == 70
    assert "Traceback" in outcome.stderr
    assert "details" in outcome.stderr


def test_words_go_to_stderr_and_data_to_stdout(folder, run_alone):
    made = run_alone(
        "anonymize", "people.csv", "-s", "schema.toml", "-k", 4, "-o", "out.csv", "--json"
    )
    assert made.code == 0, made.stderr
    assert json.loads(made.stdout)["k"] == 4
    assert "4-anonymous" in made.stderr
    found = run_alone("audit", "people.csv", "out.csv", "-s", "schema.toml")
    assert found.code == 0
    assert found.stdout.startswith("Audit of out.csv\n")
    assert found.stderr == ""


def test_plain_text_where_there_is_no_terminal(folder, run_alone):
    for arguments in (("inspect", "people.csv"), ("methods",)):
        outcome = run_alone(*arguments)
        assert outcome.code == 0
        assert ANSI not in outcome.stdout + outcome.stderr
        assert max(map(len, outcome.stdout.splitlines())) <= 100
        assert not re.search("[─│━┃╭╰]", outcome.stdout)


@pytest.mark.parametrize("arguments", [("methods", "--json"), ("inspect", "people.csv", "--json")])
def test_json_in_a_locale_without_letters_is_still_json(folder, run_alone, arguments):
    (folder / "people.csv").write_text("größe,名前\n1,x\n2,y\n", encoding="utf-8")
    outcome = run_alone(*arguments, PYTHONIOENCODING="ascii")
    assert outcome.code == 0
    json.loads(outcome.stdout)


def test_names_that_the_terminal_lacks_do_not_end_the_run(folder, run_alone):
    (folder / "people.csv").write_text("größe,名前\n1,x\n2,y\n", encoding="utf-8")
    outcome = run_alone("inspect", "people.csv", PYTHONIOENCODING="ascii")
    assert outcome.code == 0
    assert "defect" not in outcome.stderr


def test_a_reader_that_goes_away_is_no_defect(folder, spawn):
    process = spawn("inspect", "people.csv")
    process.stdout.close()
    process.stdout = None
    _, stderr = process.communicate(timeout=120)
    assert (process.returncode, stderr) == (141, "")


def test_what_compiled_libraries_print_is_no_output_of_ours():
    code = (
        "import os, sys, microcell.cli.console as console; console.keep_stdout_ours(); os.write(1, b'noise');"
        "console.print_data('data'); print('more')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("data\nmore\n", "")


@pytest.mark.parametrize("gone", ["sys.stdout = None", "sys.stdout = io.StringIO()", "os.close(1)"])
def test_no_stdout_is_left_as_it_is(gone):
    code = (
        f"import io, os, sys, microcell.cli.console as console; {gone}; before = sys.stdout;"
        "console.keep_stdout_ours(); sys.stderr.write(f'{sys.stdout is before}'); os.write(1, b'still there')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if "close" in gone:
        assert done.stderr.startswith("True")
        assert "Bad file descriptor" in done.stderr
    else:
        assert (done.returncode, done.stdout, done.stderr) == (0, "still there", "True")
