"""Power cells against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from microcell._validation import FARTHEST
from microcell.cells import PowerCells
from microcell.errors import DataError, GuaranteeError, OptionError
from tests.raising import raises

SECRET = "Aspasia"


def power(centroids, costs, **fields):
    count = len(centroids)
    return PowerCells(
        **{"centroids": centroids, "costs": costs, "sizes": [3] * count, "k": 3, **fields}
    )


def oracle(X, centroids, costs):
    """Return the cell of each point, one at a time, with sums in the order of the kernel."""
    out = []
    for x in X:
        sums = [cost + 0.0 for cost in costs]
        for q, centroid in enumerate(centroids):
            for a, b in zip(x, centroid, strict=True):
                sums[q] += (a - b) * (a - b)
        out.append(sums.index(min(sums)))
    return np.array(out, dtype=np.int64)


@st.composite
def diagrams(draw):
    """Points, centroids and costs in integers, so that sums are exact and ties frequent."""
    m, count, n = draw(st.integers(1, 4)), draw(st.integers(1, 6)), draw(st.integers(0, 12))
    return tuple(
        draw(arrays(np.float64, shape, elements=st.integers(-6, 6)))
        for shape in ((n, m), (count, m), (count,))
    )


@given(diagrams())
def test_cell_is_the_first_of_least_distance_and_cost(diagram):
    X, centroids, costs = diagram
    labels = power(centroids, costs).assign(X)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, oracle(X, centroids, costs))


@given(diagrams(), st.integers(-1000, 1000))
def test_adding_a_constant_to_all_costs_does_not_matter(diagram, constant):
    X, centroids, costs = diagram
    np.testing.assert_array_equal(
        power(centroids, costs + constant).assign(X), power(centroids, costs).assign(X)
    )


@given(diagrams())
def test_points_are_assigned_one_by_one(diagram):
    X, centroids, costs = diagram
    cells = power(centroids, costs)
    together = cells.assign(X)
    np.testing.assert_array_equal(cells.assign(X[::-1])[::-1], together)
    for x, label in zip(X, together, strict=True):
        assert cells.assign(x[np.newaxis]) == label


def test_cells_without_costs_are_those_of_the_nearest_centroids():
    random = np.random.default_rng(0)
    X, centroids = random.normal(size=(500, 3)), random.normal(size=(40, 3))
    nearest = ((X[:, np.newaxis] - centroids) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(power(centroids, np.zeros(40)).assign(X), nearest)


def test_one_cell_one_column_no_column():
    assert power([[7.0]], [3.0]).assign([1.0, 2.0, -9.0]).tolist() == [0, 0, 0]
    assert power([[0.0], [4.0]], [0.0, 0.0]).assign([2.0, 2.1]).tolist() == [0, 1]
    assert power([[], []], [2.0, 1.0]).assign(np.empty((3, 0))).tolist() == [1, 1, 1]
    assert power([[0.0, 1.0]], [0.0]).assign(np.empty((0, 2))).shape == (0,)


@pytest.mark.parametrize("scale", [1e-100, 1e-20, 1e20, 1e99])
def test_scales(scale):
    random = np.random.default_rng(1)
    X, centroids, costs = (
        random.uniform(size=(99, 2)),
        random.uniform(size=(9, 2)),
        random.uniform(size=9) / 9,
    )
    scaled = power(centroids * scale, costs * scale**2)
    np.testing.assert_array_equal(scaled.assign(X * scale), power(centroids, costs).assign(X))


def test_distant_points_get_a_cell():
    cells = power([[-1.0, 0.0], [1.0, 0.0]], [0.0, 0.0])
    assert cells.assign([[1e6, 0.0], [-1e6, 0.0]]).tolist() == [1, 0]
    assert set(cells.assign([[1e308, -1e308], [FARTHEST * 10, 0.0]])) <= {0, 1}


# ----------------------------------------------------------------------------------------- choosers


def nested(seed, levels, m=2):
    """Return cells nested in several levels of macrocells, with random integers."""
    random = np.random.default_rng(seed)
    chooser, group = None, None
    for level in range(levels):
        count = 3 * 2**level
        fields = {} if chooser is None else {"chooser": chooser, "group": group}
        chooser = power(random.integers(-9, 9, (count, m)), random.integers(0, 9, count), **fields)
        group = np.concatenate([np.arange(count), random.integers(0, count, count)])
        random.shuffle(group)
    return chooser


def nested_oracle(cells, x):
    if cells.chooser is None:
        return oracle([x], cells.centroids, cells.costs)[0]
    macrocell = nested_oracle(cells.chooser, x)
    members = [q for q in range(len(cells)) if cells.group[q] == macrocell]
    return members[oracle([x], cells.centroids[members], cells.costs[members])[0]]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("levels", [2, 3, 4])
def test_choosers_decide_first(seed, levels):
    cells = nested(seed, levels)
    X = np.random.default_rng(seed + 99).integers(-9, 9, (60, 2)).astype(float)
    np.testing.assert_array_equal(cells.assign(X), [nested_oracle(cells, x) for x in X])


@pytest.mark.parametrize("seed", range(5))
def test_cells_within_macrocells_are_those_of_the_parts(seed):
    random = np.random.default_rng(seed)
    top = power(random.integers(-9, 9, (3, 2)), [0, 5, 1])
    parts = [nested(seed, 1), nested(seed + 1, 3), nested(seed + 2, 2)]
    cells = PowerCells.within(top, parts)
    X = random.integers(-9, 9, (99, 2)).astype(float)
    firsts, macrocells = np.cumsum([0, *map(len, parts)]), top.assign(X)
    expected = [firsts[i] + nested_oracle(parts[i], x) for i, x in zip(macrocells, X, strict=True)]
    np.testing.assert_array_equal(cells.assign(X), expected)


def test_every_macrocell_needs_a_part():
    with raises(DataError, "data.invalid", entry="chooser"):
        PowerCells.within(power([[0.0], [1.0]], [0, 0]), [power([[0.0]], [0])])


# ------------------------------------------------------------------------------------ invalid input


@pytest.mark.parametrize(
    "fields, error, expected",
    [
        ({"centroids": [1.0, 2.0]}, DataError, {"code": "data.invalid"}),
        (
            {"centroids": [[1.0], [2.0, 3.0]]},
            DataError,
            {"code": "data.invalid"},
        ),
        ({"centroids": [[1.0], [np.nan]]}, DataError, {"code": "data.invalid"}),
        ({"centroids": [[1.0], [np.inf]]}, DataError, {"code": "data.invalid"}),
        ({"centroids": [[1.0], [1e101]]}, DataError, {"code": "data.invalid"}),
        ({"centroids": [[SECRET], ["x"]]}, DataError, {"code": "data.invalid"}),
        ({"centroids": [[True], [False]]}, DataError, {"code": "data.invalid"}),
        ({"centroids": [[1j], [2j]]}, DataError, {"code": "data.invalid"}),
        ({"centroids": [[1.0]]}, DataError, {"code": "data.invalid", "entry": "sizes"}),
        (
            {"centroids": [], "sizes": [], "costs": []},
            DataError,
            {"code": "data.invalid", "entry": "sizes"},
        ),
        ({"sizes": [3.0, 3.0]}, DataError, {"code": "data.invalid"}),
        ({"sizes": [3, -3]}, DataError, {"code": "data.invalid"}),
        ({"sizes": [3, 2]}, GuaranteeError, {"code": "guarantee.failed", "k": 3}),
        ({"sizes": [0, 3], "k": 1}, GuaranteeError, {"code": "guarantee.failed", "k": 1}),
        ({"k": 0}, OptionError, {"code": "option.out_of_range", "option": "k"}),
        ({"k": True}, OptionError, {"code": "option.out_of_range", "option": "k"}),
        ({"k": 2.0}, OptionError, {"code": "option.out_of_range", "option": "k"}),
        ({"costs": [0.0]}, DataError, {"code": "data.invalid", "entry": "costs"}),
        ({"costs": [0.0, np.nan]}, DataError, {"code": "data.invalid"}),
        ({"group": [0, 0]}, DataError, {"code": "data.invalid", "entry": "group"}),
        ({"chooser": power([[0.0]], [0.0])}, DataError, {"code": "data.invalid", "entry": "group"}),
        (
            {"group": [0, 1], "chooser": power([[0.0]], [0.0])},
            DataError,
            {"code": "data.invalid", "entry": "chooser"},
        ),
        (
            {"group": [0, 0], "chooser": power([[0.0], [1.0]], [0.0, 0.0])},
            DataError,
            {"code": "data.invalid", "entry": "chooser"},
        ),
        (
            {"group": [0], "chooser": power([[0.0]], [0.0])},
            DataError,
            {"code": "data.invalid", "entry": "chooser"},
        ),
        (
            {"group": [0, 0], "chooser": power([[0.0, 1.0]], [0.0])},
            DataError,
            {"code": "data.invalid", "entry": "chooser"},
        ),
        (
            {"group": [0, 0], "chooser": power([[0.0]], [0.0], representatives={"a": [1]})},
            DataError,
            {"code": "data.invalid", "entry": "chooser"},
        ),
        (
            {"representatives": {"age": [1]}},
            DataError,
            {"code": "data.invalid", "entry": "representatives", "column": "age"},
        ),
        (
            {"representatives": {"age": [1, np.nan]}},
            DataError,
            {"code": "data.invalid", "entry": "representatives", "column": "age"},
        ),
        (
            {"representatives": {"age": [1, {1, 2}]}},
            DataError,
            {"code": "data.invalid", "entry": "representatives", "column": "age"},
        ),
        (
            {"representatives": {"age": "ab"}},
            DataError,
            {"code": "data.invalid", "entry": "representatives", "column": "age"},
        ),
        (
            {"representatives": [1, 2]},
            DataError,
            {"code": "data.invalid", "entry": "representatives"},
        ),
        (
            {"chooser": "x", "group": [0, 0]},
            DataError,
            {"code": "data.invalid", "entry": "chooser"},
        ),
        (
            {"representatives": {3: [1, 2]}},
            DataError,
            {"code": "data.invalid", "entry": "representatives", "column": 3},
        ),
    ],
)
def test_inconsistent_cells_are_rejected(fields, error, expected):
    with raises(error, **expected) as caught:
        PowerCells(
            **{"centroids": [[0.0], [4.0]], "costs": [0.0, 0.0], "sizes": [3, 5], "k": 3, **fields}
        )
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "X, expected",
    [
        ([1.0, 2.0], {"code": "data.invalid"}),
        (5.0, {"code": "data.invalid"}),
        (np.zeros((2, 2, 2)), {"code": "data.invalid"}),
        ([[1.0]], {"code": "data.invalid"}),
        (np.empty((0, 3)), {"code": "data.invalid"}),
        ([[1.0, 2.0], [3.0, np.nan]], {"code": "data.not_finite"}),
        ([[-np.inf, 2.0], [3.0, np.nan]], {"code": "data.not_finite"}),
        ([[1.0, None]], {"code": "data.not_finite"}),
        ([[1.0, 2.0], [3.0]], {"code": "data.not_a_number"}),
        ([[1.0, SECRET]], {"code": "data.not_a_number"}),
        (np.array([[1.0, SECRET]], dtype=object), {"code": "data.not_a_number"}),
        ([[1.0, 10**400]], {"code": "data.not_a_number"}),
        ([[1j, 2.0]], {"code": "data.not_a_number"}),
        (
            np.array([["1999-01-01", "2000-01-01"]], dtype="datetime64[D]"),
            {"code": "data.not_a_number"},
        ),
    ],
    ids=lambda item: type(item).__name__,
)
def test_invalid_points_are_rejected_without_showing_a_value(X, expected):
    with raises(DataError, **expected) as caught:
        power([[0.0, 0.0]], [0.0]).assign(X)
    assert not any(value in str(caught.value) for value in (SECRET, "1999", str(10**400)))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint64, np.float16, np.float32, np.longdouble, np.bool_, object]
)
def test_numbers_of_any_type_are_points(dtype):
    assert power([[0.0], [4.0]], [0.0, 3.0]).assign(
        np.array([[0], [1]]).astype(dtype)
    ).tolist() == [0, 0]


def test_cells_do_not_change():
    centroids = np.zeros((1, 2))
    cells = power(centroids, [0.0], representatives={"age": np.array([3])})
    centroids[:] = 7
    assert cells.centroids.tolist() == [[0.0, 0.0]]
    with pytest.raises(ValueError, match="read-only"):
        cells.centroids[0, 0] = 1
    with pytest.raises(TypeError):
        cells.representatives["age"] = (4,)
    assert cells.representatives == {"age": (3,)}
    assert len(cells) == 1
    assert (cells.kind, cells.holds_records) == ("power", False)
