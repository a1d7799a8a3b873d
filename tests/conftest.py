"""Shared fixtures: the benchmark data sets, if they are available."""

import os
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("MICROCELL_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def data_folder():
    if not DATA.is_dir():
        pytest.skip("benchmark data sets not found: set MICROCELL_DATA to their folder")
    return DATA


@pytest.fixture(scope="session")
def load_standardized(data_folder):
    """A function that returns the standardized matrix of a data set."""

    def load(name):
        X = np.loadtxt(data_folder / f"{name}.csv", delimiter=",", skiprows=1)
        return np.ascontiguousarray((X - X.mean(axis=0)) / X.std(axis=0))

    return load
