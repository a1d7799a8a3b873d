"""The report as one self-contained HTML page."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell.measures.registry import label
from microcell.measures.sections import arrange, definitions
from microcell.model import Audit
from microcell.report import figures
from microcell.report.contents import Contents, homogeneous_classes
from microcell.report.headlines import headlines
from microcell.report.provenance import (
    column_roles,
    imputation_note,
    provenance,
    rerun_command,
)
from microcell.report.wording import (
    direction,
    format_interval,
    format_value,
    guarantee,
    is_publishable,
    key_facts,
)

__all__ = ["compose", "render_template"]


def compose(contents: Contents) -> str:
    """Return the report as a page with embedded figures, without scripts or external files."""
    audit, manifest, picture = contents.audit, contents.manifest, contents.picture
    return render_template(
        "report.html",
        title=contents.title,
        public=contents.public,
        notes=audit.notes,
        sentence=guarantee(audit),
        publishable=is_publishable(audit),
        imputation_note=imputation_note(manifest),
        facts=key_facts(audit),
        verdict=contents.verdict,
        headlines=headlines(audit),
        roles=column_roles(manifest),
        sections=arrange(audit),
        homogeneous_classes=homogeneous_classes(audit),
        definitions=definitions(audit.measures.values()),
        provenance=provenance(manifest),
        command=rerun_command(manifest),
        cells=None if picture is None else b64encode(picture).decode("ascii"),
        direction=direction,
        format_interval=format_interval,
        format_value=format_value,
        label=label,
        **_figures(audit),
    )


def render_template(name: str, **values: Any) -> str:
    """Fill in a template of this package; every name that it uses is required."""
    templates = Environment(
        loader=PackageLoader("microcell.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template(name).render(**values)


def _figures(audit: Audit) -> Mapping[str, Any]:
    """Draw the figures for which the audit has data."""
    sizes, shares = audit.class_sizes, audit.linkage_by_known
    quantiles = (figures.draw_quantiles(item, i) for i, item in enumerate(audit.quantiles))
    return {
        "classes": figures.draw_classes(audit) if len(sizes) else None,
        "linkage": None
        if shares is None or not len(shares)
        else figures.draw_linkage(shares, int(sizes.min()) if len(sizes) else 0),
        "columns": [figures.draw_column(item, i) for i, item in enumerate(audit.comparisons)],
        "quantiles": [picture for picture in quantiles if picture is not None],
        "correlations": ()
        if audit.correlations is None
        else figures.draw_correlations(audit.correlations),
        "projection": None
        if audit.projection is None
        else figures.draw_projection(audit.projection),
    }
