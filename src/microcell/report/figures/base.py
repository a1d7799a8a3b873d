"""Shared by all figures: colours, style, and saving as SVG, PNG or PDF."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, StringIO
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = [
    "AFTER",
    "BEFORE",
    "CLASS_COLOURS",
    "EDGE",
    "INK",
    "MARKERS",
    "FigureFile",
    "Picture",
    "add_legend",
    "new_figure",
    "set_sparse_ticks",
    "style",
    "to_bytes",
    "to_svg",
    "truncate",
]

BEFORE = "#c9ced6"
AFTER = "#1f4e79"
INK = "#333333"
EDGE = "#8b95a3"
CLASS_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#a6559d",
    "#8a6d00",
    "#5b5b5b",
    "#56a0d3",
    "#b2182b",
)
MARKERS = "os^DvPX*<>"

_LABEL_LENGTH = 18
_STYLE: Any = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "sans-serif",
    "font.size": 10,
    "hatch.linewidth": 0.6,
    # Makes element ids, and so the whole page, reproducible byte for byte.
    "svg.hashsalt": "microcell",
    # Text stays text: it can be read aloud, searched and printed sharply.
    "svg.fonttype": "none",
    # A dollar sign in a column name is a dollar sign, not a formula.
    "text.parse_math": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
_TAG = re.compile(r"<[^<>]+>")
_ID_OR_REFERENCE = re.compile(r'\bid="|url\(#|href="#')
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_METADATA: Any = {
    "svg": _NO_METADATA,
    "png": {"Software": None},
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}
"""Metadata to leave out of each format, so that the same figure gives the same bytes."""


@dataclass(frozen=True)
class Picture:
    """A figure as an SVG element, with a caption that describes what it shows."""

    svg: str
    caption: str


class FigureFile(bytes):
    """Contents of an SVG, PNG or PDF file. Notebooks display SVG and PNG files as pictures."""

    def __repr__(self) -> str:
        # The bytes would fill the screen, and may contain original values.
        return f"<FigureFile {len(self):,} bytes>"

    def _repr_svg_(self) -> str | None:
        return self.decode() if self.startswith(b"<?xml") else None

    def _repr_png_(self) -> bytes | None:
        return bytes(self) if self.startswith(b"\x89PNG") else None


@contextmanager
def style() -> Iterator[None]:
    """Apply the common style to the figures drawn in the block."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # Browsers have fonts for scripts that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size, in inches."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def to_svg(figure: Figure, prefix: str) -> str:
    """Return the figure as an SVG element whose ids start with ``prefix``.

    Several figures share one HTML page, so their ids must differ.
    """
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    text = buffer.getvalue()
    element = text[text.index("<svg") :]
    return _TAG.sub(lambda tag: _ID_OR_REFERENCE.sub(rf"\g<0>{prefix}-", tag[0]), element)


def to_bytes(figure: Figure, format: str, **options: Any) -> FigureFile:
    """Return the contents of an SVG, PNG or PDF file; the same figure gives the same bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, format=format, dpi=200, metadata=_METADATA[format], **options)
    return FigureFile(buffer.getvalue())


def add_legend(axes: Axes) -> None:
    """Add a legend in one row above the axes."""
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=9)


def set_sparse_ticks(axes: Axes, labels: list[str], *, most: int) -> None:
    """Label every n-th position of the x axis, so that at most ``most`` labels are shown."""
    step = -(-len(labels) // most)
    axes.set_xticks(np.arange(len(labels))[::step], labels[::step])


def truncate(label: str, most: int = _LABEL_LENGTH) -> str:
    """Cut a label to ``most`` characters, with an ellipsis at the end."""
    return label if len(label) <= most else f"{label[: most - 1]}…"
