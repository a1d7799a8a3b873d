"""Reports on an audit: text, JSON, HTML, and a certificate to sign."""

from microcell.report.contents import AUDIENCES
from microcell.report.formats import (
    FIGURE_FORMATS,
    FORMATS,
    certify,
    check_certificate,
    check_figure_format,
    render,
)
from microcell.report.json import finding_entry
from microcell.report.risk import render_risk
from microcell.report.wording import guarantee

__all__ = [
    "AUDIENCES",
    "FIGURE_FORMATS",
    "FORMATS",
    "certify",
    "check_certificate",
    "check_figure_format",
    "finding_entry",
    "guarantee",
    "render",
    "render_risk",
]
