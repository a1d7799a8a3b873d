"""What surrounds the package: environments, extras, distributions, workflows and the image."""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import microcell as mc

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML_FILES = [
    *sorted((ROOT / ".github").rglob("*.yml")),
    ROOT / ".pre-commit-config.yaml",
    ROOT / "CITATION.cff",
]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------ dependencies


def test_the_extra_all_contains_every_other_extra():
    (requirement,) = map(Requirement, EXTRAS["all"])
    assert requirement.name == "microcell"
    assert requirement.extras == set(EXTRAS) - {"all"}


def test_the_lock_satisfies_every_dependency():
    locked = {}
    for line in read("requirements.lock").splitlines():
        name, _, version = line.partition(" ;")[0].partition("==")
        locked.setdefault(name, []).append(version.strip())
    dependencies = [*PROJECT["dependencies"], *(item for name in EXTRAS for item in EXTRAS[name])]
    for requirement in map(Requirement, dependencies):
        if requirement.name != "microcell":
            assert locked[requirement.name], requirement
            assert all(version in requirement.specifier for version in locked[requirement.name])


def test_every_extra_is_documented():
    page = read("docs/howto/install.md")
    assert all(f"| `{extra}` |" in page for extra in EXTRAS)


# ----------------------------------------------------------------------------------- environments


@pytest.fixture
def environment():
    spec = importlib.util.spec_from_file_location("environment", ROOT / "tools" / "environment.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_oldest_python_agrees_with_the_project(environment):
    oldest = SpecifierSet(PROJECT["requires-python"])
    assert ".".join(map(str, environment.OLDEST)) in oldest
    assert f"{environment.OLDEST[0]}.{environment.OLDEST[1] - 1}" not in oldest


@pytest.mark.parametrize(
    "installed, command",
    [
        ({"python3.12", "python3.13"}, "make PYTHON=python3.13 demo"),
        (set(), "make PYTHON=python3.12 demo"),
    ],
)
def test_an_old_python_is_refused_in_one_line(environment, installed, command):
    message = environment.old_python_message((3, 10, 1), installed.__contains__)
    assert message.endswith(command)
    assert "3.10" in message
    assert "\n" not in message


def test_the_script_parses_on_old_pythons():
    """It has to start there to say which Python is needed."""
    ast.parse(read("tools/environment.py"), feature_version=(3, 8))


def test_without_uv_packages_are_installed_with_pip(environment, monkeypatch, tmp_path):
    commands = []

    def run(command, **options):
        commands.append([str(part) for part in command])
        failed = "uv" in command  # pip cannot fetch uv
        return subprocess.CompletedProcess(command, int(failed))

    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr(environment, "FETCHED", tmp_path / "uv")
    monkeypatch.setattr(environment.shutil, "which", lambda _: None)
    monkeypatch.setattr(environment.subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["environment.py", "demo"])
    monkeypatch.setattr(environment.os, "chdir", lambda _: None)
    environment.main()
    assert commands[-1][1:4] == ["-m", "pip", "install"]
    assert commands[-1][-1] == ".[report]"
    assert [path.name for path in tmp_path.iterdir()] == [".ready-demo"]


def test_without_network_one_line_says_what_to_do(environment, monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "PYTHON", Path(sys.executable))
    failed = subprocess.CompletedProcess([], 1)
    monkeypatch.setattr(environment.subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setattr(environment, "run_quietly", lambda _: True)
    with pytest.raises(SystemExit) as stopped:
        environment.install_with_pip([["anything"]])
    assert "PIP_INDEX_URL" in str(stopped.value)
    assert "\n" not in str(stopped.value)


# --------------------------------------------------------------------- workflows and metadata files


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_files_parse(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def make_words():
    makefile = read("Makefile")
    return set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())


def test_every_make_word_exists():
    words = make_words()
    assert all(re.search(rf"^{word}:", read("Makefile"), re.MULTILINE) for word in words)
    used = {
        word
        for path in (*WORKFLOWS, ROOT / ".ci" / "run")
        for word in re.findall(
            r"\bmake (?:PYTHON=\S+ )?([a-z][a-z-]*)", path.read_text(encoding="utf-8")
        )
    }
    assert used <= words
    assert {"check", "test", "test-lowest", "demo", "dist", "image", "docs"} <= used


def test_the_matrix_covers_the_supported_pythons_and_systems(environment):
    matrix = yaml.safe_load(read(".github/workflows/test.yml"))["jobs"]["test"]["strategy"][
        "matrix"
    ]
    (major, first), (_, last) = environment.OLDEST, environment.NEWEST
    assert matrix["python"] == [f"{major}.{minor}" for minor in range(first, last + 1)]
    assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]


def test_publishing_needs_no_token():
    text = read(".github/workflows/release.yml")
    job = yaml.safe_load(text)["jobs"]["pypi"]
    assert job["permissions"] == {"id-token": "write"}
    assert "secrets." not in text


def test_ruff_has_the_same_version_everywhere():
    (hook,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    assert f"ruff=={hook['rev'].removeprefix('v')}\n" in read("requirements.lock")


def test_the_citation_names_this_version():
    assert str(yaml.safe_load(read("CITATION.cff"))["version"]) == mc.__version__


# ------------------------------------------------------------------------------------------- image


def docker_works():
    if shutil.which("docker") is None:
        return False
    calls = subprocess.run(["docker", "info"], capture_output=True, check=False)
    return calls.returncode == 0


def test_the_image_is_slim_and_does_not_run_as_root():
    lines = [line for line in read("Dockerfile").splitlines() if line and not line.startswith("#")]
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert all(re.fullmatch(r"python:3\.\d+-slim", base) for base in bases)
    final = lines[max(i for i, line in enumerate(lines) if line.startswith("FROM ")) :]
    (user,) = (line.split()[1] for line in final if line.startswith("USER "))
    assert user not in {"root", "0"}
    assert 'ENTRYPOINT ["microcell"]' in final
    assert not any("pip install" in line for line in final)
    (extras,) = re.findall(r'"\.\[([a-z,]+)\]"', "\n".join(lines))
    assert {"report", "locations"} <= set(extras.split(",")) <= set(EXTRAS)


def test_the_image_gets_every_file_that_the_build_needs():
    kept = set(re.findall(r"^!(\S+)$", read(".dockerignore"), re.MULTILINE))
    needed = {"src", "pyproject.toml", "hatch_build.py", "requirements.lock", PROJECT["readme"]}
    assert needed | set(PROJECT["license-files"]) <= kept


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not docker_works(), reason="no Docker daemon is running")
def test_the_image_builds_and_runs_the_demo():
    subprocess.run(["docker", "build", "--tag", "microcell-test", "."], cwd=ROOT, check=True)
    done = subprocess.run(
        ["docker", "run", "--rm", "microcell-test", "demo", "--json"],
        capture_output=True,
        check=True,
    )
    assert b'"revealed": 0' in done.stdout


# ----------------------------------------------------------------------------------- distributions


@pytest.fixture(scope="module")
def uv():
    path = shutil.which("uv") or shutil.which("uv", path=Path(sys.executable).parent)
    if path is None:
        pytest.skip("uv is not installed")
    return path


@pytest.fixture(scope="module")
def distributions(uv, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [uv, "build", "--out-dir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "error sending request" in done.stderr:
        pytest.skip("no network to fetch the build backend")
    assert done.returncode == 0, done.stderr
    return {path.suffix: path for path in folder.iterdir() if path.suffix in (".whl", ".gz")}


@pytest.mark.slow
def test_the_source_distribution_builds_the_same_wheel(uv, distributions, tmp_path):
    command = [uv, "build", "--wheel", "--out-dir", str(tmp_path), str(distributions[".gz"])]
    subprocess.run(command, check=True, capture_output=True)
    assert distributions[".whl"].name in {path.name for path in tmp_path.iterdir()}
