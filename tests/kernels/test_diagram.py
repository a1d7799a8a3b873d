"""Polygons of cells: power cells against their definition, and convex hulls."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.kernels.diagram import clip_diagram, hulls

UNIT = np.array([0.0, 0.0, 1.0, 1.0])


def shapes(polygons):
    return [
        polygons.vertices[a:b] for a, b in zip(polygons.starts, polygons.starts[1:], strict=False)
    ]


def area(shape):
    x, y = (shape - shape[:1]).T
    return float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2 if len(shape) else 0.0


def total(polygons):
    return sum(area(shape) for shape in shapes(polygons))


def depths(shape, points):
    """Return the distance of each point to the nearest edge, negative outside."""
    edges = np.roll(shape, -1, axis=0) - shape
    normals = np.stack([-edges[:, 1], edges[:, 0]], axis=1) / np.hypot(*edges.T)[:, None]
    return ((points[:, None] - shape) * normals).sum(axis=2).min(axis=1)


def turns(shape):
    edges = np.roll(shape, -1, axis=0) - shape
    after = np.roll(edges, -1, axis=0)
    return edges[:, 0] * after[:, 1] - edges[:, 1] * after[:, 0]


def grid(box, side=60):
    x, y = (np.linspace(box[j] + 1e-6, box[2 + j] - 1e-6, side) for j in (0, 1))
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def check(centroids, costs, box):
    """Compare with the plain oracle: each grid point is in the polygon of its cell."""
    result, points = clip_diagram(centroids, costs, box), grid(box)
    powers = ((points[:, None] - centroids) ** 2).sum(axis=2) + costs
    owners = powers.argmin(axis=1)
    for cell, shape in enumerate(shapes(result)):
        mine = points[owners == cell]
        if len(shape) == 0:
            assert len(mine) == 0
            continue
        assert len(mine) == 0 or depths(shape, mine).min() > -1e-9
        others = points[(powers[:, cell] > powers.min(axis=1) + 1e-9)]
        assert len(others) == 0 or depths(shape, others).max() < 1e-9
        assert turns(shape).min() > -1e-12
        assert area(shape) > 0
    assert total(result) == pytest.approx((box[2] - box[0]) * (box[3] - box[1]), rel=1e-9)
    return result


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40, 200])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 0.1])
def test_random_cells_follow_the_rule(count, spread):
    rng = np.random.default_rng(count)
    check(rng.random((count, 2)), rng.random(count) * spread, np.array([-0.2, 0.1, 1.1, 0.9]))


@given(
    st.lists(
        st.tuples(st.integers(-2, 6), st.integers(-2, 6), st.integers(-3, 3)),
        min_size=1,
        max_size=25,
        unique=True,
    )
)
def test_cells_on_a_grid_follow_the_rule(cells):
    """Collinear and cocircular centroids, several in one place, and some outside the box."""
    cells = np.array(cells, dtype=float)
    check(cells[:, :2], cells[:, 2], np.array([0.0, 0.0, 4.0, 3.0]))


def test_single_cell_fills_the_box():
    result = clip_diagram(np.array([[5.0, 5.0]]), np.array([7.0]), np.array([1.0, 2.0, 4.0, 3.0]))
    assert result.vertices.tolist() == [[1, 2], [4, 2], [4, 3], [1, 3]]
    assert result.starts.tolist() == [0, 4]


def test_no_cells_give_an_empty_diagram():
    result = clip_diagram(np.empty((0, 2)), np.empty(0), UNIT)
    assert result.vertices.shape == (0, 2)
    assert result.starts.tolist() == [0]


def test_expensive_cell_is_hidden():
    centroids = np.array([[0.2, 0.5], [0.5, 0.5], [0.8, 0.5]])
    assert np.diff(clip_diagram(centroids, np.array([0.0, 0.2, 0.0]), UNIT).starts).tolist() == [
        4,
        0,
        4,
    ]


def test_expensive_cell_may_not_contain_its_centroid():
    result = check(np.array([[0.3, 0.5], [0.5, 0.5]]), np.array([0.0, 0.1]), UNIT)
    assert depths(shapes(result)[1], np.array([[0.5, 0.5]]))[0] < 0


def test_far_cell_of_low_cost_cuts_although_many_are_nearer():
    rng = np.random.default_rng(0)
    centroids = np.vstack([rng.random((60, 2)) * 0.2, [[3.0, 3.0]]])
    result = check(centroids, np.append(np.zeros(60), -16.0), UNIT)
    assert area(shapes(result)[-1]) > 0.1


def test_cell_outside_the_box_is_empty():
    centroids = np.array([[0.5, 0.5], [5.0, 0.5]])
    assert np.diff(clip_diagram(centroids, np.zeros(2), UNIT).starts).tolist() == [4, 0]


@pytest.mark.parametrize(
    "costs, kept", [([0.0, 0.0, 0.0], 0), ([0.1, 0.0, 0.0], 1), ([0.1, 0.1, 0.0], 2)]
)
def test_of_coincident_cells_the_cheapest_then_the_first_is_kept(costs, kept):
    centroids = np.array([[0.3, 0.3]] * 3 + [[0.7, 0.7]])
    result = clip_diagram(centroids, np.array([*costs, 0.0]), UNIT)
    assert [cell for cell in range(3) if len(shapes(result)[cell])] == [kept]
    assert total(result) == pytest.approx(1)


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1.0, 1e9, 1e150])
def test_scale_does_not_matter(scale):
    rng = np.random.default_rng(3)
    centroids, costs = rng.random((50, 2)), rng.random(50) * 0.01
    result = clip_diagram(centroids * scale, costs * scale * scale, UNIT * scale)
    plain = clip_diagram(centroids, costs, UNIT)
    assert result.starts.tolist() == plain.starts.tolist()
    assert np.allclose(result.vertices / scale, plain.vertices, atol=1e-12)


def test_result_does_not_depend_on_the_origin():
    rng = np.random.default_rng(4)
    centroids = rng.random((50, 2))
    result = clip_diagram(centroids + 1e6, np.zeros(50), np.array([0.0, 0.0, 1.0, 1.0]) + 1e6)
    assert total(result) == pytest.approx(1)


def test_square_lattice_gives_squares():
    centroids = grid(np.array([0.0, 0.0, 1.0, 1.0]), side=20)
    result = clip_diagram(centroids, np.zeros(400), UNIT)
    assert set(np.diff(result.starts).tolist()) == {4}


def test_cell_may_have_very_many_neighbours():
    angles = np.linspace(0, 2 * np.pi, 500, endpoint=False)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    result = clip_diagram(
        np.vstack([ring, [[0.0, 0.0]]]), np.zeros(501), np.array([-2.0, -2.0, 2.0, 2.0])
    )
    assert len(shapes(result)[-1]) == 500
    assert total(result) == pytest.approx(16)


@pytest.mark.parametrize("spread", [0.0, 1e-3])
def test_two_thousand_cells(spread):
    rng = np.random.default_rng(5)
    result = clip_diagram(rng.random((2000, 2)), rng.random(2000) * spread, UNIT)
    assert total(result) == pytest.approx(1, rel=1e-9)
    assert all(turns(shape).min() > -1e-12 for shape in shapes(result) if len(shape))
    assert result.vertices.min() == 0
    assert result.vertices.max() == 1


def test_neighbours_share_their_corners():
    rng = np.random.default_rng(6)
    result = clip_diagram(rng.random((100, 2)), np.zeros(100), UNIT)
    inner = result.vertices[((result.vertices > 1e-9) & (result.vertices < 1 - 1e-9)).all(axis=1)]
    together = (np.abs(inner[:, None] - inner) < 1e-9).all(axis=2).sum(axis=1)
    assert together.min() >= 3


def test_hulls_contain_their_points():
    rng = np.random.default_rng(7)
    points, labels = rng.normal(size=(600, 2)), rng.integers(0, 12, 600)
    for cell, shape in enumerate(shapes(hulls(points, labels))):
        members = points[labels == cell]
        assert {tuple(vertex) for vertex in shape} <= {tuple(point) for point in members}
        assert depths(shape, members).min() > -1e-12
        assert turns(shape).min() > 0


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_hulls_of_few_points(scale):
    points = (
        np.array([[1, 1], [0, 0], [2, 2], [3, 3], [5, 5], [5, 5], [7, 8], [9, 9], [8, 9.0]]) * scale
    )
    result = shapes(hulls(points, np.array([0, 0, 0, 0, 2, 2, 3, 3, 3])))
    assert [len(shape) for shape in result] == [2, 0, 1, 3]
    assert result[0].tolist() == (np.array([[0, 0], [3, 3]]) * scale).tolist()
    assert result[2].tolist() == [[5 * scale, 5 * scale]]


def test_hulls_of_points_that_repeat():
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1.0]])
    points = np.repeat(np.vstack([square, square / 2, [[0.5, 0.0]]]), 3, axis=0)
    assert (
        shapes(hulls(points, np.zeros(len(points), dtype=np.int64)))[0].tolist() == square.tolist()
    )


def test_hulls_of_no_points():
    result = hulls(np.empty((0, 2)), np.empty(0, dtype=np.int64))
    assert result.starts.tolist() == [0]
