"""The secrets of the service: coordinates sealed by AES-GCM, tokens kept as digests."""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from microcell.errors import DataError, OptionError

__all__ = ["KEY_VARIABLE", "Vault", "digest_of", "new_key", "new_pseudonym", "new_token", "read_key", "same_digest"]

KEY_VARIABLE = "MICROCELL_LOCATIONS_KEY"
"""The environment variable that holds the key, in base64."""

_KEY_BYTES, _NONCE_BYTES = 32, 12
_CHECK, _CHECKED = b"microcell locations: check of the key", b"\x00check"
_PLACE = struct.Struct("<dd")


class Vault:
    """Seals coordinates, each for one pseudonym, and opens them again; the key itself it never shows.

    AES-256-GCM with a random nonce of 96 bits (NIST SP 800-38D) and the pseudonym as associated data, so that what was
    sealed for one device does not open for another. After 2^32 seals with one key, renew the key.

    Examples
    --------
    >>> vault = Vault(new_key())
    >>> vault.open("a", vault.seal("a", 41.0, 2.0))
    (41.0, 2.0)
    """

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
            raise OptionError(f"The key must be {_KEY_BYTES} bytes, as new_key makes them.")
        self._cipher = AESGCM(key)

    def __repr__(self) -> str:
        return "Vault(...)"

    def seal(self, pseudonym: str, latitude: float, longitude: float) -> bytes:
        """The coordinates, sealed for this pseudonym."""
        return self._seal(pseudonym.encode(), _PLACE.pack(latitude, longitude))

    def open(self, pseudonym: str, sealed: bytes) -> tuple[float, float]:
        """Latitude and longitude, as they were sealed for this pseudonym."""
        latitude, longitude = _PLACE.unpack(self._open(pseudonym.encode(), sealed))
        return latitude, longitude

    def check_value(self) -> bytes:
        """A value by which :meth:`refuse_other_key` knows this key again."""
        return self._seal(_CHECKED, _CHECK)

    def refuse_other_key(self, check_value: bytes) -> None:
        """Nothing, if the check value was made with this key."""
        try:
            opened = self._open(_CHECKED, check_value)
        except DataError:
            opened = b""
        if opened != _CHECK:
            raise OptionError(
                f"The database was sealed with another key: nothing is served. Give its key in {KEY_VARIABLE}."
            )

    def _seal(self, belongs: bytes, content: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, belongs)

    def _open(self, belongs: bytes, sealed: bytes) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], belongs)
        except (InvalidTag, ValueError):
            raise DataError("A sealed location does not open: it was changed, or moved to another device.") from None


def new_key() -> bytes:
    """A random key of 32 bytes.

    Examples
    --------
    >>> len(new_key())
    32
    """
    return secrets.token_bytes(_KEY_BYTES)


def read_key(text: str) -> bytes:
    """The key that base64 text stands for, as the environment holds it.

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
            f"{KEY_VARIABLE} must be {_KEY_BYTES} random bytes in base64, such as openssl rand -base64 32."
        )
    return key


def new_pseudonym() -> str:
    """A name that tells nothing: 128 random bits."""
    return secrets.token_urlsafe(16)


def new_token() -> str:
    """What a device proves itself with: 256 random bits."""
    return secrets.token_urlsafe(32)


def digest_of(token: str) -> bytes:
    """The SHA-256 digest that is kept in the token's place: enough for what is random and long."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def same_digest(one: bytes, other: bytes) -> bool:
    """Whether two digests are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)
