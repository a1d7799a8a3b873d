"""The certificate: one A4 page to sign, as a PDF."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import matplotlib as mpl
from fpdf import FPDF
from fpdf.enums import TableBordersLayout
from fpdf.fonts import FontFace, TTFFont

from microcell.model import Audit
from microcell.report.contents import Contents, Verdict, headlines
from microcell.report.provenance import column_roles, provenance
from microcell.report.wording import guarantee

__all__ = ["compose"]

_FONT = "DejaVu Sans"
"""Font of the certificate; it comes with matplotlib, so the page looks the same everywhere."""
_MARGIN = 54.0
_SIGNATURE_TOP = 740.0
"""Start of the signature area, in points from the top of the page."""
_GREY = (86, 96, 114)
_INK = (51, 51, 51)
_EPOCH = datetime(1980, 1, 1, tzinfo=UTC)

_LARGE_TYPE = (1.0, 0.94, 0.88, 0.82, 0.76, 0.7)
_NAMED_COLUMNS = 3
"""Number of columns named in the guarantee if not all of them fit."""
_CLAIM = (
    "Established by comparing the published table with the original. Results that depend on "
    "original values are rounded to two significant digits."
)


@dataclass(frozen=True)
class _Fit:
    """Type size, and limits on the amount of text."""

    scale: float
    rows: int
    characters: int

    def cut(self, text: str) -> str:
        """Shorten a text, with an ellipsis at the end."""
        words = " ".join(text.split())
        if len(words) <= self.characters:
            return words
        return f"{words[: self.characters - 1]}…"


_FITS = (
    *(_Fit(scale, rows=30, characters=1500) for scale in _LARGE_TYPE),
    *(_Fit(scale, rows=12, characters=300) for scale in (0.82, 0.7)),
    _Fit(0.7, rows=6, characters=150),
    _Fit(0.7, rows=3, characters=70),
)
"""Layouts to try in this order, until everything fits on the page."""


def compose(contents: Contents) -> bytes:
    """Return the certificate as a PDF.

    The type is made smaller, and then text is cut, until everything fits on the page.
    """
    for fit in _FITS:
        with closing(_Page(contents.title, _creation_date(contents.manifest), fit)) as page:
            _write(page, contents)
            if page.get_y() <= _SIGNATURE_TOP or fit is _FITS[-1]:
                page.add_signature()
                return bytes(page.output())
    raise AssertionError("the last fit is always used")


def _creation_date(manifest: Any) -> datetime:
    """Return the date in the manifest, so that the same release always gives the same bytes."""
    try:
        created = datetime.fromisoformat((manifest or {})["created"])
    except (KeyError, TypeError, ValueError):
        return _EPOCH
    return created if created.tzinfo is not None else created.replace(tzinfo=UTC)


def _write(page: "_Page", contents: Contents) -> None:
    fit = page.fit
    page.add_text("Audit certificate", 9, colour=_GREY)
    page.add_text(replace(fit, characters=min(fit.characters, 160)).cut(contents.title), 19, "B")
    page.add_rule()
    page.add_text(_guarantee(contents.audit, fit), 12.5)
    page.add_space(12)
    _write_findings(page, contents.audit)
    _write_verdict(page, contents.verdict)
    risk, utility = headlines(contents.audit).values()
    if risk or utility:
        page.add_heading("Risk and utility")
        pairs = zip_longest(
            ((item.value, item.label) for item in risk),
            ((item.value, item.label) for item in utility),
            fillvalue=("", ""),
        )
        page.add_table([(*left, *right) for left, right in pairs], (14, 36, 14, 36), bold=(0, 2))
    roles = column_roles(contents.manifest)
    if roles:
        page.add_heading("Columns and roles")
        page.add_table([(group.label, ", ".join(group.columns)) for group in roles], (30, 70))
    facts = provenance(contents.manifest)
    if facts:
        page.add_heading("How the release was created")
        page.add_table([(fact.label, fact.text) for fact in facts], (30, 70))


def _write_findings(page: "_Page", audit: Audit) -> None:
    page.add_heading("Findings")
    if not audit.findings:
        page.add_text("None.", 9)
        page.add_space(6)
        return
    most = page.fit.rows
    rows = [(item.severity.capitalize(), item.sentence) for item in audit.findings[:most]]
    page.add_table(rows, (14, 86), bold=(0,))
    n_others = len(audit.findings) - most
    if n_others > 0:
        page.add_text(f"{n_others} more findings are listed in the report.", 9, colour=_GREY)


def _write_verdict(page: "_Page", verdict: Verdict) -> None:
    page.add_heading("Verdict")
    page.add_text(verdict.sentence, 10, "B")
    rows, most = verdict.rows, page.fit.rows
    # Requirements that are not met come first if not all can be shown.
    shown = rows if len(rows) <= most else sorted(rows, key=lambda item: item.met)[:most]
    if shown:
        headings = ("", "Measure", "Required", "Value", "Result")
        cells = [(item.sign, item.label, item.required, item.value, item.outcome) for item in shown]
        page.add_table(cells, (5, 35, 18, 14, 28), headings=headings)
    if len(shown) < len(rows):
        n_others = len(rows) - len(shown)
        page.add_text(f"{n_others} more requirements are listed in the report.", 9, colour=_GREY)
    if verdict.basic_sentence:
        page.add_text(verdict.basic_sentence, 9, colour=_GREY)
    page.add_space(6)


def _guarantee(audit: Audit, fit: _Fit) -> str:
    """Return the guarantee; if too long, with the number of columns instead of all names."""
    sentence = guarantee(audit)
    n_others = len(audit.keys) - _NAMED_COLUMNS
    if len(sentence) <= fit.characters or n_others < 2:
        return fit.cut(sentence)
    keys = (*map(fit.cut, audit.keys[:_NAMED_COLUMNS]), f"{n_others:,} more columns")
    return guarantee(replace(audit, keys=keys))


class _Page(FPDF):
    """An A4 page with the few elements that the certificate needs."""

    def __init__(self, title: str, created: datetime, fit: _Fit) -> None:
        super().__init__(unit="pt", format="A4")
        self.fit = fit
        fonts = Path(mpl.get_data_path()) / "fonts" / "ttf"
        self.add_font(_FONT, "", fonts / "DejaVuSans.ttf")
        self.add_font(_FONT, "B", fonts / "DejaVuSans-Bold.ttf")
        self._typefaces = [font for font in self.fonts.values() if isinstance(font, TTFFont)]
        self._glyphs = set.intersection(*(set(font.cmap) for font in self._typefaces))
        self.set_creation_date(created)
        self.set_title(title)
        self.set_margin(_MARGIN)
        self.set_auto_page_break(auto=False)
        self.add_page()

    def close(self) -> None:
        """Close the font files."""
        for font in self._typefaces:
            font.close()

    def add_text(
        self, text: str, size: float, style: Any = "", colour: tuple[int, int, int] = _INK
    ) -> None:
        """Add a paragraph over the whole width."""
        size *= self.fit.scale
        self.set_font(_FONT, style, size)
        self.set_text_color(*colour)
        self.multi_cell(
            0, 1.32 * size, self._printable(text), align="L", new_x="LMARGIN", new_y="NEXT"
        )

    def _printable(self, text: str) -> str:
        """Replace characters that the font does not have by a box."""
        return "".join(character if ord(character) in self._glyphs else "□" for character in text)

    def add_heading(self, text: str) -> None:
        """Add a section heading."""
        self.add_text(text, 11, "B")
        self.add_rule()

    def add_rule(self) -> None:
        """Add a horizontal line."""
        self.set_draw_color(139, 149, 163)
        self.set_line_width(0.6)
        self.line(self.l_margin, self.get_y() + 2, self.w - self.r_margin, self.get_y() + 2)
        self.add_space(6)

    def add_space(self, points: float) -> None:
        """Add vertical space."""
        self.set_y(self.get_y() + points * self.fit.scale)

    def add_table(
        self,
        rows: Iterable[Sequence[str]],
        widths: tuple[int, ...],
        *,
        headings: Sequence[str] = (),
        bold: tuple[int, ...] = (),
    ) -> None:
        """Add rows with these relative column widths; text that does not fit is wrapped."""
        size = 9 * self.fit.scale
        self.set_font(_FONT, "", size)
        self.set_text_color(*_INK)
        with self.table(
            col_widths=widths,
            borders_layout=TableBordersLayout.NONE,
            first_row_as_headings=bool(headings),
            headings_style=FontFace(emphasis="", color=_GREY),
            line_height=1.32 * size,
            padding=(0, 4, 2, 0),
            text_align="LEFT",
        ) as table:
            for cells in (*([headings] if headings else []), *rows):
                row = table.row()
                for place, cell in enumerate(cells):
                    style = FontFace(emphasis="B") if place in bold else None
                    row.cell(self._printable(self.fit.cut(cell)), style=style)
        self.add_space(6)

    def add_signature(self) -> None:
        """Add the fields to sign at the bottom of the page."""
        self.fit = _Fit(1.0, rows=1, characters=300)
        self.set_y(_SIGNATURE_TOP + 30)
        self.add_rule()
        self.add_table([("Name and function", "Place and date", "Signature")], (36, 28, 36))
        self.add_text(_CLAIM, 7.5, colour=_GREY)
