"""Cells files: exact round trips, atomic writes, and rejection of every invalid file."""

import json
import os
import re
import stat
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from microcell.cells import (
    BallCells,
    Cells,
    LookupCells,
    PowerCells,
    ball_cells,
    load_cells,
    lookup_cells,
)
from microcell.cells.base import FIELDS, KINDS
from microcell.errors import DataError, GuaranteeError, OptionError, TableError
from microcell.methods import partition
from microcell.model import EncodedColumn, Encoding
from tests.raising import raises

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 3))
LABELS = partition(X, 4, method="mdav").labels


def encoding(dimensions=3, counts=(7, 4, 1)):
    """Return the encoding of a nominal column with a rare category."""
    column = EncodedColumn(
        "sex",
        "nominal",
        ("sex",),
        "text",
        centre=np.linspace(0.1, 0.7, dimensions),
        scale=np.full(dimensions, 0.3),
        names=("f", "m", "Aspasia")[:dimensions],
        counts=np.array(counts),
    )
    return Encoding((column,))


def power_cells():
    chooser = PowerCells(centroids=X[:2] / 3, sizes=[30, 30], k=30, costs=[0.1, 1 / 3])
    return PowerCells(
        centroids=X[:4] / 7,
        sizes=[9, 8, 7, 6],
        k=4,
        costs=[0.0, -0.0, 1e-310, 1e300],
        group=[1, 0, 1, 0],
        chooser=chooser,
        encoding=encoding(),
        representatives={"age": [1.5, 1 / 3, 2**53 + 1, None], "Größe": ["a", True, [1, 2.5], "é"]},
    )


MAKERS = {
    "power": power_cells,
    "balls": lambda: ball_cells(X, LABELS, 4),
    "lookup": lambda: lookup_cells(X, LABELS, 4),
}


def save(cells, path):
    cells.save(path, confidential=cells.holds_records)
    return path


def same(one, other):
    """Return whether two fields are equal to the last bit."""
    if isinstance(one, np.ndarray):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, Cells):
        return all(same(getattr(one, item.name), getattr(other, item.name)) for item in fields(one))
    if isinstance(one, Encoding):
        return one.published(1).as_dict()["columns"] == other.published(1).as_dict()["columns"]
    return one == other


def rewrite(path, change, *, sealed=True):
    """Change the content of a file, and its digest if ``sealed``."""
    content = json.loads(path.read_text())
    change(content)
    if sealed:
        rest = {name: value for name, value in content.items() if name != "sha256"}
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
        content["sha256"] = sha256(text.encode("ascii")).hexdigest()
    path.write_text(json.dumps(content))


# -------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("kind", MAKERS)
def test_cells_survive_a_round_trip_bit_for_bit(kind, tmp_path):
    cells = MAKERS[kind]()
    path = save(cells, tmp_path / "cells.json")
    again = load_cells(str(path))
    assert type(again) is type(cells) is KINDS[kind]
    published = (
        cells
        if cells.encoding is None
        else replace(cells, encoding=cells.encoding.published(cells.k))
    )
    assert same(published, again)
    save(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    new = RANDOM.normal(size=(99, 3))
    np.testing.assert_array_equal(again.assign(new), cells.assign(new))


@given(
    arrays(np.float64, (3, 2), elements=st.floats(-1e100, 1e100)),
    arrays(np.float64, 3, elements=st.floats(-1e300, 1e300)),
    st.lists(
        st.none()
        | st.booleans()
        | st.text()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False),
        min_size=3,
        max_size=3,
    ),
    st.text(),
)
def test_numbers_and_text_survive_a_round_trip(tmp_path_factory, centroids, costs, values, name):
    path = tmp_path_factory.mktemp("cells") / "cells.json"
    cells = PowerCells(
        centroids=centroids, sizes=[1, 2, 2**62], k=1, costs=costs, representatives={name: values}
    )
    assert same(cells, load_cells(save(cells, path)))


@pytest.mark.parametrize(
    "cells",
    [
        BallCells(centroids=[[1.0, 2.0]], sizes=[3], k=3, references=[], radii=[], cells=[]),
        BallCells(centroids=[[]], sizes=[3], k=3, references=[], radii=[], cells=[]),
        PowerCells(centroids=[[], []], sizes=[3, 3], k=3, costs=[0.0, 1.0]),
        LookupCells(centroids=[[]], sizes=[2], k=2, records=[[], []], labels=[0, 0]),
    ],
    ids=["no ball", "nothing", "no columns", "lookup without columns"],
)
def test_empty_arrays_keep_their_shape(cells, tmp_path):
    assert same(cells, load_cells(save(cells, tmp_path / "cells.json")))


def test_file_is_what_the_docs_say(tmp_path):
    content = json.loads(save(power_cells(), tmp_path / "cells.json").read_text())
    assert set(content) == FIELDS
    assert content["format"] == "microcell cells"
    assert (content["version"], content["kind"], content["k"], content["count"]) == (
        1,
        "power",
        4,
        4,
    )
    assert (content["dimensions"], content["holds_original_records"]) == (3, False)
    assert set(content["cells"]) == {"centroids", "sizes", "costs", "group", "chooser"}
    digest = content.pop("sha256")
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")
    assert sha256(canonical).hexdigest() == digest


def test_example_of_the_docs_is_a_cells_file(tmp_path):
    page = (Path(__file__).parent.parent.parent / "docs" / "cells.md").read_text(encoding="utf-8")
    path = tmp_path / "cells.json"
    path.write_text(re.search(r"```json\n(.*?)```", page, re.DOTALL).group(1))
    assert load_cells(path).assign([1.75, 1.76]).tolist() == [0, 1]
    for name in FIELDS | {item.name for kind in KINDS.values() for item in fields(kind)}:
        assert f"`{name}`" in page, name
    for kind in KINDS:
        assert f"| `{kind}` |" in page, kind


def test_rare_names_are_not_in_the_file(tmp_path):
    text = save(power_cells(), tmp_path / "cells.json").read_text()
    assert "Aspasia" not in text
    assert json.loads(text)["encoding"]["columns"][0]["names"] == ["f", "m", None]


def test_encoding_must_match_the_cells():
    fields_ = {"centroids": [[0.0, 0.0]], "sizes": [5], "k": 5, "costs": [0.0]}
    with raises(DataError, "data.invalid", entry="encoding"):
        PowerCells(**fields_, encoding=encoding())
    with raises(GuaranteeError, "guarantee.failed", k=5):
        PowerCells(**{**fields_, "centroids": [[0.0] * 3]}, encoding=encoding().published(2))


# ------------------------------------------------------------------------------------------ writing


def test_records_are_saved_only_as_confidential(tmp_path):
    cells = MAKERS["lookup"]()
    with raises(OptionError, "option.unsupported", option="confidential"):
        cells.save(tmp_path / "cells.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="files have owners")
@pytest.mark.parametrize("kind", MAKERS)
def test_confidential_file_is_readable_by_its_owner_only(kind, tmp_path):
    path = tmp_path / "cells.json"
    path.write_text("older, and readable by all")
    path.chmod(0o666)
    MAKERS[kind]().save(path, confidential=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(os.name != "posix", reason="files have owners")
def test_other_files_follow_the_umask(tmp_path):
    path, plain = tmp_path / "cells.json", tmp_path / "plain"
    MAKERS["balls"]().save(path)
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "cells.json"
    path.write_text("older")

    def fail(handle):
        raise OSError("full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="full"):
        MAKERS["balls"]().save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["cells.json"]
    assert path.read_text() == "older"


def test_unwritable_targets_are_rejected(tmp_path):
    with raises(TableError, "table.unwritable"):
        MAKERS["balls"]().save(tmp_path / "nowhere" / "cells.json")
    with raises(TableError, "table.unwritable"):
        MAKERS["balls"]().save(tmp_path)


# ------------------------------------------------------------------------------------------ reading


@pytest.mark.parametrize(
    "content, expected",
    [
        (b"", {"code": "table.malformed"}),
        (b"age,sex\n1,f\n", {"code": "table.malformed"}),
        (b'{"format": "microcell cells"', {"code": "table.malformed"}),
        (b"\xff\xfe\x00", {"code": "table.malformed"}),
        (b"[" * 100_000, {"code": "table.malformed"}),
        (b'{"format": NaN}', {"code": "table.malformed"}),
        (
            b'{"format": "microcell cells", "format": "microcell cells"}',
            {"code": "table.malformed"},
        ),
        (b"[1, 2]", {"code": "table.malformed"}),
        (b"3", {"code": "table.malformed"}),
        (b'{"manifest_version": 1}', {"code": "table.malformed"}),
        (b'{"format": "microcell cells"}', {"code": "table.malformed"}),
        (b'{"format": "microcell cells", "version": "1"}', {"code": "table.malformed"}),
        (b'{"format": "microcell cells", "version": true}', {"code": "table.malformed"}),
        (b'{"format": "microcell cells", "version": 0}', {"code": "table.malformed"}),
        (b'{"format": "microcell cells", "version": 3}', {"code": "table.malformed"}),
        (b'{"format": "microcell cells", "version": 1}', {"code": "table.malformed"}),
        (b'{"format": "microcell cells", "version": 1, "k": 1e999}', {"code": "table.malformed"}),
    ],
)
def test_invalid_files_are_rejected(content, expected, tmp_path):
    path = tmp_path / "cells.json"
    path.write_bytes(content)
    with raises(TableError, **expected):
        load_cells(path)


def test_unreadable_files_are_rejected(tmp_path):
    with raises(TableError, "table.not_found"):
        load_cells(tmp_path / "nowhere.json")
    with raises(TableError, "table.unreadable"):
        load_cells(tmp_path)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(3))
def test_changed_byte_is_detected_or_harmless(kind, seed, tmp_path):
    """Digits beyond float precision may change without changing the number or the cells."""
    cells = MAKERS[kind]()
    path = save(cells, tmp_path / "cells.json")
    whole, before = path.read_bytes(), load_cells(path)
    random = np.random.default_rng(seed)
    result = 0
    for place in random.choice(len(whole) - 1, 150, replace=False):
        byte = bytes([random.choice([b for b in b'0123456789-.,"[]{}aex ' if b != whole[place]])])
        path.write_bytes(whole[:place] + byte + whole[place + 1 :])
        try:
            assert same(load_cells(path), before)
        except TableError:
            result += 1
    assert result > 100


def test_another_layout_of_the_same_content_is_read(tmp_path):
    path = save(power_cells(), tmp_path / "cells.json")
    before = load_cells(path)
    path.write_text(
        json.dumps(json.loads(path.read_text()), indent=3, sort_keys=True, ensure_ascii=False)
    )
    assert same(load_cells(path), before)


def put(name, value, *inside):
    """Return a change that sets a value in the content or in a part of it."""

    def change(content):
        for step in inside:
            content = content[step]
        content[name] = value

    return change


def take(name, *inside):
    def change(content):
        for step in inside:
            content = content[step]
        del content[name]

    return change


@pytest.mark.parametrize(
    "change", [put("k", 3), put("note", "x"), take("encoding"), put("sizes", [9] * 4, "cells")]
)
def test_altered_files_are_rejected(change, tmp_path):
    path = save(power_cells(), tmp_path / "cells.json")
    rewrite(path, change, sealed=False)
    with raises(TableError, "table.malformed"):
        load_cells(path)


@pytest.mark.parametrize(
    "change, expected",
    [
        (
            put("kind", "hexagons"),
            {"code": "table.malformed"},
        ),
        (put("kind", ["power"]), {"code": "table.malformed"}),
        (put("kind", "lookup"), {"code": "table.malformed"}),
        (put("k", 7), {"code": "table.malformed"}),
        (put("k", 0), {"code": "table.malformed"}),
        (put("k", "4"), {"code": "table.malformed"}),
        (put("k", None), {"code": "table.malformed"}),
        (put("count", 5), {"code": "table.malformed"}),
        (put("dimensions", 2), {"code": "table.malformed"}),
        (put("holds_original_records", True), {"code": "table.malformed"}),
        (put("encoding", {}), {"code": "table.malformed"}),
        (put("encoding", 3), {"code": "table.malformed"}),
        (put("k", 2, "encoding"), {"code": "table.malformed"}),
        (put("representatives", {"age": [1]}), {"code": "table.malformed"}),
        (put("representatives", [1]), {"code": "table.malformed"}),
        (put("cells", []), {"code": "table.malformed"}),
        (put("cells", None), {"code": "table.malformed"}),
        (take("costs", "cells"), {"code": "table.malformed"}),
        (put("extra", 1, "cells"), {"code": "table.malformed"}),
        (put("costs", [0.0], "cells"), {"code": "table.malformed"}),
        (put("costs", None, "cells"), {"code": "table.malformed"}),
        (put("costs", ["0", 0, 0, 0], "cells"), {"code": "table.malformed"}),
        (put("centroids", [[1, 2, 3], [1, 2]], "cells"), {"code": "table.malformed"}),
        (put("centroids", None, "cells"), {"code": "table.malformed"}),
        (put("sizes", [9, 8, 7, 6.5], "cells"), {"code": "table.malformed"}),
        (put("sizes", [9, 8, 7, 10**30], "cells"), {"code": "table.malformed"}),
        (put("sizes", [9, 8, 7, 3], "cells"), {"code": "table.malformed"}),
        (put("group", None, "cells"), {"code": "table.malformed"}),
        (put("group", [0, 0, 0, 9], "cells"), {"code": "table.malformed"}),
        (put("chooser", None, "cells"), {"code": "table.malformed"}),
        (put("chooser", [1], "cells"), {"code": "table.malformed"}),
        (put("chooser", {}, "cells"), {"code": "table.malformed"}),
        (put("k", 99, "cells", "chooser"), {"code": "table.malformed"}),
        (take("k", "cells", "chooser"), {"code": "table.malformed"}),
    ],
)
def test_damaged_files_are_rejected(change, expected, tmp_path):
    path = save(power_cells(), tmp_path / "cells.json")
    rewrite(path, change)
    with raises(TableError, **expected) as caught:
        load_cells(path)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_non_finite_numbers_are_rejected(number, tmp_path):
    path = save(MAKERS["balls"](), tmp_path / "cells.json")
    text = path.read_text()
    radius = repr(float(load_cells(path).radii[0]))
    assert radius in text
    path.write_text(text.replace(radius, number))
    with raises(TableError, "table.malformed"):
        load_cells(path)
