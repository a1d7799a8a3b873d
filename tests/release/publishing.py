"""Publish a release or a data set, also in a process that is stopped on the way."""

import os
import resource
import signal

import numpy as np

import microcell as mc
from microcell.dask import folders
from microcell.release.manifest import manifest_path

PEOPLE = {"age": np.arange(40) % 23 + 20, "income": np.arange(40)}
SCHEMA = mc.Schema(quasi=["age"], confidential=["income"])
FILES = ("out.csv", "out.html", "out.pdf", "out.json", "out.csv.manifest.json")
"""The files of a release, in the order of their renames."""


def publish(folder, k):
    release = mc.anonymize(PEOPLE, SCHEMA, k=k, method="mdav", cells=True)
    table, report, certificate, cells = (folder / name for name in FILES[:4])
    release.publish(table, report=report, certificate=certificate, cells=cells)


def publish_dataset(folder, k):
    """Commit a directory as a job does, without its engine."""
    release = mc.anonymize(PEOPLE, SCHEMA, k=k, method="mdav")
    with folders.Folders(folder / "out", None) as job:
        part = job.target / "part-000000.parquet"
        manifest = release.publish(part).manifest
        manifest_path(part).unlink()
        job.commit((part.name,), manifest.to_json(), True, digest=manifest.output.sha256)


def before_renames(act):
    """Call ``act`` with the number of the rename before each one; return how to undo this."""
    number = 0
    saved = os.replace, os.rename, folders._exchange

    def watched(call):
        def run(*arguments):
            nonlocal number
            number += 1
            act(number - 1)
            return call(*arguments)

        return run

    os.replace, os.rename, folders._exchange = map(watched, saved)

    def undo():
        os.replace, os.rename, folders._exchange = saved

    return undo


def stop(how, at):
    """Kill or interrupt this process before rename number ``at``, or limit the size of files."""
    if how == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (at, at))
        return
    number = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}[how]
    before_renames(lambda rename: os.kill(os.getpid(), number) if rename == at else None)


def publish_stopped(folder, k, how, at):
    """Publish in this process, which is stopped on the way."""
    stop(how, at)
    publish(folder, k)
