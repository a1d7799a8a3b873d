"""Every registered kind does its job: encode, publish, compare."""

import datetime
import json

import numpy as np
import pytest

from microcell.encoding import encode, fit, place
from microcell.errors import SchemaError
from microcell.kinds import KINDS, detect_kind, kind_of
from microcell.measures.pairs import ColumnPairs
from microcell.model import Column, Encoding, Schema
from microcell.release.aggregate import represent
from microcell.schema.resolve import resolve
from tests.raising import raises
from tests.small_tables import table, values

ITEMS = {
    "numeric": [1.5, 2.5, 9.25, 4.0, None],
    "ordinal": [3, 1, 2, 3, None],
    "nominal": ["a", "b", "b", "c", None],
    "code": ["94110", "94121", "10001", "94110", None],
    "hierarchy": ["Rome", "Bonn", "Cairo", "Rome", None],
    "datetime": [datetime.date(2020, 1, day) for day in (1, 5, 9, 30)] + [None],
    "location": [10.0, 20.0, 30.0, 40.0, None],
}

PLACES = {"Europe": {"Italy": ["Rome"], "Germany": ["Bonn"]}, "Africa": {"Egypt": ["Cairo"]}}


def one_column(name):
    """Return a table with one column of this kind, and its resolved schema."""
    if KINDS[name].n_parts == 2:
        column = Column("x", kind=name, latitude="lat", longitude="lon")
        data = table(lat=ITEMS[name], lon=ITEMS[name])
    else:
        column = Column("x", kind=name, hierarchy=PLACES if KINDS[name].takes_hierarchy else None)
        data = table(x=ITEMS[name])
    return data, resolve(Schema(quasi=[column]), data)


def test_every_kind_is_covered_and_registered_under_its_name():
    assert set(ITEMS) == set(KINDS)
    assert all(kind.name == name for name, kind in KINDS.items())


@pytest.mark.parametrize("name", ITEMS)
def test_records_get_the_same_points_from_a_saved_encoding(name):
    data, schema = one_column(name)
    encoded = encode(data, schema)
    plain = json.loads(json.dumps(fit(data, schema).published(1).as_dict()))
    placed = place(data, Encoding.from_dict(plain))
    assert placed.matrix.tobytes() == encoded.matrix.tobytes()
    assert not encoded.matrix[-1].any()  # missing: at the mean
    (column,) = encoded.encoding.columns
    assert column.layout == KINDS[name].layout
    assert KINDS[name].max_dimensions in (None, column.dimensions)


@pytest.mark.parametrize("name", ITEMS)
def test_the_default_representative_is_the_first_allowed_one(name):
    data, schema = one_column(name)
    assert schema.quasi[0].publish == KINDS[name].representatives[0]
    published = represent(data, schema, np.array([0, 0, 1, 1, 2]))
    for part in schema.quasi[0].parts:
        assert published[part].missing.tolist() == [False, False, True]


@pytest.mark.parametrize("name", ITEMS)
def test_unchanged_columns_lose_nothing(name):
    data, schema = one_column(name)
    columns = ColumnPairs(data, data, schema, np.arange(data.rows))
    (pair,) = columns.quasi
    loss = pair.loss(columns.rows, columns.weights)
    assert loss.lost == 0
    assert loss.baseline > 0
    assert pair.unreadable == 0
    points = pair.points()
    assert np.array_equal(points.places[points.before], points.places[points.after])
    for histogram in pair.histograms():
        assert histogram.before.tolist() == histogram.after.tolist()
    coordinates = pair.coordinates(columns.rows, columns.rows)
    np.testing.assert_array_equal(coordinates.before, coordinates.after)


@pytest.mark.parametrize("name", ITEMS)
def test_models_see_a_column_as_numbers_or_as_categories(name):
    data, schema = one_column(name)
    (pair,) = ColumnPairs(data, data, schema, np.arange(data.rows)).quasi
    n_lines = len(list(pair.quantities(np.arange(data.rows))))
    assert (n_lines == 0) == (pair.categories is not None)
    assert not KINDS[name].ordered or n_lines == 1


@pytest.mark.parametrize("name", ITEMS)
def test_ordered_kinds_give_numbers_for_confidential_columns(name):
    column = values(ITEMS[name])
    if KINDS[name].ordered:
        numbers = KINDS[name].quantity(Column("x", kind=name), column)
        assert np.isnan(numbers).tolist() == column.missing.tolist()
    else:
        with pytest.raises(NotImplementedError):
            KINDS[name].quantity(Column("x", kind="nominal"), column)


@pytest.mark.parametrize("name", ITEMS)
def test_the_kind_is_detected_from_values_of_its_default_types(name):
    column = values(ITEMS[name])
    if column.storage in KINDS[name].default_for:
        assert detect_kind(Column("x"), column).name == name


def test_a_declared_order_makes_a_column_ordinal():
    assert detect_kind(Column("x", order=("low", "high")), values(["low"])).name == "ordinal"


def test_a_column_without_a_kind_has_to_be_resolved():
    with raises(SchemaError, "schema.invalid", column="x"):
        kind_of(Column("x"))


@pytest.mark.parametrize(
    ("declaration", "code"),
    [
        ({"kind": "number"}, "schema.invalid"),
        ({"kind": "nominal", "publish": "mean"}, "schema.invalid"),
        ({"publish": "average"}, "schema.invalid"),
        ({"kind": "numeric", "order": ("a", "b")}, "schema.invalid"),
        ({"order": ("a", "a")}, "schema.category_order"),
        ({"weight": 0}, "schema.invalid"),
        ({"kind": "location", "latitude": "lat"}, "schema.invalid"),
        ({"latitude": "lat", "longitude": "lon"}, "schema.invalid"),
    ],
)
def test_contradictory_declarations_are_rejected(declaration, code):
    with raises(SchemaError, code, column="x"):
        Column("x", **declaration)
