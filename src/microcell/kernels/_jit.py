"""How kernels are compiled: the one file that names numba.

Kernels compile on first use and are kept on disk, so a machine compiles them once. No fast-math: results must not
depend on how the compiler orders additions.
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
"""For arguments of kernels: a bare 0 has a type of its own, for which the kernel would be compiled once more."""


class _CompileNotice(event.Listener):  # type: ignore[misc]
    """Says once, when the first kernel is really compiled and not loaded from disk, why the first run takes longer."""

    told = False

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        """A compilation begins."""
        if not self.told:
            self.told = True
            progress.report(progress.COMPILING)

    def on_end(self, event: Any) -> None:
        """A compilation ends: nothing to tell."""


event.register("numba:compile", _CompileNotice())


def _compiled(function: Function, **options: Any) -> Function:
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder that numba could keep its files in: compile in memory
        return numba.njit(nogil=True, error_model="numpy", **options)(function)  # type: ignore[no-any-return]


def kernel(function: Function) -> Function:
    """The function, compiled on first use."""
    return _compiled(function)


def inner_kernel(function: Function) -> Function:
    """The function, for other kernels only: without the ways in from Python, which take long to compile."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined_kernel(function: Function) -> Function:
    """The function, for other kernels only, laid into them: a call with many arrays costs more than a short sum."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


_PREDICATE = types.boolean(types.CPointer(types.float64), types.int64, types.int64)


def predicate(function: Callable[[Any], bool]) -> Any:
    """The function of a matrix, as a condition that kernels can be given: they are not compiled anew for each."""
    inner = numba.njit(error_model="numpy")(function)

    def ask(values: Any, rows: int, columns: int) -> Any:
        return inner(numba.carray(values, (rows, columns)))

    return numba.cfunc(_PREDICATE)(ask)


def parallel_kernel(function: Function) -> Function:
    """The function, compiled on first use, its ``prange`` loops shared among threads."""
    return _compiled(function, parallel=True)


_alone: ContextVar[bool] = ContextVar("microcell_one_thread", default=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let what runs inside the ``with`` block use one thread: for work of which several pieces run side by side."""
    numba.get_num_threads()  # the threads must be there before kernels are called from several
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def thread_count() -> int:
    """The number of threads that parallel kernels use."""
    return 1 if _alone.get() else int(numba.get_num_threads())
