"""Mask confidential numbers: add noise, swap, bound or round them before they are published."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b, shake_256
from math import ceil, floor

import numpy as np

from microcell import tables
from microcell.errors import OptionError, SchemaError
from microcell.kinds.values import Representatives, Values
from microcell.model import Column, Floats, Integers, Mask, Schema, Table
from microcell.model.audit import MaskEffect

__all__ = ["has_random_masks", "mask_confidential", "measure_masks", "refuse_masks"]


def has_random_masks(schema: Schema) -> bool:
    """Return True if a confidential column is masked by noise or by swapping."""
    return any(column.is_randomized for column in schema.confidential)


def mask_confidential(
    table: Table, schema: Schema, rows: Integers | None = None, key: str | None = None
) -> Table:
    """Return the table with confidential numbers masked as the schema requires.

    Noise and swaps come first, then bounds, then rounding. The masked values are published
    unchanged, and the audit compares with them.

    Parameters
    ----------
    rows
        The rows to be released. Only these get noise or are swapped, so that the values of others
        have no influence. All, if omitted.
    key
        Secret key of the release, which determines noise and swaps.

    Raises
    ------
    OptionError
        A column is masked by noise or swapping, but there is no key.
    """
    columns = [column for column in schema.confidential if column.masks]
    if not columns:
        return table
    for column in columns:
        _check_numbers(column, table.columns[column.name])
    numbers = {column.name: _numbers(table.columns[column.name]) for column in columns}
    if has_random_masks(schema):
        if key is None:
            raise OptionError(
                "The schema masks columns by noise or swapping. Pass the manifest of the release, "
                "which has the key that determines them.",
                code="option.missing",
                option="manifest",
            )
        released = np.arange(table.rows) if rows is None else rows
        draws = _Draws(key, table if rows is None else tables.take(table, rows))
        _add_noise(table, columns, numbers, released, draws)
        _swap_ranks(table, columns, numbers, released, draws)
    masked = {
        column.name: _bound(column, table.columns[column.name], numbers[column.name])
        for column in columns
    }
    return tables.publish(table, np.arange(table.rows), masked)


def refuse_masks(schema: Schema, where: str) -> None:
    """Raise SchemaError if confidential numbers are to be masked where that is not supported."""
    for column in schema.confidential:
        for field in column.masks:
            raise SchemaError(
                f"Column {column.name!r}: {field} is not supported for {where}. Change the values "
                f"in the table first, and remove {field} from the schema.",
                code="schema.invalid",
                column=column.name,
                field=field,
            )


def _check_numbers(column: Column, values: Values) -> None:
    if not values.is_number:
        field = next(iter(column.masks))
        raise SchemaError(
            f"Column {column.name!r}: {field} is only valid for numbers, not for {values.storage} "
            "values. Remove it.",
            code="schema.wrong_kind",
            column=column.name,
            field=field,
        )


def _numbers(values: Values) -> np.ndarray:
    return np.where(values.missing, 0, values.data)


def _bound(column: Column, values: Values, numbers: np.ndarray) -> Representatives:
    whole = values.storage == "integer"
    if column.bottom is not None:
        numbers = np.maximum(numbers, ceil(column.bottom) if whole else column.bottom)
    if column.top is not None:
        numbers = np.minimum(numbers, floor(column.top) if whole else column.top)
    if column.round is not None:
        numbers = _round(numbers, column.round, whole=whole)
    return Representatives("number", numbers, values.missing)


def _round(numbers: np.ndarray, step: float, *, whole: bool) -> np.ndarray:
    if whole and float(step).is_integer():
        half, size = int(step) // 2, int(step)
        return np.asarray((numbers + half) // size * size)
    exact = Fraction(repr(step))  # as a decimal number, so that 3 * 0.1 is 0.3
    return np.asarray(np.rint(numbers / step) * exact.numerator / exact.denominator + 0.0)


# ------------------------------------------------------------------------------ noise


def _add_noise(
    table: Table,
    columns: Sequence[Column],
    numbers: dict[str, np.ndarray],
    rows: Integers,
    random: "_Draws",
) -> None:
    """Add correlated noise (Kim 1986); columns with the same share keep their covariances.

    Noise e with the covariance a * cov(x), uncorrelated with x, gives the published values
    mean + (x - mean + e) / sqrt(1 + a), whose means and covariances are those of x.
    """
    shares = sorted({column.noise for column in columns if column.noise is not None})
    for share in shares:
        names = [column.name for column in columns if column.noise == share]
        present = np.column_stack([~table.columns[name].missing[rows] for name in names])
        values = np.column_stack([numbers[name][rows].astype(np.float64) for name in names])
        draws = np.column_stack([random.normal(len(rows), f"noise {name}") for name in names])
        noisy = _with_noise(values, present, draws, share)
        for at, name in enumerate(names):
            changed = noisy[:, at]
            if table.columns[name].storage == "integer":
                changed = np.rint(changed).astype(np.int64)
            numbers[name] = numbers[name].copy()
            there = present[:, at]
            numbers[name][rows[there]] = changed[there]


def _with_noise(values: Floats, present: Mask, draws: Floats, share: float) -> Floats:
    # Relative to the largest value, so that squares of huge or tiny numbers stay representable.
    largest = np.abs(np.where(present, values, 0.0)).max(axis=0, initial=0.0)
    largest = np.where(largest > 0, largest, 1.0)
    return np.asarray(_mix_noise(values / largest, present, draws, share) * largest)


def _mix_noise(values: Floats, present: Mask, draws: Floats, share: float) -> Floats:
    counts = np.maximum(present.sum(axis=0), 1)
    means = np.where(present, values, 0.0).sum(axis=0) / counts
    points = np.where(present, values - means, 0.0)
    scales = np.sqrt(np.square(points).sum(axis=0) / counts)
    scales = np.where(scales > 0, scales, 1.0)
    points /= scales
    noise = _shape_noise(points, np.where(present, draws, 0.0)) * np.sqrt(share)
    mixed = np.where(present, (points + noise) / np.sqrt(1 + share), 0.0)
    constant = np.square(points).sum(axis=0) == 0
    # With missing values the moments of each column are restored one by one.
    mixed = np.where(present, mixed - mixed.sum(axis=0) / counts, 0.0)
    spread = np.sqrt(np.square(mixed).sum(axis=0) / counts)
    mixed = mixed / np.where(spread > 0, spread, 1.0)
    return np.where(constant, values, means + mixed * scales)


def _shape_noise(points: Floats, draws: Floats) -> Floats:
    """Return noise with the covariance of the points, and uncorrelated with them."""
    n, m = points.shape
    noise = draws - draws.mean(axis=0)
    if n < 3 * m + 3:  # too few records to be exact
        return np.asarray(noise @ _root(points.T @ points / n))
    noise = noise - points @ np.linalg.lstsq(points, noise, rcond=None)[0]
    own = _root(noise.T @ noise / n)
    white = noise @ np.linalg.pinv(own)
    return np.asarray(white @ _root(points.T @ points / n))


def _root(matrix: Floats) -> Floats:
    """Return the symmetric square root of a covariance matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


# ------------------------------------------------------------------------------ swapping


def _swap_ranks(
    table: Table,
    columns: Sequence[Column],
    numbers: dict[str, np.ndarray],
    rows: Integers,
    random: "_Draws",
) -> None:
    """Exchange values whose ranks differ by at most a share of the records (Moore 1996)."""
    for column in columns:
        if column.swap is None:
            continue
        there = rows[~table.columns[column.name].missing[rows]]
        reach = int(column.swap * len(there) + 1e-9)
        values = numbers[column.name]
        order = there[np.argsort(values[there], kind="stable")]
        partner = _pair_ranks(len(order), reach, random.uniform(len(order), f"swap {column.name}"))
        swapped = values.copy()
        swapped[order] = values[order[partner]]
        numbers[column.name] = swapped


def _pair_ranks(n: int, reach: int, draws: Floats) -> Integers:
    """Return the rank that each rank is exchanged with: another free one within reach."""
    partner = np.full(n, -1, dtype=np.int64)
    for rank in range(n):
        if partner[rank] >= 0:
            continue
        partner[rank] = rank
        last = min(n - 1, rank + reach)
        if last == rank:
            continue
        first = rank + 1 + int(draws[rank] * (last - rank))
        for other in (*range(first, last + 1), *range(first - 1, rank, -1)):
            if partner[other] < 0:
                partner[rank], partner[other] = other, rank
                break
    return partner


# ------------------------------------------------------------------------------ randomness


class _Draws:
    """Random numbers from the secret key of a release, by a cryptographic generator.

    They also depend on the released records, so that the difference between two releases with the
    same key, one person apart, does not cancel the noise of everybody else.
    """

    def __init__(self, key: str, released: Table) -> None:
        self._key = bytes.fromhex(key)
        self._context = tables.digest(released, key=b"masking")

    def uniform(self, n: int, purpose: str) -> Floats:
        """Draw numbers between 0 and 1."""
        text = f"{self._context} {purpose}".encode()
        seed = blake2b(text, key=self._key, person=b"masking").digest()
        whole = np.frombuffer(shake_256(seed).digest(8 * n), dtype="<u8") >> np.uint64(11)
        return np.asarray((whole.astype(np.float64) + 0.5) / 2.0**53)

    def normal(self, n: int, purpose: str) -> Floats:
        """Draw standard normal deviates (Box-Muller)."""
        radius = np.sqrt(-2 * np.log(self.uniform(n, purpose)))
        return np.asarray(radius * np.cos(2 * np.pi * self.uniform(n, f"{purpose}, angle")))


# ------------------------------------------------------------------------------ effects


def measure_masks(
    original: Table, masked: Table, schema: Schema, rows: Integers
) -> tuple[MaskEffect, ...]:
    """Return what masking does to each masked column of the released rows."""
    columns = [column for column in schema.confidential if column.masks]
    reals = {
        name: _reals(original.columns[name], rows)
        for name in (column.name for column in (*schema.confidential, *schema.quasi))
        if name in original.columns and original.columns[name].is_number
    }
    after = {**reals, **{c.name: _reals(masked.columns[c.name], rows) for c in columns}}
    return tuple(_effect(column, reals, after) for column in columns)


def _reals(values: Values, rows: Integers) -> Floats:
    return np.where(values.missing[rows], np.nan, values.reals()[rows])


def _effect(
    column: Column, reals: Mapping[str, Floats], masked: Mapping[str, Floats]
) -> MaskEffect:
    name = column.name
    there = ~np.isnan(reals[name])
    unit = float(np.abs([reals[name][there], masked[name][there]]).max(initial=0.0)) or 1.0
    before, after = reals[name][there] / unit, masked[name][there] / unit
    n = len(before)
    spread = float(before.std()) if n else 0.0
    scale = spread if spread > 0 else 1.0
    changes = [
        abs(_correlation(masked[name], masked[other]) - _correlation(reals[name], reals[other]))
        for other in reals
        if other != name
    ]
    return MaskEffect(
        name,
        tuple(column.masks),
        float((before != after).mean()) if n else 0.0,
        float((after.mean() - before.mean()) / scale) if n else 0.0,
        float(after.std() / scale - 1) if spread > 0 else 0.0,
        float(np.abs(after - before).mean() / scale) if n else 0.0,
        max(changes, default=0.0),
    )


def _correlation(x: Floats, y: Floats) -> float:
    both = ~(np.isnan(x) | np.isnan(y))
    if both.sum() < 2:
        return 0.0
    x, y = (part / (np.abs(part).max() or 1.0) for part in (x[both], y[both]))
    if x.std() == 0 or y.std() == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
