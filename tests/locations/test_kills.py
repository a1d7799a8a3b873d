"""Killing the service at any moment loses no acknowledged change and serves no cell below k."""

import json
import random
import signal
import time
from collections import Counter

import pytest

from microcell.locations import Anonymizer
from tests.locations.reading import read_database
from tests.processes import Process

KEY = bytes(range(32))
K = 4


def run_and_kill(database, seed, accounts, lines, seconds):
    """Run a service that reports acknowledged changes, kill it, and return its reports."""
    child = Process("tests.locations.living.live", database, seed, accounts)
    assert json.loads(child.stdout.readline()) == ["ready"]
    output = "".join(child.stdout.readline() for _ in range(lines))
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate()
    assert child.returncode == -signal.SIGKILL
    reports = (output + rest).splitlines(keepends=True)
    return [json.loads(line) for line in reports if line.endswith("\n")]


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
