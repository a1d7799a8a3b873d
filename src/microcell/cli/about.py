"""``microcell methods``, ``microcell compile``, ``microcell example`` and ``microcell demo``."""

import json as jsons
import webbrowser
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import microcell as mc
from microcell import progress
from microcell._atomic import AtomicFiles, check_target
from microcell.cli.console import Messages, print_data, print_facts
from microcell.cli.errors import handle_errors
from microcell.cli.options import Force, Json, Quiet
from microcell.errors import TableError

if TYPE_CHECKING:
    from microcell import Release
    from microcell.methods import Method

__all__ = [
    "COMPILE_EXAMPLES",
    "DEMO_EXAMPLES",
    "EXAMPLE_EXAMPLES",
    "METHODS_EXAMPLES",
    "compile",
    "demo",
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
        "The default, --method auto, chooses one of these based on the size of the table and "
        "--effort."
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


COMPILE_EXAMPLES = ("microcell compile", "microcell compile --essential")


@handle_errors
def compile(
    essential: Annotated[
        bool,
        typer.Option(help="Compile only the kernels that anonymize and audit use by default."),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, show_default="all CPUs", help="Number of processes."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compile the kernels that the package does not include, so that the first run is fast."""
    _build = import_module("microcell.kernels._build")  # numba takes long to import
    messages = Messages(quiet)
    start = perf_counter()
    lines = _build.read_signatures(_build.ESSENTIAL if essential else None)
    missing = _build.not_shipped(lines)
    with messages.progress():
        progress.report(progress.COMPILING, 0, len(missing))
        for done, _ in enumerate(_build.compile_here(missing, jobs or _build.usable_cpus()), 1):
            progress.report(progress.COMPILING, done, len(missing))
    seconds = round(perf_counter() - start, 1)
    if json:
        facts = {"kernels": len(lines), "compiled": len(missing), "seconds": seconds}
        print_data(jsons.dumps(facts, indent=2))
    shipped = len(lines) - len(missing)
    messages.info(
        f"{len(lines)} kernels are ready: {shipped} came with the package, {len(missing)} are "
        f"cached on this machine. {seconds} s."
    )


EXAMPLE_EXAMPLES = (
    "microcell example",
    "microcell example -o trial",
    "microcell example --table visits -o hospital",
)


@handle_errors
def example(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Output folder.")
    ] = Path(),
    table: Annotated[
        Literal["survey", "visits"],
        typer.Option(
            help="survey: people.csv, one row per person; visits: visits.csv, hospital visits with "
            "several rows per patient."
        ),
    ] = "survey",
    records: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of people.", show_default="2000 for the survey, 1500 for visits"
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a synthetic table (people.csv) and its schema (schema.toml) to try the commands on."""
    path, schema = output / _SAMPLE_FILES[table], output / "schema.toml"
    _prepare_folder(output, (path, schema), force=force)
    _write_sample(path, schema, records, table)
    if json:
        print_data(jsons.dumps({"table": str(path), "schema": str(schema)}, indent=2))
    messages = Messages(quiet)
    messages.facts(((table, str(path)), ("schema", str(schema))))
    released = path.with_name(f"{path.stem}_k5.csv")
    messages.info(
        f"Next: microcell anonymize {path} -s {schema} -k 5 --require l_diversity=2 -o {released}"
    )


_SAMPLE_FILES = {"survey": "people.csv", "visits": "visits.csv"}


def _prepare_folder(folder: Path, paths: tuple[Path, ...], *, force: bool) -> None:
    """Create the folder, and refuse to overwrite files in it unless ``force`` is true."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        check_target(path)
        if path.exists() and not force:
            raise TableError(
                f"{path} already exists. Choose another folder with -o, or overwrite the file "
                "with --force.",
                code="table.exists",
                path=str(path),
            )


def _write_sample(
    path: Path, schema: Path, records: int | None, table: Literal["survey", "visits"] = "survey"
) -> None:
    generate = mc.sample_survey if table == "survey" else mc.sample_visits
    sample = generate() if records is None else generate(records)
    with AtomicFiles() as atomic:
        mc.write(mc.read(sample), atomic.path(path))
        atomic.path(schema).write_text(
            mc.schema.schema_to_toml(mc.sample_schema(table)), encoding="utf-8"
        )


DEMO_EXAMPLES = ("microcell demo", "microcell demo --open")

_DEMO_K = 5
_DEMO_REQUIREMENT = {"l_diversity": 2}
"""At least two values of each confidential column per class, so that no class reveals one."""


@handle_errors
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Output folder.")
    ] = Path("demo"),
    open_report: Annotated[
        bool, typer.Option("--open", help="Open the report in the browser.")
    ] = False,
    records: Annotated[int, typer.Option(min=1, help="Number of people.")] = 2000,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Anonymize a synthetic survey, write a report, and show the cost of protecting diagnoses."""
    messages = Messages(quiet)
    paths = {
        "original": output / "people.csv",
        "schema": output / "schema.toml",
        "published": output / f"people_k{_DEMO_K}.csv",
        "manifest": mc.release.manifest_path(output / f"people_k{_DEMO_K}.csv"),
        "report": output / f"people_k{_DEMO_K}.html",
    }
    _prepare_folder(output, tuple(paths.values()), force=force)
    with messages.progress():
        _write_sample(paths["original"], paths["schema"], records)
        people, schema = mc.read(paths["original"]), mc.load_schema(paths["schema"])
        only_k = mc.anonymize(people, schema, k=_DEMO_K)
        release = mc.anonymize(people, schema, k=_DEMO_K, require=_DEMO_REQUIREMENT)
        release = release.publish(paths["published"], report=paths["report"])
    facts = _compare_demo(release, only_k)
    if json:
        files = {label: str(path) for label, path in paths.items()}
        print_data(jsons.dumps({**facts, "files": files}, indent=2))
    messages.info(release.guarantee)
    messages.facts((*_demo_summary(facts), *((label, str(path)) for label, path in paths.items())))
    if open_report and not webbrowser.open(paths["report"].resolve().as_uri()):
        messages.info("No browser could be started. Open the report yourself.")


def _compare_demo(release: "Release", only_k: "Release") -> dict[str, Any]:
    """Describe the benefit and the cost of the requirement."""
    return {
        "records": release.manifest.records.released,
        "k": release.manifest.k,
        "require": dict(release.manifest.limits),
        "revealed": _revealed(release),
        "revealed_without_requirement": _revealed(only_k),
        "information_loss": release.manifest.information_loss,
        "information_loss_without_requirement": only_k.manifest.information_loss,
    }


def _revealed(release: "Release") -> int:
    """Return the number of people whose class has a single value in a confidential column."""
    return int(release.audit().measures["homogeneous_records"].value)


def _demo_summary(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield (
        f"k = {facts['k']} only",
        f"would reveal a confidential value of {facts['revealed_without_requirement']:,} of "
        f"{facts['records']:,} people, because everyone in their class has the same value",
    )
    yield (
        "this release",
        f"reveals {facts['revealed'] or 'none'}: each class has at least "
        f"{facts['require']['l_diversity']:g} values of each confidential column "
        "(--require l_diversity=2)",
    )
    yield (
        "information loss",
        f"{100 * facts['information_loss']:.2f} %, instead of "
        f"{100 * facts['information_loss_without_requirement']:.2f} % with k = {facts['k']} only",
    )
