"""The order key: secret, random, and enough to write the same file again."""

from pathlib import Path

import numpy as np
import pytest

import microcell as mc
from microcell.errors import OptionError
from microcell.release import manifest_path
from microcell.release.order import draw_order, read_order_key
from microcell.schema.files import run_from_toml
from tests.raising import raises

KEY = "00112233445566778899aabbccddeeff"
SCHEMA = mc.Schema(quasi=["age"], confidential=["income"])
PEOPLE = {"age": np.arange(40) % 23 + 20, "income": np.arange(40)}


def release(**options):
    return mc.anonymize(PEOPLE, SCHEMA, k=3, method="mdav", **options)


def test_orders_are_permutations_that_depend_on_key_and_context():
    orders = [draw_order(1000, key, context) for key in (KEY, "0" * 32) for context in (b"", b"x")]
    for rows in orders:
        assert np.array_equal(np.sort(rows), np.arange(1000))
    assert len({rows.tobytes() for rows in orders}) == 4
    assert np.array_equal(draw_order(1000, KEY, b"x"), orders[1])
    assert len(draw_order(0, KEY, b"")) == 0


def test_the_same_key_gives_the_same_file(tmp_path):
    first = release().publish(tmp_path / "a.csv")
    other = release().publish(tmp_path / "b.csv")
    assert first.manifest.order_key != other.manifest.order_key
    assert (tmp_path / "a.csv").read_bytes() != (tmp_path / "b.csv").read_bytes()
    for order_key in (
        first.manifest.order_key,
        first.manifest.order_key.upper(),
        manifest_path(tmp_path / "a.csv"),
        str(manifest_path(tmp_path / "a.csv")),
    ):
        release(order_key=order_key).publish(tmp_path / "again.csv")
        assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()


def test_the_same_key_does_not_match_rows_of_two_releases():
    other = mc.anonymize(PEOPLE, SCHEMA, k=4, method="mdav", order_key=KEY)
    assert not np.array_equal(release(order_key=KEY).row_order, other.row_order)


def test_without_shuffling_there_is_no_key(tmp_path):
    kept = release().publish(tmp_path / "kept.csv", keep_order=True)
    assert kept.manifest.order_key is None
    assert "order_key" not in manifest_path(tmp_path / "kept.csv").read_text()
    with raises(OptionError, "option.invalid", option="order_key"):
        release(order_key=manifest_path(tmp_path / "kept.csv"))


@pytest.mark.parametrize("key", ["", "12", KEY + "0", "g" * 32, "missing.json"])
def test_invalid_keys_are_rejected_and_not_repeated(key):
    with raises(OptionError, "option.invalid", option="order_key") as caught:
        release(order_key=key)
    assert not key or key not in str(caught.value)
    with raises(OptionError, "option.wrong_type", option="order_key"):
        read_order_key(7)


def test_the_audit_uses_the_key(tmp_path):
    release().publish(tmp_path / "out.csv")
    manifest = mc.Manifest.load(manifest_path(tmp_path / "out.csv"))
    result = mc.audit(PEOPLE, tmp_path / "out.csv", SCHEMA)
    assert result["information_loss"] == pytest.approx(manifest.information_loss)
    without = mc.audit(
        PEOPLE, tmp_path / "out.csv", SCHEMA, manifest=manifest.updated(order_key=None)
    )
    assert "information_loss" not in without.measures
    assert without["values_changed"] == 0


def test_sessions_keep_their_key(tmp_path):
    stored = mc.increments.StoredSession.create(tmp_path / "s", PEOPLE, SCHEMA, 3, method="mdav")
    first = stored.publish(tmp_path / "a.csv", order_key=KEY)
    stored.publish(tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    with raises(OptionError, "option.conflict", option="order_key"):
        stored.finish(order_key="0" * 32)
    session = mc.increments.start(PEOPLE, SCHEMA, 3, method="mdav")
    assert np.array_equal(session.finish(order_key=KEY).row_order, first.row_order)
    with raises(OptionError, "option.conflict", option="order_key"):
        session.finish(order_key="0" * 32)


def test_run_files_name_a_manifest_or_a_key():
    parse = run_from_toml
    assert parse(f'config_version = 1\norder_key = "{KEY}"').order_key == KEY
    run = parse('config_version = 1\norder_key = "a.manifest.json"', folder=Path("study"))
    assert run.order_key == Path("study/a.manifest.json")
