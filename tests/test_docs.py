"""The docs are true: what exists is in them, and what they show runs."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import microcell as mc
from microcell import errors
from microcell.cli import app
from microcell.partitioning import METHODS

ROOT = Path(__file__).parent.parent
DOCS = {path.name: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
REFERENCE, METHOD_PAGE = DOCS["reference.md"], DOCS["methods.md"]


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("name", [name for name in DOCS if blocks(DOCS[name], "python")])
def test_python_snippets_run_in_order(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for code in blocks(DOCS[name], "python"):
        exec(compile(code, name, "exec"), scope)


def commands():
    return [line.split("#")[0].strip() for block in blocks(DOCS["README.md"], "sh") for line in block.splitlines()]


def test_the_commands_of_the_readme_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in commands():
        program, *arguments = shlex.split(command)
        assert program == "microcell"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{command}: {result.output}"
    assert (tmp_path / "people_k5.html").exists()
    assert (tmp_path / "people_k5.csv.manifest.json").exists()


def test_every_command_is_documented():
    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    assert names
    for name in names:
        assert f"`microcell {name}" in REFERENCE, name


def test_every_public_name_is_documented():
    for name in mc.__all__:
        assert re.search(rf"\b{name}\b", REFERENCE), name


def test_every_error_is_documented():
    for name in errors.__all__:
        assert f"`{name}" in REFERENCE, name


def test_every_method_and_option_is_documented():
    for name, method in METHODS.items():
        assert f"**`{name}`**" in METHOD_PAGE, name
        assert method.source.split(" and ")[0] in METHOD_PAGE, name
        for option in method.options:
            assert f"`{option}`" in METHOD_PAGE, option


def test_every_measure_is_documented():
    people = mc.sample_survey(60)
    release = mc.anonymize(people, mc.sample_schema(), k=5)
    for name in mc.audit(people, release.table, mc.sample_schema()).measures:
        assert f"`{name.partition('.')[0]}`" in REFERENCE, name


def test_every_part_of_the_manifest_is_documented():
    release = mc.anonymize({"a": [1, 2, 3, 4]}, mc.Schema(quasi=["a"]), k=2)
    for name in release.manifest.as_dict():
        assert f"`{name}`" in REFERENCE, name


@pytest.mark.parametrize("name", DOCS)
def test_links_lead_somewhere(name):
    folder = ROOT if name == "README.md" else ROOT / "docs"
    for target in re.findall(r"\]\(([^)#]+)\)", DOCS[name]):
        assert (folder / target).exists(), target


def test_the_toml_of_the_guide_is_valid():
    schema, run = blocks(DOCS["guide.md"], "toml")
    assert [column.name for column in mc.schema_from_toml(schema).quasi] == ["age", "home"]
    assert run.startswith("config_version = 1")


def test_the_makefile_keeps_its_words():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in ("setup", "demo", "check", "test", "bench", "clean"):
        assert re.search(rf"^{word}:", makefile, re.MULTILINE), word
