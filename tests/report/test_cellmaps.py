"""Maps of cells: the files, what is drawn, and the colours."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from microcell.errors import DataError, OptionError
from microcell.kernels.diagram import clip_diagram, hulls
from microcell.report import CellMap, draw_cellmaps
from microcell.report.plots import choose_colours, find_limits, sample_rows

BOX = np.array([0.0, 0.0, 1.0, 1.0])


def power_map(count, n=300, *, seed=0, title="PCL"):
    rng = np.random.default_rng(seed)
    points, centroids = rng.random((n, 2)), rng.random((count, 2))
    labels = ((points[:, None] - centroids) ** 2).sum(axis=2).argmin(axis=1)
    return CellMap(
        title,
        points,
        labels,
        centroids,
        clip_diagram(centroids, np.zeros(count), BOX),
        f"{count} cells",
    )


def hull_map(count, n=300, *, drawn=True):
    item = power_map(count, n)
    polygons = hulls(
        np.vstack([item.points, item.centroids]), np.append(item.labels, np.arange(count))
    )
    return CellMap(
        "MDAV",
        item.points,
        item.labels,
        item.centroids,
        polygons if drawn else None,
        "distortion 0.046",
    )


@pytest.mark.parametrize("form, start", [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_forms_are_the_same_every_time(form, start):
    maps = [hull_map(20), power_map(20, 6000), hull_map(5, drawn=False)]
    drawn = draw_cellmaps(maps, form, axes=("age", "income"))
    assert drawn.startswith(start)
    assert drawn == draw_cellmaps(maps, form, axes=("age", "income"))


def test_words_stay_words():
    svg = draw_cellmaps(
        [power_map(3, title="Cost in $ and in $")], "svg", axes=("age", "")
    ).decode()
    texts = [
        "".join(node.itertext())
        for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"Cost in $ and in $", "3 cells", "age"} <= set(texts)


def test_an_axis_without_a_name_has_no_numbers():
    svg = draw_cellmaps([power_map(3), power_map(4)], "svg").decode()
    assert svg.count("<text") == 4


def test_few_points_are_all_drawn_and_many_are_a_picture():
    few, many = (draw_cellmaps([power_map(2, n)], "svg").decode() for n in (100, 6000))
    crosses = 4
    assert len(re.findall(r"<use ", few)) - 100 in range(
        crosses, crosses + 12
    )  # and the marks of the axes
    assert "<image" not in few
    assert "<image" in many
    assert len(many) < 200_000


@pytest.mark.parametrize("n, most", [(0, 0), (4999, 4999), (5000, 5000), (100_000, 5000)])
def test_no_more_than_five_thousand_points(n, most):
    rows = sample_rows(n)
    assert len(rows) == len(set(rows.tolist())) == most
    assert rows.tolist() == sample_rows(n).tolist()
    assert most == 0 or 0 <= rows.min() <= rows.max() < n


@pytest.mark.parametrize("count", [1, 2, 10, 100, 500])
@pytest.mark.parametrize("seed", [0, 1])
def test_adjacent_cells_differ_in_colour(count, seed):
    """Neighbours by their corners: two cells that share two of them share an edge."""
    item = power_map(count, seed=seed)
    colours, vertices = choose_colours(item, 6), item.polygons.vertices
    owners = np.repeat(np.arange(count), np.diff(item.polygons.starts))
    same = (np.abs(vertices[:, None] - vertices) < 1e-9).all(axis=2)
    shared = np.zeros((count, count), dtype=int)
    np.add.at(shared, (owners[np.nonzero(same)[0]], owners[np.nonzero(same)[1]]), 1)
    adjacent = (shared >= 2) & ~np.eye(count, dtype=bool)
    one, two = np.nonzero(adjacent)
    assert (colours[one] != colours[two]).all()
    assert adjacent.sum() / 2 >= count - 1  # the cells hang together
    assert colours.min() >= 0
    assert colours.max() < 6


def test_a_lattice_differs_across_corners_too():
    steps = (np.arange(8) + 0.5) / 8
    centroids = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    polygons = clip_diagram(centroids, np.zeros(64), BOX)
    colours = choose_colours(CellMap("", centroids, np.arange(64), centroids, polygons), 6).reshape(
        8, 8
    )
    assert (colours[1:, 1:] != colours[:-1, :-1]).all()
    assert (colours[1:, :-1] != colours[:-1, 1:]).all()


def test_overlapping_hulls_differ_and_too_many_share():
    points = np.tile(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), (8, 1))
    labels = np.repeat(np.arange(8), 3)
    item = CellMap("", points, labels, np.full((8, 2), 1 / 3), hulls(points, labels))
    assert np.bincount(choose_colours(item, 8)).tolist() == [1] * 8
    assert sorted(np.bincount(choose_colours(item, 6)).tolist()) == [1, 1, 1, 1, 2, 2]


def test_hidden_cells_and_cells_of_one_place_are_drawn():
    points = np.zeros((6, 2))
    centroids = np.zeros((3, 2))
    for polygons in (
        None,
        clip_diagram(centroids, np.zeros(3), BOX),
        hulls(points, np.repeat(np.arange(3), 2)),
    ):
        item = CellMap("Same", points, np.repeat(np.arange(3), 2), centroids, polygons)
        assert draw_cellmaps([item], "png")


def test_limits_are_shared_and_hold_everything():
    wide = CellMap(
        "", np.array([[-3.0, 0.0], [2.0, 5.0]]), np.zeros(2, dtype=np.int64), np.zeros((1, 2)), None
    )
    low, high = find_limits([wide, power_map(4)])
    assert low.tolist() == pytest.approx([-3.1, -0.1])
    assert high.tolist() == pytest.approx([2.1, 5.1])


def test_wrong_requests_are_refused():
    with pytest.raises(OptionError, match="No figure form 'gif'"):
        draw_cellmaps([power_map(2)], "gif")
    with pytest.raises(OptionError, match="nothing to draw"):
        draw_cellmaps([], "svg")


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"points": np.zeros((300, 3))}, "two dimensions"),
        ({"labels": np.zeros(5, dtype=np.int64)}, "5 labels for 300 records"),
        ({"centroids": np.zeros((1, 2))}, "a centroid"),
        (
            {"polygons": hulls(np.zeros((1, 2)), np.zeros(1, dtype=np.int64))},
            "1 polygons for 3 cells",
        ),
    ],
)
def test_a_map_checks_what_it_is_given(changed, message):
    item = power_map(3)
    fields = {
        name: getattr(item, name) for name in ("title", "points", "labels", "centroids", "polygons")
    }
    with pytest.raises(DataError, match=message):
        CellMap(**{**fields, **changed})
