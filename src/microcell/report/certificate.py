"""The certificate: one A4 page of text, to sign."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from itertools import accumulate, islice
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path

from microcell.model import Audit
from microcell.report.contents import Contents, Verdict
from microcell.report.figures.base import EDGE, INK, style
from microcell.report.headlines import Headline, headlines
from microcell.report.wording import Fact, guarantee, making

__all__ = ["draw_certificate"]

_WIDTH, _HEIGHT = 595.0, 842.0
"""A4 in points."""
_MARGIN = 54.0
_FOOT = 118.0
"""What is kept free at the bottom for the signature."""
_FONT = "DejaVu Sans"
"""It comes with matplotlib, so that the page is the same everywhere."""
_QUIET = "#566072"
_LEADING = 1.32
_SCALES = (1.0, 0.94, 0.88, 0.82, 0.76, 0.7)
"""Sizes of type, tried from the largest until the page holds all."""
_CUTS = ((30, 30), (12, 6), (6, 4), (3, 2))
"""Rows of the verdict, and lines of a paragraph or a cell, at most: tried in turn where no size of type helps."""
_NAMED = 3
"""Columns named in a guarantee that is too long."""
_MORE = "The report names them all."
_CLAIM = "Found by comparing the published table with its original. What rests on original values is rounded to two digits."


@dataclass(frozen=True)
class _Piece:
    """A line of text on the page; ``top`` is counted downwards from its upper edge."""

    left: float
    top: float
    text: str
    size: float
    bold: bool = False
    colour: str = INK


@dataclass(frozen=True)
class _Block:
    """Lines with the room they take, to be set below one another; ``rules`` are lines drawn across, by their top."""

    pieces: tuple[_Piece, ...]
    height: float
    rules: tuple[float, ...] = ()

    def moved(self, down: float, right: float = 0.0) -> "_Block":
        """The block farther down, and to the right."""
        pieces = tuple(
            replace(item, top=item.top + down, left=item.left + right) for item in self.pieces
        )
        return _Block(pieces, self.height, tuple(top + down for top in self.rules))


@dataclass(frozen=True)
class _Type:
    """How text is set: the scale of its size, and how much of it at most."""

    scale: float
    rows: int
    lines: int

    def paragraph(
        self, text: str, size: float, width: float, *, bold: bool = False, colour: str = INK
    ) -> _Block:
        """The text in lines of at most that width; too many are cut."""
        size *= self.scale
        lines = list(islice(_wrapped(text, size, width, bold=bold), self.lines + 1))
        if len(lines) > self.lines:
            lines = [
                *lines[: self.lines - 1],
                _fitted(f"{lines[self.lines - 1]} …", size, width, bold=bold),
            ]
        step = _LEADING * size
        pieces = (
            _Piece(0, place * step, line, size, bold, colour) for place, line in enumerate(lines)
        )
        return _Block(tuple(pieces), len(lines) * step)

    def gap(self, points: float) -> _Block:
        """Room."""
        return _Block((), points * self.scale)


def draw_certificate(contents: Contents) -> bytes:
    """The certificate as a PDF; the type gets smaller, and at last text is cut, for it to fit on its page."""
    with style(), mpl.rc_context({"pdf.fonttype": 42}):
        page = _fit(contents)
        figure = Figure(figsize=(_WIDTH / 72, _HEIGHT / 72), facecolor="white")
        _set(figure, page.moved(_MARGIN, _MARGIN))
        _set(figure, _signature().moved(_HEIGHT - _FOOT, _MARGIN))
        buffer = BytesIO()
        metadata: Any = {
            "Title": contents.title,
            "Creator": None,
            "Producer": None,
            "CreationDate": None,
        }
        figure.savefig(buffer, format="pdf", metadata=metadata)
    return buffer.getvalue()


def _fit(contents: Contents) -> _Block:
    """The page in the largest type that it holds; the last cut has so few lines that they always fit."""
    for rows, lines in _CUTS:
        for scale in _SCALES:
            page = _lay_out(contents, _Type(scale, rows, lines))
            if page.height <= _HEIGHT - _MARGIN - _FOOT:
                return page
    return page


def _lay_out(contents: Contents, kind: _Type) -> _Block:
    width = _WIDTH - 2 * _MARGIN
    title = replace(kind, lines=min(kind.lines, 3)).paragraph(contents.title, 19, width, bold=True)
    return _stacked(
        [
            kind.paragraph("Certificate of an audit", 9, width, colour=_QUIET),
            title,
            kind.gap(8),
            _ruled(),
            kind.gap(8),
            _sentence(kind, contents.audit, width),
            kind.gap(14),
            *_headed(kind, "Verdict", [*_verdict(kind, contents.verdict, width)]),
            kind.gap(6),
            *_sides(kind, contents, width),
            *_headed(kind, "How it was made", [_facts(kind, making(contents.manifest), width)]),
        ]
    )


def _sentence(kind: _Type, audit: Audit, width: float) -> _Block:
    """The guarantee; where it would be cut, with the first columns and how many there are, so that it stays whole."""
    keys = audit.keys
    few = replace(audit, keys=(*keys[:_NAMED], f"{len(keys) - _NAMED:,} more columns"))
    whole = replace(kind, lines=kind.lines + 1).paragraph(guarantee(audit), 12.5, width)
    if len(whole.pieces) <= kind.lines or len(keys) <= _NAMED + 1:
        return kind.paragraph(guarantee(audit), 12.5, width)
    return kind.paragraph(guarantee(few), 12.5, width)


def _headed(kind: _Type, heading: str, blocks: Sequence[_Block]) -> Iterator[_Block]:
    if any(block.pieces for block in blocks):
        yield kind.paragraph(heading, 11, _WIDTH, bold=True)
        yield _ruled()
        yield kind.gap(4)
        yield from blocks
        yield kind.gap(6)


def _verdict(kind: _Type, verdict: Verdict, width: float) -> Iterator[_Block]:
    """The sentence, and a row a requirement: those missed first where not all can be shown."""
    rows = verdict.rows
    yield kind.paragraph(verdict.sentence, 10, width, bold=True)
    yield kind.gap(3)
    shown = sorted(rows, key=lambda item: item.met)[: kind.rows] if len(rows) > kind.rows else rows
    shares = (0.04, 0.38, 0.22, 0.14, 0.22)
    if rows:
        yield _row(
            kind,
            ("", "Measure", "Required", "Found", "Verdict"),
            shares,
            width,
            size=8,
            colour=_QUIET,
        )
    for item in shown:
        cells = (item.sign, item.label, item.required, item.found, item.words)
        yield _row(kind, cells, shares, width, bold=not item.met)
    if len(shown) < len(rows):
        yield kind.paragraph(
            f"{len(rows) - len(shown)} more requirements. {_MORE}", 9, width, colour=_QUIET
        )
    if verdict.clean:
        yield kind.paragraph(verdict.clean, 9, width, colour=_QUIET)


def _sides(kind: _Type, contents: Contents, width: float) -> Iterator[_Block]:
    """Risk to the left, utility to the right."""
    half = (width - 20) / 2
    told = headlines(contents.audit)
    left, right = (
        _stacked([*_headed(kind, side, [_headline(kind, item, half) for item in items])])
        for side, items in told.items()
    )
    if left.pieces or right.pieces:
        yield _beside([left, right.moved(0, half + 20)])
        yield kind.gap(8)


def _headline(kind: _Type, item: Headline, width: float) -> _Block:
    return _row(kind, (item.amount, item.label), (0.36, 0.64), width, first_bold=True)


def _facts(kind: _Type, facts: Sequence[Fact], width: float) -> _Block:
    return _stacked(
        [_row(kind, (fact.label, fact.text), (0.3, 0.7), width, size=9) for fact in facts]
    )


def _row(
    kind: _Type,
    cells: Sequence[str],
    shares: Sequence[float],
    width: float,
    *,
    size: float = 9.5,
    bold: bool = False,
    first_bold: bool = False,
    colour: str = INK,
) -> _Block:
    """Cells beside one another, each wrapped in its share of the width."""
    left, blocks = 0.0, []
    for place, (cell, share) in enumerate(zip(cells, shares, strict=True)):
        heavy = bold or (first_bold and place == 0)
        blocks.append(
            kind.paragraph(cell, size, share * width - 6, bold=heavy, colour=colour).moved(0, left)
        )
        left += share * width
    return _stacked([_beside(blocks), kind.gap(2)])


def _signature() -> _Block:
    kind, width = _Type(1.0, 1, 3), _WIDTH - 2 * _MARGIN
    labels = _row(
        kind,
        ("Name and function", "Place and date", "Signature"),
        (0.36, 0.28, 0.36),
        width,
        size=8,
    )
    return _stacked(
        [
            kind.gap(34),
            _ruled(),
            labels,
            kind.gap(6),
            kind.paragraph(_CLAIM, 7.5, width, colour=_QUIET),
        ]
    )


def _ruled() -> _Block:
    return _Block((), 3.0, (0.0,))


def _stacked(blocks: Sequence[_Block]) -> _Block:
    tops = accumulate((block.height for block in blocks), initial=0.0)
    placed = [block.moved(top) for block, top in zip(blocks, tops, strict=False)]
    return replace(_beside(placed), height=sum(block.height for block in blocks))


def _beside(blocks: Sequence[_Block]) -> _Block:
    pieces = tuple(piece for block in blocks for piece in block.pieces)
    rules = tuple(top for block in blocks for top in block.rules)
    return _Block(pieces, max((block.height for block in blocks), default=0.0), rules)


def _set(figure: Figure, block: _Block) -> None:
    for top in dict.fromkeys(block.rules):
        height = 1 - top / _HEIGHT
        ends = [_MARGIN / _WIDTH, 1 - _MARGIN / _WIDTH]
        figure.add_artist(Line2D(ends, [height, height], color=EDGE, linewidth=0.6))
    for item in block.pieces:
        figure.text(
            item.left / _WIDTH,
            1 - item.top / _HEIGHT,
            item.text,
            fontsize=item.size,
            fontweight="bold" if item.bold else "normal",
            fontfamily=_FONT,
            color=item.colour,
            va="top",
        )


def _wrapped(text: str, size: float, width: float, *, bold: bool) -> Iterator[str]:
    """The text in lines; a word that is too long for one is broken."""
    line = ""
    for word in text.split():
        rest = word
        together = f"{line} {rest}".strip()
        if _wide(together, size, bold=bold) <= width:
            line = together
            continue
        if line:
            yield line
        while _wide(rest, size, bold=bold) > width and len(rest) > 1:
            fits = _count(rest, lambda part: _wide(part, size, bold=bold) <= width)
            yield rest[:fits]
            rest = rest[fits:]
        line = rest
    if line:
        yield line


def _fitted(text: str, size: float, width: float, *, bold: bool) -> str:
    """The text, or its beginning and an ellipsis."""
    if _wide(text, size, bold=bold) <= width:
        return text
    return f"{text[: _count(text, lambda part: _wide(f'{part}…', size, bold=bold) <= width)]}…"


def _count(text: str, fits: Callable[[str], bool]) -> int:
    """How many of the first characters fit, at least one; widths grow with the text."""
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(text[:middle]) else (low, middle - 1)
    return low


def _wide(text: str, size: float, *, bold: bool) -> float:
    """How wide the text is, in points: the sum of its characters, which kerning may only bring nearer together."""
    return size * sum(_advance(character, bold=bold) for character in text)


@cache
def _advance(character: str, *, bold: bool) -> float:
    """How far a character moves the pen, in its size: what it adds between two others."""
    font = FontProperties(family=_FONT, weight="bold" if bold else "normal", size=100)
    both, alone = (
        text_to_path.get_text_width_height_descent(t, font, ismath=False)
        for t in (f"|{character}|", "||")
    )
    return float(both[0] - alone[0]) / 100
