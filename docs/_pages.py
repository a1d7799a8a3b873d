"""What the makers of pages share: parts of a page between two marks, tables, and writing or checking files."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent


def fill(text: str, name: str, content: str) -> str:
    """The text with ``content`` between the marks ``<!-- made: NAME -->`` and ``<!-- end: NAME -->``.

    Examples
    --------
    >>> fill("a <!-- made: x -->old<!-- end: x --> b", "x", "new")
    'a <!-- made: x -->\\n\\nnew\\n\\n<!-- end: x --> b'
    """
    begin, end = f"<!-- made: {name} -->", f"<!-- end: {name} -->"
    found = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(found.findall(text)) != 1:
        raise ValueError(f"The page must have the marks of {name!r} once.")
    return found.sub(lambda _: f"{begin}\n\n{content.strip()}\n\n{end}", text)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; what would end a cell is escaped.

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
    """The text as a cell of a table, on one line."""
    return " ".join(text.split()).replace("\\|", "|").replace("|", "\\|")


def settle(pages: Mapping[Path, str]) -> None:
    """Write the pages, or with ``--check`` on the command line end with 1 if a file is not as it would be written."""
    stale = [
        path
        for path, text in pages.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv:
        sys.exit("".join(f"not as generated: {path.relative_to(ROOT)}\n" for path in stale) or 0)
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[path], encoding="utf-8")
    sys.stdout.write(f"{len(pages)} pages, {len(stale)} of them changed\n")
