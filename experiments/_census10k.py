"""Survey data: Gaussian records, and two substitutes for a census of 10,000 records."""

import numpy as np

from experiments._pcl import gaussian, standardize
from experiments._profiles import classic
from microcell.model import Floats

__all__ = ["SUBSTITUTES", "draw_survey_data"]

ADULT = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]

SUBSTITUTES = (
    "The paper's census of 10,000 records is drawn from a larger table that is not public. "
    "Substitutes: a smoothed bootstrap of Census (1,080 records, 13 columns: records drawn with "
    "replacement, each with Gaussian noise of "
    "the records' covariance and Silverman's bandwidth, shrunk so that means and covariance stay), "
    "and as many records "
    "of Adult, its six numeric columns, drawn without replacement."
)


def draw_survey_data(records: int) -> dict[str, Floats]:
    """Return the standardized data sets by name."""
    return {
        "Gaussian, m = 10": standardize(gaussian(records, 10, seed=5)),
        "Census, smoothed bootstrap, m = 13": standardize(
            smoothed_bootstrap(classic("census"), records)
        ),
        "Adult, m = 6": standardize(sample(classic("adult", ADULT), records)),
    }


def smoothed_bootstrap(X: Floats, records: int, seed: int = 7) -> Floats:
    """Smoothed bootstrap: resampled records plus noise, preserving means and covariance."""
    n, m = X.shape
    rng, bandwidth = np.random.default_rng(seed), (4 / ((m + 2) * n)) ** (1 / (m + 4))
    drawn = X[rng.integers(n, size=records)]
    noise = rng.multivariate_normal(np.zeros(m), np.cov(X.T), size=records, method="eigh")
    mean = X.mean(axis=0)
    return np.asarray(mean + (drawn - mean + bandwidth * noise) / np.sqrt(1 + bandwidth**2))


def sample(X: Floats, records: int, seed: int = 7) -> Floats:
    """A sample of the records without replacement."""
    return np.asarray(X[np.random.default_rng(seed).choice(len(X), size=records, replace=False)])
