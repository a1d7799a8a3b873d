"""Compilation of kernels: the only module that imports numba.

Kernels are compiled on first use and cached on disk, so a machine compiles them once. Fast-math is
off, because results must not depend on how the compiler orders additions.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba.core import event

from microcell import progress

__all__ = [
    "ZERO",
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
    """Report once, when a kernel is compiled rather than loaded, why the first run takes longer."""

    reported = False

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        """Handle the start of a compilation."""
        if not self.reported:
            self.reported = True
            progress.report(progress.COMPILING)

    def on_end(self, event: Any) -> None:
        """Handle the end of a compilation."""


event.register("numba:compile", _CompileNotice())


def _compiled(function: Function, **options: Any) -> Function:
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba finds no writable cache directory
        return numba.njit(nogil=True, error_model="numpy", **options)(function)  # type: ignore[no-any-return]


def kernel(function: Function) -> Function:
    """Compile the function on first use."""
    return _compiled(function)


def inner_kernel(function: Function) -> Function:
    """Compile a function that only other kernels call, without a Python wrapper."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined_kernel(function: Function) -> Function:
    """Compile a function that is inlined into other kernels, as calls with many arrays are slow."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


_PREDICATE = types.boolean(types.CPointer(types.float64), types.int64, types.int64)


def predicate(function: Callable[[Any], bool]) -> Any:
    """Compile a condition on a matrix into a value that kernels accept as an argument.

    Passing it does not recompile the kernels.
    """
    inner = numba.njit(error_model="numpy")(function)

    def ask(values: Any, rows: int, columns: int) -> Any:
        return inner(numba.carray(values, (rows, columns)))

    return numba.cfunc(_PREDICATE)(ask)


def parallel_kernel(function: Function) -> Function:
    """Compile the function on first use; its ``prange`` loops run on several threads."""
    return _compiled(function, parallel=True)


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
