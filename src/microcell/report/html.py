"""The report as one self-contained HTML page."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell.measures.sections import arrange, definitions
from microcell.model.audit import Audit, CategoryShare
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
    coefficient_rows,
    group_rows,
    guarantee,
    is_publishable,
    key_facts,
    measure_rows,
)

__all__ = ["compose", "render_template"]

_MAX_CATEGORIES = 12

_NO_FIGURES: Mapping[str, Any] = {
    "classes": None,
    "linkage": None,
    "columns": (),
    "quantiles": (),
    "correlations": (),
    "projection": None,
}


def compose(contents: Contents) -> str:
    """Return the report as a page with embedded figures, without scripts or external files."""
    audit, manifest, picture = contents.audit, contents.manifest, contents.picture
    return render_template(
        "report.html",
        title=contents.title,
        public=contents.public,
        person=audit.person,
        notes=audit.notes,
        warning=audit.warning,
        sentence=guarantee(audit),
        tone=_tone(contents),
        findings=audit.findings,
        categories=_small_categories(audit),
        n_categories=len(audit.categories),
        analyses=[(item, coefficient_rows(item)) for item in audit.analyses],
        groups=group_rows(audit.groups),
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
        rows={row.name: row for row in measure_rows(audit.measures.values())},
        figures_available=figures.available(),
        **(figures.draw_audit(audit) if figures.available() else _NO_FIGURES),
    )


def _small_categories(audit: Audit) -> list[CategoryShare]:
    """Return the categories of which the smallest share is kept."""
    worst = sorted(audit.categories, key=lambda item: (item.share, -item.people))
    return worst[:_MAX_CATEGORIES]


def _tone(contents: Contents) -> str:
    """Return the style of the guarantee: green only if no danger stands beside it."""
    if not is_publishable(contents.audit):
        return "bad"
    return "caution" if contents.audit.dangers else "good"


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
