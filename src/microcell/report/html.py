"""The report as one self-contained HTML page."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell.measures.registry import label
from microcell.measures.sections import arrange, definitions
from microcell.model import Audit
from microcell.report import figures
from microcell.report.contents import Contents, homogeneous
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

__all__ = ["compose", "render_template"]


def compose(contents: Contents) -> str:
    """The audit as a page with figures inside it: no script, and nothing fetched from anywhere."""
    audit, picture = contents.audit, contents.picture
    return render_template(
        "report.html",
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


def render_template(name: str, **values: Any) -> str:
    """Fill in a template of this package; a name that it uses and does not get is an error."""
    templates = Environment(
        loader=PackageLoader("microcell.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template(name).render(**values)


def _figures(audit: Audit) -> Mapping[str, Any]:
    """The figures there are."""
    known, found = audit.linkage_by_known, audit.correlations
    sizes = audit.class_sizes
    drawn = (figures.draw_quantiles(item, place) for place, item in enumerate(audit.quantiles))
    return {
        "classes": figures.draw_classes(audit) if len(sizes) else None,
        "linkage": None
        if known is None or not len(known)
        else figures.draw_linkage(known, int(sizes.min()) if len(sizes) else 0),
        "columns": [
            figures.draw_column(item, place) for place, item in enumerate(audit.comparisons)
        ],
        "quantiles": [picture for picture in drawn if picture is not None],
        "correlations": () if found is None else figures.draw_correlations(found),
        "projection": None
        if audit.projection is None
        else figures.draw_projection(audit.projection),
    }
