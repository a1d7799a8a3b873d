"""What all figures share: colours, the sheet, and the way out as SVG."""

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
    "Picture",
    "as_file",
    "as_svg",
    "legend",
    "sheet",
    "shortened",
    "style",
    "tick_some",
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
_LABEL = 18
MARKERS = "os^DvPX*<>"

_STYLE: Any = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "sans-serif",
    "font.size": 10,
    "hatch.linewidth": 0.6,
    # The same audit gives the same page, byte for byte.
    "svg.hashsalt": "microcell",
    # Text stays text: it can be read out, searched and printed sharply.
    "svg.fonttype": "none",
    # A dollar sign in a column's name is a dollar sign.
    "text.parse_math": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
_TAG = re.compile(r"<[^<>]+>")
_NAMED = re.compile(r'\bid="|url\(#|href="#')
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_METADATA: Any = {
    "svg": _NO_METADATA,
    "png": {"Software": None},
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}
"""What each form must leave out for the same figure to be the same file."""


@dataclass(frozen=True)
class Picture:
    """A figure as SVG, and the caption that says what is seen."""

    svg: str
    caption: str


@contextmanager
def style() -> Iterator[None]:
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # Browsers have fonts for scripts that matplotlib's own font lacks, so its measuring may miss a glyph.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def sheet(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def as_svg(figure: Figure, name: str) -> str:
    """The figure as an SVG element, its names made its own: several stand in one page."""
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    text = buffer.getvalue()
    element = text[text.index("<svg") :]
    return _TAG.sub(lambda tag: _NAMED.sub(rf"\g<0>{name}-", tag[0]), element)


def legend(axes: Axes) -> None:
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=9)


def tick_some(axes: Axes, labels: list[str], *, most: int) -> None:
    step = -(-len(labels) // most)
    axes.set_xticks(np.arange(len(labels))[::step], labels[::step])


def shortened(label: str, most: int = _LABEL) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def as_file(figure: Figure, form: str, **options: Any) -> bytes:
    """The figure as the contents of a file: "svg", "png" or "pdf"; the same figure gives the same bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, format=form, dpi=200, metadata=_METADATA[form], **options)
    return buffer.getvalue()
