"""The examples in docstrings run and print what they show.

They are run here instead of with ``--doctest-modules``, which would import every module of the
package and search every test module for examples in each process of a test run.
"""

import doctest
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    outcome = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert not outcome.failed
