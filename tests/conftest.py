"""The markers slow and full_search, and fixtures that several modules share."""

import importlib
import os
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.browser import open_browser

# No test depends on the speed of the machine. Examples differ from run to run, so that few per run
# are enough; for more at once: pytest --hypothesis-profile thorough.
for name, examples in {"suite": 30, "thorough": 300}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("suite")

ROOT = Path(__file__).parent.parent
SLOW_FIXTURES = {"browser", "cluster", "data_folder", "postgresql", "run_alone", "spawn", "worker"}
"""Fixtures that start a process or read large tables; tests that use them are marked slow."""

SLOW_MODULES = (
    "tests/benchmarks/",
    "tests/contract/",
    "tests/dask/",
    "tests/experiments/",
    "tests/increments/test_kills.py",
    "tests/locations/test_kills.py",
    "tests/cli/test_compare.py",
    "tests/cli/test_explore.py",
    "tests/cli/test_interruption.py",
    "tests/locations/test_schema.py",
    "tests/locations/test_simulation.py",
    "tests/locations/test_stateful.py",
    "tests/report/test_certificate.py",
)

SHORT_SEARCH = {
    ("anneal", "_MOST"): 300.0,
    ("auto", "_MOST_SHAKES"): 10,
    ("constrained", "_MOST_STEPS"): 60.0,
    ("constrained", "_REPAIR"): 40.0,
}
"""Limits of a default search in tests that do not depend on how good its result is.

All stages run as always, with fewer steps: a table of 200 records takes 30 ms instead of 2 s.
Tests of the quality of the result are marked full_search.
"""

FULL_SEARCH_MODULES = (
    "tests/methods/test_auto.py",
    "tests/methods/test_combining.py",
    "tests/methods/test_pcl.py",
    "tests/methods/test_search.py",
)

DATA = Path(os.environ.get("MICROCELL_DATA", ROOT.parent / "shared" / "data"))


def pytest_collection_modifyitems(items):
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & SLOW_FIXTURES or item.nodeid.startswith(SLOW_MODULES):
            item.add_marker(pytest.mark.slow)
        if item.nodeid.startswith(FULL_SEARCH_MODULES):
            item.add_marker(pytest.mark.full_search)


def limit_searches(limits):
    """Set limits of the search; return the previous ones."""
    previous = {}
    for (module, name), value in limits.items():
        owner = importlib.import_module(f"microcell.methods.{module}")
        previous[module, name] = getattr(owner, name)
        setattr(owner, name, value)
    return previous


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Limit searches, in fixtures too, unless the test is marked full_search."""
    if item.get_closest_marker("full_search"):
        return (yield)
    usual = limit_searches(SHORT_SEARCH)
    try:
        return (yield)
    finally:
        limit_searches(usual)


@pytest.fixture(scope="session")
def data_folder():
    if not DATA.is_dir():
        pytest.skip("the classic data sets are not here: set MICROCELL_DATA to their folder")
    return DATA


@pytest.fixture(scope="session")
def load_standardized(data_folder):
    """A function from the name of a data set to its standardized matrix."""

    def load(name):
        X = np.loadtxt(data_folder / f"{name}.csv", delimiter=",", skiprows=1)
        return np.ascontiguousarray((X - X.mean(axis=0)) / X.std(axis=0))

    return load


@pytest.fixture(scope="module")
def blank_figures():
    """Leave the SVG figures of reports empty, which tests/report covers and takes a second each."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    savefig = figure.savefig

    def save(self, file, **options):
        if not isinstance(file, StringIO):
            return savefig(self, file, **options)
        return file.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>')

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure, "savefig", save)
        yield


@pytest.fixture(scope="module")
def browser():
    """A headless browser; see ``tests.browser.Browser``.

    Not of the session: while it is open, no other test of the process can run an event loop.
    """
    with open_browser() as tab:
        yield tab
