"""``microcell survey form``: the boxes of a survey as a form for paper."""

from pathlib import Path
from typing import Annotated

import typer

import microcell as mc
from microcell.cli._console import Words
from microcell.cli._failures import guarded
from microcell.cli._options import Quiet
from microcell.staging import Staging, check_target

__all__ = ["EXAMPLES", "form"]

EXAMPLES = ('microcell survey form cells.json --title "Health 2030" --ask "Are you well?" -o form.html',)


@guarded
def form(
    *,
    cells: Annotated[
        Path,
        typer.Argument(metavar="CELLS", help="A file that survey design --trust none wrote.", show_default=False),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The form, in HTML, to be printed.")],
    title: Annotated[str, typer.Option(help="What stands above it.")] = "Survey",
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="QUESTION", help="A question with room for the answer; give it again for more."),
    ] = None,
    most: Annotated[int, typer.Option(help="Refuse more boxes than this: they fit no two pages.")] = 60,
    quiet: Quiet = False,
) -> None:
    """Make a form for paper: ticks that lead to the code of a box, and a part to hand in with the code alone."""
    check_target(output, sources=(cells,))
    text = mc.survey_form(mc.load_cells(cells), title=title, ask=ask or (), most=most)
    with Staging() as staging:
        staging.path(output).write_text(text, encoding="utf-8")
    Words(quiet).list([("form", str(output))])
