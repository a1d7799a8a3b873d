"""Encryption of locations, keys and tokens."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import DataError, OptionError
from microcell.locations import new_key, read_key
from microcell.locations.vault import Vault, hash_token, new_pseudonym, new_token
from tests.raising import raises

KEY = bytes(range(32))


@given(st.text(max_size=20), st.floats(-90, 90), st.floats(-180, 180))
def test_sealed_locations_can_be_opened(name, latitude, longitude):
    vault = Vault(KEY)
    sealed = vault.seal(name, latitude, longitude)
    assert Vault(KEY).open(name, sealed) == (latitude, longitude)
    assert vault.seal(name, latitude, longitude) != sealed


def test_a_location_sealed_for_another_device_cannot_be_opened():
    vault = Vault(KEY)
    with raises(DataError, "data.invalid"):
        vault.open("b", vault.seal("a", 1.0, 2.0))


@given(st.integers(0, 12 + 16 + 16 - 1), st.integers(1, 255))
def test_a_changed_byte_is_detected(place, flip):
    vault = Vault(KEY)
    sealed = bytearray(vault.seal("a", 41.0, 2.0))
    sealed[place] ^= flip
    with raises(DataError, "data.invalid"):
        vault.open("a", bytes(sealed))


@pytest.mark.parametrize("sealed", [b"", b"short", bytes(11), bytes(12), bytes(44)])
def test_garbage_cannot_be_opened(sealed):
    with raises(DataError, "data.invalid"):
        Vault(KEY).open("a", sealed)


def test_another_key_is_rejected():
    value = Vault(KEY).check_value()
    Vault(KEY).verify_key(value)
    for other in (Vault(new_key()), Vault(bytes(32))):
        with raises(OptionError, "option.invalid", option="key"):
            other.verify_key(value)


@pytest.mark.parametrize("key", [b"", bytes(16), bytes(33), "0" * 32, None, bytearray(32)])
def test_a_key_is_32_bytes(key):
    with raises(OptionError, "option.invalid", option="key"):
        Vault(key)


def test_keys_are_read_from_base64():
    key = bytes(range(200, 232))
    assert read_key(base64.b64encode(key).decode() + "\n") == key
    assert read_key(base64.urlsafe_b64encode(key).decode()) == key


@pytest.mark.parametrize(
    "text", ["", "secret", base64.b64encode(bytes(31)).decode(), "ä" * 44, "!" * 44]
)
def test_invalid_keys_are_rejected_without_showing_them(text):
    with raises(OptionError, "option.invalid", option="MICROCELL_LOCATIONS_KEY") as caught:
        read_key(text)
    assert not text or text not in str(caught.value)


def test_secrets_are_unique_and_hidden_in_repr():
    assert (
        len(
            {new_key() for _ in range(50)}
            | {new_token() for _ in range(50)}
            | {new_pseudonym() for _ in range(50)}
        )
        == 150
    )
    assert repr(KEY)[2:-1] not in repr(Vault(KEY))


def test_tokens_have_distinct_digests():
    token = new_token()
    assert hash_token(token) == hash_token(token)
    assert hash_token(token) != hash_token(token + "x")
    assert len(hash_token("\ud800")) == 32
