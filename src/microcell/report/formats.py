"""The formats of a report, and the certificate."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast

from microcell._extras import is_installed, missing_extra
from microcell.errors import OptionError
from microcell.model import Audit
from microcell.report import figures, json, text
from microcell.report.contents import Contents, gather

__all__ = [
    "FIGURE_FORMATS",
    "FORMATS",
    "certify",
    "check_certificate",
    "check_figure_format",
    "render",
]


def _compose_html(contents: Contents) -> str:
    # Loaded on demand: importing the template library would slow down every start.
    html = import_module("microcell.report.html")
    return cast("Callable[[Contents], str]", html.compose)(contents)


FORMATS: Mapping[str, Callable[[Contents], str]] = {
    "text": text.compose,
    "json": json.compose,
    "html": _compose_html,
}
"""The function that writes each format of a report."""

FIGURE_FORMATS = ("svg", "png", "pdf")


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
    """Return the report of an audit.

    Parameters
    ----------
    audit
        The audit to report on.
    format : {"text", "json", "html"}
        Format of the report. The HTML page has no figures if matplotlib is not installed.
    manifest
        The manifest of the release, if there is one; the report then says how it was created.
    title
        Heading of the text or page.
    picture
        An SVG figure of the cells for the HTML page, see :func:`microcell.plot.release`. It shows
        original records, so public reports leave it out.
    require
        Limits by measure, as in :meth:`Audit.require`; the report says which of them are met.
    audience : {"internal", "public"}
        A public report has no figures of original values, notes, random seed or digest of the
        original, and rounds results that depend on original values to two significant digits.

    Raises
    ------
    OptionError
        An unknown format or audience, or a limit on a measure that the audit does not have.

    Examples
    --------
    >>> import numpy as np
    >>> audit = Audit(("age",), rows_original=4, rows_released=4, measures={},
    ...               class_sizes=np.array([2, 2]))
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
    """Return a one-page PDF certificate to sign: guarantee, verdict, risk, utility, provenance.

    It contains only what a public report contains. The same audit gives the same bytes.

    Parameters
    ----------
    audit, manifest, title, require
        As in :func:`render`.

    Raises
    ------
    OptionError
        A limit on a measure that the audit does not have, or the extra ``report`` is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> audit = Audit(("age",), rows_original=4, rows_released=4, measures={},
    ...               class_sizes=np.array([2, 2]))
    >>> certify(audit)[:5]
    b'%PDF-'
    """
    check_certificate()
    contents = gather(audit, manifest=manifest, title=title, require=require, audience="public")
    # Loaded on demand: importing the PDF library would slow down every start.
    certificate = import_module("microcell.report.certificate")
    return cast("Callable[[Contents], bytes]", certificate.compose)(contents)


def check_certificate() -> None:
    """Raise OptionError if a package that certificates need is not installed."""
    for module, package in (("fpdf", "fpdf2"), ("matplotlib", "matplotlib")):
        if not is_installed(module):
            raise missing_extra("Certificates", package, extra="report")


def check_figure_format(format: str) -> None:
    """Raise OptionError if matplotlib is not installed or the file format is not supported."""
    if not figures.available():
        raise missing_extra("Figures", "matplotlib", extra="report")
    if format not in FIGURE_FORMATS:
        raise OptionError(
            f"Unknown figure format {format!r}. Choose one of {', '.join(FIGURE_FORMATS)}.",
            code="option.unknown",
            option="format",
        )
