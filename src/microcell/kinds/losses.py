"""Information loss of one column: how much published values differ from the originals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os.path import commonprefix

import numpy as np

from microcell.kernels.arrays import Floats, Integers, Mask

__all__ = [
    "Centred",
    "Loss",
    "category_loss",
    "centre",
    "chord_loss",
    "code_loss",
    "shared_loss",
    "squared_loss",
    "standardize",
]

_FARTHEST = 1e120
"""Published values are clipped at this many spreads from the mean, so that squares stay finite."""


@dataclass(frozen=True)
class Loss:
    """The amount ``lost``, and the ``baseline``: the loss if all records got the same value."""

    lost: float
    baseline: float

    @property
    def share(self) -> float:
        """Ratio of lost to baseline: 0 if nothing is lost, 1 if a constant column was changed."""
        if self.lost == 0:
            return 0.0
        return self.lost / self.baseline if self.baseline > 0 else 1.0

    @property
    def constant(self) -> bool:
        """True if the column is constant and unchanged."""
        return self.baseline == 0 and self.lost == 0


@dataclass(frozen=True, eq=False)
class Centred:
    """Original and published numbers minus the original mean, scaled to the order of 1.

    ``constant`` is true if the original numbers are all equal.
    """

    before: Floats
    after: Floats
    constant: bool


def centre(before: Floats, after: Floats, weights: Floats) -> Centred:
    """Subtract the weighted mean of ``before`` from both columns and scale by a power of two.

    Scaling by powers of two is exact, so values of 1e300 do not overflow and values near 1.7e9 keep
    a spread of 1. ``before`` must not contain NaN; a NaN in ``after`` is kept.
    """
    if not len(before):
        return Centred(before, after, True)
    before, after = _scale(before, after, float(np.abs(before).max()))
    low, high = float(before.min()), float(before.max())
    middle = low / 2 + high / 2
    before, after = _scale(before - middle, after - middle, max(high - middle, middle - low))
    mean = float(np.average(before, weights=weights))
    return Centred(before - mean, after - mean, low == high)


def standardize(before: Floats, after: Floats, weights: Floats) -> tuple[Floats, Floats] | None:
    """Standardize both columns by the original's weighted mean and population deviation.

    NaN is kept. Return None if the original does not vary.

    Examples
    --------
    >>> standardize(np.array([1e300, 3e300]), np.array([2e300, np.nan]), np.ones(2))
    (array([-1.,  1.]), array([ 0., nan]))
    """
    present: Mask = ~np.isnan(before) & (weights > 0)
    weights = weights[present]
    both = before if after is before else np.concatenate((before, after))
    centred = centre(before[present], both, weights)
    if centred.constant:
        return None
    deviation = float(np.sqrt(np.average(np.square(centred.before), weights=weights)))
    if deviation == 0:
        return None
    numbers = centred.after / deviation
    return numbers[: len(before)], numbers[-len(after) :]


def squared_loss(before: Floats, after: Floats, weights: Floats) -> Loss:
    """Return the weighted squared differences, relative to the squared deviations from the mean.

    Lost is sum w (x - y)^2 and the baseline is sum w (x - mean)^2. A row without an original value
    is left out; a published NaN counts as the mean.

    Examples
    --------
    >>> x = np.array([2.0, 3.0, 3.0, 20.0, 21.0])
    >>> squared_loss(x, np.full(5, x.mean()), np.ones(5)).share
    1.0
    """
    present = ~np.isnan(before) & (weights > 0)
    weights = weights[present]
    points = centre(before[present], after[present], weights)
    after = np.where(np.isnan(points.after), 0.0, points.after)
    lost = weights @ np.square(points.before - after)
    return Loss(float(lost), 0.0 if points.constant else float(weights @ np.square(points.before)))


def chord_loss(before: Floats, after: Floats, weights: Floats) -> Loss:
    """Return the squared chords on the unit sphere, relative to those from the mean direction."""
    present = ~np.isnan(before).any(axis=1) & (weights > 0)
    before, after, weights = before[present], after[present], weights[present]
    if not len(before):
        return Loss(0.0, 0.0)
    mean = _mean_direction(before, weights)
    after = np.where(np.isnan(after), mean, after)
    constant = bool((before == before[0]).all())
    baseline = 0.0 if constant else float(weights @ np.square(before - mean).sum(axis=1))
    return Loss(float(weights @ np.square(before - after).sum(axis=1)), baseline)


def category_loss(before: Integers, after: Integers, weights: Floats) -> Loss:
    """Count changed categories, relative to publishing the most frequent one for all records.

    Codes are -1 where missing. A record without an original category is left out; a missing
    published one counts as the most frequent category.
    """
    present = (before >= 0) & (weights > 0)
    before, after, weights = before[present], after[present], weights[present]
    if not len(before):
        return Loss(0.0, 0.0)
    mode = int(np.argmax(np.bincount(before, weights=weights)))
    after = np.where(after < 0, mode, after)
    return Loss(float(weights @ (before != after)), float(weights @ (before != mode)))


def code_loss(before: Integers, after: Integers, weights: Floats, *, names: Sequence[str]) -> Loss:
    """Add up the shares of masked or wrong characters, relative to the common prefix of all.

    "94***" keeps two of the five characters of "94110", and nothing of "93001". A missing published
    code keeps nothing.

    Examples
    --------
    >>> codes = np.array([0, 1])
    >>> names = ["94110", "94121", "941**"]
    >>> code_loss(codes, np.array([2, 2]), np.ones(2), names=names).lost
    0.8
    """
    return shared_loss(
        before, after, weights, names=names, share=_masked_share, shared_by_all=_shared_prefix
    )


def shared_loss(
    before: Integers,
    after: Integers,
    weights: Floats,
    *,
    names: Sequence[str],
    share: Callable[[str, str], float],
    shared_by_all: Callable[[Sequence[str]], str],
) -> Loss:
    """Add up what published groups do not reveal, relative to one group for all.

    ``share(original, published)`` is the part of an original value that is lost, from 0 to 1, and
    ``shared_by_all`` returns what a single cell would publish. A missing published value is "".
    """
    present = (before >= 0) & (weights > 0)
    before, after, weights = before[present], after[present], weights[present]
    if not len(before):
        return Loss(0.0, 0.0)
    distinct = np.unique(before).tolist()
    everything = shared_by_all([names[code] for code in distinct])
    span = len(names) + 1
    pairs, position = np.unique(before * span + after + 1, return_inverse=True)
    codes = [(pair // span, pair % span - 1) for pair in pairs.tolist()]
    lost = [share(names[old], "" if new < 0 else names[new]) for old, new in codes]
    baseline_by_code = {code: share(names[code], everything) for code in distinct}
    baseline = [baseline_by_code[old] for old, _ in codes]
    return Loss(
        float(weights @ np.array(lost)[position]), float(weights @ np.array(baseline)[position])
    )


def _scale(before: Floats, after: Floats, size: float) -> tuple[Floats, Floats]:
    _, exponent = np.frexp(size)
    with np.errstate(over="ignore"):
        scaled = np.ldexp(after, -exponent)
    return np.ldexp(before, -exponent), np.clip(scaled, -_FARTHEST, _FARTHEST)


def _mean_direction(points: Floats, weights: Floats) -> Floats:
    mean = weights @ points
    length = float(np.linalg.norm(mean))
    # Points that cancel out are equally far from every direction, so any one will do.
    return mean / length if length > 0 else np.array([1.0, 0.0, 0.0])


def _masked_share(code: str, published: str) -> float:
    """Return the share of the characters of ``code`` that ``published`` does not reveal."""
    if code == published:
        return 0.0
    prefix = published.rstrip("*")
    if not code.startswith(prefix):
        return 1.0
    return 1 - len(prefix) / max(len(code), len(published), 1)


def _shared_prefix(codes: Sequence[str]) -> str:
    return commonprefix(list(codes)).ljust(max(map(len, codes)), "*")
