"""``microcell survey``: surveys whose participation is uncertain, from the size of a cell to the release."""

from collections.abc import Callable, Mapping, Sequence

import typer

from microcell.cli._options import epilog
from microcell.cli.survey.answer import EXAMPLES as ANSWER
from microcell.cli.survey.answer import answer
from microcell.cli.survey.check import EXAMPLES as CHECK
from microcell.cli.survey.check import check
from microcell.cli.survey.collect import EXAMPLES as COLLECT
from microcell.cli.survey.collect import collect
from microcell.cli.survey.design import EXAMPLES as DESIGN
from microcell.cli.survey.design import design
from microcell.cli.survey.form import EXAMPLES as FORM
from microcell.cli.survey.form import form
from microcell.cli.survey.page import EXAMPLES as PAGE
from microcell.cli.survey.page import page
from microcell.cli.survey.size import EXAMPLES as SIZE
from microcell.cli.survey.size import size

__all__ = ["COMMANDS", "app"]

COMMANDS: Mapping[Callable[..., None], Sequence[str]] = {
    size: SIZE,
    design: DESIGN,
    check: CHECK,
    answer: ANSWER,
    page: PAGE,
    form: FORM,
    collect: COLLECT,
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
