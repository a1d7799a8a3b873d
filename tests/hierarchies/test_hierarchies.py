"""Hierarchies: paths, shares, heights, files and drafts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import SchemaError, TableError
from microcell.hierarchies import (
    BUNDLED,
    Bands,
    Taxonomy,
    as_hierarchy,
    check_widths,
    from_plain,
    is_plain_hierarchy,
    read_hierarchy,
    write_hierarchy,
)
from tests.raising import raises

PLACES = {"Europe": {"Italy": ["Rome", "Pisa"], "Germany": ["Bonn"]}, "Africa": {"Egypt": ["Giza"]}}


@st.composite
def taxonomies(draw):
    """A random tree: every label after the first few lies in an earlier one."""
    n_labels = draw(st.integers(2, 12))
    parents = {i: draw(st.integers(-1, i - 1)) for i in range(n_labels)}
    rows = []
    for leaf in set(parents) - set(parents.values()):
        row, at = [], leaf
        while at >= 0:
            row.append(f"g{at}")
            at = parents[at]
        rows.append(tuple(row))
    return Taxonomy(tuple(rows))


def test_paths_and_shares():
    places = as_hierarchy(PLACES)
    assert places.path("Pisa") == ("Pisa", "Italy", "Europe", "*")
    assert places.path("Paris") is None
    assert [places.share(label) for label in ("Pisa", "Italy", "Europe", "*")] == [
        0,
        1 / 3,
        2 / 3,
        1,
    ]
    # Germany contains one value, so publishing it loses nothing.
    assert places.share("Germany") == 0


@given(taxonomies())
def test_groups_are_higher_than_what_they_contain(tree):
    for leaf in tree.leaves:
        path = tree.path(leaf)
        heights = [tree.height(label) for label in path]
        assert heights == sorted(heights)
        assert len(set(heights)) == len(heights)
        assert heights[0] == 0
        assert heights[-1] == (1 if len(tree.leaves) > 1 else 0.5)
        assert [tree.share(label) for label in path] == sorted(map(tree.share, path))


@given(taxonomies())
def test_files_and_plain_data_keep_the_hierarchy(tree):
    again = from_plain(tree.as_plain())
    assert again == tree
    rows = [line.split(";") for line in write_hierarchy(tree).splitlines()]
    assert {row[-1] for row in rows} == {tree.root}
    read = Taxonomy(tuple(map(tuple, rows)))
    assert {leaf: read.path(leaf) for leaf in read.leaves} == {
        leaf: tree.path(leaf) for leaf in tree.leaves
    }


@pytest.mark.parametrize("delimiter", [";", ",", "\t", "|"])
def test_files_of_other_programs_are_read(tmp_path, delimiter):
    path = tmp_path / "towns.csv"
    rows = [("Rome", "Italy", "*"), ("Bonn", "Germany", "*"), ("Köln", "Germany", "*")]
    path.write_text("\ufeff" + "\n".join(delimiter.join(row) for row in rows) + "\n\n", "utf-8")
    assert read_hierarchy(path).path("Köln") == ("Köln", "Germany", "*")


@pytest.mark.parametrize(
    ("rows", "row"),
    [
        ([], None),
        ([("", " ")], None),
        ([("Rome", "Italy"), ("Rome", "France")], 2),
        ([("Rome", "Italy", "Europe"), ("Bari", "Italy", "Asia")], 2),
        ([("a", "b", "a")], 1),
        ([("a", "b"), ("b", "a")], 2),
    ],
)
def test_contradictory_hierarchies_are_refused(rows, row):
    with pytest.raises(SchemaError) as caught:
        Taxonomy(tuple(rows))
    assert caught.value.code == "schema.bad_hierarchy"
    assert caught.value.details.get("row") == row


def test_unreadable_files_are_refused(tmp_path):
    with raises(TableError, "table.not_found"):
        read_hierarchy(tmp_path / "absent.csv")
    (tmp_path / "latin.csv").write_bytes("Köln;Germany".encode("latin-1"))
    with raises(TableError, "table.bad_encoding", byte=2):
        read_hierarchy(tmp_path / "latin.csv")
    with raises(SchemaError, "schema.bad_hierarchy"):
        as_hierarchy(7)


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_hierarchies_can_be_read_and_named(name):
    hierarchy = read_hierarchy(name)
    assert hierarchy.as_plain() == name
    assert from_plain(name) is hierarchy


def test_bundled_hierarchies_hold_facts():
    assert read_hierarchy("countries").path("Germany")[1:3] == ("Western Europe", "Europe")
    assert read_hierarchy("countries2").path("BR")[1:3] == ("South America", "Americas")
    assert len(read_hierarchy("countries3").leaves) == 249
    assert read_hierarchy("icd10").path("E11.9")[1:4] == ("E11", "E10-E14", "Chapter IV")
    assert read_hierarchy("isco08").path("2512") == ("2512", "251", "25", "2", "*")
    assert read_hierarchy("nuts").path("DE212") == ("DE212", "DE21", "DE2", "DE", "*")
    assert read_hierarchy("nuts").path("de") is None


def test_bands_of_numbers():
    bands = Bands((5, 10, 20), 80, whole=True)
    assert bands.path("43") == ("43", "40-44", "40-49", "40-59", "*")
    assert bands.path("40-49") == ("40-49", "40-59", "*")
    assert bands.path("-3") == ("-3", "-5 to -1", "-10 to -1", "-20 to -1", "*")
    assert bands.path("41-45") is None
    assert bands.path("old") is None
    assert [bands.share(label) for label in ("43", "40-44", "40-59", "*")] == [
        0,
        5 / 80,
        20 / 80,
        1,
    ]
    parts = Bands((0.5, 2), 10, whole=False)
    assert parts.path("1.7") == ("1.7", "1.5-2", "0-2", "*")
    assert parts.path("0-2") == ("0-2", "*")


def test_bands_of_dates():
    bands = Bands(("month", "quarter", "year", "decade"), 4000, whole=True)
    assert bands.path("2024-05-17") == (
        "2024-05-17", "2024-05", "2024-Q2", "2024", "2020s", "*",
    )  # fmt: skip
    assert bands.path("2024-Q2") == ("2024-Q2", "2024", "2020s", "*")
    assert bands.path("2020s") == ("2020s", "*")
    assert bands.path("2024-Q5") is None


@pytest.mark.parametrize(
    "widths", [(), (0,), (5, 12), (10, 5), ("week",), ("year", "month"), (5, "year"), (True,)]
)
def test_wrong_bands_are_refused(widths):
    assert check_widths(widths)
    with raises(SchemaError, "schema.invalid", column="age", field="bands"):
        mc.Column("age", bands=widths)


@pytest.mark.parametrize("data", [7, [7], "mars", {"widths": [5]}, [["a", "b"], ["a", "c"]]])
def test_damaged_plain_data_are_noticed(data):
    assert not is_plain_hierarchy(data)


def test_drafts_suggest_what_needs_no_file():
    table = mc.read(
        {
            "age": list(range(20, 80)),
            "state": ["DE", "FR", "IT"] * 20,
            "seen": ["2024-05-17"] * 60,
            "mood": ["calm"] * 60,
        }
    )
    assert "bands = [10, 20]" in mc.schema.suggest_hierarchy(table, "age")
    assert 'hierarchy = "countries2"' in mc.schema.suggest_hierarchy(table, "state")
    assert mc.schema.suggest_hierarchy(table, "mood") is None


def test_drafts_group_by_word_and_by_beginning():
    words = mc.read({"x": ["Self-emp-inc", "Self-emp-not-inc", "Private"]})
    assert mc.schema.draft_hierarchy(words, "x").path("Self-emp-inc")[1] == "Self"
    codes = mc.schema.draft_hierarchy(mc.read({"x": ["94110", "94121", "10115"]}), "x")
    assert codes.path("94110") == ("94110", "9411*", "94***", "*")
    more = mc.schema.draft_hierarchy(words, "x", base=Taxonomy((("Private", "paid"),)))
    assert more.path("Self-emp-inc") == ("Self-emp-inc", "other", "*")


def test_checks_give_rows_and_no_values():
    table = mc.read({"town": ["Rome", None, "Oslo", "Oslo"]})
    result = mc.schema.check_hierarchy(as_hierarchy(PLACES), table, "town")
    assert (result.values, result.unknown, result.rows, result.unused) == (2, 1, (3, 4), 3)
    assert "Oslo" not in repr(result)
    with raises(SchemaError, "schema.unknown_category", column="town", row=3, count=1):
        mc.anonymize(
            {"town": ["Rome", "Rome", "Oslo", "Oslo"]},
            mc.Schema(quasi=[mc.Column("town", hierarchy=PLACES)]),
            k=2,
        )


def test_schema_files_name_hierarchies(tmp_path):
    Path(tmp_path, "towns.csv").write_text("Rome;Italy\nBonn;Germany\n", "utf-8")
    Path(tmp_path, "schema.toml").write_text(
        """schema_version = 1
[columns.town]
role = "quasi"
hierarchy = "towns.csv"
[columns.state]
role = "quasi"
hierarchy = "countries"
[columns.level]
role = "quasi"
publish = "set"
hierarchy = { low = ["1", "2"], high = ["3"] }
[columns.age]
role = "quasi"
bands = [5, 10]
""",
        "utf-8",
    )
    schema = mc.load_schema(tmp_path / "schema.toml")
    assert [column.kind for column in schema.quasi] == [None] * 4
    again = mc.schema.schema_from_toml(mc.schema.schema_to_toml(schema))
    assert again == schema
