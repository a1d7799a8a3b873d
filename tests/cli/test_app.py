"""The command line as a whole: help, version, streams, errors, exit codes."""

import errno
import json
import re
import shlex
import subprocess
import sys

import pytest

import microcell as mc
from microcell.cli.commands import COMMANDS
from microcell.errors import (
    CODES,
    DataError,
    GuaranteeError,
    OptionError,
    RequirementError,
    SchemaError,
    TableError,
    TooFewRecordsError,
)

EXAMPLES = {command.__name__: examples for command, examples in COMMANDS.items()}
RUN_IN_ORDER = ("example", "inspect", "anonymize", "audit", "methods")
"""The other commands need other tables; their own tests run their examples."""

ANSI = "\x1b["


def plain(help_text):
    return re.sub(r"[\s│]+", " ", help_text)


def test_version_matches_the_package(run):
    outcome = run("--version")
    expected = (0, f"microcell {mc.__version__}\n", "")
    assert (outcome.code, outcome.stdout, outcome.stderr) == expected


def test_help_lists_every_command(run):
    outcome = run("--help")
    assert outcome.code == 0
    assert all(f" {name} " in outcome.stdout for name in EXAMPLES)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_help_of_a_command_has_a_summary_and_examples(run, command):
    outcome = run(command.__name__, "--help")
    text = plain(outcome.stdout)
    assert outcome.code == 0
    assert "\n" not in command.__doc__
    assert plain(command.__doc__) in text
    assert "--json" in text or command.__name__ in ("draw", "studio")
    assert "--quiet" in text
    for line in COMMANDS[command]:
        assert plain(line) in text


@pytest.mark.slow
@pytest.mark.usefixtures("blank_figures")
def test_examples_run_in_order(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    for name in RUN_IN_ORDER:
        for line in EXAMPLES[name]:
            program, *arguments = shlex.split(line.replace("--effort 5 ", "--effort 0.2 "))
            assert program == "microcell"
            if "--engine" in arguments:  # tests/cli/test_anonymize_engine.py runs these.
                continue
            fewer = ("--records", 300) if name == "example" else ()
            outcome = run(*arguments, *fewer)
            assert outcome.code == 0, (line, outcome.stderr)
    expected = {
        "people_k5.csv",
        "people_k5.csv.manifest.json",
        "people_k3.parquet.manifest.json",
        "people_k5.html",
        "people_k3.parquet",
        "audit.html",
        "trial",
    }
    assert expected <= {path.name for path in tmp_path.iterdir()}


def test_help_loads_no_heavy_package():
    code = (
        "import sys; from typer.testing import CliRunner; from microcell.cli import app\n"
        "for words in (['--help'], ['anonymize', '--help']):\n"
        "    assert CliRunner().invoke(app, words).exit_code == 0\n"
        "heavy = {'numba', 'numpy', 'scipy', 'polars', 'pandas', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


USAGE_ERRORS = [
    (("anonymize", "a.csv", "-k", "five"), "option.wrong_type", "-k"),
    (("anonymize", "a.csv", "--missing", "ignore"), "option.unknown", "--missing"),
    (("anonymize", "a.csv", "-k"), "option.missing", "-k"),
    (("anonymize", "a.csv", "--dry-run=yes"), "option.invalid", "--dry-run"),
    (("example", "--records", "0"), "option.out_of_range", "--records"),
    (("inspect",), "option.missing", "TABLE"),
    (("methods", "--nonsense"), "option.unknown", "--nonsense"),
    (("inspect", "a.csv", "b.csv"), "option.unknown", "b.csv"),
    (("nonsense",), "option.unknown", None),
    (("survey", "nonsense"), "option.unknown", None),
    (("--version=1",), "option.invalid", "--version"),
]


@pytest.mark.parametrize(("arguments", "code", "option"), USAGE_ERRORS)
def test_usage_errors_have_a_code_and_name_the_option(run, arguments, code, option):
    outcome = run(*arguments)
    assert (outcome.code, outcome.stdout, outcome.error) == (2, "", code)
    outcome = run(*arguments, "--json") if arguments[-1] != "-k" else run("--json", *arguments)
    if option is not None and "option" in outcome.stdout and arguments[-1] != "-k":
        assert outcome.json["error"]["code"] == code
        assert outcome.json["error"]["details"] == {"option": option}


def test_usage_errors_are_free_of_jargon(run):
    outcome = run("anonymize", "a.csv", "-k", "five")
    line = "error[option.wrong_type]: -k must be a whole number of at least 2."
    assert outcome.stderr.splitlines()[0] == line


@pytest.mark.parametrize("arguments", [(), ("survey",)])
def test_no_command_shows_help_and_exits_with_2(run, arguments):
    outcome = run(*arguments)
    assert outcome.code == 2
    assert "Usage:" in outcome.stdout + outcome.stderr


EXCEPTIONS = [
    (OptionError("wrong option"), 2, "option.invalid", "wrong option\n"),
    (SchemaError("[columns.age] wrong"), 2, "schema.invalid", "[columns.age] wrong\n"),
    (TableError("no table", code="table.not_found"), 2, "table.not_found", "no table\n"),
    (DataError("odd data"), 2, "data.invalid", "odd data\n"),
    (GuaranteeError("no guarantee"), 1, "guarantee.failed", "no guarantee\n"),
    (TooFewRecordsError("few"), 1, "guarantee.too_few_records", "few\n"),
    (RequirementError("not met"), 1, "guarantee.requirement_not_met", "not met\n"),
    (
        OSError(errno.ENOSPC, "No space left on device", "x.csv"),
        2,
        "system.io_error",
        "No space left on device: x.csv. ",
    ),
    (
        PermissionError(errno.EACCES, "Permission denied"),
        2,
        "system.io_error",
        "Permission denied. ",
    ),
    (OSError("quoted value"), 2, "system.io_error", "OSError. "),
    (MemoryError(), 2, "system.out_of_memory", "Not enough memory"),
    (ValueError("quoted value"), 70, "internal.bug", "This is a bug in microcell (ValueError)"),
    (BaseException("quoted value"), 70, "internal.bug", "This is a bug in microcell (BaseExc"),
]


def raiser(error):
    def fail(*_, **__):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "exit_code", "code", "message"), EXCEPTIONS, ids=lambda item: type(item).__name__
)
def test_every_exception_becomes_one_line_and_an_exit_code(
    run, monkeypatch, error, exit_code, code, message
):
    assert code in CODES
    monkeypatch.delenv("MICROCELL_DEBUG", raising=False)
    monkeypatch.setattr(mc, "read", raiser(error))
    outcome = run("inspect", "people.csv")
    assert (outcome.code, outcome.stdout) == (exit_code, "")
    assert outcome.stderr.startswith(f"error[{code}]: {message}")
    assert outcome.stderr.count("\n") == 1
    assert "quoted value" not in outcome.stderr
    outcome = run("inspect", "people.csv", "--json")
    assert outcome.code == exit_code
    assert outcome.json["error"]["code"] == code
    assert "quoted value" not in outcome.stdout


def test_json_errors_include_the_details(run, monkeypatch):
    error = SchemaError("No column 'agee'.", code="schema.unknown_column", column="agee")
    monkeypatch.setattr(mc, "read", raiser(error))
    assert run("inspect", "people.csv", "--json").json == {
        "error": {
            "code": "schema.unknown_column",
            "message": "No column 'agee'.",
            "details": {"column": "agee"},
        }
    }


def test_an_interruption_is_not_an_error(run, monkeypatch):
    monkeypatch.setattr(mc, "read", raiser(KeyboardInterrupt()))
    outcome = run("inspect", "people.csv")
    expected = (130, "", "Interrupted: nothing was written.\n")
    assert (outcome.code, outcome.stdout, outcome.stderr) == expected


def test_debugging_shows_the_traceback(run, monkeypatch):
    monkeypatch.setenv("MICROCELL_DEBUG", "1")
    monkeypatch.setattr(mc, "read", raiser(ValueError("details")))
    outcome = run("inspect", "people.csv")
    assert outcome.code == 70
    assert "Traceback" in outcome.stderr
    assert "details" in outcome.stderr


def test_messages_go_to_stderr_and_results_to_stdout(folder, run_alone):
    release = run_alone(
        "anonymize", "people.csv", "-s", "schema.toml", "-k", 4, "-o", "out.csv", "--json"
    )
    assert release.code == 0, release.stderr
    assert release.json["k"] == 4
    assert "4-anonymous" in release.stderr
    audit = run_alone("audit", "people.csv", "out.csv", "-s", "schema.toml")
    assert audit.code == 0
    assert audit.stdout.startswith("Audit of out.csv\n")
    assert "Audit of" not in audit.stderr  # a busy machine shows progress


def test_output_is_plain_text_without_a_terminal(folder, run_alone):
    for arguments in (("inspect", "people.csv"), ("methods",)):
        outcome = run_alone(*arguments)
        assert outcome.code == 0
        assert ANSI not in outcome.stdout + outcome.stderr
        assert max(map(len, outcome.stdout.splitlines())) <= 100
        assert not re.search("[─│━┃╭╰]", outcome.stdout)


@pytest.mark.parametrize("arguments", [("methods", "--json"), ("inspect", "people.csv", "--json")])
def test_json_is_valid_in_an_ascii_locale(folder, run_alone, arguments):
    (folder / "people.csv").write_text("größe,名前\n1,x\n2,y\n", encoding="utf-8")
    outcome = run_alone(*arguments, PYTHONIOENCODING="ascii")
    assert outcome.code == 0
    json.loads(outcome.stdout)


def test_names_that_the_terminal_cannot_show_do_not_end_the_run(folder, run_alone):
    (folder / "people.csv").write_text("größe,名前\n1,x\n2,y\n", encoding="utf-8")
    outcome = run_alone("inspect", "people.csv", PYTHONIOENCODING="ascii")
    assert outcome.code == 0
    assert outcome.error is None


def test_a_broken_pipe_is_not_an_error(folder, spawn):
    process = spawn("inspect", "people.csv")
    process.stdout.close()
    process.stdout = None
    _, stderr = process.communicate(timeout=120)
    assert (process.returncode, stderr) == (141, "")


def test_output_of_compiled_libraries_is_discarded():
    code = (
        "import os, sys, microcell.cli.console as console; console.reserve_stdout();"
        "os.write(1, b'noise'); console.print_data('data'); print('more')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("data\nmore\n", "")


@pytest.mark.parametrize("gone", ["sys.stdout = None", "sys.stdout = io.StringIO()", "os.close(1)"])
def test_a_missing_stdout_is_left_alone(gone):
    code = (
        f"import io, os, sys, microcell.cli.console as console; {gone}; before = sys.stdout;"
        "console.reserve_stdout(); sys.stderr.write(f'{sys.stdout is before}');"
        "os.write(1, b'still there')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if "close" in gone:
        assert done.stderr.startswith("True")
        assert "Bad file descriptor" in done.stderr
    else:
        assert (done.returncode, done.stdout, done.stderr) == (0, "still there", "True")
