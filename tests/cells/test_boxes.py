"""Box cells: a tree of questions that puts every point into exactly one box."""

import json
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell import encoding, tables
from microcell.cells import BoxCells, load_cells
from microcell.cells.boxes import Side, coordinate_of, positions_of
from microcell.errors import DataError, GuaranteeError, TableError
from microcell.model import Column, EncodedColumn, Encoding, Schema
from microcell.schema import resolve
from tests.raising import raises

AGE = EncodedColumn(
    "age",
    "numeric",
    ("age",),
    "integer",
    origin=40,
    centre=np.array([0.3]),
    scale=np.array([7.1]),
    weight=2.0,
)
TOWN = EncodedColumn(
    "town", "nominal", ("town",), "text", first=1, centre=np.array([0.3, 0.2, 0.1]),
    scale=np.ones(3), names=("Ulm", None, "Kiel"), weight=0.4,
)  # fmt: skip
GRADE = EncodedColumn(
    "grade", "ordinal", ("grade",), "text", first=4, centre=np.zeros(1), scale=np.ones(1),
    names=("low", "mid", "high"), places=np.array([-1.0, 0.1, 1.2]),
)  # fmt: skip
ENCODING = Encoding((AGE, TOWN, GRADE), 3)
PARTS = {
    "centroids": np.zeros((4, 5)), "sizes": [3, 4, 5, 6], "k": 3, "encoding": ENCODING,
    "columns": [0, 1, 2], "bounds": [34.5, 0.0, 0.65], "categories": [(), (2,), ()],
    "lower": [1, 3, 5], "upper": [2, 4, 6],
}  # fmt: skip


def make(**changes):
    return BoxCells(**{**PARTS, **changes})


def place(ages, towns, grades):
    table = tables.read({"age": np.array(ages), "town": np.array(towns), "grade": np.array(grades)})
    return encoding.place(table, ENCODING).matrix


def test_points_are_assigned_by_the_questions():
    points = place(
        [34, 34, 34, 35, 80, 80],
        ["Kiel", "Ulm", "Rome", "Kiel", "Ulm", "Ulm"],
        ["low"] * 4 + ["mid", "high"],
    )
    assert make().assign(points).tolist() == [0, 1, 1, 2, 2, 3]


def test_bound_belongs_to_the_upper_side_to_the_last_bit():
    rng = np.random.default_rng(0)
    for _ in range(300):
        values = np.sort(rng.normal(rng.normal() * 10, 10.0 ** rng.integers(-3, 6), 50))
        table = tables.read({"x": values})
        fitted = encoding.fit(
            table,
            resolve.resolve(Schema(quasi=[Column("x", weight=float(rng.uniform(0.1, 9)))]), table),
        )
        bound = float(rng.choice(values))
        cells = BoxCells(
            centroids=[[0.0], [0.0]], sizes=[9, 9], k=1, encoding=fitted,
            columns=[0], bounds=[bound], categories=[()], lower=[1], upper=[2],
        )  # fmt: skip
        calls = np.array(
            [np.nextafter(bound, -inf) - 1e-9 * abs(bound), bound, np.nextafter(bound, inf)]
        )
        assert cells.assign(encoding.place(tables.read({"x": calls}), fitted).matrix).tolist() == [
            0,
            1,
            1,
        ]


@pytest.mark.parametrize("origin", [0, 7, 2**60, -(2**61) + 3])
def test_bounds_of_whole_numbers_lie_between_them(origin):
    column = replace(AGE, origin=origin)
    bound = float(origin) + (0.0 if abs(origin) > 2**52 else -0.5)
    below, at = (
        encoding.place(tables.read({"age": np.array([value])}), Encoding((column,))).matrix[0, 0]
        for value in (int(bound // 1) - (1 if bound == bound // 1 else 0), int(-(-bound // 1)))
    )
    assert below < coordinate_of(column, bound) <= at


def test_unknown_and_withheld_categories_have_no_position():
    points = place([40] * 4, ["Ulm", "Kiel", "Bonn", ""], ["low"] * 4)
    points = np.vstack([points, points[0]])
    points[-1, 1:4] = (np.array([0, 1 / np.sqrt(2), 0]) - TOWN.centre) * np.sqrt(
        0.4
    )  # the one that is withheld
    assert positions_of(TOWN, points).tolist() == [0, 2, -1, -1, -1]


def test_sides_describe_the_boxes():
    cells = make()
    sides = cells.sides()
    assert sides[0] == {0: Side(high=34.5), 1: Side(names=frozenset({2})), 2: Side()}
    assert sides[1][1] == Side(names=frozenset({0}), others=True)
    assert sides[3] == {
        0: Side(low=34.5),
        1: Side(names=frozenset({0, 2}), others=True),
        2: Side(low=0.65),
    }


@given(st.integers(1, 12), st.integers(0, 10**6))
def test_every_point_is_in_exactly_one_box(splits, seed):
    """A random tree; boxes as ranges and sets, read by themselves."""
    rng = np.random.default_rng(seed)
    cells = random_boxes(rng, splits)
    ages, towns = rng.integers(0, 90, 200), rng.choice(["Ulm", "Kiel", "Rome"], 200)
    grades = rng.choice(["low", "mid", "high"], 200)
    positions = {"Ulm": 0, "Kiel": 2}
    held = np.zeros((200, len(cells)), dtype=bool)
    for box, sides in enumerate(cells.sides()):
        for row in range(200):
            values = {0: float(ages[row]), 2: float(GRADE.places[GRADE.names.index(grades[row])])}
            inside = True
            for at, side in sides.items():
                if at == 1:
                    position = positions.get(towns[row])
                    inside &= side.others if position is None else position in side.names
                else:
                    inside &= side.low <= values[at] < side.high
            held[row, box] = inside
    assert (held.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(held.argmax(axis=1), cells.assign(place(ages, towns, grades)))


def random_boxes(rng, splits):
    lower, upper, free = [], [], [0]
    ends = []
    for split in range(splits):
        ends.append(free.pop(rng.integers(len(free))))
        free += [(split, 0), (split, 1)]
    children = {end: number for number, end in enumerate([*ends[1:], *free], start=1)}
    for split in range(splits):
        lower.append(children[split, 0])
        upper.append(children[split, 1])
    columns = rng.integers(0, 3, splits)
    return make(
        centroids=np.zeros((splits + 1, 5)), sizes=[9] * (splits + 1), columns=columns,
        bounds=np.where(
            columns == 2, rng.uniform(-1.5, 1.5, splits), rng.integers(0, 90, splits) - 0.5
        ),
        categories=[(int(rng.choice([0, 2])),) if column == 1 else () for column in columns],
        lower=lower, upper=upper,
    )  # fmt: skip


def test_boxes_survive_a_round_trip_to_a_file(tmp_path):
    cells = make(representatives={"age": [30, 31, 60, 61]})
    cells.save(tmp_path / "cells.json")
    again = load_cells(tmp_path / "cells.json")
    assert type(again) is BoxCells
    assert again.contents() == cells.contents()
    assert not again.holds_records
    points = place(range(20, 80), ["Kiel", "Ulm", "Rome"] * 20, ["low", "high"] * 30)
    np.testing.assert_array_equal(again.assign(points), cells.assign(points))
    content = json.loads((tmp_path / "cells.json").read_text())
    content["cells"]["bounds"][0] = 44.5
    (tmp_path / "cells.json").write_text(json.dumps(content))
    with raises(TableError, "table.malformed"):
        load_cells(tmp_path / "cells.json")


def test_names_too_rare_for_k_are_taken_out_of_the_encoding():
    counted = replace(TOWN, names=("Ulm", "Bonn", "Kiel"), counts=np.array([9, 2, 9]))
    cells = make(encoding=Encoding((AGE, counted, GRADE)))
    assert cells.encoding.columns[1].names == ("Ulm", None, "Kiel")
    with raises(DataError, "data.invalid", entry="categories", question=2):
        make(encoding=Encoding((AGE, counted, GRADE)), categories=[(), (1,), ()])


def test_one_box_needs_no_question():
    empty = {"columns": [], "bounds": [], "categories": [], "lower": [], "upper": []}
    cells = make(centroids=np.zeros((1, 5)), sizes=[18], **empty)
    assert cells.assign(np.ones((3, 5))).tolist() == [0, 0, 0]
    assert cells.sides() == [{}]


@pytest.mark.parametrize(
    ("changes", "entry"),
    [
        ({"encoding": None}, "encoding"),
        ({"encoding": Encoding((AGE,), 3)}, "encoding"),
        ({"columns": [0, 1]}, "columns"),
        ({"columns": [0, 1, 3]}, "categories"),
        ({"columns": [0, 0, 2]}, "categories"),
        ({"bounds": [np.nan, 0.0, 0.0]}, "bounds"),
        ({"bounds": [1.0, 0.0]}, "columns"),
        ({"categories": None}, "categories"),
        ({"categories": [(), (), ()]}, "categories"),
        ({"categories": [(), (1,), ()]}, "categories"),
        ({"categories": [(), (3,), ()]}, "categories"),
        ({"categories": [(), (2, 2), ()]}, "categories"),
        ({"categories": [(), (True,), ()]}, "categories"),
        ({"categories": [(), ("Kiel",), ()]}, "categories"),
        ({"categories": [(0,), (2,), ()]}, "categories"),
        ({"lower": [1, 3, 3]}, "lower"),
        ({"lower": [0, 3, 5]}, "lower"),
        ({"lower": [2, 3, 5], "upper": [1, 4, 2]}, "lower"),
        ({"lower": [1, 3, 7]}, "lower"),
        ({"sizes": [3, 4, 5]}, "sizes"),
    ],
    ids=str,
)
def test_invalid_question_trees_are_rejected(changes, entry):
    with raises(DataError, "data.invalid", entry=entry):
        make(**changes)


@pytest.mark.parametrize(("changes", "smallest"), [({"sizes": [3, 4, 5, 2]}, 2), ({"k": 4}, 3)])
def test_question_trees_with_small_cells_are_rejected(changes, smallest):
    with raises(GuaranteeError, "guarantee.failed", smallest=smallest):
        make(**changes)


def test_question_about_two_categories_is_about_the_second():
    sex = EncodedColumn(
        "sex",
        "nominal",
        ("sex",),
        "text",
        centre=np.array([0.5]),
        scale=np.ones(1),
        names=("f", "m"),
    )
    parts = {"centroids": [[0.0], [0.0]], "sizes": [3, 3], "k": 3, "encoding": Encoding((sex,), 3)}
    rest = {"columns": [0], "bounds": [0.0], "lower": [1], "upper": [2]}
    assert BoxCells(**parts, **rest, categories=[(1,)]).assign([[0.5], [-0.5]]).tolist() == [0, 1]
    with raises(DataError, "data.invalid", entry="categories", question=1):
        BoxCells(**parts, **rest, categories=[(0,)])


@pytest.mark.parametrize(
    ("points", "code"),
    [
        ([[np.nan] * 5], "data.not_finite"),
        ([[np.inf] * 5], "data.not_finite"),
        (np.zeros((2, 4)), "data.invalid"),
        ([["a"] * 5], "data.not_a_number"),
    ],
    ids=str,
)
def test_invalid_points_are_rejected(points, code):
    with raises(DataError, code):
        make().assign(points)
