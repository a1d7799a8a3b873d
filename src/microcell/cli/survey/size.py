"""``microcell survey size``: how many candidates a cell needs."""

import json as jsons
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import microcell as mc
from microcell.cli._console import Words, print_data, print_facts
from microcell.cli._failures import guarded
from microcell.cli._options import Json, Quiet, figure_form
from microcell.staging import Staging, check_target

if TYPE_CHECKING:
    from microcell.surveys.sizing import SurveySize

__all__ = ["EXAMPLES", "size"]

EXAMPLES = (
    "microcell survey size -k 10 --participation 0.75 --failure 1e-5 --records 100000",
    "microcell survey size -k 10 --participation 0.75 --failure 1e-5 --figure n_min.svg",
)


@guarded
def size(
    *,
    k: Annotated[int, typer.Option("-k", metavar="K", help="Participants among whom each one is to be hidden.")],
    participation: Annotated[float, typer.Option(metavar="P", help="The probability that a candidate takes part.")],
    failure: Annotated[
        float, typer.Option(metavar="P", help="The probability that is accepted for a cell of 1 to k-1 participants.")
    ] = 1e-5,
    records: Annotated[
        int | None, typer.Option(metavar="N", help="How many candidates there are in all.", show_default=False)
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the size against the failure: .svg, .png or .pdf.", show_default=False),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tell how many candidates a cell needs, and what is left to chance, before any cell is made."""
    if figure is not None:
        figure_form(figure, "--figure")
        check_target(figure)
    found = mc.survey_size(k, participation, failure, records)
    if json:
        print_data(jsons.dumps(found.as_dict(), indent=2))
    else:
        print_facts(_facts(found))
    if figure is not None:
        with Staging() as staging:
            staging.path(figure).write_bytes(mc.draw_size(found, figure_form(figure, "--figure")))
        Words(quiet).list([("figure", str(figure))])


def _facts(found: "SurveySize") -> Iterator[tuple[str, str]]:
    each = found.anonymity
    yield "size", f"{each.size:,} candidates a cell, so that {each.k:,} or more take part, or nobody"
    yield "cell failure", f"{each.cell_failure:.4g}: that 1 to {each.k - 1} take part; accepted were {each.failure:.4g}"
    yield "unprotected", f"{each.unprotected:.4g} participants, on average, in a cell that fails"
    yield "record failure", f"{each.record_failure:.4g}: that a candidate takes part and is in a cell that fails"
    yield "participant failure", f"{each.participant_failure:.4g}: the same for someone who does take part"
    if not each.steady:
        yield "mind", "the limit is met only because hardly anybody takes part: a larger cell would miss it"
    if found.records is not None:
        yield "table", f"{found.records:,} candidates make {found.cells:,} cells of that size"
        yield "table failure", f"{found.table_failure:.4g}: the probability that any of them fails"
