"""Maps of cells: file formats, contents, and the colours of neighbouring cells."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from microcell.kernels.diagram import clip_diagram, hulls
from microcell.report.figures.cells import (
    Panel,
    choose_colours,
    draw_panels,
    find_limits,
    sample_rows,
)

BOX = np.array([0.0, 0.0, 1.0, 1.0])


def power_panel(count, n=300, *, seed=0, title="PCL"):
    rng = np.random.default_rng(seed)
    points, centroids = rng.random((n, 2)), rng.random((count, 2))
    labels = ((points[:, None] - centroids) ** 2).sum(axis=2).argmin(axis=1)
    polygons = clip_diagram(centroids, np.zeros(count), BOX)
    return Panel(title, points, labels, centroids, polygons, f"{count} cells")


def hull_panel(count, n=300, *, outlined=True):
    panel = power_panel(count, n)
    polygons = hulls(
        np.vstack([panel.points, panel.centroids]), np.append(panel.labels, np.arange(count))
    )
    return Panel(
        "MDAV",
        panel.points,
        panel.labels,
        panel.centroids,
        polygons if outlined else None,
        "distortion 0.046",
    )


@pytest.mark.parametrize(
    ("format", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_files_have_the_requested_format_and_are_reproducible(format, start):
    panels = [hull_panel(20), power_panel(20, 6000), hull_panel(5, outlined=False)]
    figure = draw_panels(panels, format, axis_labels=("age", "income"))
    assert figure.startswith(start)
    assert figure == draw_panels(panels, format, axis_labels=("age", "income"))


def test_text_stays_text_and_dollar_signs_are_not_formulas():
    panels = [power_panel(3, title="Cost in $ and in $")]
    svg = draw_panels(panels, "svg", axis_labels=("age", "")).decode()
    texts = [
        "".join(node.itertext())
        for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"Cost in $ and in $", "3 cells", "age"} <= set(texts)


def test_an_axis_without_a_name_has_no_tick_labels():
    svg = draw_panels([power_panel(3), power_panel(4)], "svg").decode()
    assert svg.count("<text") == 4


def test_many_records_are_drawn_as_an_image():
    few, many = (draw_panels([power_panel(2, n)], "svg").decode() for n in (100, 6000))
    crosses = 4
    tick_marks = 12
    assert len(re.findall(r"<use ", few)) - 100 in range(crosses, crosses + tick_marks)
    assert "<image" not in few
    assert "<image" in many
    assert len(many) < 200_000


@pytest.mark.parametrize(("n", "most"), [(0, 0), (4999, 4999), (5000, 5000), (100_000, 5000)])
def test_at_most_5000_records_are_drawn(n, most):
    rows = sample_rows(n)
    assert len(rows) == len(set(rows.tolist())) == most
    assert rows.tolist() == sample_rows(n).tolist()
    assert most == 0 or 0 <= rows.min() <= rows.max() < n


@pytest.mark.parametrize("count", [1, 2, 10, 100, 500])
@pytest.mark.parametrize("seed", [0, 1])
def test_adjacent_cells_differ_in_colour(count, seed):
    """Two cells that share two corners share an edge."""
    panel = power_panel(count, seed=seed)
    colours, vertices = choose_colours(panel, 6), panel.polygons.vertices
    owners = np.repeat(np.arange(count), np.diff(panel.polygons.starts))
    same = (np.abs(vertices[:, None] - vertices) < 1e-9).all(axis=2)
    shared = np.zeros((count, count), dtype=int)
    np.add.at(shared, (owners[np.nonzero(same)[0]], owners[np.nonzero(same)[1]]), 1)
    adjacent = (shared >= 2) & ~np.eye(count, dtype=bool)
    first, second = np.nonzero(adjacent)
    assert (colours[first] != colours[second]).all()
    assert adjacent.sum() / 2 >= count - 1  # the map is connected
    assert colours.min() >= 0
    assert colours.max() < 6


def test_cells_of_a_grid_differ_across_corners_too():
    steps = (np.arange(8) + 0.5) / 8
    centroids = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    polygons = clip_diagram(centroids, np.zeros(64), BOX)
    panel = Panel("", centroids, np.arange(64), centroids, polygons)
    colours = choose_colours(panel, 6).reshape(8, 8)
    assert (colours[1:, 1:] != colours[:-1, :-1]).all()
    assert (colours[1:, :-1] != colours[:-1, 1:]).all()


def test_overlapping_hulls_share_colours_only_if_there_are_too_many():
    points = np.tile(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), (8, 1))
    labels = np.repeat(np.arange(8), 3)
    panel = Panel("", points, labels, np.full((8, 2), 1 / 3), hulls(points, labels))
    assert np.bincount(choose_colours(panel, 8)).tolist() == [1] * 8
    assert sorted(np.bincount(choose_colours(panel, 6)).tolist()) == [1, 1, 1, 1, 2, 2]


def test_empty_cells_and_cells_of_a_single_position_are_drawn():
    points = np.zeros((6, 2))
    centroids = np.zeros((3, 2))
    labels = np.repeat(np.arange(3), 2)
    for polygons in (None, clip_diagram(centroids, np.zeros(3), BOX), hulls(points, labels)):
        assert draw_panels([Panel("Same", points, labels, centroids, polygons)], "png")


def test_panels_share_limits_that_contain_everything():
    points = np.array([[-3.0, 0.0], [2.0, 5.0]])
    wide = Panel("", points, np.zeros(2, dtype=np.int64), np.zeros((1, 2)), None)
    low, high = find_limits([wide, power_panel(4)])
    assert low.tolist() == pytest.approx([-3.1, -0.1])
    assert high.tolist() == pytest.approx([2.1, 5.1])
