"""Everything that is published together: do original values appear in any of the files?"""

import base64
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.adversary.recovery import Attack, Trials
from benchmarks.adversary.settings import Setting, make_people

__all__ = ["DOCUMENTS", "attack", "tokens"]

DOCUMENTS = Attack(
    "values in documents",
    "nothing",
    "table, public report with figures, certificate and cells file together",
    "an original value that the release replaces",
    "made-up values of the same kind",
)

_DIGITS = 4
"""Values with fewer digits appear everywhere by accident."""


def attack(setting: Setting, paths: Iterable[Path] | None = None) -> Trials:
    """Look for original values, and for as many made-up ones, in the files."""
    present: set[str] = set()
    for path in setting.files.values() if paths is None else paths:
        present |= tokens(path.read_bytes())
    made_up = make_people(setting.table, 4 * len(setting.classes), setting.seed + 50_000)
    hits, decoys = [], []
    for name in _replaced_columns(setting):
        real = set(_texts(setting.people[name]))
        known = set(_texts(setting.published[name])) if name in setting.published else set()
        others = sorted(set(_texts(made_up[name])) - real - known)
        candidates = sorted(real - known)
        n = min(len(candidates), len(others))
        rng = np.random.default_rng([setting.seed, 7])
        hits += [text in present for text in rng.permutation(candidates)[:n].tolist()]
        decoys += [text in present for text in rng.permutation(others)[:n].tolist()]
    return Trials(tuple(hits), decoys=tuple(decoys))


def _replaced_columns(setting: Setting) -> list[str]:
    schema = setting.release.schema
    return [*schema.identifiers, *(part for column in schema.quasi for part in column.parts)]


def _texts(column: np.ndarray) -> Iterator[str]:
    for value in column.tolist():
        text = str(value)
        if len(re.sub(r"\D", "", text)) >= _DIGITS:
            yield text


def tokens(content: bytes) -> set[str]:
    """Return the numbers and names in a file, with those in its compressed and encoded parts."""
    texts = [part.decode("latin-1") for part in _parts(content)]
    result: set[str] = set()
    for text in texts:
        result.update(number.rstrip(".") for number in re.findall(r"\d+(?:\.\d+)?", text))
        plain = re.sub(r"(?<=\d),(?=\d{3})", "", text)
        result.update(re.findall(r"\d+(?:\.\d+)?", plain))
        result.update(re.findall(r"[A-Z][a-z]+ [A-Z][a-z]+ \d{4}", text))
    return result


def _parts(content: bytes) -> Iterator[bytes]:
    yield content
    for match in re.finditer(rb"stream\r?\n", content):  # of a PDF file
        try:
            yield zlib.decompressobj().decompress(content[match.end() :])
        except zlib.error:
            continue
    for match in re.finditer(rb"base64,([A-Za-z0-9+/=]+)", content):
        yield base64.b64decode(match[1])
