"""Computations in worker processes."""

import pickle
import subprocess
import sys

import numpy as np

from microcell.errors import ServiceError, TooFewRecordsError
from microcell.locations.clustering import to_points
from microcell.locations.scenarios import what_if
from microcell.locations.worker import Worker
from tests.raising import raises

NOISY = """
import os
import microcell.locations.worker as worker

def add(one, other):
    print("noise")
    os.write(1, b"more noise")
    return one + other

worker.load_task = lambda name: {"add": add}[name]
worker.main()
"""


def test_output_printed_by_a_task_does_not_corrupt_its_result():
    task = pickle.dumps(("add", (1,), {"other": 2}))
    done = subprocess.run(
        [sys.executable, "-c", NOISY], input=task, capture_output=True, check=True
    )
    assert pickle.loads(done.stdout) == 3
    assert b"more noise" in done.stderr


def test_results_and_errors_are_returned():
    worker = Worker()
    points = to_points(np.array([40.0, 40.1, 50.0, 50.1]), np.array([2.0, 2.0, 3.0, 3.0]))
    assert worker.run("what_if", points, 2) == what_if(points, 2)
    with raises(TooFewRecordsError, "guarantee.too_few_records", k=9):
        worker.run("what_if", points, 9)
    worker.stop()
    with raises(ServiceError, "service.unavailable"):
        worker.run("what_if", points, 2)
