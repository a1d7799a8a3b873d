"""Random numbers, the heap, and scans over remaining records, against plain versions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.kernels.scans import BLOCK, lay_out, make_scratch
from tests.kernels import calling
from tests.reference.oracles import squared_distances

MASK = 2**64 - 1


def splitmix(state):
    """Return the next state and output (Steele, Lea and Flood 2014), with unbounded integers."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return state, z ^ z >> 31


def test_published_outputs_of_splitmix():
    state, outputs = 1234567, []
    for _ in range(3):
        state, output = splitmix(state)
        outputs.append(output)
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("seed", [0, 1234567, MASK])
def test_draws_are_the_upper_bits_of_splitmix(seed):
    state = np.array([seed], dtype=np.uint64)
    for _ in range(20):
        seed, output = splitmix(seed)
        assert calling.draw(state) == (output >> 11) / 2**53
        assert int(state[0]) == seed
    before = state.copy()
    assert calling.pick(state, np.int64(7)) == int(calling.draw(before) * 7)


@given(st.integers(0, 9), st.lists(st.integers(0, 6), max_size=30))
def test_the_heap_keeps_the_smallest_by_distance_and_row(capacity, offered):
    distances, rows = np.full(capacity, -1.0), np.full(capacity, -1)
    size = np.int64(0)
    order = np.random.default_rng(len(offered)).permutation(len(offered))
    for row, distance in zip(order, offered, strict=True):
        size = calling.offer(distances, rows, size, float(distance), row)
        held = sorted(zip(distances[:size], rows[:size], strict=True), reverse=True)
        assert held[:1] == list(zip(distances[:1], rows[:1], strict=True))[:size]
    expected = sorted(zip(map(float, offered), order.tolist(), strict=True))[:capacity]
    assert sorted(zip(distances[:size].tolist(), rows[:size].tolist(), strict=True)) == expected


def check_scan(X, points, rows, target, scratch, k):
    """Compare a scan with sorting all remaining rows by distance and number."""
    rows = np.sort(rows)
    far = calling.scan(points, target, scratch, k)
    distances = squared_distances(X[rows], target)
    nearest = rows[np.argsort(distances, kind="stable")][:k]
    count = scratch.sizes[0]
    assert sorted(scratch.rows[0, :count]) == sorted(nearest)
    assert sorted(scratch.distances[0, :count]) == sorted(squared_distances(X[nearest], target))
    assert far == rows[np.argmax(distances)]
    if k and count == k:
        assert scratch.rows[0, 0] == nearest[-1]


@pytest.mark.parametrize("n", [3, BLOCK - 1, BLOCK, 2 * BLOCK + 9])
@pytest.mark.parametrize("m", [1, 4, 6])
def test_scans_after_records_leave_and_return(n, m):
    rng = np.random.default_rng(n + m)
    X = rng.integers(0, 5, size=(n, m)).astype(float)
    points, scratch = lay_out(X), make_scratch(5, 1)
    out, values = rng.permutation(n)[: n // 2], np.empty(m)
    for row in rng.permutation(n)[:200]:
        calling.read_point(points, row, values)
        assert (values == X[row]).all()
    for row in out:
        calling.take_out(points, row)
        assert points.places[row] == -1
    for row in out[::3]:
        calling.put_back(points, row, X[row])
    rows = np.delete(np.arange(n), np.delete(out, np.s_[::3]))
    assert points.left[0] == len(rows)
    assert sorted(points.rows[: len(rows)]) == rows.tolist()
    assert (points.rows[points.places[rows]] == rows).all()
    for k in (0, 1, 5):
        check_scan(X, points, rows, X[rows[0]] + 0.25, scratch, k)


def test_scans_in_several_chunks():
    X = np.random.default_rng(0).integers(0, 3, size=(700, 300)).astype(float)
    X[300:] = X[:400]  # ties between chunks
    for chunks in (1, 2):  # 210,000 entries
        check_scan(X, lay_out(X), np.arange(700), X[5], make_scratch(9, chunks), 9)
