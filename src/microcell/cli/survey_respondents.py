"""Commands for respondents: check the cells, answer, and the page and form to answer on."""

import json as jsons
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import microcell as mc
from microcell._atomic import AtomicFiles, check_target
from microcell.cli.console import Messages, print_data, print_facts
from microcell.cli.errors import GUARANTEE_FAILED, handle_errors
from microcell.cli.options import (
    Force,
    Json,
    Quiet,
    SurveyCellsFile,
)

if TYPE_CHECKING:
    from microcell.surveys import Questionnaire

__all__ = ["COMMANDS"]

# ----------------------------------------------------------------------------- check and answer

CHECK_EXAMPLES = (
    "microcell survey check cells.json",
    "microcell survey check cells.json --frame people.csv",
)


@handle_errors
def check(
    *,
    cells: SurveyCellsFile,
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
    cells: SurveyCellsFile,
    record: Annotated[
        Path,
        typer.Option(metavar="ME.json", help="JSON file with your values by column name."),
    ],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find your cell and its published values. Your record stays on this device."""
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

PAGE_EXAMPLES = (
    'microcell survey page cells.json --title "Health 2030" -o page.html',
    "microcell survey page cells.json --questions questions.toml -o page.html",
)

_QuestionsFile = Annotated[
    Path | None,
    typer.Option(
        "--questions",
        metavar="FILE.toml",
        help="Questionnaire: questions, labels of columns, translated texts.",
        show_default=False,
    ),
]


@handle_errors
def page(
    *,
    cells: SurveyCellsFile,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="HTML page.")],
    title: Annotated[
        str | None, typer.Option(help="Title of the page.", show_default=False)
    ] = None,
    questions: _QuestionsFile = None,
    quiet: Quiet = False,
) -> None:
    """Create a web page that finds a respondent's cell and asks the survey's questions."""
    check_target(output, sources=(cells,))
    loaded = _load_questions(questions)
    _write(output, mc.surveys.page(mc.load_cells(cells), title=title, questionnaire=loaded))
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
    title: Annotated[
        str | None, typer.Option(help="Title of the form.", show_default=False)
    ] = None,
    questions: _QuestionsFile = None,
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
    text = mc.surveys.form(
        mc.load_cells(cells),
        title=title,
        ask=ask or (),
        questionnaire=_load_questions(questions),
        max_boxes=max_boxes,
    )
    _write(output, text)
    Messages(quiet).facts([("form", str(output))])


def _load_questions(path: Path | None) -> "Questionnaire | None":
    return None if path is None else mc.surveys.load_questionnaire(path)


TEXTS_EXAMPLES = ("microcell survey texts",)


@handle_errors
def texts() -> None:
    """List the built-in texts of the page and the form, as TOML to be translated."""
    quoted = (jsons.dumps(text, ensure_ascii=False) for text in mc.surveys.texts())
    print_data("\n".join(["[texts]", *(f"{text} = {text}" for text in quoted)]))


GATHER_EXAMPLES = ("microcell survey gather answer-*.json -o answers.csv",)


@handle_errors
def gather(
    *,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Answers that the page saved.", show_default=False),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Table of answers.")
    ],
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Combine the files that respondents saved into one table of answers."""
    mc.api.check_outputs(output, sources=tuple(files), overwrite=force)
    answers = mc.surveys.gather(sorted(files))
    mc.write(mc.read(answers), output)
    Messages(quiet).facts([("answers", f"{len(files):,}"), ("table", str(output))])


def _write(output: Path, text: str) -> None:
    with AtomicFiles() as atomic:
        atomic.path(output).write_text(text, encoding="utf-8")


COMMANDS: Mapping[Callable[..., None], Sequence[str]] = {
    check: CHECK_EXAMPLES,
    answer: ANSWER_EXAMPLES,
    page: PAGE_EXAMPLES,
    form: FORM_EXAMPLES,
    texts: TEXTS_EXAMPLES,
    gather: GATHER_EXAMPLES,
}
"""The commands with their examples, in the order of the help text."""
