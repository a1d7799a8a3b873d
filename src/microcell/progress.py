"""Progress reports of long-running work.

Code that takes long calls :func:`report`; an interface subscribes with :func:`listen`. Without a
listener a report costs next to nothing. Reports contain task names and counts, never data.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["COMPILING", "COMPILING_ALWAYS", "Listener", "listen", "report"]

Listener = Callable[[str, int, int], None]
"""Called with the task, the number of steps done and the total (0 if unknown)."""

COMPILING = "compiling kernels (first run on this machine only)"
"""The task reported while kernels are compiled, which makes a first run slow."""

COMPILING_ALWAYS = "compiling kernels (on every run, set NUMBA_CACHE_DIR to a writable directory)"
"""The task reported instead if compiled kernels cannot be stored."""

_listener: ContextVar[Listener | None] = ContextVar("microcell_progress", default=None)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Send the progress reports of the ``with`` block to ``listener``.

    Examples
    --------
    >>> with listen(lambda task, done, total: print(task, done, total)):
    ...     report("grouping records", 3, 10)
    grouping records 3 10
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(task: str, done: int = 0, total: int = 0) -> None:
    """Report that ``done`` of ``total`` steps of ``task`` are finished."""
    listener = _listener.get()
    if listener is not None:
        listener(task, done, total)
