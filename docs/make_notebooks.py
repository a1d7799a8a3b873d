"""Build the notebooks of docs/notebooks from the scripts next to them, with all outputs.

Run ``python docs/make_notebooks.py`` from the root of the project. A script consists of cells in
the "percent" format: ``# %% [markdown]`` starts a text in comments, ``# %%`` starts code. The
cells are run in order, in this process. Like Jupyter, this stores what they print, the value of
their last expression and the figures of pyplot.
"""

import ast
import base64
import json
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pandas as pd
from _pages import DOCS, write_or_check
from matplotlib import pyplot as plt

FOLDER = DOCS / "notebooks"
SCRIPTS = tuple(sorted(FOLDER.glob("*.py")))

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook: its type, "markdown" or "code", and its text."""

    cell_type: str
    source: str


def main() -> None:
    """Write or check all notebooks."""
    write_or_check({script.with_suffix(".ipynb"): build(script) for script in SCRIPTS})


def build(script: Path) -> str:
    """Run a script and return the notebook, as JSON."""
    cells = read_cells(script.read_text(encoding="utf-8"))
    results = iter(run([cell.source for cell in cells if cell.cell_type == "code"]))
    entries: list[dict[str, Any]] = []
    for number, cell in enumerate(cells, start=1):
        entry = {
            "cell_type": cell.cell_type,
            "id": f"cell-{number}",
            "metadata": {},
            "source": cell.source.splitlines(keepends=True),
        }
        if cell.cell_type == "code":
            entry["execution_count"] = number
            entry["outputs"] = [_numbered(output, number) for output in next(results)]
        entries.append(entry)
    notebook = {"cells": entries, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def read_cells(text: str) -> list[Cell]:
    r"""Split a script into its cells.

    Examples
    --------
    >>> read_cells("# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\n1 + 1\n")
    [Cell(cell_type='markdown', source='# Title\n\nText.'), Cell(cell_type='code', source='1 + 1')]
    """
    cells = []
    for part in f"\n{text}".split("\n# %%")[1:]:
        header, _, body = part.partition("\n")
        if header.strip() == "[markdown]":
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.splitlines()]
            cells.append(Cell("markdown", "\n".join(lines).strip()))
        else:
            cells.append(Cell("code", body.strip()))
    return cells


def run(sources: list[str]) -> list[list[dict[str, Any]]]:
    """Run cells in order, in an empty temporary directory, and return the outputs of each."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    plt.switch_backend("agg")  # no windows
    with (
        TemporaryDirectory() as folder,
        chdir(folder),
        pd.option_context("display.max_colwidth", 50),  # which notebooks may change
        plt.rc_context({"figure.dpi": 80, "figure.figsize": (6, 3.5)}),
        patch.object(plt, "show", return_value=None),  # the figures are collected after each cell
    ):
        return [list(run_cell(source, scope)) for source in sources]


def run_cell(source: str, scope: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run a cell and return its outputs.

    Examples
    --------
    >>> [output["output_type"] for output in run_cell("print(1); 2", {})]
    ['stream', 'execute_result']
    """
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), scope)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), scope)
    if printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())}
    if value is not None:
        yield {"output_type": "execute_result", "data": displays(value), "metadata": {}}
    for number in plt.get_fignums():
        yield {"output_type": "display_data", "data": _png(plt.figure(number)), "metadata": {}}
    plt.close("all")


def displays(value: Any) -> dict[str, Any]:
    """Return the displays of a value by MIME type, as Jupyter finds them."""
    shown: dict[str, Any] = {"text/plain": _lines(repr(value))}
    for name, kind in (("_repr_html_", "text/html"), ("_repr_svg_", "image/svg+xml")):
        text = getattr(value, name)() if hasattr(value, name) else None
        if text is not None:
            shown[kind] = _lines(text)
    return shown


def _png(figure: Any) -> dict[str, Any]:
    file = BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight", metadata={"Software": None})
    return {
        "image/png": base64.b64encode(file.getvalue()).decode(),
        "text/plain": _lines(f"<Figure with {len(figure.axes)} axes>"),
    }


def _numbered(output: dict[str, Any], number: int) -> dict[str, Any]:
    if output["output_type"] != "execute_result":
        return output
    return output | {"execution_count": number}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    main()
