"""``microcell survey``: surveys whose participation is uncertain, from the size of a cell to the release."""

import json as jsons
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import microcell as mc
from microcell._atomic import Staging, check_target
from microcell.cli.console import Messages, print_data, print_facts
from microcell.cli.errors import handle_errors
from microcell.cli.options import Json, Quiet, figure_format

if TYPE_CHECKING:
    from microcell.surveys.sizes import SurveySize
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from microcell.cli.options import SchemaFile, parse_settings, with_read_options

if TYPE_CHECKING:
    from microcell.surveys import SurveyDesign
from typing import TYPE_CHECKING

from microcell.cli.errors import GUARANTEE_FAILED
from microcell.cli.options import split_names

if TYPE_CHECKING:
    from microcell.surveys import Collection
from collections.abc import Callable, Sequence

from microcell.cli.options import epilog

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

SIZE_EXAMPLES = (
    "microcell survey size -k 10 --participation 0.75 --failure 1e-5 --records 100000",
    "microcell survey size -k 10 --participation 0.75 --failure 1e-5 --figure n_min.svg",
)


@handle_errors
def size(
    *,
    k: Annotated[
        int,
        typer.Option("-k", metavar="K", help="Participants among whom each one is to be hidden."),
    ],
    participation: Annotated[
        float, typer.Option(metavar="P", help="The probability that a candidate takes part.")
    ],
    failure: Annotated[
        float,
        typer.Option(
            metavar="P",
            help="The probability that is accepted for a cell of 1 to k-1 participants.",
        ),
    ] = 1e-5,
    records: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many candidates there are in all.", show_default=False),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the size against the failure: .svg, .png or .pdf.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tell how many candidates a cell needs, and what is left to chance, before any cell is made."""
    if figure is not None:
        figure_format(figure, "--figure")
        check_target(figure)
    found = mc.surveys.survey_size(k, participation, failure, records)
    if json:
        print_data(jsons.dumps(found.as_dict(), indent=2))
    else:
        print_facts(_size_facts(found))
    if figure is not None:
        with Staging() as staging:
            staging.path(figure).write_bytes(
                mc.plot.survey_size(found, format=figure_format(figure, "--figure"))
            )
        Messages(quiet).facts([("figure", str(figure))])


def _size_facts(found: "SurveySize") -> Iterator[tuple[str, str]]:
    each = found.anonymity
    yield (
        "size",
        f"{each.size:,} candidates a cell, so that {each.k:,} or more take part, or nobody",
    )
    yield (
        "cell failure",
        f"{each.cell_failure:.4g}: that 1 to {each.k - 1} take part; accepted were {each.failure:.4g}",
    )
    yield "unprotected", f"{each.unprotected:.4g} participants, on average, in a cell that fails"
    yield (
        "record failure",
        f"{each.record_failure:.4g}: that a candidate takes part and is in a cell that fails",
    )
    yield (
        "participant failure",
        f"{each.participant_failure:.4g}: the same for someone who does take part",
    )
    if not each.steady:
        yield (
            "mind",
            "the limit is met only because hardly anybody takes part: a larger cell would miss it",
        )
    if found.records is not None:
        yield "table", f"{found.records:,} candidates make {found.cells:,} cells of that size"
        yield "table failure", f"{found.table_failure:.4g}: the probability that any of them fails"


DESIGN_EXAMPLES = (
    "microcell survey design people.csv -s schema.toml -k 5 --participation 0.75 --failure 1e-4 -o cells.json",
    "microcell survey design people.csv -s schema.toml -k 5 --trust none --boxes 12 -o boxes.json --report design.html",
)


@handle_errors
@with_read_options
def design(
    *,
    read_options: Mapping[str, Any],
    frame: Annotated[
        Path, typer.Argument(metavar="FRAME", help="The candidates, a file.", show_default=False)
    ],
    schema: SchemaFile,
    k: Annotated[
        int,
        typer.Option("-k", metavar="K", help="Participants among whom each one is to be hidden."),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="CELLS.json", help="The cells, for the respondents."
        ),
    ],
    participation: Annotated[
        str,
        typer.Option(
            metavar="P|COLUMN",
            help="The probability that a candidate takes part, or the column that has it.",
        ),
    ] = "0.75",
    failure: Annotated[
        float,
        typer.Option(
            metavar="P",
            help="The probability that is accepted for a cell of 1 to k-1 participants.",
        ),
    ] = 1e-5,
    trust: Annotated[
        Literal["local", "none"],
        typer.Option(
            help="Whom respondents trust: their own device, or nobody, so that they tick boxes on paper."
        ),
    ] = "local",
    cells: Annotated[
        Literal["power", "balls"] | None,
        typer.Option(help="Of local trust, the kind of cells. Default: power.", show_default=False),
    ] = None,
    boxes: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Of no trust, the most boxes on the form.", show_default=False
        ),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", "-m", metavar="NAME", help="How cells are made.")
    ] = "auto",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of the method; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="For what chance decides.")] = 0,
    missing: Annotated[
        Literal["error", "drop", "impute"],
        typer.Option(help="What to do with candidates that lack a value."),
    ] = "error",
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a report of the design.", show_default=False),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Design the cells of a survey: published before anyone answers, they hide each participant among k."""
    messages = Messages(quiet)
    mc.surveys.check_survey_outputs(
        output, beside=[] if report is None else [report], sources=(frame, schema)
    )
    with messages.progress():
        made = mc.surveys.design_survey(
            mc.read(frame, **read_options),
            schema,
            k,
            _as_participation(participation),
            failure,
            trust=trust,
            method=method,
            cells=cells,
            boxes=boxes,
            seed=seed,
            missing=missing,
            **parse_settings(settings or []),
        )
        mc.surveys.write_survey(
            made, output, beside={} if report is None else {report: mc.surveys.render_survey(made)}
        )
    if json:
        print_data(jsons.dumps(made.manifest, indent=2, ensure_ascii=False))
    messages.facts(_design_facts(made, output, report))


def _as_participation(text: str) -> float | str:
    """A number if it is one, else the name of a column."""
    try:
        return float(text)
    except ValueError:
        return text


def _design_facts(
    made: "SurveyDesign", output: Path, report: Path | None
) -> Iterator[tuple[str, str]]:
    manifest = made.manifest
    cells, certainty = manifest["cells"], manifest["certainty"]
    designed, given = manifest["candidates"]["designed"], manifest["candidates"]["in"]
    left = "" if designed == given else f"; {given - designed:,} without a value were left out"
    yield (
        "cells",
        f"{cells['count']:,} of {cells['smallest']:,} to {cells['largest']:,} candidates{left}",
    )
    yield (
        "cell failure",
        f"{cells['failure']['largest']:.4g} at worst; accepted were {manifest['failure']:.4g}",
    )
    yield (
        "table failure",
        f"{manifest['table']['table_failure']:.4g}: the probability that any cell fails",
    )
    ratio = (
        ""
        if certainty["ratio"] is None
        else f", {certainty['ratio']:.3g} times that of certain participation"
    )
    yield "distortion", f"{manifest['distortion']:.4g} expected{ratio}"
    yield "cells", str(output)
    yield "manifest", str(mc.surveys.design_path(output))
    if report is not None:
        yield "report", str(report)


CHECK_EXAMPLES = (
    "microcell survey check cells.json",
    "microcell survey check cells.json --frame people.csv",
)


@handle_errors
def check(
    *,
    cells: Annotated[
        Path,
        typer.Argument(
            metavar="CELLS", help="A file that survey design wrote.", show_default=False
        ),
    ],
    frame: Annotated[
        Path | None,
        typer.Option(
            metavar="FRAME",
            help="The candidates: their numbers are counted again.",
            show_default=False,
        ),
    ] = None,
    participation: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The frame's column of probabilities to compare.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        Literal["error", "drop", "impute"],
        typer.Option(help="What the design did with candidates that lack a value."),
    ] = "error",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check the cells of a survey: that they are whole, and that what they promise follows from what they state."""
    with Messages(quiet).progress():
        found = mc.surveys.check_survey(cells, frame, participation=participation, missing=missing)
    if json:
        print_data(jsons.dumps(found.as_dict(), indent=2))
    else:
        print_facts((("good" if item.holds else "BAD"), item.words) for item in found.findings)
    verdict = (
        "All that was looked at holds."
        if found.holds
        else "These cells do not keep what they promise."
    )
    Messages(quiet).info(verdict)
    if not found.holds:
        raise typer.Exit(GUARANTEE_FAILED)


PAGE_EXAMPLES = ('microcell survey page cells.json --title "Health 2030" -o page.html',)


@handle_errors
def page(
    *,
    cells: Annotated[
        Path,
        typer.Argument(
            metavar="CELLS", help="A file that survey design wrote.", show_default=False
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page, in HTML.")
    ],
    title: Annotated[str, typer.Option(help="What stands above it.")] = "Find your cell",
    quiet: Quiet = False,
) -> None:
    """Make one page that finds a respondent's cell in the browser; what is entered never leaves the device."""
    check_target(output, sources=(cells,))
    text = mc.surveys.survey_page(mc.load_cells(cells), title=title)
    with Staging() as staging:
        staging.path(output).write_text(text, encoding="utf-8")
    Messages(quiet).facts([("page", str(output))])


FORM_EXAMPLES = (
    'microcell survey form cells.json --title "Health 2030" --ask "Are you well?" -o form.html',
)


@handle_errors
def form(
    *,
    cells: Annotated[
        Path,
        typer.Argument(
            metavar="CELLS",
            help="A file that survey design --trust none wrote.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The form, in HTML, to be printed."),
    ],
    title: Annotated[str, typer.Option(help="What stands above it.")] = "Survey",
    ask: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUESTION", help="A question with room for the answer; give it again for more."
        ),
    ] = None,
    most: Annotated[
        int, typer.Option(help="Refuse more boxes than this: they fit no two pages.")
    ] = 60,
    quiet: Quiet = False,
) -> None:
    """Make a form for paper: ticks that lead to the code of a box, and a part to hand in with the code alone."""
    check_target(output, sources=(cells,))
    text = mc.surveys.survey_form(mc.load_cells(cells), title=title, ask=ask or (), most=most)
    with Staging() as staging:
        staging.path(output).write_text(text, encoding="utf-8")
    Messages(quiet).facts([("form", str(output))])


ANSWER_EXAMPLES = (
    "microcell survey answer cells.json --record me.json",
    "microcell survey answer cells.json --record me.json --json",
)


@handle_errors
def answer(
    *,
    cells: Annotated[
        Path,
        typer.Argument(
            metavar="CELLS", help="A file that survey design wrote.", show_default=False
        ),
    ],
    record: Annotated[
        Path,
        typer.Option(metavar="ME.json", help="Your values by name of a column, an object in JSON."),
    ],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find your cell, and what it publishes in place of your values; your record stays on this device."""
    found = mc.surveys.answer_survey(cells, record)
    if json:
        print_data(jsons.dumps(found.as_dict(), ensure_ascii=False))
    else:
        print_facts(
            [
                ("cell", str(found.cell)),
                *((name, str(value)) for name, value in found.representative.items()),
            ]
        )
    messages = Messages(quiet)
    for name in found.strange:
        messages.info(
            f"The value of {name!r} is not one that the cells were made for: the nearest cell was taken."
        )


COLLECT_EXAMPLES = (
    "microcell survey collect cells.json answers.csv -o release.csv",
    "microcell survey collect cells.json answers.csv -o release.csv --below merge --id token --report release.html",
)


@handle_errors
@with_read_options
def collect(
    *,
    read_options: Mapping[str, Any],
    cells: Annotated[
        Path,
        typer.Argument(
            metavar="CELLS", help="A file that survey design wrote.", show_default=False
        ),
    ],
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS",
            help="A table with a column cell, or representatives.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write; the suffix tells the format."
        ),
    ],
    below: Annotated[
        Literal["suppress", "merge"],
        typer.Option(
            help="What to do with cells of 1 to k-1 answers: leave them out, or join them with the nearest."
        ),
    ] = "suppress",
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="NAME",
            help="A column to find duplicates by; left out.",
            show_default=False,
        ),
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...", help="Further columns to leave out.", show_default=False
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="Write a report of the release.", show_default=False
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Collect answers into a release in which each record shares its quasi-identifiers with k - 1 others or more."""
    messages = Messages(quiet)
    mc.api.check_outputs(
        output, beside=[] if report is None else [report], sources=(cells, answers)
    )
    with messages.progress():
        names = [] if drop is None else split_names(drop)
        found = mc.surveys.collect_survey(
            cells, mc.read(answers, **read_options), below=below, id=id, drop=names
        )
        found = mc.surveys.write_collection(
            found,
            output,
            beside={} if report is None else {report: mc.surveys.render_collection(found)},
        )
    if json:
        print_data(jsons.dumps(found.manifest, indent=2, ensure_ascii=False))
    messages.facts(_facts(found, output, report))


def _facts(found: "Collection", output: Path, report: Path | None) -> Iterator[tuple[str, str]]:
    answers, cells, attained = (found.manifest[name] for name in ("answers", "cells", "attained"))
    yield (
        "answers",
        f"{answers['out']:,} of {answers['in']:,} released, {answers['suppressed']:,} left out",
    )
    yield (
        "cells",
        f"{cells['designed']:,} designed, {cells['empty']:,} without answers, {cells['short']:,} with too few",
    )
    least, middle = attained["least"], attained["median"]
    yield (
        "k attained",
        f"{least:,} answers in the smallest of {cells['published']:,} published, {middle:g} in the middle",
    )
    for note in found.audit.notes:
        yield "note", note
    yield "table", str(output)
    yield "manifest", str(mc.release.manifest_path(output))
    if report is not None:
        yield "report", str(report)


COMMANDS: Mapping[Callable[..., None], Sequence[str]] = {
    size: SIZE_EXAMPLES,
    design: DESIGN_EXAMPLES,
    check: CHECK_EXAMPLES,
    answer: ANSWER_EXAMPLES,
    page: PAGE_EXAMPLES,
    form: FORM_EXAMPLES,
    collect: COLLECT_EXAMPLES,
}
"""The commands of the group, each with its examples, in the order that help shows."""

app = typer.Typer(
    name="survey",
    help="Surveys whose participation is uncertain: design, check, answer, collect.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

for _command, _examples in COMMANDS.items():
    app.command(epilog=epilog(_examples))(_command)
