"""Fixtures that several test modules share: benchmark data sets and a browser."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.browser import open_browser

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("MICROCELL_DATA", ROOT.parent / "shared" / "data"))


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
    """A headless browser; see ``tests.browser.Browser``."""
    with open_browser() as tab:
        yield tab
