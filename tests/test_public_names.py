"""The root package exports the public names and loads nothing heavy on import."""

import inspect
import subprocess
import sys
from pkgutil import iter_modules

import pytest

import microcell as mc
from microcell.schema import schema_to_toml


def public_names():
    return [name for name in mc.__all__ if not inspect.ismodule(getattr(mc, name))]


def test_every_public_name_exists():
    assert len(mc.__all__) <= 45
    for name in mc.__all__:
        assert getattr(mc, name) is not None
    assert {*mc._MODULE_OF, *mc._SUBPACKAGES} == set(mc.__all__)
    assert mc.__all__ == sorted(mc.__all__, key=lambda name: (not name[0].isupper(), name))


def test_public_names_are_documented_with_an_example():
    for name in public_names():
        assert ">>>" in (getattr(mc, name).__doc__ or ""), name


def test_dir_lists_public_names_only():
    assert set(dir(mc)) - {"__all__", "__doc__", "__version__"} == set(mc.__all__)


def test_no_submodule_hides_a_public_name():
    for package in mc._SUBPACKAGES:
        module = getattr(mc, package)
        submodules = {info.name for info in iter_modules(getattr(module, "__path__", []))}
        assert submodules & set(module.__all__) == set(), package


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'anonymise'"):
        mc.anonymise  # noqa: B018


def test_importing_loads_nothing_heavy():
    code = (
        "import sys, microcell;"
        "heavy = {'numpy', 'numba', 'polars', 'narwhals', 'matplotlib', 'scipy', 'pandas'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    actual = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert actual.stdout.strip() == "[]"


def test_anonymizing_loads_no_unneeded_package():
    code = (
        "import sys, microcell as mc;"
        "mc.anonymize({'a': [1, 2, 3, 4]}, mc.Schema(quasi=['a']), k=2);"
        "unwanted = {'matplotlib', 'pandas', 'sklearn', 'jinja2', 'typer', 'dask', "
        "'microcell.dask'};"
        "print(sorted(unwanted & set(sys.modules)))"
    )
    actual = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert actual.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "effort, k",
    [("fast", 5), ("balanced", 5), pytest.param("balanced", 10, marks=pytest.mark.slow)],
)
def test_the_command_anonymize_loads_only_what_it_uses(effort, k, tmp_path):
    """Each of these takes a noticeable part of the time of a small run."""
    unwanted = [
        *("matplotlib", "fpdf", "dask", "pandas", "pyarrow", "sklearn", "fastapi", "jinja2"),
        *(
            "scipy.stats",
            "scipy.optimize",
            "scipy.spatial",
            "microcell.dask",
            "microcell.report.html",
        ),
        "numba.typed.dictimpl",  # a sign that the declarations for the compiler were loaded
    ]
    unwanted += ["scipy.sparse"] if k < 8 else []  # constrained Lloyd uses it
    arguments = ["microcell", "anonymize", "people.csv", "-s", "schema.toml", "-o", "out.csv"]
    arguments += ["-k", str(k), "--effort", effort, "-q"]
    run = "from microcell.cli import main\ntry: main()\nexcept SystemExit as end: code = end.code"
    code = (
        f"import sys; sys.argv = {[*arguments, '--force']}\n{run}\n"
        f"print(code, sorted(set({unwanted}) & set(sys.modules)))"
    )
    mc.write(mc.read(mc.sample_survey(60)), tmp_path / "people.csv")
    (tmp_path / "schema.toml").write_text(schema_to_toml(mc.sample_schema()), encoding="utf-8")
    command = [sys.executable, "-c", code]
    for _ in range(2):  # the first run may compile
        actual = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        if actual.stdout.strip() == "0 []":
            break
    assert actual.stdout.strip() == "0 []"
