"""Import and export: private files, and errors that name rows but never values."""

import csv
import stat

import numpy as np
import polars as pl
import pytest

from microcell.errors import DataError, SchemaError, TableError
from microcell.locations import exchange, export_places, import_people
from tests.locations.serving import open_anonymizer, scatter
from tests.raising import raises


@pytest.fixture
def anonymizer():
    opened = open_anonymizer(k=3)
    yield opened
    opened.close()


def people(count=9):
    latitude, longitude = zip(*scatter(count), strict=True)
    return {"latitude": list(latitude), "longitude": list(longitude)}


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_all_rows_are_signed_up_in_order(anonymizer, tmp_path):
    table = people()
    summary = import_people(anonymizer, table, tmp_path / "accounts.csv")
    assert (summary.devices, summary.waiting) == (9, 0)
    rows = rows_of(tmp_path / "accounts.csv")
    assert [row["row"] for row in rows] == [str(i) for i in range(1, 10)]
    assert len({row["pseudonym"] for row in rows}) == 9
    assert anonymizer.status().devices == 9
    for row, home in zip(rows, scatter(9), strict=True):
        place = anonymizer.look_up(row["pseudonym"], row["token"]).location
        assert np.hypot(place.latitude - home[0], place.longitude - home[1]) < 0.5


def test_other_column_names_and_integers(anonymizer, tmp_path):
    path = tmp_path / "people.csv"
    pl.DataFrame({"name": ["x", "y"], "lat": [41, 42], "lon": [2, 3]}).write_csv(path)
    summary = import_people(anonymizer, path, tmp_path / "a.csv", latitude="lat", longitude="lon")
    assert (summary.devices, summary.waiting) == (2, 2)


def test_only_the_owner_can_read_the_accounts(anonymizer, tmp_path, monkeypatch):
    seen = []
    real = exchange.csv.writer

    def look(file, **options):
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob(".*.partial*"))
        return real(file, **options)

    monkeypatch.setattr(exchange.csv, "writer", look)
    import_people(anonymizer, people(), tmp_path / "a.csv")
    assert stat.S_IMODE((tmp_path / "a.csv").stat().st_mode) == 0o600
    old = tmp_path / "old.csv"
    old.write_text("old")
    old.chmod(0o644)
    export_places(anonymizer, old, force=True)
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    assert seen == [0o600, 0o600]  # also while they were being written


def test_outputs_are_overwritten_only_with_force(anonymizer, tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("old")
    for write in (
        lambda: import_people(anonymizer, people(), target),
        lambda: export_places(anonymizer, target),
    ):
        with raises(TableError, "table.exists"):
            write()
    assert target.read_text() == "old"
    assert anonymizer.status().devices == 0
    import_people(anonymizer, people(), target, force=True)
    assert len(rows_of(target)) == 9


def test_the_table_itself_is_never_overwritten(anonymizer, tmp_path):
    path = tmp_path / "people.csv"
    pl.DataFrame(people()).write_csv(path)
    before = path.read_bytes()
    with raises(TableError, "table.exists"):
        import_people(anonymizer, path, path, force=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a.parquet", "table.unknown_format"),
        ("a", "table.unknown_format"),
        ("no/folder/a.csv", "table.unwritable"),
    ],
)
def test_invalid_outputs_are_rejected_immediately(anonymizer, tmp_path, name, code):
    with raises(TableError, code):
        import_people(anonymizer, people(), tmp_path / name)
    assert anonymizer.status().devices == 0


@pytest.mark.parametrize(
    ("change", "error", "code", "row"),
    [
        (
            {"latitude": [41.0, 91.987654, 41.0, -90.5]},
            DataError,
            "data.out_of_range",
            2,
        ),
        (
            {"longitude": [2.0, 2.0, 180.987654, 2.0]},
            DataError,
            "data.out_of_range",
            3,
        ),
        ({"latitude": [41.0, None, 41.0, 41.0]}, DataError, "data.missing_values", 2),
        ({"latitude": [41.0, float("nan"), 41.0, 41.0]}, DataError, None, 2),
        ({"latitude": [41.0, float("inf"), 41.0, 41.0]}, DataError, None, 2),
        ({"latitude": ["41.987654", "x", "y", "z"]}, DataError, "data.not_a_number", None),
        ({"latitude": [None] * 4}, DataError, None, None),
        ({"latitude": [True, False, True, False]}, DataError, "data.not_a_number", None),
        ({"latitude": None}, SchemaError, "schema.unknown_column", None),
    ],
)
def test_invalid_rows_are_named_and_nobody_is_signed_up(
    anonymizer, tmp_path, change, error, code, row
):
    table = people(4) | change
    table = {name: column for name, column in table.items() if column is not None}
    with pytest.raises(error) as caught:
        import_people(anonymizer, table, tmp_path / "a.csv")
    assert code is None or caught.value.code == code
    assert row is None or caught.value.details["row"] == row
    assert caught.value.details["column"] == next(iter(change))
    assert "987654" not in str(caught.value)
    assert anonymizer.status().devices == 0
    assert list(tmp_path.iterdir()) == []


def test_many_invalid_rows_are_counted(anonymizer, tmp_path):
    table = {"latitude": [95.0] * 1200, "longitude": [0.0] * 1200}
    with raises(DataError, "data.out_of_range", column="latitude", row=1, count=1200):
        import_people(anonymizer, table, tmp_path / "a.csv")


def test_empty_table_and_one_column_for_both_coordinates(anonymizer, tmp_path):
    with raises(DataError, "data.empty", rows=0):
        import_people(anonymizer, {"latitude": [], "longitude": []}, tmp_path / "a.csv")
    with raises(SchemaError, "schema.duplicate_role"):
        import_people(anonymizer, people(), tmp_path / "a.csv", longitude="latitude")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_devices_are_cancelled_if_tokens_cannot_be_written(
    anonymizer, tmp_path, monkeypatch, error
):
    def fail(*_):
        raise error

    monkeypatch.setattr(exchange, "_write", fail)
    with pytest.raises(type(error)):
        import_people(anonymizer, people(), tmp_path / "a.csv")
    assert anonymizer.status().devices == 0


def test_export_matches_look_ups(anonymizer, tmp_path):
    import_people(anonymizer, people(), tmp_path / "accounts.csv")
    summary = export_places(anonymizer, tmp_path / "places.csv")
    assert (summary.devices, summary.waiting) == (9, 0)
    rows = rows_of(tmp_path / "places.csv")
    tokens = {row["pseudonym"]: row["token"] for row in rows_of(tmp_path / "accounts.csv")}
    assert [row["pseudonym"] for row in rows] == sorted(
        tokens
    )  # and not the order in which they signed up
    for row in rows:
        place = anonymizer.look_up(row["pseudonym"], tokens[row["pseudonym"]]).location
        assert (float(row["latitude"]), float(row["longitude"])) == (
            place.latitude,
            place.longitude,
        )
    shared = {(row["latitude"], row["longitude"]) for row in rows}
    for place in shared:
        assert sum((row["latitude"], row["longitude"]) == place for row in rows) >= 3


def test_waiting_devices_are_omitted_and_counted(anonymizer, tmp_path):
    import_people(anonymizer, people(2), tmp_path / "accounts.csv")
    summary = export_places(anonymizer, tmp_path / "places.csv")
    assert (summary.devices, summary.waiting) == (0, 2)
    assert (tmp_path / "places.csv").read_text() == "pseudonym,latitude,longitude\n"
