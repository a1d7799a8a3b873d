"""How much a kernel does before it comes back, so that progress shows and Ctrl-C is heard; and on how many threads.

Threads that wait for each other thousands of times a second are slower than one where other programs use the machine.
So both are tried, and the faster one is used, until the other, tried again now and then, overtakes it. Results never
depend on either.
"""

from dataclasses import dataclass
from time import monotonic

__all__ = ["Pace", "Turn"]

_SECONDS = 0.25
_TRIALS = 6
"""So many turns go to one and to all threads by turns."""

_TRY_AGAIN = 12
"""After so many turns the slower number of threads is tried again."""


@dataclass(frozen=True)
class Turn:
    """What to do next: so many rounds, on so many threads."""

    rounds: int
    threads: int


class Pace:
    """Turns that take about a quarter of a second each."""

    def __init__(self, threads: int) -> None:
        self._speed = dict.fromkeys((1, threads), 0.0)
        self._turns = 0
        self._turn = Turn(0, 1)
        self._started = 0.0

    def next(self) -> Turn:
        """The next turn: few rounds at first, then as many as the speed of the last ones allows."""
        now = monotonic()
        if self._turn.rounds:
            self._speed[self._turn.threads] = self._turn.rounds / max(now - self._started, 1e-4)
        threads = self._choose()
        trial = self._turns < _TRIALS or threads != self._fastest()
        seconds = _SECONDS / 16 if trial else _SECONDS
        rounds = max(1, min(4 * max(self._turn.rounds, 1), int(self._speed[threads] * seconds) or 4))
        self._turns += 1
        self._turn, self._started = Turn(rounds, threads), now
        return self._turn

    def _fastest(self) -> int:
        return max(self._speed, key=self._speed.__getitem__)

    def _choose(self) -> int:
        if self._turns < _TRIALS:  # the first measurements are of starting up
            return list(self._speed)[self._turns % len(self._speed)]
        if self._turns % _TRY_AGAIN == 0:
            return min(self._speed, key=self._speed.__getitem__)
        return self._fastest()
