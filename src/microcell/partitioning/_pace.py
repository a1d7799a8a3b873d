"""How much a kernel does before it comes back, so that progress shows and Ctrl-C is heard."""

from time import monotonic

__all__ = ["Pace"]


class Pace:
    """Numbers of rounds that each take about ``seconds``; results never depend on them."""

    def __init__(self, seconds: float = 0.25) -> None:
        self._seconds = seconds
        self._rounds = 0
        self._started = 0.0

    def next(self) -> int:
        """The number of rounds to do next: few at first, then by how long the last ones took."""
        now = monotonic()
        if self._rounds == 0:
            self._rounds = 4
        else:
            took = max(now - self._started, 1e-4)
            self._rounds = max(1, min(4 * self._rounds, int(self._rounds * self._seconds / took)))
        self._started = now
        return self._rounds
