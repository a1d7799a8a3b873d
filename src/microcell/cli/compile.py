"""``microcell compile``: kernels compiled ahead, so that the first real run is quick."""

import json as jsons
from time import perf_counter
from typing import TYPE_CHECKING

import microcell as mc
from microcell.cli._console import Words, print_data
from microcell.cli._failures import guarded
from microcell.cli._options import Json, Quiet

if TYPE_CHECKING:
    from microcell import Method, Schema

__all__ = ["EXAMPLES", "compile"]

EXAMPLES = ("microcell compile",)


@guarded
def compile(json: Json = False, quiet: Quiet = False) -> None:  # named as the command is
    """Compile the kernels of every method, and of cells as functions, ahead, once on this machine."""
    words, started = Words(quiet), perf_counter()
    people = mc.sample_survey(60)
    with words.progress():
        for name, method in mc.METHODS.items():
            mc.anonymize(people, _schema_for(method), k=3, method=name)
        mc.anonymize(people, mc.sample_schema(), k=3, method="mdav", refine=True, require={"k": 4})
        for kind in ("power", "balls"):
            release = mc.anonymize(people, mc.sample_schema(), k=3, method="mdav", cells=kind)
            mc.assign(release.cells, people)
        mc.draw_cells(people, mc.Schema(quasi=["age", "bmi"], rest="drop"), k=20, methods=["mdav", "pcl"])
    seconds = round(perf_counter() - started, 1)
    if json:
        print_data(jsons.dumps({"methods": list(mc.METHODS), "seconds": seconds}, indent=2))
    words.say(f"Kernels of {', '.join(mc.METHODS)} are ready, after {seconds} s.")


def _schema_for(method: "Method") -> "Schema":
    """A schema with as many dimensions as the method takes."""
    return mc.Schema(quasi=["age"], rest="drop") if method.dimensions == "1" else mc.sample_schema()
