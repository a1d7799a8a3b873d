"""What a column loses, beside what it would lose if the whole table were published as one cell."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microcell.model import Floats, Integers

__all__ = ["Loss", "centre", "lose_changes", "lose_characters", "lose_chords", "lose_squares"]

_FARTHEST = 1e120
"""Published values lie at most this many spreads from the mean: squares of nonsense must still add up to a number."""


@dataclass(frozen=True)
class Loss:
    """What is ``lost``, and what is lost of the ``whole`` if all records are published alike."""

    lost: float
    whole: float

    @property
    def share(self) -> float:
        """Lost / whole: 0 if nothing is lost; 1 if a column without differences was changed."""
        if self.lost == 0:
            return 0.0
        return self.lost / self.whole if self.whole > 0 else 1.0

    @property
    def constant(self) -> bool:
        """True if the column has nothing to lose, and lost nothing."""
        return self.whole == 0 and self.lost == 0


@dataclass(frozen=True, eq=False)
class Centred:
    """Numbers before and after less the mean of those before, in units in which they are of the order of 1.

    ``constant`` is true if there is no difference among the numbers before.
    """

    before: Floats
    after: Floats
    constant: bool


def centre(before: Floats, after: Floats, weights: Floats) -> Centred:
    """Both columns less the weighted mean of the first, scaled by a power of two.

    Scaling by powers of two is exact, so values of 1e300 do not overflow and values near 1.7e9 keep a spread of 1.
    ``before`` has no NaN; a NaN in ``after`` stays.
    """
    if not len(before):
        return Centred(before, after, True)
    before, after = _scale(before, after, float(np.abs(before).max()))
    low, high = float(before.min()), float(before.max())
    middle = low / 2 + high / 2
    before, after = _scale(before - middle, after - middle, max(high - middle, middle - low))
    mean = float(np.average(before, weights=weights))
    return Centred(before - mean, after - mean, low == high)


def lose_squares(before: Floats, after: Floats, weights: Floats) -> Loss:
    """Squared differences, against those to the mean: sum w (x - y)^2 and sum w (x - mean)^2.

    A row without a value before is left out; a NaN after counts as the mean.

    Examples
    --------
    >>> x = np.array([2.0, 3.0, 3.0, 20.0, 21.0])
    >>> lose_squares(x, np.full(5, x.mean()), np.ones(5)).share
    1.0
    """
    known = ~np.isnan(before) & (weights > 0)
    weights = weights[known]
    points = centre(before[known], after[known], weights)
    after = np.where(np.isnan(points.after), 0.0, points.after)
    lost = weights @ np.square(points.before - after)
    return Loss(float(lost), 0.0 if points.constant else float(weights @ np.square(points.before)))


def lose_chords(before: Floats, after: Floats, weights: Floats) -> Loss:
    """Squared chords between points of the unit sphere, against those to the mean direction."""
    known = ~np.isnan(before).any(axis=1) & (weights > 0)
    before, after, weights = before[known], after[known], weights[known]
    if not len(before):
        return Loss(0.0, 0.0)
    mean = _mean_direction(before, weights)
    after = np.where(np.isnan(after), mean, after)
    constant = bool((before == before[0]).all())
    whole = 0.0 if constant else float(weights @ np.square(before - mean).sum(axis=1))
    return Loss(float(weights @ np.square(before - after).sum(axis=1)), whole)


def lose_changes(before: Integers, after: Integers, weights: Floats) -> Loss:
    """Records whose category changed, against those that change if all get the most frequent category.

    Codes are -1 where missing: left out if missing before, the most frequent category if missing after.
    """
    known = (before >= 0) & (weights > 0)
    before, after, weights = before[known], after[known], weights[known]
    if not len(before):
        return Loss(0.0, 0.0)
    mode = int(np.argmax(np.bincount(before, weights=weights)))
    after = np.where(after < 0, mode, after)
    return Loss(float(weights @ (before != after)), float(weights @ (before != mode)))


def lose_characters(before: Integers, after: Integers, weights: Floats, *, names: Sequence[str]) -> Loss:
    """Shares of characters masked or wrong, against those if all get the common prefix of the table.

    "94***" tells two characters of five of "94110", and nothing of "93001". A missing code after tells nothing.

    Examples
    --------
    >>> codes = np.array([0, 1])
    >>> lose_characters(codes, np.array([2, 2]), np.ones(2), names=["94110", "94121", "941**"]).lost
    0.8
    """
    known = (before >= 0) & (weights > 0)
    before, after, weights = before[known], after[known], weights[known]
    texts = [names[code] for code in np.unique(before).tolist()]
    longest = max(map(len, texts), default=0)
    everyone = _common_prefix(texts).ljust(longest, "*")
    span = len(names) + 1
    pairs, place = np.unique(before * span + after + 1, return_inverse=True)
    masked = [_masked(names[pair // span], _name(names, pair % span - 1)) for pair in pairs.tolist()]
    whole = {code: _masked(names[code], everyone) for code in np.unique(before).tolist()}
    each = np.array([whole[pair // span] for pair in pairs.tolist()], dtype=np.float64)
    return Loss(_total(np.array(masked, dtype=np.float64), place, weights), _total(each, place, weights))


def _scale(before: Floats, after: Floats, size: float) -> tuple[Floats, Floats]:
    _, exponent = np.frexp(size)
    with np.errstate(over="ignore"):
        scaled = np.ldexp(after, -exponent)
    return np.ldexp(before, -exponent), np.clip(scaled, -_FARTHEST, _FARTHEST)


def _mean_direction(points: Floats, weights: Floats) -> Floats:
    mean = weights @ points
    length = float(np.linalg.norm(mean))
    # Points that cancel out have no mean direction, and are equally far from each: take any.
    return mean / length if length > 0 else np.array([1.0, 0.0, 0.0])


def _masked(code: str, published: str) -> float:
    """The share of the characters of ``code`` that ``published`` does not tell."""
    if code == published:
        return 0.0
    prefix = published.rstrip("*")
    if not code.startswith(prefix):
        return 1.0
    return 1 - len(prefix) / max(len(code), len(published), 1)


def _name(names: Sequence[str], code: int) -> str:
    return "" if code < 0 else names[code]


def _common_prefix(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    low, high = min(texts), max(texts)
    same = next(
        (place for place, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high))
    )
    return low[:same]


def _total(shares: Floats, place: NDArray[np.intp], weights: Floats) -> float:
    return float(weights @ shares[place]) if len(place) else 0.0
