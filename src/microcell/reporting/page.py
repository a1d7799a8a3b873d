"""The report as one self-contained HTML page."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell.model import Audit
from microcell.reporting.accounts import making, roles
from microcell.reporting.figures import draw_classes, draw_comparison, draw_projection
from microcell.reporting.sentences import amount, direction, facts, guarantee, is_fit

__all__ = ["compose"]


def compose(audit: Audit, manifest: Mapping[str, Any] | None, title: str, picture: bytes | None = None) -> str:
    """The audit as a page with figures inside it: no script, and nothing fetched from anywhere."""
    templates = Environment(
        loader=PackageLoader("microcell.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("report.html").render(
        title=title,
        audit=audit,
        sentence=guarantee(audit),
        good=is_fit(audit),
        facts=facts(audit),
        roles=roles(manifest),
        measures=tuple(audit.measures.values()),
        amount=amount,
        direction=direction,
        making=making(manifest),
        classes=draw_classes(audit) if len(audit.class_sizes) else None,
        columns=[draw_comparison(item, place) for place, item in enumerate(audit.comparisons)],
        cells=None if picture is None else b64encode(picture).decode("ascii"),
        projection=None if audit.projection is None else draw_projection(audit.projection),
    )
