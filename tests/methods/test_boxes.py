"""Boxes: worthwhile cuts within the failure limit, at readable bounds that are nobody's value."""

import json
from datetime import date, timedelta
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell import encoding, tables
from microcell.cells import load_cells
from microcell.cells.boxes import positions_of
from microcell.errors import DataError, GuaranteeError, OptionError, TooFewRecordsError
from microcell.methods import pcl
from microcell.methods.boxes import make_boxes, round_dates, round_numbers, round_wholes
from microcell.methods.candidates import (
    expected_distortion,
    participating_cells,
    size_for_participation,
)
from microcell.model import Column, EncodedColumn, Encoding, Schema
from microcell.schema import resolve
from microcell.surveys.words import describe_boxes
from tests.raising import raises


def encode(people, k, *columns):
    table = tables.read(people)
    named = {column.name: column for column in columns}
    schema = resolve.resolve(
        Schema(quasi=[named.get(name, Column(name)) for name in people]), table
    )
    fitted = encoding.fit(table, schema).published(k)
    return fitted, encoding.place(table, fitted).matrix


def draw_people(count, seed=0):
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 15_000, count)
    return {
        "age": rng.integers(18, 90, count),
        "income": rng.lognormal(10, 0.5, count).round(2),
        "born": [date(1950, 1, 1) + timedelta(days=int(day)) for day in days],
        "town": rng.choice(
            ["Ulm", "Bonn", "Kiel", "Trier", "Jena"], count, p=[0.4, 0.3, 0.2, 0.09, 0.01]
        ),
        "sex": rng.choice(["f", "m"], count),
        "level": rng.choice([1, 2, 3, 5], count),
    }


def encode_people(count=400, k=4, seed=0):
    people = draw_people(count, seed)
    return people, *encode(people, k, Column("level", kind="ordinal"))


def failure_of(chances, k):
    """Return P{0 < K < k} from the generating polynomial."""
    ways = np.array([1.0])
    for rng in chances:
        ways = np.convolve(ways, [1 - rng, rng])
    return ways[1:k].sum()


def best_gain(X, worth, rows, splits, may):
    """Return the largest gain of any allowed cut, by trying each; ``splits`` are masks over all
    rows."""
    best = 0.0
    for below in splits:
        one, two = rows[below[rows]], rows[~below[rows]]
        if len(one) and len(two) and may(one) and may(two):
            best = max(best, spread(X, worth, rows) - spread(X, worth, one) - spread(X, worth, two))
    return best


def spread(X, worth, rows):
    mean = np.average(X[rows], axis=0, weights=worth[rows])
    return (worth[rows][:, None] * (X[rows] - mean) ** 2).sum()


def all_splits(X, fitted):
    """Return every cut that boxes may make: between neighbouring values, and sets of categories."""
    out = []
    for column in fitted.columns:
        if column.kind == "nominal":
            positions = positions_of(column, X)
            present = sorted(set(positions.tolist()))
            for size in (1, 2):
                out += [np.isin(positions, chosen) for chosen in combinations(present, size)]
        else:
            x = X[:, column.first]
            out += [x < value for value in np.unique(x)[1:]]
    return out


def nodes_of(cells, X):
    """Return the rows that reach each question, and those it sends below."""
    rows = {0: np.arange(len(X))}
    out = []
    for split in range(cells.splits):
        part = rows[split]
        below = cells._is_below(split, X[part])
        rows[int(cells.lower[split])], rows[int(cells.upper[split])] = part[below], part[~below]
        out.append((part, below))
    return out, [rows[cells.splits + box] for box in range(len(cells))]


@pytest.mark.parametrize("uneven", [False, True])
def test_every_cut_is_nearly_optimal_and_no_cut_is_left(uneven):
    people = {
        name: column
        for name, column in draw_people(120).items()
        if name in ("age", "income", "town")
    }
    people["town"] = np.where(np.isin(people["town"], ["Ulm", "Bonn"]), people["town"], "Kiel")
    fitted, X = encode(people, 3)
    chances = np.random.default_rng(1).uniform(0.5, 0.9, 120) if uneven else np.full(120, 0.7)
    k, limit = 3, 0.02
    cells = make_boxes(X, fitted, k, chances, limit)
    splits = all_splits(X, fitted)

    def may(rows):
        return len(rows) >= k and failure_of(chances[rows], k) <= limit

    inner, leaves = nodes_of(cells, X)
    assert len(leaves) >= 4
    for members, below in inner:
        best = best_gain(X, chances, members, splits, may)
        created = best_gain(X, chances, members, [np.isin(np.arange(120), members[below])], may)
        assert created >= 0.95 * best * (1 - 1e-9)
    for members in leaves:
        assert may(members)
        assert best_gain(X, chances, members, splits, may) == 0


@given(
    st.integers(30, 200),
    st.integers(2, 5),
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from([1e-3, 0.05, 0.3]),
)
def test_boxes_cover_all_points_and_meet_their_limits(count, k, seed, uneven, limit):
    _, fitted, X = encode_people(count, k, seed)
    rng = np.random.default_rng(seed)
    chances = rng.uniform(0.3, 1.0, count) if uneven else np.full(count, rng.uniform(0.3, 1.0))
    try:
        cells = make_boxes(X, fitted, k, chances, limit)
    except TooFewRecordsError:
        assert failure_of(chances, k) > limit * (1 - 1e-9)
        return
    labels = cells.assign(X)
    np.testing.assert_array_equal(np.bincount(labels, minlength=len(cells)), cells.sizes)
    for cell in range(len(cells)):
        assert failure_of(chances[labels == cell], k) <= limit * (1 + 1e-9)
        np.testing.assert_allclose(
            cells.centroids[cell],
            np.average(X[labels == cell], axis=0, weights=chances[labels == cell]),
            atol=1e-12,
        )


def test_common_participation_is_binomial():
    assert failure_of([0.3] * 9, 4) == pytest.approx(
        sum(comb(9, j) * 0.3**j * 0.7 ** (9 - j) for j in (1, 2, 3))
    )


def test_largest_gains_come_first_and_most_is_kept():
    _, fitted, X = encode_people(800)
    result = [make_boxes(X, fitted, 4, 0.7, 0.01, most=most) for most in (1, 2, 5, 20)]
    assert [len(cells) for cells in result] == [1, 2, 5, 20]
    loss = [expected_distortion(X, cells.assign(X), 0.7) for cells in result]
    assert loss == sorted(loss, reverse=True)
    assert len(make_boxes(X, fitted, 4, 0.7, 0.01)) > 20
    again = make_boxes(X, fitted, 4, 0.7, 0.01, most=20, seed=99)
    assert again.to_json() == result[-1].to_json()


def test_weights_pull_cuts():
    fitted, X = encode({"age": np.arange(100)}, 2)
    heavy = np.where(np.arange(100) >= 80, 1000.0, 1.0)
    plain, pulled = (
        make_boxes(X, fitted, 2, 1.0, 0.01, weights=w, most=2).bounds[0] for w in (None, heavy)
    )
    assert plain == 49.5
    assert pulled > 80


def test_bounds_are_round_in_the_columns_own_units():
    _, fitted, X = encode_people(2000, k=5)
    cells = make_boxes(X, fitted, 5, 0.75, 1e-3, most=12)
    for split in range(cells.splits):
        column, bound = cells.column_of(split), cells.bounds[split]
        if column.name == "age":
            assert bound + 0.5 == int(bound + 0.5)
            assert bound + 0.5 in range(20, 90, 5)
        if column.name == "income":
            assert len(f"{bound:g}".rstrip("0")) <= 3
        if column.name == "born":
            day = date(1970, 1, 1) + timedelta(days=int(bound + 0.5))
            assert day.day == 1
            assert day.month in (1, 7)


def test_no_candidates_value_is_in_the_file(tmp_path):
    people, fitted, X = encode_people(3000, k=6)
    cells = make_boxes(X, fitted, 6, np.random.default_rng(5).uniform(0.4, 0.9, 3000), 1e-3)
    cells.save(tmp_path / "cells.json")
    content = json.loads((tmp_path / "cells.json").read_text())["cells"]
    del (
        content["sizes"],
        content["categories"],
        content["columns"],
        content["lower"],
        content["upper"],
    )
    numbers = set(np.unique([*content["bounds"], *np.ravel(content["centroids"])]).tolist())
    assert not numbers & set(people["income"].tolist())
    assert not numbers & {float(age) for age in people["age"]}
    assert not numbers & {float((day - date(1970, 1, 1)).days) for day in people["born"]}
    assert not {tuple(row) for row in X.tolist()} & {tuple(row) for row in cells.centroids.tolist()}
    coordinates = set(np.ravel(X).tolist())
    assert not set(content["bounds"]) & coordinates - {0.0}
    np.testing.assert_array_equal(load_cells(tmp_path / "cells.json").assign(X), cells.assign(X))


@pytest.mark.parametrize(
    "values",
    [
        np.linspace(-1e300, 1e300, 200),
        np.linspace(0, 3e-300, 200),
        2**62 + np.arange(200),
        np.arange(200) * 10**15 + np.datetime64("2000-01-01", "ns").astype(np.int64),
        1e15 + np.arange(200) / 4,
        np.repeat([1.0, np.nextafter(1.0, 2)], 100),
    ],
    ids=["huge", "tiny", "large whole", "long ago", "close", "closest"],
)
def test_any_scale_is_cut_in_two(values):
    fitted, X = encode({"x": values}, 5)
    cells = make_boxes(X, fitted, 5, 1.0, 0.01, most=2)
    if len(np.unique(values)) == 2:  # no number lies between
        assert len(cells) == 1
        return
    np.testing.assert_array_equal(np.sort(cells.sizes)[0] > 70, True)
    assert (np.diff(cells.assign(X)) >= 0).all()


def test_moments_are_cut_at_round_times():
    moments = np.datetime64("2024-03-03T10:17:31", "us") + np.arange(300) * np.timedelta64(
        60_000_123, "us"
    )
    fitted, X = encode({"at": moments}, 5)
    cells = make_boxes(X, fitted, 5, 1.0, 0.01, most=2)
    cut = np.datetime64(round(cells.bounds[0] + 0.5), "us")
    assert str(cut) in {"2024-03-03T12:00:00.000000", "2024-03-03T13:00:00.000000"}


def test_moments_in_nanoseconds_are_cut_where_nobody_is():
    days = np.arange("1950-01-01", "1980-01-01", dtype="M8[D]").astype("M8[ns]")
    fitted, X = encode({"born": days}, 5)
    cells = make_boxes(X, fitted, 5, 1.0, 0.01, most=5)
    counts = set(days.astype(np.int64).astype(float).tolist())
    assert not counts & set(cells.bounds.tolist())
    assert {str(days[cells.assign(X) == cell][0])[4:10] for cell in range(5)} == {"-01-01"}
    ends = [box.columns["born"].split() for box in describe_boxes(cells)]
    assert all(
        word.endswith("-01-01") or word in ("before", "to", "or", "later", "00:00")
        for words in ends
        for word in words
    )


def test_rare_categories_and_unknown_ones_share_the_unnamed_side():
    town = np.array(["a"] * 30 + ["b"] * 20 + ["c"] * 20 + ["rare"] * 2 + ["odd"] * 2)
    fitted, X = encode({"town": town}, 5)
    cells = make_boxes(X, fitted, 5, 1.0, 0.01)
    assert len(cells) == 3
    text = cells.to_json()
    assert "rare" not in text
    assert "odd" not in text
    unseen = encoding.place(tables.read({"town": ["never seen", "rare"]}), fitted).matrix
    assert len({*cells.assign(unseen).tolist(), *cells.assign(X[-4:]).tolist()}) == 1


def test_unknown_value_of_two_categories_follows_the_encoding():
    fitted, X = encode({"sex": ["f"] * 10 + ["m"] * 30}, 5)
    cells = make_boxes(X, fitted, 5, 1.0, 0.01)
    assert cells.categories == ((1,),)
    unseen = encoding.place(tables.read({"sex": ["x"]}), fitted).matrix
    assert cells.assign(unseen) == cells.assign(X[:1])


def test_uncuttable_tables_form_one_box():
    lat = np.random.default_rng(0).uniform(-50, 50, 60)
    home, X = encode({"home": lat}, 3)
    place = Column("home", kind="location", latitude="a", longitude="b")
    table = tables.read({"a": lat, "b": lat})
    located = encoding.fit(table, resolve.resolve(Schema(quasi=[place]), table)).published(3)
    assert len(make_boxes(encoding.place(table, located).matrix, located, 3, 1.0, 0.01)) == 1
    assert len(make_boxes(X, home, 3, 1.0, 0.01)) > 5
    same = Encoding((EncodedColumn("x", "numeric", ("x",), "integer"),))
    assert len(make_boxes(np.empty((60, 0)), same, 3, 1.0, 0.01)) == 1
    ties, X = encode({"x": [1] * 59 + [2]}, 3)
    assert len(make_boxes(X, ties, 3, 1.0, 0.01)) == 1


def test_boxes_lose_more_than_power_cells_and_those_more_than_certainty():
    _, fitted, X = encode_people(2000, k=5)
    size = size_for_participation(5, 0.75, 1e-3)
    boxes = expected_distortion(X, make_boxes(X, fitted, 5, 0.75, 1e-3).assign(X), 0.75)
    power = expected_distortion(X, pcl(X, size).cells.assign(X), 0.75)
    certain = expected_distortion(X, participating_cells(X, 5, 1.0, 1e-3), 1.0)
    assert certain < power < boxes < 2.5 * power


@pytest.mark.parametrize(
    ("change", "error", "code"),
    [
        ({"k": 1}, OptionError, "option.out_of_range"),
        ({"k": 500}, TooFewRecordsError, "guarantee.too_few_records"),
        ({"failure": 0}, OptionError, "option.out_of_range"),
        ({"failure": 1e-250}, TooFewRecordsError, "guarantee.too_few_records"),
        ({"participation": 0.0}, OptionError, "option.out_of_range"),
        ({"participation": np.full(10, 0.5)}, DataError, "data.invalid"),
        ({"participation": "often"}, DataError, "data.not_a_number"),
        ({"most": 0}, OptionError, "option.out_of_range"),
        ({"most": True}, OptionError, "option.out_of_range"),
        ({"weights": np.zeros(400)}, DataError, "data.bad_weight"),
        ({"k": 5}, GuaranteeError, "guarantee.failed"),
        ({"X": np.zeros((400, 2))}, DataError, "data.invalid"),
        ({"X": np.full((400, 10), np.nan)}, DataError, "data.not_finite"),
    ],
    ids=str,
)
def test_invalid_input_is_rejected(change, error, code):
    _, fitted, X = encode_people(400)
    arguments = {
        "X": X,
        "encoding": fitted,
        "k": 4,
        "participation": 0.7,
        "failure": 0.01,
        **change,
    }
    if np.isnan(arguments["X"]).any():
        arguments["X"] = np.full_like(X, np.nan)
    with raises(error, code):
        make_boxes(**arguments)


def first(levels):
    return next(result for result in levels if result)


def test_round_numbers():
    assert first(round_numbers(-3.0, 8.0)) == [0.0]
    assert first(round_numbers(0.031, 0.0335)) == [0.032]
    assert first(round_numbers(1234.1, 1299.0)) == [1250.0]
    assert first(round_numbers(1e-300, 3e-300)) == [2e-300]
    assert not any(round_numbers(float("inf"), float("inf")))
    assert first(round_wholes(-7, -6)) == [-7, -6] or first(round_wholes(-7, -6)) == [-6]
    assert first(round_wholes(34, 37)) == [35]
    assert first(round_wholes(61, 62)) == [62]


@given(st.integers(-(10**9), 10**9), st.integers(0, 10**6))
def test_round_wholes_end_in_every_number(low, width):
    levels = list(round_wholes(low, low + width))
    assert all(low <= value <= low + width for level in levels for value in level)
    assert low in levels[-1] or width >= 400


def test_round_dates_go_from_decades_to_days():
    born = EncodedColumn("born", "datetime", ("born",), "date", "D")
    levels = [level for level in round_dates(born, -400, 400) if level]
    assert levels[0] == [0]
    assert levels[-1][0] == -200 or len(levels[-1]) >= 400
