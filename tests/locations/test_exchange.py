"""Import and export: everyone once, files for their owner alone, errors by row and never by value."""

import csv
import stat

import numpy as np
import polars as pl
import pytest

from microcell.errors import DataError, SchemaError, TableError
from microcell.locations import exchange, export_places, import_people
from tests.locations.serving import open_anonymizer, scatter


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
    done = import_people(anonymizer, table, tmp_path / "accounts.csv")
    assert (done.devices, done.waiting) == (9, 0)
    rows = rows_of(tmp_path / "accounts.csv")
    assert [row["row"] for row in rows] == [str(i) for i in range(1, 10)]
    assert len({row["pseudonym"] for row in rows}) == 9
    assert anonymizer.overview().devices == 9
    for row, place in zip(rows, scatter(9), strict=True):
        found = anonymizer.look_up(row["pseudonym"], row["token"])
        assert np.hypot(found.latitude - place[0], found.longitude - place[1]) < 0.5


def test_a_file_with_other_names_and_whole_numbers(anonymizer, tmp_path):
    path = tmp_path / "people.csv"
    pl.DataFrame({"name": ["x", "y"], "lat": [41, 42], "lon": [2, 3]}).write_csv(path)
    done = import_people(anonymizer, path, tmp_path / "a.csv", latitude="lat", longitude="lon")
    assert (done.devices, done.waiting) == (2, 2)


def test_only_the_owner_may_read_the_accounts(anonymizer, tmp_path, monkeypatch):
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


def test_nothing_is_overwritten_unless_forced(anonymizer, tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("old")
    for write in (
        lambda: import_people(anonymizer, people(), target),
        lambda: export_places(anonymizer, target),
    ):
        with pytest.raises(TableError, match="there already"):
            write()
    assert target.read_text() == "old"
    assert anonymizer.overview().devices == 0
    import_people(anonymizer, people(), target, force=True)
    assert len(rows_of(target)) == 9


def test_the_table_itself_is_never_overwritten(anonymizer, tmp_path):
    path = tmp_path / "people.csv"
    pl.DataFrame(people()).write_csv(path)
    before = path.read_bytes()
    with pytest.raises(TableError, match="also an input"):
        import_people(anonymizer, path, path, force=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["a.parquet", "a", "no/folder/a.csv"])
def test_outputs_that_cannot_be_are_refused_at_once(anonymizer, tmp_path, name):
    with pytest.raises(TableError):
        import_people(anonymizer, people(), tmp_path / name)
    assert anonymizer.overview().devices == 0


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (
            {"latitude": [41.0, 91.987654, 41.0, -90.5]},
            DataError,
            "'latitude' is not within -90 and 90 .* rows 2, 4",
        ),
        (
            {"longitude": [2.0, 2.0, 180.987654, 2.0]},
            DataError,
            "'longitude' is not within -180 and 180 .* row 3",
        ),
        ({"latitude": [41.0, None, 41.0, 41.0]}, DataError, "'latitude' has no value in row 2"),
        ({"latitude": [41.0, float("nan"), 41.0, 41.0]}, DataError, "'latitude' .* row 2"),
        ({"latitude": [41.0, float("inf"), 41.0, 41.0]}, DataError, "'latitude' .* row 2"),
        ({"latitude": ["41.987654", "x", "y", "z"]}, DataError, "'latitude' holds no numbers"),
        ({"latitude": [None] * 4}, DataError, "'latitude'"),
        ({"latitude": [True, False, True, False]}, DataError, "'latitude' holds no numbers"),
        ({"latitude": None}, SchemaError, "no column 'latitude'"),
    ],
)
def test_wrong_rows_are_named_and_nobody_is_signed_up(anonymizer, tmp_path, change, error, words):
    table = people(4) | change
    table = {name: column for name, column in table.items() if column is not None}
    with pytest.raises(error, match=words) as caught:
        import_people(anonymizer, table, tmp_path / "a.csv")
    assert "987654" not in str(caught.value)
    assert anonymizer.overview().devices == 0
    assert list(tmp_path.iterdir()) == []


def test_many_wrong_rows_are_counted(anonymizer, tmp_path):
    table = {"latitude": [95.0] * 1200, "longitude": [0.0] * 1200}
    with pytest.raises(DataError, match=r"rows 1, 2, 3, 4, 5 and 1,195 more"):
        import_people(anonymizer, table, tmp_path / "a.csv")


def test_a_table_of_nobody_and_one_column_for_both(anonymizer, tmp_path):
    with pytest.raises(DataError, match="no rows"):
        import_people(anonymizer, {"latitude": [], "longitude": []}, tmp_path / "a.csv")
    with pytest.raises(SchemaError, match="two columns"):
        import_people(anonymizer, people(), tmp_path / "a.csv", longitude="latitude")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_if_tokens_cannot_be_written_nobody_stays_signed_up(
    anonymizer, tmp_path, monkeypatch, error
):
    def fail(*_):
        raise error

    monkeypatch.setattr(exchange, "_write", fail)
    with pytest.raises(type(error)):
        import_people(anonymizer, people(), tmp_path / "a.csv")
    assert anonymizer.overview().devices == 0


def test_export_gives_what_look_ups_give(anonymizer, tmp_path):
    import_people(anonymizer, people(), tmp_path / "accounts.csv")
    done = export_places(anonymizer, tmp_path / "places.csv")
    assert (done.devices, done.waiting) == (9, 0)
    rows = rows_of(tmp_path / "places.csv")
    tokens = {row["pseudonym"]: row["token"] for row in rows_of(tmp_path / "accounts.csv")}
    assert [row["pseudonym"] for row in rows] == sorted(
        tokens
    )  # and not the order in which they signed up
    for row in rows:
        found = anonymizer.look_up(row["pseudonym"], tokens[row["pseudonym"]])
        assert (float(row["latitude"]), float(row["longitude"])) == (
            found.latitude,
            found.longitude,
        )
    shared = {(row["latitude"], row["longitude"]) for row in rows}
    for place in shared:
        assert sum((row["latitude"], row["longitude"]) == place for row in rows) >= 3


def test_who_waits_is_left_out_and_counted(anonymizer, tmp_path):
    import_people(anonymizer, people(2), tmp_path / "accounts.csv")
    done = export_places(anonymizer, tmp_path / "places.csv")
    assert (done.devices, done.waiting) == (0, 2)
    assert (tmp_path / "places.csv").read_text() == "pseudonym,latitude,longitude\n"
