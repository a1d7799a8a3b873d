"""Bytes: do texts of the original survive in files, or in the frames returned?"""

import pickle
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat

import microcell as mc
from benchmarks.adversary.recovery import Attack, Trials
from microcell.release import manifest_path

__all__ = [
    "FILES",
    "FORMATS",
    "FRAMES",
    "LABELLED",
    "MEMORY",
    "attack_files",
    "attack_frames",
    "file_bytes",
    "frame_bytes",
    "make_frame",
    "survivors",
    "write_with_labels",
]

FILES = Attack(
    "bytes of files",
    "nothing",
    "table file in every format, cells file and manifest: dictionaries, shared strings, labels, "
    "metadata",
    "a name, or a rare category that the release replaces",
    "a random text of ten letters",
)

MEMORY = Attack(
    "bytes of frames",
    "nothing",
    "the table that `anonymize` returns: categories, dictionaries and buffers; a pickled release",
    FILES.target,
    FILES.baseline,
)

FORMATS = (
    *(".csv", ".tsv", ".txt", ".jsonl", ".ndjson"),
    *(".parquet", ".arrow", ".feather", ".ipc"),
    *(".xlsx", ".sav", ".zsav", ".dta", ".xpt"),
)
"""Suffixes of all formats that can be written."""

LABELLED: dict[str, Callable[..., None]] = {
    ".sav": pyreadstat.write_sav,
    ".dta": pyreadstat.write_dta,
}
"""Formats in which a category can be a number with a label."""

FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "numpy": lambda columns: {name: np.asarray(column) for name, column in columns.items()},
    "pandas": pd.DataFrame,
    "pandas categories": lambda columns: pd.DataFrame(columns).astype(
        {"name": "category", "town": "category", "note": "category"}
    ),
    "pandas ordered categories": lambda columns: pd.DataFrame(columns).astype(
        {"town": pd.CategoricalDtype(sorted(set(columns["town"])), ordered=True)}
    ),
    "polars": pl.DataFrame,
    "polars categories": lambda columns: pl.DataFrame(columns).with_columns(
        pl.col("name", "town", "note").cast(pl.Categorical)
    ),
    "polars enum": lambda columns: pl.DataFrame(columns).with_columns(
        pl.col("town").cast(pl.Enum(sorted(set(columns["town"]))))
    ),
    "pyarrow": pa.table,
    "pyarrow dictionaries": lambda columns: pa.table(
        {
            name: pa.array(column).dictionary_encode() if name != "age" else column
            for name, column in columns.items()
        }
    ),
}
"""Frames of every kind, from plain columns."""

_LETTERS = "bcdfghjklmnpqrstvwxz"
_LENGTH = 10

SCHEMA = mc.Schema(
    identifiers=["name"],
    quasi=["age", mc.Column("town", kind="nominal")],
    confidential=["ill"],
    drop=["note"],
)


def make_frame(n: int, seed: int) -> dict[str, list[Any]]:
    """Return columns whose names, notes and rare towns are unmistakable texts."""
    rng = np.random.default_rng([seed, 16])
    rare = [f"Rtown{token}" for token in _tokens(rng, n // 6)]
    towns = rng.choice(["Tarragona", "Reus"], n).astype(object)
    towns[rng.permutation(n)[: len(rare)]] = rare
    return {
        "name": [f"Pname{token}" for token in _tokens(rng, n)],
        "age": rng.integers(18, 95, n).tolist(),
        "town": [str(town) for town in towns],
        "ill": [str(item) for item in rng.choice(["asthma", "none"], n)],
        "note": [f"Nnote{token}" for token in _tokens(rng, n)],
    }


def _tokens(rng: np.random.Generator, n: int) -> list[str]:
    return ["".join(rng.choice(list(_LETTERS), _LENGTH)) for _ in range(n)]


def _texts(columns: dict[str, list[Any]], published: Iterable[str]) -> list[str]:
    """Return the texts that must not survive: names, notes, and towns that are not published."""
    towns = {town for town in columns["town"] if town.startswith("Rtown")}
    return sorted({*columns["name"], *columns["note"], *(towns - set(published))})


def survivors(content: bytes, texts: Iterable[str]) -> list[bool]:
    """Return for each text whether it is in the bytes, in UTF-8 or UTF-16 or UTF-32."""
    return [
        any(text.encode(code) in content for code in ("utf-8", "utf-16-le", "utf-32-le"))
        for text in texts
    ]


def _trials(content: bytes, columns: dict[str, list[Any]], published: Iterable[str]) -> Trials:
    texts = _texts(columns, published)
    # Ten letters of 20 appear by accident with a probability of less than this.
    expected = len(content) / len(_LETTERS) ** _LENGTH
    return Trials(tuple(survivors(content, texts)), (expected,) * len(texts))


def attack_files(method: str, n: int, seed: int, folder: Path) -> Trials:
    """Publish in every format, from a file of the same format if it can be read, and scan."""
    columns = make_frame(n, seed)
    sources = [folder / f"original{suffix}" for suffix in FORMATS]
    for source in sources:
        mc.write(pd.DataFrame(columns), source)
    for suffix, write_labelled in LABELLED.items():
        sources.append(folder / f"labelled{suffix}")
        write_with_labels(columns, sources[-1], write_labelled)
    several = []
    for source in sources:
        release = mc.anonymize(source, SCHEMA, k=3, method=method, cells=True)
        path = folder / f"release{source.suffix}"
        release.publish(path, cells=folder / "cells.json")
        files = [path, folder / "cells.json", manifest_path(path)]
        content = b"\n".join(file_bytes(item) for item in files)
        several.append(_trials(content, columns, _published_towns(release)))
    return Trials.pool(several)


def write_with_labels(
    columns: dict[str, list[Any]], path: Path, write: Callable[..., None]
) -> None:
    """Write names, towns and notes as numbers whose labels are the texts."""
    names = ["name", "town", "note"]
    texts = {name: pd.Categorical(columns[name]) for name in names}
    frame = pd.DataFrame(columns | {name: texts[name].codes for name in names})
    labels = {name: dict(enumerate(texts[name].categories)) for name in names}
    write(frame, path, variable_value_labels=labels)


def _published_towns(release: Any) -> set[str]:
    values = release.published.columns["town"]
    labels = release.published.origin.value_labels.get("town", dict(enumerate(values.categories)))
    return {labels[code] for code in np.unique(values.data)}


def attack_frames(method: str, n: int, seed: int) -> Trials:
    """Anonymize frames of every kind and scan what comes back, and the release when pickled."""
    columns = make_frame(n, seed)
    several = []
    for make in FRAMES.values():
        release = mc.anonymize(make(columns), SCHEMA, k=3, method=method)
        content = frame_bytes(release.table) + pickle.dumps(release)
        several.append(_trials(content, columns, _published_towns(release)))
    return Trials.pool(several)


def file_bytes(path: Path) -> bytes:
    """Return the bytes of a file and of everything compressed in it."""
    content = path.read_bytes()
    parts = [content, *_unzipped(content), *_inflated(content)]
    if path.suffix == ".parquet":
        parts += _parquet_parts(path)
    if path.suffix in (".arrow", ".feather", ".ipc"):
        with pa.ipc.open_file(path) as reader:
            parts.append(frame_bytes(reader.read_all()))
    return b"\n".join(parts)


def _unzipped(content: bytes) -> Iterator[bytes]:
    if content[:2] == b"PK":
        with zipfile.ZipFile(BytesIO(content)) as archive:
            for entry in archive.infolist():
                yield archive.read(entry)


def _inflated(content: bytes) -> Iterator[bytes]:
    """Yield what every zlib stream in the bytes contains."""
    for start in range(len(content) - 1):
        if content[start] == 0x78 and content[start + 1] in (0x01, 0x5E, 0x9C, 0xDA):
            try:
                yield zlib.decompressobj().decompress(content[start:])
            except zlib.error:
                continue


def _parquet_parts(path: Path) -> Iterator[bytes]:
    """Yield dictionaries as stored, statistics and metadata of a Parquet file."""
    metadata = pq.read_metadata(path)
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            yield str(metadata.row_group(group).column(column).to_dict()).encode()
    texts = [
        field.name
        for field in metadata.schema.to_arrow_schema()
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    ]
    yield frame_bytes(pq.read_table(path, read_dictionary=texts))
    yield str(metadata.metadata).encode()


def frame_bytes(frame: Any) -> bytes:
    """Return the bytes that a frame holds, including unused categories and ends of buffers."""
    if isinstance(frame, dict):
        return b"\n".join(_array_bytes(column) for column in frame.values())
    if isinstance(frame, pd.DataFrame):
        categories = [
            name
            for column in frame
            if isinstance(frame[column].dtype, pd.CategoricalDtype)
            for name in frame[column].cat.categories
        ]
        return pickle.dumps(frame) + "\n".join(map(str, categories)).encode()
    if isinstance(frame, pl.DataFrame):
        # Enum columns have their own categories; those of Categorical ones are shared by a process.
        enums = [column for column in frame if isinstance(column.dtype, pl.Enum)]
        parts = ["\n".join(column.dtype.categories).encode() for column in enums]
        return b"\n".join([frame_bytes(frame.to_arrow()), pickle.dumps(frame), *parts])
    return b"\n".join(_arrow_bytes(frame))


def _array_bytes(array: np.ndarray) -> bytes:
    base = array if array.base is None else array.base
    return pickle.dumps(array) + pickle.dumps(base)


def _arrow_bytes(table: pa.Table) -> Iterator[bytes]:
    yield str(table.schema).encode()
    for column in table.columns:
        for chunk in column.chunks:
            chunks = [chunk]
            if pa.types.is_dictionary(chunk.type):
                chunks.append(chunk.dictionary)
            for item in chunks:
                for buffer in item.buffers():
                    if buffer is not None:
                        yield buffer.to_pybytes()
