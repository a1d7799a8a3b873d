"""Something looked after now and then, on a thread of its own."""

import threading
from collections.abc import Callable

__all__ = ["Watch"]

BEAT = 5.0
"""Seconds between two looks."""


class Watch:
    """Calls ``look`` every few seconds, from :meth:`start` until :meth:`stop`; look must not raise.

    Examples
    --------
    >>> seen = threading.Event()
    >>> watch = Watch(seen.set, beat=0.001)
    >>> watch.start()
    >>> seen.wait(60)
    True
    >>> watch.stop()
    """

    def __init__(self, look: Callable[[], None], *, beat: float | None = None) -> None:
        self._look, self._beat = look, BEAT if beat is None else beat
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more; return when a look under way has ended."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._ended.wait(self._beat):
            self._look()
