"""``microcell survey page``: a page that finds a respondent's cell in the browser."""

from pathlib import Path
from typing import Annotated

import typer

import microcell as mc
from microcell.cli._console import Words
from microcell.cli._failures import guarded
from microcell.cli._options import Quiet
from microcell.staging import Staging, check_target

__all__ = ["EXAMPLES", "page"]

EXAMPLES = ('microcell survey page cells.json --title "Health 2030" -o page.html',)


@guarded
def page(
    *,
    cells: Annotated[
        Path, typer.Argument(metavar="CELLS", help="A file that survey design wrote.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page, in HTML.")],
    title: Annotated[str, typer.Option(help="What stands above it.")] = "Find your cell",
    quiet: Quiet = False,
) -> None:
    """Make one page that finds a respondent's cell in the browser; what is entered never leaves the device."""
    check_target(output, sources=(cells,))
    text = mc.survey_page(mc.load_cells(cells), title=title)
    with Staging() as staging:
        staging.path(output).write_text(text, encoding="utf-8")
    Words(quiet).list([("page", str(output))])
