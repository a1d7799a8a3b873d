"""What several tests share: the classic data sets, where they are to be had."""

import os
from pathlib import Path

import numpy as np
import pytest

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
