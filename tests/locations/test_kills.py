"""A service that is killed at any moment: what it acknowledged is there again, and no cell under k is served."""

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
service = Anonymizer.open(database, 4, key=bytes(range(32)), share=0.05)
chance = np.random.default_rng(seed)
known = json.loads(sys.stdin.readline())

def tell(*words):
    sys.stdout.write(json.dumps(words) + "\\n")
    sys.stdout.flush()

tell("ready")
while True:
    turn = chance.random()
    if turn < 0.6 or len(known) < 8:
        account = service.sign_up(*chance.normal([41.4, 2.2], 0.1))
        known.append([account.pseudonym, account.token])
        tell("in", account.pseudonym, account.token)
    elif turn < 0.85:
        name, token = known.pop(int(chance.integers(len(known))))
        tell("leaving", name)
        service.cancel(name, token)
        tell("out", name)
    elif turn < 0.9:
        service.rebuild(wait=True)
    else:
        name, token = known[int(chance.integers(len(known)))]
        service.move(name, token, *chance.normal([41.4, 2.2], 0.1))
"""


def live_and_die(database, seed, known, lines, seconds):
    """Run a service that tells what it acknowledged, kill it, and return what it told."""
    child = subprocess.Popen(
        [sys.executable, "-c", LIVE, database, str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    child.stdin.write(json.dumps(known) + "\n")
    child.stdin.flush()
    assert json.loads(child.stdout.readline()) == ["ready"]
    told = "".join(child.stdout.readline() for _ in range(lines))
    time.sleep(seconds)
    os.kill(child.pid, signal.SIGKILL)
    told += child.stdout.read()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    assert child.returncode == -signal.SIGKILL
    return [json.loads(line) for line in told.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_nothing_acknowledged_is_lost_when_the_service_is_killed(new_database):
    database, chance = new_database(), random.Random(0)
    present, maybe = {}, set()
    for turn in range(5):
        known = [[name, token] for name, token in present.items() if name not in maybe]
        for what, name, *token in live_and_die(database, turn, known, 20, chance.uniform(0.0, 0.1)):
            if what == "in":
                present[name] = token[0]
            elif what == "leaving":
                maybe.add(name)
            else:
                maybe.discard(name)
                del present[name]
        service = open_again(database)
        placed = dict(service.placements())
        assert {name for name in present if name not in maybe} <= set(placed)
        for name, token in present.items():
            if name in placed:
                assert service.look_up(name, token) == placed[name]
        users = Counter(placed.values())
        assert all(count >= K for place, count in users.items() if place is not None)
        service.close()
        sizes = Counter(read_database(database).cell_of.values())
        assert all(count >= K for cell, count in sizes.items() if cell is not None)
        for name in maybe:
            present.pop(name)  # it was asked to go: both ends are right
        maybe.clear()
    assert len(present) >= K


def open_again(database):
    """The service again; the database may need a moment to notice that the other is gone."""
    until = time.monotonic() + 60
    while True:
        try:
            return Anonymizer.open(database, K, key=KEY, background=False)
        except Exception:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
