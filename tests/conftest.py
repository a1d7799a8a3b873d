"""The markers slow, long and full_search, and fixtures that several modules share."""

import functools
import gc
import importlib
import os
import signal
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import typer.testing
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

# A job in the background of a shell ignores Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Building all commands takes longer than most of them run, and gives the same every time.
typer.testing._get_command = functools.cache(typer.testing._get_command)

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
    "tests/studio/test_app.py",
)

FIRST_MODULES = (
    "tests/kernels/test_shipping.py",
    "tests/experiments/",
    "tests/benchmarks/",
    "tests/dask/",
    "tests/locations/",
    "tests/surveys/",
    "tests/cli/",
)
"""Longest first: the processes share out whole modules, and the last ones should be short."""

SHORT_SEARCH = {
    ("anneal", "_MOST"): 300.0,
    ("auto", "_MOST_SHAKES"): 10,
    ("auto", "_STEPS_OF_SINGLES"): 60.0,
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

LONG = Path(__file__).with_name("long.txt")
"""Tests of the package itself that take longest; ``pytest --record-long`` writes the list."""

LONGEST = 0.2
"""Seconds of processor time from which a test belongs in the list."""

DATA = Path(os.environ.get("MICROCELL_DATA", ROOT.parent / "shared" / "data"))


class LongTests:
    """Record the tests that take long, whatever their parameters."""

    def __init__(self):
        self.names = set()

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and dict(report.user_properties).get("seconds", 0) > LONGEST:
            self.names.add(report.nodeid.partition("[")[0])

    def pytest_sessionfinish(self):
        LONG.write_text("".join(f"{name}\n" for name in sorted(self.names)), encoding="utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Measure processor time, which hardly depends on what else the machine does."""
    start = os.times()
    try:
        return (yield)
    finally:
        seconds = sum(os.times()[:4]) - sum(start[:4])
        item.user_properties.append(("seconds", seconds))


def pytest_addoption(parser):
    parser.addoption("--record-long", action="store_true", help="write tests/long.txt anew")


def pytest_configure(config):
    if config.getoption("--record-long") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(LongTests())


def pytest_ignore_collect(collection_path, config):
    """Do not even import modules of slow tests when those are deselected."""
    name = collection_path.relative_to(ROOT).as_posix()
    name += "/" if collection_path.is_dir() else ""
    if config.option.markexpr.startswith("not slow") and name.startswith(SLOW_MODULES):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leave modules and tests out of garbage collections, which would visit them all each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    long = set(LONG.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid.partition("[")[0] in long:
            item.add_marker(pytest.mark.long)
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & SLOW_FIXTURES or item.nodeid.startswith(SLOW_MODULES):
            item.add_marker(pytest.mark.slow)
        if item.nodeid.startswith(FULL_SEARCH_MODULES):
            item.add_marker(pytest.mark.full_search)
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST_MODULES))


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
    try:
        figure = importlib.import_module("matplotlib.figure").Figure
    except ImportError:  # reports have no figures then
        yield
        return
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
