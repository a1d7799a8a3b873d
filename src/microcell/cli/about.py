"""``microcell methods``, ``microcell compile`` and ``microcell example``."""

import json as jsons
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

import microcell as mc
from microcell._atomic import Staging, check_target
from microcell.cli.console import Messages, print_data, print_facts
from microcell.cli.errors import handle_errors
from microcell.cli.options import Force, Json, Quiet
from microcell.errors import TableError

if TYPE_CHECKING:
    from microcell import Schema
    from microcell.methods import Method

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
    "description",
    "cell sizes",
    "cost for n records",
    "dimensions",
    "options",
    "source",
)


@handle_errors
def methods(json: Json = False, quiet: Quiet = False) -> None:
    """List the partitioning methods and their options."""
    facts = [_facts(method) for method in mc.methods.METHODS.values()]
    if json:
        print_data(jsons.dumps(facts, indent=2))
        return
    for item in facts:
        print_facts([*zip(_HEADINGS, _texts(item), strict=True), ("", "")])
    Messages(quiet).info(
        "The default, --method auto, chooses one of these by the size of the table and --effort."
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


@handle_errors
def compile(json: Json = False, quiet: Quiet = False) -> None:
    """Compile the kernels of all methods now, so that the first run on this machine is fast."""
    messages = Messages(quiet)
    start = perf_counter()
    people = mc.sample_survey(60)
    with messages.progress():
        for name, method in mc.methods.METHODS.items():
            mc.anonymize(people, _schema_for(method), k=3, method=name)
        mc.anonymize(people, mc.sample_schema(), k=3, method="mdav", refine=True, require={"k": 4})
        for kind in ("power", "balls"):
            release = mc.anonymize(people, mc.sample_schema(), k=3, method="mdav", cells=kind)
            if release.cells is not None:
                mc.assign(release.cells, people)
        mc.plot.cells(
            people, mc.Schema(quasi=["age", "bmi"], rest="drop"), k=20, methods=["mdav", "pcl"]
        )
    seconds = round(perf_counter() - start, 1)
    if json:
        print_data(jsons.dumps({"methods": list(mc.methods.METHODS), "seconds": seconds}, indent=2))
    messages.info(f"Compiled the kernels of {', '.join(mc.methods.METHODS)} in {seconds} s.")


def _schema_for(method: "Method") -> "Schema":
    if method.dimensions == "1":
        return mc.Schema(quasi=["age"], rest="drop")
    return mc.sample_schema()


EXAMPLE_EXAMPLES = ("microcell example", "microcell example -o trial")


@handle_errors
def example(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Output folder.")
    ] = Path(),
    records: Annotated[int, typer.Option(min=1, help="Number of people.")] = 2000,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a synthetic survey (people.csv) and its schema (schema.toml) to try the commands on."""
    people = output / "people.csv"
    schema = output / "schema.toml"
    if not output.exists():
        output.mkdir(parents=True)
    for path in (people, schema):
        check_target(path)
        if path.exists() and not force:
            raise TableError(
                f"{path} already exists. Choose another folder with -o, or overwrite the file "
                "with --force.",
                code="table.exists",
                path=str(path),
            )
    with Staging() as staging:
        mc.write(mc.read(mc.sample_survey(records)), staging.path(people))
        staging.path(schema).write_text(
            mc.schema.schema_to_toml(mc.sample_schema()), encoding="utf-8"
        )
    if json:
        print_data(jsons.dumps({"table": str(people), "schema": str(schema)}, indent=2))
    messages = Messages(quiet)
    messages.facts((("survey", str(people)), ("schema", str(schema))))
    messages.info(
        f"Next: microcell anonymize {people} -s {schema} -k 5 -o {output / 'people_k5.csv'}"
    )
