"""The forms a report can take."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast

from microcell.errors import OptionError
from microcell.model import Audit
from microcell.report import html, json, text
from microcell.report.contents import Contents, gather

__all__ = ["FIGURE_FORMATS", "FORMATS", "certify", "check_figure_format", "render"]

FORMATS: Mapping[str, Callable[[Contents], str]] = {
    "text": text.compose,
    "json": json.compose,
    "html": html.compose,
}
"""The function that writes each format of a report."""

FIGURE_FORMATS = ("svg", "png", "pdf")


def check_figure_format(format: str) -> None:
    """Raise OptionError for a file format in which figures cannot be drawn."""
    if format not in FIGURE_FORMATS:
        raise OptionError(
            f"Unknown figure format {format!r}. Choose one of {', '.join(FIGURE_FORMATS)}.",
            code="option.unknown",
            option="format",
        )


def render(
    audit: Audit,
    format: str,
    *,
    manifest: Mapping[str, Any] | None = None,
    title: str = "Audit of a published table",
    picture: bytes | None = None,
    require: Mapping[str, float] | None = None,
    audience: str = "internal",
) -> str:
    """The report of an audit as "text", "json" or "html".

    Parameters
    ----------
    manifest
        How the release was made, if known; told in the report.
    title
        The heading of text and page.
    picture
        A figure of the cells (SVG), for the page; it shows original records, so that the public does not get it.
    require
        Limits by measure, as :meth:`Audit.require` takes them: the report says which are met.
    audience
        "internal", or "public" for a report that anyone may read: without figures of original values, notes, the
        seed and the digest of the original, and with two digits of what rests on original values.

    Raises
    ------
    OptionError
        A form or an audience that does not exist, or a limit of what was not measured.

    Examples
    --------
    >>> import numpy as np
    >>> audit = Audit(keys=("age",), rows_original=4, rows_released=4, measures={}, class_sizes=np.array([2, 2]))
    >>> print(render(audit, "text").splitlines()[0])
    Audit of a published table
    """
    if format not in FORMATS:
        raise OptionError(
            f"Unknown report format {format!r}. Choose one of {', '.join(FORMATS)}.",
            code="option.unknown",
            option="format",
        )
    contents = gather(
        audit, manifest=manifest, title=title, require=require, audience=audience, picture=picture
    )
    return FORMATS[format](contents)


def certify(
    audit: Audit,
    *,
    manifest: Mapping[str, Any] | None = None,
    title: str = "Audit of a published table",
    require: Mapping[str, float] | None = None,
) -> bytes:
    """A certificate of one page, to sign: the guarantee, the verdict, risk and utility, how it was made; a PDF.

    It may be public: it tells what :func:`render` tells the public. The same audit gives the same bytes.

    Parameters
    ----------
    manifest, title, require
        As :func:`render` takes them.

    Raises
    ------
    OptionError
        A limit of what was not measured.

    Examples
    --------
    >>> import numpy as np
    >>> audit = Audit(keys=("age",), rows_original=4, rows_released=4, measures={}, class_sizes=np.array([2, 2]))
    >>> certify(audit)[:5]
    b'%PDF-'
    """
    contents = gather(audit, manifest=manifest, title=title, require=require, audience="public")
    # Named and not imported, as above.
    figures = import_module("microcell.report.certificate")
    return cast("Callable[[Contents], bytes]", figures.draw_certificate)(contents)
