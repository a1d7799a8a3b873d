"""Call a function periodically in a thread."""

import threading
from collections.abc import Callable

__all__ = ["Watch"]

WATCH_INTERVAL = 5.0
"""Seconds between two checks of the database connection."""


class Watch:
    """Call a function periodically in a thread; the function must not raise.

    Examples
    --------
    >>> called = threading.Event()
    >>> watch = Watch(called.set, interval=0.001)
    >>> watch.start()
    >>> called.wait(60)
    True
    >>> watch.stop()
    """

    def __init__(self, function: Callable[[], None], *, interval: float | None = None) -> None:
        self._function = function
        self._interval = WATCH_INTERVAL if interval is None else interval
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start calling the function."""
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop calling the function, and wait for a call that is running."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            self._function()
