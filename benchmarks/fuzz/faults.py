"""Interrupted runs: kills, Ctrl-C, full and read-only disks while a release is replaced."""

import errno
import os
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from polars.exceptions import PanicException

import microcell as mc
from benchmarks.fuzz.cases import Case
from benchmarks.fuzz.recount import (
    anonymize,
    check,
    check_digests,
    check_refusal,
    outputs,
    publish,
    recount,
)
from benchmarks.fuzz.sources import make_source
from microcell.errors import TableError

__all__ = ["FAULTS", "run_with_fault"]


def run_with_fault(case: Case, folder: Path) -> str:
    """Publish a release, let its replacement fail, and check what is left.

    In every case the folder has the old release, or the new one, or a set that every reader
    rejects; after a second attempt it has the new one. Nothing else is left in it.
    """
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    source = make_source(case, folder / "in")
    output = folder / "out" / f"release{case.suffix}"
    rng = random.Random(case.seed + 1)
    other = replace(case, settings=case.settings | {"order_key": "0" * 32}, fault="")
    other = replace(other, publish=case.publish | {"keep_order": False})
    try:
        if rng.random() < 0.7:
            publish(anonymize(other, source), other, output)
        release = anonymize(case, source)
        FAULTS[case.fault](case, release, output, rng)
        release = publish(anonymize(case, source), case, output)
    except mc.MicrocellError as error:
        check_refusal(case, error)
        check(not set(_contents(output.parent)) - set(outputs(case)), "a refusal leaves no file")
        return error.code
    check(set(_contents(output.parent)) == set(outputs(case)), "a second attempt is complete")
    recount(case, release, output)
    return f"released after {case.fault}"


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _state(case: Case, output: Path, old: dict[str, bytes]) -> str:
    """Return "old", "new" or "incomplete", and check that readers see it the same way."""
    now = {name: data for name, data in _contents(output.parent).items() if name in outputs(case)}
    if now == old:
        check(_is_accepted(output) or not old, "the old release is still accepted")
        return "old"
    if not output.exists():
        return "incomplete"
    try:
        check_digests(case, output)
    except (AssertionError, OSError):
        check(not _is_accepted(output), "a set that does not belong together is rejected")
        return "incomplete"
    check(_is_accepted(output), "a complete set is accepted")
    return "new"


def _is_accepted(output: Path) -> bool:
    try:
        return mc.find_manifest(None, output) is not None
    except TableError as error:
        check(error.code == "table.incomplete", f"recognized as incomplete, not {error.code}")
        return False


def _check_clean(case: Case, output: Path) -> None:
    extra = set(_contents(output.parent)) - set(outputs(case))
    check(not extra, f"no temporary file is left: {sorted(extra)}")


# ------------------------------------------------------------------------------------------ faults


def _kill(case: Case, release: Any, output: Path, _: random.Random) -> None:
    """Copy the folder before each rename: that is what a process killed there leaves."""
    old = _contents(output.parent)
    copies: list[Path] = []

    def copy(number: int) -> None:
        copies.append(output.parent.with_name(f"copy{number}"))
        shutil.copytree(output.parent, copies[-1])

    with _before_renames(copy):
        publish(release, case, output)
    check(len(copies) == len(outputs(case)), "one rename per file")
    for number, copy_folder in enumerate(copies):
        copied = copy_folder / output.name
        state = _state(case, copied, old)
        # A table that did not change is still the old one after its rename.
        check(state in ("old", "incomplete"), f"{state} at rename {number}")
        check(state == "old" or number > 0, "nothing changes before the first rename")
        again = publish(release, case, copied)
        _check_clean(case, copied)
        recount(case, again, copied)


def _rename(case: Case, release: Any, output: Path, rng: random.Random) -> None:
    """Let a rename fail, as on a disk with errors."""
    old = _contents(output.parent)
    at = rng.randrange(len(outputs(case)))

    def fail(number: int) -> None:
        if number == at:
            raise OSError(errno.EIO, "input/output error")

    with _before_renames(fail):
        _attempt(lambda: publish(release, case, output))
    check(_state(case, output, old) in ("old", "incomplete"), f"rename {at} failed")
    _check_clean(case, output)


@contextmanager
def _before_renames(act: Callable[[int], None]) -> Iterator[None]:
    rename, number = os.replace, 0

    def watched(*arguments: Any) -> None:
        nonlocal number
        number += 1
        act(number - 1)
        rename(*arguments)

    os.replace = watched
    try:
        yield
    finally:
        os.replace = rename


def _interrupt(case: Case, release: Any, output: Path, rng: random.Random) -> None:
    """Press Ctrl-C at a random call of a function."""
    old = _contents(output.parent)
    at = int(10 ** rng.uniform(2, 4.1))
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls == at:
            calls += 1
            signal.raise_signal(signal.SIGINT)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.setprofile(count)
        publish(release, case, output)
        sys.setprofile(None)
    except (KeyboardInterrupt, PanicException):
        pass  # polars panics if a function that it calls is interrupted
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGINT, handler)
    check(_state(case, output, old) in ("old", "new"), f"half a set after Ctrl-C at call {at}")
    _check_clean(case, output)


def _full(case: Case, release: Any, output: Path, rng: random.Random) -> None:
    """Limit the size of files, which has the effect of a full disk."""
    old = _contents(output.parent)
    size = int(10 ** rng.uniform(0, 4.3))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        done = _attempt(lambda: publish(release, case, output))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    check(_state(case, output, old) == ("new" if done else "old"), f"files of up to {size} bytes")
    _check_clean(case, output)


def _read_only(case: Case, release: Any, output: Path, rng: random.Random) -> None:
    """Let no file be created from some point on."""
    old = _contents(output.parent)
    create, at, number = os.open, rng.randrange(len(outputs(case))), 0

    def refuse(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        nonlocal number
        if flags & os.O_CREAT:
            number += 1
            if number > at:
                raise OSError(errno.EROFS, "read-only file system", str(path))
        return create(path, flags, *arguments, **options)

    os.open = refuse
    try:
        done = _attempt(lambda: publish(release, case, output))
    finally:
        os.open = create
    check(not done and _state(case, output, old) == "old", "a read-only disk keeps the old release")
    _check_clean(case, output)


def _attempt(run: Callable[[], object]) -> bool:
    """Run something that may fail; return whether it succeeded."""
    try:
        run()
    except (OSError, TableError):
        return False
    return True


FAULTS: dict[str, Callable[[Case, Any, Path, random.Random], None]] = {
    "kill": _kill,
    "rename": _rename,
    "interrupt": _interrupt,
    "full": _full,
    "read-only": _read_only,
}
