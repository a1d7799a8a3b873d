"""Killing the service at any moment loses no acknowledged change and serves no cell below k."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from microcell.locations import Anonymizer
from tests.locations.reading import read_database

KEY = bytes(range(32))
K = 4

LIVE = """
import json, sys, threading
import numpy as np
from microcell.locations import Anonymizer

database, seed = sys.argv[1], int(sys.argv[2])
service = Anonymizer.open(database, 4, key=bytes(range(32)), share=0.05, period=0.2)
rng = np.random.default_rng(seed)
known = json.loads(sys.stdin.readline())

def report(*words):
    sys.stdout.write(json.dumps(words) + "\\n")
    sys.stdout.flush()

report("ready")
while True:
    turn = rng.random()
    if turn < 0.6 or len(known) < 8:
        account = service.sign_up(*rng.normal([41.4, 2.2], 0.1))
        known.append([account.pseudonym, account.token])
        report("in", account.pseudonym, account.token)
    elif turn < 0.85:
        name, token = known.pop(int(rng.integers(len(known))))
        report("leaving", name)
        service.cancel(name, token)
        report("out", name)
    elif turn < 0.9:
        service.publish()
    else:
        name, token = known[int(rng.integers(len(known)))]
        service.move(name, token, *rng.normal([41.4, 2.2], 0.1))
"""


def run_and_kill(database, seed, accounts, lines, seconds):
    """Run a service that reports acknowledged changes, kill it, and return its reports."""
    child = subprocess.Popen(
        [sys.executable, "-c", LIVE, database, str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    child.stdin.write(json.dumps(accounts) + "\n")
    child.stdin.flush()
    assert json.loads(child.stdout.readline()) == ["ready"]
    output = "".join(child.stdout.readline() for _ in range(lines))
    time.sleep(seconds)
    os.kill(child.pid, signal.SIGKILL)
    output += child.stdout.read()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    assert child.returncode == -signal.SIGKILL
    return [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_nothing_acknowledged_is_lost_when_the_service_is_killed(new_database):
    database, rng = new_database(), random.Random(0)
    present, maybe = {}, set()
    for turn in range(3):
        accounts = [[name, token] for name, token in present.items() if name not in maybe]
        for action, name, *token in run_and_kill(
            database, turn, accounts, 20, rng.uniform(0.0, 0.1)
        ):
            if action == "in":
                present[name] = token[0]
            elif action == "leaving":
                maybe.add(name)
            else:
                maybe.discard(name)
                del present[name]
        service = reopen(database)
        placed = dict(service.placements())
        assert {name for name in present if name not in maybe} <= set(placed)
        for name, token in present.items():
            if name in placed:
                assert service.look_up(name, token).location == placed[name]
        users = Counter(placed.values())
        assert all(count >= K for place, count in users.items() if place is not None)
        service.close()
        sizes = Counter(read_database(database).cell_of.values())
        assert all(count >= K for cell, count in sizes.items() if cell is not None)
        for name in maybe:
            present.pop(name)  # its cancellation was pending: either outcome is right
        maybe.clear()
    assert len(present) >= K


def reopen(database):
    """Reopen the service; the database may need a moment to notice that the process is gone."""
    until = time.monotonic() + 60
    while True:
        try:
            return Anonymizer.open(database, K, key=KEY, background=False)
        except Exception:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
