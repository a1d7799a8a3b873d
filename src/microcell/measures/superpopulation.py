"""How many people are unique in the population, estimated from a sample.

With f_c people of the sample and F_c of the population in class c, n and N in total:

- With sampling weights, F_c given f_c is negative binomial (Benedetti and Franconi 1998, as in
  mu-Argus and sdcMicro): a class of f people with weights that add up to F has p = f / F, a person
  in it is re-identified with probability E(1 / F_c | f_c), and a unique person is unique in the
  population with probability p.
- With only N: Pitman's model (Hoshino 2001), Zayatz (1991), and the shifted negative binomial model
  of Chen and Keller-McNulty (1998), whose number of classes is Shlosser's estimate in the form of
  Haas and Stokes (1998). Dankar et al. (2012) found which of them to trust: Pitman up to a sampling
  fraction of 10 %, beyond that the smaller of Zayatz and the shifted negative binomial, as in ARX.

Their intervals come from 100 bootstrap samples of the classes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt

import numpy as np
from scipy.optimize import minimize, root
from scipy.special import gammaln, hyp2f1, psi

from microcell._display import record_repr
from microcell.kernels.arrays import Floats, Integers

__all__ = [
    "Histogram",
    "UniquesEstimate",
    "estimate_uniques",
    "match_probability",
    "reidentification_risk",
]

_Z = 1.959964
_SAMPLES = 100
_SMALL_FRACTION = 0.1


@dataclass(frozen=True)
class UniquesEstimate:
    """Number of people who are unique in the population, by one model, with a 95 % interval."""

    model: str
    people: float
    interval: tuple[float, float]

    __repr__ = record_repr


@dataclass(frozen=True, eq=False)
class Histogram:
    """Numbers of classes by their size."""

    sizes: Floats
    counts: Floats

    @classmethod
    def of(cls, class_sizes: Integers) -> "Histogram":
        """Count the classes of each size."""
        sizes, counts = np.unique(class_sizes, return_counts=True)
        return cls(sizes.astype(np.float64), counts.astype(np.float64))

    def number(self, size: int) -> float:
        """Return the number of classes of a size."""
        return float(self.counts[self.sizes == size].sum())

    @property
    def people(self) -> float:
        """Number of people."""
        return float(self.sizes @ self.counts)

    __repr__ = record_repr


# ------------------------------------------------------------------------------ with weights


def reidentification_risk(people: Integers, population: Floats) -> Floats:
    """Return E(1 / F | f) of the negative binomial model for each class.

    ``population`` is the estimated number of people of the class in the population.

    Examples
    --------
    >>> reidentification_risk(np.array([2, 1, 1]), np.array([110.0, 17.0, 1.0])).round(5)
    array([0.01714, 0.17708, 1.     ])
    """
    p = people / np.maximum(population, people)
    # p^f / f 2F1(f, f; f + 1; 1 - p), after Pfaff's transformation, which converges for all p.
    risk: Floats = p / people * hyp2f1(1.0, 1.0, people + 1.0, 1 - p)
    return np.where(p >= 1, 1 / people, risk)


def match_probability(histogram: Histogram, fraction: float) -> tuple[float, float, float] | None:
    """Return P(correct match | unique match) of Skinner and Elliot (2002), with its interval.

    That is the probability that a person of the population who matches a sample unique, and only
    that record, is the same person. None without classes of one or of two people.

    Examples
    --------
    >>> sizes = Histogram(np.array([1.0, 2.0]), np.array([90.0, 45.0]))
    >>> [round(value, 3) for value in match_probability(sizes, 0.1)]
    [0.1, 0.072, 0.137]
    """
    singles, pairs = histogram.number(1), histogram.number(2)
    if not singles or not pairs or not 0 < fraction < 1:
        return None
    odds = log(fraction * singles / (2 * (1 - fraction) * pairs))
    spread = _Z * sqrt(1 / singles + 1 / pairs)
    value, low, high = (1 / (1 + exp(-item)) for item in (odds, odds - spread, odds + spread))
    return value, low, high


# ------------------------------------------------------------------------------ with N only


def estimate_uniques(histogram: Histogram, population: float) -> tuple[UniquesEstimate, ...]:
    """Estimate the population uniques by all models that can be fitted; the trusted one first."""
    if not histogram.number(1):
        return (UniquesEstimate("zayatz", 0.0, (0.0, 0.0)),)
    estimates = {name: model(histogram, population) for name, model in _MODELS.items()}
    possible = {name: value for name, value in estimates.items() if value is not None}
    first = _choose(possible, histogram.people / population)
    names = [first, *(name for name in possible if name != first)]
    return tuple(
        UniquesEstimate(name, possible[name], _bootstrap(_MODELS[name], histogram, population))
        for name in names
    )


def _choose(estimates: Mapping[str, float], fraction: float) -> str:
    if fraction <= _SMALL_FRACTION:
        return "pitman" if "pitman" in estimates else "zayatz"
    return min((name for name in ("snb", "zayatz") if name in estimates), key=estimates.__getitem__)


def _bootstrap(model: "Model", histogram: Histogram, population: float) -> tuple[float, float]:
    """Return the percentile interval over samples of the classes."""
    rng = np.random.default_rng(0)
    values = []
    for _ in range(_SAMPLES):
        counts = rng.poisson(histogram.counts).astype(np.float64)
        sample = Histogram(histogram.sizes[counts > 0], counts[counts > 0])
        if sample.number(1):
            scale = sample.people / histogram.people
            value = model(sample, population * scale)
            values.append(None if value is None else value / scale)
        else:
            values.append(0.0)
    fitted = [value for value in values if value is not None]
    low, high = np.quantile(fitted, (0.025, 0.975)) if fitted else (np.nan, np.nan)
    return float(low), float(high)


def _pitman(histogram: Histogram, population: float) -> float | None:
    """Fit (theta, alpha) by maximum likelihood; return the expected population uniques."""
    classes, people = float(histogram.counts.sum()), histogram.people

    def loss(parameters: Floats) -> tuple[float, Floats]:
        """Return the negative log-likelihood and its gradient in (log theta, logit alpha)."""
        theta, alpha = np.exp(parameters[0]), 1 / (1 + np.exp(-parameters[1]))
        value = (classes - 1) * np.log(alpha)
        value += gammaln(theta / alpha + classes) - gammaln(theta / alpha + 1)
        value -= gammaln(theta + people) - gammaln(theta + 1)
        value += histogram.counts @ (gammaln(histogram.sizes - alpha) - gammaln(1 - alpha))
        rise = (psi(theta / alpha + classes) - psi(theta / alpha + 1)) / alpha
        by_theta = rise - (psi(theta + people) - psi(theta + 1))
        by_alpha = (classes - 1 - theta * rise) / alpha
        by_alpha -= histogram.counts @ (psi(histogram.sizes - alpha) - psi(1 - alpha))
        return -float(value), -np.array([by_theta * theta, by_alpha * alpha * (1 - alpha)])

    share = histogram.number(1) / classes
    start = np.log([max(classes, 2.0), max(share, 0.01) / max(1 - share, 0.01)])
    with np.errstate(all="ignore"):
        fit = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=((-20, 40), (-20, 20)))
    if not isfinite(fit.fun):
        return None
    theta, alpha = np.exp(fit.x[0]), 1 / (1 + np.exp(-fit.x[1]))
    # N (theta + alpha)^[N - 1] / (theta + 1)^[N - 1], with rising factorials
    rising = gammaln(theta + alpha + population - 1) - gammaln(theta + alpha)
    rising -= gammaln(theta + population) - gammaln(theta + 1)
    return float(population * np.exp(rising))


def _zayatz(histogram: Histogram, population: float) -> float | None:
    """Assume that classes of the population have the sizes of those in the sample."""
    people = histogram.people
    once = histogram.counts * np.exp(_log_once(histogram.sizes, people, population))
    unique = histogram.number(1) * people / population
    return histogram.number(1) * float(unique / once.sum()) * population / people


def _log_once(sizes: Floats, n: float, population: float) -> Floats:
    """Return the log probability that one of ``sizes`` people is among n of the population."""
    with np.errstate(all="ignore"):
        out = np.log(sizes) + _log_choose(population - sizes, n - 1) - _log_choose(population, n)
    return np.where(np.isfinite(out), out, -np.inf)


def _log_choose(total: Floats | float, chosen: float) -> Floats:
    inside = np.asarray(total) >= chosen
    value = gammaln(np.where(inside, total, chosen) + 1.0) - gammaln(chosen + 1)
    value -= gammaln(np.where(inside, np.asarray(total) - chosen, 0.0) + 1.0)
    return np.where(inside, value, -np.inf)


def _snb(histogram: Histogram, population: float) -> float | None:
    """Fit (alpha, beta) so that the expected classes of one and two people are those observed."""
    fraction = histogram.people / population
    singles, pairs = histogram.number(1), histogram.number(2)
    if not pairs or fraction >= 1:
        return None
    classes = _population_classes(histogram, fraction)

    def excess(parameters: Floats, /) -> Floats:
        alpha, beta = np.exp(parameters[0]), 1 / (1 + np.exp(-parameters[1]))
        q = (1 - fraction) * (1 - beta)
        one = classes * fraction * (beta / (1 - q)) ** alpha * (alpha * q / (1 - q) + 1)
        two = classes * alpha * beta**alpha * fraction**2 * (1 - beta) / 2
        two *= (2 - (1 - alpha) * q) / (1 - q) ** (alpha + 2)
        return np.array([one / singles - 1, two / pairs - 1])

    with np.errstate(all="ignore"):
        for start in ((0.0, 0.0), (-2.0, -3.0), (1.0, -2.0)):
            fit = root(excess, np.array(start))
            if np.abs(excess(fit.x)).max() < 1e-6:
                beta = 1 / (1 + np.exp(-fit.x[1]))
                return float(min(classes * beta ** np.exp(fit.x[0]), population))
    return None


def _population_classes(histogram: Histogram, q: float) -> float:
    """Return Shlosser's estimate of the number of classes in the population (D_Sh3)."""
    sizes, counts = histogram.sizes, histogram.counts
    missed = counts * (1 - q) ** sizes
    ratio = (sizes * q**2 * (1 - q**2) ** (sizes - 1)) @ counts
    ratio /= missed @ ((1 + q) ** np.minimum(sizes, 500 / np.log1p(q)) - 1)
    square = missed.sum() / ((sizes * q * (1 - q) ** (sizes - 1)) @ counts)
    return float(counts.sum() + histogram.number(1) * ratio * square**2)


Model = Callable[[Histogram, float], float | None]

_MODELS: Mapping[str, Model] = {"pitman": _pitman, "zayatz": _zayatz, "snb": _snb}
