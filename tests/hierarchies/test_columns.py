"""Columns with a hierarchy or published sets: distances, what cells publish, losses, releases."""

from itertools import product

import numpy as np
import pytest

import microcell as mc
from microcell.encoding import encode, place
from microcell.errors import OptionError, SchemaError
from microcell.hierarchies import as_hierarchy
from microcell.methods import METHODS
from microcell.model import Column, Encoding, Schema
from microcell.release.aggregate import represent
from microcell.schema.resolve import resolve
from tests.raising import raises
from tests.small_tables import table

PLACES = {
    "Europe": {"Italy": ["Rome", "Pisa"], "Germany": ["Bonn", "Kiel"]},
    "Africa": {"Egypt": ["Giza"], "Kenya": ["Embu", "Lamu"]},
}
TOWNS = ["Rome", "Pisa", "Bonn", "Kiel", "Giza", "Embu", "Lamu"]
ILLNESS = ["asthma", "asthma", "diabetes", "gout", "gout", "gout"]


def smallest_group(hierarchy, names):
    """The label that covers fewest among those that contain all names, tried one by one."""
    common = set.intersection(*(set(hierarchy.path(name)) for name in names))
    return min(common, key=lambda label: (hierarchy.height(label), label not in names))


def released(data, column, labels):
    content = table(x=data)
    schema = resolve(Schema(quasi=[column]), content)
    published = represent(content, schema, np.array(labels))["x"]
    return published.values[np.array(labels)].tolist()


def test_squared_distances_are_heights_of_smallest_common_groups():
    hierarchy = as_hierarchy(PLACES)
    content = table(x=[*TOWNS, "Rome"])
    schema = resolve(Schema(quasi=[Column("x", hierarchy=PLACES, weight=2)]), content)
    points = encode(content, schema).matrix
    for i, j in product(range(7), repeat=2):
        expected = hierarchy.height(smallest_group(hierarchy, [TOWNS[i], TOWNS[j]]))
        assert ((points[i] - points[j]) ** 2).sum() == pytest.approx(2 * expected * (i != j))


def test_cells_publish_the_smallest_common_group():
    hierarchy = as_hierarchy(PLACES)
    rng = np.random.default_rng(1)
    towns = rng.choice(TOWNS, 40).tolist()
    labels = np.r_[np.arange(12), rng.integers(0, 12, 28)].tolist()
    cells = released(towns, Column("x", hierarchy=PLACES), labels)
    for cell, value in zip(labels, cells, strict=True):
        members = {town for town, label in zip(towns, labels, strict=True) if label == cell}
        assert value == smallest_group(hierarchy, sorted(members))


def test_sets_of_at_most_three_values_are_published():
    column = Column("x", hierarchy=PLACES, publish="set")
    assert released(["Rome", "Bonn", "Rome"], column, [0, 0, 0])[0] == "Bonn or Rome"
    assert released(["Rome", "Bonn", "Kiel", "Pisa"], column, [0] * 4)[0] == "Europe"
    nominal = Column("x", kind="nominal", publish="set")
    assert released(ILLNESS, nominal, [0, 0, 0, 1, 1, 1])[::3] == ["asthma or diabetes", "gout"]


@pytest.mark.parametrize(
    "column",
    [
        Column("x", kind="nominal", publish="set"),
        Column("x", hierarchy={"y": ["a or b", "c"]}, publish="set"),
    ],
)
def test_sets_must_be_readable(column):
    with raises(SchemaError, "schema.wrong_kind", column="x"):
        released(["a or b", "c"], column, [0, 0])


def test_losses_are_shares_of_the_values_left_possible():
    before = {"x": TOWNS}
    schema = Schema(quasi=[Column("x", hierarchy=PLACES)])

    def loss(values):
        return mc.audit(before, {"x": values}, schema)["information_loss"]

    assert loss(TOWNS) == 0
    assert loss(["*"] * 7) == 1
    # Italy and Germany cover one of the six other towns, Europe three, Africa two.
    coarse = ["Italy", "Italy", "Germany", "Germany", "Africa", "Africa", "Africa"]
    assert loss(coarse) == pytest.approx((4 * 1 / 6 + 3 * 2 / 6) / 7)
    assert loss(["Africa", *TOWNS[1:]]) == pytest.approx(1 / 7)  # a false group
    assert loss(["Bonn or Rome", *TOWNS[1:]]) == pytest.approx(1 / 6 / 7)
    assert loss(["Mars", *TOWNS[1:]]) == pytest.approx(1 / 7)


def test_missing_and_grouped_values_are_read():
    content = table(x=["Rome", "Italy", None, "Giza"])
    schema = resolve(Schema(quasi=[Column("x", hierarchy=PLACES)]), content)
    encoded = encode(content, schema)
    assert not encoded.matrix[2].any()
    plain = Encoding.from_dict(encoded.encoding.published(1).as_dict())
    # A town that did not occur is placed where its country is.
    further = place(table(x=["Pisa", "Italy", "Mars"]), plain)
    assert further.unknown == {"x": 1}
    assert np.array_equal(further.matrix[0], further.matrix[1])
    assert not further.matrix[2].any()


def test_many_values_leave_only_their_groups_as_dimensions():
    codes = [f"{letter}{number:02}" for letter in "ABCDE" for number in range(60)]
    groups = {letter: [code for code in codes if code[0] == letter] for letter in "ABCDE"}
    content = table(x=codes)
    schema = resolve(Schema(quasi=[Column("x", hierarchy=groups)]), content)
    encoded = encode(content, schema)
    assert encoded.encoding.dimensions == 5
    assert len(np.unique(encoded.matrix, axis=0)) == 5


@pytest.mark.parametrize("method", [name for name in METHODS if name != "univariate"])
def test_every_method_publishes_true_values(method):
    rng = np.random.default_rng(2)
    towns = rng.choice(TOWNS, 60)
    ages = rng.integers(20, 90, 60)
    illness = rng.choice(["asthma", "diabetes", "gout"], 60)
    schema = Schema(
        quasi=[
            Column("town", hierarchy=PLACES),
            Column("age", bands=(5, 20)),
            Column("illness", kind="nominal", publish="set"),
        ]
    )
    data = {"town": towns, "age": ages, "illness": illness}
    result = mc.anonymize(data, schema, k=4, method=method)
    audit = mc.audit(data, result.table, schema, manifest=result.manifest)
    assert audit["k"] >= 4
    assert not any(share.true_share < 1 for share in audit.categories)
    assert "utility.category_lost" not in {finding.code for finding in audit.findings}
    assert audit["information_loss"] == pytest.approx(result.manifest.information_loss)
    entry = result.manifest.columns["age"]
    assert (entry.kind, entry.publish, entry.hierarchy) == (
        "hierarchy",
        "ancestor",
        "bands of 5, 20",
    )


def test_further_records_get_true_cells(tmp_path):
    rng = np.random.default_rng(3)
    data = {"town": rng.choice(TOWNS, 60), "age": rng.choice([23, 27, 41, 68], 60)}
    schema = Schema(quasi=[Column("town", hierarchy=PLACES), Column("age", bands=(10,))])
    result = mc.anonymize(data, schema, k=3, method="mdav", cells=True)
    result.cells.save(tmp_path / "cells.json")
    again = mc.load_cells(tmp_path / "cells.json")
    labels = mc.assign(again, data).labels
    assert np.array_equal(labels, mc.assign(result.cells, data).labels)
    # Equal records may lie in different cells of a release, but get the same one here.
    assert (labels == result.partition.labels).mean() > 0.7
    with raises(OptionError, "option.unsupported", columns=("town", "age")):
        mc.surveys.page(again)


def test_later_batches_may_have_values_that_the_hierarchy_lacks():
    base = {"town": TOWNS * 3}
    schema = Schema(quasi=[Column("town", hierarchy=PLACES, publish="set")])
    session = mc.increments.start(base, schema, k=3, method="mdav")
    session.add({"town": ["Oslo", "Oslo", "Bonn", "Bonn"]}, repeated="keep")
    result = session.finish()
    towns = result.table["town"].tolist()
    assert len(towns) == 25
    assert not any("Oslo" in town for town in towns)
    assert sum(town == "*" for town in towns) >= 2


def test_schemas_need_groups_that_fit():
    for column in ({"kind": "hierarchy"}, {"kind": "numeric", "bands": (5,)}):
        with raises(SchemaError, "schema.invalid", column="x"):
            Column("x", **column)
    with raises(SchemaError, "schema.invalid", column="x"):
        Column("x", hierarchy=PLACES, bands=(5,))
    with raises(SchemaError, "schema.wrong_kind", column="x"):
        released(["a", "b"], Column("x", bands=(5,)), [0, 0])
    column = resolve(Schema(quasi=[Column("x", bands=(5,))]), table(x=[1, 93])).quasi[0]
    assert column.hierarchy.span == 100  # exact spans would reveal the extremes


def test_sets_of_numbers_consist_of_bands():
    """An exact number in a set of two or three would be that of a single member."""
    incomes = np.array([31_200, 33_900, 36_100, 9_876_543, 41_000, 41_000])
    column = Column("x", bands=(5_000, 10_000), publish="set")
    cells = released(incomes, column, [0, 0, 1, 1, 2, 2])
    # In the last cell, both members have the value.
    assert cells[::2] == ["30000-34999", "35000-39999 or 9875000-9879999", "41000"]
