"""``microcell example``: the bundled survey, to try the commands on."""

import json as jsons
from typing import TYPE_CHECKING, Any

import microcell as mc
from microcell.cli.console import Words, guarded, print_data, print_facts
from microcell.cli.options import Json, Quiet

if TYPE_CHECKING:
    from microcell.methods import Method
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from microcell import Schema
    from microcell.methods import Method
from pathlib import Path
from typing import Annotated

import typer

from microcell._atomic import Staging, check_target
from microcell.cli.options import Force
from microcell.errors import TableError

__all__ = [
    "COMPILE_EXAMPLES",
    "EXAMPLE_EXAMPLES",
    "METHODS_EXAMPLES",
    "compile",
    "example",
    "methods",
]

METHODS_EXAMPLES = ("microcell methods", "microcell methods --json")

_HEADINGS = (
    "method",
    "what it does",
    "cell sizes",
    "cost for n records",
    "dimensions",
    "options",
    "source",
)
"""What people call the facts, in their order."""


@guarded
def methods(json: Json = False, quiet: Quiet = False) -> None:
    """List the methods that make cells, with their facts and options."""
    facts = [_facts(method) for method in mc.methods.METHODS.values()]
    if json:
        print_data(jsons.dumps(facts, indent=2))
        return
    for item in facts:
        print_facts([*zip(_HEADINGS, _texts(item), strict=True), ("", "")])
    Words(quiet).say(
        "The default, --method auto, chooses among these by the table and by --effort."
    )


def _facts(method: "Method") -> dict[str, Any]:
    return {
        "name": method.name,
        "summary": method.summary,
        "sizes": method.sizes,
        "cost": method.cost,
        "dimensions": method.dimensions,
        "options": dict(method.options),
        "source": method.source,
    }


def _texts(facts: dict[str, Any]) -> list[str]:
    options = ", ".join(f"{name}={default}" for name, default in facts["options"].items())
    return [str(value) for value in (facts | {"options": options or "none"}).values()]


COMPILE_EXAMPLES = ("microcell compile",)


@guarded
def compile(json: Json = False, quiet: Quiet = False) -> None:  # named as the command is
    """Compile the kernels of every method, and of cells as functions, ahead, once on this machine."""
    words, started = Words(quiet), perf_counter()
    people = mc.sample_survey(60)
    with words.progress():
        for name, method in mc.methods.METHODS.items():
            mc.anonymize(people, _schema_for(method), k=3, method=name)
        mc.anonymize(people, mc.sample_schema(), k=3, method="mdav", refine=True, require={"k": 4})
        for kind in ("power", "balls"):
            release = mc.anonymize(people, mc.sample_schema(), k=3, method="mdav", cells=kind)
            if release.cells is not None:
                mc.assign(release.cells, people)
        mc.plot.draw_cells(
            people, mc.Schema(quasi=["age", "bmi"], rest="drop"), k=20, methods=["mdav", "pcl"]
        )
    seconds = round(perf_counter() - started, 1)
    if json:
        print_data(jsons.dumps({"methods": list(mc.methods.METHODS), "seconds": seconds}, indent=2))
    words.say(f"Kernels of {', '.join(mc.methods.METHODS)} are ready, after {seconds} s.")


def _schema_for(method: "Method") -> "Schema":
    """A schema with as many dimensions as the method takes."""
    return mc.Schema(quasi=["age"], rest="drop") if method.dimensions == "1" else mc.sample_schema()


EXAMPLE_EXAMPLES = ("microcell example", "microcell example -o trial")


@guarded
def example(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write.")
    ] = Path(),
    records: Annotated[int, typer.Option(min=1, help="How many people.")] = 2000,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a synthetic survey, people.csv, and its schema.toml, to try the commands on."""
    people, schema = output / "people.csv", output / "schema.toml"
    if not (output.is_dir() or output.exists()):
        output.mkdir(parents=True)
    for path in (people, schema):
        check_target(path)
        if path.exists() and not force:
            raise TableError(
                f"{path} is there already. Choose another folder with -o, or overwrite it with --force."
            )
    with Staging() as staging:
        mc.write(mc.read(mc.sample_survey(records)), staging.path(people))
        staging.path(schema).write_text(
            mc.schema.schema_to_toml(mc.sample_schema()), encoding="utf-8"
        )
    if json:
        print_data(jsons.dumps({"table": str(people), "schema": str(schema)}, indent=2))
    words = Words(quiet)
    words.list((("survey", str(people)), ("schema", str(schema))))
    words.say(f"Next: microcell anonymize {people} -s {schema} -k 5 -o {output / 'people_k5.csv'}")
