"""The figures and the report of a survey's design, made where they are asked for."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell.errors import OptionError
from microcell.model import Floats, Integers
from microcell.reporting.trials import FIGURE_FORMS

__all__ = ["DesignFacts", "SizeCurve", "compose_design", "draw_sizes"]

_KINDS = {
    "power": "power cells, found by the respondent's device",
    "balls": "ball cells, found by the respondent's device",
    "lookup": "lookup cells, which hold the candidates' records",
    "boxes": "boxes, found by hand on a printed form",
}


@dataclass(frozen=True)
class SizeCurve:
    """What is drawn: the size of a cell for each failure rate, and the pair that was asked for."""

    k: int
    participation: float
    rates: tuple[float, ...]
    sizes: tuple[int, ...]
    asked: tuple[float, int]


@dataclass(frozen=True, eq=False)
class DesignFacts:
    """What a report tells of: the manifest of a design, and the failure and the size of each cell."""

    manifest: Mapping[str, Any]
    failures: Floats
    sizes: Integers


def draw_sizes(curve: SizeCurve, form: str) -> bytes:
    """The contents of a file of that form: the size of a cell against the failure rate."""
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.reporting.figures.designs")
    return cast("Callable[[SizeCurve, str], bytes]", figures.draw_sizes)(curve, form)


def compose_design(facts: DesignFacts) -> str:
    """The report of a design as one page in HTML: no script, nothing fetched, and no value of the frame."""
    figures = import_module("microcell.reporting.figures.designs")
    templates = Environment(
        loader=PackageLoader("microcell.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("design.html").render(
        sentence=_promise(facts.manifest),
        facts=list(_facts(facts.manifest)),
        table=list(_table(facts.manifest)),
        costs=list(_costs(facts.manifest)),
        making=list(_making(facts.manifest)),
        pictures=[figures.draw_failures(facts), figures.draw_cell_sizes(facts)],
    )


def _promise(manifest: Mapping[str, Any]) -> str:
    k, cells = manifest["k"], manifest["cells"]
    return (
        f"In each of the {cells['count']:,} cells, {k:,} or more take part, or nobody, but for a probability of at "
        f"most {cells['failure']['largest']:.4g} (accepted: {manifest['failure']:.4g})."
    )


def _facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    cells, who = manifest["cells"], manifest["participation"]
    common = who["common"]
    yield "Candidates", f"{manifest['candidates']['designed']:,} of {manifest['candidates']['in']:,} in the frame"
    yield (
        "Participation",
        f"{100 * common:.4g} % for all"
        if common is not None
        else f"of each its own, {100 * who['mean']:.4g} % on average",
    )
    yield "Cells", f"{cells['count']:,} of {cells['smallest']:,} to {cells['largest']:,} candidates"
    expected = cells["expected_participants"]
    yield "Expected participants", f"{expected['mean']:.4g} a cell on average, {expected['least']:.4g} in the least"
    yield "Kind", _KINDS[manifest["kind"]]


def _table(manifest: Mapping[str, Any]) -> Iterator[tuple[str, float, str]]:
    table, cells = manifest["table"], manifest["cells"]["failure"]
    yield "Cell failure, worst", cells["largest"], "The probability that 1 to k-1 take part in the worst cell."
    yield "Cell failure, median", cells["median"], "The same for the cell in the middle."
    yield "Table failure", table["table_failure"], "The probability that any cell fails."
    yield "Unprotected", table["unprotected"], "Participants in a cell that fails, on average."
    yield "Record failure", table["record_failure"], "That a candidate takes part and the cell fails, on average."
    yield "Participant failure", table["participant_failure"], "The same for someone who does take part."


def _costs(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    certainty = manifest["certainty"]
    yield "Expected distortion", f"{manifest['distortion']:.4g}"
    if certainty["ratio"] is None:
        return
    yield "Were all sure to take part", f"{certainty['distortion']:.4g}, at the same k = {manifest['k']}"
    yield "What uncertainty costs", f"{certainty['ratio']:.3g} times the distortion"
    if certainty["candidates"] < manifest["candidates"]["designed"]:
        yield "Compared on", f"{certainty['candidates']:,} candidates who lie together"


def _making(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Quasi-identifiers", ", ".join(manifest["columns"])
    yield "Method", f"{manifest['method']}, seed {manifest['seed']}, missing values: {manifest['missing']}"
    yield "Made by", f"microcell {manifest['microcell']}, {manifest['created']}"
    yield "Frame, SHA-256", str(manifest["frame"]["sha256"])
    yield "Cells, SHA-256", str(manifest["cells_sha256"])
