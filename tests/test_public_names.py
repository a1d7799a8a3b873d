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


LOADED = """
import sys

def loaded(names):
    print(sorted(set(names.split()) & set(sys.modules)))

import microcell as mc
mc.anonymize({"a": [1, 2, 3, 4]}, mc.Schema(quasi=["a"]), k=2)
loaded("matplotlib pandas sklearn jinja2 typer dask microcell.dask")

from microcell.cli import main

unwanted = '''matplotlib fpdf dask pandas pyarrow sklearn fastapi jinja2 scipy.stats scipy.optimize
    scipy.spatial narwhals microcell.dask microcell.report.html'''
# The last is a sign that the declarations for the compiler were loaded, and constrained Lloyd uses
# the first.
for effort, k, others in (
    ("fast", 5, "scipy.sparse numba.typed.dictimpl"),
    ("balanced", 5, "scipy.sparse numba.typed.dictimpl"),
    ("balanced", 10, "numba.typed.dictimpl"),
):
    words = f"anonymize people.csv -s schema.toml -o out.csv -k {k} --effort {effort} -q --force"
    sys.argv = ["microcell", *words.split()]
    try:
        main()
    except SystemExit as end:
        assert end.code == 0
    loaded(f"{unwanted} {others}")
"""


@pytest.mark.slow
def test_anonymizing_loads_only_what_it_uses(tmp_path):
    """Each of these packages takes a noticeable part of the time of a small run."""
    mc.write(mc.read(mc.sample_survey(60)), tmp_path / "people.csv")
    (tmp_path / "schema.toml").write_text(schema_to_toml(mc.sample_schema()), encoding="utf-8")
    command = [sys.executable, "-c", LOADED]
    for _ in range(2):  # the first run may compile
        actual = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        if actual.stdout == "[]\n" * 4:
            break
    assert actual.stdout == "[]\n" * 4
