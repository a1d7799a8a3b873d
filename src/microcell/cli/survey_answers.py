"""Commands about the answers to a survey: collect them, show the status, prepare a further wave."""

import json as jsons
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell._atomic import AtomicFiles, check_target
from microcell._display import percent
from microcell.cli.console import Messages, print_data, print_facts
from microcell.cli.errors import handle_errors
from microcell.cli.options import (
    CertificateFile,
    Force,
    Json,
    OrderKey,
    Quiet,
    ReportFile,
    SurveyCellsFile,
    split_names,
    with_read_options,
)
from microcell.errors import OptionError

if TYPE_CHECKING:
    from microcell.surveys import Collection, Rejected, SurveyStatus

__all__ = ["COMMANDS"]

# -------------------------------------------------------------------------------------- collect

COLLECT_EXAMPLES = (
    "microcell survey collect cells.json answers.csv -o release.csv",
    "microcell survey collect cells.json answers.csv -o release.csv --below merge --id token "
    "--report release.html",
)


@handle_errors
@with_read_options
def collect(
    *,
    read_options: Mapping[str, Any],
    cells: SurveyCellsFile,
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS",
            help="Table with a column 'cell', or with the columns of the representatives.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Release; the suffix determines the format."
        ),
    ],
    below: Annotated[
        Literal["suppress", "merge"],
        typer.Option(
            help="Cells with 1 to k-1 answers: suppress them, or merge them with the nearest."
        ),
    ] = "suppress",
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="NAME",
            help="Column that identifies respondents, to detect duplicates; not published.",
            show_default=False,
        ),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            "--person",
            metavar="NAME",
            help="Column that identifies respondents who may answer several times; k then counts "
            "respondents, not answers. Not published.",
            show_default=False,
        ),
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...", help="Other columns not to publish.", show_default=False
        ),
    ] = None,
    late: Annotated[
        bool,
        typer.Option(
            "--late",
            help="Release answers that came after the first release, as a further block in cells "
            "that were not used before.",
        ),
    ] = False,
    report: ReportFile = None,
    certificate: CertificateFile = None,
    rejected: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Leave out invalid answers instead of stopping, and list their rows and reasons "
            "in this file.",
            show_default=False,
        ),
    ] = None,
    earlier: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CELLS,ANSWERS",
            help="Cells file and answers of an earlier wave, with the same --id; repeatable. "
            "Answers are suppressed where all releases combined require it.",
            show_default=False,
        ),
    ] = None,
    order_key: OrderKey = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn answers into a k-anonymous release. Repeating the command reproduces it."""
    messages = Messages(quiet)
    mc.api.check_outputs(
        output,
        report=report,
        certificate=certificate,
        sources=(cells, answers),
        overwrite=force,
    )
    names = [] if drop is None else split_names(drop)
    if rejected is not None:
        check_target(rejected, sources=(cells, answers, output))
    with messages.progress():
        table = mc.read(answers, **read_options)
        result = mc.surveys.collect(
            cells,
            table,
            below=below,
            id=id,
            person=person,
            drop=names,
            late=late,
            invalid="refuse" if rejected is None else "reject",
            earlier=[_parse_wave(text, read_options) for text in earlier or ()],
            order_key=order_key,
        )
        result = result.publish(output, report=report, certificate=certificate, overwrite=force)
    if rejected is not None:
        _write_rejected(rejected, result.rejected)
        messages.facts([("rejected", f"{len(result.rejected):,}, listed in {rejected}")])
    if json:
        print_data(result.manifest.without_secrets().to_json())
    messages.facts(_collection_facts(result, output, report, certificate))


def _parse_wave(text: str, read_options: Mapping[str, Any]) -> tuple[str, Any]:
    cells, comma, answers = text.partition(",")
    if not comma:
        raise OptionError(
            "--earlier must be a cells file and a file of answers, separated by a comma.",
            code="option.invalid",
            option="--earlier",
        )
    return cells, mc.read(answers, **read_options)


def _write_rejected(path: Path, rejected: "Sequence[Rejected]") -> None:
    rows = {
        "row": [each.row for each in rejected],
        "reason": [each.reason for each in rejected],
        "column": [each.column or "" for each in rejected],
        "code": [each.code for each in rejected],
    }
    mc.write(mc.read(rows), path)


def _collection_facts(
    result: "Collection", output: Path, report: Path | None, certificate: Path | None
) -> Iterator[tuple[str, str]]:
    manifest = result.manifest
    records, cells, survey = manifest.records, manifest.cells, manifest.survey
    assert survey is not None
    yield (
        "answers",
        f"{records.released:,} of {records.read:,} released, {records.dropped:,} suppressed",
    )
    yield (
        "cells",
        f"{survey.cells_designed:,} designed, {survey.cells_empty:,} without answers, "
        f"{survey.cells_short:,} with too few ({survey.expected_failures:.3g} expected)",
    )
    test = survey.participation
    if test is not None:
        verdict = "refuted" if test.refuted else "holds"
        yield (
            "participation",
            f"assumption {verdict}: {test.participants:,} took part, {test.expected:,.1f} expected "
            f"(p = {test.p_total:.2g}; {test.p_cells:.2g} for the cells)",
        )
    yield (
        "answers per cell",
        f"at least {cells.smallest:,}, median {survey.median_size:g}, "
        f"in {cells.count:,} published cells",
    )
    for finding in result.audit.findings:
        yield finding.severity, f"{finding.sentence} {finding.advice}. [{finding.code}]"
    for note in result.audit.notes:
        if note not in result.audit.public_notes:  # which the lines above say
            yield "note", note
    yield "table", str(output)
    yield "manifest", str(mc.release.manifest_path(output))
    if report is not None:
        yield "report", str(report)
    if certificate is not None:
        yield "certificate", str(certificate)


# ---------------------------------------------------------------------------- status and waves

STATUS_EXAMPLES = (
    "microcell survey status cells.json answers.csv --id token",
    "microcell survey status cells.json answers.csv --elapsed 0.5 --page status.html",
)


@handle_errors
@with_read_options
def status(
    *,
    read_options: Mapping[str, Any],
    cells: SurveyCellsFile,
    answers: Annotated[
        Path,
        typer.Argument(metavar="ANSWERS", help="Answers so far.", show_default=False),
    ],
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="NAME",
            help="Column that identifies respondents, to reject duplicates.",
            show_default=False,
        ),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            "--person",
            metavar="NAME",
            help="Column that identifies respondents who may answer several times.",
            show_default=False,
        ),
    ] = None,
    elapsed: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the collection that has passed, from 0 to 1. Default: estimated.",
            show_default=False,
        ),
    ] = None,
    closed: Annotated[
        bool, typer.Option("--closed", help="No more answers will come: test the model in full.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a page.", show_default=False),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show participants so far by cell, without any answer, and which cells to remind."""
    messages = Messages(quiet)
    if page is not None:
        check_target(page, sources=(cells, answers))
    with messages.progress():
        result = mc.surveys.status(
            cells,
            mc.read(answers, **read_options),
            id=id,
            person=person,
            elapsed=elapsed,
            closed=closed,
        )
    if json:
        print_data(jsons.dumps(result.as_dict(), indent=2))
    else:
        print_facts(_survey_status_facts(result))
    if page is not None:
        with AtomicFiles() as atomic:
            atomic.path(page).write_text(result.render(), encoding="utf-8")
        messages.facts([("page", str(page))])
    for each in result.rejected[:_MAX_REJECTED]:
        messages.info(f"Row {each.row} is rejected: {each.reason}")


_MAX_REJECTED = 20


def _survey_status_facts(result: "SurveyStatus") -> Iterator[tuple[str, str]]:
    if result.alarm is not None:
        yield "ALARM", result.alarm
    yield (
        "answers",
        f"{result.answers:,} of {result.expected:,.1f} expected, {len(result.rejected):,} rejected",
    )
    attained = sum(each.attained is not None for each in result.cells)
    yield "cells", f"{attained:,} of {len(result.cells):,} have at least k = {result.k} answers"
    listed = ", ".join(map(str, result.to_remind)) or "none"
    yield "to remind", listed
    yield (
        "participation",
        f"p = {result.test.p_total:.2g} for the total, {result.test.p_cells:.2g} for the cells",
    )
    yield "released", "yes" if result.released else "no"


NEXT_WAVE_EXAMPLES = ("microcell survey next-wave cells.json --participation 0.5 -o wave2.json",)


@handle_errors
def next_wave(
    *,
    cells: SurveyCellsFile,
    participation: Annotated[
        float, typer.Option(metavar="P", help="Probability that a candidate takes part again.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="CELLS.json", help="Cells of the next wave.")
    ],
    suppress: Annotated[
        bool,
        typer.Option(
            "--suppress",
            help="Accept that 'collect --earlier' suppresses answers that both releases together "
            "would expose.",
        ),
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Create the cells of a second wave that keep the guarantee over both releases together."""
    mc.surveys.SurveyDesign.check_outputs(output, sources=(cells,), overwrite=force)
    result = mc.surveys.next_wave(cells, participation, suppress=suppress)
    with AtomicFiles() as atomic:
        result.cells.save(atomic.path(output))
    Messages(quiet).facts(
        [
            ("failure over both waves", f"{result.joint_failure:.3g} at most"),
            ("expected to be suppressed", percent(result.suppressed)),
            ("cells file", str(output)),
        ]
    )


COMMANDS: Mapping[Callable[..., None], Sequence[str]] = {
    status: STATUS_EXAMPLES,
    collect: COLLECT_EXAMPLES,
    next_wave: NEXT_WAVE_EXAMPLES,
}
"""The commands with their examples, in the order of the help text."""
