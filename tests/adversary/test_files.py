"""Hostile and unusual files: zip bombs, repeated keys, byte-order marks and blank rows."""

import json
from time import perf_counter
from zipfile import ZIP_DEFLATED, ZipFile

import polars as pl
import pytest

import microcell as mc
from microcell.errors import SchemaError, TableError
from tests.raising import raises

BOM = "\ufeff"


# ----------------------------------------------------------------------------------- workbooks


def bomb(path, megabytes):
    """Write a workbook whose sheet expands to this size."""
    mc.write({"age": [31, 47], "note": ["a", "b"]}, path)
    with ZipFile(path) as archive:
        parts = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
        with archive.open("xl/media/padding.bin", "w", force_zip64=True) as file:
            for _ in range(megabytes):
                file.write(bytes(2**20))


def test_a_workbook_that_expands_too_much_is_rejected_before_it_is_read(tmp_path):
    bomb(tmp_path / "bomb.xlsx", 300)
    file_size = (tmp_path / "bomb.xlsx").stat().st_size
    assert file_size < 2**20
    started = perf_counter()
    with raises(TableError, "table.too_large", file_size=file_size):
        mc.read(tmp_path / "bomb.xlsx")
    assert perf_counter() - started < 5
    bomb(tmp_path / "small.xlsx", 20)  # small enough not to matter
    assert mc.read(tmp_path / "small.xlsx").rows == 2


@pytest.mark.parametrize("values", [[1, None, None, 4], ["a", None, "b"], [None, None, 3]])
def test_a_workbook_of_one_column_keeps_blank_rows(values, tmp_path):
    mc.write(pl.DataFrame({"a": values}), tmp_path / "one.xlsx")
    read = mc.read(tmp_path / "one.xlsx")
    assert read.columns["a"].missing.tolist() == [value is None for value in values]


def test_a_blank_row_at_the_end_of_a_workbook_is_not_lost_silently(tmp_path):
    for values in ([1, 2, None], [None, None]):
        with raises(TableError, "table.format_limit", row=len(values)):
            mc.write(pl.DataFrame({"a": values}), tmp_path / "one.xlsx")
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------- repeated keys


def test_repeated_keys_are_rejected(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"age": 31}\n{"age": 47, "age": 20}\n', encoding="utf-8")
    with raises(TableError, "table.malformed", row=2):
        mc.read(rows)
    rows.write_text('{"age": 31, "x": {"b": 1}}\n{"age": 47, "x": {"b": 1, "b": 2}}\n')
    with raises(TableError, "table.malformed", row=2):
        mc.read(rows)
    manifest = mc.anonymize({"age": [31, 47]}, mc.Schema(quasi=["age"]), k=2).manifest.to_json()
    assert mc.Manifest.parse(manifest).k == 2
    twice = manifest.replace('"k": 2', '"k": 2, "k": 5')
    with raises(TableError, "table.malformed"):
        mc.Manifest.parse(twice)
    schema = tmp_path / "schema.toml"
    schema.write_text('schema_version = 1\n[columns.age]\nrole = "quasi"\nrole = "drop"\n')
    with raises(SchemaError, "schema.bad_file"):
        mc.load_schema(schema)


# ------------------------------------------------------------------------------- byte-order marks


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".xlsx"])
@pytest.mark.parametrize("values", [[BOM, "x"], [f"{BOM}x", "x"], ["x", BOM]])
def test_a_byte_order_mark_is_a_value_like_others(values, suffix, tmp_path):
    for table in ({"a": values}, {"a": values, "b": [1, 2]}):
        mc.write(table, tmp_path / f"table{suffix}")
        column = mc.read(tmp_path / f"table{suffix}").columns["a"]
        assert [column.categories[code] for code in column.data] == values


def test_a_name_that_begins_with_a_mark_cannot_be_the_first_of_a_text_file(tmp_path):
    table = {f"{BOM}a": [1, 2]}
    with raises(TableError, "table.format_limit", column=f"{BOM}a"):
        mc.write(table, tmp_path / "table.csv")
    mc.write(table, tmp_path / "table.parquet")
    assert mc.read(tmp_path / "table.parquet").names == (f"{BOM}a",)


# ------------------------------------------------------------------------------- reading options


def test_an_audit_says_first_that_the_original_was_read_with_other_options(tmp_path):
    original, released = tmp_path / "people.csv", tmp_path / "release.csv"
    lines = [f"{30 + i},{'?' if i % 3 else 'flu'}" for i in range(12)]
    original.write_text("\n".join(["age,ill", *lines, ""]), encoding="utf-8")
    schema = mc.Schema(quasi=["age"], confidential=["ill"])
    mc.anonymize(mc.read(original, na=["?"]), schema, k=3).publish(released)
    right = mc.audit(mc.read(original, na=["?"]), released, schema)
    assert (right.warning, right["values_changed"]) == ("", 0)
    stored = mc.audit(original, released, schema)  # the options are in the manifest
    assert (stored.warning, stored["values_changed"]) == ("", 0)
    wrong = mc.audit(mc.read(original, na=["-"]), released, schema)
    assert wrong["values_changed"] > 0
    assert wrong.warning
    text = mc.render(wrong, "text")
    assert text.splitlines()[3].startswith(wrong.warning[:40])  # after the title and a blank line
    page = mc.render(wrong, "html")
    assert page.index('role="alert"') < page.index("Guarantee</h2>")
    assert json.loads(mc.render(wrong, "json"))["warning"] == wrong.warning
    # If one of the files is another one, that is what the notes say.
    original.write_text(original.read_text(encoding="utf-8") + "80,flu\n", encoding="utf-8")
    assert mc.audit(original, released, schema).warning == ""
