"""The report as one self-contained HTML page."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell.model import Finding
from microcell.model.audit import Audit, CategoryShare
from microcell.report import figures
from microcell.report.contents import Contents, arrange, definitions, headlines, homogeneous_classes
from microcell.report.provenance import (
    column_roles,
    imputation_note,
    provenance,
    rerun_command,
)
from microcell.report.wording import (
    coefficient_rows,
    false_categories,
    group_rows,
    guarantee,
    is_publishable,
    key_facts,
    left_out_rows,
    mask_rows,
    measure_rows,
)

__all__ = ["compose", "render_template"]

_MAX_CATEGORIES, _MAX_GROUPS = 5, 3
"""Numbers of categories and of groups on the first pages; the others are in the appendix."""

_MAX_FINDINGS, _MAX_COLUMNS = 6, 10
"""With more findings, notes and advice are folded; with more columns, their roles."""

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
    roles = column_roles(manifest)
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
        folded=_folded(audit.findings),
        many_findings=len(audit.findings) > _MAX_FINDINGS,
        categories=_worst_categories(audit),
        coarse=any(item.coarse for item in audit.categories),
        n_categories=_MAX_CATEGORIES,
        analyses=[(item, coefficient_rows(item)) for item in audit.analyses],
        groups=group_rows(audit.groups),
        small_groups=group_rows(audit.small_groups),
        false_categories=false_categories(audit),
        left_out=left_out_rows(audit),
        masks=mask_rows(audit),
        n_groups=_MAX_GROUPS,
        n_more_groups=len(audit.small_groups) - _MAX_GROUPS,
        imputation_note=imputation_note(manifest, audit),
        facts=key_facts(audit),
        verdict=contents.verdict,
        headlines=headlines(audit),
        roles=roles,
        many_columns=sum(len(group.columns) for group in roles) > _MAX_COLUMNS,
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


def _folded(findings: Sequence[Finding]) -> int:
    """Return how many of the last findings are folded: notes, if there are many findings."""
    n_notes = sum(item.severity == "note" for item in findings)
    return n_notes if len(findings) > _MAX_FINDINGS else 0


def _worst_categories(audit: Audit) -> list[CategoryShare]:
    """Return the categories, those with the smallest share of correctly published people first."""
    return sorted(audit.categories, key=lambda item: (item.true_share, item.share, -item.people))


def _tone(contents: Contents) -> str:
    """Return the style of the guarantee: green only if no danger was found."""
    if not is_publishable(contents.audit):
        return "bad"
    return "caution" if contents.audit.dangers else "good"


def render_template(name: str, **values: Any) -> str:
    """Render a template of this package; every name that it uses must be passed."""
    templates = Environment(
        loader=PackageLoader("microcell.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template(name).render(**values)
