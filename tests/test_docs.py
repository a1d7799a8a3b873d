"""The docs are complete, their examples run, and generated pages are current."""

import csv
import doctest
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import microcell as mc
from microcell import errors
from microcell.cli import app
from microcell.methods import METHODS

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(FOLDER.rglob("*.md"))]
DOCS = {
    path.relative_to(ROOT).as_posix().removeprefix("docs/"): path.read_text(encoding="utf-8")
    for path in PAGES
}
REFERENCE, COMMANDS, NAMES, FILES = (
    DOCS[name]
    for name in (
        "reference.md",
        "reference/commands.md",
        "reference/python.md",
        "reference/files.md",
    )
)
GUIDE = "\n".join(text for name, text in DOCS.items() if not name.startswith("reference"))
"""What people read to learn, as against what they look things up in."""

COMMANDS_RUN_ELSEWHERE = {
    "increments.md": "tests/cli/test_increment.py",
    "scaling.md": "tests/dask",
    "locations.md": "tests/cli/test_locations.py",
}
"""Pages whose commands need clusters, servers or special tables, and the tests that cover them."""

APART = {"surveys.md"}
"""Pages whose commands repeat their Python snippets on files of the same names."""


LEAVES = {
    "README.md": {"people_k5.csv", "people_k5.csv.manifest.json", "people_k5.html"},
    "tutorial.md": {
        "clients_k5.csv",
        "clients_k5.csv.manifest.json",
        "report.html",
        "certificate.pdf",
    },
}
"""Files that a page says are there when it has been followed."""


# ------------------------------------------------------------------------------------- examples run


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it is the text of, if any, and what is in it."""

    language: str
    title: str
    text: str


def blocks_of(name):
    actual = re.findall(
        r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', DOCS[name], re.DOTALL | re.MULTILINE
    )
    return [Block(*item) for item in actual]


def shown(name, *languages):
    return [block for block in blocks_of(name) if block.language in languages]


def run_command(line):
    """Run a line of a shell block; a comment may say which exit code it has."""
    line, _, comment = line.partition("    #")
    program, *arguments = shlex.split(line, comments=True)
    assert program == "microcell", line
    expected = re.search(r"exit code (\d+)", comment)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == (int(expected[1]) if expected else 0), f"{line}: {result.output}"
    return result.output


def run_blocks(blocks, name):
    """Run the blocks in order; text after a command is its output, with "..." for omissions."""
    scope, output = {}, None
    for block in blocks:
        if block.language == "text" and output is not None:
            for part in block.text.split("..."):
                assert " ".join(part.split()) in " ".join(output.split())
        output = None
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.text, name, "exec"), scope)
        elif block.language == "sh":
            output = "".join(run_command(line) for line in block.text.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DOCS if shown(name, "python", "sh")])
def test_snippets_run_in_order(name, blank_figures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of(name)
    if name in APART or name in COMMANDS_RUN_ELSEWHERE:
        blocks = [block for block in blocks if block.language != "sh"]
    run_blocks(blocks, name)
    if name in LEAVES:
        assert LEAVES[name] <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.slow
def test_the_commands_of_the_survey_page_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_command("microcell example --records 400")
    me = {
        "sex": "female",
        "age": 44,
        "bmi": 23.1,
        "latitude": 41.6,
        "longitude": 1.2,
        "postal_code": "25100",
    }
    Path("me.json").write_text(json.dumps(me), encoding="utf-8")
    answers = {"cell": [0, 1] * 12, "tsh": [1.5] * 24, "token": list(range(24))}
    mc.write(mc.read(answers), "answers.csv")
    past = {**mc.sample_survey(200, seed=1), "answered": [0, 1, 1, 1] * 50}
    mc.write(mc.read(past), "past.csv")
    run_blocks(shown("surveys.md", "sh"), "surveys.md")


def test_tests_of_other_pages_exist():
    for name, place in COMMANDS_RUN_ELSEWHERE.items():
        assert name not in DOCS or (ROOT / place).exists(), place


def test_the_toml_of_the_guide_is_valid(tmp_path):
    (schema,) = shown("howto/schema.md", "toml")
    assert [column.name for column in mc.schema.schema_from_toml(schema.text).quasi] == [
        "age",
        "home",
    ]
    (questions,) = shown("surveys.md", "toml")
    (tmp_path / "questions.toml").write_text(questions.text, encoding="utf-8")
    assert len(mc.surveys.load_questionnaire(tmp_path / "questions.toml").questions) == 3
    (run,) = shown("howto/csv.md", "toml")
    (tmp_path / "run.toml").write_text(run.text, encoding="utf-8")
    assert mc.schema.load_run(tmp_path / "run.toml").options == {"gamma": 0.2}


# ------------------------------------------------------------------------------------- completeness


def commands_below(node, name="microcell"):
    """Every command by its full name, from the application itself."""
    if not hasattr(node, "commands"):
        return {name: node}
    return {
        key: value
        for word, child in node.commands.items()
        for key, value in commands_below(child, f"{name} {word}").items()
    }


ALL_COMMANDS = commands_below(get_command(app))


@pytest.mark.parametrize("name", ALL_COMMANDS)
def test_every_command_is_documented_with_all_its_options(name):
    assert f"`{name}" in REFERENCE
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", COMMANDS, re.DOTALL | re.MULTILINE)
    assert section
    for parameter in ALL_COMMANDS[name].params:
        for flag in (*parameter.opts, *parameter.secondary_opts):
            assert (
                f"`{flag}`" in section[1] or f"`{parameter.metavar or flag.upper()}`" in section[1]
            ), flag


@pytest.mark.parametrize("name", ALL_COMMANDS)
def test_every_command_is_shown_in_the_guide(name):
    assert re.search(rf"\b{name}\b", GUIDE)


def test_every_public_name_is_documented(makers):
    packages = makers("make_reference").PACKAGES
    assert set(packages["microcell"]) <= set(mc.__all__)
    for package, names in packages.items():
        for name in names:
            assert f"\n::: {package}.{name}\n" in NAMES, name


def test_every_error_is_documented():
    for name in set(errors.__all__) - {"CODES"}:
        assert f"| `{name}` |" in REFERENCE, name
        assert issubclass(getattr(errors, name), errors.MicrocellError)
    for code in errors.CODES:
        assert f"| `{code}` |" in REFERENCE, code


@pytest.mark.parametrize("name", [*METHODS, "auto"])
def test_every_method_has_a_page_with_its_options(name):
    page = DOCS[f"methods/{name}.md"]
    for word in ("Guarantee", "Cost", "When to use it", "Information loss"):
        assert re.search(rf"(\*|## ){word}", page), word
    assert f"(methods/{name}.md)" in DOCS["methods.md"]
    method = METHODS.get(name)
    for option in ("effort",) if method is None else method.options:
        assert f"`{option}`" in page or f"`{option} " in page, option
    assert method is None or method.source.split(" and ")[0] in page


def test_every_measure_is_documented_with_unit_and_direction():
    people = mc.sample_survey(60)
    release = mc.anonymize(people, mc.sample_schema(), k=5, method="mdav")
    actual = mc.audit(people, release.table, mc.sample_schema(), manifest=release.manifest)
    section = REFERENCE.partition("\n## Measures\n")[2]
    for name, measure in actual.measures.items():
        base, _, column = name.partition(".")
        better = "lower" if measure.lower_is_better else "higher"
        row = re.search(rf"^\| `{base}`.*$", section, re.MULTILINE)
        assert row, name
        assert f"| {measure.unit} | {better} |" in row[0], name
        assert not column or f"`{base}.COLUMN`" in row[0], name


def test_every_entry_of_the_manifest_is_documented():
    section = REFERENCE.partition("## The manifest")[2]
    table = {"a": list(range(8)), "b": [1, 2, 1, 2, 3, 1, 2, 1], "c": ["x", "y"] * 4}
    schema = mc.Schema(quasi=["a", "b"], confidential=["c"])
    manifest = mc.anonymize(table, schema, k=2, method="mdav", dependence=0.5).manifest.as_dict()
    for name, entry in manifest.items():
        assert f"| `{name}` |" in section
        if isinstance(entry, dict) and name != "columns":
            assert all(f"| `{name}.{key}` |" in section for key in entry), name


def test_every_key_of_schema_files_is_documented():
    schema = mc.Schema(
        identifiers=["i"],
        quasi=[
            mc.Column("o", kind="ordinal", order=("a", "b"), weight=2.0),
            mc.Column("n", publish="range", kind="numeric"),
        ],
        strata=["s"],
        weight="w",
        keep=["k"],
        drop=["d"],
        confidential=["c"],
    )
    text = mc.schema.schema_to_toml(schema)
    for key in (
        *re.findall(r"^(\w+) = ", text, re.MULTILINE),
        *re.findall(r'role = "(\w+)"', text),
    ):
        assert f"| `{key}` |" in FILES, key


# ---------------------------------------------------------------------- generated pages are current


@pytest.fixture
def makers(monkeypatch):
    """A function that imports a maker of pages."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.mark.parametrize(
    "module, function",
    [
        ("make_reference", "reference_pages"),
        ("make_methods", "method_pages"),
        ("make_readme", "readme_pages"),
    ],
)
def test_generated_pages_are_current(makers, module, function):
    for path, text in getattr(makers(module), function)().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"run python docs/{module}.py: {path} is not as made"
        )


@pytest.mark.parametrize("module", ["_pages", "make_readme"])
def test_doctests_of_the_generators_pass(makers, module):
    actual = doctest.testmod(makers(module))
    assert actual.attempted
    assert not actual.failed


def test_the_table_of_the_readme_comes_from_the_experiments(makers, tmp_path, monkeypatch):
    maker = makers("make_readme")
    rows = [
        {"data": "Here", "k": 5, "method": name, "D_percent": loss, "seconds": None}
        for name, loss in (("MDAV", 3), ("auto", 2), ("another", 1))
    ]
    monkeypatch.setattr(maker, "RESULTS", tmp_path / "findings.json")
    assert "MDAV" in maker.headline()
    maker.RESULTS.write_text(json.dumps({"headline": rows}), encoding="utf-8")
    assert maker.headline().splitlines()[-1] == "| Here | 5 | 3.000 % | **2.000 %** |"


@pytest.mark.slow
def test_the_picture_is_current(makers):
    kept, regenerated = (
        (FOLDER / "picture.svg").read_text(encoding="utf-8"),
        makers("make_picture").picture().decode(),
    )
    numbers = r"-?\d+\.\d+"  # whose last digits another processor may round otherwise
    assert re.sub(numbers, "", kept) == re.sub(numbers, "", regenerated)
    pairs = zip(re.findall(numbers, kept), re.findall(numbers, regenerated), strict=True)
    assert all(abs(float(one) - float(other)) < 0.01 for one, other in pairs)


def test_measured_losses_are_reproduced(makers, load_standardized):
    rows = makers("make_methods").read_measured()
    census = load_standardized("census")
    (row,) = (row for row in rows if list(row.values())[:4] == ["Census", "5", "mdav", "as it is"])
    labels = mc.partition(census, 5, method="mdav").labels
    assert float(row["loss"]) == pytest.approx(100 * mc.distortion(census, labels), abs=1e-4)


def test_measured_losses_match_the_results(makers):
    """What the pages of methods and the results page tell of the same runs is the same."""
    maker = makers("make_methods")
    names = {"mdav, as it is": "MDAV", f"auto, {maker.AUTO}": "auto", f"pcl, {maker.PCL}": "PCL"}
    with (maker.PRINTED.parent / "classics.csv").open(encoding="utf-8", newline="") as file:
        results = {(maker.SETS[row["data"]], row["k"]): row for row in csv.DictReader(file)}
    compared = 0
    for row in maker.read_measured():
        name = names.get(f"{row['method']}, {row['way']}")
        if name and (row["set"], row["k"]) in results:
            assert float(row["loss"]) == pytest.approx(
                float(results[row["set"], row["k"]][f"{name}, IL"]), abs=1e-4
            )
            compared += 1
    assert compared == len(names) * len(results)


# --------------------------------------------------------------------------------------------- site


def slug(heading):
    """The anchor of a heading, as both the site and GitHub make it of plain words."""
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower()).strip())


def anchors_of(path):
    text = re.sub(
        r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    anchors = set(re.findall(r'<a id="([^"]+)"', text))
    return anchors | {
        slug(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_resolve(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        place, _, anchor = target.partition("#")
        if place.startswith(("http:", "https:")):
            continue
        other = (path.parent / place).resolve() if place else path
        assert other.exists(), target
        assert not anchor or anchor in anchors_of(other), target


@pytest.mark.slow
def test_the_site_builds_and_needs_no_other_host(tmp_path):
    site = tmp_path / "site"
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(site),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (site / "index.html").exists()
    for page in site.rglob("*.html"):
        fetched = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(?:https?:)?//[^\s\">]*",
            page.read_text(encoding="utf-8"),
        )
        assert not [tag for tag in fetched if 'rel="canonical"' not in tag], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_the_makefile_keeps_its_words():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in (
        "setup",
        "demo",
        "check",
        "test",
        "test-fast",
        "mutants",
        "bench",
        "attack",
        "docs",
        "clean",
    ):
        assert re.search(rf"^{word}:", makefile, re.MULTILINE), word
