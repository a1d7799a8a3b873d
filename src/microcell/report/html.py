"""The report as one self-contained HTML page."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell.measures.registry import label
from microcell.measures.sections import arrange, definitions
from microcell.model import Audit
from microcell.report.contents import Contents, homogeneous
from microcell.report.figures import (
    draw_classes,
    draw_comparison,
    draw_correlations,
    draw_linkage,
    draw_projection,
    draw_quantiles,
)
from microcell.report.headlines import headlines
from microcell.report.wording import (
    amount,
    direction,
    facts,
    guarantee,
    imputed,
    is_fit,
    making,
    rerun,
    roles,
    sampled,
)

__all__ = ["compose"]


def compose(contents: Contents) -> str:
    """The audit as a page with figures inside it: no script, and nothing fetched from anywhere."""
    templates = Environment(
        loader=PackageLoader("microcell.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    audit, picture = contents.audit, contents.picture
    return templates.get_template("report.html").render(
        title=contents.title,
        public=contents.public,
        audit=audit,
        sentence=guarantee(audit),
        good=is_fit(audit),
        imputed=imputed(contents.manifest),
        facts=facts(audit),
        verdict=contents.verdict,
        headlines=headlines(audit),
        roles=roles(contents.manifest),
        groups=arrange(audit),
        homogeneous=homogeneous(audit),
        definitions=definitions(audit.measures.values()),
        making=making(contents.manifest),
        command=rerun(contents.manifest),
        cells=None if picture is None else b64encode(picture).decode("ascii"),
        amount=amount,
        direction=direction,
        label_of=label,
        sampled=sampled,
        **_figures(audit),
    )


def _figures(audit: Audit) -> Mapping[str, Any]:
    """The figures there are."""
    known, found = audit.linkage_by_known, audit.correlations
    sizes = audit.class_sizes
    drawn = (draw_quantiles(item, place) for place, item in enumerate(audit.quantiles))
    return {
        "classes": draw_classes(audit) if len(sizes) else None,
        "linkage": None
        if known is None or not len(known)
        else draw_linkage(known, int(sizes.min()) if len(sizes) else 0),
        "columns": [draw_comparison(item, place) for place, item in enumerate(audit.comparisons)],
        "quantiles": [picture for picture in drawn if picture is not None],
        "correlations": () if found is None else draw_correlations(found),
        "projection": None if audit.projection is None else draw_projection(audit.projection),
    }
