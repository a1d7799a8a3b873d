"""The order of published rows: random, and reproducible only with its secret key.

An order computed from the original table would confirm guesses: an attacker who knows all columns
but one could try values until the order matches. The key is therefore drawn from the operating
system, and only the manifest, which is not for publication, contains it.
"""

import json
import re
from hashlib import blake2b, shake_256
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from microcell import tables
from microcell.errors import OptionError
from microcell.model import Integers, Table
from microcell.model.manifest import ORDER_KEY_PATTERN, Manifest

__all__ = ["draw_order", "read_order_key", "row_order"]

_KEY_BYTES = 16


def read_order_key(order_key: Any) -> str:
    """Return the key: a new random one for None, the key passed in, or that of a manifest file.

    Raises
    ------
    OptionError
        ``order_key`` is neither 32 hexadecimal digits nor the path of a manifest with a key. The
        message does not repeat it.
    """
    if order_key is None:
        return token_hex(_KEY_BYTES)
    if not isinstance(order_key, (str, Path)):
        raise OptionError(
            "order_key must be 32 hexadecimal digits or the path of a manifest, not "
            f"{type(order_key).__name__}.",
            code="option.wrong_type",
            option="order_key",
        )
    if re.fullmatch(ORDER_KEY_PATTERN, str(order_key).lower()):
        return str(order_key).lower()
    if not Path(order_key).is_file():
        raise OptionError(
            "order_key must be 32 hexadecimal digits, such as the order_key in a manifest, or the "
            "path of an existing manifest.",
            code="option.invalid",
            option="order_key",
        )
    key = Manifest.load(order_key).order_key
    if key is None:
        raise OptionError(
            f"The manifest {Path(order_key).name!r} has no order_key: the rows of its release are "
            "in the original order. Use --keep-order, or leave order_key out.",
            code="option.invalid",
            option="order_key",
        )
    return key


def draw_order(n_rows: int, order_key: str, context: bytes) -> Integers:
    """Return a random order of rows, the same for the same key and context.

    The order is that of the output of a cryptographic generator. One that is not (such as numpy's)
    could be predicted by someone who knows where some of the rows are.

    Examples
    --------
    >>> draw_order(5, "00112233445566778899aabbccddeeff", b"").tolist()
    [3, 4, 1, 0, 2]
    """
    seed = blake2b(context, key=bytes.fromhex(order_key), person=b"row order").digest()
    numbers = np.frombuffer(shake_256(seed).digest(8 * n_rows), dtype="<u8")
    return np.argsort(numbers, kind="stable").astype(np.int64)


def row_order(table: Table, manifest: Manifest) -> Integers:
    """Return the order in which the rows of a release are written, from the key in its manifest.

    It also depends on the table and the settings, so that the rows of two releases with the same
    key cannot be matched by position.
    """
    if manifest.order_key is None:
        raise ValueError("the manifest has no order key")
    entries = {"k", "method", "seed", "missing", "columns", "dependence", "blocks"}
    settings = manifest.model_dump(mode="json", include=entries, exclude_none=True)
    settings["limits"] = dict(manifest.limits)
    if manifest.suppression is not None:
        settings["suppress"] = manifest.suppression.share
    context = tables.digest(table, key=json.dumps(settings, sort_keys=True).encode())
    return draw_order(table.rows, manifest.order_key, context.encode())
