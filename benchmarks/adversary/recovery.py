"""What an attack recovered, judged against guessing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from typing import Any

import numpy as np

__all__ = ["ALPHA", "Attack", "Trials", "judge"]

ALPHA = 1e-4
"""Guessing exceeds the limit of a judgement with at most this probability."""


@dataclass(frozen=True)
class Attack:
    """An attack: what the attacker knows and reads, and whether a release must resist it.

    ``promised`` is False if the documentation says that the attack works; ``advice`` then says what
    it tells users to do.
    """

    name: str
    knowledge: str
    output: str
    target: str
    baseline: str
    promised: bool = True
    advice: str = ""


@dataclass(frozen=True)
class Trials:
    """Attempts of an attack: whether each succeeded, and how guessing does on the same targets.

    Exactly one of these is given: ``chances``, the exact probability that a guess is right;
    ``guesses``, whether the guess of someone with the same knowledge but without the output was
    right; ``decoys``, whether the attack "recovers" a made-up value of the same kind.
    """

    hits: tuple[bool, ...] = ()
    chances: tuple[float, ...] = ()
    guesses: tuple[bool, ...] = ()
    decoys: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        lengths = [len(item) for item in (self.chances, self.guesses, self.decoys) if item]
        if self.hits and lengths != [len(self.hits)]:
            raise ValueError("one baseline is needed, with one entry per trial")

    @classmethod
    def pool(cls, several: Iterable["Trials"]) -> "Trials":
        """Return all attempts together."""
        listed = list(several)
        names = ("hits", "chances", "guesses", "decoys")
        return cls(
            *(tuple(entry for item in listed for entry in getattr(item, name)) for name in names)
        )


def judge(trials: Trials) -> dict[str, Any]:
    """Return recovered, total, what guessing recovers, and the excess over guessing.

    The excess over what guessing is expected to recover counts only if it is significant: if the
    attack exceeds ``limit``, which guessing does with a probability of at most ``ALPHA``.
    ``p_value`` is the probability that guessing recovers as much or more, ``interval`` the 99 %
    confidence interval (Wilson) of the share recovered.

    Examples
    --------
    >>> judge(Trials((True,) * 20, chances=(0.2,) * 20))["beyond_guessing"]
    16
    >>> judge(Trials((True,) * 5 + (False,) * 15, chances=(0.2,) * 20))["beyond_guessing"]
    0
    """
    recovered = sum(trials.hits)
    if trials.guesses:
        # Only targets on which attack and guess differ tell them apart.
        pairs = list(zip(trials.hits, trials.guesses, strict=True))
        gained = sum(hit and not guess for hit, guess in pairs)
        lost = sum(guess and not hit for hit, guess in pairs)
        shift = recovered - gained
        masses = _pmf_of_sum([0.5] * (gained + lost))
        expected = float(sum(trials.guesses))
    elif trials.decoys:
        shift = 0
        masses = _hypergeometric(len(trials.hits), recovered + sum(trials.decoys))
        expected = float(sum(trials.decoys))
    else:
        shift = 0
        masses = _pmf_of_sum(trials.chances)
        expected = float(sum(trials.chances))
    tails = np.cumsum(masses[::-1])[::-1]  # P(at least i)
    limit = shift + int(np.flatnonzero(np.r_[tails[1:], 0.0] <= ALPHA)[0])
    reached = recovered - shift
    return {
        "recovered": recovered,
        "total": len(trials.hits),
        "guessing": round(expected, 3),
        "limit": limit,
        "p_value": float(min(tails[reached], 1.0)) if reached < len(tails) else 0.0,
        "interval": _interval(recovered, len(trials.hits)),
        "beyond_guessing": round(recovered - expected) if recovered > limit else 0,
    }


def _interval(successes: int, total: int) -> list[float]:
    z = 2.5758  # 99 %, two-sided
    share = successes / total if total else 0.0
    centre = share + z**2 / (2 * total)
    half = z * sqrt(share * (1 - share) / total + z**2 / (4 * total**2))
    return [round((centre + sign * half) / (1 + z**2 / total), 4) + 0.0 for sign in (-1, 1)]


def _pmf_of_sum(chances: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the distribution of the number of successes of independent trials."""
    masses = np.ones(1)
    for chance in chances:
        masses = np.convolve(masses, [1 - chance, chance])
    return masses


def _hypergeometric(size: int, found: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return how many of the found values are real, if real and made-up ones are found alike."""
    return np.array(
        [
            comb(size, i) * comb(size, found - i) / comb(2 * size, found) if i <= found else 0.0
            for i in range(size + 1)
        ]
    )
