"""Where a file comes from: a path, a compressed file, standard input, a file object or a URL."""

import bz2
import gzip
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

from microcell._extras import require_module
from microcell._files import URL, MemoryFile, Readable, is_url, read_bytes
from microcell.errors import TableError

__all__ = ["COMPRESSED", "locate"]

_MOST_EXPANSION = 200
"""Maximum expansion that is accepted. Tables as text usually expand by a factor of 3 to 30."""

_SMALL = 100 * 2**20
"""Size in bytes up to which an expanded file is accepted in any case."""


def locate(source: Any) -> Readable | None:
    """Return the file of a source, decompressed if necessary; None if it is not a file."""
    if isinstance(source, (str, Path)):
        if str(source) == "-":
            return _named("standard input", sys.stdin.buffer.read())
        if is_url(source):
            return _expand(_download(str(source)))
        return _expand(Path(source))
    if hasattr(source, "read") and not hasattr(source, "columns"):
        content = source.read()
        data = content.encode("utf-8") if isinstance(content, str) else content
        if isinstance(data, bytes):
            name = getattr(source, "name", None)
            named = MemoryFile(Path(name).name, data) if isinstance(name, str) else None
            return _expand(named) if named and named.suffix else _named("file object", data)
    return None


def _named(name: str, data: bytes) -> MemoryFile:
    """Name the content by its format, which its first bytes tell."""
    for start, suffix in _STARTS.items():
        if data.startswith(start):
            return MemoryFile(f"{name}{suffix}", data)
    for suffix, start in _MAGIC.items():
        if data.startswith(start):
            return _expand(MemoryFile(f"{name}.csv{suffix}", data))  # type: ignore[return-value]
    return MemoryFile(f"{name}.jsonl" if data.lstrip()[:1] == b"{" else f"{name}.csv", data)


_STARTS = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"PK\x03\x04": ".xlsx"}
_MAGIC = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}


# -------------------------------------------------------------------------------- compression


def _expand(file: Readable) -> Readable:
    """Return the content of a compressed file, or the file itself if it is not compressed."""
    open_file = COMPRESSED.get(file.suffix.lower())
    if open_file is None:
        return file
    data = read_bytes(file)
    inner = file.name[: -len(file.suffix)]
    try:
        if file.suffix.lower() == ".zip":
            inner, stream = _open_member(data, file.name)
        else:
            stream = open_file(BytesIO(data))
        with stream:
            limit = max(_SMALL, _MOST_EXPANSION * len(data))
            content = stream.read(limit + 1)
    except TableError:
        raise
    except (OSError, EOFError, ValueError, BadZipFile, zlib.error, RuntimeError):
        raise TableError(
            f"{file.name!r} cannot be decompressed: it is damaged, truncated, encrypted or in "
            "another format. Get it again, or correct its suffix.",
            code="table.malformed",
        ) from None
    if len(content) > limit:
        raise TableError(
            f"{file.name!r} has {len(data):,} bytes and would expand to more than {limit:,}. If "
            "you trust the file, decompress it first.",
            code="table.too_large",
            file_size=len(data),
        )
    return MemoryFile(inner, content)


def _open_member(data: bytes, name: str) -> tuple[str, IO[bytes]]:
    archive = ZipFile(BytesIO(data))
    members = [item for item in archive.namelist() if not item.endswith("/")]
    members = [item for item in members if not item.startswith("__MACOSX/")]
    if len(members) != 1:
        raise TableError(
            f"{name!r} contains {len(members)} files, but must contain a single table. Unpack it "
            "and pass one of its files.",
            code="table.malformed",
            members=len(members),
        )
    return Path(members[0]).name, archive.open(members[0])


def _open_zst(file: BytesIO) -> Any:
    pyarrow = require_module("pyarrow", extra="sources", purpose=".zst files", error=TableError)
    return pyarrow.CompressedInputStream(pyarrow.py_buffer(file.getvalue()), "zstd")


COMPRESSED: Mapping[str, Callable[[BytesIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".zst": _open_zst,
    ".zip": ZipFile,
}
"""Suffixes of compressed files, and how to open one."""


# --------------------------------------------------------------------------------------- URLs


def _download(source: str) -> MemoryFile:
    """Return the file that a URL names, read by fsspec."""
    match = URL.match(source)
    assert match is not None
    scheme = match["scheme"]
    url = source if "://" in source else f"{scheme}://{source[match.end() :]}"
    fsspec = require_module(
        "fsspec", extra="sources", purpose=f"{scheme}:// URLs", error=TableError
    )
    name = Path(re.sub(r"[?#].*", "", url)).name
    try:
        with fsspec.open(url, "rb") as file:
            return MemoryFile(name, file.read())
    except ImportError:
        raise TableError(
            f"{scheme}:// URLs need a package that is not installed. Run: pip install "
            f'"fsspec[{scheme}]"',
            code="option.extra_missing",
            package=f"fsspec[{scheme}]",
            extra="sources",
        ) from None
    except ValueError:
        raise TableError(
            f"Unknown kind of URL {scheme}://. Use a path, or a URL that fsspec supports, such as "
            "https://, s3:// or gs://.",
            code="table.unknown_format",
        ) from None
    except Exception as error:  # noqa: BLE001 - of many libraries; may quote credentials
        raise TableError(
            f"The {scheme}:// URL cannot be read ({type(error).__name__}). Check the address and "
            "your access.",
            code="table.unreadable",
        ) from None
