"""Helpers of the page generators: generated parts of a page, tables, writing and checking files."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``.

    Examples
    --------
    >>> fill("a <!-- generated: x -->old<!-- end: x --> b", "x", "new")
    'a <!-- generated: x -->\\n\\nnew\\n\\n<!-- end: x --> b'
    """
    start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"The page must contain the markers of {name!r} exactly once.")
    return pattern.sub(lambda _: f"{start}\n\n{content.strip()}\n\n{end}", text)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, with vertical bars in cells escaped.

    Examples
    --------
    >>> print(table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    | --- | --- |
    | 1 | x\\|y |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(escape_bars(cell) for cell in line)} |" for line in lines)


def escape_bars(text: str) -> str:
    """Return the text as one line that can stand in a table cell."""
    return " ".join(text.split()).replace("\\|", "|").replace("|", "\\|")


def write_or_check(pages: Mapping[Path, str]) -> None:
    """Write the pages; with ``--check`` on the command line, exit with 1 if one is out of date."""
    stale = [
        path
        for path, text in pages.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv:
        sys.exit("".join(f"out of date: {path.relative_to(ROOT)}\n" for path in stale) or 0)
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[path], encoding="utf-8")
    sys.stdout.write(f"{len(pages)} pages, {len(stale)} changed\n")
