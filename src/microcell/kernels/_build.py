"""Compile kernels ahead of time: for the archive in a wheel, or into the cache of this machine.

``signatures.txt`` lists every kernel that Python code calls, with the types of its arguments, so
nothing has to run to compile them. ``python -m microcell.kernels._build FOLDER`` writes an
archive for the baseline CPU; the build of a wheel calls it.
"""

import argparse
import importlib
import json
import os
import pkgutil
import sys
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from numba import types
from numba.core.caching import NullCache

import microcell.kernels
from microcell.kernels._cache import (
    ABOUT,
    Baseline,
    archive_name,
    baseline,
    entry_name,
    open_archive,
    pack,
    source_stamp,
)
from microcell.kernels._jit import KERNELS

__all__ = [
    "ESSENTIAL",
    "build_archive",
    "compile_here",
    "import_kernels",
    "not_shipped",
    "parse",
    "read_signatures",
    "usable_cpus",
]

ESSENTIAL = "essential"
"""Section of ``signatures.txt``: the kernels that ``anonymize`` and ``audit`` use by default."""

_SPAWN = get_context("spawn")  # a forked process would inherit numba's locks and threads
_LIST = Path(__file__).with_name("signatures.txt")


def read_signatures(section: str | None = None) -> list[str]:
    """Return the kernels listed in one section of ``signatures.txt``, or in all of them."""
    lines: dict[str, list[str]] = {}
    current = ""
    for line in _LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif line and not line.startswith("#"):
            lines.setdefault(current, []).append(line)
    return lines[section] if section else [line for group in lines.values() for line in group]


def import_kernels() -> None:
    """Import all modules with kernels."""
    for module in pkgutil.iter_modules(microcell.kernels.__path__, "microcell.kernels."):
        if not module.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(module.name)


def parse(line: str) -> tuple[str, tuple[Any, ...]]:
    """Return the name of a kernel and the types of its arguments."""
    name, _, arguments = line.partition("(")
    types: tuple[Any, ...] = eval(f"({arguments.removesuffix(')')},)", dict(_type_names()))
    return name, types


@cache
def _type_names() -> dict[str, Any]:
    """Return the names that the expressions in ``signatures.txt`` may use."""
    import_kernels()
    names = {
        name: getattr(types, name) for name in ("int32", "int64", "uint64", "float32", "float64")
    }
    names |= {"bool": types.boolean, "readonly": lambda array: array.copy(readonly=True)}
    for module in list(sys.modules.values()):
        if module.__name__.startswith("microcell.kernels."):
            for name, value in vars(module).items():
                if isinstance(value, type) and hasattr(value, "_fields"):
                    names[name] = _tuple_type(value)
    return names


def _tuple_type(named_tuple: type) -> Any:
    return lambda *fields: types.BaseTuple.from_types(fields, named_tuple)


def _compile(line: str) -> Any:
    name, arguments = parse(line)
    kernel = KERNELS[name]
    kernel.compile(arguments)
    return kernel.overloads[arguments]


def _compile_to_cache(line: str) -> None:
    _compile(line)


def _compile_to_bytes(line: str) -> tuple[str, bytes]:
    name, arguments = parse(line)
    return entry_name(name, arguments), pack(_compile(line))


def _forget_caches() -> None:
    """Clear the caches of a worker, because numba cannot save a kernel that it has loaded."""
    import_kernels()
    for kernel in KERNELS.values():
        kernel._cache = NullCache()


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def not_shipped(lines: Sequence[str]) -> list[str]:
    """Return the kernels that the package does not contain for this machine."""
    archive = open_archive()
    return [line for line in lines if archive is None or not archive.contains(line)]


def compile_here(lines: Sequence[str], jobs: int) -> Iterator[None]:
    """Compile kernels into this machine's cache in ``jobs`` processes, and yield after each one."""
    if not lines:
        return
    with ProcessPoolExecutor(jobs, mp_context=_SPAWN) as pool:
        yield from pool.map(_compile_to_cache, lines)


def _contents(cpu: Baseline) -> dict[str, Any]:
    """Return the description of an archive of all kernels, which determines its contents."""
    lines = read_signatures()
    modules = sorted({line.partition(".")[0] for line in lines})
    return {
        "cpu": cpu.cpu,
        "features": sorted(cpu.features),
        "stamps": {module: source_stamp(module) for module in modules},
        "kernels": lines,
    }


def _is_current(path: Path, about: dict[str, Any]) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(json.loads(archive.read(ABOUT)) == about)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return False


def _write_archive(path: Path, about: dict[str, Any], jobs: int) -> None:
    """Compile all kernels for the CPU that the environment names, and write an archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    with (
        ProcessPoolExecutor(jobs, mp_context=_SPAWN, initializer=_forget_caches) as pool,
        zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
    ):
        archive.writestr(ABOUT, json.dumps(about, indent=2))
        for name, content in pool.map(_compile_to_bytes, about["kernels"]):
            archive.writestr(name, content)
    unfinished.replace(path)


@contextmanager
def _environment(cpu: Baseline) -> Iterator[None]:
    """Select the baseline CPU for the processes started in the ``with`` block."""
    before = dict(os.environ)
    with TemporaryDirectory() as cache:
        os.environ |= {
            "NUMBA_CPU_NAME": cpu.cpu,
            "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in sorted(cpu.features)),
            "NUMBA_DISABLE_INTEL_SVML": "1",  # its functions exist only where icc_rt is installed
            "NUMBA_CACHE_DIR": cache,
        }
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def build_archive(folder: Path, jobs: int) -> Path:
    """Write the archive for this version of Python and numba, unless it already exists."""
    cpu = baseline()
    if cpu is None:
        sys.exit("microcell has no baseline CPU for this architecture; build a pure wheel.")
    path, about = folder / archive_name(), _contents(cpu)
    if not _is_current(path, about):
        with _environment(cpu):
            _write_archive(path, about, jobs)
    return path


def _main() -> None:
    parser = argparse.ArgumentParser(description="Write an archive of compiled kernels.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=usable_cpus())
    options = parser.parse_args()
    print(build_archive(options.folder, options.jobs))  # noqa: T201


if __name__ == "__main__":
    _main()
