"""Writes the reference from the code: docs/reference/*.md, and the tables of docs/reference.md.

Run as ``python docs/make_reference.py`` from the project's root; ``--check`` only says whether the pages are current.
"""

import importlib
import importlib.util
import inspect
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from _commands import commands_page, commands_table
from _docstrings import describe, first_sentence
from _fields import files_page, manifest_table
from _pages import DOCS, fill, settle, table
from threadpoolctl import threadpool_limits

import microcell as mc
from microcell import errors
from microcell.measures.glossary import GLOSSARY, GROUPS
from microcell.methods import METHODS

SUBMODULES = ("microcell.sklearn", "microcell.locations")
"""Modules with public names that are not those of the package itself, for an extra that must be installed."""

SUBPACKAGES: Mapping[str, tuple[str, ...]] = {
    "cells": mc.cells.__all__,
    "dask": ("DatasetRelease", "anonymize_dataset", "audit_dataset"),
    "increments": mc.increments.__all__,
    "methods": ("METHODS", "Method", "Quantization", "power_cells"),
    "plot": mc.plot.__all__,
    "report": ("certify", "guarantee"),
    "surveys": mc.surveys.__all__,
}
"""The subpackages whose public names are listed after those of the package itself."""

PYTHON_TOP = """# Python names

Made from the code by `docs/make_reference.py`: signatures as they are in the source, and what the docstrings say.
`import microcell as mc` has all names but those of the last section, which need an extra.
"""


def main() -> None:
    """Write or check all pages of the reference."""
    settle(reference_pages())


def reference_pages() -> dict[Path, str]:
    """Every page of the reference with its text."""
    hub = DOCS / "reference.md"
    text = hub.read_text(encoding="utf-8")
    parts = {
        "commands": commands_table(),
        "python": python_table(),
        "methods": methods_table(),
        "measures": measures_table(),
        "errors": errors_table(),
        "manifest": manifest_table(),
    }
    for name, content in parts.items():
        text = fill(text, name, content)
    return {
        hub: text,
        DOCS / "reference" / "commands.md": commands_page(),
        DOCS / "reference" / "python.md": python_page(),
        DOCS / "reference" / "files.md": files_page(),
    }


def names_by_topic() -> dict[str, list[str]]:
    """The public names, as ``name`` or ``subpackage.name``, by heading."""
    names = [name for name in mc.__all__ if not inspect.ismodule(getattr(mc, name))]
    exceptions = [f"errors.{name}" for name in errors.__all__ if name != "CODES"]
    topics = {"microcell": names, "microcell.errors": exceptions}
    for package, members in SUBPACKAGES.items():
        topics[f"microcell.{package}"] = [f"{package}.{name}" for name in members]
    return {topic: sorted(names, key=str.lower) for topic, names in topics.items()}


def look_up(name: str) -> Any:
    """The object of that name."""
    return attrgetter(name)(mc)


def names_of_extras() -> Iterator[tuple[str, Any]]:
    """The public names of the submodules that are there."""
    for module in SUBMODULES:
        if importlib.util.find_spec(module) is not None:
            home = importlib.import_module(module)
            for name in sorted(getattr(home, "__all__", ()), key=str.lower):
                yield f"{module}.{name}", getattr(home, name)


def python_page() -> str:
    """All public names with their signatures and docstrings."""
    parts = [PYTHON_TOP]
    for topic, names in names_by_topic().items():
        parts += [f"## {topic}\n", *(describe(name, look_up(name)) for name in names)]
    parts += ["## With an extra\n", *(describe(name, value) for name, value in names_of_extras())]
    return "\n".join(parts)


def python_table() -> str:
    """The public names by topic, each with the first line of its docstring."""
    rows = [
        [f"`{name}`", first_sentence(look_up(name))]
        for topic, names in names_by_topic().items()
        if topic != "microcell.errors"
        for name in names
    ]
    return table(
        ["name", "what it is"],
        rows + [[f"`{name}`", first_sentence(value)] for name, value in names_of_extras()],
    )


def methods_table() -> str:
    """The registered methods and their facts."""
    rows = [
        [
            f"[`{name}`](methods/{name}.md)",
            method.summary,
            method.sizes,
            method.cost,
            method.dimensions,
            "yes" if method.randomized else "no",
            ", ".join(f"`{option}` ({default!r})" for option, default in method.options.items())
            or "none",
        ]
        for name, method in METHODS.items()
    ]
    return table(
        ["method", "what it does", "cells", "cost", "dimensions", "chance", "options (default)"],
        rows,
    )


def measures_table() -> str:
    """Every measure with its unit, its direction and its meaning, group by group."""
    found = measured()
    rows = []
    for group, heading in GROUPS.items():
        for name, entry in GLOSSARY.items():
            if entry.group == group:
                measure = found[name]
                shown = f"`{name}`" + (f", `{name}.COLUMN`" if f"{name}." in found else "")
                better = "less" if measure.lower_is_better else "more"
                rows.append([shown, measure.unit, better, f"{entry.definition}", heading])
    return table(["measure", "unit", "better", "meaning", "group"], rows)


def measured() -> dict[str, mc.Measure]:
    """A measure of every name, from the audit of a small release; ``NAME.`` is there if it is measured by column."""
    people, schema = mc.sample_survey(60), mc.sample_schema()
    release = mc.anonymize(people, schema, k=5, method="mdav")
    asked = {"manifest": release.manifest, "population": 1000, "target": "anti_tpo_grade"}
    with threadpool_limits(1):  # a task of sixty people is learned quickest alone
        found = mc.audit(people, release.table, schema, **asked).measures
    by_column = {
        f"{name.partition('.')[0]}.": measure for name, measure in found.items() if "." in name
    }
    return {**found, **by_column}


def errors_table() -> str:
    """The exceptions in the order of their tree."""
    rows = []
    for name in errors.__all__:
        kind = getattr(errors, name)
        if not isinstance(kind, type):
            continue
        parents = ", ".join(f"`{parent.__name__}`" for parent in kind.__bases__)
        rows.append([f"`{name}`", first_sentence(kind), parents])
    return table(["error", "when", "a kind of"], rows)


if __name__ == "__main__":
    main()
