"""The report of a survey design as one HTML page."""

from collections.abc import Iterator, Mapping
from typing import Any

from microcell._display import number_range
from microcell.model import Floats, Integers
from microcell.report import figures
from microcell.report.html import render_template

__all__ = ["render_design"]

_KINDS = {
    "power": "power cells, computed on the respondent's device",
    "balls": "ball cells, computed on the respondent's device",
    "lookup": "lookup cells, which contain the candidates' records",
    "boxes": "boxes, looked up by hand on a paper form",
}


def render_design(manifest: Mapping[str, Any], failures: Floats, sizes: Integers) -> str:
    """Return the report of a survey design as HTML without scripts, external files or frame values.

    ``failures`` and ``sizes`` are the failure probability and the number of candidates per cell.
    """
    return render_template(
        "design.html",
        sentence=_promise(manifest),
        facts=list(_facts(manifest)),
        table=list(_failures(manifest)),
        costs=list(_costs(manifest)),
        provenance=list(_provenance(manifest)),
        pictures=[
            figures.draw_failures(failures, manifest["failure"]),
            figures.draw_cell_sizes(sizes),
        ]
        if figures.available()
        else [],
        figures_available=figures.available(),
    )


def _promise(manifest: Mapping[str, Any]) -> str:
    cells = manifest["cells"]
    if manifest["failure_of"] == "participant":
        return (
            f"In each of the {cells['count']:,} cells, at least {manifest['k']:,} candidates take "
            "part if anybody does, except with probability "
            f"{cells['conditional_failure']['largest']:.4g} at most (accepted: "
            f"{manifest['failure']:.4g}). The same holds for every single participant."
        )
    return (
        f"In each of the {cells['count']:,} cells, either nobody or at least {manifest['k']:,} "
        f"candidates take part, except with probability {cells['failure']['largest']:.4g} at most "
        f"(accepted: {manifest['failure']:.4g})."
    )


def _facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    candidates, cells = manifest["candidates"], manifest["cells"]
    participation, expected = manifest["participation"], cells["expected_participants"]
    common = participation["common"]
    yield (
        "Candidates",
        f"{candidates['designed']:,} of {candidates['read']:,} in the sampling frame",
    )
    yield (
        "Participation",
        f"{100 * common:.4g} % for everyone"
        if common is not None
        else f"individual, {100 * participation['mean']:.4g} % on average",
    )
    yield (
        "Cells",
        f"{cells['count']:,} with {number_range(cells['smallest'], cells['largest'])} candidates",
    )
    yield (
        "Expected participants",
        f"{expected['mean']:.4g} per cell on average, at least {expected['least']:.4g}",
    )
    yield "Kind of cells", _KINDS[manifest["kind"]]


def _failures(manifest: Mapping[str, Any]) -> Iterator[tuple[str, float, str]]:
    table, cells = manifest["table"], manifest["cells"]["failure"]
    yield (
        "Cell failure, worst",
        cells["largest"],
        "Probability that between 1 and k - 1 candidates take part in the worst cell.",
    )
    yield "Cell failure, median", cells["median"], "The same for the median cell."
    given = manifest["cells"]["conditional_failure"]
    if given is not None:
        yield (
            "Failure if somebody takes part, worst",
            given["largest"],
            "The same given that somebody takes part, for the most exposed participant.",
        )
    yield "Table failure", table["table_failure"], "Probability that at least one cell fails."
    yield (
        "Unprotected participants",
        table["unprotected"],
        "Expected number of participants in cells that fail.",
    )
    yield (
        "Record failure",
        table["record_failure"],
        "Probability that a candidate takes part and their cell fails, on average.",
    )
    yield (
        "Participant failure",
        table["participant_failure"],
        "Probability that a participant's cell fails, on average.",
    )


def _costs(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    certainty = manifest["certainty"]
    yield "Expected information loss", f"{100 * manifest['expected_information_loss']:.4g} %"
    if certainty["ratio"] is None:
        return
    yield (
        "If everyone took part",
        f"{100 * certainty['information_loss']:.4g} %, with the same k = {manifest['k']}",
    )
    yield "Cost of uncertain participation", f"information loss times {certainty['ratio']:.3g}"
    if certainty["candidates"] < manifest["candidates"]["designed"]:
        yield "Compared on", f"{certainty['candidates']:,} neighbouring candidates"


def _provenance(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Quasi-identifiers", ", ".join(manifest["columns"])
    yield "Method", str(manifest["method"]["requested"])
    yield "Random seed", str(manifest["seed"])
    yield "Missing values", str(manifest["missing"])
    yield "Created", f"{manifest['created']}, microcell {manifest['microcell']}"
    yield "SHA-256 of the sampling frame", str(manifest["frame"]["sha256"])
    yield "SHA-256 of the cells", str(manifest["cells_sha256"])
