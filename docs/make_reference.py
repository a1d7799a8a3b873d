"""Generate the reference from the code: docs/reference/*.md and the tables of docs/reference.md.

Run ``python docs/make_reference.py`` from the project's root; ``--check`` only reports whether the
pages are current. The site renders the Python page with mkdocstrings.
"""

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

from _commands import commands_page, commands_table
from _fields import files_page, json_schemas, manifest_table
from _pages import DOCS, fill, table, write_or_check

import microcell as mc
from microcell import sklearn as estimators
from microcell.errors import CODES
from microcell.findings import rules
from microcell.measures.registry import SECTIONS, measures
from microcell.methods import METHODS

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "microcell": tuple(name for name in mc.__all__ if not inspect.ismodule(getattr(mc, name))),
    "microcell.surveys": tuple(mc.surveys.__all__),
    "microcell.increments": tuple(mc.increments.__all__),
    "microcell.schema": ("load_run",),
    "microcell.plot": tuple(mc.plot.__all__),
    "microcell.report": ("certify", "guarantee", "render_risk"),
    "microcell.cells": tuple(mc.cells.__all__),
    "microcell.methods": ("METHODS", "Method", "Quantization", "power_cells"),
    "microcell.dask": ("DatasetRelease", "anonymize_dataset", "audit_dataset"),
    "microcell.locations": tuple(mc.locations.__all__),
    "microcell.sklearn": tuple(estimators.__all__),
    "microcell.errors": tuple(mc.errors.__all__),
}
"""The public names of each package."""

PYTHON_INTRODUCTION = """# Python reference

Signatures and docstrings of all public names. `import microcell as mc` gives the names of the first
section and the subpackages; `microcell.locations`, `microcell.dask` and `microcell.sklearn` need
their extras. This page lists the names for [the site](../index.md), which renders them.
"""


def main() -> None:
    """Write or check all pages of the reference."""
    write_or_check(reference_pages())


def reference_pages() -> dict[Path, str]:
    """Return every page of the reference with its text."""
    overview = DOCS / "reference.md"
    text = overview.read_text(encoding="utf-8")
    parts = {
        "commands": commands_table(),
        "python": python_table(),
        "methods": methods_table(),
        "measures": measures_table(),
        "findings": findings_table(),
        "errors": errors_table(),
        "codes": codes_table(),
        "manifest": manifest_table(),
    }
    for name, content in parts.items():
        text = fill(text, name, content)
    return {
        overview: text,
        DOCS / "explain" / "findings.md": findings_page(),
        DOCS / "reference" / "commands.md": commands_page(),
        DOCS / "reference" / "python.md": python_page(),
        DOCS / "reference" / "files.md": files_page(),
        **{DOCS / "reference" / name: text for name, text in json_schemas().items()},
    }


def python_page() -> str:
    """Return the page that mkdocstrings renders: a directive for each public name."""
    sections = [PYTHON_INTRODUCTION]
    for package, names in PACKAGES.items():
        sections.append(f"## {package}\n")
        sections += [f"::: {package}.{name}\n" for name in sorted(names, key=str.lower)]
    return "\n".join(sections)


def python_table() -> str:
    """Return the public names with the first sentence of their docstrings."""
    rows = [
        [f"`{package}.{name}`".replace("`microcell.", "`"), first_sentence(package, name)]
        for package, names in PACKAGES.items()
        if package != "microcell.errors"
        for name in sorted(names, key=str.lower)
    ]
    return table(["name", "meaning"], rows)


def first_sentence(package: str, name: str) -> str:
    """Return the first paragraph of an object's docstring, as one line without its full stop."""
    value = getattr(import_module(package), name)
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return f"{'A mapping' if hasattr(value, 'keys') else 'A tuple'} of {len(value)} entries"
    first = (inspect.getdoc(value) or "").split("\n\n")[0]
    return " ".join(first.split()).replace("``", "`").replace("<", "&lt;").rstrip(".")


def methods_table() -> str:
    """Return the registered methods and their properties."""
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
    header = [
        "method",
        "what it does",
        "cells",
        "cost",
        "dimensions",
        "random",
        "options (default)",
    ]
    return table(header, rows)


def measures_table() -> str:
    """Return every measure with its unit, direction and meaning, by section."""
    rows = []
    for name, item in measures().items():
        names = f"`{name}`" if item.scope == "table" else f"`{name}`, `{name}.COLUMN`"
        better = "lower" if item.lower_is_better else "higher"
        rows.append([names, item.label, item.unit, better, item.meaning, SECTIONS[item.section]])
    return table(["measure", "label", "unit", "better", "meaning", "section"], rows)


def findings_table() -> str:
    """Return every finding with its severity and title."""
    rows = [
        [f"[`{code}`](explain/findings.md#{anchor(code)})", item.severity, item.title]
        for code, item in rules().items()
    ]
    return table(["code", "severity", "finding"], rows)


def findings_page() -> str:
    """Return the page on findings, with one entry per code."""
    path = DOCS / "explain" / "findings.md"
    entries = [
        f"### `{code}`\n\n**{item.title}** ({item.severity}). {item.meaning}\n\n"
        f"What to do: {item.advice}\n"
        for code, item in rules().items()
    ]
    return fill(path.read_text(encoding="utf-8"), "findings", "\n".join(entries))


def anchor(heading: str) -> str:
    """Return the anchor of a heading on the site."""
    return heading.replace(".", "").lower()


def errors_table() -> str:
    """Return the exceptions in the order of their tree."""
    return table(["error", "when", "bases", "default code"], _error_rows())


def _error_rows() -> Iterator[list[str]]:
    for name in mc.errors.__all__:
        error = getattr(mc.errors, name)
        if isinstance(error, type):
            bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
            summary = first_sentence("microcell.errors", name)
            yield [f"`{name}`", summary, bases, f"`{error.default_code}`"]


def codes_table() -> str:
    """Return every error code and its meaning."""
    return table(["code", "meaning"], [[f"`{code}`", text] for code, text in CODES.items()])


if __name__ == "__main__":
    main()
