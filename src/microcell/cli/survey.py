"""``microcell survey``: surveys with uncertain participation, from cell size to release."""

import json as jsons
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell._atomic import AtomicFiles, check_target
from microcell._display import number_range, percent
from microcell.cli.console import Messages, print_data, print_facts
from microcell.cli.errors import GUARANTEE_FAILED, Command, CommandGroup, handle_errors
from microcell.cli.options import (
    CertificateFile,
    Force,
    Json,
    OrderKey,
    Quiet,
    ReportFile,
    SchemaFile,
    epilog,
    figure_format,
    parse_settings,
    split_names,
    with_read_options,
)

if TYPE_CHECKING:
    from microcell.surveys import Collection, SurveyDesign, SurveySize

__all__ = [
    "ANSWER_EXAMPLES",
    "CHECK_EXAMPLES",
    "COLLECT_EXAMPLES",
    "COMMANDS",
    "DESIGN_EXAMPLES",
    "FORM_EXAMPLES",
    "PAGE_EXAMPLES",
    "SIZE_EXAMPLES",
    "answer",
    "app",
    "check",
    "collect",
    "design",
    "form",
    "page",
    "size",
]

_K = Annotated[
    int,
    typer.Option(
        "-k", metavar="K", help="Minimum number of participants in a cell where anyone takes part."
    ),
]
_Failure = Annotated[
    float,
    typer.Option(metavar="P", help="Accepted probability that a cell has 1 to k-1 participants."),
]
_CellsFile = Annotated[
    Path,
    typer.Argument(
        metavar="CELLS", help="Cells file written by 'survey design'.", show_default=False
    ),
]
_Missing = Annotated[
    Literal["error", "drop", "impute"],
    typer.Option(help="How to handle candidates with a missing quasi-identifier."),
]


# ----------------------------------------------------------------------------------------- size

SIZE_EXAMPLES = (
    "microcell survey size -k 10 --participation 0.75 --failure 1e-5 --records 100000",
    "microcell survey size -k 10 --participation 0.75 --failure 1e-5 --figure sizes.svg",
)


@handle_errors
def size(
    *,
    k: _K,
    participation: Annotated[
        float, typer.Option(metavar="P", help="Probability that a candidate takes part.")
    ],
    failure: _Failure = 1e-5,
    records: Annotated[
        int | None,
        typer.Option(metavar="N", help="Total number of candidates.", show_default=False),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Plot the cell size by failure probability (.svg, .png or .pdf).",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show how many candidates a cell needs, before designing any cells."""
    if figure is not None:
        figure_format(figure, "--figure")
        check_target(figure)
    result = mc.surveys.size(k, participation, failure, records)
    if json:
        print_data(jsons.dumps(result.as_dict(), indent=2))
    else:
        print_facts(_size_facts(result))
    if figure is not None:
        with AtomicFiles() as atomic:
            atomic.path(figure).write_bytes(
                mc.plot.survey_size(result, format=figure_format(figure, "--figure"))
            )
        Messages(quiet).facts([("figure", str(figure))])


def _size_facts(result: "SurveySize") -> Iterator[tuple[str, str]]:
    cell = result.anonymity
    yield (
        "cell size",
        f"{cell.size:,} candidates per cell: either nobody or at least {cell.k:,} take part",
    )
    yield (
        "cell failure",
        f"{cell.cell_failure:.4g}: probability that 1 to {cell.k - 1} take part "
        f"(accepted: {cell.failure:.4g})",
    )
    yield "unprotected", f"{cell.unprotected:.4g} participants on average in a cell that fails"
    yield (
        "record failure",
        f"{cell.record_failure:.4g}: probability that a candidate takes part in a cell that fails",
    )
    yield (
        "participant failure",
        f"{cell.participant_failure:.4g}: the same for a candidate who takes part",
    )
    if not cell.steady:
        yield (
            "warning",
            "the limit is met only because hardly anybody takes part: a larger cell would miss it",
        )
    if result.cells is not None:
        noun = "cell" if result.cells == 1 else "cells"
        yield "table", f"{result.records:,} candidates form {result.cells:,} {noun} of this size"
        yield (
            "table failure",
            f"{result.table_failure:.4g}: probability that at least one cell fails",
        )


# --------------------------------------------------------------------------------------- design

DESIGN_EXAMPLES = (
    "microcell survey design people.csv -s schema.toml -k 5 --participation 0.75 --failure 1e-4 "
    "-o cells.json",
    "microcell survey design people.csv -s schema.toml -k 5 --trust none --max-boxes 12 "
    "-o boxes.json --report design.html",
)


@handle_errors
@with_read_options
def design(
    *,
    read_options: Mapping[str, Any],
    frame: Annotated[
        Path,
        typer.Argument(metavar="FRAME", help="Table of the candidates.", show_default=False),
    ],
    schema: SchemaFile,
    k: _K,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="CELLS.json", help="Cells file for the respondents."
        ),
    ],
    participation: Annotated[
        str,
        typer.Option(
            metavar="P|COLUMN",
            help="Probability that a candidate takes part, or the column that contains it.",
        ),
    ] = "0.75",
    failure: _Failure = 1e-5,
    trust: Annotated[
        Literal["local", "none"],
        typer.Option(
            help="Whom respondents trust: their own device, or nobody (they use a paper form)."
        ),
    ] = "local",
    cells: Annotated[
        Literal["power", "balls"] | None,
        typer.Option(help="Kind of cells with --trust local. Default: power.", show_default=False),
    ] = None,
    max_boxes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Maximum number of boxes on the form with --trust none.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", "-m", metavar="NAME", help="Partitioning method.")
    ] = "auto",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of the method; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 0,
    missing: _Missing = "error",
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a report on the design.", show_default=False),
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Design the cells of a survey, to be published before anyone answers."""
    messages = Messages(quiet)
    mc.surveys.SurveyDesign.check_outputs(
        output, report=report, sources=(frame, schema), overwrite=force
    )
    with messages.progress():
        result = mc.surveys.design(
            mc.read(frame, **read_options),
            schema,
            k,
            _parse_participation(participation),
            failure,
            trust=trust,
            method=method,
            cells=cells,
            max_boxes=max_boxes,
            seed=seed,
            missing=missing,
            **parse_settings(settings or []),
        )
        result.publish(output, report=report, overwrite=force)
    if json:
        print_data(result.manifest.to_json())
    messages.facts(_design_facts(result, output, report))


def _parse_participation(text: str) -> float | str:
    """Return a probability, or else the name of a column."""
    try:
        return float(text)
    except ValueError:
        return text


def _design_facts(
    result: "SurveyDesign", output: Path, report: Path | None
) -> Iterator[tuple[str, str]]:
    manifest = result.manifest
    cells = manifest.cells
    n_dropped = manifest.candidates.read - manifest.candidates.designed
    dropped = f"; {n_dropped:,} dropped for missing values" if n_dropped else ""
    sizes = number_range(cells.smallest, cells.largest)
    yield "cells", f"{cells.count:,} with {sizes} candidates each{dropped}"
    yield (
        "cell failure",
        f"at most {cells.failure.largest:.4g} (accepted: {manifest.failure:.4g})",
    )
    yield (
        "table failure",
        f"{manifest.table.table_failure:.4g}: probability that at least one cell fails",
    )
    ratio = manifest.certainty.ratio
    compared = "" if ratio is None else f"; if everyone took part, divided by {ratio:.3g}"
    yield "information loss", f"{percent(manifest.expected_information_loss)} expected{compared}"
    yield "cells file", str(output)
    yield "manifest", str(result.manifest_path(output))
    if report is not None:
        yield "report", str(report)


# ----------------------------------------------------------------------------- check and answer

CHECK_EXAMPLES = (
    "microcell survey check cells.json",
    "microcell survey check cells.json --frame people.csv",
)


@handle_errors
def check(
    *,
    cells: _CellsFile,
    frame: Annotated[
        Path | None,
        typer.Option(
            metavar="FRAME",
            help="Table of the candidates, to check the sizes of the cells.",
            show_default=False,
        ),
    ] = None,
    participation: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the frame with probabilities, to compare with the file.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        Literal["error", "drop", "impute"],
        typer.Option(help="How the design handled candidates with a missing quasi-identifier."),
    ] = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Verify that a cells file is unaltered and that every cell meets the failure limit."""
    messages = Messages(quiet)
    with messages.progress():
        result = mc.surveys.check(cells, frame, participation=participation, missing=missing)
    if json:
        print_data(jsons.dumps(result.as_dict(), indent=2))
    else:
        print_facts(("ok" if item.holds else "FAILED", item.message) for item in result.findings)
    messages.info(
        "All checks passed."
        if result.holds
        else "At least one check failed. Do not use these cells."
    )
    if not result.holds:
        raise typer.Exit(GUARANTEE_FAILED)


ANSWER_EXAMPLES = (
    "microcell survey answer cells.json --record me.json",
    "microcell survey answer cells.json --record me.json --json",
)


@handle_errors
def answer(
    *,
    cells: _CellsFile,
    record: Annotated[
        Path,
        typer.Option(metavar="ME.json", help="JSON file with your values by column name."),
    ],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find your cell and what it publishes. Your record stays on this device."""
    result = mc.surveys.answer(cells, record)
    if json:
        print_data(jsons.dumps(result.as_dict(), ensure_ascii=False))
    else:
        published = ((name, str(value)) for name, value in result.representative.items())
        print_facts([("cell", str(result.cell)), *published])
    messages = Messages(quiet)
    for name in result.unfamiliar:
        messages.info(
            f"The cells were not designed for your value of {name!r}: the nearest cell was chosen."
        )


# -------------------------------------------------------------------------------- page and form

PAGE_EXAMPLES = ('microcell survey page cells.json --title "Health 2030" -o page.html',)


@handle_errors
def page(
    *,
    cells: _CellsFile,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="HTML page.")],
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Find your cell",
    quiet: Quiet = False,
) -> None:
    """Create a web page that finds a respondent's cell without sending anything."""
    check_target(output, sources=(cells,))
    _write(output, mc.surveys.page(mc.load_cells(cells), title=title))
    Messages(quiet).facts([("page", str(output))])


FORM_EXAMPLES = (
    'microcell survey form cells.json --title "Health 2030" --ask "How are you?" -o form.html',
)


@handle_errors
def form(
    *,
    cells: Annotated[
        Path,
        typer.Argument(
            metavar="CELLS",
            help="Cells file written by 'survey design --trust none'.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="HTML file, to be printed."),
    ],
    title: Annotated[str, typer.Option(help="Title of the form.")] = "Survey",
    ask: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUESTION", help="Question with room for an answer on the slip; repeatable."
        ),
    ] = None,
    max_boxes: Annotated[
        int, typer.Option(metavar="N", help="Largest number of boxes allowed on the form.")
    ] = 60,
    quiet: Quiet = False,
) -> None:
    """Create a paper form on which respondents find their code by ticking boxes."""
    check_target(output, sources=(cells,))
    text = mc.surveys.form(mc.load_cells(cells), title=title, ask=ask or (), max_boxes=max_boxes)
    _write(output, text)
    Messages(quiet).facts([("form", str(output))])


def _write(output: Path, text: str) -> None:
    with AtomicFiles() as atomic:
        atomic.path(output).write_text(text, encoding="utf-8")


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
    cells: _CellsFile,
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
            help="Column that tells respondents apart, if they may answer several times: k counts "
            "them, not answers; not published.",
            show_default=False,
        ),
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...", help="Other columns not to publish.", show_default=False
        ),
    ] = None,
    report: ReportFile = None,
    certificate: CertificateFile = None,
    order_key: OrderKey = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn answers into a k-anonymous release."""
    messages = Messages(quiet)
    mc.api.check_outputs(
        output,
        report=report,
        certificate=certificate,
        sources=(cells, answers),
        overwrite=force,
    )
    names = [] if drop is None else split_names(drop)
    with messages.progress():
        table = mc.read(answers, **read_options)
        result = mc.surveys.collect(
            cells, table, below=below, id=id, person=person, drop=names, order_key=order_key
        )
        result = result.publish(output, report=report, certificate=certificate, overwrite=force)
    if json:
        print_data(result.manifest.updated(order_key=None).to_json())
    messages.facts(_collection_facts(result, output, report, certificate))


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
        f"{survey.cells_short:,} with too few",
    )
    yield (
        "answers per cell",
        f"at least {cells.smallest:,}, median {survey.median_size:g}, "
        f"in {cells.count:,} published cells",
    )
    for finding in result.audit.findings:
        yield finding.severity, f"{finding.sentence} {finding.advice}. [{finding.code}]"
    for note in result.audit.notes:
        yield "note", note
    yield "table", str(output)
    yield "manifest", str(mc.release.manifest_path(output))
    if report is not None:
        yield "report", str(report)
    if certificate is not None:
        yield "certificate", str(certificate)


COMMANDS: Mapping[Callable[..., None], Sequence[str]] = {
    size: SIZE_EXAMPLES,
    design: DESIGN_EXAMPLES,
    check: CHECK_EXAMPLES,
    answer: ANSWER_EXAMPLES,
    page: PAGE_EXAMPLES,
    form: FORM_EXAMPLES,
    collect: COLLECT_EXAMPLES,
}
"""Commands of the group with their examples, in the order of the help text."""

app = typer.Typer(
    name="survey",
    cls=CommandGroup,
    help="Surveys with uncertain participation: design, check, answer, collect.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

for _command, _examples in COMMANDS.items():
    app.command(cls=Command, epilog=epilog(_examples))(_command)
