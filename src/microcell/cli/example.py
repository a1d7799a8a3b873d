"""``microcell example``: the bundled survey, to try the commands on."""

import json as jsons
from pathlib import Path
from typing import Annotated

import typer

import microcell as mc
from microcell.cli._console import Words, print_data
from microcell.cli._failures import guarded
from microcell.cli._options import Force, Json, Quiet
from microcell.errors import TableError
from microcell.staging import Staging, check_target

__all__ = ["EXAMPLES", "example"]

EXAMPLES = ("microcell example", "microcell example -o trial")


@guarded
def example(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write.")] = Path(),
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
            raise TableError(f"{path} is there already. Choose another folder with -o, or overwrite it with --force.")
    with Staging() as staging:
        mc.write(mc.read(mc.sample_survey(records)), staging.path(people))
        staging.path(schema).write_text(mc.schema_to_toml(mc.sample_schema()), encoding="utf-8")
    if json:
        print_data(jsons.dumps({"table": str(people), "schema": str(schema)}, indent=2))
    words = Words(quiet)
    words.list((("survey", str(people)), ("schema", str(schema))))
    words.say(f"Next: microcell anonymize {people} -s {schema} -k 5 -o {output / 'people_k5.csv'}")
