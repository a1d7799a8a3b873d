"""Calculations in processes of their own."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from microcell.errors import MicrocellError, ServiceError
from microcell.locations.clustering import to_points
from microcell.locations.worker import Apart

NOISY = """
import os
import microcell.locations.worker as apart

def add(one, other):
    print("noise")
    os.write(1, b"more noise")
    return one + other

apart.task_of = lambda name: {"add": add}[name]
apart.main()
"""


def test_what_a_task_prints_does_not_damage_its_outcome():
    task = pickle.dumps(("add", (1,), {"other": 2}))
    done = subprocess.run(
        [sys.executable, "-c", NOISY], input=task, capture_output=True, check=True
    )
    assert pickle.loads(done.stdout) == 3
    assert b"more noise" in done.stderr


def test_outcomes_and_refusals_come_back():
    apart = Apart()
    points = to_points(np.array([40.0, 40.1, 50.0, 50.1]), np.array([2.0, 2.0, 3.0, 3.0]))
    clustering, cells = apart.run("cluster", points, 2)
    assert (clustering.assign(points) == cells).all()
    with pytest.raises(MicrocellError):
        apart.run("cluster", points, 9)
    apart.stop()
    with pytest.raises(ServiceError, match="closing"):
        apart.run("cluster", points, 2)
