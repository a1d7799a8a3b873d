"""Prediction of a survey before its launch, under assumed and under worse participation."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell import encoding, progress, tables
from microcell._display import count, frame_of_rows, html_card, percent, record_html, short_repr
from microcell._validation import check_probability
from microcell.cells import Cells
from microcell.errors import DataError, OptionError, SchemaError
from microcell.kernels.arrays import centroids
from microcell.kernels.participation import (
    beta_quantiles,
    conditional_participation,
    correlated_count,
)
from microcell.model import Floats, Integers, Mask, Table
from microcell.surveys.participation import Estimate, as_probabilities, check_integer
from microcell.surveys.survey_cells import (
    SurveyCells,
    build_roster,
    load_survey_cells,
    read_roster,
    summarize_failures,
)

__all__ = ["Outlook", "Prospect", "conditional_centroids", "simulate"]

_DEFAULT_CORRELATION = 0.1
_DRAWS = 1 << 21
"""Maximum number of random numbers drawn per batch of trials."""


@dataclass(frozen=True, repr=False)
class Prospect:
    """Predicted result under one assumption about participation."""

    name: str
    """The assumption, in a few words."""
    participation: float
    """Mean participation."""
    correlation: float
    """Correlation between the decisions of any two candidates of a group; 0 if independent."""
    groups: int | None
    """Number of groups that decide together; None if candidates decide independently."""
    exact: bool
    """Whether the numbers are computed exactly. If not, they have a standard error."""
    table_failure: Estimate
    """Probability that at least one cell fails."""
    cell_failure: Estimate
    """Probability that a cell fails, averaged over cells."""
    participant_failure: Estimate
    """Share of the expected participants whose cell fails."""
    participants: Estimate
    """Number of participants."""
    released: Estimate
    """Number of participants whose answers are published, if short cells are suppressed."""
    cells_released: Estimate
    """Number of cells with at least k participants."""
    information_loss: float | None
    """Expected SSE / SST of the published records. None without the frame."""
    chebyshev: float
    """Chebyshev's bound on the failure of the worst cell: mean and variance suffice for it."""

    _repr_html_ = record_html

    def __repr__(self) -> str:
        return short_repr(
            self,
            repr(self.name),
            table_failure=f"{self.table_failure.value:.3g}",
            released=f"{self.released.value:.5g}",
        )

    @property
    def suppressed(self) -> float:
        """Expected share of the answers that are suppressed."""
        total = self.participants.value
        return 1 - self.released.value / total if total else 0.0


@dataclass(frozen=True, repr=False)
class Outlook:
    """The results of :func:`simulate`: one :class:`Prospect` per assumption, the design's first."""

    k: int
    failure: float
    """Accepted failure probability of a cell."""
    failure_of: str
    """What the accepted probability holds for: "cell" or "participant"."""
    cells: int
    candidates: int
    prospects: tuple[Prospect, ...]

    def __repr__(self) -> str:
        return short_repr(self, count(len(self.prospects), "prospect"), k=self.k, cells=self.cells)

    def _repr_html_(self) -> str:
        rows = {
            item.name: f"table failure {item.table_failure.value:.3g}, "
            f"{percent(item.suppressed)} of the answers suppressed"
            for item in self.prospects
        }
        return html_card(
            f"{count(self.cells, 'cell')}, {count(self.candidates, 'candidate')}, k = {self.k}",
            rows,
            next_steps={
                "outlook.to_frame()": "all numbers",
                "mc.plot.survey_outlook(outlook)": "a figure",
            },
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as a dictionary ready for JSON."""
        return asdict(self)

    def to_frame(self) -> Any:
        """Return the prospects as a data frame, a row per assumption."""
        return frame_of_rows([_as_row(item) for item in self.prospects])


def _as_row(item: Prospect) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in asdict(item).items():
        row[name] = value["value"] if isinstance(value, dict) else value
        if isinstance(value, dict):
            row[f"{name}_error"] = value["error"]
    return row


def simulate(
    cells: Cells | str | Path,
    *,
    rates: Sequence[float] = (),
    correlation: float | None = None,
    frame: Any = None,
    groups: Sequence[str] = (),
    participation: str | None = None,
    trials: int = 1000,
    seed: int = 0,
) -> Outlook:
    """Predict failures and release of a survey, as its design assumes and under worse assumptions.

    The first prospect is that of the design. Each of ``rates`` gives a further one, and so do
    candidates who decide together: those of each cell, and those of each group named by a column.

    Parameters
    ----------
    cells
        Cells of a survey, or the path of their file.
    rates
        Mean participations to fear. If participation is uneven, the odds of all candidates change
        by the same factor.
    correlation
        Correlation between the decisions of any two candidates of a group, from 0 to 1. Given
        alone, the groups are the cells. Default with ``groups``: 0.1.
    frame
        The candidates, as a table: for information loss and groups. It must be the frame of the
        design.
    groups
        Columns of the frame whose values form groups, such as households or regions.
    participation
        Column of the frame with the candidates' probabilities, if participation is uneven.
    trials
        Number of trials, if a prospect cannot be computed exactly.
    seed
        Random seed.

    Returns
    -------
    Outlook
        Independent decisions and cells that decide together with the same probability for all
        (a beta-binomial number of participants) are computed exactly. Otherwise each trial draws a
        level for each group, and with it the participants; the results have a standard error.

    Examples
    --------
    >>> from microcell import Schema, surveys
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> design = surveys.design(people, Schema(quasi=["age"]), 5, 0.5, 1e-3, method="mdav")
    >>> outlook = simulate(design.cells, rates=[0.3], correlation=0.05)
    >>> [item.table_failure.value > 0.1 for item in outlook.prospects]
    [False, True, True]
    """
    survey = load_survey_cells(cells)
    trials, seed = check_integer(trials, "trials", 2), check_integer(seed, "seed", 0)
    rates = [check_probability(rate, "rates") for rate in rates]
    _check_dependence(correlation, groups, frame)
    candidates = _read_candidates(survey, frame, participation)
    level = _DEFAULT_CORRELATION if correlation is None else float(correlation)
    prospects = [_independent(candidates, "as assumed", candidates.probabilities)]
    for rate in rates:
        shifted = _with_mean(candidates.probabilities, rate)
        prospects.append(_independent(candidates, f"participation {percent(rate)}", shifted))
    if correlation is not None and not groups:
        prospects.append(_within_cells(candidates, level, trials, seed))
    for column in groups:
        members = _read_groups(candidates, column)
        name = f"correlated within {column}"
        prospects.append(_simulated(candidates, name, members, level, trials, seed))
    return Outlook(
        k=survey.k,
        failure=float(survey.survey["failure"]),
        failure_of=survey.failure_of,
        cells=len(survey.cells),
        candidates=len(candidates.labels),
        prospects=tuple(prospects),
    )


def _check_dependence(correlation: Any, groups: Any, frame: Any) -> None:
    if isinstance(groups, str) or not all(isinstance(name, str) for name in groups):
        raise OptionError(
            "groups must be a list of column names.", code="option.wrong_type", option="groups"
        )
    if groups and frame is None:
        raise OptionError(
            "groups names columns of the frame, so it requires a frame.",
            code="option.missing",
            option="frame",
        )
    is_number = isinstance(correlation, (int, float)) and not isinstance(correlation, bool)
    if correlation is not None and not (is_number and 0 <= correlation <= 1):
        raise OptionError(
            "correlation must be a number from 0 to 1.",
            code="option.out_of_range",
            option="correlation",
        )


# ----------------------------------------------------------------------------------- candidates


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Candidates by cell, with their points if the frame is known."""

    k: int
    labels: Integers
    probabilities: Floats
    table: Table | None = None
    points: Floats | None = None

    @property
    def cells(self) -> int:
        return int(self.labels.max()) + 1

    def loss(self, weights: Floats) -> float | None:
        """Return the SSE / SST of records with these weights, for the published representatives.

        The representatives are the means of the design, whoever takes part.
        """
        if self.points is None or weights.sum() == 0:
            return None
        means = centroids(self.points, self.labels, self.probabilities)
        within = ((self.points - means[self.labels]) ** 2).sum(axis=1) @ weights
        mean = weights @ self.points / weights.sum()
        total = ((self.points - mean) ** 2).sum(axis=1) @ weights
        return float(within / total) if total > 0 else 0.0


def _read_candidates(survey: SurveyCells, frame: Any, participation: str | None) -> _Candidates:
    roster = read_roster(survey.survey, survey.cells.sizes)
    if frame is None:
        if participation is not None:
            raise OptionError(
                "participation names a column of the frame, so it requires a frame.",
                code="option.missing",
                option="frame",
            )
        return _Candidates(survey.k, roster.labels, roster.probabilities)
    table = tables.read(frame)
    points = encoding.place(table, survey.encoding).matrix
    labels = survey.cells.assign(points)
    if not np.array_equal(np.bincount(labels, minlength=len(survey.cells)), survey.cells.sizes):
        raise DataError(
            "The cells were designed for other candidates: their sizes differ. Pass the frame of "
            "the design, without the candidates that it dropped.",
            code="data.invalid",
            option="frame",
        )
    if roster.common is not None:
        probabilities = np.full(table.rows, roster.common)
    else:
        probabilities = _read_probabilities(table, participation)
    return _Candidates(survey.k, labels, probabilities, table, points)


def _read_probabilities(table: Table, name: str | None) -> Floats:
    if name is None:
        raise OptionError(
            "Participation is uneven. Name the column of the frame with the probabilities in "
            "participation.",
            code="option.missing",
            option="participation",
        )
    if name not in table.columns or not table.columns[name].is_number:
        raise SchemaError(
            f"The frame has no numeric participation column {name!r}. Check the name.",
            code="schema.unknown_column",
            column=name,
        )
    return as_probabilities(table.columns[name].reals())


def _read_groups(candidates: _Candidates, name: str) -> Integers:
    """Return the group of each candidate. A missing value is a group of its own."""
    table = candidates.table
    assert table is not None
    if name not in table.columns:
        raise SchemaError(
            f"The frame has no column {name!r}. Check the spelling in groups.",
            code="schema.unknown_column",
            column=name,
        )
    codes, names = table.columns[name].factorize()
    codes = codes.astype(np.int64, copy=True)
    missing = codes < 0
    codes[missing] = len(names) + np.arange(int(missing.sum()))
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


def _with_mean(probabilities: Floats, mean: float) -> Floats:
    """Return the probabilities with all odds multiplied such that they have this mean."""
    certain = probabilities >= 1
    with np.errstate(divide="ignore"):
        logits = np.log(probabilities) - np.log1p(-np.where(certain, 0.5, probabilities))

    def shifted(by: float) -> Floats:
        values: Floats = 1 / (1 + np.exp(-np.clip(logits + by, -700, 700)))
        return values

    if (probabilities == probabilities[0]).all() or certain.any():
        return np.minimum(probabilities * 0 + mean, 1.0)
    low, high = -700.0, 700.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if shifted(middle).mean() < mean else (low, middle)
    return np.clip(shifted(high), 1e-300, 1.0)


# ------------------------------------------------------------------------------------ prospects


def _exactly(value: float) -> Estimate:
    return Estimate(float(value), 0.0)


def _independent(candidates: _Candidates, name: str, q: Floats) -> Prospect:
    """Return the exact prospect of candidates who decide independently."""
    roster = build_roster(candidates.labels, q)
    summary = summarize_failures(roster, candidates.k)
    moments, _ = roster.moments(candidates.k)
    means = _sum_by(candidates.labels, q)
    with np.errstate(divide="ignore"):
        nobody = np.exp(_sum_by(candidates.labels, np.log1p(-q)))
    variances = _sum_by(candidates.labels, q * (1 - q))
    cells = _ByCell(summary.by_cell, moments, nobody, means, variances)
    return _exact_prospect(candidates, name, q, cells, 0.0)


@dataclass(frozen=True, eq=False)
class _ByCell:
    """Statistics of the number K of participants of each cell."""

    failures: Floats
    """P{0 < K < k}."""
    moments: Floats
    """E[K; 0 < K < k]."""
    nobody: Floats
    """P{K = 0}."""
    means: Floats
    variances: Floats


def _exact_prospect(
    candidates: _Candidates, name: str, q: Floats, cells: _ByCell, correlation: float
) -> Prospect:
    failures, moments, means = np.minimum(cells.failures, 1.0), cells.moments, cells.means
    with np.errstate(divide="ignore"):
        table_failure = -np.expm1(np.log1p(-failures).sum())
    share = 1 - moments / means  # the part of a cell's expected participants who are published
    return Prospect(
        name=name,
        participation=float(q.mean()),
        correlation=correlation,
        groups=None if correlation == 0 else len(means),
        exact=True,
        table_failure=_exactly(table_failure + 0.0),
        cell_failure=_exactly(failures.mean()),
        participant_failure=_exactly(moments.sum() / means.sum()),
        participants=_exactly(means.sum()),
        released=_exactly(means.sum() - moments.sum()),
        cells_released=_exactly(np.maximum(1 - failures - cells.nobody, 0).sum()),
        information_loss=candidates.loss(q * share[candidates.labels]),
        chebyshev=_chebyshev(means, cells.variances, candidates.k),
    )


def _chebyshev(means: Floats, variances: Floats, k: int) -> float:
    """Return Chebyshev's bound on P{K < k} of the worst cell; 1 if the mean is below k."""
    distance = np.maximum(means - (k - 1), 0.0)
    bounds = np.divide(variances, distance**2, out=np.ones_like(means), where=distance > 0)
    return float(np.minimum(bounds, 1.0).max())


def _within_cells(candidates: _Candidates, correlation: float, trials: int, seed: int) -> Prospect:
    """Return the prospect if the candidates of each cell decide together."""
    q, labels, k = candidates.probabilities, candidates.labels, candidates.k
    name = f"correlation {correlation:g} within cells"
    if correlation == 0:
        return _independent(candidates, name, q)
    if correlation == 1 or not (q == q[0]).all():
        return _simulated(candidates, name, labels, correlation, trials, seed)
    sizes = np.bincount(labels)
    distinct, place = np.unique(sizes, return_inverse=True)
    counts = [correlated_count(n, k, float(q[0]), correlation) for n in distinct.tolist()]
    failures, moments, _, nobody = np.array(counts).T[:, place]
    means = sizes * q[0]
    variances = means * (1 - q[0]) * (1 + (sizes - 1) * correlation)
    cells = _ByCell(failures, moments, nobody, means, variances)
    return _exact_prospect(candidates, name, q, cells, correlation)


def _simulated(
    candidates: _Candidates,
    name: str,
    groups: Integers,
    correlation: float,
    trials: int,
    seed: int,
) -> Prospect:
    """Return the prospect if the candidates of each group decide together, from trials."""
    q, labels = candidates.probabilities, candidates.labels
    rng = np.random.default_rng(seed)
    step = max(1, _DRAWS // len(labels))
    rows, published = [], np.zeros(len(q))
    for first in range(0, trials, step):
        n = min(step, trials - first)
        takes_part = _draw(rng, n, q, groups, correlation)
        counted, kept = _count(takes_part, candidates)
        rows.append(counted)
        published += kept.sum(axis=0)
        progress.report("simulating participation", first + n, trials)
    failing, unprotected, participants, released, cells_released = np.concatenate(rows).T
    means = _sum_by(labels, q)
    return Prospect(
        name=name,
        participation=float(q.mean()),
        correlation=correlation,
        groups=int(groups.max()) + 1,
        exact=False,
        table_failure=_mean(failing > 0),
        cell_failure=_mean(failing / candidates.cells),
        participant_failure=_mean(unprotected / means.sum()),
        participants=_mean(participants),
        released=_mean(released),
        cells_released=_mean(cells_released),
        information_loss=candidates.loss(published / trials),
        chebyshev=_chebyshev(means, _variances(q, labels, groups, correlation), candidates.k),
    )


def _draw(
    rng: np.random.Generator, trials: int, q: Floats, groups: Integers, correlation: float
) -> Mask:
    """Return who takes part in each trial. The level of a group is common to its members."""
    levels = rng.random((trials, int(groups.max()) + 1))
    # Equal members of a group have the same quantile, which is expensive: compute it once.
    pairs, place = np.unique(np.stack([groups, q]), axis=1, return_inverse=True)
    chosen = pairs[0].astype(np.int64)
    chances = beta_quantiles(levels[:, chosen], pairs[1], correlation)
    drawn: Mask = rng.random((trials, len(q))) < chances[:, place.reshape(-1)]
    return drawn


def _count(takes_part: Mask, candidates: _Candidates) -> tuple[Floats, Mask]:
    """Return the sums of each trial, and who is published in it."""
    labels, k = candidates.labels, candidates.k
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    counts = np.add.reduceat(takes_part[:, order], starts, axis=1, dtype=np.int64)
    fails = (counts > 0) & (counts < k)
    kept = takes_part & (counts >= k)[:, labels]
    sums = [
        fails.sum(axis=1),
        np.where(fails, counts, 0).sum(axis=1),
        counts.sum(axis=1),
        kept.sum(axis=1),
        (counts >= k).sum(axis=1),
    ]
    return np.stack(sums, axis=1).astype(np.float64), kept


def _sum_by(labels: Integers, values: Floats) -> Floats:
    sums: Floats = np.bincount(labels, values).astype(np.float64)
    return sums


def _variances(q: Floats, labels: Integers, groups: Integers, correlation: float) -> Floats:
    """Return an upper bound on the variance of the number of participants of each cell.

    Members of a group with different probabilities have at most this correlation.
    """
    deviations = np.sqrt(q * (1 - q))
    pairs, place = np.unique(np.stack([labels, groups]), axis=1, return_inverse=True)
    sums = _sum_by(place.reshape(-1), deviations)
    shared = _sum_by(pairs[0], sums**2)
    own = _sum_by(labels, q * (1 - q))
    return own + correlation * (shared - own)


def _mean(values: Any) -> Estimate:
    each = np.asarray(values, dtype=np.float64)
    return Estimate(float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each))))


# ------------------------------------------------------------------------- conditional centroids


def conditional_centroids(
    points: Floats, labels: Integers, participation: Floats, attained: Integers
) -> Floats:
    """Return the expected mean of the participants of each cell, given how many they were.

    With uneven participation it differs from the mean weighted by participation: the fewer take
    part, the more the likely participants count. A cell without participants keeps the latter. The
    numbers of participants are all that is used, and a release shows them anyway. O(n k) for cells
    of k participants.

    Parameters
    ----------
    points
        One row per candidate.
    labels
        Cell of each candidate.
    participation
        Probability of each candidate.
    attained
        Number of participants of each cell.

    Examples
    --------
    >>> X, labels, q = np.array([[0.0], [1.0]]), np.array([0, 0]), np.array([0.5, 0.9])
    >>> conditional_centroids(X, labels, q, np.array([1])).round(3)
    array([[0.9]])
    """
    q = as_probabilities(participation)
    attained = np.asarray(attained)
    sizes = np.bincount(labels, minlength=len(attained))
    if len(sizes) != len(attained) or (attained > sizes).any() or (attained < 0).any():
        raise DataError(
            "attained must have one number of participants per cell, at most its number of "
            "candidates.",
            code="data.invalid",
            option="attained",
        )
    weights = q.copy()
    for cell in np.flatnonzero(attained).tolist():
        members = np.flatnonzero(labels == cell)
        weights[members] = conditional_participation(q[members], int(attained[cell]))
    return centroids(np.ascontiguousarray(points, dtype=np.float64), labels, weights)
