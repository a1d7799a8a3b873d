"""``microcell survey``: surveys with uncertain participation. The group, and planning.

The commands for respondents are in ``survey_respondents.py``, those about their answers in
``survey_answers.py``.
"""

import json as jsons
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell._atomic import AtomicFiles, check_target
from microcell._display import number_range, percent
from microcell.cli import survey_answers, survey_respondents
from microcell.cli.console import Messages, print_data, print_facts, print_table
from microcell.cli.errors import Command, CommandGroup, handle_errors
from microcell.cli.options import (
    Force,
    Json,
    Quiet,
    SchemaFile,
    SurveyCellsFile,
    epilog,
    figure_format,
    parse_settings,
    split_names,
    with_read_options,
)
from microcell.errors import OptionError

if TYPE_CHECKING:
    from microcell.surveys import (
        Estimate,
        Outlook,
        Prospect,
        SurveyDesign,
        SurveySize,
        SweepPoint,
    )

__all__ = ["COMMANDS", "app"]

_K = Annotated[
    int,
    typer.Option(
        "-k", metavar="K", help="Minimum number of participants per cell that is not empty."
    ),
]
_Failure = Annotated[
    float,
    typer.Option(metavar="P", help="Accepted probability that a cell has 1 to k-1 participants."),
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
            "the limit is met only because participation is so low: a larger cell would not meet "
            "it",
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
            metavar="P|COLUMN|LOW:HIGH",
            help="Probability that a candidate takes part, or the column that contains it; two of "
            "them separated by a colon are an interval.",
        ),
    ] = "0.75",
    failure: _Failure = 1e-5,
    trust: Annotated[
        Literal["local", "none"],
        typer.Option(
            help="Whom respondents trust: their own device, or nobody (they use a paper form)."
        ),
    ] = "local",
    failure_of: Annotated[
        Literal["participant", "cell"] | None,
        typer.Option(
            help="What --failure limits: the probability given that somebody takes part (the "
            "default if participation is uneven), or that a cell fails at all.",
            show_default=False,
        ),
    ] = None,
    cells: Annotated[
        Literal["power", "balls"] | None,
        typer.Option(
            help="Kind of cells with --trust local. Default: power, or the better of both if "
            "participation is uneven.",
            show_default=False,
        ),
    ] = None,
    correlation: Annotated[
        float,
        typer.Option(
            metavar="R", help="Correlation between the decisions of the candidates of a cell."
        ),
    ] = 0.0,
    next_wave: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Participation in a second wave with the same cells, so that both releases "
            "together keep the guarantee.",
            show_default=False,
        ),
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
            failure_of=failure_of,
            correlation=correlation,
            next_wave=next_wave,
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


def _parse_participation(text: str) -> float | str | tuple[float | str, float | str]:
    """Return a probability, or else the name of a column, or a pair of them.

    Examples
    --------
    >>> _parse_participation("0.5"), _parse_participation("low:high")
    (0.5, ('low', 'high'))
    """
    low, colon, high = text.partition(":")
    return (_parse_end(low), _parse_end(high)) if colon else _parse_end(text)


def _parse_end(text: str) -> float | str:
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
        f"at most {cells.failure.largest:.4g} (accepted for a {manifest.failure_of}: "
        f"{manifest.failure:.4g})",
    )
    if cells.conditional_failure is not None:
        yield (
            "if somebody takes part",
            f"at most {cells.conditional_failure.largest:.4g}, for the most exposed participant",
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


# ---------------------------------------------------------------------------------------- sweep

SWEEP_EXAMPLES = (
    "microcell survey sweep people.csv -s schema.toml -k 5,10 --participation 0.5,0.75 "
    "--failure 1e-3,1e-5 --figure sweep.svg",
)


@handle_errors
@with_read_options
def sweep(
    *,
    read_options: Mapping[str, Any],
    frame: Annotated[
        Path,
        typer.Argument(metavar="FRAME", help="Table of the candidates.", show_default=False),
    ],
    schema: SchemaFile,
    k: Annotated[str, typer.Option("-k", metavar="K,K,...", help="Values of k.")] = "5,10,20",
    participation: Annotated[
        str, typer.Option(metavar="P,P,...", help="Probabilities that a candidate takes part.")
    ] = "0.5,0.75,0.9",
    failure: Annotated[
        str, typer.Option(metavar="P,P,...", help="Accepted failure probabilities.")
    ] = "1e-3,1e-5",
    failure_of: Annotated[
        Literal["participant", "cell"], typer.Option(help="What --failure limits.")
    ] = "cell",
    effort: Annotated[
        Literal["fast", "balanced"], typer.Option(help="Effort of the search.")
    ] = "balanced",
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 0,
    missing: _Missing = "error",
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Plot the results (.svg, .png or .pdf).", show_default=False
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the information loss over k, participation and failure, before any design."""
    messages = Messages(quiet)
    if figure is not None:
        figure_format(figure, "--figure")
        check_target(figure, sources=(frame, schema))
    with messages.progress():
        result = mc.surveys.sweep(
            mc.read(frame, **read_options),
            schema,
            k=[int(each) for each in _parse_numbers(k, "-k")],
            participation=_parse_numbers(participation, "--participation"),
            failure=_parse_numbers(failure, "--failure"),
            failure_of=failure_of,
            effort=effort,
            seed=seed,
            missing=missing,
        )
    if json:
        print_data(jsons.dumps(result.as_dict(), indent=2))
    else:
        print_table(_SWEEP_HEADINGS, map(_sweep_row, result.points))
    if figure is not None:
        with AtomicFiles() as atomic:
            atomic.path(figure).write_bytes(
                mc.plot.survey_sweep(result, format=figure_format(figure, "--figure"))
            )
        messages.facts([("figure", str(figure))])


_SWEEP_HEADINGS = (
    "k",
    "participation",
    "failure",
    "candidates per cell",
    "cells",
    "some cell fails",
    "information loss",
)


def _sweep_row(each: "SweepPoint") -> tuple[str, ...]:
    loss = each.information_loss
    return (
        str(each.k),
        percent(each.participation),
        f"{each.failure:g}",
        f"{each.size:,}",
        f"{each.cells:,}",
        "" if each.table_failure is None else f"{each.table_failure:.3g}",
        "too few candidates" if loss is None else percent(loss),
    )


# --------------------------------------------------------------------------- simulate and learn

SIMULATE_EXAMPLES = (
    "microcell survey simulate cells.json --rates 0.6,0.5",
    "microcell survey simulate cells.json --frame people.csv --rates 0.6,0.5 --correlation 0.2 "
    "--groups household,region --figure outlook.svg",
)


@handle_errors
@with_read_options
def simulate(
    *,
    read_options: Mapping[str, Any],
    cells: SurveyCellsFile,
    rates: Annotated[
        str | None,
        typer.Option(
            metavar="P,P,...",
            help="Lower participation rates to test, such as 0.6,0.5.",
            show_default=False,
        ),
    ] = None,
    correlation: Annotated[
        float | None,
        typer.Option(
            metavar="R",
            help="Correlation between the decisions of candidates of the same group; without "
            "--groups, of the same cell. Default with --groups: 0.1.",
            show_default=False,
        ),
    ] = None,
    frame: Annotated[
        Path | None,
        typer.Option(
            metavar="FRAME",
            help="Table of the candidates, for the information loss and the groups.",
            show_default=False,
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Columns of the frame whose values form groups, such as households or regions.",
            show_default=False,
        ),
    ] = None,
    participation: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the frame with probabilities, if participation is uneven.",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[int, typer.Option(metavar="N", help="Number of random trials.")] = 1000,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 0,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Plot failures and suppressed answers (.svg, .png or .pdf).",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict failures and the release, under the assumed and under worse participation."""
    messages = Messages(quiet)
    if figure is not None:
        figure_format(figure, "--figure")
        check_target(figure, sources=(cells,))
    with messages.progress():
        result = mc.surveys.simulate(
            cells,
            rates=_parse_numbers(rates, "--rates"),
            correlation=correlation,
            frame=None if frame is None else mc.read(frame, **read_options),
            groups=[] if groups is None else split_names(groups),
            participation=participation,
            trials=trials,
            seed=seed,
        )
    if json:
        print_data(jsons.dumps(result.as_dict(), indent=2))
    else:
        print_table(_OUTLOOK_HEADINGS, map(_outlook_row, result.prospects))
    if figure is not None:
        with AtomicFiles() as atomic:
            atomic.path(figure).write_bytes(
                mc.plot.survey_outlook(result, format=figure_format(figure, "--figure"))
            )
        messages.facts([("figure", str(figure))])
    messages.facts(_outlook_facts(result))


_OUTLOOK_HEADINGS = (
    "assumption",
    "some cell fails",
    "a participant's cell fails",
    "participants",
    "released",
    "information loss",
)


def _outlook_row(item: "Prospect") -> tuple[str, ...]:
    loss = item.information_loss
    return (
        item.name,
        _estimate(item.table_failure),
        _estimate(item.participant_failure),
        f"{item.participants.value:,.1f}",
        f"{item.released.value:,.1f} ({percent(1 - item.suppressed)})",
        "" if loss is None else percent(loss),
    )


def _estimate(estimate: "Estimate") -> str:
    if estimate.error == 0:
        return f"{estimate.value:.3g}"
    return f"{estimate.value:.3g} ± {1.96 * estimate.error:.2g}"


def _outlook_facts(result: "Outlook") -> Iterator[tuple[str, str]]:
    yield "accepted", f"{result.failure:.3g} for a {result.failure_of}, k = {result.k}"
    feared = max(result.prospects, key=lambda item: item.participant_failure.value)
    yield (
        "worst assumption",
        f"{feared.name}: {percent(feared.suppressed)} of the answers would be suppressed",
    )


def _parse_numbers(text: str | None, flag: str) -> list[float]:
    """Convert a list such as 0.6,0.5 to numbers."""
    try:
        return [] if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(
            f"{flag} must be a list of numbers such as 0.6,0.5.",
            code="option.invalid",
            option=flag,
        ) from None


LEARN_EXAMPLES = (
    "microcell survey learn past.csv people.csv -s schema.toml --outcome answered -o invited.csv",
)


@handle_errors
@with_read_options
def learn(
    *,
    read_options: Mapping[str, Any],
    past: Annotated[
        Path,
        typer.Argument(metavar="PAST", help="Table of earlier invitations.", show_default=False),
    ],
    frame: Annotated[
        Path, typer.Argument(metavar="FRAME", help="Table of the candidates.", show_default=False)
    ],
    schema: SchemaFile,
    outcome: Annotated[
        str,
        typer.Option(
            metavar="COLUMN", help="Column of PAST with 1 or true for those who took part."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="FRAME with the columns participation, participation_low, participation_high.",
        ),
    ],
    level: Annotated[
        float, typer.Option(metavar="P", help="Confidence level of the interval.")
    ] = 0.95,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 0,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn from earlier invitations how likely each candidate is to take part."""
    messages = Messages(quiet)
    mc.api.check_outputs(output, sources=(past, frame, schema), overwrite=force)
    with messages.progress():
        model = mc.surveys.learn_participation(
            mc.read(past, **read_options), schema, outcome, seed=seed
        )
        mc.write(model.add_to(mc.read(frame, **read_options), level=level), output)
    if json:
        print_data(jsons.dumps(model.as_dict(), indent=2))
    messages.facts(
        [
            ("invitations", f"{model.invitations:,}, of whom {model.participants:,} took part"),
            (
                "logarithmic loss",
                f"{model.loss:.4g} on other invitations; {model.base_loss:.4g} if everyone is "
                "given the same probability",
            ),
            ("table", str(output)),
        ]
    )


COMMANDS: Mapping[Callable[..., None], Sequence[str]] = {
    size: SIZE_EXAMPLES,
    sweep: SWEEP_EXAMPLES,
    learn: LEARN_EXAMPLES,
    design: DESIGN_EXAMPLES,
    simulate: SIMULATE_EXAMPLES,
    **survey_respondents.COMMANDS,
    **survey_answers.COMMANDS,
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
