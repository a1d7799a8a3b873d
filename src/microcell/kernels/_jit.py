"""Compilation of kernels. Only this module, ``_cache`` and ``_build`` import numba.

Kernels come compiled with the package or are compiled on first use (:mod:`._cache`). Fast-math is
off, because results must not depend on how the compiler orders additions.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import event
from numba.core.dispatcher import Dispatcher

from microcell import progress
from microcell.kernels._cache import KernelCache, kernel_name

__all__ = [
    "KERNELS",
    "ZERO",
    "holds",
    "inlined_kernel",
    "inner_kernel",
    "kernel",
    "one_thread",
    "parallel_kernel",
    "prange",
    "predicate",
    "thread_count",
]

Function = TypeVar("Function", bound=Callable[..., Any])

prange = numba.prange

ZERO: int = np.int64(0)  # type: ignore[assignment]
"""An int64 zero for kernel arguments; the type of a literal 0 would trigger a recompilation."""


class _CompileNotice(event.Listener):  # type: ignore[misc]
    """Explain once, when a kernel has to be compiled, why the first run takes longer."""

    reported = False

    def on_start(self, event: Any) -> None:
        """Handle the start of a compilation."""
        if not self.reported:
            self.reported = True
            cache = getattr(event.data["dispatcher"], "_cache", None)
            uncached = isinstance(cache, KernelCache) and cache.disk is None
            progress.report(progress.COMPILING_ALWAYS if uncached else progress.COMPILING)

    def on_end(self, event: Any) -> None:
        """Handle the end of a compilation."""


event.register("numba:compile", _CompileNotice())


KERNELS: dict[str, Any] = {}
"""All kernels that Python code calls, by name. Only imported modules are covered."""


def _compiled(function: Function, **options: Any) -> Function:
    kernel = numba.njit(nogil=True, error_model="numpy", **options)(function)
    if isinstance(kernel, Dispatcher):  # NUMBA_DISABLE_JIT returns the function itself
        kernel._cache = KernelCache(function)  # type: ignore[attr-defined]
    return kernel  # type: ignore[no-any-return]


def kernel(function: Function) -> Function:
    """Compile the function on first use."""
    KERNELS[kernel_name(function)] = compiled = _compiled(function)
    return compiled


def inner_kernel(function: Function) -> Function:
    """Compile a function that only other kernels call, without a Python wrapper."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined_kernel(function: Function) -> Function:
    """Compile a function that is inlined into other kernels, as calls with many arrays are slow."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


_PREDICATE = types.int64(types.CPointer(types.float64), types.int64, types.int64)
_predicates: list[Any] = []
"""All compiled predicates, because their addresses are valid only as long as they exist."""


def predicate(function: Callable[[Any], bool]) -> int:
    """Compile a condition on a matrix and return its address, for :func:`holds`.

    Kernels accept an address without being compiled again.
    """
    inner = numba.njit(types.boolean(types.float64[:, ::1]), error_model="numpy")(function)

    def ask(values: Any, rows: int, columns: int) -> int:
        return int(inner(numba.carray(values, (rows, columns))))

    _predicates.append(numba.cfunc(_PREDICATE)(ask))
    return int(_predicates[-1].address)


@extending.intrinsic  # type: ignore[untyped-decorator]
def holds(typing: Any, address: Any, values: Any, rows: Any, columns: Any) -> Any:  # noqa: ARG001
    """Return whether (1 or 0) the predicate at the address is true of a matrix, given its data."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        integer = ir.IntType(64)
        matrix = ir.DoubleType().as_pointer()
        function = ir.FunctionType(integer, [matrix, integer, integer])
        pointer = builder.inttoptr(arguments[0], function.as_pointer())
        values = builder.inttoptr(arguments[1], matrix)
        return builder.call(pointer, [values, *arguments[2:]])

    return types.int64(types.int64, types.int64, types.int64, types.int64), generate


def parallel_kernel(function: Function) -> Function:
    """Compile the function on first use; its ``prange`` loops run on several threads."""
    KERNELS[kernel_name(function)] = compiled = _compiled(function, parallel=True)
    return compiled


_single_threaded: ContextVar[bool] = ContextVar("microcell_one_thread", default=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread inside the ``with`` block, for tasks that run in parallel with each other."""
    numba.get_num_threads()  # start numba's threads before kernels are called from several threads
    token = _single_threaded.set(True)
    try:
        yield
    finally:
        _single_threaded.reset(token)


def thread_count() -> int:
    """Return the number of threads that parallel kernels use."""
    return 1 if _single_threaded.get() else int(numba.get_num_threads())
