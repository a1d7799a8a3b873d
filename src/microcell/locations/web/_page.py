"""The files of the page, read once."""

from dataclasses import dataclass
from importlib.resources import files

__all__ = ["PageFile", "page_files"]

_MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
}
"""Others are not served. The list is here and not the machine's, which differs."""


@dataclass(frozen=True)
class PageFile:
    """A file as it is sent."""

    body: bytes
    media_type: str


def page_files() -> dict[str, PageFile]:
    """The files by the paths they are served at: ``/`` for index.html, ``/page/NAME`` for the others.

    Examples
    --------
    >>> page_files()["/"].media_type
    'text/html'
    """
    found: dict[str, PageFile] = {}
    for entry in sorted(files("microcell.locations").joinpath("page").iterdir(), key=lambda entry: entry.name):
        suffix = entry.name[entry.name.rfind(".") :]
        if entry.is_file() and suffix in _MEDIA_TYPES:
            file = PageFile(entry.read_bytes(), _MEDIA_TYPES[suffix])
            found["/" if entry.name == "index.html" else f"/page/{entry.name}"] = file
    return found
