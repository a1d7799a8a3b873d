"""What is sealed opens for its owner alone; keys and tokens show themselves nowhere."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import DataError, OptionError
from microcell.locations import new_key, read_key
from microcell.locations.store import Vault, digest_of, new_pseudonym, new_token, same_digest

KEY = bytes(range(32))


@given(st.text(max_size=20), st.floats(-90, 90), st.floats(-180, 180))
def test_what_was_sealed_opens(name, latitude, longitude):
    vault = Vault(KEY)
    sealed = vault.seal(name, latitude, longitude)
    assert Vault(KEY).open(name, sealed) == (latitude, longitude)
    assert vault.seal(name, latitude, longitude) != sealed


def test_sealed_for_another_device_does_not_open():
    vault = Vault(KEY)
    with pytest.raises(DataError, match="does not open"):
        vault.open("b", vault.seal("a", 1.0, 2.0))


@given(st.integers(0, 12 + 16 + 16 - 1), st.integers(1, 255))
def test_a_changed_byte_is_noticed(place, flip):
    vault = Vault(KEY)
    sealed = bytearray(vault.seal("a", 41.0, 2.0))
    sealed[place] ^= flip
    with pytest.raises(DataError):
        vault.open("a", bytes(sealed))


@pytest.mark.parametrize("sealed", [b"", b"short", bytes(11), bytes(12), bytes(44)])
def test_rubbish_does_not_open(sealed):
    with pytest.raises(DataError):
        Vault(KEY).open("a", sealed)


def test_another_key_is_refused():
    value = Vault(KEY).check_value()
    Vault(KEY).refuse_other_key(value)
    for other in (Vault(new_key()), Vault(bytes(32))):
        with pytest.raises(OptionError, match="another key"):
            other.refuse_other_key(value)


@pytest.mark.parametrize("key", [b"", bytes(16), bytes(33), "0" * 32, None, bytearray(32)])
def test_a_key_is_32_bytes(key):
    with pytest.raises(OptionError, match="32 bytes"):
        Vault(key)


def test_keys_are_read_from_base64():
    key = bytes(range(200, 232))
    assert read_key(base64.b64encode(key).decode() + "\n") == key
    assert read_key(base64.urlsafe_b64encode(key).decode()) == key


@pytest.mark.parametrize(
    "text", ["", "secret", base64.b64encode(bytes(31)).decode(), "ä" * 44, "!" * 44]
)
def test_what_is_no_key_is_refused_without_showing_it(text):
    with pytest.raises(OptionError, match="MICROCELL_LOCATIONS_KEY") as caught:
        read_key(text)
    assert not text or text not in str(caught.value)


def test_secrets_differ_and_a_vault_shows_none():
    assert (
        len(
            {new_key() for _ in range(50)}
            | {new_token() for _ in range(50)}
            | {new_pseudonym() for _ in range(50)}
        )
        == 150
    )
    assert repr(KEY)[2:-1] not in repr(Vault(KEY))


def test_digests_tell_tokens_apart():
    token = new_token()
    assert same_digest(digest_of(token), digest_of(token))
    assert not same_digest(digest_of(token), digest_of(token + "x"))
    assert not same_digest(digest_of("\ud800"), bytes(32))
