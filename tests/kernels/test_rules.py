"""The violation of a cell under a rule, against the measures of the audit and plain counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.kernels.annealing import _list_empty, exchange_at_random, walk_everywhere
from microcell.kernels.exchange import Limits, find_near_cells, find_near_records
from microcell.kernels.groups import make_grouping
from microcell.kernels.rules import (
    KINDS,
    Values,
    cell_violations,
    is_neutral,
    keeps_persons,
    make_rule,
    take_rows,
    trait_rule,
)
from microcell.measures.confidential import count_values
from microcell.measures.registry import measures
from tests.kernels.calling import in_python

AT_LEAST = ("l_diversity", "l_entropy", "l_recursive")
MEASURES = (*AT_LEAST, "t_closeness", "t_kullback", "delta_disclosure")


def limits_on(**by_measure):
    limits = np.array([0.0] * 3 + [np.inf] * 3)
    for name, limit in by_measure.items():
        limits[MEASURES.index(name)] = limit
    return limits


def grouping(labels, X=None):
    n = len(labels)
    points = np.zeros((n, 1)) if X is None else X
    return make_grouping(points, np.ones(n), labels, int(labels.max()) + 2, n)


def codes_of(values):
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


@given(
    seed=st.integers(0, 10**6),
    values=st.sampled_from([1, 2, 5, 70, 200]),
    ordered=st.booleans(),
    cells=st.integers(1, 12),
)
def test_violations_follow_the_measures(seed, values, ordered, cells):
    rng = np.random.default_rng(seed)
    codes = codes_of(rng.integers(0, values, 90))
    labels = codes_of(rng.integers(0, cells, 90))
    counts = count_values(labels, codes, ordered=ordered)
    for name in MEASURES:
        limit = 1e6 if name in AT_LEAST else -1.0
        column = Values(codes, ordered, limits_on(**{name: limit}))
        rule = make_rule(90, [Values(labels, True, limits_on()), column])
        violations = cell_violations(grouping(labels), rule)[: len(counts.sizes)]
        reached = limit - violations if name in AT_LEAST else violations / counts.sizes + limit
        assert reached == pytest.approx(measures()[name].compute(counts), abs=1e-8)
    assert len(MEASURES) == KINDS


@given(seed=st.integers(0, 10**6))
def test_persons_count_once(seed):
    rng = np.random.default_rng(seed)
    persons, codes = rng.integers(0, 12, 40), codes_of(rng.integers(0, 4, 40))
    labels = codes_of(rng.integers(0, 5, 40))
    members = [np.flatnonzero(labels == cell) for cell in range(labels.max() + 1)]
    alone = cell_violations(grouping(labels), make_rule(40, persons=persons, least=7))
    missing = [max(0, 7 - len(set(persons[rows]))) for rows in members]
    assert alone[:-1].tolist() == missing
    limits = limits_on(t_closeness=-1.0)
    rule = make_rule(40, [Values(codes, False, limits)], persons=persons, least=2)
    pairs = sorted({(cell, p, c) for cell, p, c in zip(labels, persons, codes, strict=True)})
    table = sorted({(p, c) for _, p, c in pairs})
    whole = np.bincount([c for _, c in table], minlength=4)[: codes.max() + 1] / len(table)
    violations = cell_violations(grouping(labels), rule)
    for cell, rows in enumerate(members):
        own = [c for which, _, c in pairs if which == cell]
        shares = np.bincount(own, minlength=len(whole)) / len(own)
        expected = len(own) * (1 + np.abs(shares - whole).sum() / 2)
        expected += max(0, 2 - len(set(persons[rows])))
        assert violations[cell] == pytest.approx(expected)


@given(seed=st.integers(0, 10**6), penalty=st.sampled_from([1e30, 0.3]))
def test_search_keeps_violations_or_pays_for_them(seed, penalty):
    """A veto never raises any violation; two columns and persons at once."""
    rng = np.random.default_rng(seed)
    n, k = 120, 4
    X, persons = rng.normal(size=(n, 2)), rng.integers(0, 60, n)
    columns = [
        Values(codes_of(rng.integers(0, 3, n)), False, limits_on(l_diversity=2)),
        Values(np.arange(n), True, limits_on(t_closeness=0.3)),
    ]
    whole = make_rule(2 * n, [_twice(c) for c in columns], persons=np.tile(persons, 2), least=k)
    rule = take_rows(whole, np.arange(n))._replace(penalty=penalty)
    labels = rng.permutation(n) // 12
    cells = make_grouping(X, np.ones(n), labels, n // k + 1, n)
    around, near = np.empty((n // k + 1, 9), np.int64), np.empty((n, 20), np.int32)
    find_near_cells(cells.sums, cells.totals, around)
    find_near_records(cells, around, 0, len(cells.sizes), near)
    before = cell_violations(cells, rule).sum()
    state = np.array([seed], dtype=np.uint64)
    walk = walk_everywhere(n, len(cells.sizes))
    made = exchange_at_random(
        cells, near, np.full(n, 0.2), Limits(k, n), rule, walk, 4000.0 / n, state
    )
    assert made > 0
    after = cell_violations(cells, rule).sum()
    if penalty > 1:
        assert after <= before + 1e-9
    assert sorted(
        row for c, size in enumerate(cells.sizes) for row in cells.members[c, :size]
    ) == list(range(n))


def _twice(column):
    return column._replace(codes=np.tile(column.codes, 2))


def test_cells_form_and_dissolve_within_the_limits():
    """Cells of twelve are far too large for two balanced values in three places."""
    rng = np.random.default_rng(0)
    n, k = 144, 4
    codes = np.arange(n) % 2
    X = rng.normal(size=(n, 2)) + 8.0 * rng.integers(0, 3, n)[:, np.newaxis]
    rule = make_rule(n, [Values(codes, False, limits_on(t_closeness=0.1))], similar=codes)
    labels = np.arange(n) // 12
    for _ in range(2):
        cells = make_grouping(X, np.ones(n), labels, n // k + 1, n)
        around, near = np.empty((len(cells.sizes), 9), np.int64), np.empty((n, 20), np.int32)
        find_near_cells(cells.sums, cells.totals, around)
        find_near_records(cells, around, 0, len(cells.sizes), near)
        walk = walk_everywhere(n, len(cells.sizes))._replace(recount=5)
        state = np.array([1], dtype=np.uint64)
        exchange_at_random(cells, near, np.full(n, 0.1), Limits(k, n), rule, walk, 200.0, state)
        labels = codes_of(cells.labels)
    assert cell_violations(cells, rule).sum() == 0
    assert len(np.unique(labels)) > 20
    assert np.bincount(labels).min() >= k


@given(seed=st.integers(0, 10**6))
def test_only_exchanges_of_equal_values_are_neutral(seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (2, 12))
    columns = [Values(each, False, limits_on(l_diversity=2)) for each in codes]
    rule, of_persons = make_rule(12, columns), make_rule(12, columns, persons=np.arange(12))
    for x in range(12):
        for y in range(12):
            equal = bool((codes[:, x] == codes[:, y]).all())
            assert in_python(is_neutral)(rule, x, y) == equal
            assert not in_python(is_neutral)(of_persons, x, y)
    assert not in_python(is_neutral)(trait_rule(np.zeros((12, 1)), 0), 0, 1)


@given(seed=st.integers(0, 10**6), least=st.integers(1, 6))
def test_persons_after_an_exchange_are_counted(seed, least):
    rng = np.random.default_rng(seed)
    persons, labels = rng.integers(0, 8, 30), codes_of(rng.integers(0, 3, 30))
    cells, rule = grouping(labels), make_rule(30, persons=persons, least=least)
    for leaves in range(30):
        staying = [i for i in np.flatnonzero(labels == labels[leaves]) if i != leaves]
        if len({*persons[staying], persons[leaves]}) < least:
            continue  # cells have enough persons before every exchange
        for joins in (-1, *np.flatnonzero(labels != labels[leaves])):
            after = {*persons[staying]} | ({persons[joins]} if joins >= 0 else set())
            keeps = in_python(keeps_persons)(cells, rule, leaves, np.int64(joins))
            assert keeps == (len(after) >= least)


@given(seed=st.integers(0, 10**6))
def test_the_list_of_empty_cells_follows_moves(seed):
    """A new cell takes members of others, which are dissolved if they become too small."""
    rng = np.random.default_rng(seed)
    labels = codes_of(rng.integers(0, 8, 24))
    cells = grouping(labels)
    for _ in range(6):
        new = cells.empty[cells.empty[0]]
        moved = rng.choice(24, rng.integers(1, 7), replace=False)
        origins = labels[moved]
        labels[moved] = new
        dissolved = int(rng.choice(origins))
        rows = np.flatnonzero(labels == dissolved)
        others = np.setdiff1d(np.unique(labels), [new, dissolved])
        if len(others):
            labels[rows] = others[0]
            moved, origins = (
                np.append(moved, rows),
                np.append(origins, np.full(len(rows), dissolved)),
            )
        cells.sizes[:] = np.bincount(labels, minlength=len(cells.sizes))
        in_python(_list_empty)(cells, np.array([moved, origins]), len(moved))
        listed = cells.empty[1 : 1 + cells.empty[0]].tolist()
        assert sorted(listed) == np.flatnonzero(cells.sizes == 0).tolist()
