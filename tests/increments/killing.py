"""Worker process that runs steps of a session in child processes and kills them.

Reads one line of JSON per step: the folder, the step, and either ``at`` (the system call before
which the child kills itself; -1 for never) or ``after`` (the seconds after which it is killed).
Answers with how the child ended and how many of these calls it made.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import microcell as mc
from microcell.methods import add_batch

CALLS = ("open", "fsync", "replace", "unlink", "ftruncate")


def warm_up():
    """Load all modules and kernels without starting threads, so that forking is safe."""
    assert mc.increments.StoredSession
    assert mc.publish
    points = np.random.default_rng(0).normal(size=(60, 2))
    labels = mc.partition(points[:40], 3, method="mdav").labels
    for strategy in ("refined", "nearest"):
        joined = add_batch(points[:40], labels, points[40:], 3, strategy=strategy).labels
    mc.distortion(points, joined)


def watch(at, pipe):
    """Make this process kill itself before call number ``at``; report calls through the pipe."""
    n_calls = 0

    def watched(call):
        def run(*arguments, **options):
            nonlocal n_calls
            if n_calls == at:
                os.kill(os.getpid(), signal.SIGKILL)
            n_calls += 1
            os.write(pipe, b".")
            return call(*arguments, **options)

        return run

    for name in CALLS:
        setattr(os, name, watched(getattr(os, name)))


def run_step(step):
    folder = Path(step["folder"])
    if step["step"] == "start":
        schema = mc.Schema(quasi=["x", "y"], keep=["id"])
        mc.increments.StoredSession.create(
            folder / "state", folder / "base.parquet", schema, 3, method="mdav"
        )
    elif step["step"] == "add":
        mc.increments.StoredSession(folder / "state").add(
            folder / "batch.parquet", strategy=step["strategy"]
        )
    else:
        release = mc.increments.StoredSession(folder / "state").finish(suffix=".csv")
        mc.publish(release, folder / "out.csv")


def run_in_child(step):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            watch(step.get("at", -1), writing)
            run_step(step)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    if "after" in step:
        time.sleep(step["after"])
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    calls = 0
    while chunk := os.read(reading, 65536):
        calls += len(chunk)
    os.close(reading)
    return {
        "killed": os.WIFSIGNALED(status),
        "code": os.waitstatus_to_exitcode(status),
        "calls": calls,
    }


if __name__ == "__main__":
    warm_up()
    for line in sys.stdin:
        print(json.dumps(run_in_child(json.loads(line))), flush=True)
