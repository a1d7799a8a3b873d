"""Machine code of kernels: from the package, from a cache on disk, or from the compiler.

A wheel for one platform contains an archive with the object code that numba would store in its own
cache, compiled for a baseline CPU. The archive is used if the versions of Python, numba and
llvmlite, the sources of the kernels and the CPU all fit. Otherwise a kernel is compiled on first
use and cached on disk, in ``NUMBA_CACHE_DIR``, the package or the user's cache directory.
"""

import hashlib
import io
import json
import os
import pickle
import platform
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
from llvmlite import binding
from numba import types
from numba.core import config, serialize
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys

__all__ = [
    "ABOUT",
    "FOLDER",
    "Baseline",
    "KernelCache",
    "archive_name",
    "baseline",
    "describe",
    "entry_name",
    "kernel_name",
    "open_archive",
    "pack",
    "source_stamp",
]

FOLDER = Path(__file__).parent / "compiled"
"""Folder of archives. Wheels for a platform contain one; the repository has none."""

ABOUT = "about.json"
"""Entry of an archive that describes the others."""

_IMPORT = re.compile(r"^from microcell\.kernels\.(?!_cache)(\w+) import", re.MULTILINE)


class Baseline(NamedTuple):
    """The oldest CPU that shipped kernels support, by its LLVM name, and the features it needs."""

    cpu: str
    features: frozenset[str]


_X86_64_V3 = Baseline(
    "x86-64-v3",
    frozenset(
        {"avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt"}
        | {"sahf", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"}
    ),
)
_BASELINES = {
    "x86_64": _X86_64_V3,
    "amd64": _X86_64_V3,
    "aarch64": Baseline("generic", frozenset()),
    "arm64": Baseline("apple-m1" if sys.platform == "darwin" else "generic", frozenset()),
}


def baseline() -> Baseline | None:
    """Return the baseline CPU of this architecture, or None if no kernels are shipped for it."""
    return _BASELINES.get(platform.machine().lower())


def archive_name() -> str:
    """Return the file name of the archive for this version of Python, numba and llvmlite."""
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    machine = f"{sys.platform}-{platform.machine().lower()}"
    return f"{python}-numba{numba.__version__}-llvmlite{llvmlite.__version__}-{machine}.zip"


@cache
def source_stamp(module: str) -> str:
    """Return a hash of a kernel module's source and of all kernel modules that it imports."""
    sources: dict[str, bytes] = {}
    left = [module]
    while left:
        name = left.pop()
        if name not in sources:
            sources[name] = (Path(__file__).parent / f"{name}.py").read_bytes()
            left += _IMPORT.findall(sources[name].decode("utf-8"))
    return hashlib.sha256(b"\0".join(sources[name] for name in sorted(sources))).hexdigest()


def kernel_name(function: Callable[..., Any]) -> str:
    """Return the name of a kernel within the package, such as ``mdav.mdav_rounds``."""
    return f"{_module(function)}.{function.__qualname__}"


def _module(function: Callable[..., Any]) -> str:
    return function.__module__.rpartition(".")[2]


def entry_name(name: str, arguments: Iterable[types.Type]) -> str:
    """Return the line of ``signatures.txt`` for a kernel and the types of its arguments."""
    return f"{name}({', '.join(describe(argument) for argument in arguments)})"


def describe(type_: types.Type) -> str:
    """Return a type as an expression, for example ``float64[:,::1]``."""
    if isinstance(type_, types.Array):
        last = "::1" if type_.layout == "C" else ":"
        text = f"{type_.dtype}[{','.join([':'] * (type_.ndim - 1) + [last])}]"
        return text if type_.mutable else f"readonly({text})"
    if isinstance(type_, types.BaseNamedTuple):
        fields = ", ".join(describe(field) for field in type_.types)
        return f"{type_.instance_class.__name__}({fields})"
    return str(type_)


def pack(result: CompileResult) -> bytes:
    """Serialize the object code of a compiled kernel with the data numba needs to load it."""
    # The only text is the annotated source, which nothing reads and which names the build folder.
    parts = tuple("" if isinstance(part, str) else part for part in result._reduce())
    return serialize.dumps(parts)  # type: ignore[no-any-return]


def _prepare(context: Any) -> None:
    """Prepare numba for loading object code.

    ``context.refresh()`` would also load the declarations of all functions that numba can compile,
    which takes longer than everything else in a small run. The compiler calls it by itself.
    """
    rtsys.initialize(context)


class _Archive:
    """Archive of object code compiled for this installation."""

    def __init__(self, content: bytes, stamps: dict[str, str]):
        # In memory, because forked processes would share the position in an open file.
        self._zip = zipfile.ZipFile(io.BytesIO(content))
        self._names = frozenset(self._zip.namelist())
        self._stamps = stamps

    def contains(self, name: str) -> bool:
        """Return whether the entry exists and was compiled from the sources of this package."""
        module = name.partition(".")[0]
        return name in self._names and self._stamps.get(module) == source_stamp(module)

    def load(self, function: Callable[..., Any], signature: Any, context: Any) -> Any:
        """Return the compiled kernel, or None if the archive does not contain it."""
        if not isinstance(signature, tuple):
            return None
        name = entry_name(kernel_name(function), signature)
        if not self.contains(name):
            return None
        try:
            parts = pickle.loads(self._zip.read(name))
        except (zipfile.BadZipFile, zlib.error, pickle.UnpicklingError, ImportError, EOFError):
            return None  # damaged, or from packages that differ in more than their version
        _prepare(context)
        return CompileResult._rebuild(context, *parts)


@cache
def open_archive() -> _Archive | None:
    """Open the archive shipped with the package if it fits, else return None."""
    lowest = baseline()
    if lowest is None or config.CPU_NAME or config.CPU_FEATURES or config.BOUNDSCHECK:
        return None
    if os.environ.get("MICROCELL_KERNELS") == "native":
        return None
    try:
        content = (FOLDER / archive_name()).read_bytes()
        if not lowest.features <= _host_features():
            return None
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            about = json.loads(archive.read(ABOUT))
        return _Archive(content, about["stamps"])
    except (OSError, zipfile.BadZipFile, zlib.error, ValueError, KeyError):
        return None


def _host_features() -> set[str]:
    try:
        return {name for name, present in binding.get_host_cpu_features().items() if present}
    except RuntimeError:  # LLVM does not know this machine
        return set()


class _DiskCache(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, which also notices changes in imported kernel modules."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        self._cache_file = IndexDataCacheFile(
            self._cache_path, self._impl.filename_base, source_stamp(_module(function))
        )

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Load a kernel like numba does, but without the declarations for the compiler."""
        _prepare(context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, context)

    def save_overload(self, signature: Any, result: Any) -> None:
        """Save a compiled kernel if possible; a full or read-only disk must not stop a run."""
        try:
            super().save_overload(signature, result)
        except OSError:
            self.disable()


class KernelCache(NullCache):  # type: ignore[misc]
    """Cache that looks for a kernel in the package, then on disk."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function

    @cached_property
    def disk(self) -> FunctionCache | None:
        """The cache on disk, or None if no directory is writable."""
        try:
            return _DiskCache(self._function)
        except (RuntimeError, OSError):
            return None

    @property
    def cache_path(self) -> str | None:
        """Directory of the cache on disk."""
        return self.disk.cache_path if self.disk else None

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the compiled kernel, or None."""
        archive = open_archive()
        result = archive.load(self._function, signature, context) if archive else None
        if result is None and self.disk is not None:
            result = self.disk.load_overload(signature, context)
        if result is not None:
            # Kernels that are compiled to call this one start the threads it needs when they are
            # loaded. numba forgets that for kernels from a cache, and calling them would crash.
            # Older versions of numba do not have the attribute.
            getattr(result.library, "_reload_init", set()).update(result.reload_init)
        return result

    def save_overload(self, signature: Any, result: Any) -> None:
        """Save a kernel that had to be compiled."""
        if self.disk is not None:
            self.disk.save_overload(signature, result)
