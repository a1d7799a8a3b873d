"""Progress of long work, told to whoever listens.

Work announces itself by :func:`report`; a face listens with :func:`listen`. Nobody listening costs nothing, and the
work never knows who listens. Reports carry counts and words, never data.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Listener", "listen", "report"]

Listener = Callable[[str, int, int], None]
"""Called with what is being done, how much is done and how much there is (0: not known)."""

_listener: ContextVar[Listener | None] = ContextVar("microcell_progress", default=None)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Let ``listener`` hear the reports of everything that runs inside the ``with`` block.

    Examples
    --------
    >>> with listen(lambda task, done, total: print(task, done, total)):
    ...     report("grouping", 3, 10)
    grouping 3 10
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(task: str, done: int = 0, total: int = 0) -> None:
    """Tell the listener, if there is one, that ``done`` of ``total`` steps of ``task`` are finished."""
    listener = _listener.get()
    if listener is not None:
        listener(task, done, total)
