"""The marker slow, and fixtures that several modules share: data sets and a browser."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.browser import open_browser

# No test depends on the speed of the machine.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

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

DATA = Path(os.environ.get("MICROCELL_DATA", ROOT.parent / "shared" / "data"))


def pytest_collection_modifyitems(items):
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & SLOW_FIXTURES or item.nodeid.startswith(SLOW_MODULES):
            item.add_marker(pytest.mark.slow)


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
def browser():
    """A headless browser; see ``tests.browser.Browser``.

    Not of the session: while it is open, no other test of the process can run an event loop.
    """
    with open_browser() as tab:
        yield tab
