"""A design on its way out: the file of cells, its manifest beside it, and a report."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from microcell._atomic import Staging, check_target
from microcell.cells import load_cells
from microcell.errors import TableError
from microcell.report.design import render_design
from microcell.surveys.designs import SurveyDesign
from microcell.surveys.respondents import check_survey

__all__ = ["check_survey_outputs", "design_path", "render_survey", "write_survey"]


def design_path(output: str | Path) -> Path:
    """Where the manifest of a design goes: beside the cells.

    Examples
    --------
    >>> design_path("cells.json").name
    'cells.design.json'
    """
    return Path(output).with_name(f"{Path(output).stem}.design.json")


def check_survey_outputs(
    output: str | Path, *, beside: Iterable[Path] = (), sources: Iterable[Path] = ()
) -> None:
    """Refuse, before any work, what :func:`write_survey` could not write, or what would overwrite a source."""
    outputs, sources = [Path(output), design_path(output), *beside], list(sources)
    if Path(output).suffix.lower() != ".json":
        raise TableError("Cells are written as JSON: give a name that ends in .json.")
    places = [path.resolve() for path in outputs]
    for path, place in zip(outputs, places, strict=True):
        check_target(path, sources=sources)
        if places.count(place) > 1:
            raise TableError(
                f"{path} would be written twice: cells, manifest and report must be different files."
            )


def write_survey(
    design: SurveyDesign,
    output: str | Path,
    *,
    beside: Mapping[Path, str] | None = None,
    confidential: bool = False,
) -> None:
    """Write the cells and the manifest, and what is to go ``beside`` them: all of it, whole, or none.

    The file is read back and checked before it takes its name. Lookup cells hold the candidates' records: they are
    refused unless ``confidential``, and then readable by their owner alone.
    """
    target, texts = Path(output), dict(beside or {})
    check_survey_outputs(
        target, beside=texts, sources=[] if design.source is None else [design.source]
    )
    with Staging() as staging:
        for path, text in texts.items():
            staging.path(path).write_text(text, encoding="utf-8")
        manifest = json.dumps(design.manifest, indent=2, ensure_ascii=False) + "\n"
        staging.path(design_path(target)).write_text(manifest, encoding="utf-8")
        temporary = staging.path(target)
        design.cells.save(temporary, confidential=confidential)
        check_survey(load_cells(temporary)).require()


def render_survey(design: SurveyDesign) -> str:
    """The report of a design as a page in HTML, which shows no value of the frame."""
    return render_design(design.manifest, design.figures.failures, design.cells.sizes)
