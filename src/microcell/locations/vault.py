"""Secrets: the key that encrypts exact locations, pseudonyms, and device tokens."""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import struct

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from microcell.errors import DataError, OptionError
from microcell.model import Floats

__all__ = [
    "KEY_VARIABLE",
    "Vault",
    "grid_offsets",
    "hash_token",
    "new_key",
    "new_pseudonym",
    "new_token",
    "read_key",
]

KEY_VARIABLE = "MICROCELL_LOCATIONS_KEY"
"""Environment variable that holds the key, in base64."""

_KEY_BYTES = 32
_NONCE_BYTES = 12
_CHECK_TEXT = b"microcell locations: check of the key"
_CHECK_CONTEXT = b"\x00check"
_COORDINATES = struct.Struct("<dd")


class Vault:
    """Encryption of coordinates, each bound to one pseudonym. The key is never shown.

    AES-256-GCM with a random 96-bit nonce (NIST SP 800-38D). The pseudonym is the associated data,
    so that a location encrypted for one device cannot be decrypted for another. Replace the key
    after 2^32 encryptions.

    Examples
    --------
    >>> vault = Vault(new_key())
    >>> vault.open("a", vault.seal("a", 41.0, 2.0))
    (41.0, 2.0)
    """

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
            raise OptionError(
                f"The key must be {_KEY_BYTES} bytes; create one with new_key().",
                code="option.invalid",
                option="key",
            )
        self._cipher = AESGCM(key)
        self._alias_key = hmac.digest(key, b"microcell locations: aliases", "sha256")
        self.grid_secret = hmac.digest(key, b"microcell locations: grid offsets", "sha256")
        """Key of the offsets of published places; it does not reveal the key of the vault."""

    def __repr__(self) -> str:
        return "Vault(...)"

    def seal(self, pseudonym: str, latitude: float, longitude: float) -> bytes:
        """Encrypt coordinates for a pseudonym."""
        return self._encrypt(pseudonym.encode(), _COORDINATES.pack(latitude, longitude))

    def open(self, pseudonym: str, sealed: bytes) -> tuple[float, float]:
        """Decrypt the latitude and longitude that were sealed for a pseudonym."""
        latitude, longitude = _COORDINATES.unpack(self._decrypt(pseudonym.encode(), sealed))
        return latitude, longitude

    def alias(self, pseudonym: str, epoch: int) -> str:
        """Return the name that a device shows to providers during an epoch.

        Without the key, aliases of one device cannot be linked to each other or to its pseudonym.
        """
        digest = hmac.digest(self._alias_key, f"{epoch}:{pseudonym}".encode(), "sha256")
        return base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")

    def check_value(self) -> bytes:
        """Return a value by which :meth:`verify_key` recognizes this key."""
        return self._encrypt(_CHECK_CONTEXT, _CHECK_TEXT)

    def verify_key(self, check_value: bytes) -> None:
        """Raise OptionError if the check value was created with another key."""
        try:
            text = self._decrypt(_CHECK_CONTEXT, check_value)
        except DataError:
            text = b""
        if text != _CHECK_TEXT:
            raise OptionError(
                "The database is encrypted with another key, so nothing is served. "
                f"Set {KEY_VARIABLE} to the key of this database.",
                code="option.invalid",
                option="key",
            )

    def _encrypt(self, context: bytes, text: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, text, context)

    def _decrypt(self, context: bytes, sealed: bytes) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], context)
        except (InvalidTag, ValueError):
            raise DataError(
                "An encrypted location cannot be decrypted: it was altered or belongs to another "
                "device.",
                code="data.invalid",
            ) from None


def new_key() -> bytes:
    """Return a random 32-byte key.

    Examples
    --------
    >>> len(new_key())
    32
    """
    return secrets.token_bytes(_KEY_BYTES)


def read_key(text: str) -> bytes:
    """Decode a key from base64, as stored in the environment variable.

    Examples
    --------
    >>> read_key(base64.b64encode(bytes(32)).decode()) == bytes(32)
    True
    """
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise OptionError(
            f"{KEY_VARIABLE} must be {_KEY_BYTES} random bytes in base64. "
            "Create a key with `microcell locations key`.",
            code="option.invalid",
            option=KEY_VARIABLE,
        )
    return key


def new_pseudonym() -> str:
    """Return 128 random bits as URL-safe text."""
    return secrets.token_urlsafe(16)


def new_token() -> str:
    """Return 256 random bits as URL-safe text, with which a device authenticates."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> bytes:
    """Return the SHA-256 digest that is stored; tokens are long and random, so it needs no salt."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def grid_offsets(secret: bytes, build: int) -> Floats:
    """Return three numbers in [0, 1): the secret grid offsets of a build.

    Examples
    --------
    >>> grid_offsets(b"secret", 1).shape
    (3,)
    """
    digest = hmac.digest(secret, f"grid:{build}".encode(), "sha256")
    return np.frombuffer(digest[:24], dtype="<u8").astype(np.float64) / 2.0**64
